"""Scenario of the simulator in one YAML file: classes, their operator networks, their input, and faults.

`load_scenario` reads a preset by name or a file by path. `load_scenario` refuses invalid settings before a run starts; the
error has file, field, value and remedy. docs/scenarios.md describes every key.
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
from configs.scenario.arrivals import Arrivals, Stalls
from configs.scenario.cost_drift import CostDrift
from configs.scenario.field_checks import check_in_order, check_names_differ, check_slide
from configs.scenario.scenario_files import ScenarioData, checked, scenario_data


class Costs(Settings):
    """Costs of the simulated machine: processor time in µs of calls, tuples, turns and decisions."""

    call_us: NonNegative = 0.0
    """Fixed cost of one call of an operator, whatever the number of tuples: `o` in the cost o + n·p."""

    source_tuple_us: NonNegative = 0.0
    """Cost per tuple of source operators, which take a stream's tuples into the network: `p` in the cost o + n·p."""

    turn_us: NonNegative = 0.0
    """Cost of handing a lane from one class to the next."""

    decision_us: NonNegative = 0.0
    """Cost of a scheduling decision, which chooses the next operator."""

    look_us: NonNegative = 0.0
    """Cost of computing and comparing one priority, for policies with priorities that grow with time."""


class BoxSettings(Settings):
    """Settings that all operators of queries have."""

    call_us: NonNegative | None = None
    size_out: Positive = 1.0
    cost_drift: CostDrift = ()
    """Steps and ramps of the operator's cost over time."""


class SelectBox(BoxSettings):
    """Filter, which keeps or drops each tuple."""

    kind: Literal["select"]
    selectivity: Fraction
    tuple_us: NonNegative


class ProjectBox(BoxSettings):
    """Projection, which emits one tuple for each input tuple."""

    kind: Literal["project"]
    tuple_us: NonNegative

    @property
    def selectivity(self) -> float:
        return 1.0


class LookupBox(BoxSettings):
    """Join with a stored relation; `selectivity` is the mean number of matches per tuple, and may exceed 1."""

    kind: Literal["lookup"]
    selectivity: NonNegative
    tuple_us: NonNegative


class AggregateBox(BoxSettings):
    """Sliding-window aggregate over panes, with `groups` results at each slide."""

    kind: Literal["aggregate"]
    range_s: Positive
    slide_s: Positive
    groups: Annotated[int, Field(ge=1, le=100_000)] = 1
    tuple_us: NonNegative
    result_us: NonNegative = 0.0

    @model_validator(mode="after")
    def slide_within_range(self) -> Self:
        check_slide(self)
        return self


class JoinBox(BoxSettings):
    """Symmetric window join of two inputs; `selectivity` is the probability that a pair within the window matches."""

    kind: Literal["join"]
    window_s: Positive
    selectivity: Fraction
    tuple_us: NonNegative
    match_us: NonNegative = 0.0


OperatorModel = Annotated[
    SelectBox | ProjectBox | LookupBox | AggregateBox | JoinBox, Field(discriminator="kind")
]


class QueryModel(Settings):
    """Query: a chain of operators over one stream, or over two streams if its first operator is a join."""

    name: Name
    reads: tuple[Name, ...] = Field(min_length=1, max_length=2)
    operators: tuple[OperatorModel, ...] = Field(min_length=1, max_length=50)
    utility: Utility | None = None
    """Utility of the query's answers by response time. Default: the class's utility."""
    weight: Weight = 1.0
    """Weight of the freshness of the query's output compared with other queries."""
    cost_drift: CostDrift = ()
    """Steps and ramps of the cost of all operators of the query, on top of the operators' own drifts."""

    @model_validator(mode="after")
    def join_has_two_inputs(self) -> Self:
        for place, operator in enumerate(self.operators):
            if operator.kind == "join" and place > 0:
                title = f"query {self.name} has a join after another operator"
                hint = "make the join the first operator"
                raise Contradiction(title, f"operators[{place}]", hint=hint)
        if len(self.reads) == 1 and self.operators[0].kind == "join":
            title = f"query {self.name} joins, but reads only one stream"
            hint = "name two streams, or use a lookup to join with a stored relation"
            raise Contradiction(title, "reads", list(self.reads), hint)
        if len(self.reads) == 2 and self.operators[0].kind != "join":
            title = f"query {self.name} reads two streams, but its first operator is not a join"
            hint = "begin with a join, or write two queries"
            raise Contradiction(title, "operators[0].kind", self.operators[0].kind, hint)
        return self


