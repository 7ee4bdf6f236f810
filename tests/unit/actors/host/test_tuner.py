"""A live class that tunes itself: the samples of its unit, the forecasts from them, and the coordinator's decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.host.tuning_sample import UnitNow
from configs.classes.objectives import Objective
from configs.classes.plans import PlanSettings
from configs.classes.policies import PolicySettings, policy_of, policy_text
from configs.classes.policy_and_plan import Choice
from configs.classes.utility import UtilityGraph
from engine.class_.explain import PlanLine
from engine.network.plan_alignment import RunningPlan
from scheduler.operators.network import Estimate
from services.tuning.tuner import Tuner, class_now
from services.watch.sentences import in_words
from services.watch.watch import Watch
from sim.forecast.policy_forecast import ClassNow, CycleArrivals, busiest_stretch, forecasts, scenario_of
from sim.simulation import alone
from tests.support.clock import Clock
from tests.support.tuned_units import unit_now
from tests.support.watched import NODE, InProcess, declared

AFTER = PlanSettings(select_first=False)


class Forecasts:
    """Stand-in for forecasts of policies, which returns fixed values and records its calls."""

    def __init__(self, clock: Clock, takes_s: float = 0.0, **values: float) -> None:
        self.clock, self.takes_s, self.values = clock, takes_s, values
        self.asked: list[tuple[ClassNow, list[str]]] = []

    def __call__(self, now: ClassNow, policies: Sequence[PolicySettings]) -> Mapping[str, float]:
        self.asked.append((now, [policy_text(one) for one in policies]))
        self.clock.now += self.takes_s
        return self.values


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def system() -> InProcess:
    gold = declared("gold", policy={"kind": "auto", "steady": 2, "every_s": 10}, objective="slowdown")
    found = InProcess().declare(gold, declared("silver"))
    found.units_now["gold"] = unit_now()
    found.cycle("gold", 0.2)
    found.cycle("silver", 0.2)
    return found


def tuner_of(system: InProcess, clock: Clock, forecast: Any) -> tuple[Watch, Tuner]:
    watch = Watch(system, clock=clock, wall=clock)
    return watch, Tuner(system, watch, forecast, clock)


def run_tuner(system: InProcess, clock: Clock, forecast: Any, times: int) -> Watch:
    watch, tuner = tuner_of(system, clock, forecast)
    for _ in range(times):
        watch.look()
        tuner.look()
        clock.now += 5.0
    watch.look()
    return watch


def policies(system: InProcess) -> dict[str, str]:
    """Return the policy (with its plan) that was set for each unit."""
    placed = [unit for units in system.world.units.values() for unit in units]
    return {unit.name: str(unit.runs_by) for unit in placed}


def test_a_class_switches_to_the_policy_with_the_better_forecast(system: InProcess, clock: Clock) -> None:
    forecast = Forecasts(clock, hnr=10.0, fcfs=5.0)
    watch = run_tuner(system, clock, forecast, times=5)
    assert len(forecast.asked) == 2
    now, candidates = forecast.asked[0]
    assert (now.objective, now.operators[1].cost.selectivity, candidates[0]) == ("slowdown", 0.1, "hnr")
    assert policies(system) == {"gold": "fcfs", "silver": "hr"}
    decisions = system.decisions("gold", 10).tuned
    assert [one.branch for one in decisions] == ["consider", "switch"]
    assert decisions[-1].words() == (
        "mean slowdown 20 under hnr (forecast 10), fcfs would have 5, 50% less → "
        "better 2 times in a row: switch to fcfs"
    )
    view = watch.view(max_age_s=float("inf")).classes["gold"]
    assert (view.policy, view.tunes_itself) == ("fcfs", True)
    assert in_words(view).endswith(
        "its operators now run by the policy fcfs, which it has chosen for the least mean slowdown."
    )


def test_policies_are_not_compared_during_a_plan_exchange(system: InProcess, clock: Clock) -> None:
    system.units_now["gold"] = replace(unit_now(), is_exchanging=True)
    forecast = Forecasts(clock, hnr=10.0)
    run_tuner(system, clock, forecast, times=10)
    assert forecast.asked == []
    assert system.decisions("gold", 10).tuned == ()


def sample_under(plan: PlanSettings) -> UnitNow:
    """Return the measurements of a class that uses this plan."""
    running = RunningPlan((), {}, Choice(policy_of("hnr"), plan), (), {}, {}, {}, {})
    return replace(unit_now(), running=running)


def test_a_class_switches_to_the_better_plan_and_is_compared_with_its_old_plan(
    system: InProcess, clock: Clock
) -> None:
    system.units_now["gold"] = sample_under(PlanSettings())
    forecast = Forecasts(clock)
    forecast.values = {"hnr": 10.0, "hnr, joins first": 5.0}
    run_tuner(system, clock, forecast, times=5)
    assert policies(system) == {"gold": "hnr, joins first", "silver": "hr"}
    (unit,) = (one for units in system.world.units.values() for one in units if one.name == "gold")
    assert unit.runs_by.plan == AFTER
    decisions = system.decisions("gold", 10).tuned
    assert decisions[-1].words() == (
        "mean slowdown 20 under hnr (forecast 10), hnr, joins first would have 5, 50% less → "
        "better 2 times in a row: switch to hnr, joins first"
    )
    watch, tuner = tuner_of(system, clock, forecast)
    before = []
    for plan in (PlanSettings(), PlanSettings(), AFTER, AFTER):
        system.units_now["gold"] = sample_under(plan)
        clock.now += 10.0
        watch.look()
        tuner.look()
        before.append(forecast.asked[-1][0].before)
    assert before == [None, None, Choice(policy_of("hnr")), Choice(policy_of("hnr"))]


def test_a_plan_that_could_not_be_exchanged_for_lack_of_room_is_not_tried_again(
    system: InProcess, clock: Clock
) -> None:
    forecast = Forecasts(clock)
    forecast.values = {"hnr": 10.0, "hnr, joins first": 5.0, "fcfs, joins first": 4.0}
    watch, tuner = tuner_of(system, clock, forecast)
    for _ in range(14):
        (unit,) = (one for units in system.world.units.values() for one in units if one.name == "gold")
        plan = unit.runs_by.plan
        system.units_now["gold"] = replace(sample_under(plan), has_given_up=plan == AFTER)
        watch.look()
        tuner.look()
        clock.now += 10.0
    decisions = system.decisions("gold", 20).tuned
    branches = [one.branch for one in decisions]
    assert branches == ["consider", "switch", "give up", *["pause"] * 7, *["stay"] * 3]
    assert decisions[2].words().endswith("there was no room for it: go back to hnr")
    assert policies(system)["gold"] == "hnr"


def test_declaring_another_plan_discards_the_chosen_policy(system: InProcess, clock: Clock) -> None:
    run_tuner(system, clock, Forecasts(clock, hnr=10.0, fcfs=5.0), times=5)
    auto = {"kind": "auto", "steady": 2, "every_s": 10}
    changed = declared("gold", policy=auto, objective="slowdown", plan=PlanSettings(shared=False))
    system.world.plane.apply([changed], 0.0)
    assert policies(system)["gold"] == "hnr, unshared"
    again = system.world.begin_again(system.now, {NODE: 1})
    assert again.plane.status().policies == {"gold": "hnr, unshared"}
    system.world.plane.apply([declared("gold", policy={"kind": "lsf"})], 0.0)
    assert policies(system)["gold"] == "lsf"


def test_the_tuner_spends_at_most_a_tenth_of_its_time_on_forecasts(system: InProcess, clock: Clock) -> None:
    forecast = Forecasts(clock, takes_s=4.0, hnr=10.0)
    run_tuner(system, clock, forecast, times=40)
    assert len(forecast.asked) == 5


def test_sleeping_classes_and_classes_with_a_fixed_policy_are_not_forecast(
    system: InProcess, clock: Clock
) -> None:
    system.cycle("gold", 0.0, asleep=True)
    forecast = Forecasts(clock, hnr=10.0)
    run_tuner(system, clock, forecast, times=10)
    assert forecast.asked == []


def test_a_changed_objective_or_a_fixed_policy_replaces_the_chosen_policy(
    system: InProcess, clock: Clock
) -> None:
    run_tuner(system, clock, Forecasts(clock, hnr=10.0, fcfs=5.0), times=5)
    system.world.plane.apply([declared("gold", policy={"kind": "auto"}, objective="memory")], 0.0)
    assert policies(system)["gold"] == "chain"
    system.world.plane.apply([declared("gold", policy={"kind": "lsf"})], 0.0)
    assert policies(system)["gold"] == "lsf"
    assert system.decisions("gold", 10).tuned == ()


def test_a_restarted_coordinator_keeps_the_chosen_policy(system: InProcess, clock: Clock) -> None:
    run_tuner(system, clock, Forecasts(clock, hnr=10.0, fcfs=5.0), times=5)
    again = system.world.begin_again(system.now, {NODE: 1})
    assert again.plane.status().policies == {"gold": "fcfs"}
    assert again.units == system.world.units


def test_policies_are_forecast_by_simulating_the_sample_of_a_unit() -> None:
    now = class_now("response", unit_now())
    chosen = [policy_of(kind) for kind in ("hr", "fcfs", "srpt")]
    found = forecasts(replace(now, settles=False), chosen, alone)
    assert found["hr"] < 0.9 * found["fcfs"]
    assert found == forecasts(replace(now, settles=False), chosen, alone)
    # In a live class, all answers to a train leave together, unless the slice of the class ends before.
    settled = forecasts(now, chosen, alone)
    assert 0.9 * settled["fcfs"] < settled["hr"] <= settled["fcfs"]
    assert settled["hr"] > found["hr"]
    assert forecasts(class_now("response", unit_now(tuples=0)), chosen, alone) == {}


@pytest.mark.parametrize(("objective", "best"), [("staleness", "fas"), ("utility", "slope-slack")])
def test_forecasts_for_staleness_or_utility_prefer_the_policy_of_that_objective(
    objective: Objective, best: str
) -> None:
    # Answers of the cheap query lose most of their utility if they wait for the expensive query.
    urgent, patient = UtilityGraph.step(10), UtilityGraph.step(5_000)
    noticed = replace(unit_now(), graphs=(None, patient, urgent))
    now = replace(class_now(objective, noticed), settles=False)
    found = forecasts(now, [policy_of("fcfs"), policy_of(best)], alone)
    assert 0 < found[best] < 0.9 * found["fcfs"] < 1


def test_a_forecast_includes_a_burst_in_any_load_cycle_of_the_sample() -> None:
    chosen = [policy_of("hr")]
    now = class_now("response", unit_now())
    # Only some of the 20 load cycles can be simulated, because one of the cycles has 400,000 tuples.
    quiet, burst = ((0, 0),), ((400_000, 1),)
    found = [
        forecasts(
            replace(
                now,
                arrivals={"readings": tuple(CycleArrivals(*one) for one in (*before, *burst, *after))},
                settles=False,
            ),
            chosen,
            alone,
        )
        for before, after in ((quiet * 19, ()), (quiet * 10, quiet * 9), ((), quiet * 19))
    ]
    assert found[0]["hr"] > 100.0
    assert found[0] == found[1] == found[2]


def test_simulating_several_tuples_as_one_keeps_the_number_of_window_ends() -> None:
    lines = (
        PlanLine(0, "source:Readings", (1,), ("w",), 10_000_000, 0.01, 1.0, 1.0, 0, 1000),
        PlanLine(1, "panes", (2,), ("w",), 10_000_000, 0.01, 0.0, 1.0, 0, 1000),
        # The operator `window` has closed windows at fifty ends, with twenty answers at each end.
        PlanLine(2, "window", (3,), ("w",), 0, 100.0, 20.0, 1.0, 0, 50),
        PlanLine(3, "project", (), ("w",), 1000, 1.0, 1.0, 1.0, 0, 50),
    )
    arrivals = {"readings": ((1_000_000, 1),) * 20}
    noticed = replace(unit_now(), lines=lines, arrivals=arrivals, slacks=(None, None, None, 1e-9))
    now = class_now("tardiness", noticed)
    scenario, bundle = scenario_of(now)
    assert bundle > 10
    ended = alone(scenario, None).hosts["class"]
    ends = scenario.seconds / 0.15 * 1_000_000 * 50 / 10_000_000
    assert ended.answers.responses.count * bundle == pytest.approx(20 * ends, rel=0.5)
    assert forecasts(now, [policy_of("hr")], alone)["hr"] > 0


def test_a_policy_is_forecast_to_do_worse_if_it_decides_by_wrong_operator_estimates() -> None:
    # The class has seen no answer of the expensive query, and so estimates that this query emits more than the cheap query.
    now = replace(class_now("response", unit_now()), settles=False)
    chosen = [policy_of("hr"), policy_of("fcfs")]
    right = forecasts(now, chosen, alone)
    operators = [
        replace(now.operators[1], believed=Estimate(1e-6, 1.0)) if place == 1 else one
        for place, one in enumerate(now.operators)
    ]
    wrong = forecasts(replace(now, operators=tuple(operators)), chosen, alone)
    assert wrong["hr"] > right["hr"]
    assert wrong["fcfs"] == right["fcfs"]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 30))
def test_the_forecast_simulates_the_busiest_stretch_of_load_cycles(by_cycle: list[int], length: int) -> None:
    start = busiest_stretch(by_cycle, length)
    endless = by_cycle * 40
    each = [sum(endless[one : one + length]) for one in range(len(by_cycle))]
    assert each[start] == max(each)
    assert by_cycle[start] == max(
        first for first, one in zip(by_cycle, each, strict=True) if one == each[start]
    )


def test_only_answers_after_their_deadline_are_forecast_as_tardy() -> None:
    chosen = [policy_of(kind) for kind in ("hr", "fcfs", "edf-hr")]

    def tardy_ms(*slacks: float | None) -> Mapping[str, float]:
        noticed = replace(unit_now(), slacks=slacks)
        return forecasts(replace(class_now("tardiness", noticed), settles=False), chosen, alone)

    # With a slack of almost 0, the tardiness of an answer is its whole response time; with an hour of slack, the tardiness is 0.
    # The policy edf-hr is left out of the comparison, because deadlines change its order of operators.
    response = forecasts(replace(class_now("response", unit_now()), settles=False), chosen, alone)
    at_once = tardy_ms(None, 1e-9, 1e-9)
    assert {kind: at_once[kind] for kind in ("hr", "fcfs")} == pytest.approx(
        {kind: response[kind] for kind in ("hr", "fcfs")}
    )
    assert tardy_ms(None, 3600.0, 3600.0) == dict.fromkeys(at_once, 0.0)
    cheap = tardy_ms(None, None, 1e-9)
    assert cheap["hr"] < response["hr"]
    assert cheap["hr"] < 0.5 * cheap["fcfs"]
    # No answer has a deadline.
    assert tardy_ms(None, None, None) == tardy_ms() == {}


def test_a_class_without_deadlines_keeps_its_policy(system: InProcess, clock: Clock) -> None:
    gold = declared("gold", policy={"kind": "auto", "every_s": 10}, objective="tardiness")
    system.world.plane.apply([gold], 0.0)

    def forecast(now: ClassNow, policies: Sequence[PolicySettings]) -> Mapping[str, float]:
        return forecasts(now, policies, alone)

    run_tuner(system, clock, forecast, times=4)
    (decision,) = system.decisions("gold", 10).tuned
    assert (
        decision.words() == "time after deadlines not measured under edf-hr → stay: nothing could be forecast"
    )


@pytest.mark.parametrize(("objective", "value"), [("staleness", 0.25), ("utility", 0.5), ("tardiness", 12.5)])
def test_a_class_is_measured_by_its_objective(clock: Clock, objective: Objective, value: float) -> None:
    gold = declared("gold", policy={"kind": "auto", "every_s": 10}, objective=objective)
    system = InProcess().declare(gold)
    system.units_now["gold"] = replace(unit_now(), stale=0.25, lost=0.5, tardy_ms=12.5)
    system.cycle("gold", 0.2)
    run_tuner(system, clock, Forecasts(clock, fas=1.0), times=4)
    assert [one.measured for one in system.decisions("gold", 10).tuned] == [value]
