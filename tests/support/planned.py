"""Statistics of a simulated run in the form of a live system, and the situation from which an admission plan starts."""

from __future__ import annotations

from collections.abc import Sequence

from configs.classes.live_class import LiveSettings
from configs.scenario.scenario import Scenario
from engine.class_.explain import PlanLine
from scheduler.operators.network import Estimate
from scheduler.operators.statistics import OperatorStatistics
from sim.admission.planned_scenario import one_queue
from sim.admission.situation import ClassLoad, InputLoad, Situation
from sim.forecast.operator_costs import Cost, like, likes, measured, meet, stream_costs
from sim.run.networks import Box
from sim.run.simulated_host import SimulatedHost
from sim.simulation import Simulation

# Kinds of operators in the simulator, with the names of these kinds in plans made from SQL.
KINDS = {"aggregate": "panes", "join": "join.left", "lookup": "table"}


class Counting(OperatorStatistics):
    """Statistics of an operator, with counts of its tuples and calls."""

    def __init__(self, initial: Sequence[Estimate], adaptive: bool = True) -> None:
        super().__init__(initial, adaptive)
        self.tuples = [0] * len(initial)
        self.calls = [0] * len(initial)

    def observe(self, operator: int, tuples_in: int, tuples_out: float, cost_s: float) -> None:
        self.tuples[operator] += tuples_in
        self.calls[operator] += 1
        super().observe(operator, tuples_in, tuples_out, cost_s)


def watched(scenario: Scenario, manager: str = "dilos") -> tuple[Simulation, dict[str, Counting]]:
    """Run the scenario; return the run and the statistics of each class."""
    run = Simulation(scenario, manager)
    counted = {}
    for name, host in run.hosts.items():
        statistics = Counting(host.scheduler.statistics.estimates, scenario.adaptive)
        counted[name] = host.scheduler.statistics = statistics
    return run.run(), counted


def lines_of(host: SimulatedHost, counted: Counting) -> list[PlanLine]:
    return [
        PlanLine(
            number,
            kind(box),
            tuple(host.plan.downstream[number]),
            (box.query,),
            counted.tuples[number],
            1e6 * counted.estimates[number].cost_s,
            counted.estimates[number].selectivity,
            0.0,
            0,
            counted.calls[number],
        )
        for number, box in enumerate(host.plan.boxes)
    ]


def kind(box: Box) -> str:
    return box.name if box.model is None else KINDS.get(box.model.kind, box.model.kind)


def inputs(
    rates: dict[str, float], lines: Sequence[PlanLine], costs: Sequence[Cost]
) -> tuple[InputLoad, ...]:
    found = [
        InputLoad(rates[one.stream], one.tuple_s, one.call_s, one.answers, calls=one.operators)
        for one in stream_costs(lines, costs)
    ]
    return (one_queue(found),) if len(found) > 1 and meet(lines) else tuple(found)


def situation_without(scenario: Scenario, name: str) -> Situation:
    """Return the situation before class `name` is added.

    The situation has statistics of a run of the other classes, and the rates and kinds of operators of class `name`.
    """
    others = tuple(one for one in scenario.classes if one.name != name)
    run, counted = watched(scenario.model_copy(update={"classes": others}))
    known = {one: lines_of(run.hosts[one], counted[one]) for one in run.hosts}
    running = [
        ClassLoad(
            host.settings,
            inputs(
                {one.stream: one.ledger.offered / scenario.seconds for one in host.door.entries},
                known[one],
                [measured(line) for line in known[one]],
            ),
        )
        for one, host in run.hosts.items()
    ]
    new = next(one for one in scenario.classes if one.name == name)
    host = SimulatedHost(scenario, new, scenario.seed)
    lines = lines_of(host, Counting(host.plan.estimates(1, host.rates)))
    costs = likes(line for one in known.values() for line in one)
    planned = ClassLoad(new, inputs(host.rates, lines, [like(line, costs) for line in lines]))
    settings = LiveSettings(
        lanes=scenario.lanes, round_ms=scenario.round_ms, train_max=scenario.train_max, load=scenario.load
    )
    return Situation(scenario.lanes, settings, tuple(running), (planned,))
