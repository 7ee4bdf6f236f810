"""Drawn scenarios, the work that their classes offer, and the verdicts on their runs."""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.patterns.command import LEAST_PER_RUN, app, too_few
from bench.patterns.generator import CLASSES, PATTERNS, SECONDS, TARGETS_MS, Pattern, drawn
from bench.patterns.oracle import OfferedWork, highest_factor, offered_work, tuple_work_us
from bench.patterns.verdicts import PROMISES, Judge, ShareRecord, Verdicts
from configs.scenario.cost_drift import CostStep
from configs.scenario.scenario import Costs, QueryModel, Scenario, load_scenario
from sim.simulation import Simulation
from tests.support.scenarios import (
    Data,
    aggregate,
    at,
    constant,
    join,
    project,
    queries,
    scenario,
    select,
    tenant,
)
from tests.support.terminal import Terminal

EVERY_NUMBER = range(1, 41)


# -- generator ---------------------------------------------------------------------------------------------------


def test_a_number_always_draws_the_same_scenario_and_another_number_another_scenario() -> None:
    assert drawn(7) == drawn(7)
    assert len({drawn(number).scenario.model_dump_json() for number in EVERY_NUMBER}) == len(EVERY_NUMBER)


def test_the_scenarios_cover_every_pattern_and_every_number_of_classes() -> None:
    patterns = [drawn(number) for number in EVERY_NUMBER]
    assert {kind for pattern in patterns for kind in pattern.kinds.values()} == set(PATTERNS)
    assert {len(pattern.kinds) for pattern in patterns} == set(range(CLASSES[0], CLASSES[1] + 1))
    targets = {class_.delay_target_ms for pattern in patterns for class_ in pattern.scenario.classes}
    assert targets >= {TARGETS_MS[0], TARGETS_MS[-1]}
    several = [pattern for pattern in patterns if [*pattern.kinds.values()].count("owner") > 1]
    assert len(several) > 5


@pytest.mark.parametrize("number", EVERY_NUMBER)
def test_each_scenario_has_an_overloaded_class_and_priorities_that_do_not_sum_to_ten(number: int) -> None:
    pattern = drawn(number)
    assert "overload" in pattern.kinds.values()
    assert sum(class_.priority for class_ in pattern.scenario.classes) != 10
    assert pattern.scenario.seconds == SECONDS


# -- oracle ------------------------------------------------------------------------------------------------------


def work(times: Sequence[float], amounts: Sequence[float], capacity: float = 0.5) -> OfferedWork:
    return OfferedWork(
        times=np.array(times),
        work_s=np.array(amounts),
        capacity=capacity,
        target_s=1.0,
        extra_s=0.0,
        long_trains=1.0,
        wait_s=0.0,
    )


def test_the_backlog_is_what_the_original_share_has_not_processed() -> None:
    # 0.3 s of work at 0 s need 0.6 s. At 0.4 s, 0.1 s of work is left.
    assert work([0.0, 0.4], [0.3, 0.25]).peak_backlog_s() == pytest.approx(0.35)
    assert work([0.0, 10.0], [0.3, 0.25]).peak_backlog_s() == pytest.approx(0.3)
    assert work([], []).peak_backlog_s() == 0.0


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 1)), min_size=1, max_size=50), st.floats(0.05, 2))
def test_the_backlog_is_that_of_a_queue_which_is_served_step_by_step(
    arrivals: list[tuple[float, float]], capacity: float
) -> None:
    backlog = peak = now = 0.0
    times = []
    for gap, amount in arrivals:
        backlog = max(0.0, backlog - capacity * gap) + amount
        peak = max(peak, backlog)
        now += gap
        times.append(now)
    amounts = [amount for _, amount in arrivals]
    assert work(times, amounts, capacity).peak_backlog_s() == pytest.approx(peak, abs=1e-9)


def test_a_class_fits_if_its_backlog_takes_at_most_half_of_its_target() -> None:
    assert work([0.0], [0.25]).fits()
    assert not work([0.0], [0.26]).fits()
    assert not dataclasses.replace(work([0.0], [0.25]), extra_s=0.01).fits()
    assert dataclasses.replace(work([0.0], [0.25]), wait_s=0.5).fits()
    assert not dataclasses.replace(work([0.0], [0.25]), wait_s=0.51).fits()


