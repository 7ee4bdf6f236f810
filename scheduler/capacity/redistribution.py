"""Redistribution of capacity between classes by need (DILoS §IV-C).

A class that needs more than its share demands capacity, and a class that needs less supplies capacity. In the formulas, u is the
usage of a class (offered, unshed load divided by its capacity), p its current share and p0 its original share:

    demand = (u − 1)·p                 if u > 1            (the paper prints "u < 1": a misprint)
    supply = (1 − u)·p − 0.05·p0       if that is > 0

Properties (`tests/property/test_redistribution.py`):
1. Afterwards the demand of each class is satisfied (up to its borrow limit), or the class has at least its original share.
2. The supplies satisfy classes in the order of their original priority.
3. The rest of the supplies goes to classes below their original share, highest priority first.
4. The sum of shares does not change.
5. No class falls below its floor, the largest of its minimum share, the part it does not lend, and 5% of its original share.
6. The demand of a class never takes another class below its original share. Borrowed capacity can be taken by owners in need,
   and by classes of higher priority than the borrower.
7. Under constant load the second redistribution changes nothing.
8. When classes are added, removed or changed, new classes have their original shares. Loans between remaining classes continue
   as far as the new terms allow. The shares sum to 1.

The paper does not say how owners below their original share are repaid. Here they are repaid before any capacity is lent: first
from the supplies, then by borrowers, lowest priority first. `reclaim` does this for one owner at once, outside the cycle. A class
without a report neither supplies nor demands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

# Part of its original share that a class keeps beyond its need instead of lending it, for stability (DILoS §IV-C).
RESERVE = 0.05
# Smallest change of a share that counts as a change and not as rounding.
LEAST_MOVE = 1e-12


@dataclass(frozen=True, slots=True)
class ClassAccount:
    """Entitlement and need of a class at a redistribution."""

    name: str
    priority: float
    original: float
    share: float
    # Offered load divided by capacity; None without a report since the last redistribution.
    usage: float | None
    lendable: float = 1.0  # Part of the original share that may be lent
    borrow_limit: float = 1.0  # Maximum excess of the share over the original share
    min_share: float = 0.0
    load: float | None = None  # Offered load as a share of the lanes
    # Weight from which the original share is computed; if None, the priority is used
    entitlement: float | None = None

    @property
    def weight(self) -> float:
        return self.priority if self.entitlement is None else self.entitlement

    @property
    def floor(self) -> float:
        return max(self.min_share, self.original * (1 - self.lendable), self.original * RESERVE)

    @property
    def demand(self) -> float:
        if self.usage is None or self.usage <= 1:
            return 0.0
        ceiling = self.original + self.borrow_limit
        return max(0.0, min(self.share * self.usage, ceiling) - self.share)

    @property
    def supply(self) -> float:
        if self.usage is None:
            return 0.0
        # A class with a load above its share runs on capacity that other classes do not use. Its headroom includes this capacity.
        # A class with a load above its share has nothing to lend. If it lent anyway, it would starve, reclaim, and lend again.
        busy = self.usage if self.load is None else max(self.usage, self.load / self.share)
        spare = (1 - busy) * self.share - RESERVE * self.original
        return max(0.0, min(spare, self.share - self.floor))


def redistribute(accounts: Sequence[ClassAccount]) -> dict[str, float]:
    """Return the new shares, by class."""
    if not accounts:
        return {}
    ranked = by_priority(accounts)
    share = {account.name: account.share - account.supply for account in ranked}
    need = {account.name: account.demand for account in ranked}
    pool = sum(account.supply for account in ranked)

    borrowed = Borrowed(ranked, share)
    for account in ranked:  # Owners in need are repaid first.
        name = account.name
        if need[name] > 0 and share[name] < account.original:
            owed = min(need[name] + RESERVE * account.original, account.original - share[name])
            from_pool = min(owed, pool)
            pool -= from_pool
            share[name] += from_pool + borrowed.take(owed - from_pool)
            need[name] = max(0.0, need[name] - owed)

    for account in ranked:  # The remaining supplies are lent to classes in need, in the order of priority.
        lent = min(need[account.name], pool)
        pool -= lent
        share[account.name] += lent
        need[account.name] -= lent

    borrowed = Borrowed(ranked, share)
    for account in ranked:  # Classes take over shares that classes of lower priority have borrowed.
        if need[account.name] > 0:
            share[account.name] += borrowed.take(need[account.name], below=account.priority)

    for account in ranked:  # Supplies that were not borrowed go back to classes below their original shares.
        if pool > 0 and share[account.name] < account.original:
            returned = min(pool, account.original - share[account.name])
            pool -= returned
            share[account.name] += returned
    # After this loop, the remainder of the supplies is only a rounding error. The class with the highest priority gets it.
    share[ranked[0].name] += pool
    return {account.name: share[account.name] for account in accounts}


def reclaim(accounts: Sequence[ClassAccount], owner: str) -> dict[str, float]:
    """Return the shares after the owner gets its original share back from borrowers, lowest priority first."""
    ranked = by_priority(accounts)
    share = {account.name: account.share for account in accounts}
    mine = next(account for account in accounts if account.name == owner)
    gap = mine.original - mine.share
    if gap > 0:
        share[owner] += Borrowed(ranked, share).take(gap)
    return share


def entitled(accounts: Sequence[ClassAccount]) -> list[ClassAccount]:
    """Return the accounts of classes by priority, with shares and original shares that follow from their weights, and without usage."""
    total = sum(account.weight for account in accounts)
    return [
        replace(account, original=account.weight / total, share=account.weight / total, usage=None, load=None)
        for account in by_priority(accounts)
    ]


def resettle(before: Sequence[ClassAccount], accounts: Sequence[ClassAccount]) -> dict[str, float]:
    """Return the shares after classes were added, removed or changed: original shares plus loans between remaining classes.

    A loan shrinks in proportion to the lender's original share, and to the limits of lender and borrower, but does not grow.
    Loans to and from removed classes end.
    """
    held, after = (
        {account.name: account for account in before},
        {account.name: account for account in accounts},
    )
    share = {account.name: account.original for account in accounts}
    for lender, borrower, part in loans_of(before):
        if lender in after and borrower in after:
            gives, takes = after[lender], after[borrower]
            kept = part * min(1.0, gives.original / held[lender].original)
            room = min(share[lender] - gives.floor, takes.original + takes.borrow_limit - share[borrower])
            kept = max(0.0, min(kept, room))
            share[lender] -= kept
            share[borrower] += kept
    return share


def by_priority(accounts: Sequence[ClassAccount]) -> list[ClassAccount]:
    return sorted(accounts, key=lambda account: (-account.priority, account.name))


class Borrowed:
    """Shares that classes have borrowed. Borrowed shares are taken back from the class with the lowest priority first."""

    def __init__(self, ranked: Sequence[ClassAccount], share: dict[str, float]) -> None:
        self._share = share
        # Classes that hold borrowed shares, highest priority first. `take` begins with the last class, and removes it when its loan is gone.
        self._holders = [account for account in ranked if share[account.name] > account.original]

    def take(self, amount: float, below: float = inf) -> float:
        """Take up to `amount` of share from classes with a lower priority than `below`; return the share taken."""
        taken = 0.0
        while self._holders and amount - taken > LEAST_MOVE and self._holders[-1].priority < below:
            holder = self._holders[-1]
            part = min(amount - taken, self._share[holder.name] - holder.original)
            if part > 0:
                self._share[holder.name] -= part
                taken += part
            if self._share[holder.name] - holder.original <= LEAST_MOVE:
                self._holders.pop()
        return taken


def loans_of(ranked: Sequence[ClassAccount]) -> list[tuple[str, str, float]]:
    return lent_shares(
        {account.name: account.original for account in ranked},
        {account.name: account.share for account in ranked},
    )


def lent_shares(
    ranked_originals: Mapping[str, float], shares: Mapping[str, float]
) -> list[tuple[str, str, float]]:
    """Return the loans as (lender, borrower, share), by matching lenders and borrowers in the order of priority."""
    lenders = [
        (name, p0 - shares[name]) for name, p0 in ranked_originals.items() if p0 - shares[name] > LEAST_MOVE
    ]
    borrowers = [
        (name, shares[name] - p0) for name, p0 in ranked_originals.items() if shares[name] - p0 > LEAST_MOVE
    ]
    loans: list[tuple[str, str, float]] = []
    while lenders and borrowers:
        (lender, offers), (borrower, takes) = lenders[0], borrowers[0]
        part = min(offers, takes)
        loans.append((lender, borrower, part))
        lenders[0], borrowers[0] = (lender, offers - part), (borrower, takes - part)
        if lenders[0][1] <= LEAST_MOVE:
            lenders.pop(0)
        if borrowers[0][1] <= LEAST_MOVE:
            borrowers.pop(0)
    return loans
