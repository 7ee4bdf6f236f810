"""Periodic queries in virtual time. `python -m bench.papers` judges Golab's claims."""

from math import exp

import pytest

from bench.papers.golab import (
    PRESETS,
    QUICK_RUNS,
    QUICK_SECONDS,
    SCHEDULES,
    aggregate_queries,
    over_runs,
    packet_queries,
    periodic_preset,
)
from configs.classes.periodic_schedules import PERIODIC_KINDS, PeriodicSettings, schedule_of
from scheduler.windows import PeriodicQuery, ScanCosts
from sim.windows.periodic_results import run_scenario
from sim.windows.periodic_run import PeriodicWorkload, QueryRuns, SynopsisLoad, mean, run_periodic
from sim.windows.periodic_scenario import workload_of
from tests.support.schedules import periodic_of

ONES = (("a", 10, 2), ("b", 15, 3), ("c", 30, 5))


def workload(interval_cost_s: float, update_s: float = 0.0, one_time_s: float = 0.0) -> PeriodicWorkload:
    return PeriodicWorkload(
        [PeriodicQuery(name, "synopsis", "g", window, slide) for name, window, slide in ONES],
        {"synopsis": SynopsisLoad(1.0, update_s)},
        {"g": ScanCosts(interval=interval_cost_s)},
        one_time_every_s=1.0,
        one_time_s=one_time_s,
    )


@pytest.mark.parametrize("kind", PERIODIC_KINDS)
def test_with_enough_time_every_query_runs_at_its_period_and_in_time(kind: str) -> None:
    outcome = run_periodic(workload(0.001), periodic_of(kind), 300.5)
    period = {"aggressive": (2, 2, 2), "hybrid": (2, 2, 5)}.get(kind, (2, 3, 5))
    expected = {name: QueryRuns(300 // one) for (name, *_), one in zip(ONES, period, strict=True)}
    assert dict(outcome.queries) == expected
    rate = {"none": 449 / 30, "aggressive": 14.5, "conservative": 358 / 30, "hybrid": 11.4}[kind]
    assert outcome.busy_s == pytest.approx(0.001 * rate * 300)


def test_updates_and_one_time_queries_take_time_from_periodic_queries() -> None:
    alone = run_periodic(workload(0.05), periodic_of("hybrid"), 200.0)
    loaded = run_periodic(workload(0.05, update_s=0.3, one_time_s=0.3), periodic_of("hybrid"), 200.0)
    assert alone.latency_updates == 0
    assert alone.utilisation == pytest.approx(0.57, abs=0.02)
    assert loaded.latency_updates > 0
    assert loaded.utilisation == pytest.approx(1.0, abs=0.01)


# Factors by which the costs of the 80 queries of Golab's paper are multiplied.
@pytest.mark.parametrize("scale", [0.6, 1.0, 2.0], ids=["light", "medium", "heavy"])
def test_under_overload_schedules_that_share_more_are_less_late(scale: float) -> None:
    schedules: list[PeriodicSettings] = [
        periodic_of("none"),
        periodic_of("conservative"),
        periodic_of("hybrid", late="off"),
        periodic_of("hybrid", late="late"),
        periodic_of("hybrid", late="late-pending"),
    ]
    given = packet_queries(10, 1500, 1)
    costs = {
        group: ScanCosts(one.interval * scale, 0.0, one.answer * scale, one.answer_interval * scale)
        for group, one in given.costs.items()
    }
    queries = PeriodicWorkload(given.queries, given.synopses, costs)
    late = [run_periodic(queries, one, 100.0).latency_updates for one in schedules]
    assert late == sorted(late, reverse=True)
    assert late[-1] < late[0] / 4


def test_waiting_until_the_end_of_a_run_counts_towards_tardiness() -> None:
    outcome = run_periodic(workload(0.2), periodic_of("conservative"), 100.0)
    assert all(one.runs for one in outcome.queries.values())
    assert outcome.latency_updates > 1
    tardy_s = [query.tardiness_s / query.runs for query in outcome.queries.values()]
    assert outcome.tardiness_s_max > sum(tardy_s) / len(tardy_s) > 0


def test_queries_unanswered_at_the_end_of_a_run_are_not_counted_as_answers() -> None:
    outcome = run_periodic(workload(0.2), periodic_of("none", tasks="query"), 100.0)
    assert outcome.answers == outcome.tasks
    assert outcome.throughput == outcome.tasks / outcome.seconds
    assert {name: one.unanswered for name, one in outcome.queries.items()} == {"a": 1, "b": 0, "c": 1}


@pytest.mark.parametrize("rate", PRESETS)
@pytest.mark.parametrize("name", SCHEDULES)
def test_presets_of_periodic_queries_give_the_figures_of_bench_papers(name: str, rate: int) -> None:
    preset = periodic_preset(PRESETS[rate])
    assert preset.drawn is not None
    few = preset.model_copy(
        update={"seconds": QUICK_SECONDS, "drawn": preset.drawn.model_copy(update={"per_group": 10})}
    )
    settings = schedule_of(SCHEDULES[name], preset.schedule)
    ran = [run_scenario(few, settings, seed) for seed in range(1, 1 + QUICK_RUNS)]
    claimed = over_runs(name, 10, rate, True)
    assert mean([one["throughput"] for one in ran]) == pytest.approx(claimed.throughput, abs=1e-6)
    assert mean([one["latency_updates"] for one in ran]) == pytest.approx(claimed.latency, abs=1e-6)
    assert mean([one["shortened_pct"] / 100 for one in ran]) == pytest.approx(claimed.shortened, abs=1e-6)


@pytest.mark.parametrize("run", [1, 2])
def test_the_preset_sharaf_tardiness_has_the_queries_of_bench_papers(run: int) -> None:
    preset = periodic_preset("sharaf-tardiness")
    workload = workload_of(preset, run)
    assert workload == aggregate_queries(1.1, run)
    asked = [
        workload.costs[one.group].call / workload.synopses[one.synopsis].interval_s
        for one in workload.queries
    ]
    assert len(asked) == 20
    assert sum(asked) == pytest.approx(1.1)
    assert preset.groups == {}


def test_the_cost_of_an_answer_follows_the_number_of_distinct_values_in_its_window() -> None:
    """Check the cost of an answer for windows of 20 and 100 s, at the lower of Golab's two rates."""
    costs = packet_queries(10, 1500, 1).costs["pair"]
    for window in (20, 100):
        counts = 1e6 * (1 - exp(-1500 * window / 1e6))
        assert costs.answering(1, window) == pytest.approx(5e-6 * 0.05 * counts)
    assert costs.interval == pytest.approx(5e-6 * 1e6 * (1 - exp(-0.0015)))


def test_a_run_of_periodic_queries_repeated_gives_the_same_results() -> None:
    ones = [run_periodic(packet_queries(5, 3000, 1), periodic_of("hybrid"), 30.0) for _ in range(2)]
    assert ones[0] == ones[1]
