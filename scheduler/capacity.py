"""The coordinator's core: hears what classes use, moves their shares, keeps account of who lent to whom.

    event                  what follows
    UsageReported          the class's mean usage since the last redistribution is updated
    RedistributionDue      redistribute(): SharesChanged and, for each class that moved, HeadroomScaled
    ReclaimRequested       reclaim() for an owner below its original share, at once

`H ← H·p_new/p_old` tells a class's load manager of a loan before its monitors could notice (DILoS eq. 2): the
synergy between scheduler and shedder. The lending ledger is in processor-seconds: share lent × lanes × time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler.redistribution import (
    LEAST_MOVE,
    ClassAccount,
    by_priority,
    lent_shares,
    reclaim,
    redistribute,
)

EXPLANATIONS_KEPT = 1000


@dataclass(frozen=True, slots=True)
class UsageReported:
    """A class's offered load in one load cycle, in processors, and as a part of its headroom."""

    name: str
    usage: float
    load: float


@dataclass(frozen=True, slots=True)
class RedistributionDue:
    """A redistribution cycle has ended."""


@dataclass(frozen=True, slots=True)
class ReclaimRequested:
    """An owner below its original share has become overloaded."""

    name: str


@dataclass(frozen=True, slots=True)
class SharesChanged:
    """The shares from now on, for the lanes."""

    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class HeadroomScaled:
    """To a class's load manager: multiply the headroom."""

    name: str
    factor: float
    share: float


@dataclass(frozen=True, slots=True)
class ShareMove:
    """One redistribution or reclaim, for the record."""

    at: float
    reason: str
    before: Mapping[str, float]
    after: Mapping[str, float]
    usage: Mapping[str, float | None]

    def sentence(self) -> str:
        moved = [
            f"{name} {self.before[name]:.3f} → {after:.3f}"
            for name, after in self.after.items()
            if abs(after - self.before[name]) > LEAST_MOVE
        ]
        return f"{self.reason}: " + (", ".join(moved) if moved else "nothing moved")


CapacityEvent = UsageReported | RedistributionDue | ReclaimRequested
CapacityCommand = SharesChanged | HeadroomScaled


@dataclass
class CapacityCore:
    """Shares of all classes of a node. `handle(event, now)` returns what to tell lanes and load managers."""

    accounts: Sequence[ClassAccount]
    lanes: int = 1
    scale_headroom: bool = True
    moves: deque[ShareMove] = field(default_factory=lambda: deque(maxlen=EXPLANATIONS_KEPT))
    _accounts: dict[str, ClassAccount] = field(init=False)
    _usage: dict[str, tuple[float, float, int]] = field(init=False, default_factory=dict)
    _lent_s: dict[tuple[str, str], float] = field(init=False, default_factory=dict)
    _loans: list[tuple[str, str, float]] = field(init=False)
    _accrued_to: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._accounts = {account.name: account for account in by_priority(self.accounts)}
        self._loans = self._lent()

    def handle(self, event: CapacityEvent, now: float) -> tuple[CapacityCommand, ...]:
        match event:
            case UsageReported(name, usage, load):
                total, work, count = self._usage.get(name, (0.0, 0.0, 0))
                self._usage[name] = (total + usage, work + load, count + 1)
                return ()
            case RedistributionDue():
                accounts = [self._measured(account) for account in self._accounts.values()]
                self._usage.clear()
                return self._move("redistribution", accounts, redistribute(accounts), now)
            case ReclaimRequested(name):
                accounts = list(self._accounts.values())
                return self._move(f"reclaim by {name}", accounts, reclaim(accounts, name), now)

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
        """The account with the means of what was reported since the last move."""
        usage, load, count = self._usage.get(account.name, (0.0, 0.0, 0))
        if not count:
            return replace(account, usage=None, load=None)
        return replace(account, usage=usage / count, load=load / count / self.lanes)

    def _move(
        self, reason: str, accounts: Sequence[ClassAccount], after: Mapping[str, float], now: float
    ) -> tuple[CapacityCommand, ...]:
        before = self.shares
        self._accrue(now)
        self.moves.append(
            ShareMove(now, reason, before, dict(after), {account.name: account.usage for account in accounts})
        )
        changed = {name: share for name, share in after.items() if abs(share - before[name]) > LEAST_MOVE}
        if not changed:
            return ()
        # Usage is relative to the headroom, which a move changes: what was measured before does not count after.
        self._usage.clear()
        for name, share in changed.items():
            self._accounts[name] = replace(self._accounts[name], share=share)
        self._loans = self._lent()
        scaled = tuple(
            HeadroomScaled(name, share / before[name] if self.scale_headroom else 1.0, share)
            for name, share in changed.items()
        )
        return (SharesChanged(self.shares), *scaled)

    def _lent(self) -> list[tuple[str, str, float]]:
        return lent_shares({name: account.original for name, account in self._accounts.items()}, self.shares)

    def _accrue(self, now: float) -> None:
        # A clock that jumped back has not taken processor time away from anybody.
        elapsed = 0.0 if self._accrued_to is None else max(0.0, now - self._accrued_to)
        self._accrued_to = now
        for lender, borrower, share in self._loans:
            pair = (lender, borrower)
            self._lent_s[pair] = self._lent_s.get(pair, 0.0) + share * self.lanes * elapsed
