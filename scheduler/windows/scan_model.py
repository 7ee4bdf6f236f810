"""Periodic queries over shared synopses, and what a run of some of them costs (Golab §2, §4.3).

A *synopsis* holds pre-aggregated intervals of length s and is updated every s. A query reads its `window` youngest
intervals and is to be run after at most `slide` updates. Queries that can be answered by one scan are a *group*; those of
a group with the same slide (and the same right to run early) a *sub-group*.

A scan reads from the youngest interval on and answers every shorter window on its way, so a run of several queries costs

    call + interval·(longest window − 1) + Σ_queries (answer + answer_interval·window)

where the last term is for what an answer needs after the scan, such as sorting counts of values, of which a longer window has
more. w intervals are combined in w − 1 steps. With interval = 1 and the others 0 this is the paper's count of comparisons.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from configs.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class PeriodicQuery:
    """A window result that is wanted again and again."""

    name: str
    synopsis: str
    group: str
    """Queries with the same group can be answered by one scan; a group has one synopsis."""
    window: int
    """Intervals it reads."""
    slide: int
    """Updates of the synopsis from one run to the next."""
    at_most: bool = True
    """SLIDE AT MOST: it may run earlier. Otherwise it runs when the synopsis' number is a multiple of `slide`, and then only."""

    def __post_init__(self) -> None:
        for name, value in (("window", self.window), ("slide", self.slide)):
            if value < 1:
                raise InvalidInput(
                    f"{name} must cover at least one interval of the synopsis",
                    f"{self.name}.{name}",
                    value,
                    "choose a multiple of the synopsis' interval",
                )


@dataclass(frozen=True, slots=True)
class ScanCosts:
    """What a run costs, in any unit: comparisons as in the paper, or measured seconds."""

    interval: float = 1.0
    call: float = 0.0
    answer: float = 0.0
    answer_interval: float = 0.0

    def scan(self, longest: int) -> float:
        return self.call + self.interval * (longest - 1)

    def answering(self, answers: int, windows: int) -> float:
        """Of so many answers whose windows are so long together."""
        return self.answer * answers + self.answer_interval * windows


COMPARISONS = ScanCosts()


@dataclass(frozen=True, slots=True)
class SubGroup:
    """What choosing periods has to know of a sub-group."""

    slide: int
    longest: int
    answers: int = 1
    at_most: bool = True
    windows: int = 0
    """The sum of its queries' windows."""


def sub_groups_of(queries: Iterable[PeriodicQuery]) -> tuple[SubGroup, ...]:
    """The sub-groups of one group, by slide; exact ones first where both have it."""
    windows_by_slide: dict[tuple[int, bool], list[int]] = {}
    for query in queries:
        windows_by_slide.setdefault((query.slide, query.at_most), []).append(query.window)
    return tuple(
        SubGroup(slide, max(windows), len(windows), at_most, sum(windows))
        for (slide, at_most), windows in sorted(windows_by_slide.items())
    )
