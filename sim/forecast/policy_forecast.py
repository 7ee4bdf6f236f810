"""Forecasts of a class's objective under each policy, made by the simulator from measurements of the class.

    forecasts(now, policies, …)     one short run for each policy, with the same arrivals, random numbers and costs

The class runs alone, on a processor with the speed of the capacity that the class can really spend. Arrivals are those of
the class's last load cycles. Within a cycle, tuples arrive at random times, or in as many batches as were measured. If
there are too many cycles, the consecutive cycles with the most arrivals are used.

If there would be more than `STEPS_MAX` tuples at all operators together, a simulated tuple stands for a bundle of tuples; the
fixed costs of calls stay the same. A run continues until nothing is queued, so that leaving tuples unprocessed cannot
improve a policy's forecast. Equal measurements give equal forecasts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Protocol

from configs.classes.load_manager import LoadSettings
from configs.classes.objectives import Objective
from configs.classes.policies import PolicySettings, policy_text
from configs.classes.policy_and_plan import Choice
from configs.classes.utility import Utility, UtilityGraph
from configs.scenario.arrivals import TraceArrivals
from configs.scenario.scenario import OperatorBox, OperatorNetwork, Scenario, SimulatedClass, StreamInput
from engine.class_.explain import PlanLine
from engine.network.plan_alignment import RunningPlan
from loadshed.responses import ResponseStatistics
from scheduler.operators.network import Estimate, Network, ScheduledOperator
from scheduler.ratios import ratio
from sim.forecast.operator_costs import Cost, is_measured, kind_of, measured
from sim.run.rng import generator
from sim.run.simulated_answers import AnswerTotals
from sim.run.simulated_host import SimulatedHost

# Maximum number of processed tuples in one run, summed over all operators; such a run takes about half a second.
STEPS_MAX = 100_000
# Length of a run in simulated seconds; a run with too many tuples is shorter. Measured arrivals are repeated to fill the run.
SECONDS = 8.0
LEAST_SECONDS = 0.5
# Milliseconds between two samples of the queues, when the objective is memory.
LOOK_MS = 20.0
# Smallest speed of the simulated processor, in processors. A lower capacity would make costs meaningless.
LEAST_CAPACITY = 1e-3
ONE_CLASS = "class"
# Cost, close to 0, of an operator that the simulation adds to count the answers of one query.
ANSWERED = Cost(0.0, 1e-9)


@dataclass(frozen=True, slots=True)
class CycleArrivals:
    """Number of tuples and batches of one stream that arrived in one load cycle."""

    tuples: int
    batches: int = 0
    """Number of batches in which the tuples arrived; 0 if tuples arrived one by one."""


@dataclass(frozen=True, slots=True)
class TriedOperator:
    """Operator with its measurements; `feeds` has the numbers of the operators that get its output."""

    name: str
    feeds: tuple[int, ...]
    cost: Cost
    stream: str = ""
    """Stream from which the operator takes tuples; empty if other operators feed the operator."""
    partner: int | None = None
    utility: Utility | None = None
    """Points of the QoS graph of the operator's answers, if the operator emits answers."""
    weight: float = 1.0
    """Weight of the operator's query: how much the staleness of its answers counts."""
    slack_s: float | None = None
    """Seconds after which the operator's answers are tardy; None if answers have no deadline."""
    tells: float = 0.0
    """Number of calls without tuples to the operators that get its output, per input tuple; the selectivity includes such calls."""
    told: bool = False
    """True if the operator is called without tuples; its cost and selectivity are then per call, not per tuple."""
    believed: Estimate | None = None
    """Cost and selectivity that the class's policy uses, if they differ from the simulated cost and selectivity."""

    def in_bundles(self, bundle: float) -> Cost:
        """Return the cost of the operator if a simulated tuple stands for `bundle` tuples. The number of calls without
        tuples stays the same."""
        if self.told:
            return replace(self.cost, selectivity=self.cost.selectivity / bundle)
        selectivity = self.cost.selectivity + self.tells * (bundle - 1)
        return Cost(self.cost.call_s, self.cost.tuple_s * bundle, selectivity)


