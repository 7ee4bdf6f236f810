"""Error messages for wrong scenarios of periodic queries: whole messages, one row for each kind of mistake."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from configs.errors import InvalidInput
from configs.scenario.periodic_scenario import PeriodicScenario
from configs.scenario.scenario import load_scenario
from configs.scenario.scenarios import load_any_scenario

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

# Each row has a field of the scenario, a wrong value for this field, and the error message after "scenario.yaml: ".
MISTAKES: list[tuple[str, object, str]] = [
    # lengths of windows, slides and runs
    (
        f"{QUERY}.slide_s",
        0,
        f"{QUERY}.slide_s: the value must be above 0 (got 0)\n  hint: give a number above 0",
    ),
    (
        f"{QUERY}.slide_s",
        22,
        f"{QUERY}.slide_s: slide_s must not exceed range_s, which is 20: tuples between two windows would be in no window (got 22)\n"
        "  hint: lower slide_s or raise range_s",
    ),
    (
        f"{QUERY}.range_s",
        21,
        f"{QUERY}.range_s: the length must be a multiple of the synopsis' interval, which is 2 s (got 21)\n"
        "  hint: give 20 or 22, or change interval_s",
    ),
    (
        f"{QUERY}.slide_s",
        1,
        f"{QUERY}.slide_s: the length must be a multiple of the synopsis' interval, which is 2 s (got 1)\n"
        "  hint: give 2, or change interval_s",
    ),
    (
        "synopses.packets.interval_s",
        0,
        "synopses.packets.interval_s: the value must be at least 0.001 (got 0)\n"
        "  hint: give a number from 0.001 to 86400; 1 if left out",
    ),
    # queries and their fields
    (
        "drawn",
        None,
        "groups.counted.queries: the group has no queries (got [])\n"
        "  hint: list queries, each with name, range_s and slide_s, or add `drawn:` at the top level",
    ),
    (
        "groups",
        {},
        "groups: the scenario has no queries (got {})\n"
        "  hint: add `groups:` with queries over synopses, or `aggregates:`",
    ),
    (
        "aggregates",
        {"utilisation": 1, "slide_min_s": 11},
        "aggregates.slide_min_s: slide_min_s must not exceed slide_max_s, which is 10 (got 11)\n"
        "  hint: lower slide_min_s or raise slide_max_s",
    ),
    (
        "aggregates",
        {},
        "aggregates.utilisation: a required value is missing\n"
        "  hint: add `utilisation:` with a number above 0 and at most 100",
    ),
    (
        f"{TOP}.queries[1].name",
        "board",
        f"{TOP}.queries[1].name: two queries have the same name (got 'board')\n  hint: rename one of the two queries",
    ),
    (
        "drawn.range_max_s",
        8,
        "drawn.range_min_s: range_min_s must not exceed range_max_s, which is 8 (got 10)\n"
        "  hint: lower range_min_s or raise range_max_s",
    ),
    (
        "drawn.range_min_s",
        9,
        "drawn.range_min_s: the length must be a multiple of the synopsis' interval, which is 2 s (got 9)\n"
        "  hint: give 8 or 10, or change interval_s",
    ),
    (
        "drawn.slide_part",
        0.1,
        "drawn.slide_part: slides of the shortest range would be shorter than the synopsis' interval, which is 2 s (got 0.1)\n"
        "  hint: give at least 0.2",
    ),
    (
        "drawn.per_group",
        10_001,
        "drawn.per_group: the value must be at most 10000 (got 10001)\n  hint: give a whole number from 1 to 10000",
    ),
    # synopses and their costs
    (
        f"{TOP}.synopsis",
        "packet",
        f"{TOP}.synopsis: the scenario has no synopsis of this name (got 'packet')\n  hint: did you mean packets?",
    ),
    (
        "synopses.other",
        {"interval_s": 1},
        "synopses.other: the scenario declares a synopsis that no group reads\n  hint: remove the synopsis, or name it as the `synopsis` of a group",
    ),
    (
        "synopses.packets.rate",
        0,
        "synopses.packets.rate: group counted counts values of tuples, but no tuples arrive (got 0)\n"
        "  hint: give the tuples per second, or give the group costs of kind scan",
    ),
    (
        "synopses.packets.tuple_us",
        10_000,
        "synopses.packets: updates and one-time queries need 1.002 processors, so nothing is left for periodic queries "
        "(got 1)\n  hint: lower rates or costs until updates and one-time queries need less than 1 processor",
    ),
    (
        f"{TOP}.costs",
        {"interval_us": 1},
        f"{TOP}.costs.kind: a required value is missing\n  hint: add `kind:` with one of counts, scan",
    ),
    (
        f"{TOP}.costs.distinct",
        5,
        f"{TOP}.costs.distinct: unknown key (got 'distinct')\n"
        "  hint: known: answer_interval_us, answer_us, call_us, interval_us, kind",
    ),
    # schedules and claims about them
    (
        "schedule",
        {"kind": "hybird"},
        "schedule.kind: there is no kind of this name (got 'hybird')\n  hint: did you mean hybrid?",
    ),
    (
        "schedule",
        "hybrid",
        "schedule: the value must hold keys and values (got 'hybrid')\n  hint: write {kind: hybrid}",
    ),
    (
        "schedule",
        {"kind": "none", "late": "off"},
        "schedule.late: unknown key (got 'late')\n  hint: known: eager, kind, order, tasks",
    ),
    (
        "claims[0].schedule",
        "hybrid:late=on",
        "claims[0].schedule: hybrid:late: the value is not one of the allowed choices (got 'on')\n  hint: known: late, late-pending, off",
    ),
    (
        "claims[0].less_than",
        "aggressive",
        "claims[0].more_than: a claim needs exactly one of more_than and less_than (got 'none')\n  hint: keep either more_than or less_than",
    ),
    (
        "claims[0].metric",
        "troughput",
        "claims[0].metric: the value is not one of the allowed choices (got 'troughput')\n  hint: did you mean throughput?",
    ),
    # scenarios of a wrong kind
    (
        "kind",
        "periodical",
        "kind: there is no kind of scenario with this name (got 'periodical')\n  hint: did you mean periodic?",
    ),
    (
        "kind",
        GONE,
        "kind: a required value is missing\n  hint: add `kind: periodic`, since only such scenarios have `synopses`",
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
    """Return the valid scenario as YAML with one field changed."""
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


def test_the_periodic_scenario_from_which_invalid_scenarios_are_made_is_valid() -> None:
    Path("scenario.yaml").write_text(VALID)
    assert load_any_scenario("scenario.yaml").name == "small"


@pytest.mark.parametrize(
    ("where", "value", "message"), MISTAKES, ids=[message.split("\n")[0] for *_, message in MISTAKES]
)
def test_a_mistake_in_a_periodic_scenario_is_reported_with_a_hint(
    where: str, value: object, message: str
) -> None:
    Path("scenario.yaml").write_text(changed(where, value))
    with pytest.raises(InvalidInput) as caught:
        load_any_scenario("scenario.yaml")
    assert str(caught.value) == f"scenario.yaml: {message}"


def test_decimal_fractions_count_as_multiples_despite_rounding() -> None:
    tenths = VALID.replace("interval_s: 2,", "interval_s: 0.1,").replace("slide_s: 4}", "slide_s: 0.3}")
    Path("scenario.yaml").write_text(tenths)
    scenario = load_any_scenario("scenario.yaml")
    assert isinstance(scenario, PeriodicScenario)
    assert scenario.groups["top"].queries[0].slide_s == 0.3


def test_the_total_number_of_queries_of_all_groups_is_limited() -> None:
    data = yaml.safe_load(VALID)
    data["groups"] = {f"g{place}": data["groups"]["counted"] for place in range(11)}
    data["drawn"]["per_group"] = 10_000
    Path("scenario.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(InvalidInput) as caught:
        load_any_scenario("scenario.yaml")
    assert str(caught.value) == (
        "scenario.yaml: drawn.per_group: all groups together have more than 100,000 queries (got 10000)\n"
        "  hint: give fewer queries, or fewer groups"
    )


def test_randomly_drawn_queries_are_refused_in_a_scenario_without_groups() -> None:
    Path("scenario.yaml").write_text(
        "extends: sharaf-tardiness\ndrawn: {per_group: 3, range_min_s: 10, range_max_s: 20}\n"
    )
    with pytest.raises(InvalidInput) as caught:
        load_any_scenario("scenario.yaml")
    assert str(caught.value) == (
        "scenario.yaml: drawn: `drawn` adds queries to groups, but the scenario has no groups\n"
        "  hint: add `groups:`, or remove `drawn:`, which `aggregates` do not need"
    )


def test_loading_the_wrong_kind_of_scenario_is_refused() -> None:
    with pytest.raises(InvalidInput) as classes:
        load_scenario("golab-low")
    assert (classes.value.title, classes.value.field) == (
        "the scenario describes periodic queries, not classes",
        "kind",
    )
