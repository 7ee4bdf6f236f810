"""Runs of drawn scenarios, and verdicts on Weir's promises. Which classes a promise covers follows from `bench.patterns.oracle`.

| promise | holds if | judged for |
|---|---|---|
| shed | no tuple of the class is lost | classes that fit |
| late | p95 of each query is at most the delay target, and p99.5 at most twice the target | classes that fit, see below |
| whole | two load cycles after a class needs more, its share is at least the least load of these and the next two cycles, or its original share if that is less | steps at which the class had lent what it needs |
| order | the class of higher priority loses no greater part of its input | pairs of overloaded classes, see below |
| ledger | the ledger closes | every run |

Late: an owner may wait for its lent capacity for two load cycles. A class with a shorter delay target is judged only if few of
its tuples arrive in such moments.

Order: DILoS lends what is unused to the class of higher priority first, and guarantees original shares only. So a class that asks for
a larger multiple of its share may lose more than a class of lower priority. A pair is judged if both classes ask for more than
their shares all the time, and the class of higher priority never asks for a larger multiple than the other class.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import permutations
from math import inf, isinf

import numpy as np

from bench.patterns.generator import Pattern, drawn
from bench.patterns.oracle import OfferedWork, offered_work
from loadshed.ledger import TupleLedger
from sim.simulation import Simulation

PROMISES = ("shed", "late", "whole", "order", "ledger")
# Load cycles after which an owner must be whole.
WHOLE_CYCLES = 2
# Part of a share by which measured and true loads may differ.
SHARE_ERROR = 0.02
# Percentiles of response times are within 1%.
PERCENTILE_ERROR = 0.01
# Each row: a percentile of the answers, the multiple of the delay target within which it must come, and a part of the tuples.
# At most this part of the tuples may arrive while the class waits for its lent capacity, if the delay target is shorter than this wait.
LATE = ((0.95, 1.0, 0.02), (0.995, 2.0, 0.002))
# Loads of overloaded classes are compared in intervals of this length.
ORDER_BIN_S = 1.5
OVERLOADED = 1.1
# Percentage points by which the loss of a class of higher priority may be greater.
ORDER_ERROR_PCT = 2.0


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Promise that a class, or a whole run, did not keep."""

    scenario: int
    seed: int
    promise: str
    kind: str
    detail: str

    @property
    def command(self) -> str:
        return f"python -m bench.patterns --only {self.scenario} --seed {self.seed}"


@dataclass(kw_only=True)
class Verdicts:
    """Numbers of judged promises by pattern and promise, and the promises that were not kept."""

    runs: int = 0
    judged: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def include(self, other: Verdicts) -> None:
        self.runs += other.runs
        self.judged += other.judged
        self.findings += other.findings

    def broken(self) -> Counter[tuple[str, str]]:
        return Counter((finding.kind, finding.promise) for finding in self.findings)


@dataclass
class ShareRecord:
    """Shares of all classes after each load cycle of a run."""

    at_s: list[float] = field(default_factory=list)
    shares: list[Mapping[str, float]] = field(default_factory=list)

    def record(self, run: Simulation) -> None:
        self.at_s.append(run.now)
        self.shares.append(dict(run.ring.shares()))

    def at(self, now: float, name: str) -> float:
        """Return the share of a class after the last load cycle that ended until `now`."""
        return self.shares[max(0, bisect_right(self.at_s, now) - 1)][name]

    def first_s(self, now: float, name: str, least: float) -> float:
        """Return the end of the first load cycle from `now` on after which a class has a share of `least`; infinity if it never has."""
        pairs = zip(self.at_s, self.shares, strict=True)
        return next((at_s for at_s, shares in pairs if at_s >= now and shares[name] >= least), inf)


def judged(number: int, seed: int) -> Verdicts:
    """Run a scenario with a seed, and judge every promise."""
    pattern = drawn(number)
    record = ShareRecord()
    run = Simulation(pattern.scenario, seed=seed, on_cycle=record.record).run()
    return Judge(pattern, run, record, seed).verdicts()


