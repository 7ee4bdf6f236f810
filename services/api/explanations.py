"""Decisions of the running system as the service tells them: in words, and with the numbers they were made on.

A load decision is the branch of ALoMa that was taken at the end of a load cycle; a share decision is a redistribution, a
reclaim or a change of classes; a policy decision is a comparison of a class that tunes itself. To a tenant all others are ANOTHER, together: it learns neither their names nor their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from actors.coordinator.coordinator_status import Decisions
from actors.messages.unit_messages import class_of
from configs.classes.objectives import Objective
from loadshed.manager import ManagerDecision
from scheduler.capacity.core import ShareMove
from scheduler.tuning import TuningDecision as Tuned

ANOTHER = "another class"
# Of what is told as moved.
LEAST = 0.0005

Naming = Callable[[str], str]
Share = Annotated[float, Field(description="Of the lanes of the node.")]


class LoadFigures(BaseModel):
    """What the decision was made on, and what came of it. Loads and headroom are in processors."""

    offered_load: float = Field(description="Work that came, a second.")
    load: float = Field(description="Work that was let in, a second.")
    headroom_before: float
    headroom: float
    drop_before: float = Field(description="Part of the input that was dropped until then.")
    drop: float
    response_of_target: float | None = Field(
        description="Worst mean response over its target, if there was any."
    )
    verdict: Literal["normal", "accumulating", "over target", "critical"]
    rising: bool
    falling: bool
    queued_work_ms: float
    streak: int = Field(description="Cycles in a row in this branch.")
    queue_limited: bool = Field(description="Whether the queue allows less than the branch would.")
    at_max_drop: bool
    trimmed: float = Field(description="Part of the queue that was dropped as too late.")
    repeated: int = Field(0, description="Decisions just before this one that changed nothing either.")
    since: datetime | None = Field(None, description="When the first of these decisions was made.")


class Loan(BaseModel):
    lender: str
    borrower: str
    share: Share


class ShareFigures(BaseModel):
    """Shares before and after, the usage that was reported (load over what the class can do), and who lends to whom from then on."""

    before: dict[str, Share]
    after: dict[str, Share]
    usage: dict[str, float | None]
    loans: list[Loan]


class LoadDecision(BaseModel):
    about: Literal["load"] = "load"
    at: datetime
    unit: str
    branch: str = Field(description="Of ALoMa: `drop more`, `raise headroom`, `ease`, `hold for reclaim`, …")
    words: str
    figures: LoadFigures


class ShareDecision(BaseModel):
    about: Literal["shares"] = "shares"
    at: datetime
    branch: str = Field(description="`redistribution`, `reclaim by NAME` or `classes set`.")
    words: str
    figures: ShareFigures


class PolicyFigures(BaseModel):
    """What the objective came to, and would have come to under each policy and plan (`hr, joins first`); less is better."""

    objective: Objective
    measured: float | None
    forecasts: dict[str, float]
    before: str = Field(description="Policy and plan in force until then.")
    after: str
    streak: int = Field(description="How many times in a row the best one was better by enough.")
    wait: int = Field(description="Comparisons until a switch is thought of again.")


class PolicyDecision(BaseModel):
    about: Literal["policy"] = "policy"
    at: datetime
    branch: str = Field(
        description="`stay`, `consider`, `switch`, `watch`, `go back`, `give up`, `pause` or `no forecast`."
    )
    words: str
    figures: PolicyFigures


Decision = Annotated[LoadDecision | ShareDecision | PolicyDecision, Field(discriminator="about")]


def by_name(name: str) -> str:
    """For who may know everybody."""
    return name


def for_tenant(tenant: str) -> Naming:
    """Of units and classes, as the tenant may know them."""
    return lambda name: name if class_of(name) == tenant else ANOTHER


def decisions_of(found: Decisions, naming: Naming) -> list[Decision]:
    """Oldest first."""
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
            # What another uses is its own affair.
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
            yield f"{name} comes with {share:.3f}"
        elif abs(share - before[name]) > LEAST:
            yield f"{name} {before[name]:.3f} → {share:.3f}"
    yield from (f"{name} goes" for name in before if name not in after)


def together(shares: Mapping[str, float], naming: Naming) -> dict[str, float]:
    """Those of one name added."""
    sums: dict[str, float] = {}
    for name, share in shares.items():
        sums[naming(name)] = sums.get(naming(name), 0.0) + share
    return sums


def loans_of(loans: Iterable[tuple[str, str, float]], naming: Naming) -> list[Loan]:
    """Without what others lend each other."""
    shares: dict[tuple[str, str], float] = {}
    for lender, borrower, share in loans:
        pair = naming(lender), naming(borrower)
        if pair != (ANOTHER, ANOTHER):
            shares[pair] = shares.get(pair, 0.0) + share
    return [Loan(lender=lender, borrower=other, share=share) for (lender, other), share in shares.items()]


def moment(epoch_s: float) -> datetime:
    return datetime.fromtimestamp(epoch_s, UTC)
