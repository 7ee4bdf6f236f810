"""Admission plans compared with simulated runs. A plan is made from a run without the new class, and forecasts a run with the class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from configs.classes.live_class import LiveSettings
from configs.classes.priority_class import PriorityClass
from configs.scenario.scenario import Scenario
from sim.admission.planner import DROP_TOLERANCE, plan, seen_by
from sim.admission.situation import AdmissionPlan, ClassLoad, ClassPlan, InputLoad, Situation
from sim.outcome.results import results
from sim.simulation import Simulation
from tests.support.planned import situation_without
from tests.support.scenarios import poisson, preset

pytestmark = pytest.mark.slow

NAMES = ("class1", "class2", "class3")
# Tolerances of the comparison. Response times below P95_FLOOR_MS depend on single trains, which no plan can forecast.
P95_FACTOR, P95_FLOOR_MS, DROP_POINTS = 2.0, 20.0, 8.0


def three(loads: tuple[float, float, float], **last: Any) -> Scenario:
    """Return the three classes of the DILoS paper. Loads are fractions of the machine's capacity. The third class is the new class."""
    one = preset("dilos-sc").classes[0].model_dump()
    streams = {"readings": {"arrivals": poisson(1300)}, "alerts": {"arrivals": poisson(65)}}
    terms = zip(NAMES, (6, 3, 1), (300, 400, 500), loads, strict=True)
    classes = [
        one
        | {
            "name": name,
            "priority": priority,
            "delay_target_ms": target,
            "offered_load": load,
            "streams": streams,
        }
        | (last if name == NAMES[-1] else {})
        for name, priority, target, load in terms
    ]
    return Scenario.model_validate(preset("dilos-sc").model_dump() | {"classes": classes, "seconds": 20})


def by_name(found: AdmissionPlan) -> dict[str, ClassPlan]:
    return {one.name: one for one in found.classes}


@pytest.mark.parametrize(
    ("loads", "max_drop"),
    [
        ((0.3, 0.2, 0.1), 0.95),
        ((0.3, 0.2, 0.1), 0.0),
        ((0.5, 0.3, 0.3), 0.95),
        ((0.5, 0.3, 0.3), 0.1),
        ((0.48, 0.76, 0.76), 0.95),
        ((0.48, 0.76, 0.76), 0.1),
    ],
)
def test_the_admission_plan_forecasts_a_simulated_run_with_the_new_class(
    loads: tuple[float, float, float], max_drop: float
) -> None:
    scenario = three(loads, max_drop=max_drop)
    planned = by_name(plan(situation_without(scenario, "class3")))
    for one in results(Simulation(scenario).run(), "hr")["classes"]:
        expected, p95_ms = planned[one["name"]], one["response_ms"]["p95"]
        holds = (
            p95_ms <= one["delay_target_ms"] and one["loss_pct"] / 100 <= expected.max_drop + DROP_TOLERANCE
        )
        after = expected.after
        assert after.p95_ms is not None
        kept = after.p95_ms <= expected.target_ms and after.drop <= expected.max_drop + DROP_TOLERANCE
        assert kept == holds, (one, after)
        assert abs(100 * after.drop - one["loss_pct"]) < DROP_POINTS, (one, after)
        low, high = sorted((max(p95_ms, P95_FLOOR_MS), max(after.p95_ms, P95_FLOOR_MS)))
        assert high <= P95_FACTOR * low, (one, after)


def test_a_new_class_may_make_the_lowest_class_lose_data_but_not_the_highest_class() -> None:
    situation = Situation(
        1,
        LiveSettings(),
        (load("class1", 6, 300, 0.4), load("class3", 1, 500, 0.5)),
        (load("class2", 3, 400, 0.4),),
    )
    found = plan(situation)
    first, last = by_name(found)["class1"], by_name(found)["class3"]
    assert first.before is not None
    assert last.before is not None
    assert (first.before.drop, first.after.drop, last.before.drop) == (0.0, 0.0, 0.0)
    assert last.after.drop > 0.3
    assert (found.holds, first.holds, last.holds) == (True, True, True), (
        "a class holds if it loses no more than it may"
    )
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith("class class3 would lose")
    assert seen_by(found, ["class2"]).as_json() == found.as_json() | {
        "classes": [one for one in found.as_json()["classes"] if one["name"] == "class2"],
        "warnings": [found.warnings[0].replace("class class3", "another class")],
    }


