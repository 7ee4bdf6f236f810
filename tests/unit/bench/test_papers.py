"""Simulated runs with and without load management, and the functions that judge the claims of the papers.

`make papers` judges the claims themselves, with longer runs.
"""

from typing import Any

import pytest

from bench.papers import sharaf
from bench.papers.dilos.redistribution import accounts, criteria_of
from bench.papers.dilos.runs import NAMES, fared
from bench.papers.dilos.steps import Return, rises_of
from bench.papers.freshening import polling, solved
from bench.papers.mavstream import compared
from configs.scenario.arrivals import StepArrivals
from sim.outcome.promises import check_promises
from sim.outcome.results import outcome_of, results
from sim.simulation import Simulation
from tests.support.scenarios import preset, ran

SEED = 1


def classes_of(run: Simulation) -> list[dict[str, Any]]:
    answer = results(run, "hr")
    assert answer["ledger_closed"]
    classes: list[dict[str, Any]] = answer["classes"]
    return classes


def losses(run: Simulation) -> list[float]:
    return [one["loss_pct"] for one in classes_of(run)]


def means(run: Simulation) -> list[float]:
    return [one["response_ms"]["mean"] for one in classes_of(run)]


def met(run: Simulation) -> list[bool]:
    """Return, for each class, True if 95% of its response times are within its delay target."""
    return [one["response_ms"]["p95"] <= one["delay_target_ms"] for one in classes_of(run)]


def broken(run: Simulation) -> list[str]:
    return [one.text for one in check_promises(outcome_of(run, "hr")) if not one.kept]


# -- workloads that offer twice the capacity -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [(1, 2, 3, 4)])
def test_under_double_load_every_class_meets_its_target_with_every_seed(
    seeds: tuple[int, ...],
) -> None:
    runs = [ran(preset("overload-2x", seconds=30.0), "dilos", seed) for seed in seeds]
    for run in runs:
        assert losses(run)[0] == 0
        assert met(run) == [True, True, True]
        assert means(run)[0] < 5
        assert broken(run) == []
    # Admission plans assume that runs with other seeds give similar results. Losses differ by at most two percentage points.
    # The 95th percentiles of the response times of two runs differ by at most an eighth.
    for place in (1, 2):
        lost = [losses(run)[place] for run in runs]
        p95 = [classes_of(run)[place]["response_ms"]["p95"] for run in runs]
        assert max(lost) - min(lost) < 2
        assert max(p95) / min(p95) < 1.125
        assert len(set(lost)) == len(seeds)


def test_double_load_without_load_management_misses_targets() -> None:
    run = ran(preset("overload-2x", seconds=15.0), "none", SEED)
    assert met(run) == [True, False, False]
    assert [one["queued"] > 10_000 for one in classes_of(run)] == [False, True, True]


# -- experiments of the papers (`make papers` judges their claims) ------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "shares", "after", "broken"),
    [
        ((0.1, 0.5, 5.0), (0.6, 0.3, 0.1), (0.335, 0.165, 0.5), []),
        # Class 2 stays below its original share. All other criteria of a redistribution hold.
        ((0.5, 2.0, 0.5), (0.7, 0.2, 0.1), (0.7, 0.2, 0.1), [1]),
        # Class 3 gets capacity although class 2, which has a higher priority, still demands capacity.
        ((0.1, 2.0, 5.0), (0.6, 0.3, 0.1), (0.3, 0.3, 0.4), [2]),
        # No class demands capacity, but class 3 gets capacity from class 1.
        ((0.1, 0.5, 0.5), (0.6, 0.3, 0.1), (0.5, 0.3, 0.2), [3]),
        ((0.5, 0.5, 0.5), (0.6, 0.3, 0.1), (0.6, 0.3, 0.2), [3, 4]),
    ],
)
def test_the_check_of_shares_finds_every_redistribution_criterion_that_the_shares_break(
    usage: tuple[float, ...], shares: tuple[float, ...], after: tuple[float, ...], broken: list[int]
) -> None:
    assert criteria_of(accounts(usage, shares), dict(zip(NAMES, after, strict=True))) == broken


def test_the_claim_that_a_problem_is_too_large_fails_only_if_an_exact_solution_is_found() -> None:
    exact, coarse = solved(1000, 1e-11, 0.8), solved(1000, 1e-3, 0.7)
    assert (exact.holds, bool(exact.reason)) == (False, True)
    assert (coarse.holds, coarse.reason) == (True, "")


@pytest.mark.parametrize(
    ("saved_pct", "holds", "agrees", "reason"),
    [
        (75.0, True, True, ""),
        (10.0, True, False, "bursts"),
        (0.0, False, False, ""),
        (-75.0, False, False, ""),
    ],
)
def test_a_known_reason_explains_a_saving_of_another_size_but_not_a_reversed_order(
    saved_pct: float, holds: bool, agrees: bool, reason: str
) -> None:
    claim = sharaf.Testbed("sharaf-qos", {}, {}).claims()[0]
    assert (claim.policy, claim.below, claim.by_pct) == ("hnr", "rr", 75)
    found = sharaf.saving_finding(claim, saved_pct, why="bursts")
    assert (found.holds, found.agrees, found.reason) == (holds, agrees, reason)


@pytest.mark.parametrize(
    ("factor", "other", "claimed", "got", "holds", "agrees"),
    [
        (0.8, 120.0, "−20%", "−17%", True, True),
        (0.8, 90.0, "−20%", "+11%", False, False),
        (3.0, 50.0, "3 times", "2 times", True, False),
        (1.04, 96.0, "+4%", "+4%", True, True),
    ],
)
def test_small_factors_are_compared_as_percentages(
    factor: float, other: float, claimed: str, got: str, holds: bool, agrees: bool
) -> None:
    answers = {"hnr": {"slowdown": {"mean": 100.0}}, "hr": {"slowdown": {"mean": other}}}
    finding = sharaf.Comparison("§1", "slowdown.mean", "hnr", "hr", factor).finding(answers)
    assert (finding.claimed, finding.got, finding.holds, finding.agrees) == (claimed, got, holds, agrees)


def test_class_1_waits_for_its_share_from_the_step_of_its_load_and_not_from_the_cycle_that_notices_the_step() -> (
    None
):
    scenario = preset("dilos-steps", seconds=8.0)
    class1 = scenario.classes[0]
    readings = class1.streams["readings"]
    # The step at 6.02 s is between two load cycles of 150 ms.
    steps = StepArrivals.model_validate(
        {"kind": "steps", "steps": [{"at_s": 0, "rate": 500}, {"at_s": 6.02, "rate": 2100}]}
    )
    streams = {**class1.streams, "readings": readings.model_copy(update={"arrivals": steps})}
    scenario = scenario.model_copy(
        update={"classes": (class1.model_copy(update={"streams": streams}), *scenario.classes[1:])}
    )
    shares: list[tuple[float, float]] = []
    wait = Return(scenario.original_shares()["class1"], rises_of(scenario))

    def watch(run: Simulation) -> None:
        shares.append((run.now, run.ring.shares()["class1"]))
        wait(run)

    fared(scenario, "dilos", 1, [watch])
    whole_s = next(at_s for at_s, share in shares if at_s > 6.02 and share >= wait.original - 1e-9)
    assert (wait.since_s, wait.after_s) == ([6.02], [whole_s - 6.02])
    assert 0 < whole_s - 6.02 <= 0.3


def test_an_experiment_gives_the_same_findings_each_time() -> None:
    assert [run(True) for run in (polling, compared)] == [run(True) for run in (polling, compared)]
