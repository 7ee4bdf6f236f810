"""A scenario of periodic queries over shared synopses: which schedule brings more answers, sooner? One YAML file.

Golab's model (§2): a synopsis is updated every `interval_s`; a group's queries are answered by one scan of it, each over its own
range, after its SLIDE at the latest. docs/scenarios.md describes every key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, floor
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from configs.base import Name, NonNegative, Positive, Settings
from configs.classes.periodic_schedules import Hybrid, PeriodicSettings, ScheduleName
from configs.errors import Contradiction, InvalidInput, UnknownName, nearest
from configs.scenario.scenario_files import ScenarioData
from configs.yaml_loading import parse_model

# Something happens in a run at least so far apart: a thousand events a second are simulated in a hundredth of that.
Every = Annotated[float, Field(ge=0.001, le=86_400)]
# Of all groups together; a run with them takes minutes.
QUERIES_MAX = 100_000
# Of a multiple of an interval: 0.3 is one of 0.1, though not to the last bit.
ROUNDING = 1e-9


class SynopsisModel(Settings):
    """Pre-aggregated intervals of what arrives."""

    interval_s: Every = 1.0
    rate: NonNegative = 0.0
    """Tuples a second."""

    tuple_us: NonNegative = 0.0
    """To add a tuple to the newest interval."""

    update_us: NonNegative = 0.0
    """To end an interval, however many tuples it has."""

    @property
    def update_s(self) -> float:
        """Of an interval, in all."""
        return self.update_us / 1e6 + self.tuple_us / 1e6 * self.rate * self.interval_s


class OneTime(Settings):
    """Queries that are asked once; they go before the periodic ones."""

    every_s: Every
    cost_us: NonNegative


class ScanModel(Settings):
    """What a run costs, as it was measured: call + interval·(longest range − 1) + Σ (answer + answer_interval·range), in intervals."""

    kind: Literal["scan"]
    interval_us: NonNegative
    call_us: NonNegative = 0.0
    answer_us: NonNegative = 0.0
    answer_interval_us: NonNegative = 0.0


class CountsModel(Settings):
    """A run merges frequency counts of an attribute, as many an interval as it has values among the tuples (Golab §5.1)."""

    kind: Literal["counts"]
    distinct: Positive
    """Values of the attribute."""

    count_us: Positive
    """To read and merge one count."""

    answering: NonNegative = 0.0
    """Part of a range's counts that an answer takes after the scan, as to sort them."""


CostModel = Annotated[ScanModel | CountsModel, Field(discriminator="kind")]


class WindowModel(Settings):
    """A window result that is wanted again and again."""

    name: Name
    range_s: Positive
    slide_s: Positive
    at_most: bool = True
    """Whether the slide is an upper bound, as in SLIDE AT MOST; otherwise it runs at its multiples only."""

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


class WindowGroup(Settings):
    """Queries that one scan of a synopsis answers."""

    synopsis: Name
    costs: CostModel
    queries: tuple[WindowModel, ...] = Field(default=(), max_length=10_000)

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


class Drawn(Settings):
    """Queries by chance, in every group (Golab §5.1): ranges are uniform, slides uniform from an interval to a part of the range."""

    per_group: Annotated[int, Field(ge=1, le=10_000)]
    range_min_s: Positive
    range_max_s: Positive
    slide_part: Annotated[float, Field(gt=0, le=1)] = 0.5
    at_most: bool = True

    @model_validator(mode="after")
    def ranges_in_order(self) -> Self:
        if self.range_min_s > self.range_max_s:
            raise Contradiction(
                f"must not exceed range_max_s, which is {self.range_max_s:g}",
                "range_min_s",
                self.range_min_s,
                "lower range_min_s or raise range_max_s",
            )
        return self


class Aggregates(Settings):
    """Queries by chance, each alone over a synopsis of its own, whose interval is its slide (Sharaf §3.8.1.13).

    Slides are uniform, costs K·2^i with i uniform among `cost_classes`; K follows from the `utilisation`.
    """

    queries: Annotated[int, Field(ge=1, le=10_000)] = 20
    slide_min_s: Every = 1.0
    slide_max_s: Every = 10.0
    cost_classes: Annotated[int, Field(ge=1, le=20)] = 5
    utilisation: Annotated[float, Field(gt=0, le=100)]
    """Processors that they ask for, each at its slide."""

    @model_validator(mode="after")
    def slides_in_order(self) -> Self:
        if self.slide_min_s > self.slide_max_s:
            raise Contradiction(
                f"must not exceed slide_max_s, which is {self.slide_max_s:g}",
                "slide_min_s",
                self.slide_min_s,
                "lower slide_min_s or raise slide_max_s",
            )
        return self


ScheduleMetric = Literal["throughput", "latency_updates", "tardiness.mean_ms", "tardiness.max_ms", "busy_s"]
"""By which schedules are compared; of throughput more is better, of the others less."""


class ScheduleClaim(Settings):
    """What a paper found: under `schedule` the metric is more, or less, than under the other, so many `times` where it says."""

    metric: ScheduleMetric
    schedule: ScheduleName
    more_than: ScheduleName | None = None
    less_than: ScheduleName | None = None
    times: Annotated[float, Field(ge=1, le=1e6)] | None = None
    source: str = ""

    @property
    def other(self) -> str:
        return self.more_than or self.less_than or ""

    @model_validator(mode="after")
    def one_other(self) -> Self:
        if (self.more_than is None) == (self.less_than is None):
            raise Contradiction(
                "a claim has one other schedule",
                "more_than",
                self.more_than,
                "give either more_than or less_than",
            )
        return self


