"""Summary of a run in a few sentences: promises kept or broken, the largest loan between classes, and losses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sim.outcome.outcome import Outcome
from sim.outcome.promises import ROUNDED, Promise

LOSSES = ("shed", "late", "rejected", "failed")
# The summary mentions missing input if more than this fraction of the planned input was not delivered.
MISSED_MOST = 0.1
# Smallest growth of a class's share for which the summary mentions lending.
SHARE_LEAST = 0.02


def verdict(run: Outcome, promises: Sequence[Promise]) -> list[str]:
    """Return the sentences, the most important first."""
    return [kept(promises), *lent(run), lost(run.classes), *missed(run.result)]


def kept(promises: Sequence[Promise]) -> str:
    broken = [promise.text for promise in promises if not promise.kept]
    if not broken:
        return "The promise was kept." if len(promises) == 1 else f"All {len(promises)} promises were kept."
    return f"{len(broken)} of {len(promises)} promises {'was' if len(broken) == 1 else 'were'} broken: {'; '.join(broken)}."


def lent(run: Outcome) -> Iterator[str]:
    """Yield a sentence on the largest loan, and a sentence on how this loan was paid back."""
    lending: Mapping[str, Mapping[str, float]] = run.result["lending"]
    loans = [
        (seconds, lender, borrower)
        for lender, borrowers in lending.items()
        for borrower, seconds in borrowers.items()
    ]
    if not loans:
        return
    seconds, lender, borrower = max(loans)
    original = {class_["name"]: class_["share"]["original"] for class_ in run.classes}
    shares = run.series[borrower].share if borrower in run.series else []
    peak = max(shares, default=0.0)
    if peak < original.get(borrower, 1.0) + SHARE_LEAST:
        return
    at_s = run.series[borrower].at_s[shares.index(peak)]
    yield (
        f"{lender} did not need all of its share, and lent {borrower} {seconds:.1f} processor-seconds of it: "
        f"{borrower} had {peak:.0%} of the lanes {at_s:.0f} s into the run; its own share is {original[borrower]:.0%}."
    )
    returned = [move.after[lender] for move in run.moves if move.reason == f"reclaim by {lender}"]
    times = len(returned)
    if returned and min(returned) >= original[lender] - ROUNDED:
        back = "once" if times == 1 else f"{times} times"
        yield f"{lender} asked for its capacity back {back}, and had its {original[lender]:.0%} again at once."


def lost(classes: Sequence[Mapping[str, Any]]) -> str:
    tuples = {class_["name"]: sum(class_[fate] for fate in LOSSES) for class_ in classes}
    if not any(tuples.values()):
        return "No input was lost."
    parts = ", ".join(
        f"{class_['name']} {percent(tuples[class_['name']], class_['offered'])}" for class_ in classes
    )
    return f"Part of the input that was lost: {parts}."


def missed(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence if the processes that feed input to a live system delivered much less than planned."""
    offered = result.get("offered", {}).values()
    late = sum(stream["missed"] for stream in offered)
    planned = late + sum(stream["accepted"] for stream in offered)
    if late > MISSED_MOST * planned:
        yield (
            f"The feeds delivered only {1 - late / planned:.0%} of the planned input, because other programs or Spark itself needed "
            "the processors: the classes had less load than the scenario plans."
        )


def percent(part: int, whole: int) -> str:
    """Return a percentage as text; a small share is shown as less than 0.1%, not as 0."""
    if not part:
        return "none"
    return f"{part / whole:.1%}" if part >= whole / 1000 else "less than 0.1%"
