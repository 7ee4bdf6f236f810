"""What a simulated class's answers were like, by query: response times, slowdown, what they were worth, staleness, tardiness.

The class's own response times, with their percentiles, are the host's (`loadshed.responses`); what is told here of a query are means
and counts, under the names that the live system has for them (`services.watch.quality`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from configs.classes.utility import UtilityGraph
from loadshed.staleness import Staleness
from loadshed.tardiness import Tardiness
from loadshed.utility import UtilityStatistics
from scheduler.operators.network import Network
from scheduler.ratios import mean


@dataclass(frozen=True, slots=True)
class Worth:
    """Of all answers so far."""

    answers: int
    utility: float
    """Of all together."""
    stale_s: float
    """For how long outputs have been stale, on the mean by the weights of their queries."""
    due: int
    """Answers that had a deadline."""
    tardy_s: float
    """How long after it they came, all of them together."""


@dataclass
class QueryAnswers:
    """Of one query, however many roots it has."""

    utility: UtilityStatistics
    weight: float
    is_due: bool
    """Whether its answers have deadlines."""
    staleness: Staleness = field(default_factory=lambda: Staleness(0.0))
    tardiness: Tardiness = field(default_factory=Tardiness)
    response_s: float = 0.0
    """Of all answers together, as is `slowdown`."""
    slowdown: float = 0.0


class Answers:
    """Told of all answers of a class, and who gave them."""

    def __init__(self, network: Network, query_of: Mapping[int, str], graph: UtilityGraph) -> None:
        """`query_of` each root; `graph` is that of roots without one of their own."""
        self._graph = graph
        self.queries: dict[str, QueryAnswers] = {}
        self._slack_s = {root: network.operators[root].slack_s for root in network.roots}
        for root in network.roots:
            own = network.operators[root]
            self.queries[query_of[root]] = QueryAnswers(
                UtilityStatistics(own.utility or graph), own.weight, own.slack_s is not None
            )
        self._of_root = {root: self.queries[query_of[root]] for root in network.roots}

    def add(self, root: int, out: Sequence[float], times: list[float], slowed: float, now: float) -> None:
        """Answers that leave now: when what caused each arrived, how long each took, and their slowdowns together."""
        query, slack_s = self._of_root[root], self._slack_s[root]
        query.response_s += sum(times)
        query.slowdown += slowed
        query.utility.add(times)
        if slack_s is not None:
            query.tardiness.add_array(np.array(times), slack_s)
        query.staleness.served(out, now)

    def worth(self) -> Worth:
        every = self.queries.values()
        return Worth(
            sum(one.utility.count for one in every),
            sum(one.utility.sum for one in every),
            self._by_weight([one.staleness.stale_s for one in every]),
            sum(one.tardiness.answers for one in every),
            sum(one.tardiness.sum_s for one in every),
        )

    def utility(self) -> dict[str, float]:
        """Of all answers, and as the mean over queries, as Aurora tells it."""
        whole = UtilityStatistics(self._graph)
        for query in self.queries.values():
            whole.include(query.utility)
        means = [query.utility.mean for query in self.queries.values()]
        return {
            "mean": whole.mean,
            "lost": 1.0 - whole.mean,
            "of_queries": mean(means),
            "missed": whole.missed,
            "missed_pct": whole.missed_pct,
        }

    def staleness(self, now: float) -> dict[str, float]:
        """Of the outputs so far; the mean by the weights of their queries."""
        shares = [query.staleness.share(now) for query in self.queries.values()]
        return {"mean": self._by_weight(shares), "max": max(shares)}

    def tardiness(self) -> dict[str, float] | None:
        """Of the answers that had a deadline; None if no query gives such."""
        told = [query.tardiness for query in self.queries.values() if query.is_due]
        if not told:
            return None
        due = sum(one.answers for one in told)
        return {
            "due": due,
            "tardy": sum(one.tardy for one in told),
            "mean_ms": 1e3 * sum(one.sum_s for one in told) / due if due else 0.0,
            "max_ms": 1e3 * max(one.max_s for one in told),
        }

    def by_query(self, now: float) -> dict[str, dict[str, Any]]:
        """What is told of each."""
        found = {}
        for name, one in self.queries.items():
            count, tardiness = one.utility.count, one.tardiness
            found[name] = {
                "results": count,
                "mean_ms": 1e3 * one.response_s / count if count else 0.0,
                "deadline_ms": 1e3 * one.utility.graph.deadline_s,
                "slowdown": one.slowdown / count if count else 0.0,
                "utility": one.utility.mean,
                "missed": one.utility.missed,
                "staleness": one.staleness.share(now),
                "tardiness": (
                    {"due": tardiness.answers, "tardy": tardiness.tardy, "mean_ms": 1e3 * tardiness.mean_s}
                    if one.is_due
                    else None
                ),
            }
        return found

    def _by_weight(self, values: Sequence[float]) -> float:
        weights = [query.weight for query in self.queries.values()]
        return mean(values, weights)
