"""What a class's objective would come to under each policy: the simulator, fed with what was measured of the class.

    forecasts(now, policies, …)     a short run for each, of the same arrivals, choices and costs

The class is alone, on a processor as fast as what it can really spend. Arrivals are those of its last load cycles, spread
within a cycle by chance or, if they came in batches, at as many moments; if these are too many, those of the busiest stretch. A simulated tuple is a bundle, where there would
be more than `STEPS_MAX` tuples at all operators together; costs of calls stay what they are. A run goes on until nothing is
queued: a policy that lets some starve gains nothing by it. The same class gives the same forecasts.
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

# Tuples at all operators together, in one run: some half second of work.
STEPS_MAX = 100_000
# So much time is simulated, if it takes no more steps; what was seen is repeated until then.
SECONDS = 8.0
LEAST_SECONDS = 0.5
# How often queues are looked at, in a run whose objective is memory.
LOOK_MS = 20.0
# Costs are those of a processor that the class has for itself; of less than this nothing can be told.
LEAST_CAPACITY = 1e-3
ONE_CLASS = "class"
# Of those who take answers and do nothing else.
ANSWERED = Cost(0.0, 1e-9)


@dataclass(frozen=True, slots=True)
class CycleArrivals:
    """Of one stream in one load cycle."""

    tuples: int
    batches: int = 0
    """In which they came; 0: one by one."""


@dataclass(frozen=True, slots=True)
class TriedOperator:
    """An operator that feeds others by their places, with what was measured of it."""

    name: str
    feeds: tuple[int, ...]
    cost: Cost
    stream: str = ""
    """Whose tuples it takes in; empty if others feed it."""
    partner: int | None = None
    utility: Utility | None = None
    """What answers are worth, if it gives some."""
    weight: float = 1.0
    """How much it counts that they are fresh."""
    slack_s: float | None = None
    """How long answers may take before they are tardy, if they have a deadline."""
    tells: float = 0.0
    """Of its selectivity, how often it calls those that it feeds without a tuple."""
    told: bool = False
    """Whether it is called so; its cost and its selectivity are those of a call."""
    believed: Estimate | None = None
    """What the class's policy goes by; of who is told without a tuple it knows less than is simulated."""

    def in_bundles(self, bundle: float) -> Cost:
        """Where a tuple stands for so many. Calls without tuples are as many as they are: a window ends once."""
        if self.told:
            return replace(self.cost, selectivity=self.cost.selectivity / bundle)
        selectivity = self.cost.selectivity + self.tells * (bundle - 1)
        return Cost(self.cost.call_s, self.cost.tuple_s * bundle, selectivity)


@dataclass(frozen=True)
class ClassNow:
    """A class as it is."""

    objective: Objective
    operators: tuple[TriedOperator, ...]
    arrivals: Mapping[str, tuple[CycleArrivals, ...]]
    """By stream, of its last load cycles, oldest first; as many of each."""
    cycle_s: float
    capacity: float
    """Processors that it can spend."""
    train_max: int
    settles: bool = False
    """Whether answers are handed out when nothing is queued behind the sources, as live."""
    running: RunningPlan | None = None
    """What plans of its queries are made from; None where there are none."""
    lines: tuple[PlanLine, ...] = ()
    """Of what runs."""
    before: Choice | None = None
    """What it ran by before, to be told which was better."""
    steps: float = 0.0
    """Tuples at all operators in a load cycle, by which it is said how long a run is; 0: those of its own."""

    @property
    def is_known(self) -> bool:
        """Whether there is something to simulate."""
        streams = {operator.stream for operator in self.operators if operator.stream}
        came = {name for name, slots in self.arrivals.items() if any(slot.tuples for slot in slots)}
        if self.objective == "tardiness" and all(operator.slack_s is None for operator in self.operators):
            return False
        return bool(streams & came)


@dataclass(frozen=True, slots=True)
class ObjectiveFigures:
    """All that an objective is measured by, over some time; None where nothing is known of it."""

    responses: ResponseStatistics
    queued: float
    """Tuples, on the mean."""
    stale: float | None = None
    """Part of the time for which outputs were behind what had arrived for them."""
    lost: float | None = None
    """Utility that an answer lost to its latency, on the mean."""
    tardy_ms: float | None = None
    """Time by which an answer missed its deadline, on the mean of those that have one."""


class SimulatedRun(Protocol):
    """A run in virtual time, as far as it is looked at here."""

    now: float

    @property
    def scenario(self) -> Scenario: ...

    @property
    def hosts(self) -> Mapping[str, SimulatedHost]: ...


def quality(
    responses: ResponseStatistics, totals: AnswerTotals, queued: float, seconds: float
) -> ObjectiveFigures:
    """Return the figures of an objective from the answers within this time."""
    return ObjectiveFigures(
        responses=responses,
        queued=queued,
        stale=totals.stale_s / seconds if seconds > 0 else None,
        lost=1 - ratio(totals.utility, totals.answers) if totals.answers else None,
        tardy_ms=1e3 * totals.tardy_s / totals.due if totals.due else None,
    )


# A run to its end, without load management; whom to show each load cycle.
Simulate = Callable[[Scenario, Callable[[SimulatedRun], None] | None], SimulatedRun]


