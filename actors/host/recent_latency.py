"""Response times of a unit in the last seconds, which tables and pages show as current values.

Answers are counted per interval of PIECE_S seconds. When an interval ends, the figures are computed over the intervals of the
last RECENT_S seconds. So the figures show changes within one second, and cover enough answers for percentiles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from loadshed.ledger import TupleLedger
from loadshed.responses import ResponseStatistics
from scheduler.ratios import ratio

RECENT_S, PIECE_S = 5.0, 1.0


@dataclass(frozen=True, slots=True)
class RecentFigures:
    """Figures of the last RECENT_S seconds; 0 before the first answer."""

    results_per_s: float = 0.0
    mean_ms: float = 0.0
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    p99_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class LatencyPiece:
    began: float
    results: int
    """Number of answers before this interval began."""
    responses: ResponseStatistics


class Recent:
    """Response times of a unit, updated at the end of each load cycle; `results` is the number of answers since the unit began."""

    def __init__(self, now: float, results: int) -> None:
        self.figures = RecentFigures()
        self._pieces: deque[LatencyPiece] = deque()
        self._began, self._results = now, results

    def end_cycle(self, now: float, results: int, responses: ResponseStatistics) -> bool:
        """Update the figures; return True if the interval of PIECE_S has ended, so that the caller starts new response statistics."""
        is_over = now - self._began >= PIECE_S
        # The first answers are shown at once, although their interval has not ended.
        if not is_over and self.figures.p50_ms:
            return False
        while self._pieces and self._pieces[0].began <= now - RECENT_S:
            self._pieces.popleft()
        piece = LatencyPiece(self._began, self._results, responses)
        pieces = [*self._pieces, piece]
        together = ResponseStatistics()
        for part in pieces:
            together.include(part.responses)
        first, response_ms = pieces[0], together.response_ms()
        gone_s = now - first.began
        self.figures = RecentFigures(
            (results - first.results) / gone_s if gone_s > 0 else 0.0,
            response_ms["mean"],
            response_ms["p50"],
            response_ms["p95"],
            response_ms["p99"],
        )
        if is_over:
            self._pieces.append(piece)
            self._began, self._results = now, results
        return is_over


# Seconds over which the part of late rows of a stream is computed, and seconds between two readings of the stream's counts.
LATE_S, LATE_PIECE_S = 60.0, 2.0


class LateShares:
    """Fraction of late rows among the rows of the last minute, for each stream."""

    def __init__(self) -> None:
        self._noted: deque[tuple[float, Mapping[str, tuple[int, int]]]] = deque()

    def end_cycle(self, now: float, ledgers: Mapping[str, TupleLedger]) -> dict[str, float]:
        """Return the part of each stream's rows that came late; streams without late rows are left out."""
        counts = {name: (account.late, account.late + account.delivered) for name, account in ledgers.items()}
        if not self._noted or now - self._noted[-1][0] >= LATE_PIECE_S:
            self._noted.append((now, counts))
        while len(self._noted) > 1 and self._noted[1][0] <= now - LATE_S:
            self._noted.popleft()
        shares = {}
        for name, (late, rows) in counts.items():
            late_before, rows_before = self._noted[0][1].get(name, (0, 0))
            if late > late_before:
                shares[name] = ratio(late - late_before, rows - rows_before)
        return shares


class RecentFlow:
    """Tuples per second that operators took, and fraction of tuples that were shed, over the last RECENT_S seconds."""

    def __init__(self, now: float, ledgers: Mapping[str, TupleLedger]) -> None:
        self.taken_per_s = self.shed = 0.0
        self._seen = deque([(now, taken_of(ledgers), *shed_of(ledgers))])

    def end_cycle(self, now: float, ledgers: Mapping[str, TupleLedger]) -> None:
        if now - self._seen[-1][0] < PIECE_S:
            return
        self._seen.append((now, taken_of(ledgers), *shed_of(ledgers)))
        while len(self._seen) > 2 and self._seen[1][0] <= now - RECENT_S:
            self._seen.popleft()
        (since, before, shed_before, fates_before), (_, after, shed, fates) = self._seen[0], self._seen[-1]
        self.shed = ratio(max(0, shed - shed_before), fates - fates_before)
        # For a stream that was not read yet at the earlier time, the earlier count is 0.
        self.taken_per_s = max(
            0.0, sum(taken - before.get(stream, 0) for stream, taken in after.items()) / (now - since)
        )


def shed_of(ledgers: Mapping[str, TupleLedger]) -> tuple[int, int]:
    """Return the number of shed tuples, and the number of all tuples with a known fate."""
    return sum(account.shed for account in ledgers.values()), sum(
        account.accounted() for account in ledgers.values()
    )


def taken_of(ledgers: Mapping[str, TupleLedger]) -> dict[str, int]:
    """Return, by stream, the number of tuples that operators have taken, including late tuples."""
    return {stream: account.delivered + account.late for stream, account in ledgers.items()}
