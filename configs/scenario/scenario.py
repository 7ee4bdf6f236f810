"""A scenario of the simulator: classes, their networks, their input, what goes wrong. One YAML file.

`load_scenario` reads a preset by name or a file by path and refuses anything impossible before a run starts,
naming file, field, value and remedy. docs/scenarios.md describes every key.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from configs.base import Fraction, Name, NonNegative, Positive, Settings
from configs.classes.load_manager import LoadSettings
from configs.classes.policies import PolicyName
from configs.classes.priority_class import PriorityClass, Weight
from configs.classes.utility import Utility
from configs.errors import Contradiction, InvalidInput, UnknownName, nearest
from configs.scenario.arrivals import Arrivals
from configs.scenario.scenario_files import ScenarioData, scenario_data
from configs.yaml_loading import parse_model


class Costs(Settings):
    """The machine: what a call, a tuple, a turn and a decision cost in processor time."""

    call_us: NonNegative = 0.0
    """o of o + n·p: one call of an operator, whatever the train."""

    source_tuple_us: NonNegative = 0.0
    """p of the implicit source operator that takes a stream's tuples into the network."""

    turn_us: NonNegative = 0.0
    """Handing a lane from one class to the next."""

    decision_us: NonNegative = 0.0
    """Choosing the next operator."""

    look_us: NonNegative = 0.0
    """Computing and comparing one priority, by policies whose priorities grow with time."""


class SelectBox(Settings):
    """A filter: keeps a tuple or drops it."""

    kind: Literal["select"]
    selectivity: Fraction
    tuple_us: NonNegative
    call_us: NonNegative | None = None
    size_out: Positive = 1.0


class ProjectBox(Settings):
    """One tuple in, one out."""

    kind: Literal["project"]
    tuple_us: NonNegative
    call_us: NonNegative | None = None
    size_out: Positive = 1.0

    @property
    def selectivity(self) -> float:
        return 1.0


class LookupBox(Settings):
    """A join with a stored relation: on average `selectivity` matches a tuple, possibly more than one."""

    kind: Literal["lookup"]
    selectivity: NonNegative
    tuple_us: NonNegative
    call_us: NonNegative | None = None
    size_out: Positive = 1.0


class AggregateBox(Settings):
    """A sliding window aggregate by panes: `groups` results each slide."""

    kind: Literal["aggregate"]
    range_s: Positive
    slide_s: Positive
    groups: Annotated[int, Field(ge=1, le=100_000)] = 1
    tuple_us: NonNegative
    result_us: NonNegative = 0.0
    call_us: NonNegative | None = None
    size_out: Positive = 1.0

    @model_validator(mode="after")
    def slide_within_range(self) -> Self:
        if self.slide_s > self.range_s:
            raise Contradiction(
                f"must not exceed range_s, which is {self.range_s:g}: tuples between two windows would be in none",
                "slide_s",
                self.slide_s,
                "lower slide_s or raise range_s",
            )
        return self


class JoinBox(Settings):
    """A symmetric window join of two inputs; a pair within the window matches with `selectivity`."""

    kind: Literal["join"]
    window_s: Positive
    selectivity: Fraction
    tuple_us: NonNegative
    match_us: NonNegative = 0.0
    call_us: NonNegative | None = None
    size_out: Positive = 1.0


OperatorModel = Annotated[
    SelectBox | ProjectBox | LookupBox | AggregateBox | JoinBox, Field(discriminator="kind")
]