class PeriodicScenario(Settings):
    """One simulated run of periodic queries. `extends: NAME` takes over another scenario and changes what it states."""

    kind: Literal["periodic"]
    name: Name
    description: str = ""
    seconds: Annotated[float, Field(gt=0, le=86_400)]
    seed: Annotated[int, Field(ge=0)] = 1
    schedule: PeriodicSettings = Hybrid()
    """What runs without `--schedules`; its order and eagerness are those of the others, too."""

    synopses: Mapping[Name, SynopsisModel] = Field(default={}, max_length=10_000)
    one_time: OneTime | None = None
    groups: Mapping[Name, WindowGroup] = Field(default={}, max_length=10_000)
    drawn: Drawn | None = None
    aggregates: Aggregates | None = None
    claims: tuple[ScheduleClaim, ...] = ()
    """Printed beside what came out, by `weir sim --schedules`."""


def intervals(seconds: float, interval_s: float) -> int:
    """How many a length is; 0 if it is none of their multiples."""
    count = round(seconds / interval_s)
    return count if abs(seconds / interval_s - count) <= ROUNDING * max(1, count) else 0


def checked_periodic(found: ScenarioData) -> PeriodicScenario:
    """The model of a file's data; InvalidInput if anything in it cannot be."""
    scenario = parse_model(PeriodicScenario, found.data, found.file)
    for problem in contradictions(scenario):
        problem.file = found.file
        raise problem
    return scenario


def contradictions(scenario: PeriodicScenario) -> Iterator[InvalidInput]:
    """Relations between fields that single fields cannot see, each with the invariant in words."""
    if not scenario.groups and scenario.aggregates is None:
        hint = "add groups with queries over synopses, or `aggregates:`"
        yield InvalidInput("the scenario has no queries", "groups", {}, hint)
    yield from misplaced(scenario)
    if scenario.drawn is not None and not scenario.groups:
        hint = "add groups, or leave it out: `aggregates` have queries of their own"
        yield InvalidInput("queries are drawn in groups, and there are none", "drawn", hint=hint)
    drawn = scenario.drawn.per_group * len(scenario.groups) if scenario.drawn else 0
    if drawn + sum(len(group.queries) for group in scenario.groups.values()) > QUERIES_MAX:
        yield InvalidInput(
            f"all groups together have more than {QUERIES_MAX:,} queries",
            "drawn.per_group" if drawn else "groups",
            scenario.drawn.per_group if scenario.drawn else None,
            "give fewer queries, or fewer groups",
        )
    for name, group in scenario.groups.items():
        at, synopsis = f"groups.{name}", scenario.synopses.get(group.synopsis)
        if synopsis is None:
            hint = nearest(group.synopsis, scenario.synopses)
            yield UnknownName("no such synopsis", f"{at}.synopsis", group.synopsis, hint)
            continue
        if not group.queries and scenario.drawn is None:
            hint = "list some, each with name, range_s and slide_s, or add `drawn:` at the top"
            yield InvalidInput("the group has no queries", f"{at}.queries", [], hint)
        if group.costs.kind == "counts" and not synopsis.rate:
            yield InvalidInput(
                f"group {name} counts the values of tuples, of which none arrive",
                f"synopses.{group.synopsis}.rate",
                synopsis.rate,
                "give the tuples a second, or the group costs of kind scan",
            )
        for place, query in enumerate(group.queries):
            for key, value in (("range_s", query.range_s), ("slide_s", query.slide_s)):
                yield from uneven(value, f"{at}.queries[{place}].{key}", synopsis.interval_s)
        if scenario.drawn is not None:
            yield from undrawable(scenario.drawn, synopsis.interval_s)
    spent = {
        f"synopses.{name}": synopsis.update_s / synopsis.interval_s
        for name, synopsis in scenario.synopses.items()
    }
    if scenario.one_time is not None:
        spent["one_time"] = scenario.one_time.cost_us / 1e6 / scenario.one_time.every_s
    if sum(spent.values()) >= 1:
        most = max(spent, key=lambda name: spent[name])
        yield InvalidInput(
            f"updates and one-time queries take {sum(spent.values()):.4g} of a processor: nothing is left for periodic ones",
            most,
            round(spent[most], 6),
            "lower rates or costs until all of them take less than 1",
        )


def misplaced(scenario: PeriodicScenario) -> Iterator[InvalidInput]:
    """Synopses that nobody reads."""
    read = {group.synopsis for group in scenario.groups.values()}
    # Only where all that is read is there: otherwise a misspelt name is the cause.
    for name in scenario.synopses if read <= scenario.synopses.keys() else ():
        if name not in read:
            hint = "leave it out, or let a group read it"
            yield UnknownName("no group reads this synopsis", f"synopses.{name}", hint=hint)


def uneven(seconds: float, field: str, interval_s: float) -> Iterator[InvalidInput]:
    if not intervals(seconds, interval_s):
        below, above = floor(seconds / interval_s) * interval_s, ceil(seconds / interval_s) * interval_s
        yield InvalidInput(
            f"must be a multiple of the synopsis' interval, which is {interval_s:g} s",
            field,
            seconds,
            f"give {f'{below:g} or ' if below else ''}{above:g}, or change interval_s",
        )


def undrawable(drawn: Drawn, interval_s: float) -> Iterator[InvalidInput]:
    yield from uneven(drawn.range_min_s, "drawn.range_min_s", interval_s)
    yield from uneven(drawn.range_max_s, "drawn.range_max_s", interval_s)
    if drawn.slide_part * intervals(drawn.range_min_s, interval_s) < 1:
        yield InvalidInput(
            f"of the shortest range no slide is as long as the synopsis' interval, which is {interval_s:g} s",
            "drawn.slide_part",
            drawn.slide_part,
            f"give at least {min(1.0, interval_s / drawn.range_min_s):.4g}",
        )
