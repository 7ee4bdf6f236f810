"""The coordinator's core: hears what classes use, moves their shares, keeps account of who lent to whom.

    event                  what follows
    UsageReported          the class's mean usage since the last redistribution is updated
    ClassAsleep            it counts as without load until it reports again
    RedistributionDue      redistribute(): SharesChanged and, for each class that moved, HeadroomScaled
    ReclaimRequested       reclaim() for an owner below its original share, at once
    ClassesSet             classes come, go or change: SharesChanged, HeadroomScaled for those that stay and moved

Messages of a class that is not here (it was on its way when the class went) are counted and ignored.

`H ← H·p_new/p_old` tells a class's load manager of a loan before its monitors could notice (DILoS eq. 2): the
synergy between scheduler and shedder. The lending ledger is in processor-seconds: share lent × lanes × time; it
keeps classes that are gone.

An owner's load is a mean over a redistribution cycle; a share that fits the mean is too small half of the time. The
core learns from that: whoever reclaims keeps more than it had for a while.

`state()` is all that a coordinator that starts again needs (`restored`): from there it decides as this one would.
The record of moves is not part of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from scheduler.capacity.redistribution import (
    LEAST_MOVE,
    ClassAccount,
    by_priority,
    entitled,
    lent_shares,
    loans_of,
    reclaim,
    redistribute,
    resettle,
)

EXPLANATIONS_KEPT = 1000
# An owner that had to ask for its capacity back had lent too much: it keeps so many times what it had, or what it needed,
# and forgets it by this factor a redistribution. Without, it would lend as much again at the next one, to those who then
# fill their queues in the belief that it is theirs. Each time it has to ask before it has forgotten down to this part,
# it will forget half as fast, up to so many times slower.
MARGIN, FORGETTING, FORGOTTEN, PATIENCE_MAX = 1.15, 0.85, 0.3, 64
# A longer time between two events is a clock that jumped, or a node that slept, and nobody had the time.
CYCLES_ACCRUED_MAX = 10
# With more pairs of lender and borrower than this, classes that are gone are accounted for together, under this name.
LEDGER_PAIRS_MAX = 10_000
GONE = "(gone)"


@dataclass(frozen=True, slots=True)
class UsageReported:
    """A class's offered load in one load cycle, in processors, and as a part of what it can do."""

    name: str
    usage: float
    load: float


@dataclass(frozen=True, slots=True)
class ClassAsleep:
    """A class without input, which will neither run nor report until it has some."""

    name: str


@dataclass(frozen=True, slots=True)
class RedistributionDue:
    """A redistribution cycle has ended."""


@dataclass(frozen=True, slots=True)
class ReclaimRequested:
    """An owner below its original share has become overloaded."""

    name: str


@dataclass(frozen=True, slots=True)
class ClassesSet:
    """The classes from now on and their terms; their original shares follow from their weights."""

    accounts: Sequence[ClassAccount]


@dataclass(frozen=True, slots=True)
class SharesChanged:
    """The shares from now on, for the lanes."""

    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class HeadroomScaled:
    """To a class's load manager: multiply the headroom; the share and the original share from now on."""

    name: str
    factor: float
    share: float
    original: float


@dataclass(frozen=True, slots=True)
class ShareMove:
    """One redistribution, reclaim or change of classes, for the record."""

    at: float
    reason: str
    before: Mapping[str, float]
    after: Mapping[str, float]
    usage: Mapping[str, float | None]
    loans: Sequence[tuple[str, str, float]] = ()
    """Who lends whom how much from then on: lender, borrower, share."""

    @property
    def is_any(self) -> bool:
        """Whether it has moved anything."""
        return self.before != self.after and any(map(self.concerns, {**self.before, **self.after}))

    @property
    def is_visible(self) -> bool:
        """Return True if a share has changed by more than is left out of sentences."""
        return bool(self._changes())

    def concerns(self, name: str) -> bool:
        """Whether it has moved that share."""
        before, after = self.before.get(name), self.after.get(name)
        if before is None or after is None:
            return before is not after
        return abs(after - before) > LEAST_MOVE

    def sentence(self) -> str:
        return f"{self.reason}: {', '.join(self._changes()) or 'nothing moved'}"

    def _changes(self) -> list[str]:
        """Return what has changed, in words; shares that are the same to three digits are left out."""
        came = [
            f"{name} comes with {after:.3f}" for name, after in self.after.items() if name not in self.before
        ]
        shares = [
            (name, f"{self.before[name]:.3f}", f"{after:.3f}")
            for name, after in self.after.items()
            if name in self.before
        ]
        moved = [f"{name} {before} → {after}" for name, before, after in shares if before != after]
        return [*came, *moved, *(f"{name} goes" for name in self.before if name not in self.after)]


