"""States that a class can be in, and reasons for them. Tables, the console, the API, metrics and alerts use these states.

A class is in the first state of this table with a true condition.

| state | condition |
|---|---|
| given up | A unit of the class cannot be started, and is not tried again until the declaration changes. |
| failing | A stream cannot be read, or answers cannot be written. |
| no queries | No query of the class runs now. |
| starting | No unit of the class has reported yet. |
| idle | The class has no input and sleeps. |
| starved | Tuples wait, no answer has come in the last seconds, and the queue hardly shrinks. |
| late | Most rows of a stream come behind its watermark. |
| losing rows | Most rows of a query fail in the query's operators, or find no room in the query's state. |
| held back | A queue of the class is full, so its input waits in the stream's log, or producers wait because that log is full. |
| over target | Answers take longer than the delay target, or the oldest waiting tuple is older than the target. |
| shedding | A part of the input is dropped, and answers are in time. |
| within target | Answers are in time and no input is dropped. |
| running | The class has input, but no answers in the last seconds. |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from configs.numbers import duration
from services.watch.losses import MOSTLY, QueryLoss, query_losses

if TYPE_CHECKING:
    # `actors` is imported only to check types, so that tables of the command line do not wait for the import.
    from actors.messages.unit_messages import Failure, Figures
    from configs.classes.live_class import LiveClass

# Length of time in seconds over which recent figures are measured, as in `actors.host.recent_latency`.
RECENT_S = 5.0
# Smallest fraction of the input that a reason mentions.
LEAST = 0.005
# A class without answers counts as starved if emptying its queue at the present rate would take more than this number of seconds.
WORKED_OFF_S = 60.0


class ClassState(StrEnum):
    """States of a class."""

    GIVEN_UP = "given up"
    NO_QUERIES = "no queries"
    STARTING = "starting"
    FAILING = "failing"
    STARVED = "starved"
    LATE = "late"
    LOSING = "losing rows"
    HELD_BACK = "held back"
    OVER_TARGET = "over target"
    SHEDDING = "shedding"
    WITHIN_TARGET = "within target"
    RUNNING = "running"
    IDLE = "idle"


# States of a class that needs attention.
TROUBLED = frozenset({ClassState.GIVEN_UP, ClassState.FAILING, ClassState.STARVED})
# States in which answers come late or not at all, or rows are lost.
WARNED = frozenset(
    {ClassState.LATE, ClassState.LOSING, ClassState.HELD_BACK, ClassState.OVER_TARGET, ClassState.SHEDDING}
)


@dataclass(frozen=True, slots=True)
class Condition:
    """State of a class, with a text that gives the reason."""

    state: ClassState
    reason: str


# Advice for problems of units, most serious first.
REMEDIES = {
    ClassState.GIVEN_UP: "it is started again when its tenant, queries or streams are changed, or the system is restarted",
    ClassState.FAILING: "it resumes by itself once the cause is gone",
}
NOT_REPORTED = Condition(ClassState.STARTING, "it is being started and has not reported yet")


def condition_of(
    settings: LiveClass,
    figures: Figures,
    *,
    units: int,
    asleep: bool,
    share: float = 0.0,
    troubles: Sequence[tuple[str, str]] = (),
    failures: Sequence[Failure] = (),
) -> Condition:
    """Return the state of a class from its figures; `troubles` has the kind and the text of each unit's problem."""
    for state, remedy in REMEDIES.items():
        texts = [text for trouble, text in troubles if trouble == state]
        if texts:
            more = f" (and {len(texts) - 1} more shards)" if len(texts) > 1 else ""
            return Condition(state, f"{texts[0]}{more}; {remedy}")
    if not settings.queries and (asleep or not units):
        return Condition(ClassState.NO_QUERIES, "it has no queries that run now")
    if not units:
        return NOT_REPORTED
    if asleep:
        return Condition(ClassState.IDLE, "it has no input")
    return working(settings, figures, share, failures)


def working(
    settings: LiveClass, figures: Figures, share: float, failures: Sequence[Failure] = ()
) -> Condition:
    """Return the state of a class that has input."""
    target_s, age_s = settings.delay_target_ms / 1e3, figures.queue_age_s
    waits = f"{figures.queued:,} tuples wait, the oldest for {duration(1e3 * age_s)}"
    answers = figures.results_per_s > 0
    if is_starved(settings, figures):
        return Condition(
            ClassState.STARVED,
            f"{waits}, no answer has come in the last {RECENT_S:g} s, and it has {share:.0%} of the lanes",
        )
    stream, late = max(figures.late_now.items(), key=lambda share: share[1], default=("", 0.0))
    if late >= MOSTLY:
        return Condition(
            ClassState.LATE, f"{late:.0%} of the rows of stream {stream} come behind its watermark"
        )
    losses = query_losses(failures)
    if losses and losses[0].part >= MOSTLY:
        return Condition(ClassState.LOSING, in_query(losses[0]))
    if figures.held_back:
        advice = unbounded(settings, figures)
        reason = f"its queue is full, so input waits in the stream's log, and producers wait when the log is full: {waits}{advice}"
        return Condition(ClassState.HELD_BACK, reason)
    if answers and figures.p95_ms > settings.delay_target_ms:
        took = f"95% of its answers come within {duration(figures.p95_ms)}, its target is {duration(settings.delay_target_ms)}"
        return Condition(ClassState.OVER_TARGET, took + unbounded(settings, figures))
    if age_s > target_s:
        reason = f"{waits}, its target is {duration(settings.delay_target_ms)}{unbounded(settings, figures)}"
        return Condition(ClassState.OVER_TARGET, reason)
    # Shedding may start and stop within a second, so the state depends on the mean shedding of the last seconds, if known.
    dropped = 0.0 if settings.lossless else figures.shed_now or 1 - figures.keep
    if dropped >= LEAST:
        when = f"was dropped in the last {RECENT_S:g} s" if figures.shed_now else "is dropped"
        return Condition(ClassState.SHEDDING, f"{dropped:.0%} of its input {when}")
    if answers:
        took = f"95% of its answers come within {duration(figures.p95_ms)}"
        return Condition(ClassState.WITHIN_TARGET, took)
    return Condition(ClassState.RUNNING, f"no answer has come in the last {RECENT_S:g} s")


def in_query(loss: QueryLoss) -> str:
    """Return a text that says which part of a query's rows fails, and why."""
    return f"{loss.part:.0%} of the rows of query {loss.query} fail: {loss.reason}"


def unbounded(settings: LiveClass, figures: Figures) -> str:
    """Return advice if a class with an old queue already drops as much as is allowed; otherwise return an empty text."""
    at_most = figures.keep <= 1 - settings.max_drop + LEAST
    if settings.lossless or settings.max_age_ms is not None or not at_most:
        return ""
    return f"; it may drop no more than {settings.max_drop:.0%}: raise max_drop, or bound the age with max_age_ms"


def is_starved(settings: LiveClass, figures: Figures) -> bool:
    """Return True if the oldest waiting tuple is old, there are no answers, and the queue hardly shrinks."""
    waited_s = max(settings.delay_target_ms / 1e3, RECENT_S)
    stands = figures.queued > WORKED_OFF_S * figures.taken_per_s
    return figures.results_per_s == 0 and figures.queue_age_s > waited_s and stands
