"""Rows that are lost although every process runs: rejected by a gateway, or failed in an operator of a query.

| rows | counted by | reported as a problem |
|---|---|---|
| rejected: no event time, or a value that does not fit its column | the gateway, by stream | more than half of a stream's rows in the last minute of input |
| failed in an expression, or found no room in the query's state | operators, by query | more than 1% of a query's rows in the last minute of input |

The ledger shows neither kind of row as lost: rejected rows reach no class, and failed rows count as delivered.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from scheduler.ratios import ratio

if TYPE_CHECKING:
    # `actors` is imported only to check types, so that tables of the command line do not wait for the import.
    from actors.messages.unit_messages import Failure

# A stream or query that loses more than this fraction of its rows is reported to lose most of its rows.
MOSTLY = 0.5
# Largest part of a query's rows that may fail without being reported as a problem.
FAILED_LEAST = 0.01
# Maximum number of a class's queries that are reported for lost rows.
QUERIES_NAMED = 5
# Maximum number of reasons for rejected rows that are stored per stream.
REASONS_MAX = 10
WINDOW_S = 60.0


@dataclass(frozen=True, slots=True)
class StreamIntake:
    """Accepted and rejected rows of a stream, summed over the gateways of all nodes."""

    stream: str
    accepted: int = 0
    rejected: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Number of rejected rows by reason, for the REASONS_MAX most frequent reasons."""
    last_reason: str = ""
    """Most frequent reason among the rows that were rejected last."""
    rejected_now: float = 0.0
    """Part of the rows in the last minute of input that was rejected."""

    @property
    def is_mostly_rejected(self) -> bool:
        return self.rejected_now > MOSTLY


@dataclass(slots=True)
class IntakeCounts:
    """Accepted and rejected rows of a stream at one moment."""

    at: float
    accepted: int
    rejected: int


class Intakes:
    """Accepted and rejected rows of each stream, updated every few seconds from the gateways of all nodes.

    While a stream has no input, `rejected_now` stays at the value of its last minute of input.
    """

    def __init__(self) -> None:
        self.by_stream: Mapping[str, StreamIntake] = {}
        """Counts by stream name in lower case."""
        self._noted: dict[str, deque[IntakeCounts]] = {}
        self._is_first = True

    def note(self, now: float, streams: Iterable[Mapping[str, Any]]) -> None:
        """Update the counts from the reports of gateways; the counts of a stream that several gateways report are added."""
        intakes: dict[str, StreamIntake] = {}
        for counts in streams:
            name = counts["stream"]
            before = intakes.get(name.lower(), StreamIntake(name))
            reasons = Counter(before.reasons) + Counter(counts["dead"])
            intakes[name.lower()] = StreamIntake(
                name,
                before.accepted + counts["accepted_rows"],
                before.rejected + sum(counts["dead"].values()),
                reasons,
            )
        self._noted = {key: counts for key, counts in self._noted.items() if key in intakes}
        self.by_stream = {key: self._measured(now, key, intake) for key, intake in intakes.items()}
        self._is_first = False

    def _measured(self, now: float, key: str, intake: StreamIntake) -> StreamIntake:
        """Return `intake` with the last reason for a rejection, and the part of rows that was rejected in the last minute of input."""
        # Rows from before the first poll may be old, so they are ignored. The counts of a stream that is declared later start at 0.
        begun = (
            IntakeCounts(now, intake.accepted, intake.rejected) if self._is_first else IntakeCounts(now, 0, 0)
        )
        noted = self._noted.setdefault(key, deque([begun]))
        last, before = noted[-1], self.by_stream.get(key, StreamIntake(intake.stream))
        if (last.accepted, last.rejected) != (intake.accepted, intake.rejected):
            if intake.accepted < last.accepted or intake.rejected < last.rejected:
                # Counts fall if a gateway is restarted or the stream is declared again. Measuring then starts from the new counts.
                lost = max(0, intake.rejected - last.rejected)
                noted.clear()
                noted.append(IntakeCounts(now, 0, intake.rejected - lost))
            noted.append(IntakeCounts(now, intake.accepted, intake.rejected))
            while len(noted) > 2 and noted[1].at <= now - WINDOW_S:
                noted.popleft()
        first, last = noted[0], noted[-1]
        rejected = last.rejected - first.rejected
        part = ratio(rejected, rejected + last.accepted - first.accepted)
        reasons = dict(islice(sorted(intake.reasons.items(), key=lambda item: -item[1]), REASONS_MAX))
        return replace(intake, reasons=reasons, last_reason=last_reason(before, intake), rejected_now=part)


