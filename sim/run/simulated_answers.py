"""Quality of a simulated class's answers: response times, slowdown, utility, staleness, tardiness and unevenness.

The figures of each query have the names of the live system (`services.watch.quality`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from functools import cache
from operator import sub
from typing import Any

import numpy as np

from configs.classes.utility import UtilityGraph
from loadshed.cycle import OutputCycle
from loadshed.responses import ResponseStatistics
from loadshed.staleness import OutputStaleness
from loadshed.steadiness import OutputSteadiness
from loadshed.tardiness import AnswerTardiness
from loadshed.utility import UtilityStatistics
from scheduler.operators.network import Estimate, Network
from scheduler.ratios import mean
from sim.run.networks import BoxPlan
from sim.run.operator_models import since
from sim.run.operator_queues import OperatorQueues


@dataclass(frozen=True, slots=True)
class AnswerTotals:
    """Utility, staleness and tardiness of all answers until now."""

    answers: int = 0
    utility: float = 0.0
    """Sum of the utilities of all answers."""
    stale_s: float = 0.0
    """Seconds for which outputs were stale: mean over all queries, weighted by the queries' weights."""
    due: int = 0
    """Number of answers that had a deadline, whether they met it or not."""
    tardy_s: float = 0.0
    """Sum of the seconds by which answers missed their deadlines."""

    def since(self, before: AnswerTotals) -> AnswerTotals:
        """Return the totals of the answers that came after the totals `before` were computed."""
        return AnswerTotals(*map(sub, astuple(self), astuple(before)))


@dataclass
class QueryAnswers:
    """Statistics of the answers of one query, over all of its roots."""

    utility: UtilityStatistics
    responses: ResponseStatistics
    weight: float
    is_due: bool
    """True if the query's answers have deadlines."""
    staleness: OutputStaleness = field(default_factory=lambda: OutputStaleness(0.0))
    tardiness: AnswerTardiness = field(default_factory=AnswerTardiness)
    steadiness: OutputSteadiness = field(default_factory=OutputSteadiness)
    slowdown: float = 0.0
    """Sum of the slowdowns of all answers."""