class QueryModel(Settings):
    """A query as a chain of operators over one stream, or over two that meet in its first operator, a join."""

    name: Name
    reads: tuple[Name, ...] = Field(min_length=1, max_length=2)
    operators: tuple[OperatorModel, ...] = Field(min_length=1, max_length=50)
    utility: Utility | None = None
    """What its answers are worth by their latency; the class's without it."""
    weight: Weight = 1.0
    """How much the freshness of its output counts beside others'."""

    @model_validator(mode="after")
    def join_has_two_inputs(self) -> Self:
        for place, operator in enumerate(self.operators):
            if operator.kind == "join" and place > 0:
                raise Contradiction(
                    f"in query {self.name} a join comes after another operator",
                    f"operators[{place}]",
                    hint="put the join first: it is where two streams meet",
                )
        if len(self.reads) == 1 and self.operators[0].kind == "join":
            raise Contradiction(
                f"query {self.name} joins, but reads only one stream",
                "reads",
                list(self.reads),
                "name two streams, or use a lookup to join with a stored relation",
            )
        if len(self.reads) == 2 and self.operators[0].kind != "join":
            raise Contradiction(
                f"query {self.name} reads two streams, but its first operator is no join",
                "operators[0].kind",
                self.operators[0].kind,
                "begin with a join, or make it two queries",
            )
        return self


class QueryNetwork(Settings):
    """Queries written out one by one."""

    kind: Literal["queries"] = "queries"
    queries: tuple[QueryModel, ...] = Field(min_length=1, max_length=10_000)

    @model_validator(mode="after")
    def names_differ(self) -> Self:
        names: set[str] = set()
        for place, query in enumerate(self.queries):
            if query.name in names:
                raise Contradiction(
                    "query names must differ", f"queries[{place}].name", query.name, "rename one of the two"
                )
            names.add(query.name)
        return self

    def streams(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(stream for query in self.queries for stream in query.reads))


class SharafNetwork(Settings):
    """Sharaf's testbed (§3.7): select, lookup and project with the same selectivity and cost within a query.

    The cost of an operator is K·2^i with i uniform among `cost_classes`; K follows from the class's
    `offered_load`. Selectivities are uniform in [selectivity_min, selectivity_max].
    """

    kind: Literal["sharaf"]
    queries: Annotated[int, Field(ge=1, le=10_000)] = 500
    cost_classes: Annotated[int, Field(ge=1, le=20)] = 5
    selectivity_min: Annotated[float, Field(gt=0, le=1)] = 0.1
    selectivity_max: Annotated[float, Field(gt=0, le=1)] = 1.0
    tuple_us: Positive = 10.0
    """K before it is scaled to the offered load."""

    inputs: Annotated[int, Field(ge=1, le=1000)] = 1
    """Streams that the queries are uniformly assigned to: `tuples`, or `tuples1`, `tuples2`, … if there are several."""

    @model_validator(mode="after")
    def selectivities_in_order(self) -> Self:
        if self.selectivity_min > self.selectivity_max:
            raise Contradiction(
                f"must not exceed selectivity_max, which is {self.selectivity_max:g}",
                "selectivity_min",
                self.selectivity_min,
                "lower selectivity_min or raise selectivity_max",
            )
        return self

    shared: Annotated[int, Field(ge=1, le=10_000)] = 1
    """So many queries, in random groups, share their select (§3.8.4)."""

    joins: bool = False
    """Whether queries are window joins of the streams `left` and `right`, each behind a select, instead of lookups (§3.8.1.12)."""

    drift_std: Positive | None = None
    """Standard deviation, in percent points, of data whose mean wanders from 50 to 150 in a run (§3.8.5).

    A query then keeps the values of a range of [0, 100] that lies anywhere. Without it data are uniform, as the selectivities are
    meant."""

    window_min_s: Positive = 1.0
    window_max_s: Positive = 10.0
    """Of joins; uniform between the two."""

    @model_validator(mode="after")
    def joins_stand_alone(self) -> Self:
        if self.window_min_s > self.window_max_s:
            raise Contradiction(
                f"must not exceed window_max_s, which is {self.window_max_s:g}",
                "window_min_s",
                self.window_min_s,
                "lower window_min_s or raise window_max_s",
            )
        for key in ("inputs", "shared"):
            if self.joins and getattr(self, key) > 1:
                raise Contradiction(
                    "joins have two streams, and operators of their own",
                    key,
                    getattr(self, key),
                    f"leave out {key} or joins",
                )
        return self

    def streams(self) -> tuple[str, ...]:
        if self.joins:
            return ("left", "right")
        return (
            ("tuples",) if self.inputs == 1 else tuple(f"tuples{number + 1}" for number in range(self.inputs))
        )


