"""The coordinator's core: receives the usage of classes, moves their shares, and records the lent capacity.
A message of an unknown class is counted and ignored, because it may have been sent before the class was removed.

    event                  what follows
    UsageReported          the class's mean usage since the last redistribution is updated
    ClassAsleep            the class counts as without load until it reports again
    RedistributionDue      redistribute(): SharesChanged, and HeadroomScaled for each class with a new share
    ReclaimRequested       reclaim() for an owner below its original share, at once
    ClassesSet             classes are added, removed or changed: SharesChanged, and HeadroomScaled for each remaining class with a
                           new share

With `H ← H·p_new/p_old`, a class's headroom follows a loan at once, before the class could measure the change (DILoS eq. 2). This is how
scheduler and shedder cooperate. The lending ledger counts processor-seconds (lent share × lanes × time) and keeps removed classes.

The load of an owner is a mean over a redistribution cycle, and a share that fits the mean is too small half of the time. So an owner that
had to reclaim keeps more than its share before the reclaim, for a while.

`state()` returns all that a restarted coordinator needs (`restored`) to decide as this one would. The state does not contain the record of
past changes of shares.
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
# After a reclaim, an owner has a kept share, of which it lends nothing. The kept share is its last load, or MARGIN times its share before
# the reclaim if that is larger.
# Without a kept share, the owner would lend the same share again at the next redistribution, and would soon reclaim it again.
# Each redistribution multiplies the kept share by FORGETTING. Below FORGOTTEN times its initial value, the kept share is dropped.
# If the owner reclaims again while it has a kept share, the kept share shrinks half as fast, but at most PATIENCE_MAX times slower.
MARGIN, FORGETTING, FORGOTTEN, PATIENCE_MAX = 1.15, 0.85, 0.3, 64
# Maximum time between two events for which lent capacity is counted, in redistribution cycles.
# If two events are further apart, a clock has jumped or a node has slept, so no class has used the capacity in between.
CYCLES_ACCRUED_MAX = 10
# Number of pairs of lender and borrower above which the lending ledger combines all removed classes under the name GONE.
LEDGER_PAIRS_MAX = 10_000
GONE = "(gone)"


@dataclass(frozen=True, slots=True)
class UsageReported:
    """Report of a class's offered load in one load cycle, in processors, and of its usage: this load divided by the class's capacity."""

    name: str
    usage: float
    load: float


@dataclass(frozen=True, slots=True)
class ClassAsleep:
    """Message that a class has no input: the class neither runs nor reports until input arrives."""

    name: str


@dataclass(frozen=True, slots=True)
class RedistributionDue:
    """Event: a redistribution cycle has ended, so the shares are computed again."""


@dataclass(frozen=True, slots=True)
class ReclaimRequested:
    """Request of an owner for its original share: the owner has less than this share and is overloaded."""

    name: str


@dataclass(frozen=True, slots=True)
class ClassesSet:
    """Message with all classes and their terms; original shares are computed from the weights of the classes."""

    accounts: Sequence[ClassAccount]


@dataclass(frozen=True, slots=True)
class SharesChanged:
    """Command to the lanes to use new shares."""

    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class HeadroomScaled:
    """Command to a load manager to multiply the headroom of its class by `factor`; contains the new share and the original share."""

    name: str
    factor: float
    share: float
    original: float


@dataclass(frozen=True, slots=True)
class ShareMove:
    """Record of one redistribution, reclaim or change of classes."""

    at: float
    reason: str
    before: Mapping[str, float]
    after: Mapping[str, float]
    usage: Mapping[str, float | None]
    loans: Sequence[tuple[str, str, float]] = ()
    """Loans after the move: lender, borrower, share."""

    @property
    def is_any(self) -> bool:
        """True if this redistribution, reclaim or change of classes has changed the share of a class."""
        return self.before != self.after and any(map(self.concerns, {**self.before, **self.after}))

    @property
    def is_visible(self) -> bool:
        """True if a share has changed in its first three decimals, so that `sentence` lists the change."""
        return bool(self._changes())

    def concerns(self, name: str) -> bool:
        """Return True if the share of a class has changed."""
        before, after = self.before.get(name), self.after.get(name)
        if before is None or after is None:
            return before is not after
        return abs(after - before) > LEAST_MOVE

    def sentence(self) -> str:
        return f"{self.reason}: {', '.join(self._changes()) or 'nothing moved'}"

    def _changes(self) -> list[str]:
        """Return the changed shares in words, but leave out a share if its first three decimals are the same as before."""
        came = [
            f"{name} joins with {after:.3f}" for name, after in self.after.items() if name not in self.before
        ]
        shares = [
            (name, f"{self.before[name]:.3f}", f"{after:.3f}")
            for name, after in self.after.items()
            if name in self.before
        ]
        moved = [f"{name} {before} → {after}" for name, before, after in shares if before != after]
        return [*came, *moved, *(f"{name} leaves" for name in self.before if name not in self.after)]


@dataclass(frozen=True, slots=True)
class Need:
    """Kept share of an owner: the part of its share that an owner does not lend, because it had to reclaim capacity before."""

    share: float
    proved: float  # Value of `share` at the time of the reclaim, before any decay
    patience: int


CapacityEvent = UsageReported | ClassAsleep | RedistributionDue | ReclaimRequested | ClassesSet
CapacityCommand = SharesChanged | HeadroomScaled


@dataclass
class CapacityCore:
    """Shares of all classes of a node. `handle(event, now)` returns commands to lanes and load managers."""

    accounts: Sequence[ClassAccount]  # Entitlement and need of each class, highest priority first
    lanes: int = 1
    scale_headroom: bool = True
    redistribution_s: float = 1.5
    moves: deque[ShareMove] = field(default_factory=lambda: deque(maxlen=EXPLANATIONS_KEPT))
    ignored: int = field(init=False, default=0)  # Number of ignored messages, which came from unknown classes
    _accounts: dict[str, ClassAccount] = field(init=False)
    _usage: dict[str, tuple[float, float, int]] = field(init=False, default_factory=dict)
    _asleep: set[str] = field(init=False, default_factory=set)
    # Last reported loads of classes, as shares of the lanes.
    _loads: dict[str, float] = field(init=False, default_factory=dict)
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
        """Return the state as JSON values, without the record of past changes of shares."""
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
        """Return the processor-seconds that were lent until now, by lender and borrower."""
        self._accrue(now)
        table: dict[str, dict[str, float]] = {}
        for (lender, borrower), seconds in sorted(self._lent_s.items()):
            table.setdefault(lender, {})[borrower] = seconds
        return table

    def _measured(self, account: ClassAccount) -> ClassAccount:
        """Return the figures of a class for a redistribution, with its mean usage and load since the last change of shares.

        After a reclaim, the minimum share in these figures is the class's kept share.
        """
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
        """Record the kept share of an owner after a reclaim. The owner's mean load alone would not show that it sometimes needs more."""
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
        # Usage is load divided by capacity, and a new share changes the capacity. So earlier measurements of usage are discarded.
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
        # If the clock jumped back, no lent time is subtracted.
        elapsed = 0.0 if self._accrued_to is None else max(0.0, now - self._accrued_to)
        elapsed = min(elapsed, CYCLES_ACCRUED_MAX * self.redistribution_s)
        self._accrued_to = now
        for lender, borrower, share in self._loans:
            pair = (lender, borrower)
            self._lent_s[pair] = self._lent_s.get(pair, 0.0) + share * self.lanes * elapsed


def differ(one: ClassAccount, other: ClassAccount) -> bool:
    return abs(one.share - other.share) > LEAST_MOVE or abs(one.original - other.original) > LEAST_MOVE
