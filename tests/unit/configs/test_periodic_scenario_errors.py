"""What a user reads who got a scenario of periodic queries wrong: whole messages, one row for each kind of mistake."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from configs.errors import InvalidInput
from configs.scenario.scenario import load_scenario
from configs.scenario.scenarios import load_any_scenario, load_periodic

VALID = """
kind: periodic
name: small
seconds: 60
synopses:
  packets: {interval_s: 2, rate: 100, tuple_us: 20}
one_time: {every_s: 1, cost_us: 2000}
groups:
  top:
    synopsis: packets
    costs: {kind: scan, interval_us: 1000}
    queries:
      - {name: board, range_s: 20, slide_s: 4}
      - {name: hourly, range_s: 60, slide_s: 10, at_most: false}
  counted:
    synopsis: packets
    costs: {kind: counts, distinct: 100, count_us: 5}
drawn: {per_group: 3, range_min_s: 10, range_max_s: 20}
claims:
  - {metric: throughput, schedule: hybrid, more_than: none, times: 2, source: a paper}
"""

GONE = object()
TOP = "groups.top"
QUERY = f"{TOP}.queries[0]"

# Where the scenario is changed, to what, and what is said after "scenario.yaml: ".
MISTAKES: list[tuple[str, object, str]] = [
    # lengths
    (f"{QUERY}.slide_s", 0, f"{QUERY}.slide_s: must be above 0 (got 0)\n  hint: give a number above 0"),
    (
        f"{QUERY}.slide_s",
        22,
        f"{QUERY}.slide_s: must not exceed range_s, which is 20: tuples between two windows would be in none (got 22)\n"
        "  hint: lower slide_s or raise range_s",
    ),
    (
        f"{QUERY}.range_s",
        21,
        f"{QUERY}.range_s: must be a multiple of the synopsis' interval, which is 2 s (got 21)\n"
        "  hint: give 20 or 22, or change interval_s",
    ),
    (
        f"{QUERY}.slide_s",
        1,
        f"{QUERY}.slide_s: must be a multiple of the synopsis' interval, which is 2 s (got 1)\n"
        "  hint: give 2, or change interval_s",
    ),
    (
        "synopses.packets.interval_s",
        0,
        "synopses.packets.interval_s: must be at least 0.001 (got 0)\n"
        "  hint: give a number from 0.001 to 86400; 1 if left out",
    ),
    # queries
    (
        "drawn",
        None,
        "groups.counted.queries: the group has no queries (got [])\n"
        "  hint: list some, each with name, range_s and slide_s, or add `drawn:` at the top",
    ),
    (
        "groups",
        {},
        "groups: the scenario has no queries (got {})\n"
        "  hint: add groups with queries over synopses, or `aggregates:`",
    ),
    (
        "aggregates",
        {"utilisation": 1, "slide_min_s": 11},
        "aggregates.slide_min_s: must not exceed slide_max_s, which is 10 (got 11)\n"
        "  hint: lower slide_min_s or raise slide_max_s",
    ),
    (
        "aggregates",
        {},
        "aggregates.utilisation: required, but missing\n"
        "  hint: add `utilisation:` with a number above 0 and at most 100",
    ),
    (
        f"{TOP}.queries[1].name",
        "board",
        f"{TOP}.queries[1].name: query names must differ (got 'board')\n  hint: rename one of the two",
    ),
    (
        "drawn.range_max_s",
        8,
        "drawn.range_min_s: must not exceed range_max_s, which is 8 (got 10)\n"
        "  hint: lower range_min_s or raise range_max_s",
    ),
    (
        "drawn.range_min_s",
        9,
        "drawn.range_min_s: must be a multiple of the synopsis' interval, which is 2 s (got 9)\n"
        "  hint: give 8 or 10, or change interval_s",
    ),
    (
        "drawn.slide_part",
        0.1,
        "drawn.slide_part: of the shortest range no slide is as long as the synopsis' interval, which is 2 s (got 0.1)\n"
        "  hint: give at least 0.2",
    ),
    (
        "drawn.per_group",
        10_001,
        "drawn.per_group: must be at most 10000 (got 10001)\n  hint: give a whole number from 1 to 10000",
    ),
    # synopses and costs
    (
        f"{TOP}.synopsis",
        "packet",
        f"{TOP}.synopsis: no such synopsis (got 'packet')\n  hint: did you mean packets?",
    ),
    (
        "synopses.other",
        {"interval_s": 1},
        "synopses.other: no group reads this synopsis\n  hint: leave it out, or let a group read it",
    ),
    (
        "synopses.packets.rate",
        0,
        "synopses.packets.rate: group counted counts the values of tuples, of which none arrive (got 0)\n"
        "  hint: give the tuples a second, or the group costs of kind scan",
    ),
    (
        "synopses.packets.tuple_us",
        10_000,
        "synopses.packets: updates and one-time queries take 1.002 of a processor: nothing is left for periodic ones "
        "(got 1)\n  hint: lower rates or costs until all of them take less than 1",
    ),
    (
        f"{TOP}.costs",
        {"interval_us": 1},
        f"{TOP}.costs.kind: required, but missing\n  hint: add `kind:` with one of counts, scan",
    ),
    (
        f"{TOP}.costs.distinct",
        5,
        f"{TOP}.costs.distinct: unknown key (got 'distinct')\n"
        "  hint: known: answer_interval_us, answer_us, call_us, interval_us, kind",
    ),
    # schedules and claims
    (
        "schedule",
        {"kind": "hybird"},
        "schedule.kind: no such kind (got 'hybird')\n  hint: did you mean hybrid?",
    ),
    (
        "schedule",
        "hybrid",
        "schedule: must hold keys and values (got 'hybrid')\n  hint: write {kind: hybrid}",
    ),
    (
        "schedule",
        {"kind": "none", "late": "off"},
        "schedule.late: unknown key (got 'late')\n  hint: known: eager, kind, order, tasks",
    ),
    (
        "claims[0].schedule",
        "hybrid:late=on",
        "claims[0].schedule: hybrid:late: no such choice (got 'on')\n  hint: known: late, late-pending, off",
    ),
    (
        "claims[0].less_than",
        "aggressive",
        "claims[0].more_than: a claim has one other schedule (got 'none')\n  hint: give either more_than or less_than",
    ),
    (
        "claims[0].metric",
        "troughput",
        "claims[0].metric: no such choice (got 'troughput')\n  hint: did you mean throughput?",
    ),
    # what the file is of
    ("kind", "periodical", "kind: no such kind (got 'periodical')\n  hint: did you mean periodic?"),
    (
        "kind",
        GONE,
        "kind: required, but missing\n  hint: add `kind: periodic`, which `synopses` belongs to",
    ),
    (
        "kind",
        "classes",
        "claims[0].schedule: unknown key (got 'schedule')\n  hint: known: below, by_pct, metric, policy, source",
    ),
    (
        "faults",
        [],
        "faults: unknown key (got 'faults')\n"
        "  hint: known: aggregates, claims, description, drawn, groups, kind, name, one_time, schedule, seconds, seed, synopses",
    ),
]


def changed(where: str, value: object) -> str:
    """The valid scenario with one place changed."""
    data: Any = copy.deepcopy(yaml.safe_load(VALID))
    *path, last = [
        int(part) if part.isdigit() else part for part in where.replace("[", ".").replace("]", "").split(".")
    ]
    node = data
    for part in path:
        node = node[part]
    if value is GONE:
        del node[last]
    else:
        node[last] = value
    return yaml.safe_dump(data, sort_keys=False)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_scenario_that_the_mistakes_are_made_in_is_valid() -> None:
    Path("scenario.yaml").write_text(VALID)
    assert load_periodic("scenario.yaml").name == "small"


@pytest.mark.parametrize(
    ("where", "value", "told"), MISTAKES, ids=[told.split("\n")[0] for *_, told in MISTAKES]
)
def test_a_mistake_is_told_with_place_value_and_remedy(where: str, value: object, told: str) -> None:
    Path("scenario.yaml").write_text(changed(where, value))
    with pytest.raises(InvalidInput) as caught:
        load_any_scenario("scenario.yaml")
    assert str(caught.value) == f"scenario.yaml: {told}"


def test_intervals_that_binary_fractions_miss_are_multiples_all_the_same() -> None:
    tenths = VALID.replace("interval_s: 2,", "interval_s: 0.1,").replace("slide_s: 4}", "slide_s: 0.3}")
    Path("scenario.yaml").write_text(tenths)
    assert load_periodic("scenario.yaml").groups["top"].queries[0].slide_s == 0.3


def test_queries_of_all_groups_together_are_limited() -> None:
    data = yaml.safe_load(VALID)
    data["groups"] = {f"g{place}": data["groups"]["counted"] for place in range(11)}
    data["drawn"]["per_group"] = 10_000
    Path("scenario.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(InvalidInput) as caught:
        load_periodic("scenario.yaml")
    assert str(caught.value) == (
        "scenario.yaml: drawn.per_group: all groups together have more than 100,000 queries (got 10000)\n"
        "  hint: give fewer queries, or fewer groups"
    )


def test_nothing_is_drawn_without_groups() -> None:
    Path("scenario.yaml").write_text(
        "extends: sharaf-tardiness\ndrawn: {per_group: 3, range_min_s: 10, range_max_s: 20}\n"
    )
    with pytest.raises(InvalidInput) as caught:
        load_periodic("scenario.yaml")
    assert str(caught.value) == (
        "scenario.yaml: drawn: queries are drawn in groups, and there are none\n"
        "  hint: add groups, or leave it out: `aggregates` have queries of their own"
    )


def test_who_needs_one_kind_is_told_of_the_other() -> None:
    with pytest.raises(InvalidInput) as classes:
        load_scenario("golab-low")
    assert (classes.value.title, classes.value.field) == ("describes periodic queries, not classes", "kind")
    with pytest.raises(InvalidInput) as periodic:
        load_periodic("dilos-sc")
    assert (periodic.value.title, periodic.value.field) == ("describes classes, not periodic queries", "kind")
