"""Scenarios that are simulated for an admission plan. If rates are reduced or classes are combined, loads do not change."""

from __future__ import annotations

import math
from dataclasses import astuple, replace

import pytest

from configs.classes.live_class import LiveSettings
from configs.classes.priority_class import PriorityClass
from configs.scenario.arrivals import ConstantArrivals, PoissonArrivals, TraceArrivals
from configs.scenario.scenario import contradictions
from sim.admission.planned_scenario import (
    SINGLE_MAX,
    Builder,
    arrivals_of,
    asking,
    grouped,
    one_queue,
    together,
    water_level,
)
from sim.admission.situation import ClassLoad, InputLoad, Situation
from sim.run.simulated_host import SimulatedHost


def load(
    name: str, processors: float, priority: float = 1, tuple_s: float = 1e-6, **terms: float
) -> ClassLoad:
    declared = PriorityClass(name=name, priority=priority, delay_target_ms=300, **terms)
    return ClassLoad(declared, (InputLoad(processors / tuple_s, tuple_s, batch_s=0.1, calls=10),))


@pytest.mark.parametrize("tuple_s", [1e-8, 1e-6, 1e-4])
def test_a_simulated_class_has_the_same_load_as_the_class_in_the_admission_plan(tuple_s: float) -> None:
    classes = [load("a", 0.3, tuple_s=tuple_s), load("b", 0.6, 2)]
    scenario = Builder(Situation(1, LiveSettings())).built(classes).scenario
    assert list(contradictions(scenario)) == []
    hosts = [SimulatedHost(scenario, one, 1) for one in scenario.classes]
    found = [host.plan.load(1, host.rates) for host in hosts]
    assert found == [pytest.approx(0.3), pytest.approx(0.6)]
    assert scenario.original_shares() == pytest.approx({"u00000": 1 / 3, "u00001": 2 / 3})


def test_streams_of_low_rate_are_simulated_at_random_and_of_high_rate_evenly() -> None:
    assert arrivals_of(50.0, 0.0, math.inf, 0.5) == (PoissonArrivals(kind="poisson", rate=50.0), 1.0)
    assert arrivals_of(5000.0, 0.0, 100.0, 0.5) == (ConstantArrivals(kind="constant", rate=100.0), 50.0)


def test_streams_that_arrive_in_batches_are_simulated_in_batches() -> None:
    found, bundle = arrivals_of(5000.0, 0.1, 50.0, 0.5)
    assert found == TraceArrivals(kind="trace", times_s=(0.05, 0.05, 0.05, 0.05, 0.1), repeat=True)
    assert bundle * found.mean_rate() == pytest.approx(5000.0)
    assert arrivals_of(5000.0, 0.1, 12.0, 0.5) == (ConstantArrivals(kind="constant", rate=10.0), 500.0)


def test_to_fit_the_simulation_the_highest_arrival_rates_are_lowered_first() -> None:
    assert water_level([1.0, 2.0, 3.0], 6.0) == math.inf
    assert water_level([1.0, 10.0, 20.0], 7.0) == 3.0
    assert water_level([], 7.0) == math.inf


def test_many_classes_are_grouped_with_sleeping_classes_in_separate_groups() -> None:
    awake = [load(f"a{number}", 0.001 * (1 + number % 2)) for number in range(SINGLE_MAX + 20)]
    asleep = [load(f"s{number}", 0.0, lendable=0.5) for number in range(50)]
    groups = grouped([*awake, *asleep], set(), 1, 10_000)
    assert sorted(one.name for group in groups for one in group.members) == sorted(
        one.name for one in [*awake, *asleep]
    )
    sizes = sorted(len(group.members) for group in groups)
    assert sizes == [1] * SINGLE_MAX + [20, 50]
    (sleepers,) = [group.whole for group in groups if not group.whole.rate]
    assert (sleepers.declared.priority, sleepers.declared.lendable) == (50, 0.5)


def test_classes_for_which_an_admission_plan_is_made_are_never_grouped() -> None:
    classes = [load(f"a{number}", 0.01) for number in range(SINGLE_MAX + 5)]
    small = load("small", 0.0)
    groups = grouped([*classes, small], {"small"}, 1, 10_000)
    assert [group for group in groups if small in group.members] == [
        next(one for one in groups if one.whole == small)
    ]


def test_a_group_has_the_entitlement_and_load_of_its_members() -> None:
    one = replace(load("a", 0.2), inputs=(InputLoad(1000.0, 1e-4, 1e-2, batch_s=0.1),))
    found = together([one, load("b", 0.3, 3, max_drop=0.5)], 10_000)
    assert (found.declared.priority, found.max_drop) == (4, 0.5)
    (given,) = found.inputs
    # A tuple of class a costs 200 µs: 100 µs of its own, and a hundredth of the 10 ms that a call costs.
    assert given.rate * given.tuple_s == pytest.approx(0.2 + 0.3)
    assert given.rate == pytest.approx(1000.0 + 0.3e6)
    assert given.call_s == 0.0


def test_the_admission_plan_simulates_the_streams_of_a_join_as_one_queue() -> None:
    found = one_queue([InputLoad(30.0, 1e-3, 1e-4, 2.0, 0.1, 3), InputLoad(10.0, 5e-3, 2e-4, 6.0, 0.2, 4)])
    assert astuple(found) == pytest.approx((40.0, 2e-3, 3e-4, 3.0, 0.2, 7))


def test_in_the_worst_case_running_classes_ask_for_more_than_their_shares() -> None:
    situation = Situation(1, LiveSettings(), planned=(load("new", 0.2),))
    classes = [load("new", 0.2), load("idle", 0.0, 3), load("bare", 0.0, 4), load("busy", 5.0, 2)]
    classes[2] = replace(classes[2], inputs=())
    scenario = Builder(situation, frozenset({"new"})).built(classes).scenario
    shares = scenario.original_shares()
    found = {}
    for one in scenario.classes:
        host = SimulatedHost(scenario, one, 1)
        found[one.name] = (one.borrow_limit, host.plan.load(1, host.rates) / shares[one.name])
    modest = [name for name, (borrows, _) in found.items() if borrows == 0]
    assert [found[name][1] for name in modest] == [pytest.approx(2.0)]
    assert all(part >= 1.99 for name, (_, part) in found.items() if name not in modest)


def test_a_class_with_hardly_any_input_can_be_scaled_to_any_load() -> None:
    found = asking(replace(load("a", 0.1), inputs=(InputLoad(1e-300, 1e-6),)), 0.5, 10_000)
    assert found.inputs[0].load(10_000) == pytest.approx(0.5)