def test_a_class_that_needs_more_than_its_share_meets_its_target_only_while_other_classes_leave_capacity() -> (
    None
):
    new = load("new", 1, 300, 0.3, max_drop=0.1)
    found = plan(Situation(1, LiveSettings(), (load("large", 9, 300, 0.1),), (new,)))
    planned = by_name(found)["new"]
    assert planned.after.drop == 0
    assert planned.at_worst is not None
    assert planned.at_worst.falls_behind, "the class may drop no more, so it must fall behind"
    assert planned.at_worst.drop == pytest.approx(0.1, abs=0.01)
    assert (found.holds_now, found.holds, planned.holds) == (True, False, False)
    assert found.warnings[0].startswith("class new would miss its delay target of 300 ms")


def test_a_class_below_its_share_meets_its_target_even_in_the_worst_case() -> None:
    new = load("new", 3, 300, 0.15, max_drop=0.0)
    found = plan(Situation(1, LiveSettings(), (load("large", 7, 300, 0.1),), (new,)))
    assert found.holds, found.warnings


def test_a_target_that_was_already_missed_does_not_count_against_the_new_class() -> None:
    old = load("old", 1, 200, 1.5, max_drop=0.0)
    found = plan(Situation(1, LiveSettings(), (old,), (load("new", 9, 500, 0.1),)))
    assert (by_name(found)["old"].holds, found.holds) == (False, True)


def test_a_lossless_class_that_asks_for_more_than_it_gets_falls_behind() -> None:
    new = replace(load("new", 1, 2000, 1.1), lossless=True)
    found = by_name(plan(Situation(1, LiveSettings(), (), (new,))))["new"]
    assert (found.after.falls_behind, found.after.drop, found.holds) == (True, 0.0, False)


def test_the_admission_plan_runs_a_class_with_shards_on_several_lanes() -> None:
    new = load("new", 1, 300, 1.5, max_drop=0.0)
    assert not plan(Situation(2, LiveSettings(lanes=2), (), (new,))).holds
    assert plan(Situation(2, LiveSettings(lanes=2), (), (replace(new, shards=2),))).holds


def test_admission_plans_for_the_same_situation_are_equal() -> None:
    situation = Situation(1, LiveSettings(), (load("a", 2, 300, 0.6),), (load("b", 1, 300, 0.6),))
    assert plan(situation) == plan(situation)
    assert plan(situation) != plan(replace(situation, seed=2))


def test_the_admission_plan_groups_a_thousand_classes_and_reports_each_class() -> None:
    running = tuple(
        load(f"c{number}", 1 + number % 3, 300, 0.0 if number % 9 else 0.0005) for number in range(1000)
    )
    found = plan(Situation(1, LiveSettings(), running, (load("new", 100, 500, 0.2),)))
    by_class = by_name(found)
    assert by_class.keys() == {*(one.name for one in running), "new"}
    assert found.assumed == (
        "the 53 classes with the smallest load were planned in groups of similar classes",
    )
    assert sum(one.after.share for one in found.classes) == pytest.approx(1.0, abs=0.02)
    assert {name for name, one in by_class.items() if one.after.p95_ms is None} == {
        one.name for one in running if not one.rate
    }


def test_the_admission_plan_of_an_empty_system_has_no_classes() -> None:
    found = plan(Situation(1, LiveSettings()))
    assert found == AdmissionPlan((), True, True, 0.0, (), ())


def test_a_class_without_input_keeps_its_target() -> None:
    found = plan(Situation(1, LiveSettings(), (load("a", 1, 300, 0.5),), (load("b", 1, 300, 0.0),)))
    assert found.holds
    assert (
        by_name(found)["b"].why
        == "with the present load, the class has no input; at worst the class has no input"
    )


def load(
    name: str, priority: float, target_ms: float, processors: float, max_drop: float = 0.95
) -> ClassLoad:
    """Return a class with a load in processors. The class gets ten batches per second, and each row costs 0.2 µs."""
    declared = PriorityClass(name=name, priority=priority, delay_target_ms=target_ms, max_drop=max_drop)
    return ClassLoad(declared, (InputLoad(processors / 0.2e-6, 0.2e-6, 100e-6, batch_s=0.1, calls=10),))