def last_reason(before: StreamIntake, after: StreamIntake) -> str:
    """Return the most frequent reason for rows rejected since `before`; if there are no such rows, the reason in `before`."""
    gained = {reason: rows - before.reasons.get(reason, 0) for reason, rows in after.reasons.items()}
    reason = max(gained, key=lambda reason: gained[reason], default="")
    return reason if gained and gained[reason] > 0 else before.last_reason


def stream_problems(intakes: Iterable[StreamIntake]) -> Iterator[str]:
    """Yield a line for each stream of which most rows are rejected. Lines have no numbers that change."""
    for intake in intakes:
        if intake.is_mostly_rejected:
            yield (
                f"stream {intake.stream}: most of its rows are rejected ({intake.last_reason});"
                f" see weir describe stream {intake.stream}"
            )


@dataclass(frozen=True, slots=True)
class QueryLoss:
    """Rows of a query that failed in the query's operators, or found no room in the operators' state."""

    query: str
    rows: int
    part: float
    """Largest fraction of an operator's rows that failed in the last minute of input, over the operators of the query."""
    reason: str
    """Reason with the largest part of failed rows."""


def failures_together(units: Iterable[Sequence[Failure]]) -> tuple[Failure, ...]:
    """Return the failures of several units. Equal failures are merged into one, with the sum of the rows and the largest fraction."""
    merged: dict[tuple[str, tuple[str, ...], str], Failure] = {}
    for failure in (failure for failures in units for failure in failures):
        key = failure.operator, failure.queries, failure.reason
        failure_before = merged.get(key)
        if failure_before is not None:
            failure = replace(
                failure, rows=failure_before.rows + failure.rows, part=max(failure_before.part, failure.part)
            )
        merged[key] = failure
    return tuple(sorted(merged.values(), key=lambda failure: (-failure.part, -failure.rows)))


def query_losses(failures: Iterable[Failure]) -> list[QueryLoss]:
    """Return the lost rows of each query; the query that lost the largest part in the last minute is first."""
    of_query: dict[str, list[Failure]] = {}
    for failure in failures:
        for query in failure.queries:
            of_query.setdefault(query, []).append(failure)
    losses = []
    for query, failures_of_query in of_query.items():
        parts: dict[str, float] = {}
        for failure in failures_of_query:
            parts[failure.operator] = parts.get(failure.operator, 0.0) + failure.part
        worst = max(failures_of_query, key=lambda failure: (failure.part, failure.rows))
        rows, part = sum(failure.rows for failure in failures_of_query), min(1.0, max(parts.values()))
        losses.append(QueryLoss(query, rows, part, worst.reason))
    return sorted(losses, key=lambda loss: (-loss.part, -loss.rows, loss.query))


def failing(failures: Iterable[Failure]) -> list[QueryLoss]:
    """Return the losses that are large enough to be reported as problems."""
    return [loss for loss in query_losses(failures) if loss.part > FAILED_LEAST]


def query_problems(tenant: str, failures: Iterable[Failure]) -> Iterator[str]:
    """Yield a line for each query that loses rows, for at most QUERIES_NAMED queries. Lines have no numbers that change."""
    losses = failing(failures)
    for loss in losses[:QUERIES_NAMED]:
        yield f"{tenant}/{loss.query}: rows fail ({loss.reason}); see weir query quality {tenant}"
    if len(losses) > QUERIES_NAMED:
        yield f"{tenant}: rows of more queries fail; see weir query quality {tenant}"
