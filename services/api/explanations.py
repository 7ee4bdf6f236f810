"""Decisions of the running system as the API shows them: as text, and with the figures that led to each decision.

- A load decision is what the load manager of a class (ALoMa) decided at the end of a load cycle, such as `drop more`.
- A share decision is a redistribution, a reclaim or a change of classes.
- A policy decision is a comparison of policies for a class that tunes itself.

A tenant sees all other classes together as ANOTHER, so that the tenant learns neither their names nor their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field

from actors.coordinator.coordinator_status import Decisions
from actors.messages.unit_messages import class_of
from configs.classes.objectives import Objective
from loadshed.manager import ManagerDecision
from scheduler.capacity.core import ShareMove
from scheduler.tuning import TuningDecision as Tuned
from services.api.schemas import AnswerModel

ANOTHER = "another class"
# Smallest change of a share that is shown, as a fraction of the lanes.
LEAST = 0.0005

Naming = Callable[[str], str]
Share = Annotated[float, Field(description="Share of a class, as a fraction of the node's lanes.")]


class LoadFigures(AnswerModel):
    """Figures of a class before and after a load decision. Loads and headroom are in processors."""

    offered_load: float
    """Load that was offered to the class, in processors."""
    load: float
    """Load that the class admitted, in processors."""
    headroom_before: float
    headroom: float
    drop_before: float
    """Fraction of the input that was dropped before the decision."""
    drop: float
    response_of_target: float | None
    """Largest mean response time of a query divided by the delay target; null without answers."""
    verdict: Literal["normal", "accumulating", "over target", "critical"]
    rising: bool
    falling: bool
    queued_work_ms: float
    streak: int
    """Number of consecutive load cycles, including this one, with the same decision (`branch`)."""
    queue_limited: bool
    """True if the class admits less input than the decision allows, because its queue is already long."""
    at_max_drop: bool
    trimmed: float
    """Fraction of the queued tuples that were dropped because their answers would come too late."""
    repeated: int = 0
    """Number of load decisions directly before this decision that changed nothing; 0 if this decision changed something."""
    since: datetime | None = None
    """Time of the earliest decision counted in `repeated`; null if `repeated` is 0."""


class Loan(AnswerModel):
    lender: str
    borrower: str
    share: Share


class ShareFigures(AnswerModel):
    """Figures of a share decision: shares before and after, each class's reported usage (load divided by capacity), and the loans afterwards."""

    before: dict[str, Share]
    after: dict[str, Share]
    usage: dict[str, float | None]
    loans: list[Loan]


class LoadDecision(AnswerModel):
    about: Literal["load"] = "load"
    at: datetime
    unit: str
    branch: str
    """Decision of the load manager: `drop more`, `raise headroom`, `ease`, `hold for reclaim`, …"""
    words: str
    figures: LoadFigures


class ShareDecision(AnswerModel):
    about: Literal["shares"] = "shares"
    at: datetime
    branch: str
    """Cause of the share decision: `redistribution`, `reclaim by NAME` or `classes set`."""
    words: str
    figures: ShareFigures


class PolicyFigures(AnswerModel):
    """Figures of a policy decision. The objective of the class (smaller is better) is measured, and forecast for each policy and plan."""

    objective: Objective
    measured: float | None
    forecasts: dict[str, float]
    before: str
    """Policy and plan of the class before the decision."""
    after: str
    streak: int
    """Number of consecutive comparisons in which the best policy was clearly better."""
    wait: int
    """Number of comparisons until Weir considers the next switch."""


class PolicyDecision(AnswerModel):
    about: Literal["policy"] = "policy"
    at: datetime
    branch: str
    """Outcome of the comparison: `stay`, `consider`, `switch`, `watch`, `go back`, `give up`, `pause` or `no forecast`."""
    words: str
    figures: PolicyFigures


Decision = Annotated[LoadDecision | ShareDecision | PolicyDecision, Field(discriminator="about")]


def by_name(name: str) -> str:
    """Return the name of a class unchanged, because administrators see all names."""
    return name


def for_tenant(tenant: str) -> Naming:
    """Return a function that replaces the names of other tenants' classes and units by ANOTHER. All other names stay unchanged."""
    return lambda name: name if class_of(name) == tenant else ANOTHER


