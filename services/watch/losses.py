"""Rows that are lost although every process runs: rejected by a gateway, or failed in an operator of a query.

| rows | counted by | what is a problem |
|---|---|---|
| rejected: no event time, or a value that does not fit its column | the gateway, by stream | more than half of a stream's rows in the last minute of input |
| failed in an expression, or without room for them | operators, by query | more than 1% of the rows that a query takes, in the last minute of input |

Rejected rows reach no class; failed rows are delivered ones in the ledger. So no account shows them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from scheduler.ratios import ratio

if TYPE_CHECKING:
    # Tables of the command line name states, and need not wait for what measures them.
    from actors.messages.unit_messages import Failure

# From this part of a stream's rows, or of a query's, on most are lost.
MOSTLY = 0.5
# A smaller part of a query's rows is no problem.
FAILED_LEAST = 0.01
# Number of a class's queries that problems name.
QUERIES_NAMED = 5
# Number of reasons that are kept of a stream.
REASONS_MAX = 10
WINDOW_S = 60.0


# -- streams ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StreamIntake:
    """Rows of a stream at the gateways of all nodes."""

    stream: str
    accepted: int = 0
    rejected: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Rejected rows by reason, the most frequent REASONS_MAX."""
    last_reason: str = ""
    """Reason of the largest part of the rows that were rejected last."""
    rejected_now: float = 0.0
    """Part of the rows in the last minute of input."""

    @property
    def is_mostly_rejected(self) -> bool:
        return self.rejected_now > MOSTLY


@dataclass(slots=True)
class IntakeCounts:
    """Counts of a stream at one moment."""

    at: float
    accepted: int
    rejected: int


class Intakes:
    """The rows of each stream, shown the gateways of all nodes every few seconds.

    A stream without input keeps the part that was rejected of its last minute of input.
    """

    def __init__(self) -> None:
        self.by_stream: Mapping[str, StreamIntake] = {}
        """By name in small letters."""
        self._noted: dict[str, deque[IntakeCounts]] = {}
        self._is_first = True

    def note(self, now: float, streams: Iterable[Mapping[str, Any]]) -> None:
        """Take in what gateways report of their streams; the same stream may be at several."""
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
        """Return an intake with its last reason, and with what was rejected of the last minute of input."""
        # What came before the first look may be a long time ago; a stream that is declared later begins with nothing.
        begun = (
            IntakeCounts(now, intake.accepted, intake.rejected) if self._is_first else IntakeCounts(now, 0, 0)
        )
        noted = self._noted.setdefault(key, deque([begun]))
        last, before = noted[-1], self.by_stream.get(key, StreamIntake(intake.stream))
        if (last.accepted, last.rejected) != (intake.accepted, intake.rejected):
            if intake.accepted < last.accepted or intake.rejected < last.rejected:
                # A gateway has been started again, or the stream was declared again.
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
    """Return the reason for which most rows were rejected since `before`; the last known one if none were."""
    gained = {reason: rows - before.reasons.get(reason, 0) for reason, rows in after.reasons.items()}
    reason = max(gained, key=lambda reason: gained[reason], default="")
    return reason if gained and gained[reason] > 0 else before.last_reason


def stream_problems(intakes: Iterable[StreamIntake]) -> Iterator[str]:
    """Yield a line for each stream of which most rows are rejected, without figures that move."""
    for intake in intakes:
        if intake.is_mostly_rejected:
            yield (
                f"stream {intake.stream}: most of its rows are rejected ({intake.last_reason});"
                f" see weir describe stream {intake.stream}"
            )


# -- queries ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueryLoss:
    """Rows that failed in the operators of a query, or found no room there."""

    query: str
    rows: int
    part: float
    """Largest part of the rows that one of its operators took in the last minute of input."""
    reason: str
    """Reason of most of them."""


def failures_together(units: Iterable[Sequence[Failure]]) -> tuple[Failure, ...]:
    """Return the failures of several units: of those that agree in all but counts, the sum of rows and the largest part."""
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
    """Return what each query has lost, the largest part of the last minute first."""
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
    """Return the losses that are a problem."""
    return [loss for loss in query_losses(failures) if loss.part > FAILED_LEAST]


def query_problems(tenant: str, failures: Iterable[Failure]) -> Iterator[str]:
    """Yield a line for each of the first queries of a class that lose rows, without figures that move."""
    losses = failing(failures)
    for loss in losses[:QUERIES_NAMED]:
        yield f"{tenant}/{loss.query}: rows fail ({loss.reason}); see weir query quality {tenant}"
    if len(losses) > QUERIES_NAMED:
        yield f"{tenant}: rows of more queries fail; see weir query quality {tenant}"
