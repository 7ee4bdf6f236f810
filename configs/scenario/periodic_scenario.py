"""Scenario of periodic queries over shared synopses (pre-aggregated intervals), to compare schedules by number and delay of answers.

In Golab's model (§2) a synopsis holds pre-aggregated intervals, and gets a new interval every `interval_s`. One scan of a
synopsis answers all queries of a group. Each query covers its own range, and is answered at least once per SLIDE.
docs/scenarios.md describes every key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, floor
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from configs.base import Name, NonNegative, Positive, Settings
from configs.classes.periodic_schedules import Hybrid, PeriodicSettings, ScheduleName
from configs.errors import Contradiction, InvalidInput, UnknownName, nearest
from configs.scenario.field_checks import check_in_order, check_names_differ, check_slide
from configs.scenario.scenario_files import ScenarioData, checked

# Shortest permitted time between two events of a kind, in seconds. Simulating a second with 1,000 events takes about 10 ms.
Every = Annotated[float, Field(ge=0.001, le=86_400)]
# Maximum number of queries of all groups together. A run with the maximum takes minutes.
QUERIES_MAX = 100_000
# Maximum rounding error of a multiple of an interval: 0.3 counts as a multiple of 0.1.
ROUNDING = 1e-9


class SynopsisModel(Settings):
    """Synopsis: pre-aggregated intervals of the tuples that arrive."""

    interval_s: Every = 1.0
    rate: NonNegative = 0.0
    """Number of tuples that arrive per second."""

    tuple_us: NonNegative = 0.0
    """Cost of adding a tuple to the newest interval, in µs."""

    update_us: NonNegative = 0.0
    """Fixed cost of ending an interval, in µs."""

    @property
    def update_s(self) -> float:
        """Processor time in seconds for one interval with all its tuples."""
        return self.update_us / 1e6 + self.tuple_us / 1e6 * self.rate * self.interval_s


class OneTime(Settings):
    """One-time queries, of which one arrives every `every_s` seconds; one-time queries run before periodic queries."""

    every_s: Every
    cost_us: NonNegative


class ScanModel(Settings):
    """Measured cost of a scan: call + interval·(longest range − 1) + Σ over queries (answer + answer_interval·range).
    Ranges are in intervals."""

    kind: Literal["scan"]
    interval_us: NonNegative
    call_us: NonNegative = 0.0
    answer_us: NonNegative = 0.0
    answer_interval_us: NonNegative = 0.0


class CountsModel(Settings):
    """Cost of a scan that merges frequency counts of an attribute; an interval has a count for each value (Golab §5.1)."""

    kind: Literal["counts"]
    distinct: Positive
    """Number of distinct values of the attribute in one interval."""

    count_us: Positive
    """Cost of reading and merging one count, in µs."""

    answering: NonNegative = 0.0
    """Work of an answer after the scan (for example sorting counts), as a fraction of the work of merging the counts in its range."""


CostModel = Annotated[ScanModel | CountsModel, Field(discriminator="kind")]


class WindowModel(Settings):
    """Periodic query: a window result that is computed again and again."""

    name: Name
    range_s: Positive
    slide_s: Positive
    at_most: bool = True
    """Treat the slide as an upper bound, as in SLIDE AT MOST; if false, the query runs exactly at multiples of the slide."""

    @model_validator(mode="after")
    def slide_within_range(self) -> Self:
        check_slide(self)
        return self


class WindowGroup(Settings):
    """Group of queries that one scan of a synopsis can answer."""

    synopsis: Name
    costs: CostModel
    queries: tuple[WindowModel, ...] = Field(default=(), max_length=10_000)

    @model_validator(mode="after")
    def names_differ(self) -> Self:
        check_names_differ(self.queries)
        return self


class Drawn(Settings):
    """Random queries for every group (Golab §5.1).

    Ranges are uniform between `range_min_s` and `range_max_s`. Slides are uniform between one interval and `slide_part` of
    the range.
    """

    per_group: Annotated[int, Field(ge=1, le=10_000)]
    range_min_s: Positive
    range_max_s: Positive
    slide_part: Annotated[float, Field(gt=0, le=1)] = 0.5
    at_most: bool = True

    @model_validator(mode="after")
    def ranges_in_order(self) -> Self:
        check_in_order(self, "range_min_s", "range_max_s")
        return self


class Aggregates(Settings):
    """Random queries, each over a synopsis of its own with the query's slide as its interval (Sharaf §3.8.1.13).

    Slides are uniform between `slide_min_s` and `slide_max_s`. A cost is a factor K times 2^i, where i is a
    random number below `cost_classes`. K follows from `utilisation`.
    """

    queries: Annotated[int, Field(ge=1, le=10_000)] = 20
    slide_min_s: Every = 1.0
    slide_max_s: Every = 10.0
    cost_classes: Annotated[int, Field(ge=1, le=20)] = 5
    utilisation: Annotated[float, Field(gt=0, le=100)]
    """Load of all queries together in processors, if every query runs once per slide."""

    @model_validator(mode="after")
    def slides_in_order(self) -> Self:
        check_in_order(self, "slide_min_s", "slide_max_s")
        return self


ScheduleMetric = Literal["throughput", "latency_updates", "tardiness.mean_ms", "tardiness.max_ms", "busy_s"]
"""Metric by which schedules are compared. For throughput, higher is better; for all other metrics, lower is better."""


class ScheduleClaim(Settings):
    """Claim of a paper: under `schedule`, the metric is higher or lower than under another schedule, optionally by a factor.

    `more_than` or `less_than` names the other schedule, and `times` is the factor.
    """

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
            title = "a claim needs exactly one of more_than and less_than"
            hint = "keep either more_than or less_than"
            raise Contradiction(title, "more_than", self.more_than, hint)
        return self


class PeriodicScenario(Settings):
    """Scenario of one simulated run of periodic queries. With `extends: NAME`, the scenario states only differences from
    another scenario."""

    kind: Literal["periodic"]
    name: Name
    description: str = ""
    seconds: Annotated[float, Field(gt=0, le=86_400)]
    seed: Annotated[int, Field(ge=0)] = 1
    schedule: PeriodicSettings = Hybrid()
    """Schedule that runs without `--schedules`. Schedules that are compared with this schedule have the same `order` and `eager`."""

    synopses: Mapping[Name, SynopsisModel] = Field(default={}, max_length=10_000)
    one_time: OneTime | None = None
    groups: Mapping[Name, WindowGroup] = Field(default={}, max_length=10_000)
    drawn: Drawn | None = None
    aggregates: Aggregates | None = None
    claims: tuple[ScheduleClaim, ...] = ()
    """Claims that `weir sim --schedules` prints next to its results."""


def intervals(seconds: float, interval_s: float) -> int:
    """Return the number of intervals in a length of time; 0 if the length is not a multiple of the interval."""
    count = round(seconds / interval_s)
    return count if abs(seconds / interval_s - count) <= ROUNDING * max(1, count) else 0


def checked_periodic(found: ScenarioData) -> PeriodicScenario:
    """Return the scenario that a file contains; raise InvalidInput if a setting is invalid."""
    return checked(PeriodicScenario, contradictions, found)


def contradictions(scenario: PeriodicScenario) -> Iterator[InvalidInput]:
    """Yield the scenario's problems that concern several fields together."""
    if not scenario.groups and scenario.aggregates is None:
        hint = "add `groups:` with queries over synopses, or `aggregates:`"
        yield InvalidInput("the scenario has no queries", "groups", {}, hint)
    yield from misplaced(scenario)
    if scenario.drawn is not None and not scenario.groups:
        hint = "add `groups:`, or remove `drawn:`, which `aggregates` do not need"
        yield InvalidInput(
            "`drawn` adds queries to groups, but the scenario has no groups", "drawn", hint=hint
        )
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
            yield UnknownName(
                "the scenario has no synopsis of this name", f"{at}.synopsis", group.synopsis, hint
            )
            continue
        if not group.queries and scenario.drawn is None:
            hint = "list queries, each with name, range_s and slide_s, or add `drawn:` at the top level"
            yield InvalidInput("the group has no queries", f"{at}.queries", [], hint)
        if group.costs.kind == "counts" and not synopsis.rate:
            title = f"group {name} counts values of tuples, but no tuples arrive"
            hint = "give the tuples per second, or give the group costs of kind scan"
            yield InvalidInput(title, f"synopses.{group.synopsis}.rate", synopsis.rate, hint)
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
        title = f"updates and one-time queries need {sum(spent.values()):.4g} processors, so nothing is left for periodic queries"
        hint = "lower rates or costs until updates and one-time queries need less than 1 processor"
        yield InvalidInput(title, most, round(spent[most], 6), hint)