def decisions_of(found: Decisions, naming: Naming) -> list[Decision]:
    """Return all load, share and policy decisions as the API shows them, oldest first."""
    decisions: list[Decision] = [
        load_decision(unit, decision, explained.epoch_s)
        for unit, explained in found.units.items()
        for decision in explained.decisions
    ]
    decisions += [share_decision(move, found.epoch_s, naming) for move in found.moves]
    decisions += [policy_decision(decision, found.epoch_s) for decision in found.tuned]
    return sorted(decisions, key=lambda one: one.at)


def policy_decision(one: Tuned, epoch_s: float) -> PolicyDecision:
    return PolicyDecision(
        at=moment(one.at + epoch_s),
        branch=one.branch,
        words=one.words(),
        figures=PolicyFigures(
            objective=one.objective,
            measured=one.measured,
            forecasts=dict(one.forecasts),
            before=one.policy,
            after=one.after,
            streak=one.streak,
            wait=one.wait,
        ),
    )


def load_decision(unit: str, one: ManagerDecision, epoch_s: float) -> LoadDecision:
    before, after, verdict = one.before, one.after, one.verdict
    return LoadDecision(
        at=moment(one.at + epoch_s),
        unit=unit,
        branch=after.branch.value,
        words=one.words(),
        figures=LoadFigures(
            offered_load=one.offered_load,
            load=one.load,
            headroom_before=before.headroom,
            headroom=after.headroom,
            drop_before=1 - before.keep,
            drop=1 - after.keep,
            response_of_target=verdict.worst or None,
            verdict=verdict.name,
            rising=verdict.rising,
            falling=verdict.falling,
            queued_work_ms=1e3 * one.queued_work_s,
            streak=after.streak,
            queue_limited=one.queue_limited,
            at_max_drop=one.at_max_drop,
            trimmed=one.trimmed,
            repeated=one.repeated,
            since=None if one.since is None else moment(one.since + epoch_s),
        ),
    )


def share_decision(move: ShareMove, epoch_s: float, naming: Naming) -> ShareDecision:
    before, after = together(move.before, naming), together(move.after, naming)
    loans = loans_of(move.loans, naming)
    branch = reason_of(move.reason, naming)
    moved = list(changes(before, after)) or ["nothing moved"]
    lends = [f"{loan.lender} lends {loan.share:.3f} to {loan.borrower}" for loan in loans]
    return ShareDecision(
        at=moment(move.at + epoch_s),
        branch=branch,
        words=f"{branch}: " + ", ".join(moved) + ("; " + ", ".join(lends) if lends else ""),
        figures=ShareFigures(
            before=before,
            after=after,
            # A tenant does not see the usage of other classes.
            usage={name: used for name, used in move.usage.items() if naming(name) == name},
            loans=loans,
        ),
    )


RECLAIM = "reclaim by "


def reason_of(reason: str, naming: Naming) -> str:
    who = reason.removeprefix(RECLAIM)
    return reason if who == reason else RECLAIM + naming(who)


def changes(before: Mapping[str, float], after: Mapping[str, float]) -> Iterable[str]:
    for name, share in after.items():
        if name not in before:
            yield f"{name} joins with {share:.3f}"
        elif abs(share - before[name]) > LEAST:
            yield f"{name} {before[name]:.3f} → {share:.3f}"
    yield from (f"{name} leaves" for name in before if name not in after)


def together(shares: Mapping[str, float], naming: Naming) -> dict[str, float]:
    """Return the shares of classes by the names that the caller may see. The shares of all hidden classes are summed under ANOTHER."""
    sums: dict[str, float] = {}
    for name, share in shares.items():
        sums[naming(name)] = sums.get(naming(name), 0.0) + share
    return sums


def loans_of(loans: Iterable[tuple[str, str, float]], naming: Naming) -> list[Loan]:
    """Return the loans with the names shown to the caller, without the loans between two hidden classes."""
    shares: dict[tuple[str, str], float] = {}
    for lender, borrower, share in loans:
        pair = naming(lender), naming(borrower)
        if pair != (ANOTHER, ANOTHER):
            shares[pair] = shares.get(pair, 0.0) + share
    return [Loan(lender=lender, borrower=other, share=share) for (lender, other), share in shares.items()]


def moment(epoch_s: float) -> datetime:
    return datetime.fromtimestamp(epoch_s, UTC)
