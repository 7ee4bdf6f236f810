"""How fast a unit has answered in the last seconds: what people are shown as now.

Answers are counted in pieces of a second; when one ends, the figures are those of the last RECENT_S together. So they
follow what happens within a second, and are of enough answers for a percentile.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from loadshed.responses import ResponseStatistics

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
class Piece:
    began: float
    results: int
    """Answers before it."""
    responses: ResponseStatistics


class Recent:
    """Shown the answers of a unit at the end of each load cycle; `results` counts all of its life."""

    def __init__(self, now: float, results: int) -> None:
        self.figures = RecentFigures()
        self._pieces: deque[Piece] = deque()
        self._began, self._results = now, results

    def end_cycle(self, now: float, results: int, responses: ResponseStatistics) -> bool:
        """Whether the piece is over: from now on, responses are to be those of a new one."""
        is_over = now - self._began >= PIECE_S
        # The first answers are not waited for.
        if not is_over and self.figures.p50_ms:
            return False
        while self._pieces and self._pieces[0].began <= now - RECENT_S:
            self._pieces.popleft()
        piece = Piece(self._began, self._results, responses)
        self.figures = figures_of([*self._pieces, piece], now, results)
        if is_over:
            self._pieces.append(piece)
            self._began, self._results = now, results
        return is_over


def figures_of(pieces: list[Piece], now: float, results: int) -> RecentFigures:
    together = ResponseStatistics()
    for one in pieces:
        together.include(one.responses)
    first, response_ms = pieces[0], together.response_ms()
    gone_s = now - first.began
    return RecentFigures(
        (results - first.results) / gone_s if gone_s > 0 else 0.0,
        response_ms["mean"],
        response_ms["p50"],
        response_ms["p95"],
        response_ms["p99"],
    )