@dataclass(frozen=True)
class ClassNow:
    """Present state of a class, from which forecasts are made."""

    objective: Objective
    operators: tuple[TriedOperator, ...]
    arrivals: Mapping[str, tuple[CycleArrivals, ...]]
    """Arrivals of the last load cycles by stream, oldest first; the same number of cycles for each stream."""
    cycle_s: float
    capacity: float
    """Capacity that the class can really use, in processors."""
    train_max: int
    settles: bool = False
    """True if answers are held back until nothing is queued behind the sources, as in the live system."""
    running: RunningPlan | None = None
    """Current plan, from which equivalent plans are made; None if there is only one plan."""
    lines: tuple[PlanLine, ...] = ()
    """Measurements of the running operators."""
    before: Choice | None = None
    """Previous choice of policy and plan, which is also forecast for comparison."""
    steps: float = 0.0
    """Number of processed tuples per load cycle, summed over all operators, which determines the length of a run; 0:
    computed from `operators`."""

    @property
    def is_known(self) -> bool:
        """Return True if there are enough measurements to simulate the class."""
        streams = {operator.stream for operator in self.operators if operator.stream}
        came = {name for name, slots in self.arrivals.items() if any(slot.tuples for slot in slots)}
        if self.objective == "tardiness" and all(operator.slack_s is None for operator in self.operators):
            return False
        return bool(streams & came)


@dataclass(frozen=True, slots=True)
class ObjectiveFigures:
    """Figures from which the value of an objective is computed; None stands for a figure that is not known."""

    responses: ResponseStatistics
    queued: float
    """Mean number of queued tuples."""
    stale: float | None = None
    """Part of the time for which outputs were stale."""
    lost: float | None = None
    """Mean utility that answers lost by their response times."""
    tardy_ms: float | None = None
    """Mean time in milliseconds by which answers with deadlines missed their deadlines."""


class SimulatedRun(Protocol):
    """Run in virtual time: the part of `Simulation` that forecasts read."""

    now: float

    @property
    def scenario(self) -> Scenario: ...

    @property
    def hosts(self) -> Mapping[str, SimulatedHost]: ...


def quality(
    responses: ResponseStatistics, totals: AnswerTotals, queued: float, seconds: float
) -> ObjectiveFigures:
    """Return the figures for objectives from the answers of the last `seconds`."""
    return ObjectiveFigures(
        responses=responses,
        queued=queued,
        stale=totals.stale_s / seconds if seconds > 0 else None,
        lost=1 - ratio(totals.utility, totals.answers) if totals.answers else None,
        tardy_ms=1e3 * totals.tardy_s / totals.due if totals.due else None,
    )


# Function that runs a scenario to its end without load management, and calls its second argument after each load cycle.
Simulate = Callable[[Scenario, Callable[[SimulatedRun], None] | None], SimulatedRun]


def forecasts(now: ClassNow, policies: Sequence[PolicySettings], simulate: Simulate) -> dict[str, float]:
    """Return the forecast value of the objective for each policy, by the policy's text; empty without input."""
    if not now.is_known:
        return {}
    scenario, bundle = scenario_of(now)
    values = {}
    for policy in policies:
        class_ = scenario.classes[0].model_copy(update={"policy": policy})
        queues = Queues()
        look = queues.look if now.objective == "memory" else None
        ended = simulate(scenario.model_copy(update={"classes": (class_,)}), look)
        answers = ended.hosts[ONE_CLASS].answers
        whole = quality(answers.responses, answers.totals(), queues.mean * bundle, ended.now)
        value = objective_value(now.objective, whole)
        if value is not None:
            values[policy_text(policy)] = value
    return values


@dataclass
class Queues:
    """Observer that computes the mean number of queued tuples in a run, sampled at each load cycle while input arrives."""

    total: int = 0
    looks: int = 0

    def look(self, run: SimulatedRun) -> None:
        if run.now <= run.scenario.seconds:
            self.total += sum(host.queues.tuples() for host in run.hosts.values())
            self.looks += 1

    @property
    def mean(self) -> float:
        return self.total / self.looks if self.looks else 0.0


def objective_value(objective: Objective, seen: ObjectiveFigures) -> float | None:
    """Return the objective's value in the unit of `configs.classes.objectives` (less is better); None if not measurable.

    ℓ2 norms are per answer (root mean squares), so that more answers do not count as worse.
    """
    responses = seen.responses
    if objective != "memory" and not responses.count:
        return None
    response, slowdown = responses.response_ms(), responses.slowdown()
    each = math.sqrt(max(responses.count, 1))
    values: Mapping[Objective, float | None] = {
        "response": response["mean"],
        "slowdown": slowdown["mean"],
        "max-response": response["max"],
        "max-slowdown": slowdown["max"],
        "response-l2": response["l2"] / each,
        "slowdown-l2": slowdown["l2"] / each,
        "memory": seen.queued,
        "staleness": seen.stale,
        "utility": seen.lost,
        "tardiness": seen.tardy_ms,
    }
    return values[objective]


