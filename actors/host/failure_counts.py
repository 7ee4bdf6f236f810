"""Counts of rows that fail in operators, or are refused there for lack of room: in total, and as a part of the input of the last minute.

Operators count such rows by reason; the counts are read every PIECE_S seconds. The rows have passed the door, so the ledger
counts them as delivered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from actors.host.recent_latency import LATE_PIECE_S as PIECE_S
from actors.host.recent_latency import LATE_S as WINDOW_S
from actors.messages.unit_messages import FAILURE_QUERIES_MAX, FAILURES_MAX, Failure
from engine.class_.runner import ClassRunner
from engine.network.row_losses import FailingOperator, failing_operators
from scheduler.ratios import ratio

Counts = tuple[int, Mapping[str, int]]
"""Number of tuples that an operator has taken, and number of failed tuples by reason."""
NOTHING: Counts = (0, {})


class FailureCounts:
    """Failures in the operators of one unit. `end_cycle` reads the counts at the end of each load cycle."""

    def __init__(self) -> None:
        self._failures: tuple[Failure, ...] = ()
        self._noted: deque[tuple[float, dict[int, Counts]]] = deque()
        self._taken: Mapping[int, int] = {}
        """Number of tuples that each operator had taken at the last reading."""

    def end_cycle(self, now: float, runner: ClassRunner, is_last: bool = False) -> tuple[Failure, ...]:
        """Return the failures with the largest parts of failed rows. Read the counts if `is_last` is True, or every PIECE_S seconds."""
        if self._noted and not is_last and now - self._noted[-1][0] < PIECE_S:
            return self._failures
        operators = failing_operators(runner.scheduled.taken())
        if self._noted:
            before = self._noted[-1][1]
            for operator in operators:
                # The part of failed tuples is computed without the tuples that the operator took before its first failure.
                before.setdefault(operator.node, (self._taken.get(operator.node, 0), {}))
        self._noted.append(
            (now, {operator.node: (operator.taken, operator.reasons) for operator in operators})
        )
        while len(self._noted) > 1 and self._noted[1][0] <= now - WINDOW_S:
            self._noted.popleft()
        found = [failure for operator in operators for failure in self._failures_of(operator)]
        found.sort(key=lambda failure: (-failure.part, -failure.rows, failure.operator, failure.reason))
        self._failures = tuple(found[:FAILURES_MAX])
        self._taken = {id(node): taken for node, taken in runner.scheduled.taken()}
        return self._failures

    def _failures_of(self, operator: FailingOperator) -> Iterator[Failure]:
        """Yield a Failure for each reason for which rows have failed in the operator."""
        # The oldest counts of the operator in the last WINDOW_S seconds.
        taken, reasons = next(
            (counts[operator.node] for _, counts in self._noted if operator.node in counts), NOTHING
        )
        # Counts that have become smaller belong to a new operator with the same id.
        if taken > operator.taken or any(
            operator.reasons.get(reason, 0) < rows for reason, rows in reasons.items()
        ):
            taken, reasons = NOTHING
        for reason, rows in operator.reasons.items():
            lost = rows - reasons.get(reason, 0)
            queries = operator.queries[:FAILURE_QUERIES_MAX]
            more = len(operator.queries) - len(queries)
            # One tuple of a join may fail several times: once in each of its pairs.
            part = min(1.0, ratio(lost, max(lost, operator.taken - taken)))
            yield Failure(
                operator=operator.name,
                queries=queries,
                reason=reason,
                rows=rows,
                part=part,
                more_queries=more,
            )