class QueryNetwork(Settings):
    """Network of queries that are listed one by one."""

    kind: Literal["queries"] = "queries"
    queries: tuple[QueryModel, ...] = Field(min_length=1, max_length=10_000)

    @model_validator(mode="after")
    def names_differ(self) -> Self:
        check_names_differ(self.queries)
        return self

    def streams(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(stream for query in self.queries for stream in query.reads))


class SharafNetwork(Settings):
    """Network of Sharaf's testbed (§3.7): each query is a select, a lookup and a project with equal selectivity and cost.

    The cost of an operator is a factor K times 2^i, where i is a random number below `cost_classes`. K follows from the class's
    `offered_load`. Selectivities are drawn uniformly from [selectivity_min, selectivity_max].
    """

    kind: Literal["sharaf"]
    queries: Annotated[int, Field(ge=1, le=10_000)] = 500
    cost_classes: Annotated[int, Field(ge=1, le=20)] = 5
    selectivity_min: Annotated[float, Field(gt=0, le=1)] = 0.1
    selectivity_max: Annotated[float, Field(gt=0, le=1)] = 1.0
    tuple_us: Positive = 10.0
    """Cost K in µs before it is scaled to the offered load."""

    inputs: Annotated[int, Field(ge=1, le=1000)] = 1
    """Number of streams, to which queries are assigned uniformly: `tuples`, or `tuples1`, `tuples2`, … if there are several."""

    shared: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of queries that share one select; the queries of a group are chosen at random (§3.8.4)."""

    joins: bool = False
    """Use window joins of the streams `left` and `right`, each behind a select, instead of lookups (§3.8.1.12)."""

    drift_std: Positive | None = None
    """Standard deviation, in percentage points, of data with a mean that drifts from 50 to 150 during a run (§3.8.5).

    A query then keeps values within a random part of the range [0, 100]. If `drift_std` is left out, data are uniform, so that
    selectivities are as declared."""

    window_min_s: Positive = 1.0
    window_max_s: Positive = 10.0
    """Longest window of a join; lengths are uniform between `window_min_s` and `window_max_s`."""

    @model_validator(mode="after")
    def joins_stand_alone(self) -> Self:
        check_in_order(self, "selectivity_min", "selectivity_max")
        check_in_order(self, "window_min_s", "window_max_s")
        for key in ("inputs", "shared"):
            if self.joins and getattr(self, key) > 1:
                hint = f"leave out {key} or joins"
                raise Contradiction(f"{key} cannot be combined with joins", key, getattr(self, key), hint)
        return self

    def streams(self) -> tuple[str, ...]:
        if self.joins:
            return ("left", "right")
        return (
            ("tuples",) if self.inputs == 1 else tuple(f"tuples{number + 1}" for number in range(self.inputs))
        )


class OperatorBox(Settings):
    """Operator with measured costs; `feeds` has the list positions of the operators that get its output."""

    name: Annotated[str, Field(min_length=1, max_length=1000)]
    feeds: tuple[int, ...] = ()
    stream: Name | None = None
    """Stream that the operator reads, through a queue of its own; left out if other operators feed the operator."""

    query: str = ""
    """Query that an operator without `feeds` answers. Default: a query with the name of the operator."""
    selectivity: NonNegative = 1.0
    tuple_us: NonNegative
    call_us: NonNegative | None = None
    cost_drift: CostDrift = ()
    """Steps and ramps of the operator's cost over time."""

    partner: int | None = None
    """List position of the operator that is the other side of the same join."""

    utility: Utility | None = None
    """Utility by response time, for the answers of an operator without `feeds`. Default: the class's utility."""

    weight: Positive = 1.0
    """Weight of the freshness of an operator's answers, compared with other operators without `feeds`; if several queries
    have this output, the sum of the weights of the queries."""

    slack_ms: Positive | None = None
    """Time in ms after which answers of an operator without `feeds` are tardy. If left out, answers have no deadline."""

    believed_us: NonNegative | None = None
    believed_selectivity: NonNegative | None = None
    """Estimates of cost and selectivity that policies use instead of the true values. Give `believed_us` together with
    `believed_selectivity`; the estimates apply only if the scenario is not adaptive."""