def misplaced(scenario: PeriodicScenario) -> Iterator[InvalidInput]:
    """Yield a problem for each synopsis that no group of queries reads."""
    read = {group.synopsis for group in scenario.groups.values()}
    # If a group reads an unknown synopsis, its name is probably misspelt, and that problem is reported instead.
    for name in scenario.synopses if read <= scenario.synopses.keys() else ():
        if name not in read:
            hint = "remove the synopsis, or name it as the `synopsis` of a group"
            yield UnknownName(
                "the scenario declares a synopsis that no group reads", f"synopses.{name}", hint=hint
            )


def uneven(seconds: float, field: str, interval_s: float) -> Iterator[InvalidInput]:
    if not intervals(seconds, interval_s):
        below, above = floor(seconds / interval_s) * interval_s, ceil(seconds / interval_s) * interval_s
        title = f"the length must be a multiple of the synopsis' interval, which is {interval_s:g} s"
        hint = f"give {f'{below:g} or ' if below else ''}{above:g}, or change interval_s"
        yield InvalidInput(title, field, seconds, hint)


def undrawable(drawn: Drawn, interval_s: float) -> Iterator[InvalidInput]:
    yield from uneven(drawn.range_min_s, "drawn.range_min_s", interval_s)
    yield from uneven(drawn.range_max_s, "drawn.range_max_s", interval_s)
    if drawn.slide_part * intervals(drawn.range_min_s, interval_s) < 1:
        title = f"slides of the shortest range would be shorter than the synopsis' interval, which is {interval_s:g} s"
        hint = f"give at least {min(1.0, interval_s / drawn.range_min_s):.4g}"
        yield InvalidInput(title, "drawn.slide_part", drawn.slide_part, hint)