class SimulatedAnswers:
    """Statistics of the answers that leave one class."""

    def __init__(
        self, plan: BoxPlan, network: Network, alone: Sequence[Estimate], graph: UtilityGraph, target_s: float
    ) -> None:
        """Begin without answers. `alone` has the costs of operators for a single tuple; `graph` is the default QoS graph of roots."""
        self.responses = ResponseStatistics(target_s)
        self.queries: dict[str, QueryAnswers] = {}
        self._sample: ResponseStatistics | None = None
        self._graph = graph
        self._slack_s = {root: network.operators[root].slack_s for root in network.roots}
        self._query_of = {root: plan.boxes[root].query for root in network.roots}
        for root, query in self._query_of.items():
            operator = network.operators[root]
            self.queries[query] = QueryAnswers(
                UtilityStatistics(operator.utility or graph),
                ResponseStatistics(target_s),
                operator.weight,
                operator.slack_s is not None,
            )
        self._ideal_s = network.ideal_costs(alone)
        joins = [number for number, box in enumerate(plan.boxes) if box.partner is not None]
        self._of_pairs = set().union(*(network.fed_by(number) for number in joins))
        self._cycle_s = dict.fromkeys(network.roots, 0.0)
        self._cycle_results = dict.fromkeys(network.roots, 0)

    def add(self, root: int, out: Sequence[float], stamp: float) -> None:
        """Count answers that leave at time `stamp`; `out` has the arrival times of the tuples that caused the answers."""
        times = [stamp - arrival for arrival in out]
        self._cycle_s[root] += sum(times)
        self._cycle_results[root] += len(times)
        ideal_s = self._ideal_s[root]
        slowdowns = None
        if root in self._of_pairs and ideal_s > 0:
            slowdowns = [(stamp - since(arrival)) / ideal_s for arrival in out]
            slowed = sum(slowdowns)
        else:
            slowed = sum(times) / ideal_s if ideal_s > 0 else 0.0
        self._respond(self.responses, times, ideal_s, slowdowns)
        if self._sample is not None:
            self._respond(self._sample, times, ideal_s, slowdowns)
        query, slack_s = self.queries[self._query_of[root]], self._slack_s[root]
        query.responses.add(times, 0.0)
        query.slowdown += slowed
        query.utility.add(times)
        if slack_s is not None:
            query.tardiness.add_array(np.array(times), slack_s)
        query.staleness.served(out, stamp)
        query.steadiness.answered(len(out), stamp)

    @staticmethod
    def _respond(
        responses: ResponseStatistics, times: list[float], ideal_s: float, slowdowns: list[float] | None
    ) -> None:
        if slowdowns is None:
            responses.add(times, ideal_s)
        else:
            responses.add_slowed(times, slowdowns)

    def restart_responses(self) -> None:
        """Discard all response times until now, for instance those of a warm-up."""
        self.responses = ResponseStatistics(self.responses.target_s)

    def new_sample(self) -> ResponseStatistics:
        """Return statistics that collect response times from now on, until the next call of this method."""
        self._sample = ResponseStatistics(self.responses.target_s)
        return self._sample

    def end_cycle(self, root: int, waiting_s: float) -> OutputCycle:
        """Return a root's answers of the load cycle that ends, and begin the next cycle."""
        results, response_s = self._cycle_results[root], self._cycle_s[root]
        self._cycle_results[root], self._cycle_s[root] = 0, 0.0
        mean_s = response_s / results if results else 0.0
        return OutputCycle(
            self._query_of[root], self.responses.target_s, results, max(mean_s, 0.0), waiting_s
        )

    def totals(self) -> AnswerTotals:
        every = self.queries.values()
        return AnswerTotals(
            answers=sum(query.utility.count for query in every),
            utility=sum(query.utility.sum for query in every),
            stale_s=self._by_weight([query.staleness.stale_s for query in every]),
            due=sum(query.tardiness.answers for query in every),
            tardy_s=sum(query.tardiness.sum_s for query in every),
        )

    def utility(self) -> dict[str, float]:
        """Return the mean utility of all answers, and the mean of the queries' mean utilities (the figure of Aurora)."""
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
        """Return the maximum staleness of a query, and the mean staleness of all queries, weighted by the queries' weights."""
        shares = [query.staleness.share(now) for query in self.queries.values()]
        return {"mean": self._by_weight(shares), "max": max(shares)}

    def unevenness(self, now: float) -> dict[str, float]:
        """Return how unevenly the answers of queries come: the mean over all queries, and the maximum."""
        values = [query.steadiness.unevenness(now) for query in self.queries.values()]
        return {"mean": mean(values), "max": max(values)}

    def tardiness(self) -> dict[str, float] | None:
        """Return the tardiness of answers that had a deadline; None if no query has deadlines."""
        accounts = [query.tardiness for query in self.queries.values() if query.is_due]
        if not accounts:
            return None
        due = sum(account.answers for account in accounts)
        return {
            "due": due,
            "tardy": sum(account.tardy for account in accounts),
            "mean_ms": 1e3 * sum(account.sum_s for account in accounts) / due if due else 0.0,
            "max_ms": 1e3 * max(account.max_s for account in accounts),
        }

    def by_query(self, now: float) -> dict[str, dict[str, Any]]:
        """Return the figures of each query, by name."""
        figures = {}
        for name, query in self.queries.items():
            count, tardiness = query.utility.count, query.tardiness
            figures[name] = {
                "results": count,
                "mean_ms": 1e3 * query.responses.sum_s / count if count else 0.0,
                "deadline_ms": 1e3 * query.utility.graph.deadline_s,
                "slowdown": query.slowdown / count if count else 0.0,
                "utility": query.utility.mean,
                "missed": query.utility.missed,
                "staleness": query.staleness.share(now),
                "unevenness": query.steadiness.unevenness(now),
                "tardiness": (
                    {"due": tardiness.answers, "tardy": tardiness.tardy, "mean_ms": 1e3 * tardiness.mean_s}
                    if query.is_due
                    else None
                ),
            }
        return figures

    def _by_weight(self, values: Sequence[float]) -> float:
        weights = [query.weight for query in self.queries.values()]
        return mean(values, weights)


class UnsettledAnswers:
    """Answers that are held back until nothing is queued behind the sources, as in a live class."""

    def __init__(
        self, plan: BoxPlan, network: Network, queues: OperatorQueues, answers: SimulatedAnswers
    ) -> None:
        self.waiting: list[tuple[int, list[float]]] = []
        """Held answers by root: the arrival times of the tuples that caused the answers."""
        self._queues, self._answers = queues, answers
        self._query_of = {root: plan.boxes[root].query for root in network.roots}
        self._feeding = cache(lambda root: network.feeding([root]))

    def hand_out(self, stamp: float) -> None:
        """Release all waiting answers. Call this method when nothing is queued behind the sources."""
        for root, out in self.waiting:
            self._answers.add(root, out, stamp)
        self.waiting.clear()

    def hand_out_finished(self, stamp: float) -> None:
        """Release the answers of all queries that have no queued tuples; keep the answers of queries that have queued tuples."""
        if not self.waiting:
            return
        unfinished = {
            query for root, query in self._query_of.items() if self._queues.has_inside(self._feeding(root))
        }
        answers, self.waiting = self.waiting, []
        for root, out in answers:
            if self._query_of[root] in unfinished:
                self.waiting.append((root, out))
            else:
                self._answers.add(root, out, stamp)