def forecasts(now: ClassNow, policies: Sequence[PolicySettings], simulate: Simulate) -> dict[str, float]:
    """What the objective comes to under each policy, by its name; none if nothing comes in."""
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
    """What is queued in a run, as seen at each load cycle while input comes."""

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
    """In the unit of `configs.classes.objectives`, less is better; None without answers, or where nothing can be measured.

    ℓ2 norms are those of one answer (root mean squares), so that more answers are not worse ones.
    """
    if objective == "memory":
        return seen.queued
    if not (responses := seen.responses).count:
        return None
    response, slowdown = responses.response_ms(), responses.slowdown()
    each = math.sqrt(responses.count)
    match objective:
        case "response":
            return response["mean"]
        case "max-response":
            return response["max"]
        case "response-l2":
            return response["l2"] / each
        case "slowdown":
            return slowdown["mean"]
        case "max-slowdown":
            return slowdown["max"]
        case "slowdown-l2":
            return slowdown["l2"] / each
        case "staleness":
            return seen.stale
        case "utility":
            return seen.lost
        case "tardiness":
            return seen.tardy_ms


# -- the run -----------------------------------------------------------------------------------------------------


def scenario_of(now: ClassNow) -> tuple[Scenario, float]:
    """The class alone, and how many tuples a simulated one stands for."""
    by_cycle = steps_by_cycle(now)
    # As many cycles as make the time that is simulated; if those are too many steps, fewer.
    of_cycle = now.steps or steps_of_cycle(now)
    cycles = max(1, round(SECONDS / now.cycle_s))
    length = max(min(cycles, int(STEPS_MAX / max(of_cycle, 1.0))), round(LEAST_SECONDS / now.cycle_s), 1)
    # By what came, so that it is the same for all plans.
    start = busiest_stretch([sum(came.values()) for came in came_by_cycle(now)], length)
    steps = sum(by_cycle[(start + place) % len(by_cycle)] for place in range(length))
    bundle = max(1.0, steps / STEPS_MAX)
    speed = max(now.capacity, LEAST_CAPACITY)
    costs = [operator.in_bundles(bundle) for operator in now.operators]
    boxes = tuple(
        OperatorBox(
            name=operator.name,
            feeds=operator.feeds,
            stream=stream_name(number_of(now, operator.stream)) if operator.stream else None,
            query=str(place),  # names are not told apart: there may be many selects
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
    for name in {operator.stream for operator in now.operators if operator.stream}:
        times = times_of(now, name, start, length, bundle)
        streams[stream_name(number_of(now, name))] = StreamInput(
            arrivals=TraceArrivals(kind="trace", times_s=times)
        )
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


def number_of(now: ClassNow, stream: str) -> int:
    return sorted({operator.stream for operator in now.operators if operator.stream}).index(stream)


def stream_name(number: int) -> str:
    return f"s{number}"


def steps_by_cycle(now: ClassNow) -> list[float]:
    """Tuples at all operators together, for what came in each load cycle."""
    steps = steps_a_tuple(now)
    return [sum(steps[name] * count for name, count in came.items()) for came in came_by_cycle(now)]


def steps_of_cycle(now: ClassNow) -> float:
    """The same on the mean."""
    by_cycle = steps_by_cycle(now)
    return sum(by_cycle) / max(len(by_cycle), 1)


def came_by_cycle(now: ClassNow) -> list[dict[str, int]]:
    """Tuples by stream."""
    cycles = max(len(slots) for slots in now.arrivals.values())
    return [
        {name: slots[place].tuples for name, slots in now.arrivals.items() if place < len(slots)}
        for place in range(cycles)
    ]


def busiest_stretch(came: Sequence[float], length: int) -> int:
    """Where so many cycles in a row begin in which most came, after the last one the first again. A burst is what policies differ
    in, and it need not have come last. Of several that one which begins with most, so that what is left of a burst is seen."""
    rest = length % len(came)
    upto = [0.0, *accumulate((*came, *came))]
    return max(range(len(came)), key=lambda one: (upto[one + rest] - upto[one], came[one], one))


def steps_a_tuple(now: ClassNow) -> dict[str, float]:
    """By stream, how many tuples there are at all operators for one that comes in."""
    # Of a network in which a tuple costs one step everywhere, that is what a segment costs.
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
    """When bundles come: what was seen from that cycle on, from its beginning again where it is too short."""
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
    # A stream of which nothing was seen says so after the end.
    return tuple(sorted(times)) or (2 * length * now.cycle_s,)


# -- from operators that run -------------------------------------------------------------------------------------


def tried_operators(
    lines: Sequence[PlanLine],
    graphs: Sequence[UtilityGraph | None] = (),
    weights: Sequence[float] = (),
    slacks: Sequence[float | None] = (),
) -> tuple[TriedOperator, ...]:
    """As they are measured, with graphs, weights and slacks of those that give answers, by their places. A window is told by its
    panes that time has come: that has no tuples, only calls, so panes are taken to give it one tuple a call."""
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
    """Where an operator gives the answers of several queries, or feeds others as well, each query's are counted by themselves:
    what takes them costs next to nothing. `outputs` are the queries of each operator, by its place."""
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
    """Whether it is called without tuples."""
    return line.tuples == 0 and line.calls > 0


def joined(lines: Sequence[PlanLine]) -> dict[int, int]:
    """The other side of each side of a join: they come one after the other, and feed the same."""
    partners: dict[int, int] = {}
    for left, right in pairwise(lines):
        sides = kind_of(left).endswith(".left") and kind_of(right).endswith(".right")
        if sides and (left.feeds, left.queries) == (right.feeds, right.queries):
            partners |= {left.number: right.number, right.number: left.number}
    return partners