def scenario_of(now: ClassNow) -> tuple[Scenario, float]:
    """Return a scenario with only this class, and the number of real tuples for which a simulated tuple stands."""
    by_cycle = steps_by_cycle(now)
    # The run has SECONDS simulated seconds, or fewer if it would process too many tuples.
    of_cycle = now.steps or steps_of_cycle(now)
    cycles = max(1, round(SECONDS / now.cycle_s))
    length = max(min(cycles, int(STEPS_MAX / max(of_cycle, 1.0))), round(LEAST_SECONDS / now.cycle_s), 1)
    # The stretch of cycles is chosen by the number of arrivals, so that all plans are simulated with the same stretch.
    start = busiest_stretch([sum(came.values()) for came in came_by_cycle(now)], length)
    steps = sum(by_cycle[(start + place) % len(by_cycle)] for place in range(length))
    bundle = max(1.0, steps / STEPS_MAX)
    speed = max(now.capacity, LEAST_CAPACITY)
    costs = [operator.in_bundles(bundle) for operator in now.operators]
    read = sorted({operator.stream for operator in now.operators if operator.stream})
    names = {stream: f"s{number}" for number, stream in enumerate(read)}
    boxes = tuple(
        OperatorBox(
            name=operator.name,
            feeds=operator.feeds,
            stream=names.get(operator.stream),
            query=str(place),  # Names of operators are not unique: there may be many selects.
            selectivity=cost.selectivity,
            tuple_us=1e6 * cost.tuple_s / speed,
            call_us=1e6 * cost.call_s / speed,
            believed_us=None
            if operator.believed is None
            else 1e6 * operator.believed.cost_s * bundle / speed,
            believed_selectivity=None if operator.believed is None else operator.believed.selectivity,
            partner=operator.partner,
            utility=operator.utility,
            weight=operator.weight,
            slack_ms=None if operator.slack_s is None else 1e3 * operator.slack_s,
        )
        for place, (operator, cost) in enumerate(zip(now.operators, costs, strict=True))
    )
    streams = {}
    for name, simulated_name in names.items():
        times = times_of(now, name, start, length, bundle)
        streams[simulated_name] = StreamInput(arrivals=TraceArrivals(kind="trace", times_s=times))
    simulated = SimulatedClass(
        name=ONE_CLASS,
        priority=1,
        delay_target_ms=1000.0,
        network="network",
        streams=dict(sorted(streams.items())),
        train_max=max(1, round(now.train_max / bundle)),
    )
    scenario = Scenario(
        name="lookahead",
        seconds=length * now.cycle_s,
        drain=True,
        adaptive=False,
        settles=now.settles,
        queue_max=100_000_000,
        load=LoadSettings(cycle_ms=LOOK_MS if now.objective == "memory" else 1e3 * SECONDS),
        networks={"network": OperatorNetwork(kind="operators", operators=boxes)},
        classes=(simulated,),
    )
    return scenario, bundle


def steps_by_cycle(now: ClassNow) -> list[float]:
    """Return, for each load cycle, the number of tuples that all operators together process because of its arrivals."""
    steps = steps_a_tuple(now)
    return [sum(steps[name] * count for name, count in came.items()) for came in came_by_cycle(now)]


def steps_of_cycle(now: ClassNow) -> float:
    """Return the mean number of tuples per load cycle that all operators together process."""
    by_cycle = steps_by_cycle(now)
    return sum(by_cycle) / max(len(by_cycle), 1)


def came_by_cycle(now: ClassNow) -> list[dict[str, int]]:
    """Return the number of arrived tuples by stream, for each load cycle."""
    cycles = max(len(slots) for slots in now.arrivals.values())
    return [
        {name: slots[place].tuples for name, slots in now.arrivals.items() if place < len(slots)}
        for place in range(cycles)
    ]


def busiest_stretch(came: Sequence[float], length: int) -> int:
    """Return the first cycle of the busiest stretch: the `length` consecutive cycles with the most arrivals.

    The cycles form a ring: the first cycle follows the last. Policies differ mainly in bursts, which need not be recent. Among
    stretches with equally many arrivals, the stretch with the most arrivals in its first cycle is chosen, so that the effect
    of a burst lies within the run.
    """
    rest = length % len(came)
    upto = [0.0, *accumulate((*came, *came))]
    return max(range(len(came)), key=lambda one: (upto[one + rest] - upto[one], came[one], one))


def steps_a_tuple(now: ClassNow) -> dict[str, float]:
    """Return by stream the number of tuples that all operators together process because of one arriving tuple."""
    # If every operator costs 1 per tuple, the cost of a source's segment is the number of tuples that all its operators process.
    network = Network(
        tuple(
            ScheduledOperator(operator.name, operator.feeds, bool(operator.stream))
            for operator in now.operators
        )
    )
    segments = network.segments([Estimate(1.0, operator.cost.selectivity) for operator in now.operators])
    steps = dict.fromkeys(now.arrivals, 0.0)
    for operator, segment in zip(now.operators, segments, strict=True):
        if operator.stream:
            steps[operator.stream] = steps.get(operator.stream, 0.0) + segment.cost_s
    return steps


