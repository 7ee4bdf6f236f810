"""Loans between classes: processor-seconds lent since the start, and processors lent now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from actors.coordinator.control_plane import SystemStatus
from scheduler.capacity.redistribution import lent_shares


@dataclass(frozen=True, slots=True)
class Lent:
    """Loan from one class to another."""

    lender: str
    borrower: str
    seconds: float
    """Processor-seconds lent since the start."""
    now: float
    """Processors lent now."""


def lending(system: SystemStatus, seconds: Mapping[str, Mapping[str, float]]) -> list[Lent]:
    """Return one loan for each pair of classes that has ever had a loan. Loans between shards of one class are left out."""
    now = lent_now(system)
    total = {
        (lender, other): lent
        for lender, row in seconds.items()
        for other, lent in row.items()
        if lender != other
    }
    pairs = sorted({*total, *now})
    return [Lent(*pair, total.get(pair, 0.0), now.get(pair, 0.0)) for pair in pairs]


def lent_now(system: SystemStatus) -> dict[tuple[str, str], float]:
    """Return the processors lent now, by lender and borrower."""
    ranks = {class_.name: -class_.priority for class_ in system.classes}
    loans: dict[tuple[str, str], float] = {}
    for node, lanes in system.nodes.items():
        here = {unit: status for unit, status in system.units.items() if status.node == node}
        ranked = sorted(here, key=lambda unit: (ranks[here[unit].class_name], unit))
        originals = {unit: here[unit].original for unit in ranked}
        for lender, borrower, share in lent_shares(originals, {unit: here[unit].share for unit in ranked}):
            pair = here[lender].class_name, here[borrower].class_name
            if pair[0] != pair[1]:
                loans[pair] = loans.get(pair, 0.0) + share * lanes
    return loans
