"""Whether a run kept what Weir promises. Each promise is checked on the run's results, never on its settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sim.simulation import Simulation

# Measured costs move with the length of trains; a load this much above the share is still "within" it.
SHARE_TOLERANCE = 1.05


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise and whether this run kept it."""

    text: str
    kept: bool
    detail: str


def check_promises(run: Simulation) -> list[Promise]:
    return [*targets(run), *entitlements(run), *reclaims(run), ledger(run)]


def targets(run: Simulation) -> Iterator[Promise]:
    for name, host in run.hosts.items():
        p95_ms, target_ms = 1e3 * host.responses.percentile_s(0.95), host.settings.delay_target_ms
        yield Promise(
            f"{name} meets its delay target",
            p95_ms <= target_ms,
            f"p95 {p95_ms:.0f} of {target_ms:.0f} ms",
        )


def entitlements(run: Simulation) -> Iterator[Promise]:
    """A class that stays within its original share loses nothing, whatever the others do."""
    for name, host in run.hosts.items():
        loads = [load for load in run.series.classes[name].load if load is not None]
        share = run.originals[name] * run.scenario.lanes
        if not loads or max(loads) > SHARE_TOLERANCE * share:
            continue
        shed = host.ledger().shed
        yield Promise(
            f"{name} stays within its share and loses nothing",
            shed == 0,
            f"{shed} shed, load to {max(loads):.2f} of {share:.2f}",
        )


def reclaims(run: Simulation) -> Iterator[Promise]:
    """An owner that asks for its capacity back has it when the call returns."""
    capacity = run.ring.capacity
    if capacity is None:
        return
    for name in run.hosts:
        moves = [move for move in capacity.moves if move.reason == f"reclaim by {name}"]
        if moves:
            least = min(move.after[name] for move in moves)
            yield Promise(
                f"{name} gets lent capacity back at once",
                least >= run.originals[name] - 1e-9,
                f"{least:.3f} of {run.originals[name]:.3f}, {len(moves)} times",
            )


def ledger(run: Simulation) -> Promise:
    offered = sum(host.ledger().offered for host in run.hosts.values())
    return Promise(
        "the ledger closes",
        all(host.closes() for host in run.hosts.values()),
        f"{offered:,} tuples offered",
    )