def times_of(now: ClassNow, stream: str, start: int, length: int, bundle: float) -> tuple[float, ...]:
    """Return the arrival times of bundles in `length` cycles, beginning with cycle `start`; measured cycles are repeated if needed."""
    slots, chance = now.arrivals.get(stream, ()), generator(1, "lookahead", stream)
    times: list[float] = []
    owed = chance.random()
    for place in range(length if slots else 0):
        slot = slots[(start + place) % len(slots)]
        owed += slot.tuples / bundle
        count, owed = int(owed), owed % 1
        begin = place * now.cycle_s
        moments = [begin + now.cycle_s * chance.random() for _ in range(slot.batches or count)]
        times += [moments[number % len(moments)] for number in range(count)] if moments else []
    # A trace must have at least one arrival, so a stream without input gets one arrival after the end of the run.
    return tuple(sorted(times)) or (2 * length * now.cycle_s,)


def tried_operators(
    lines: Sequence[PlanLine],
    graphs: Sequence[UtilityGraph | None] = (),
    weights: Sequence[float] = (),
    slacks: Sequence[float | None] = (),
) -> tuple[TriedOperator, ...]:
    """Return the operators as measured; `graphs`, `weights` and `slacks` have the values of operators with answers, by operator number.

    Panes call their window without tuples when event time reaches the end of the window. Each such call is simulated as one
    tuple.
    """
    operators: list[TriedOperator] = []
    partners = joined(lines)
    points = dict(enumerate(None if graph is None else graph.points for graph in graphs))
    weighs, slack_s = dict(enumerate(weights)), dict(enumerate(slacks))
    for line in lines:
        cost = measured(line) if is_measured(line) else Cost(0.0, 1e-6 * line.cost_us, line.selectivity)
        panes = [lines[below] for below in line.feeds if is_told(lines[below])]
        tells = max((below.calls for below in panes), default=0) / line.tuples if line.tuples else 0.0
        cost = replace(cost, selectivity=cost.selectivity + tells)
        if is_told(line):
            cost = Cost(0.0, 1e-6 * line.cost_us, line.selectivity)
        is_source = kind_of(line) == "source"
        operators.append(
            TriedOperator(
                name=line.name,
                feeds=line.feeds,
                cost=cost,
                stream=line.name.partition(":")[2].lower() if is_source else "",
                partner=partners.get(line.number),
                utility=points.get(line.number),
                weight=weighs.get(line.number, 1.0),
                slack_s=slack_s.get(line.number),
                tells=tells,
                told=is_told(line),
                believed=Estimate(1e-6 * line.cost_us, line.selectivity),
            )
        )
    return tuple(operators)


def with_answers(
    operators: Sequence[TriedOperator],
    outputs: Sequence[Sequence[str]],
    graphs: Mapping[str, UtilityGraph],
    weights: Mapping[str, float],
) -> tuple[TriedOperator, ...]:
    """Return the operators, extended so that each query has a root of its own, at which its answers are counted.

    An operator that answers several queries, or that also feeds operators, gets one added operator per query. The added operators
    cost almost nothing. `outputs` has the names of the queries that each operator answers, by operator number.
    """
    extended = list(operators)
    for number, queries in enumerate(outputs):
        operator = operators[number]
        if not queries or (len(queries) == 1 and not operator.feeds):
            continue
        ends = range(len(extended), len(extended) + len(queries))
        extended[number] = replace(
            operator, feeds=(*operator.feeds, *ends), utility=None, weight=1.0, slack_s=None
        )
        for query in queries:
            points = graph.points if (graph := graphs.get(query)) else None
            extended.append(
                TriedOperator(
                    "answers",
                    (),
                    ANSWERED,
                    utility=points,
                    weight=weights.get(query, 1.0),
                    slack_s=operator.slack_s,
                )
            )
    return tuple(extended)


def is_told(line: PlanLine) -> bool:
    """Return True if the operator was called without tuples, because event time has advanced."""
    return line.tuples == 0 and line.calls > 0


def joined(lines: Sequence[PlanLine]) -> dict[int, int]:
    """Return, for each operator that is one side of a join, the number of the operator that is the other side.

    The two sides of a join have consecutive numbers and feed the same operators.
    """
    partners: dict[int, int] = {}
    for left, right in pairwise(lines):
        sides = kind_of(left).endswith(".left") and kind_of(right).endswith(".right")
        if sides and (left.feeds, left.queries) == (right.feeds, right.queries):
            partners |= {left.number: right.number, right.number: left.number}
    return partners