class OperatorBox(Settings):
    """One operator as it was measured, with those that it feeds by their places in the list."""

    name: Annotated[str, Field(min_length=1, max_length=1000)]
    feeds: tuple[int, ...] = ()
    stream: Name | None = None
    """Whose tuples it takes in; it has a queue of its own of them."""

    query: str = ""
    """Of one that feeds nobody: left out, it is a query of its own, called as the operator is."""
    selectivity: NonNegative = 1.0
    tuple_us: NonNegative
    call_us: NonNegative | None = None
    partner: int | None = None
    """The other side of a join."""

    utility: Utility | None = None
    """Of one that feeds nobody: what its answers are worth by their latency; left out, what those of its class are."""

    weight: Positive = 1.0
    """Of one that feeds nobody: how much the freshness of its output counts beside others'; of several queries with one output,
    all of it together."""

    slack_ms: Positive | None = None
    """Of one that feeds nobody: how long its answers may take before they are tardy; left out, they have no deadline."""

    believed_us: NonNegative | None = None
    believed_selectivity: NonNegative | None = None
    """What policies believe of a tuple's cost and of the selectivity, where that is not as it is; together, and as long as the
    scenario is not adaptive."""


class OperatorNetwork(Settings):
    """Operators one by one, shared ones once: a network as it runs, each with its measured cost and selectivity."""

    kind: Literal["operators"]
    operators: tuple[OperatorBox, ...] = Field(min_length=1, max_length=100_000)

    @model_validator(mode="after")
    def in_order(self) -> Self:
        size = len(self.operators)
        for place, box in enumerate(self.operators):
            if any(not place < below < size for below in box.feeds):
                raise Contradiction(
                    "an operator feeds such as come after it",
                    f"operators[{place}].feeds",
                    list(box.feeds),
                    "list operators so that each comes after those that feed it",
                )
            if box.partner is not None and (
                not 0 <= box.partner < size or self.operators[box.partner].partner != place
            ):
                raise Contradiction(
                    "the two sides of a join name each other",
                    f"operators[{place}].partner",
                    box.partner,
                    "give each the place of the other",
                )
        first: dict[str, OperatorBox] = {}
        for place, box in enumerate(self.operators):
            first_box = first.setdefault(box.query, box) if box.query and not box.feeds else box
            for key in ("utility", "weight", "slack_ms"):
                if getattr(first_box, key) != getattr(box, key):
                    raise Contradiction(
                        f"the answers of query {box.query} come of several operators, with another {key} of each",
                        f"operators[{place}].{key}",
                        getattr(box, key),
                        f"give all of them the same {key}, or names of different queries",
                    )
        fed = {below for operator in self.operators for below in operator.feeds}
        for place, box in enumerate(self.operators):
            if (box.stream is None) != (place in fed):
                raise Contradiction(
                    "an operator takes tuples either of a stream or from others",
                    f"operators[{place}].stream",
                    box.stream,
                    "name a stream, or let another operator feed it",
                )
        return self

    def streams(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(operator.stream for operator in self.operators if operator.stream is not None)
        )


NetworkModel = Annotated[QueryNetwork | SharafNetwork | OperatorNetwork, Field(discriminator="kind")]


