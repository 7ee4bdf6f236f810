"""Quality of a simulated class's answers: response times, slowdown, utility, staleness and tardiness.

Response times of the whole class have percentiles (`loadshed.responses`). Of a query there are means and counts, under the names
that the live system has for them (`services.watch.quality`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from configs.classes.utility import UtilityGraph
from loadshed.cycle import OutputCycle
from loadshed.responses import ResponseStatistics
from loadshed.staleness import OutputStaleness
from loadshed.tardiness import AnswerTardiness
from loadshed.utility import UtilityStatistics
from scheduler.operators.network import Estimate, Network
from scheduler.ratios import mean
from sim.run.networks import BoxPlan
from sim.run.operator_models import since
from sim.run.operator_queues import OperatorQueues


@dataclass(frozen=True, slots=True)
class AnswerTotals:
    """Utility, staleness and tardiness of all answers so far."""

    answers: int
    utility: float
    """Of all together."""
    stale_s: float
    """For how long outputs have been stale, on the mean by the weights of their queries."""
    due: int
    """Answers that had a deadline."""
    tardy_s: float
    """How long after it they came, all of them together."""

    def since(self, before: AnswerTotals) -> AnswerTotals:
        """Return the totals of the answers since earlier totals."""
        return AnswerTotals(
            answers=self.answers - before.answers,
            utility=self.utility - before.utility,
            stale_s=self.stale_s - before.stale_s,
            due=self.due - before.due,
            tardy_s=self.tardy_s - before.tardy_s,
        )


@dataclass
class QueryAnswers:
    """Of one query, however many roots it has."""

    utility: UtilityStatistics
    weight: float
    is_due: bool
    """Whether its answers have deadlines."""
    staleness: OutputStaleness = field(default_factory=lambda: OutputStaleness(0.0))
    tardiness: AnswerTardiness = field(default_factory=AnswerTardiness)
    response_s: float = 0.0
    """Of all answers together, as is `slowdown`."""
    slowdown: float = 0.0


class SimulatedAnswers:
    """Answers of one class, as they leave it."""

    def __init__(
        self, plan: BoxPlan, network: Network, alone: Sequence[Estimate], graph: UtilityGraph, target_s: float
    ) -> None:
        """`alone` are costs of a tuple that nothing waits for; `graph` is that of roots without one of their own."""
        self.responses = ResponseStatistics(target_s)
        self.queries: dict[str, QueryAnswers] = {}
        self._sample: ResponseStatistics | None = None
        self._graph = graph
        self._slack_s = {root: network.operators[root].slack_s for root in network.roots}
        self._query_of = {root: plan.boxes[root].query for root in network.roots}
        for root, query in self._query_of.items():
            operator = network.operators[root]
            self.queries[query] = QueryAnswers(
                UtilityStatistics(operator.utility or graph), operator.weight, operator.slack_s is not None
            )
        ideal = network.ideal_costs(alone)
        self._ideal_s = {root: ideal.get(root, 0.0) for root in network.roots}
        joins = [number for number, box in enumerate(plan.boxes) if box.partner is not None]
        self._of_pairs = set().union(*(network.fed_by(number) for number in joins))
        self._cycle_s = dict.fromkeys(network.roots, 0.0)
        self._cycle_results = dict.fromkeys(network.roots, 0)

    def add(self, root: int, out: Sequence[float], stamp: float) -> None:
        """Count answers that leave at `stamp`; `out` is when what caused each of them arrived."""
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
        query.response_s += sum(times)
        query.slowdown += slowed
        query.utility.add(times)
        if slack_s is not None:
            query.tardiness.add_array(np.array(times), slack_s)
        query.staleness.served(out, stamp)

    @staticmethod
    def _respond(
        responses: ResponseStatistics, times: list[float], ideal_s: float, slowdowns: list[float] | None
    ) -> None:
        if slowdowns is None:
            responses.add(times, ideal_s)
        else:
            responses.add_slowed(times, slowdowns)

    def restart_responses(self) -> None:
        """Forget the response times so far, for instance those of a warm-up."""
        self.responses = ResponseStatistics(self.responses.target_s)

    def new_sample(self) -> ResponseStatistics:
        """Return response times of the answers from now on, until the next sample."""
        self._sample = ResponseStatistics(self.responses.target_s)
        return self._sample

    def end_cycle(self, root: int, waiting_s: float) -> OutputCycle:
        """A root's answers in the load cycle that ends; the next one begins."""
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
        """Figures of each query, by its name."""
        figures = {}
        for name, query in self.queries.items():
            count, tardiness = query.utility.count, query.tardiness
            figures[name] = {
                "results": count,
                "mean_ms": 1e3 * query.response_s / count if count else 0.0,
                "deadline_ms": 1e3 * query.utility.graph.deadline_s,
                "slowdown": query.slowdown / count if count else 0.0,
                "utility": query.utility.mean,
                "missed": query.utility.missed,
                "staleness": query.staleness.share(now),
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
    """Answers that wait until nothing is queued behind the sources, as those of a live class do."""

    def __init__(
        self, plan: BoxPlan, network: Network, queues: OperatorQueues, answers: SimulatedAnswers
    ) -> None:
        self.waiting: list[tuple[int, list[float]]] = []
        """Roots, and when what caused their answers arrived."""
        self._network, self._queues, self._answers = network, queues, answers
        self._query_of = {root: plan.boxes[root].query for root in network.roots}
        self._feeding: dict[int, set[int]] = {}

    def hand_out(self, stamp: float) -> None:
        """Nothing is queued behind the sources: hand out all answers."""
        for root, out in self.waiting:
            self._answers.add(root, out, stamp)
        self.waiting.clear()

    def hand_out_finished(self, stamp: float) -> None:
        """Amid the work on a train, hand out the answers of queries that have nothing left inside."""
        if not self.waiting:
            return
        unfinished = {
            query for root, query in self._query_of.items() if self._queues.has_inside(self._above(root))
        }
        answers, self.waiting = self.waiting, []
        for root, out in answers:
            if self._query_of[root] in unfinished:
                self.waiting.append((root, out))
            else:
                self._answers.add(root, out, stamp)

    def _above(self, root: int) -> set[int]:
        """The root and all that feeds it."""
        operators = self._feeding.get(root)
        if operators is None:
            operators = self._feeding[root] = self._network.feeding([root])
        return operators
