"""The verdict of a run: its promises, its largest loan and its losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scheduler.capacity.core import ShareMove
from sim.outcome.outcome import Outcome
from sim.outcome.promises import Promise
from sim.outcome.verdict import verdict
from sim.series import ClassSeries

KEPT = Promise("gold meets its delay target", True, "")
BROKEN = Promise("silver meets its delay target", False, "")


def outcome(
    lending: Mapping[str, Mapping[str, float]],
    moves: int = 0,
    peak: float = 0.71,
    shed: Mapping[str, int] | None = None,
) -> Outcome:
    """Return a run of two classes in which silver's share peaks 30 s after the start."""
    classes: list[dict[str, Any]] = [
        {"name": name, "share": {"original": original}, "offered": 100_000}
        | {"shed": (shed or {}).get(name, 0), "late": 0, "rejected": 0, "failed": 0}
        for name, original in (("gold", 0.6), ("silver", 0.4))
    ]
    series = {
        "gold": ClassSeries(at_s=[0, 30, 60], share=[0.6, 1 - peak, 0.6]),
        "silver": ClassSeries(at_s=[0, 30, 60], share=[0.4, peak, 0.4]),
    }
    reclaim = ShareMove(50.0, "reclaim by gold", {"gold": 0.29}, {"gold": 0.6}, {})
    return Outcome({"classes": classes, "lending": lending}, "", 1, series, [reclaim] * moves)


def test_a_verdict_reports_a_loan_its_return_and_the_losses() -> None:
    run = outcome({"gold": {"silver": 6.25}}, moves=2, shed={"silver": 3000})
    assert verdict(run, [KEPT, KEPT]) == [
        "All 2 promises were kept.",
        "gold did not need all of its share, and lent silver 6.2 processor-seconds of it: "
        "silver had 71% of the lanes 30 s into the run; its own share is 40%.",
        "gold asked for its capacity back 2 times, and had its 60% again at once.",
        "Part of the input that was lost: gold none, silver 3.0%.",
    ]


def test_a_verdict_names_broken_promises() -> None:
    assert verdict(outcome({}), [KEPT, BROKEN])[0] == (
        "1 of 2 promises was broken: silver meets its delay target."
    )


def test_a_verdict_without_a_loan_does_not_mention_lending() -> None:
    assert verdict(outcome({}, moves=1), [KEPT]) == ["The promise was kept.", "No input was lost."]


def test_a_verdict_does_not_mention_a_loan_too_small_to_see() -> None:
    assert verdict(outcome({"gold": {"silver": 0.1}}, peak=0.41), [KEPT])[1:] == ["No input was lost."]


def test_a_verdict_reports_input_that_feeds_missed() -> None:
    run = outcome({})
    said = [
        verdict(
            replace(run, result={**run.result, "offered": {"gold": {"accepted": 70, "missed": late}}}), [KEPT]
        )[2:]
        for late in (0, 7, 30)
    ]
    assert [[sentence[:49] for sentence in sentences] for sentences in said] == [
        [],
        [],
        ["The feeds delivered only 70% of the planned input"],
    ]


def test_a_small_loss_is_not_rounded_to_none() -> None:
    run = outcome({}, shed={"gold": 4})
    assert verdict(run, [KEPT])[1] == "Part of the input that was lost: gold less than 0.1%, silver none."