def test_the_work_of_a_tuple_counts_the_tuples_that_reach_each_operator() -> None:
    costs = Costs(call_us=7, source_tuple_us=5, decision_us=1)
    query = QueryModel.model_validate(
        {"name": "q", "reads": ["s"], "operators": [select(0.5, 0.1), select(0.2, 0.2), project(0.3)]}
    )
    # Of a train of eight tuples, four reach the second operator and 0.8 the third. A call and its decision cost 8 µs.
    expected = (5 + 8 / 8) + (100 + 8 / 8) + (0.5 * 200 + 8 / 8) + (0.1 * 300 + 0.8 * 8 / 8)
    assert tuple_work_us(costs, [query], "s") == pytest.approx(expected)


def test_results_of_windows_and_matches_of_joins_are_work_of_the_tuple_that_causes_them() -> None:
    streams = {"s": at(0.5, 0.9, 1.5, 1.6), "t": at(0.4, 1.45)}
    networks = {"n": queries(window=[aggregate(1, 3, 0, 10)], pairs=[join(0.5, 0.5, 0, 100)])}
    made = scenario(tenant("c", streams), networks=networks, costs={"source_tuple_us": 1000})
    offered = offered_work(made, made.classes[0], seed=1)
    # In order of arrival: t 0.4; s 0.5 has one partner; s 0.9 has one; t 1.45 has none; s 1.5 ends a window and has one; s 1.6 has one.
    assert offered.work_s - 0.001 == pytest.approx([0, 0.05, 0.05, 0, 0.03 + 0.05, 0.05])


def test_a_drifting_cost_is_the_higher_of_its_values_now_and_one_target_later() -> None:
    drift = [CostStep(at_s=2, factor=3, ramp_s=2), CostStep(at_s=6, factor=0.5)]
    times = np.array([0.0, 1.0, 2.0, 3.0, 5.0, 5.5, 6.5])
    assert highest_factor(drift, times, 1.0) == pytest.approx([1, 1, 2, 3, 3, 3, 0.5])
    assert highest_factor([], times, 1.0) == pytest.approx([1] * 7)


def test_no_tuple_of_a_steady_load_arrives_after_a_rise_but_all_tuples_of_a_short_burst_do() -> None:
    even = work([number / 100 for number in range(1000)], [0.002] * 1000)
    assert even.woken_part(0.15, 10) == 0.0
    burst = work([5 + number / 1000 for number in range(100)], [0.002] * 100)
    assert burst.woken_part(0.15, 10) == 1.0


@pytest.mark.parametrize("number", [7, 17, 33])
def test_classes_that_fit_meet_their_targets_without_shedding_and_lending(number: int) -> None:
    drawn_data = drawn(number).scenario.model_dump() | {"seconds": 6.0, "drain": False}
    classes = [class_ | {"policy": {"kind": "fcfs"}} for class_ in drawn_data["classes"]]
    short = Scenario.model_validate(drawn_data | {"classes": classes})
    run = Simulation(short, "none", seed=1).run()
    fitting = [class_ for class_ in short.classes if offered_work(short, class_, seed=1).fits()]
    assert fitting
    for class_ in fitting:
        for answers in run.hosts[class_.name].answers.queries.values():
            assert 1e3 * answers.responses.percentile_s(0.995) <= class_.delay_target_ms


# -- verdicts ----------------------------------------------------------------------------------------------------


def two_classes(
    light_ms: float = 1, light: Data | None = None, light_rate: float = 300, **heavy: Any
) -> Scenario:
    """Return a scenario with class `light`, which uses a part of its share, and class `heavy`, which asks for twice its share."""
    arrivals = {"kind": "constant", "rate": light_rate} if light is None else light
    networks = {"light": queries(only=[select(0.5, light_ms)]), "heavy": queries(only=[select(0.5, 1)])}
    return scenario(
        tenant("light", {"s": arrivals}, priority=3, delay_target_ms=400, network="light"),
        tenant("heavy", {"s": constant(600)}, delay_target_ms=800, network="heavy", **heavy),
        networks=networks,
        drain=True,
    )


