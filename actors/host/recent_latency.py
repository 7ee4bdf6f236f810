"""Response times of a unit in the last seconds, which tables and pages show as the present ones.

Answers are counted in pieces of a second; when one ends, the figures are those of the last RECENT_S together. So they
follow what happens within a second, and are of enough answers for a percentile.
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
    """0 before there is any answer."""

    results_per_s: float = 0.0
    mean_ms: float = 0.0
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    p99_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class LatencyPiece:
    began: float
    results: int
    """Answers before it."""
    responses: ResponseStatistics


class Recent:
    """Shown the answers of a unit at the end of each load cycle; `results` counts all of its life."""

    def __init__(self, now: float, results: int) -> None:
        self.figures = RecentFigures()
        self._pieces: deque[LatencyPiece] = deque()
        self._began, self._results = now, results

    def end_cycle(self, now: float, results: int, responses: ResponseStatistics) -> bool:
        """Return True if the piece is over; the caller then starts new response statistics."""
        is_over = now - self._began >= PIECE_S
        # The first answers are not waited for.
        if not is_over and self.figures.p50_ms:
            return False
        while self._pieces and self._pieces[0].began <= now - RECENT_S:
            self._pieces.popleft()
        piece = LatencyPiece(self._began, self._results, responses)
        self.figures = figures_of([*self._pieces, piece], now, results)
        if is_over:
            self._pieces.append(piece)
            self._began, self._results = now, results
        return is_over


def figures_of(pieces: list[LatencyPiece], now: float, results: int) -> RecentFigures:
    together = ResponseStatistics()
    for piece in pieces:
        together.include(piece.responses)
    first, response_ms = pieces[0], together.response_ms()
    gone_s = now - first.began
    return RecentFigures(
        (results - first.results) / gone_s if gone_s > 0 else 0.0,
        response_ms["mean"],
        response_ms["p50"],
        response_ms["p95"],
        response_ms["p99"],
    )


# Over this time the late part of a stream is counted, and this often it is noted.
LATE_S, LATE_PIECE_S = 60.0, 2.0


class LateShares:
    """The late part of each stream's rows in the last minute of input."""

    def __init__(self) -> None:
        self._noted: deque[tuple[float, Mapping[str, tuple[int, int]]]] = deque()

    def end_cycle(self, now: float, ledgers: Mapping[str, TupleLedger]) -> dict[str, float]:
        """Return, by stream, the late part of the rows that came in; streams without late rows are left out."""
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
    """Tuples per second that operators have taken, and the part that was shed, once a PIECE_S over the last RECENT_S."""

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
        # A stream that has begun since then began with nothing.
        self.taken_per_s = max(
            0.0, sum(taken - before.get(stream, 0) for stream, taken in after.items()) / (now - since)
        )


def shed_of(ledgers: Mapping[str, TupleLedger]) -> tuple[int, int]:
    """Return the tuples that were shed, and all that have met their fate."""
    return sum(account.shed for account in ledgers.values()), sum(
        account.accounted() for account in ledgers.values()
    )


def taken_of(ledgers: Mapping[str, TupleLedger]) -> dict[str, int]:
    """Return by stream how many tuples operators have taken, late ones among them."""
    return {stream: account.delivered + account.late for stream, account in ledgers.items()}