class Judge:
    """Comparison of a finished run with the work that its classes really offered."""

    def __init__(self, pattern: Pattern, run: Simulation, record: ShareRecord, seed: int) -> None:
        self._pattern, self._run, self._record, self._seed = pattern, run, record, seed
        self._cycle_s = pattern.scenario.load.cycle_ms / 1e3
        self._seconds = pattern.scenario.seconds
        self._work = {
            class_.name: offered_work(pattern.scenario, class_, seed) for class_ in pattern.scenario.classes
        }
        self._lost_pct = {name: loss_pct(host.door.ledger()) for name, host in run.hosts.items()}
        self._verdicts = Verdicts(runs=1)

    def verdicts(self) -> Verdicts:
        for name, work in self._work.items():
            if work.fits():
                self._judge_shed(name)
                self._judge_late(name, work)
            for at_s in self._pattern.steps_s[name]:
                self._judge_whole(name, work, at_s)
        for higher, lower in permutations(self._pattern.scenario.classes, 2):
            if higher.priority > lower.priority:
                self._judge_order(higher.name, lower.name)
        closes = all(host.door.closes() for host in self._run.hosts.values())
        self._judge("ledger", "run", "" if closes else "the ledger does not close")
        return self._verdicts

    def _judge(self, promise: str, kind: str, broken: str) -> None:
        """Count a promise as judged, and as not kept if `broken` says how."""
        self._verdicts.judged[kind, promise] += 1
        if broken:
            self._verdicts.findings.append(
                Finding(
                    scenario=self._pattern.number, seed=self._seed, promise=promise, kind=kind, detail=broken
                )
            )

    def _judge_shed(self, name: str) -> None:
        ledger = self._run.hosts[name].door.ledger()
        lost = ledger.lost()
        broken = f"{name} lost {lost:,} of {ledger.offered:,} tuples ({self._lost_pct[name]:.2f}%)"
        self._judge("shed", self._pattern.kinds[name], broken if lost else "")

    def _judge_late(self, name: str, work: OfferedWork) -> None:
        waits = work.target_s < WHOLE_CYCLES * self._cycle_s
        woken = work.woken_part(self._cycle_s, self._seconds) if waits else 0.0
        limits = [(part, times) for part, times, woken_most in LATE if woken <= woken_most]
        if limits:
            texts = [
                f"{query} p{100 * part:g} {1e3 * response_s:.0f} of {1e3 * times * work.target_s:.0f} ms"
                for query, answers in self._run.hosts[name].answers.queries.items()
                for part, times in limits
                if (response_s := answers.responses.percentile_s(part))
                > (1 + PERCENTILE_ERROR) * times * work.target_s
            ]
            self._judge("late", self._pattern.kinds[name], f"{name}: {', '.join(texts)}" if texts else "")

    def _judge_whole(self, name: str, work: OfferedWork, step_s: float) -> None:
        whole_s = step_s + WHOLE_CYCLES * self._cycle_s
        original = self._pattern.scenario.original_shares()[name]
        lanes = self._pattern.scenario.lanes
        loads = (work.load(step_s, whole_s), work.load(whole_s, 2 * whole_s - step_s))
        # In long trains, the same tuples may need less work.
        needed = (1 - SHARE_ERROR) * min(original, min(loads) * work.long_trains / lanes)
        if self._record.at(step_s, name) < needed:
            share, after_s = (
                self._record.at(whole_s, name),
                self._record.first_s(step_s, name, needed) - step_s,
            )
            later = "was never whole again" if isinf(after_s) else f"was whole after {after_s:.2f} s"
            broken = (
                f"{name} had {share:.4f} of {needed:.4f} needed, {whole_s - step_s:.2f} s after {step_s:.2f} s; "
                f"its share {later}"
            )
            self._judge("whole", self._pattern.kinds[name], broken if share < needed else "")

    def _judge_order(self, higher: str, lower: str) -> None:
        above, below = (
            self._work[name].loads(ORDER_BIN_S, self._seconds) / self._work[name].capacity
            for name in (higher, lower)
        )
        # Trains of overloaded classes are long, so their tuples may need less work.
        below = below * self._work[lower].long_trains
        if np.min(above) > OVERLOADED and np.min(below) > OVERLOADED and np.all(above <= below):
            lost, lost_below = self._lost_pct[higher], self._lost_pct[lower]
            broken = f"{higher} lost {lost:.1f}%, but {lower}, of lower priority, {lost_below:.1f}%"
            self._judge(
                "order", self._pattern.kinds[higher], broken if lost > lost_below + ORDER_ERROR_PCT else ""
            )


def loss_pct(ledger: TupleLedger) -> float:
    return 100 * ledger.lost() / ledger.offered if ledger.offered else 0.0
