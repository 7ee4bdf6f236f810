"""The conditions under which a promise counts as kept, tested on results that were made up."""

from typing import Any

import pytest

from scheduler.capacity.core import ShareMove
from sim.outcome.outcome import Outcome
from sim.outcome.promises import Promise, check_overload, check_promises
from sim.series import ClassSeries

SHARES = {"gold": 0.6, "silver": 0.3, "bronze": 0.1}
PRIORITIES = {"gold": 6, "silver": 3, "bronze": 1}


def class_result(name: str, **changed: Any) -> dict[str, Any]:
    one = {
        "name": name,
        "priority": PRIORITIES[name],
        "delay_target_ms": 300,
        "offered": 1000,
        "shed": 0,
        "late": 0,
        "rejected": 0,
        "failed": 0,
        "loss_pct": 0.0,
        "response_ms": {"p95": 100.0, "p99": 200.0},
        "share": {"original": SHARES[name]},
    }
    return one | changed


def outcome(
    *,
    loads: dict[str, list[float | None]] | None = None,
    drops: dict[str, list[float]] | None = None,
    moves: tuple[ShareMove, ...] = (),
    closed: bool = True,
    **changed: Any,
) -> Outcome:
    """Return the outcome of a run that keeps all promises, with the given changes. Loads and drops have one value per second."""
    classes = [class_result(name, **changed.get(name, {})) for name in SHARES]
    series = {}
    for name in SHARES:
        load = (loads or {}).get(name, [2.0])
        drop = (drops or {}).get(name, [0.0] * len(load))
        series[name] = ClassSeries(at_s=[float(place) for place in range(len(load))], load=load, drop=drop)
    return Outcome({"classes": classes, "ledger_closed": closed}, "", 1, series, moves)


def verdicts(promises: list[Promise]) -> dict[str, bool]:
    return {one.text: one.kept for one in promises}


def overload(useful_per_s: float = 98.0, **changed: Any) -> dict[str, bool]:
    return verdicts(check_overload(outcome(**changed), "gold", useful_per_s, 100.0))


def test_a_target_is_met_if_95_of_100_answers_are_in_time() -> None:
    late = {"response_ms": {"p95": 300.1, "p99": 300.2}}
    assert verdicts(check_promises(outcome(silver=late))) == {
        "gold meets its delay target": True,
        "silver meets its delay target": False,
        "bronze meets its delay target": True,
        "the ledger closes": True,
    }


def within_share(**given: Any) -> dict[str, bool]:
    return {
        text: kept
        for text, kept in verdicts(check_promises(outcome(**given))).items()
        if "no more than its share" in text
    }


def test_only_a_class_that_stays_within_its_share_is_promised_no_loss() -> None:
    lost = {"shed": 7}
    loads = {"gold": [0.5, None, 0.6], "silver": [0.31, 0.32], "bronze": []}
    assert within_share(loads=loads, gold=lost, silver=lost, bronze=lost) == {
        "gold loses nothing while it asks for no more than its share": False
    }


@pytest.mark.parametrize(
    ("drops", "kept"),
    [
        (
            [0.0, 0.1, 0.1, 0.1, 0.1, 0.0, 0.0],
            True,
        ),  # The class drops tuples until three seconds after the overload.
        ([0.0, 0.1, 0.0, 0.0, 0.0, 0.1, 0.0], False),
        ([0.1, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0], False),  # The class may not drop tuples before the overload.
    ],
)
def test_a_class_may_lose_data_only_while_it_exceeds_its_share(drops: list[float], kept: bool) -> None:
    loads = {"gold": [0.5, 0.7, 0.5, 0.5, 0.5, 0.5, 0.5]}
    found = within_share(loads=loads, drops={"gold": drops}, gold={"shed": 7})
    assert found == {"gold loses nothing while it asks for no more than its share": kept}


def test_a_class_without_shed_tuples_has_lost_nothing_even_if_dropping_was_decided() -> None:
    found = within_share(loads={"gold": [0.5, 0.7, 0.5]}, drops={"gold": [0.1, 0.0, 0.1]}, gold={"shed": 0})
    assert found == {"gold loses nothing while it asks for no more than its share": True}


def test_late_rows_break_the_promise_of_no_loss() -> None:
    loads = {"gold": [0.5, 0.5], "silver": [0.2, 0.4, 0.2]}
    found = within_share(loads=loads, gold={"late": 3}, silver={"late": 3})
    assert found == {
        "gold loses nothing while it asks for no more than its share": False,
        "silver loses nothing while it asks for no more than its share": False,
    }


@pytest.mark.parametrize(("share", "kept"), [(0.6, True), (0.599_999_9, True), (0.59, False)])
def test_an_owner_that_reclaims_gets_its_share_back(share: float, kept: bool) -> None:
    moved = ShareMove(1.0, "reclaim by gold", {"gold": 0.4}, {"gold": share}, {})
    other = ShareMove(2.0, "redistribution", {"gold": 0.6}, {"gold": 0.2}, {})
    found = verdicts(check_promises(outcome(moves=(moved, other))))
    assert found["gold gets lent capacity back at once"] is kept


def test_a_ledger_that_does_not_close_breaks_a_promise() -> None:
    assert verdicts(check_promises(outcome(closed=False)))["the ledger closes"] is False


def test_under_overload_a_good_run_keeps_every_promise() -> None:
    found = overload(silver={"loss_pct": 40.0}, bronze={"loss_pct": 60.0})
    assert len(found) == 4
    assert all(found.values())


@pytest.mark.parametrize("fate", ["shed", "late", "rejected", "failed"])
def test_the_promise_of_no_loss_is_broken_by_any_kind_of_lost_tuple_of_the_entitled_class(fate: str) -> None:
    assert overload(gold={fate: 1})["gold loses nothing"] is False


def test_under_overload_a_p99_above_the_target_breaks_the_promise_to_the_entitled_class() -> None:
    assert (
        overload(gold={"response_ms": {"p95": 100.0, "p99": 300.0}})["gold has its p99 below the target"]
        is False
    )


def test_a_promise_is_broken_if_a_class_loses_more_than_a_lower_class() -> None:
    text = "losses follow priorities"
    assert overload(silver={"loss_pct": 50.0}, bronze={"loss_pct": 50.0})[text] is True
    assert overload(silver={"loss_pct": 50.1}, bronze={"loss_pct": 50.0})[text] is False


@pytest.mark.parametrize(("useful_per_s", "kept"), [(95.0, True), (94.9, False), (120.0, True)])
def test_useful_throughput_is_compared_with_the_calibrated_throughput(
    useful_per_s: float, kept: bool
) -> None:
    assert overload(useful_per_s)["useful throughput is near the calibrated throughput"] is kept
