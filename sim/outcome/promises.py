"""Promises of Weir, checked on a finished run. A check uses only what was measured in the run, never the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any

from sim.outcome.outcome import Outcome
from sim.series import ClassSeries

# Seconds for which tuples of a class may still be shed after its load has fallen to its share, because the drop rate falls in steps.
SETTLED_S = 3.0
# Tolerance for shares, which are rounded in results.
ROUNDED = 1e-6
# Minimum useful throughput under overload, as a fraction of the calibrated throughput of the machine.
USEFUL_LEAST = 0.95


@dataclass(frozen=True, slots=True)
class Promise:
    """Promise of Weir to its users, and the result of checking the promise on a run."""

    text: str
    kept: bool
    detail: str


def check_promises(run: Outcome) -> list[Promise]:
    """Check the promises that must hold under any load."""
    return [*targets(run), *entitlements(run), *reclaims(run), ledger(run)]


def check_overload(
    run: Outcome, entitled: str, useful_per_s: float, calibrated_per_s: float
) -> list[Promise]:
    """Check the promises for a run in which class `entitled` asks for less than its share, and other classes for more than theirs."""
    class_ = next(class_ for class_ in run.classes if class_["name"] == entitled)
    others = [other for other in run.classes if other["name"] != entitled]
    return [
        loses_nothing(class_),
        quick(class_),
        losses_by_priority(others),
        useful(useful_per_s, calibrated_per_s),
    ]


def targets(run: Outcome) -> Iterator[Promise]:
    for class_ in run.classes:
        p95_ms, target_ms = class_["response_ms"]["p95"], class_["delay_target_ms"]
        yield Promise(
            f"{class_['name']} meets its delay target",
            p95_ms <= target_ms,
            f"p95 {p95_ms:.0f} of {target_ms:.0f} ms",
        )


def entitlements(run: Outcome) -> Iterator[Promise]:
    """Check that each class loses nothing while its load is at most its original share, whatever other classes do.

    The load is measured in processors, so the load grows when the processor becomes slower. While the load is above the
    share, the class may be shed.
    """
    for class_ in run.classes:
        series, share = run.series[class_["name"]], class_["share"]["original"] * run.lanes
        loads = [load for load in series.load if load is not None]
        within = list(settled_within(series, share))
        if not within:
            continue
        # Fraction of the load cycles in which the load was above the share.
        beyond = sum(load > share for load in loads) / len(loads)
        dropping = sum(drop > 0 for drop in within)
        # A drop that was decided while no tuples arrived has shed nothing.
        keeps_within = class_["shed"] == 0 or (beyond > 0 and not dropping)
        late = f"; {class_['late']:,} rows were late" if class_["late"] else ""
        yield Promise(
            f"{class_['name']} loses nothing while it asks for no more than its share",
            keeps_within and not class_["late"],
            of_losses(class_["shed"], max(loads), share, beyond, keeps_within) + late,
        )


def of_losses(shed: int, load: float, share: float, beyond: float, kept: bool) -> str:
    """Return a text on what was shed while the load was within the share, and while the load was above the share."""
    its = f"its share of {share:.2f} processors"
    if not beyond:
        return f"{shed:,} tuples were shed; the class asked for up to {load:.2f} of {its}"
    within = "nothing was shed within" if kept else "input was shed within"
    more = f"the class asked for more, up to {load:.2f}, {max(beyond, 0.01):.0%} of the time"
    return f"{within} {its}; {more}, and {shed:,} tuples were shed {'then' if kept else 'in all'}"


def settled_within(series: ClassSeries, share: float) -> Iterator[float]:
    """Yield the drop rates at times when the load had been within the share for more than SETTLED_S."""
    beyond_at = -inf
    for at_s, load, drop in zip(series.at_s, series.load, series.drop, strict=True):
        if load is not None and load > share:
            beyond_at = at_s
        elif load is not None and at_s - beyond_at > SETTLED_S:
            yield drop


def reclaims(run: Outcome) -> Iterator[Promise]:
    """Check that each class that reclaimed capacity had its original share when the reclaim returned."""
    for class_ in run.classes:
        name, original = class_["name"], class_["share"]["original"]
        moves = [move for move in run.moves if move.reason == f"reclaim by {name}"]
        if moves:
            least = min(move.after[name] for move in moves)
            yield Promise(
                f"{name} gets lent capacity back at once",
                least >= original - ROUNDED,
                f"{least:.3f} of {original:.3f}, {len(moves)} times",
            )


def ledger(run: Outcome) -> Promise:
    offered = sum(class_["offered"] for class_ in run.classes)
    return Promise("the ledger closes", run.result["ledger_closed"], f"{offered:,} tuples offered")


def loses_nothing(one: Mapping[str, Any]) -> Promise:
    lost = one["shed"] + one["late"] + one["rejected"] + one["failed"]
    return Promise(
        f"{one['name']} loses nothing",
        lost == 0,
        f"{lost:,} of {one['offered']:,} lost",
    )


def quick(one: Mapping[str, Any]) -> Promise:
    p99_ms, target_ms = one["response_ms"]["p99"], one["delay_target_ms"]
    return Promise(
        f"{one['name']} has its p99 below the target",
        p99_ms < target_ms,
        f"p99 {p99_ms:.0f} of {target_ms:.0f} ms",
    )


def losses_by_priority(classes: list[Mapping[str, Any]]) -> Promise:
    ordered = sorted(classes, key=lambda one: -float(one["priority"]))
    return Promise(
        "losses follow priorities",
        all(higher["loss_pct"] <= lower["loss_pct"] for higher, lower in pairwise(ordered)),
        ", ".join(f"{class_['name']} {class_['loss_pct']:.1f}%" for class_ in ordered),
    )


def useful(useful_per_s: float, calibrated_per_s: float) -> Promise:
    return Promise(
        "useful throughput is near the calibrated throughput",
        useful_per_s >= USEFUL_LEAST * calibrated_per_s,
        f"{useful_per_s / 1e6:.2f} of {calibrated_per_s / 1e6:.2f} M/s, {useful_per_s / calibrated_per_s:.0%}",
    )
