"""Periodic queries over shared synopses, and the cost of running several of them together (Golab §2, §4.3).

A *synopsis* is a series of pre-aggregated intervals of equal length; an update adds the newest interval. A query reads the `window`
youngest intervals and must run after at most `slide` updates. Queries that can be answered by one scan form a *group*. Queries of a group
with the same slide, and the same permission to run early, form a *sub-group*.

A scan starts at the youngest interval and answers every shorter window on its way, so a run of several queries costs

    call + interval·(longest window − 1) + Σ_queries (answer + answer_interval·window)

The last term is the work for an answer after the scan, such as sorting value counts, which a longer window has more of. A scan
combines w intervals in w − 1 steps. With interval = 1 and the other costs 0, this is the paper's count of comparisons.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PeriodicQuery:
    """Query for a window result that is computed periodically."""

    name: str
    synopsis: str
    group: str
    """Name of the group. The queries of a group read the same synopsis and can be answered by one scan."""
    window: int
    """Number of intervals that the query reads."""
    slide: int
    """Number of updates of the synopsis from one run to the next."""
    at_most: bool = True
    """True if the query may run earlier (SLIDE AT MOST). If False, it runs only when the synopsis' number is a multiple of `slide`."""

    def __post_init__(self) -> None:
        assert self.window >= 1, f"{self.name} reads less than one interval of its synopsis"
        assert self.slide >= 1, f"{self.name} runs more than once per update of its synopsis"


@dataclass(frozen=True, slots=True)
class ScanCosts:
    """Parameters of the cost of a run, in any unit: comparisons as in the paper, or measured seconds."""

    interval: float = 1.0
    call: float = 0.0
    answer: float = 0.0
    answer_interval: float = 0.0

    def scan(self, longest: int) -> float:
        return self.call + self.interval * (longest - 1)

    def answering(self, answers: int, windows: int) -> float:
        """Return the cost of computing some answers; `windows` is the sum of the lengths of the answers' windows."""
        return self.answer * answers + self.answer_interval * windows


COMPARISONS = ScanCosts()


@dataclass(frozen=True, slots=True)
class SubGroup:
    """Properties of a sub-group that determine the choice of its period."""

    slide: int
    longest: int
    answers: int = 1
    at_most: bool = True
    windows: int = 0
    """Sum of the windows of its queries."""


def sub_groups_of(queries: Iterable[PeriodicQuery]) -> tuple[SubGroup, ...]:
    """Return the sub-groups of one group in the order of their slides. With equal slides, sub-groups that may not run early are first."""
    windows_by_slide: dict[tuple[int, bool], list[int]] = {}
    for query in queries:
        windows_by_slide.setdefault((query.slide, query.at_most), []).append(query.window)
    return tuple(
        SubGroup(slide, max(windows), len(windows), at_most, sum(windows))
        for (slide, at_most), windows in sorted(windows_by_slide.items())
    )