class OperatorNetwork(Settings):
    """Network of a running class: each operator is listed once, with its measured cost and selectivity."""

    kind: Literal["operators"]
    operators: tuple[OperatorBox, ...] = Field(min_length=1, max_length=100_000)

    @model_validator(mode="after")
    def in_order(self) -> Self:
        size = len(self.operators)
        for place, box in enumerate(self.operators):
            if any(not place < below < size for below in box.feeds):
                title = "an operator can feed only operators that come after it in the list"
                hint = "list each operator after the operators that feed it"
                raise Contradiction(title, f"operators[{place}].feeds", list(box.feeds), hint)
            if box.partner is not None and (
                not 0 <= box.partner < size or self.operators[box.partner].partner != place
            ):
                title = "partner must be an operator that names this operator as its partner"
                hint = "give each side of the join the place of the other side"
                raise Contradiction(title, f"operators[{place}].partner", box.partner, hint)
        first: dict[str, OperatorBox] = {}
        for place, box in enumerate(self.operators):
            first_box = first.setdefault(box.query, box) if box.query and not box.feeds else box
            for key in ("utility", "weight", "slack_ms"):
                if getattr(first_box, key) != getattr(box, key):
                    title = f"several operators answer query {box.query}, but their {key} differs"
                    hint = f"give all of these operators the same {key}, or different query names"
                    raise Contradiction(title, f"operators[{place}].{key}", getattr(box, key), hint)
        fed = {below for operator in self.operators for below in operator.feeds}
        for place, box in enumerate(self.operators):
            if (box.stream is None) != (place in fed):
                title = "an operator must either read a stream or be fed by other operators, and not both"
                hint = "give `stream:`, or list the operator in `feeds:` of another operator"
                raise Contradiction(title, f"operators[{place}].stream", box.stream, hint)
        return self

    def streams(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(operator.stream for operator in self.operators if operator.stream is not None)
        )


NetworkModel = Annotated[QueryNetwork | SharafNetwork | OperatorNetwork, Field(discriminator="kind")]