class StreamInput(Settings):
    """What arrives on one stream of one class."""

    arrivals: Arrivals
    late_fraction: Fraction = 0.0
    """Part of the tuples whose window has gone by when they come."""

    keys: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Number of keys, for the victim `fair`; skewed by 1/rank."""


class SimulatedClass(PriorityClass):
    """A class with its network and its input."""

    network: Name
    streams: Mapping[Name, StreamInput]
    offered_load: Positive | None = None
    """Processors the input asks for at trains of `load_at_train`; scales the arrival rates (Sharaf: the costs)."""

    sources: Literal["last", "ranked"] = "last"
    """Whether source operators run only when nothing else has input, as they do live, or by the policy among the others, as in
    Aurora and MavStream."""


class HostDies(Settings):
    """The host of a class ends at `at_s` and is back `down_s` later."""

    kind: Literal["host_dies"]
    name: Name
    at_s: NonNegative
    down_s: Positive
    rebuild_ms: NonNegative = 0.0
    """Processor time to rebuild windows from retained input before the class runs again."""

    retained: bool = True
    """Whether input that was inside is delivered again; if not it has failed."""


class ReportsLost(Settings):
    """Load reports of a class do not reach the coordinator."""

    kind: Literal["reports_lost"]
    name: Name
    at_s: NonNegative
    for_s: Positive


class ReportsLate(Settings):
    """Load reports of a class reach the coordinator `delay_s` late."""

    kind: Literal["reports_late"]
    name: Name
    at_s: NonNegative
    for_s: Positive
    delay_s: Positive


class ClockJumps(Settings):
    """The clock that stamps and controls jumps, back or forward."""

    kind: Literal["clock_jumps"]
    at_s: NonNegative
    by_s: float


Fault = Annotated[HostDies | ReportsLost | ReportsLate | ClockJumps, Field(discriminator="kind")]


PolicyMetric = Literal[
    "response_ms.mean",
    "response_ms.max",
    "response_ms.l2",
    "slowdown.mean",
    "slowdown.max",
    "slowdown.l2",
    "utility.lost",
    "utility.missed_pct",
    "memory.mean",
    "memory.max",
    "staleness.mean",
    "tardiness.mean_ms",
]
"""By which level-2 policies are compared; of all of them less is better."""


class Claim(Settings):
    """What a paper found: under `policy` the metric is `by_pct` percent below what it is under the other."""

    metric: PolicyMetric
    policy: PolicyName
    below: PolicyName
    by_pct: Annotated[float, Field(gt=0, le=100)]
    source: str = ""


class Scenario(Settings):
    """One simulated run. `extends: NAME` in its file takes over another scenario and changes what it states."""

    kind: Literal["classes"] = "classes"
    name: Name
    description: str = ""
    seconds: Annotated[float, Field(gt=0, le=86_400)]
    drain: bool = False
    """Whether the run goes on after `seconds`, without new arrivals, until nothing is queued."""

    seed: Annotated[int, Field(ge=0)] = 1
    lanes: Annotated[int, Field(ge=1, le=256)] = 1
    round_ms: Positive = 10.0
    """k: processor time of one round of the weighted round robin."""

    train_max: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """Most tuples one operator call takes; keeps a step, and so an overrun, small."""

    queue_max: Annotated[int, Field(ge=1, le=100_000_000)] = 1_000_000
    """Tuples a stream's queue holds; what comes on top is rejected."""

    load_at_train: Annotated[int, Field(ge=1)] = 100
    """Train length at which `offered_load` is meant: a call is shared by this many tuples."""

    adaptive: bool = True
    """Whether costs and selectivities are measured, or taken from the model as they stand."""

    selection: Literal["random", "even"] = "random"
    """How operators choose: by a coin for every tuple, or evenly spread (every k-th)."""

    settles: bool = False
    """Whether answers are handed out when nothing is queued behind the sources, or for their query where a slice ends, as live;
    otherwise as they come."""

    costs: Costs = Costs()
    load: LoadSettings = LoadSettings()
    networks: Mapping[Name, NetworkModel] = Field(min_length=1)
    classes: tuple[SimulatedClass, ...] = Field(min_length=1, max_length=10_000)
    faults: tuple[Fault, ...] = ()
    claims: tuple[Claim, ...] = ()
    """Printed beside what came out, by `weir sim --policies`."""

    def original_shares(self) -> dict[str, float]:
        total = sum(class_.priority for class_ in self.classes)
        return {class_.name: class_.priority / total for class_ in self.classes}


