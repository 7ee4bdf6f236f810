"""Utility, slowdown, staleness and tardiness of a unit's answers, as shown to users: in total, and in the last seconds.

The figures are updated once per second, and at the first answers at once. Figures of a whole unit have the same names as in
the simulator's results. Utility and slowdown are means over all answers and, as `of_queries`, over the queries. Staleness is
a mean over the queries by their weights, and tardiness covers the answers of windows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import is_not

from actors.host.recent_latency import PIECE_S, RECENT_S
from actors.messages.unit_messages import QUERIES_MAX, Qualities
from engine.measure.answer_quality import AnswerQuality
from engine.measure.ideal_cost import Alone
from loadshed.tardiness import AnswerTardiness
from scheduler.ratios import mean, ratio


@dataclass(frozen=True, slots=True)
class WorthFigures:
    """Utility, slowdown, staleness and tardiness of all answers of a unit; fields that end in `_now` cover only the last seconds."""

    utility: dict[str, float] = field(default_factory=dict)
    slowdown: dict[str, float] = field(default_factory=dict)
    staleness: dict[str, float] = field(default_factory=dict)
    # Tardiness of the answers of windows; empty before the first such answer
    tardiness: dict[str, float] = field(default_factory=dict)
    slowdown_now: float = 0.0
    utility_now: float = 1.0
    missed_now: float = 0.0  # Fraction of recent answers that missed their deadlines
    staleness_now: float = 0.0
    tardy_now: float = 0.0  # Fraction of recent answers of windows that missed their deadlines


# Fields of Totals that are sums over answers.
SUMMED = ("answers", "utility", "missed", "responded", "slowdown", "due", "tardy", "tardy_s")


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the answers of all queries of a unit at one moment."""

    at: float
    answers: int
    utility: float
    missed: int
    stale_s: float
    """Mean seconds of staleness over the queries, by their weights."""
    responded: int = 0
    """Number of answers with known response times, with or without a QoS graph."""
    slowdown: float = 0.0
    """Sum of the slowdowns of answers with known response times."""
    due: int = 0
    """Number of answers that had a deadline."""
    tardy: int = 0
    """Number of answers that came after their deadline."""
    tardy_s: float = 0.0
    """Sum of the seconds by which answers missed their deadlines."""
    longest_s: float = 0.0
    """Largest number of seconds by which an answer missed its deadline."""

    def with_counts_of(self, other: Totals) -> Totals:
        """Return the totals plus those of removed queries (`other`). Staleness is not added: it covers only the present queries."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in SUMMED}
        return replace(self, **sums, longest_s=max(self.longest_s, other.longest_s))


@dataclass
class UnitWorth:
    """Quality of a unit's answers, updated from its queries at the end of each load cycle."""

    alone: Callable[[], Mapping[str, Alone]] = dict
    """Function that returns, by query, the ideal processing time of an answer, where it is known."""
    figures: WorthFigures = field(init=False, default_factory=WorthFigures)
    queries: Qualities = field(init=False, default_factory=Qualities)
    _totals: deque[Totals] = field(init=False, default_factory=deque)
    _known: list[AnswerQuality] = field(init=False, default_factory=list)
    _removed: Totals = field(init=False, default=Totals(0.0, 0, 0.0, 0, 0.0))
    """Totals of removed queries, which are kept so that counts since the beginning never fall."""

    def begin(self, now: float, queries: Mapping[str, AnswerQuality]) -> None:
        """Restart the figures of the last seconds with the given queries, and keep the totals of removed queries."""
        before, self._known = self._known, list(queries.values())
        present = set(map(id, self._known))
        removed = [quality for quality in before if id(quality) not in present]
        if removed:
            self._removed = self._removed.with_counts_of(totals(now, removed))
        self._totals = deque([self._all(now)])

    def _all(self, now: float) -> Totals:
        """Return the totals of all queries since the unit began."""
        return totals(now, self._known).with_counts_of(self._removed)

    def end_cycle(self, now: float, queries: Mapping[str, AnswerQuality], is_last: bool = False) -> None:
        """Update the figures if a second has passed, or at once if `is_last` is True because the unit falls asleep."""
        totals_now = self._totals[-1]
        is_first = not totals_now.answers and any(query.has_answers for query in queries.values())
        if not (is_first or is_last) and now - totals_now.at < PIECE_S:
            return
        every, alone = list(queries.values()), self.alone()
        for name, quality in queries.items():
            if name in alone:
                quality.slowed(*alone[name])
        if len(every) != len(self._known) or any(map(is_not, every, self._known)):
            # The queries have changed: `begin` adds the totals of removed queries, so that counts do not fall.
            self.begin(now, queries)
        latest = self._all(now)
        while len(self._totals) > 1 and self._totals[1].at <= now - RECENT_S:
            self._totals.popleft()
        first = self._totals[0]
        answers, seconds = latest.answers - first.answers, now - first.at
        stale_shares = [quality.stale_share(now) for quality in every]
        responded, due = latest.responded - first.responded, latest.due - first.due
        self.figures = WorthFigures(
            utility=utility_of(latest, every),
            slowdown=slowdown_of(latest, every),
            staleness={
                "mean": mean(stale_shares, [quality.weight for quality in every]),
                "max": max(stale_shares, default=0.0),
            },
            tardiness=tardiness_of(latest),
            slowdown_now=max(0.0, latest.slowdown - first.slowdown) / responded if responded > 0 else 0.0,
            utility_now=ratio(latest.utility - first.utility, answers, 1.0),
            missed_now=ratio(latest.missed - first.missed, answers),
            staleness_now=ratio(latest.stale_s - first.stale_s, seconds),
            tardy_now=ratio(latest.tardy - first.tardy, due),
        )
        self.queries = qualities(queries, now)
        self._totals.append(latest)