class StreamInput(Settings):
    """Input of a class on one stream: arrivals, stalls, late tuples and keys."""

    arrivals: Arrivals
    stalls: Stalls = ()
    """Times in which the stream is silent, in the order of time."""

    late_fraction: Fraction = 0.0
    """Fraction of the tuples that arrive after their window has closed."""

    keys: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Number of keys, for `victim: fair`; the key of rank n occurs with a frequency proportional to 1/n."""

    @model_validator(mode="after")
    def catches_up(self) -> Self:
        rate = self.arrivals.mean_rate()
        for place, stall in enumerate(self.stalls):
            if stall.catch_up_rate is not None and stall.catch_up_rate <= rate:
                title = f"a producer catches up only at a rate above that of its arrivals, which is {rate:g}"
                hint = "raise catch_up_rate, or leave it out: all collected tuples then arrive together"
                raise Contradiction(title, f"stalls[{place}].catch_up_rate", stall.catch_up_rate, hint)
        return self


class SimulatedClass(PriorityClass):
    """Simulated class with its operator network and its input."""

    network: Name
    streams: Mapping[Name, StreamInput]
    offered_load: Positive | None = None
    """Load of the input in processors, for trains of `load_at_train` tuples. Arrival rates are scaled to this load; in a
    network of kind sharaf, costs are scaled instead."""

    sources: Literal["last", "ranked"] = "last"
    """Order of source operators, which take tuples from streams. `last` runs source operators only when no other operator
    has input, as in a running system. `ranked` lets the policy rank source operators among all operators, as in Aurora and
    MavStream."""


class HostDies(Settings):
    """Fault: the host of a class dies at `at_s`, and runs again `down_s` seconds later."""

    kind: Literal["host_dies"]
    name: Name
    at_s: NonNegative
    down_s: Positive
    rebuild_ms: NonNegative = 0.0
    """Processor time in ms to rebuild windows from retained input before the class runs again."""

    retained: bool = True
    """Deliver the input that was in the class again after the restart; if false, this input counts as failed."""


class ReportsLost(Settings):
    """Fault: load reports of a class do not reach the coordinator for `for_s` seconds."""

    kind: Literal["reports_lost"]
    name: Name
    at_s: NonNegative
    for_s: Positive


class ReportsLate(Settings):
    """Fault: load reports of a class reach the coordinator `delay_s` seconds late, for `for_s` seconds."""

    kind: Literal["reports_late"]
    name: Name
    at_s: NonNegative
    for_s: Positive
    delay_s: Positive


class ClockJumps(Settings):
    """Fault: the clock for arrivals and all decisions jumps by `by_s` seconds; a negative number is a jump back."""

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
    "unevenness.mean",
    "tardiness.mean_ms",
]
"""Metric by which level-2 policies are compared; lower values are better."""


class Claim(Settings):
    """Claim of a paper: with `policy`, the metric is `by_pct` percent lower than with the policy `below`."""

    metric: PolicyMetric
    policy: PolicyName
    below: PolicyName
    by_pct: Annotated[float, Field(gt=0, le=100)]
    source: str = ""


class Scenario(Settings):
    """Scenario of one simulated run. With `extends: NAME` its file states only differences from another scenario."""

    kind: Literal["classes"] = "classes"
    name: Name
    description: str = ""
    seconds: Annotated[float, Field(gt=0, le=86_400)]
    drain: bool = False
    """Continue the run after `seconds`, without new arrivals, until all queues are empty."""

    seed: Annotated[int, Field(ge=0)] = 1
    lanes: Annotated[int, Field(ge=1, le=256)] = 1
    round_ms: Positive = 10.0
    """Processor time in ms of one round of the weighted round robin: the round length `k`."""

    train_max: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """Maximum number of tuples per call of an operator. The limit keeps calls short, and a slice can overrun by at most one call."""

    queue_max: Annotated[int, Field(ge=1, le=100_000_000)] = 1_000_000
    """Maximum number of tuples in a stream's queue; further tuples are rejected."""

    load_at_train: Annotated[int, Field(ge=1)] = 100
    """Number of tuples per call for which `offered_load` is computed; the cost per tuple depends on this number, because of
    the fixed cost per call."""

    adaptive: bool = True
    """Let policies use measured costs and selectivities; if false, policies use the declared values."""

    selection: Literal["random", "even"] = "random"
    """Choice of the tuples that an operator keeps: at random (`random`), or evenly spread, such as every third tuple (`even`)."""

    settles: bool = False
    """Deliver answers when a running system does: for all queries when no tuples are queued behind the sources, and for a
    query without queued tuples at the end of a slice. If false, answers are delivered immediately."""

    costs: Costs = Costs()
    load: LoadSettings = LoadSettings()
    networks: Mapping[Name, NetworkModel] = Field(min_length=1)
    classes: tuple[SimulatedClass, ...] = Field(min_length=1, max_length=10_000)
    faults: tuple[Fault, ...] = ()
    claims: tuple[Claim, ...] = ()
    """Claims that `weir sim --policies` prints next to its results."""

    def original_shares(self) -> dict[str, float]:
        total = sum(class_.priority for class_ in self.classes)
        return {class_.name: class_.priority / total for class_ in self.classes}


def load_scenario(source: str) -> Scenario:
    """Return the scenario of a preset name or a YAML file; raise InvalidInput if a setting is invalid."""
    data = scenario_data(source)
    if data.kind != "classes":
        hint = "give a scenario of classes; only `weir sim` runs both kinds"
        raise InvalidInput(
            "the scenario describes periodic queries, not classes", "kind", data.kind, hint, data.file
        )
    return checked_scenario(data)