def load_scenario(source: str) -> Scenario:
    """A preset by name, or a YAML file by path; InvalidInput if anything in it cannot be."""
    data = scenario_data(source)
    if data.kind != "classes":
        hint = "name a scenario of classes; `weir sim` runs either"
        raise InvalidInput("describes periodic queries, not classes", "kind", data.kind, hint, data.file)
    return checked_scenario(data)


def checked_scenario(found: ScenarioData) -> Scenario:
    """The model of a file's data; InvalidInput if anything in it cannot be."""
    scenario = parse_model(Scenario, found.data, found.file)
    for problem in contradictions(scenario):
        problem.file = found.file
        raise problem
    return scenario


def contradictions(scenario: Scenario) -> Iterator[InvalidInput]:
    """Relations between fields that single fields cannot see, each with the invariant in words."""
    yield from class_contradictions(scenario)
    yield from fault_contradictions(scenario)


def class_contradictions(scenario: Scenario) -> Iterator[InvalidInput]:
    names = [class_.name for class_ in scenario.classes]
    originals = scenario.original_shares()
    for place, class_ in enumerate(scenario.classes):
        at = f"classes[{place}]"
        if names.index(class_.name) != place:
            yield InvalidInput("class names must differ", f"{at}.name", class_.name, "rename one of the two")
            continue
        if class_.min_share > originals[class_.name] + 1e-12:
            yield InvalidInput(
                "a minimum share cannot exceed the original share",
                f"{at}.min_share",
                class_.min_share,
                f"priority {class_.priority:g} gives {originals[class_.name]:.3f}: raise the priority or lower min_share",
            )
        if class_.network not in scenario.networks:
            yield UnknownName(
                "no such network", f"{at}.network", class_.network, nearest(class_.network, scenario.networks)
            )
            continue
        yield from stream_contradictions(class_, scenario.networks[class_.network].streams(), at)


def stream_contradictions(class_: SimulatedClass, needed: Collection[str], at: str) -> Iterator[InvalidInput]:
    for stream in needed:
        if stream not in class_.streams:
            yield InvalidInput(
                f"the network reads stream {stream!r}, for which nothing arrives",
                f"{at}.streams",
                sorted(class_.streams),
                f"add {stream} with its arrivals",
            )
    for stream in class_.streams:
        if stream not in needed:
            yield UnknownName(
                "no query reads this stream", f"{at}.streams.{stream}", None, nearest(stream, needed)
            )
    for stream, stream_input in class_.streams.items():
        if not math.isfinite(stream_input.arrivals.mean_rate()) or stream_input.arrivals.mean_rate() <= 0:
            yield InvalidInput(
                "the mean arrival rate must be finite and above 0",
                f"{at}.streams.{stream}.arrivals",
                stream_input.arrivals.mean_rate(),
                "remove the stream or give it a rate",
            )


def fault_contradictions(scenario: Scenario) -> Iterator[InvalidInput]:
    names = [class_.name for class_ in scenario.classes]
    for place, fault in enumerate(scenario.faults):
        name = getattr(fault, "name", None)
        if name is not None and name not in names:
            yield UnknownName("no such class", f"faults[{place}].name", name, nearest(name, names))
        ranked = name in names and scenario.classes[names.index(name)].sources == "ranked"
        if ranked and isinstance(fault, HostDies) and not fault.retained:
            yield InvalidInput(
                "with ranked sources nobody knows how much is inside when a host is lost with its input",
                f"faults[{place}].retained",
                fault.retained,
                "leave the class's sources last, or let the input be retained",
            )
        if fault.at_s >= scenario.seconds:
            yield InvalidInput(
                "the fault would come after the end of the run",
                f"faults[{place}].at_s",
                fault.at_s,
                f"choose a time below seconds = {scenario.seconds:g}",
            )
