"""A scenario of the simulator: classes, their networks, their input, what goes wrong. One YAML file.

`load_scenario` reads a preset by name or a file by path and refuses anything impossible before a run starts,
naming file, field, value and remedy. docs/scenarios.md describes every key.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from configs.arrivals import Arrivals
from configs.base import Fraction, Name, NonNegative, Positive, Settings
from configs.classes import PriorityClass
from configs.load import LoadSettings
from configs.problems import InvalidInput, UnknownName, nearest
from configs.reading import read_model

PRESETS = Path(__file__).parent / "presets"


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


class Select(Settings):
    """A filter: keeps a tuple or drops it."""

    kind: Literal["select"]
    selectivity: Fraction
    tuple_us: NonNegative
    call_us: NonNegative | None = None
    size_out: Positive = 1.0


class Project(Settings):
    """One tuple in, one out."""

    kind: Literal["project"]
    tuple_us: NonNegative
    call_us: NonNegative | None = None
    size_out: Positive = 1.0

    @property
    def selectivity(self) -> float:
        return 1.0


class Lookup(Settings):
    """A join with a stored relation: on average `selectivity` matches a tuple, possibly more than one."""

    kind: Literal["lookup"]
    selectivity: NonNegative
    tuple_us: NonNegative
    call_us: NonNegative | None = None
    size_out: Positive = 1.0


class Aggregate(Settings):
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
            raise ValueError(
                f"slide_s {self.slide_s:g} exceeds range_s {self.range_s:g}: tuples between are in no window"
            )
        return self


class Join(Settings):
    """A symmetric window join of two inputs; a pair within the window matches with `selectivity`."""

    kind: Literal["join"]
    window_s: Positive
    selectivity: Fraction
    tuple_us: NonNegative
    match_us: NonNegative = 0.0
    call_us: NonNegative | None = None
    size_out: Positive = 1.0


OperatorModel = Annotated[Select | Project | Lookup | Aggregate | Join, Field(discriminator="kind")]


class QueryModel(Settings):
    """A query as a chain of operators over one stream, or over two that meet in its first operator, a join."""

    name: Name
    reads: tuple[Name, ...] = Field(min_length=1, max_length=2)
    operators: tuple[OperatorModel, ...] = Field(min_length=1, max_length=50)

    @model_validator(mode="after")
    def join_has_two_inputs(self) -> Self:
        for place, operator in enumerate(self.operators):
            if operator.kind == "join" and (place > 0 or len(self.reads) != 2):
                raise ValueError(f"query {self.name}: a join must be the first operator and read two streams")
        if len(self.reads) == 2 and self.operators[0].kind != "join":
            raise ValueError(f"query {self.name} reads two streams but its first operator is not a join")
        return self


class QueryNetwork(Settings):
    """Queries written out one by one."""

    kind: Literal["queries"] = "queries"
    queries: tuple[QueryModel, ...] = Field(min_length=1, max_length=10_000)

    @model_validator(mode="after")
    def names_differ(self) -> Self:
        names = [query.name for query in self.queries]
        twice = (
            sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
        )
        if twice:
            raise ValueError(f"query {twice[0]} is declared more than once")
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

    @model_validator(mode="after")
    def selectivities_in_order(self) -> Self:
        if self.selectivity_min > self.selectivity_max:
            raise ValueError(
                f"selectivity_min {self.selectivity_min:g} exceeds selectivity_max {self.selectivity_max:g}"
            )
        return self

    def streams(self) -> tuple[str, ...]:
        return ("tuples",)


NetworkModel = Annotated[QueryNetwork | SharafNetwork, Field(discriminator="kind")]


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


class Scenario(Settings):
    """One simulated run."""

    name: Name
    description: str = ""
    seconds: Annotated[float, Field(gt=0, le=86_400)]
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

    costs: Costs = Costs()
    load: LoadSettings = LoadSettings()
    networks: Mapping[Name, NetworkModel] = Field(min_length=1)
    classes: tuple[SimulatedClass, ...] = Field(min_length=1, max_length=10_000)
    faults: tuple[Fault, ...] = ()

    def original_shares(self) -> dict[str, float]:
        total = sum(one.priority for one in self.classes)
        return {one.name: one.priority / total for one in self.classes}


def preset_names() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def load_scenario(source: str) -> Scenario:
    """A preset by name, or a YAML file by path; InvalidInput if anything in it cannot be."""
    path = PRESETS / f"{source}.yaml" if source in preset_names() else Path(source)
    if not path.is_file():
        raise UnknownName(
            "no such scenario",
            "SCENARIO",
            source,
            f"{nearest(source, preset_names())}; or give the path of a YAML file",
        )
    scenario = read_model(Scenario, path)
    for problem in contradictions(scenario):
        problem.file = str(path)
        raise problem
    return scenario


def contradictions(scenario: Scenario) -> Iterator[InvalidInput]:
    """Relations between fields that single fields cannot see, each with the invariant in words."""
    names = [one.name for one in scenario.classes]
    originals = scenario.original_shares()
    for place, one in enumerate(scenario.classes):
        at = f"classes[{place}]"
        if names.index(one.name) != place:
            yield InvalidInput("class names must differ", f"{at}.name", one.name, "rename one of the two")
            continue
        if one.min_share > originals[one.name] + 1e-12:
            yield InvalidInput(
                "a minimum share cannot exceed the original share",
                f"{at}.min_share",
                one.min_share,
                f"priority {one.priority:g} gives {originals[one.name]:.3f}: raise the priority or lower min_share",
            )
        if one.network not in scenario.networks:
            yield UnknownName(
                "no such network", f"{at}.network", one.network, nearest(one.network, scenario.networks)
            )
            continue
        needed = scenario.networks[one.network].streams()
        for stream in needed:
            if stream not in one.streams:
                yield InvalidInput(
                    f"the network reads stream {stream!r}, for which nothing arrives",
                    f"{at}.streams",
                    sorted(one.streams),
                    f"add {stream} with its arrivals",
                )
        for stream in one.streams:
            if stream not in needed:
                yield UnknownName(
                    "no query reads this stream", f"{at}.streams.{stream}", None, nearest(stream, needed)
                )
        for stream, given in one.streams.items():
            if not math.isfinite(given.arrivals.mean_rate()) or given.arrivals.mean_rate() <= 0:
                yield InvalidInput(
                    "the arrival rate must be above 0 somewhere",
                    f"{at}.streams.{stream}.arrivals",
                    given.arrivals.mean_rate(),
                    "remove the stream or give it a rate",
                )
    for place, fault in enumerate(scenario.faults):
        name = getattr(fault, "name", None)
        if name is not None and name not in names:
            yield UnknownName("no such class", f"faults[{place}].name", name, nearest(name, names))
        if fault.at_s >= scenario.seconds:
            yield InvalidInput(
                "the fault would come after the end of the run",
                f"faults[{place}].at_s",
                fault.at_s,
                f"choose a time below seconds = {scenario.seconds:g}",
            )
