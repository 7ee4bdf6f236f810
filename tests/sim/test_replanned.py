"""Forecasts for other plans of a class, made from measurements under the current plan, and the switch to the best plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from configs.classes.plans import PlanSettings
from configs.classes.policies import policy_of
from configs.classes.policy_and_plan import PLANS, Choice, choice_of
from scheduler.tuning import Compared, tuning_core
from services.tuning.tuner import class_now
from sim.forecast.plan_forecast import SAMPLE_LEAST, MeasuredOperators, forecasts, other_plans, plan_of
from sim.forecast.policy_forecast import ClassNow, ObjectiveFigures, objective_value
from sim.simulation import alone
from tests.support.replanning import RunningClass

HR = [policy_of("hr")]
ROUNDS = 10
USUAL, AFTER, APART, AFTER_APART = PLANS
NEAR = (
    "SELECT r.ts, r.temp, a.level FROM readings r JOIN alerts a ON r.sensor = a.sensor"
    " AND a.ts BETWEEN r.ts - INTERVAL 1 SECOND AND r.ts + INTERVAL 1 SECOND"
)
# Query SELECTIVE joins many pairs, and has conditions that few tuples pass.
# Query DEAR joins few pairs, and has expensive conditions that all tuples pass.
SELECTIVE = {"near": f"{NEAR} WHERE r.temp < 0.05 AND a.level < 0.5"}
DEAR = {
    "near": f"{NEAR} WHERE SQRT(r.temp) + LN(r.temp + 2) + EXP(r.temp) > 0 AND SQRT(a.level) + EXP(a.level) > 0"
}
WINDOWS = {
    f"mean{number}": "SELECT window_end AS wend, sensor, AVG(temp) AS v FROM readings"
    " [RANGE 200 MILLISECONDS SLIDE 100 MILLISECONDS] WHERE temp > 0.1 GROUP BY sensor"
    for number in range(5)
}


def running(queries: dict[str, str], plan: PlanSettings, tuples: int, keys: int) -> RunningClass:
    found = RunningClass(queries, tuples, keys, plan=plan)
    found.go_on(15)
    return found


def now(found: RunningClass) -> ClassNow:
    return class_now("response", found.now())


@pytest.mark.parametrize("plan", [USUAL, AFTER])
def test_if_a_join_has_many_pairs_the_forecast_is_better_with_selective_conditions_before_the_join(
    plan: PlanSettings,
) -> None:
    found = forecasts(now(running(SELECTIVE, plan, 400, 80)), HR, alone)
    assert found["hr"] < 0.6 * found["hr, joins first"], found


@pytest.mark.parametrize("plan", [USUAL, AFTER])
def test_if_all_tuples_pass_a_condition_the_forecast_is_better_with_the_condition_after_the_join(
    plan: PlanSettings,
) -> None:
    found = forecasts(now(running(DEAR, plan, 20, 100_000)), HR, alone)
    assert found["hr, joins first"] < 0.95 * found["hr"], found


@pytest.mark.parametrize("plan", [USUAL, APART])
def test_an_unshared_plan_is_forecast_to_respond_later_than_a_shared_plan(
    plan: PlanSettings,
) -> None:
    found = forecasts(now(running(WINDOWS, plan, 200, 50)), HR, alone)
    assert found["hr"] < 0.6 * found["hr, unshared"], found


def test_a_forecast_counts_an_answer_of_a_shared_operator_once_for_each_query() -> None:
    """Check that the plan with shared operators has one last operator per query, as the plan without sharing has."""
    shared, apart = now(running(WINDOWS, USUAL, 100, 5)), now(running(WINDOWS, APART, 100, 5))
    ends = [[one for one in found.operators if not one.feeds] for found in (shared, apart)]
    assert [len(one) for one in ends] == [len(WINDOWS)] * 2
    assert {one.name for one in ends[0]} == {"answers"}
    assert shared.running is not None
    ((plan, operators),) = other_plans(shared, shared.running)
    assert (plan, sum(not one.feeds for one in operators)) == (APART, len(WINDOWS))


def test_all_policies_are_forecast_with_the_current_plan_but_only_two_with_another_plan() -> None:
    found = replace(now(running(DEAR, USUAL, 20, 100_000)), before=Choice(policy_of("rr"), AFTER))
    by_choice = forecasts(found, [*HR, policy_of("fcfs"), policy_of("rr")], alone)
    assert {one for one in by_choice if choice_of(one).plan == USUAL} == {"hr", "fcfs", "rr"}
    # The queries of this class share no operators, so there is no forecast for a plan without sharing.
    assert {one for one in by_choice if choice_of(one).plan != USUAL} - {"fcfs, joins first"} == {
        "hr, joins first",
        "rr, joins first",
    }


@pytest.mark.parametrize(
    "queries",
    [
        {"hot": "SELECT ts, temp FROM readings WHERE temp > 0.5"},
        {"mean": WINDOWS["mean0"], "cold": "SELECT ts, level FROM alerts WHERE level < 0.5"},
        {
            "rows": "SELECT COUNT(*) AS n FROM readings [ROWS 5]",
            "more": "SELECT SUM(temp) AS t FROM readings [ROWS 5]",
        },
        {"slow": NEAR.replace("1 SECOND", "300 SECONDS") + " WHERE r.temp < 0.5"},
    ],
)
def test_no_forecast_is_made_for_a_plan_that_changes_nothing_or_takes_too_long_to_exchange(
    queries: dict[str, str],
) -> None:
    found = now(running(queries, USUAL, 20, 5))
    assert found.running is not None
    assert list(other_plans(found, found.running)) == []


def test_no_plan_is_forecast_without_samples_or_measurements() -> None:
    found = now(running(SELECTIVE, AFTER, 400, 80))
    assert found.running is not None
    few = {stream: one.slice(0, SAMPLE_LEAST - 1) for stream, one in found.running.samples.items()}
    assert list(other_plans(found, replace(found.running, samples=few))) == []
    fresh = RunningClass(SELECTIVE, 10, 80, plan=AFTER)
    fresh.go_on(1)
    unmeasured = now(fresh)
    assert unmeasured.running is not None
    assert list(other_plans(unmeasured, unmeasured.running)) == []


MANY = {
    "hot": "SELECT ts, sensor, temp FROM readings WHERE temp > 0.2",
    "mean": WINDOWS["mean0"],
    "means": WINDOWS["mean0"].replace("RANGE 200", "RANGE 300"),
    "near": f"{NEAR} WHERE r.temp < 0.3 AND a.level < 0.5 AND r.temp < a.level",
    "nearby": f"{NEAR} WHERE r.temp < 0.3",
    "counted": "SELECT window_end AS wend, COUNT(*) AS n FROM near [RANGE 100 MILLISECONDS]",
    "both": "SELECT window_end AS wend, COUNT(*) AS n FROM (SELECT ts FROM readings WHERE temp > 0.9 UNION ALL SELECT ts"
    " FROM alerts) [RANGE 100 MILLISECONDS]",
    "meet": "SELECT r.temp, a.level FROM readings [RANGE 200 MILLISECONDS] r JOIN alerts [RANGE 100 MILLISECONDS] a"
    " ON r.sensor = a.sensor WHERE a.level < 0.5",
    "last": "SELECT r.temp, a.level FROM readings r JOIN alerts [LAST BY sensor] a ON r.sensor = a.sensor WHERE r.temp < 0.4",
}


@pytest.mark.parametrize(
    ("plan", "other"), [(USUAL, AFTER), (AFTER, USUAL), (AFTER_APART, USUAL), (USUAL, APART), (APART, USUAL)]
)
def test_operators_paired_between_two_plans_get_the_same_input(
    plan: PlanSettings, other: PlanSettings
) -> None:
    one, real = (RunningClass(MANY, 20, 5, plan=each) for each in (plan, other))
    for each in (one, real):
        each.go_on(4)
    found = now(one)
    assert found.running is not None
    aligned = found.running.aligned(dict.fromkeys(MANY, other))
    measured, runner, lines = MeasuredOperators(found, found.running), real.hosted.runner, found.lines
    alone_, moved = [], []
    for number, node in enumerate(runner.network.nodes):
        same = measured.same(node, aligned)
        if same is None:
            alone_.append(node.name)
        elif plan_of(node) in aligned.moved:
            moved.append(node.name)
        else:
            assert (node.name, runner.scheduled.tuples[number]) == (lines[same].name, lines[same].tuples)
    assert one.answers == real.answers
    if plan.select_first == other.select_first:
        assert (alone_, moved) == ([], [])
    else:
        assert set(alone_) == ({"filter"} if other.select_first else set())
        assert set(moved) == {"join.left", "join.right", "lookup", "last"}


def test_a_class_switches_once_to_the_better_plan_without_a_change_of_its_answers() -> None:
    """Run the class, and carry out each decision to switch, which the tuner and the coordinator do in a live system."""
    policy = {"kind": "auto", "steady": 2}
    one, undisturbed = (RunningClass(SELECTIVE, 100, 20, plan=AFTER, policy=policy) for _ in "12")
    core = tuning_core(one.declared)
    assert core is not None
    branches, skipped = Counter[str](), 0
    for round_ in range(ROUNDS):
        one.go_on(4)
        found = one.now()
        if found.is_exchanging:
            skipped += 1
            continue
        assert found.running is not None
        measured = objective_value("response", ObjectiveFigures(found.seen, found.queued))
        predicted = forecasts(class_now("response", found), HR, alone)
        core.handle(Compared(measured, predicted), float(round_))
        branches[core.explanations[-1].branch] += 1
        one.hosted.set_plan(choice_of(core.policy).plan)
    undisturbed.go_on(4 * ROUNDS)
    assert (one.plans, core.policy) == ({USUAL}, "hr"), [
        explanation.words() for explanation in core.explanations
    ]
    assert branches["switch"] == 1
    assert not branches["go back"]
    assert skipped >= 1
    assert one.answers == undisturbed.answers