def checked_scenario(found: ScenarioData) -> Scenario:
    """Return the scenario that a file contains; raise InvalidInput if a setting is invalid."""
    return checked(Scenario, contradictions, found)


def contradictions(scenario: Scenario) -> Iterator[InvalidInput]:
    """Yield the scenario's problems that concern several fields together."""
    yield from class_contradictions(scenario)
    yield from fault_contradictions(scenario)


def class_contradictions(scenario: Scenario) -> Iterator[InvalidInput]:
    names = [class_.name for class_ in scenario.classes]
    originals = scenario.original_shares()
    for place, class_ in enumerate(scenario.classes):
        at = f"classes[{place}]"
        if names.index(class_.name) != place:
            yield InvalidInput(
                "two classes have the same name", f"{at}.name", class_.name, "rename one of the two classes"
            )
            continue
        if class_.min_share > originals[class_.name] + 1e-12:
            title = "min_share exceeds the class's original share"
            hint = f"priority {class_.priority:g} gives {originals[class_.name]:.3f}: raise the priority or lower min_share"
            yield InvalidInput(title, f"{at}.min_share", class_.min_share, hint)
        if class_.network not in scenario.networks:
            yield UnknownName(
                "the scenario has no network of this name",
                f"{at}.network",
                class_.network,
                nearest(class_.network, scenario.networks),
            )
            continue
        needed = scenario.networks[class_.network].streams()
        yield from stream_contradictions(class_, needed, scenario.seconds, at)


def stream_contradictions(
    class_: SimulatedClass, needed: Collection[str], seconds: float, at: str
) -> Iterator[InvalidInput]:
    for stream in needed:
        if stream not in class_.streams:
            title = f"the network reads stream {stream!r}, but the class has no input for it"
            hint = f"add `{stream}:` with `arrivals:`"
            yield InvalidInput(title, f"{at}.streams", sorted(class_.streams), hint)
    for stream in class_.streams:
        if stream not in needed:
            yield UnknownName(
                "the class has input for a stream that none of its queries reads",
                f"{at}.streams.{stream}",
                None,
                nearest(stream, needed),
            )
    for stream, stream_input in class_.streams.items():
        for place, stall in enumerate(stream_input.stalls):
            if stall.at_s >= seconds:
                title = "the stall comes after the end of the run"
                hint = f"choose a time below seconds = {seconds:g}"
                yield InvalidInput(title, f"{at}.streams.{stream}.stalls[{place}].at_s", stall.at_s, hint)
        if not math.isfinite(stream_input.arrivals.mean_rate()) or stream_input.arrivals.mean_rate() <= 0:
            yield InvalidInput(
                "the mean arrival rate must be finite and above 0",
                f"{at}.streams.{stream}.arrivals",
                stream_input.arrivals.mean_rate(),
                "remove the stream, or give a rate above 0",
            )


def fault_contradictions(scenario: Scenario) -> Iterator[InvalidInput]:
    names = [class_.name for class_ in scenario.classes]
    for place, fault in enumerate(scenario.faults):
        name = getattr(fault, "name", None)
        if name is not None and name not in names:
            yield UnknownName(
                "the scenario has no class of this name", f"faults[{place}].name", name, nearest(name, names)
            )
        ranked = name in names and scenario.classes[names.index(name)].sources == "ranked"
        if ranked and isinstance(fault, HostDies) and not fault.retained:
            title = "with `sources: ranked`, the input lost with a host cannot be counted"
            hint = "set the class's `sources: last`, or `retained: true`"
            yield InvalidInput(title, f"faults[{place}].retained", fault.retained, hint)
        if fault.at_s >= scenario.seconds:
            title = "the fault comes after the end of the run"
            hint = f"choose a time below seconds = {scenario.seconds:g}"
            yield InvalidInput(title, f"faults[{place}].at_s", fault.at_s, hint)
