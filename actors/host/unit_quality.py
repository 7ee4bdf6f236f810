"""What the answers of a unit's queries have been worth, and how slow they were for what they cost, as people see it: from the
beginning, and in the last seconds.

It is looked at once a second, and at the first answers at once. What is told of a unit as a whole has the names that it has in
the simulator's results: utility and slowdown over all of its answers and, `of_queries`, as the mean over its queries;
staleness over the queries, of which each has an output, by their weights; tardiness over the answers of windows.
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
    """Of a unit as a whole."""

    utility: dict[str, float] = field(default_factory=dict)
    slowdown: dict[str, float] = field(default_factory=dict)
    staleness: dict[str, float] = field(default_factory=dict)
    tardiness: dict[str, float] = field(default_factory=dict)  # empty until a window has answered
    slowdown_now: float = 0.0
    utility_now: float = 1.0
    missed_now: float = 0.0  # as a part of the answers
    staleness_now: float = 0.0
    tardy_now: float = 0.0  # as a part of the answers of windows


@dataclass(frozen=True, slots=True)
class Totals:
    """Of all queries at one moment."""

    at: float
    answers: int
    utility: float
    missed: int
    stale_s: float
    """Mean over the queries, by their weights."""
    responded: int = 0
    """Answers whose response times are known, with a graph or without."""
    slowdown: float = 0.0
    """Of all of these together."""
    due: int = 0
    """Answers that had a deadline."""
    tardy: int = 0
    """Of these, the ones that came after it."""
    tardy_s: float = 0.0
    """How long after, all of them together."""
    longest_s: float = 0.0
    """How long after, the latest of them."""

    def with_counts_of(self, other: Totals) -> Totals:
        """Return these totals with the answers of other queries; staleness is a mean of the queries there are."""
        return replace(
            self,
            answers=self.answers + other.answers,
            utility=self.utility + other.utility,
            missed=self.missed + other.missed,
            responded=self.responded + other.responded,
            slowdown=self.slowdown + other.slowdown,
            due=self.due + other.due,
            tardy=self.tardy + other.tardy,
            tardy_s=self.tardy_s + other.tardy_s,
            longest_s=max(self.longest_s, other.longest_s),
        )


@dataclass
class UnitWorth:
    """Shown a unit's queries at the end of each load cycle."""

    alone: Callable[[], Mapping[str, Alone]] = dict
    """What an answer of each query costs alone, as far as it is known."""
    figures: WorthFigures = field(init=False, default_factory=WorthFigures)
    queries: Qualities = field(init=False, default_factory=Qualities)
    _totals: deque[Totals] = field(init=False, default_factory=deque)
    _known: list[AnswerQuality] = field(init=False, default_factory=list)
    _removed: Totals = field(init=False, default=Totals(0.0, 0, 0.0, 0, 0.0))
    """Answers of queries that were removed: counts from the beginning never fall."""

    def begin(self, now: float, queries: Mapping[str, AnswerQuality]) -> None:
        """What was before is not recent."""
        known, self._known = self._known, list(queries.values())
        present = set(map(id, self._known))
        removed = [quality for quality in known if id(quality) not in present]
        if removed:
            self._removed = self._removed.with_counts_of(totals(now, removed))
        self._totals = deque([self._all(now)])

    def _all(self, now: float) -> Totals:
        """Return the totals of all queries since the unit began."""
        return totals(now, self._known).with_counts_of(self._removed)

    def end_cycle(self, now: float, queries: Mapping[str, AnswerQuality], is_last: bool = False) -> None:
        """`is_last`: nobody will look again before there is input."""
        known = self._totals[-1]
        is_first = not known.answers and any(query.has_answers for query in queries.values())
        if not (is_first or is_last) and now - known.at < PIECE_S:
            return
        every, alone = list(queries.values()), self.alone()
        for name, one in queries.items():
            if name in alone:
                one.slowed(*alone[name])
        if len(every) != len(self._known) or any(map(is_not, every, self._known)):
            self.begin(now, queries)  # what queries had that are gone would be missing
        latest = self._all(now)
        while len(self._totals) > 1 and self._totals[1].at <= now - RECENT_S:
            self._totals.popleft()
        first = self._totals[0]
        answers, seconds = latest.answers - first.answers, now - first.at
        responded, due = latest.responded - first.responded, latest.due - first.due
        self.figures = WorthFigures(
            utility=utility_of(latest, every),
            slowdown=slowdown_of(latest, every),
            staleness=staleness_of([one.stale_share(now) for one in every], [one.weight for one in every]),
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
        answers=sum([one.count for one in utilities]),
        utility=sum([one.sum for one in utilities]),
        missed=sum([one.missed for one in utilities]),
        stale_s=mean([query.stale_s for query in queries], [query.weight for query in queries]),
        responded=sum([query.responses.count for query in queries]),
        slowdown=sum([query.slowdown for query in queries]),
        due=sum([one.answers for one in tardiness]),
        tardy=sum([one.tardy for one in tardiness]),
        tardy_s=sum([one.sum_s for one in tardiness]),
        longest_s=max([one.max_s for one in tardiness], default=0.0),
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
    """Of the queries, those that have answered."""
    means = [query.slowdown / query.responses.count for query in queries if query.responses.count]
    return {
        "mean": latest.slowdown / latest.responded if latest.responded else 0.0,
        "of_queries": mean(means),
    }


def staleness_of(shares: Sequence[float], weights: Sequence[float]) -> dict[str, float]:
    return {"mean": mean(shares, weights), "max": max(shares, default=0.0)}


def tardiness_of(latest: Totals) -> dict[str, float]:
    """Of the answers that had deadlines."""
    if not latest.due:
        return {}
    return {
        "due": latest.due,
        "tardy": latest.tardy,
        "mean_ms": 1e3 * latest.tardy_s / latest.due,
        "max_ms": 1e3 * latest.longest_s,
    }


def qualities(queries: Mapping[str, AnswerQuality], now: float) -> Qualities:
    """Of the first QUERIES_MAX."""
    told = [
        (name, one, one.utility)
        for name, one in islice(queries.items(), QUERIES_MAX)
        if one.utility is not None
    ]
    tardiness = [one.tardiness or AnswerTardiness() for _, one, _ in told]
    return Qualities(
        query=tuple([name for name, _, _ in told]),
        answers=tuple([utility.count for _, _, utility in told]),
        utility=tuple([utility.sum for _, _, utility in told]),
        missed=tuple([utility.missed for _, _, utility in told]),
        response_s=tuple([one.responses.sum_s for _, one, _ in told]),
        stale_s=tuple([one.stale_s for _, one, _ in told]),
        staleness=tuple([one.stale_share(now) for _, one, _ in told]),
        due=tuple([one.answers for one in tardiness]),
        tardy=tuple([one.tardy for one in tardiness]),
        tardiness_s=tuple([one.sum_s for one in tardiness]),
        slowdown=tuple([one.slowdown for _, one, _ in told]),
    )