def verdicts_on(planned: Scenario, executed: Scenario, **steps_s: tuple[float, ...]) -> Verdicts:
    """Return the verdicts if the classes offer the work of `planned`, and the run is that of `executed`."""
    kinds = {class_.name: class_.name for class_ in planned.classes}
    pattern = Pattern(
        number=1, scenario=planned, kinds=kinds, steps_s={name: steps_s.get(name, ()) for name in kinds}
    )
    record = ShareRecord()
    run = Simulation(executed, seed=1, on_cycle=record.record).run()
    return Judge(pattern, run, record, seed=1).verdicts()


def test_a_class_within_its_share_is_judged_and_an_overloaded_class_is_not() -> None:
    verdicts = verdicts_on(two_classes(), two_classes())
    assert dict(verdicts.judged) == {("light", "shed"): 1, ("light", "late"): 1, ("run", "ledger"): 1}
    assert verdicts.findings == []


def test_a_class_within_its_share_that_is_shed_and_late_is_found() -> None:
    findings = verdicts_on(two_classes(), two_classes(light_ms=10)).findings
    assert [finding.promise for finding in findings] == ["shed", "late"]
    assert findings[0].command == "python -m bench.patterns --only 1 --seed 1"


def test_a_class_that_has_not_lent_what_it_needs_is_not_judged_for_being_whole() -> None:
    assert ("light", "whole") not in verdicts_on(two_classes(), two_classes(), light=(2.0,)).judged


def test_an_owner_without_its_share_two_load_cycles_after_its_step_is_found() -> None:
    steps = {"kind": "steps", "steps": [{"at_s": 0, "rate": 30}, {"at_s": 5.02, "rate": 700}]}
    busy, quiet = two_classes(light=steps), two_classes(light_rate=30)
    assert verdicts_on(busy, busy, light=(5.02,)).judged["light", "whole"] == 1
    (finding,) = [
        finding for finding in verdicts_on(busy, quiet, light=(5.02,)).findings if finding.promise == "whole"
    ]
    assert finding.detail.endswith("0.30 s after 5.02 s; its share was never whole again")


def test_classes_that_lose_against_their_priorities_are_found() -> None:
    planned, swapped = two_classes(light_rate=1100), two_classes(light_rate=1100, priority=9)
    assert verdicts_on(planned, planned).judged["light", "order"] == 1
    assert [finding.promise for finding in verdicts_on(planned, swapped).findings] == ["order"]


def test_a_check_that_judged_too_little_fails() -> None:
    verdicts = Verdicts(runs=100)
    assert len(too_few(verdicts)) == len(LEAST_PER_RUN) == len(PROMISES)
    verdicts.judged.update({("run", promise): 1000 for promise in PROMISES})
    assert too_few(verdicts) == []


# -- command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def patterns(terminal: Terminal) -> Terminal:
    return dataclasses.replace(terminal, command=app, name="patterns")


def test_one_run_is_printed_as_one_object(patterns: Terminal) -> None:
    done = patterns("--only", "1", "--seed", "1", "--json")
    assert done.json["runs"] == 1
    assert done.code == (1 if done.json["findings"] else 0)
    assert {entry["promise"] for entry in done.json["judged"]} <= set(PROMISES)


def test_the_table_has_a_row_for_each_judged_pattern(patterns: Terminal) -> None:
    done = patterns("--only", "1", "--seed", "1")
    assert "in 1 runs" in done.out
    assert "ledger" in done.out


def test_a_scenario_is_saved_as_a_file_that_the_simulator_reads(patterns: Terminal, tmp_path: Path) -> None:
    for number in itertools.islice(EVERY_NUMBER, 10):
        assert patterns("--only", str(number), "--save", "drawn.yaml").code == 0
        assert load_scenario(str(tmp_path / "drawn.yaml")) == drawn(number).scenario


def test_saving_needs_the_number_of_a_scenario(patterns: Terminal) -> None:
    done = patterns("--save", "drawn.yaml")
    assert done.code == 2
    assert "add --only with its number" in done.err