def totals(now: float, queries: Sequence[AnswerQuality]) -> Totals:
    utilities = [query.utility for query in queries if query.utility is not None]
    tardiness = [query.tardiness for query in queries if query.tardiness is not None]
    return Totals(
        at=now,
        answers=sum([part.count for part in utilities]),
        utility=sum([part.sum for part in utilities]),
        missed=sum([part.missed for part in utilities]),
        stale_s=mean([query.stale_s for query in queries], [query.weight for query in queries]),
        responded=sum([query.responses.count for query in queries]),
        slowdown=sum([query.slowdown for query in queries]),
        due=sum([part.answers for part in tardiness]),
        tardy=sum([part.tardy for part in tardiness]),
        tardy_s=sum([part.sum_s for part in tardiness]),
        longest_s=max([part.max_s for part in tardiness], default=0.0),
    )


def utility_of(latest: Totals, queries: Sequence[AnswerQuality]) -> dict[str, float]:
    whole = ratio(latest.utility, latest.answers, 1.0)
    means = [query.utility.mean for query in queries if query.utility is not None]
    return {
        "mean": whole,
        "lost": 1.0 - whole,
        "of_queries": mean(means, empty=1.0),
        "missed": latest.missed,
        "missed_pct": 100.0 * latest.missed / latest.answers if latest.answers else 0.0,
    }


def slowdown_of(latest: Totals, queries: Sequence[AnswerQuality]) -> dict[str, float]:
    """Return the mean slowdown over all answers, and over the queries that have answers."""
    means = [query.slowdown / query.responses.count for query in queries if query.responses.count]
    return {
        "mean": latest.slowdown / latest.responded if latest.responded else 0.0,
        "of_queries": mean(means),
    }


def tardiness_of(latest: Totals) -> dict[str, float]:
    """Return the tardiness of answers that had deadlines; empty without such answers."""
    if not latest.due:
        return {}
    return {
        "due": latest.due,
        "tardy": latest.tardy,
        "mean_ms": 1e3 * latest.tardy_s / latest.due,
        "max_ms": 1e3 * latest.longest_s,
    }


def qualities(queries: Mapping[str, AnswerQuality], now: float) -> Qualities:
    """Return the quality of each query with a QoS graph among the first QUERIES_MAX queries."""
    shown = [
        (name, part, part.utility)
        for name, part in islice(queries.items(), QUERIES_MAX)
        if part.utility is not None
    ]
    tardiness = [part.tardiness or AnswerTardiness() for _, part, _ in shown]
    return Qualities(
        query=tuple([name for name, _, _ in shown]),
        answers=tuple([utility.count for _, _, utility in shown]),
        utility=tuple([utility.sum for _, _, utility in shown]),
        missed=tuple([utility.missed for _, _, utility in shown]),
        response_s=tuple([part.responses.sum_s for _, part, _ in shown]),
        stale_s=tuple([part.stale_s for _, part, _ in shown]),
        staleness=tuple([part.stale_share(now) for _, part, _ in shown]),
        due=tuple([part.answers for part in tardiness]),
        tardy=tuple([part.tardy for part in tardiness]),
        tardiness_s=tuple([part.sum_s for part in tardiness]),
        slowdown=tuple([part.slowdown for _, part, _ in shown]),
    )