@dataclass(frozen=True, slots=True)
class Need:
    """What an owner keeps, since less has proved to be too little."""

    share: float
    proved: float  # the same when it was proved
    patience: int


CapacityEvent = UsageReported | ClassAsleep | RedistributionDue | ReclaimRequested | ClassesSet
CapacityCommand = SharesChanged | HeadroomScaled


@dataclass
class CapacityCore:
    """Shares of all classes of a node. `handle(event, now)` returns what to tell lanes and load managers."""

    accounts: Sequence[ClassAccount]  # as they are now, highest priority first
    lanes: int = 1
    scale_headroom: bool = True
    redistribution_s: float = 1.5
    moves: deque[ShareMove] = field(default_factory=lambda: deque(maxlen=EXPLANATIONS_KEPT))
    ignored: int = field(init=False, default=0)  # messages of classes that are not here
    _accounts: dict[str, ClassAccount] = field(init=False)
    _usage: dict[str, tuple[float, float, int]] = field(init=False, default_factory=dict)
    _asleep: set[str] = field(init=False, default_factory=set)
    _loads: dict[str, float] = field(
        init=False, default_factory=dict
    )  # last reported, as a share of the lanes
    _needs: dict[str, Need] = field(init=False, default_factory=dict)
    _lent_s: dict[tuple[str, str], float] = field(init=False, default_factory=dict)
    _loans: list[tuple[str, str, float]] = field(init=False)
    _accrued_to: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._hold(by_priority(self.accounts))

    def handle(self, event: CapacityEvent, now: float) -> tuple[CapacityCommand, ...]:
        match event:
            case ClassesSet(accounts):
                return self._set_classes(entitled(accounts), now)
            case RedistributionDue():
                measured = [self._measured(account) for account in self.accounts]
                self._usage.clear()
                self._forget()
                return self._move("redistribution", measured, redistribute(measured), now)
            case UsageReported(name) | ClassAsleep(name) | ReclaimRequested(name) if (
                name not in self._accounts
            ):
                self.ignored += 1
                return ()
            case UsageReported(name, usage, load):
                self._asleep.discard(name)
                total, work, count = self._usage.get(name, (0.0, 0.0, 0))
                self._usage[name] = (total + usage, work + load, count + 1)
                self._loads[name] = load / self.lanes
                return ()
            case ClassAsleep(name):
                self._asleep.add(name)
                self._needs.pop(name, None)
                return ()
            case ReclaimRequested(name):
                self._asleep.discard(name)
                self._remember(self._accounts[name])
                return self._move(f"reclaim by {name}", self.accounts, reclaim(self.accounts, name), now)

    def state(self) -> dict[str, Any]:
        """All but the record of moves, in terms of JSON."""
        return {
            "lanes": self.lanes,
            "scale_headroom": self.scale_headroom,
            "redistribution_s": self.redistribution_s,
            "ignored": self.ignored,
            "accounts": [asdict(account) for account in self.accounts],
            "usage": {name: list(usage) for name, usage in self._usage.items()},
            "asleep": sorted(self._asleep),
            "loads": self._loads,
            "needs": {name: asdict(need) for name, need in self._needs.items()},
            "lent_s": [[lender, borrower, seconds] for (lender, borrower), seconds in self._lent_s.items()],
            "accrued_to": self._accrued_to,
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        accounts = [ClassAccount(**account) for account in state["accounts"]]
        core = cls(accounts, state["lanes"], state["scale_headroom"], state["redistribution_s"])
        core.ignored = state["ignored"]
        core._usage = {name: (total, work, count) for name, (total, work, count) in state["usage"].items()}
        core._asleep = set(state["asleep"])
        core._loads = dict(state["loads"])
        core._needs = {name: Need(**need) for name, need in state["needs"].items()}
        core._lent_s = {(lender, borrower): seconds for lender, borrower, seconds in state["lent_s"]}
        core._accrued_to = state["accrued_to"]
        return core

    @property
    def shares(self) -> dict[str, float]:
        return {name: account.share for name, account in self._accounts.items()}

    def lending(self, now: float) -> dict[str, dict[str, float]]:
        """lender → borrower → processor-seconds, up to now."""
        self._accrue(now)
        table: dict[str, dict[str, float]] = {}
        for (lender, borrower), seconds in sorted(self._lent_s.items()):
            table.setdefault(lender, {})[borrower] = seconds
        return table

    def _measured(self, account: ClassAccount) -> ClassAccount:
        """The account with the means of what was reported since the last move, and what it had better keep."""
        need = self._needs.get(account.name)
        if need is not None and need.share > account.min_share:
            account = replace(account, min_share=min(need.share, account.original))
        if account.name in self._asleep:
            return replace(account, usage=0.0, load=0.0)
        usage, load, count = self._usage.get(account.name, (0.0, 0.0, 0))
        if not count:
            return replace(account, usage=None, load=None)
        return replace(account, usage=usage / count, load=load / count / self.lanes)

    def _remember(self, account: ClassAccount) -> None:
        """What an owner had left was too little: a mean over cycles hides that it needs more now and then."""
        if account.share >= account.original - LEAST_MOVE:
            return
        share = max(MARGIN * account.share, self._loads.get(account.name, 0.0))
        before = self._needs.get(account.name)
        patience = 1 if before is None else min(2 * before.patience, PATIENCE_MAX)
        self._needs[account.name] = Need(share, share, patience)

    def _forget(self) -> None:
        fading = {
            name: replace(need, share=need.share * FORGETTING ** (1 / need.patience))
            for name, need in self._needs.items()
        }
        self._needs = {name: need for name, need in fading.items() if need.share > FORGOTTEN * need.proved}

    def _move(
        self, reason: str, accounts: Sequence[ClassAccount], after: Mapping[str, float], now: float
    ) -> tuple[CapacityCommand, ...]:
        before = self.shares
        self._accrue(now)
        originals = {account.name: account.original for account in self.accounts}
        usage = {account.name: account.usage for account in accounts}
        loans = lent_shares(originals, after)
        self.moves.append(
            ShareMove(at=now, reason=reason, before=before, after=dict(after), usage=usage, loans=loans)
        )
        changed = {name: share for name, share in after.items() if abs(share - before[name]) > LEAST_MOVE}
        if not changed:
            return ()
        # Usage is relative to what a class can do, which a move changes: what was measured before does not count after.
        self._usage.clear()
        self._hold(
            [replace(account, share=changed.get(account.name, account.share)) for account in self.accounts]
        )
        scaled = (self._scaled(self._accounts[name], before[name]) for name in changed)
        return (SharesChanged(self.shares), *scaled)

    def _set_classes(self, accounts: Sequence[ClassAccount], now: float) -> tuple[CapacityCommand, ...]:
        self._accrue(now)
        before, after = self._accounts, resettle(self.accounts, accounts)
        self._hold([replace(account, share=after[account.name]) for account in accounts])
        self._usage.clear()
        self._asleep &= self._accounts.keys()
        self._loads = {name: load for name, load in self._loads.items() if name in self._accounts}
        self._needs = {name: need for name, need in self._needs.items() if name in self._accounts}
        self._fold_ledger()
        shares_before = {name: account.share for name, account in before.items()}
        self.moves.append(
            ShareMove(
                at=now, reason="classes set", before=shares_before, after=after, usage={}, loans=self._loans
            )
        )
        scaled = [
            self._scaled(account, shares_before[name])
            for name, account in self._accounts.items()
            if name in before and differ(account, before[name])
        ]
        if not scaled and before.keys() == self._accounts.keys():
            return ()
        return (SharesChanged(self.shares), *scaled)

    def _scaled(self, account: ClassAccount, before: float) -> HeadroomScaled:
        factor = account.share / before if self.scale_headroom else 1.0
        return HeadroomScaled(account.name, factor, account.share, account.original)

    def _hold(self, accounts: Sequence[ClassAccount]) -> None:
        self.accounts, self._accounts = accounts, {account.name: account for account in accounts}
        assert len(self._accounts) == len(accounts), "a class is named twice"
        self._loans = loans_of(accounts)

    def _fold_ledger(self) -> None:
        if len(self._lent_s) <= LEDGER_PAIRS_MAX:
            return
        folded: dict[tuple[str, str], float] = {}
        for names, seconds in self._lent_s.items():
            lender, borrower = (name if name in self._accounts else GONE for name in names)
            folded[lender, borrower] = folded.get((lender, borrower), 0.0) + seconds
        self._lent_s = folded

    def _accrue(self, now: float) -> None:
        # A clock that jumped back has not taken processor time away from anybody.
        elapsed = 0.0 if self._accrued_to is None else max(0.0, now - self._accrued_to)
        elapsed = min(elapsed, CYCLES_ACCRUED_MAX * self.redistribution_s)
        self._accrued_to = now
        for lender, borrower, share in self._loans:
            pair = (lender, borrower)
            self._lent_s[pair] = self._lent_s.get(pair, 0.0) + share * self.lanes * elapsed


def differ(one: ClassAccount, other: ClassAccount) -> bool:
    return abs(one.share - other.share) > LEAST_MOVE or abs(one.original - other.original) > LEAST_MOVE
