"""Progress of feeds: rows, lag, offsets, errors, and the time of the next try after a failure.

The figures come from the JSON reports that Spark writes about micro-batches. This module does not import Spark.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

State = Literal["starting", "running", "failed", "waiting", "stopped"]
"""State of a feed. `failed`: waits for its next try; `waiting`: Spark's process is being restarted; `stopped`: no process runs the feed."""
# Seconds over which a rate is computed. Several micro-batches normally end in this time.
RATE_S = 5.0
HIDDEN = "…"
# Text before a Python traceback in an error of Spark, and pattern of the traceback's last line, which names the exception.
TRACEBACK = "Traceback (most recent call last):"
EXCEPTION = re.compile(r"^(?:\w+\.)*(\w+: .+)$", re.MULTILINE)
# Pattern of a failed call from Python to Java: one line names the call, and the next line names the Java exception.
JAVA_EXCEPTION = re.compile(r"^An error occurred while calling \S+\n: [\w.$]+: (.+)$", re.MULTILINE)
# Text in the Python traceback of a failed call to Java, and pattern of the Java exceptions that follow the traceback.
# The message of a Java exception may have several lines, without indentation. The lines of the stack are indented.
PY4J = "Py4JJavaError: An error occurred while calling"
JAVA_CAUSE = re.compile(r"^(?:Caused by)?: ([\w.$]+: .+(?:\n(?!Caused by: )\S.*)*)", re.MULTILINE)
# First words of a Spark exception that says only that a task has failed. The next exception in the text names the cause.
SPARK_ITSELF = "org.apache.spark.SparkException: "
JAVA_PACKAGE = re.compile(r"^(?:[a-z][\w$]*\.)+(?=[A-Z][\w$]*: )")
# Patterns of two parts of a Spark exception: the error class before the message, and the SQL state after the message.
ERROR_CLASS = re.compile(r"^\[[A-Z0-9_.]+\] (?=\S)")
SQL_STATE = re.compile(r" SQLSTATE: [0-9A-Z]{5}\b.*$")
# Maximum number of characters that are shown of an error of Spark. Spark's log contains the whole error.
ERROR_LENGTH_MAX = 500


@dataclass(frozen=True, slots=True)
class FeedProgress:
    """Progress of one feed. A stream with its own source counts as a feed with the stream's name."""

    feed: str
    state: State = "starting"
    rows: int = 0
    """Number of rows that Spark has read since the feed was started. Rows that are read again after a failure count again."""
    rows_per_s: float = 0.0
    batch: int | None = None
    """Number of the last completed micro-batch."""
    batch_ms: float | None = None
    lag: float | None = None
    """Number of offsets in the source that are not read yet; None if the source does not report its latest offset."""
    offsets: Sequence[Any] = ()
    """Offset in each source at which the last micro-batch ended, in the format of the source."""
    restarts: int = 0
    last_error: str | None = None
    caught_up_at: float | None = None
    """Latest time at which all rows of the source were known to be published, in seconds since 1970; None if there was no such time."""
    last_error_at: float | None = None
    """Time of the last error, in seconds since 1970."""
    next_try_s: float | None = None
    """Seconds until the query is started again; None if no restart is due."""
    batch_at: float | None = None
    """Time at which the last micro-batch was completed, in seconds since 1970."""
    event_time: float | None = None
    """Latest published event time, in seconds since 1970; None before the first event time, and if Spark's executors publish the rows."""
    run: str | None = None
    """Spark's id of the current run of the query."""


# Seconds without a report after which the feeds of another process count as stopped. A running process reports every few seconds.
SILENT_S = 30.0


@dataclass
class ToldFeeds:
    """Last reported progress of feeds that another process runs. After SILENT_S without a report, the feeds count as stopped."""

    _feeds: Sequence[FeedProgress] = ()
    _at: float = float("-inf")

    def tell(self, feeds: Sequence[FeedProgress], now: float) -> None:
        self._feeds, self._at = tuple(feeds), now

    def is_heard(self, now: float) -> bool:
        """Return True if the other process has reported within the last SILENT_S seconds."""
        return now < self._at + SILENT_S

    def seen(self, now: float) -> Sequence[FeedProgress]:
        if self.is_heard(now):
            return self._feeds
        return [replace(feed, state="stopped", rows_per_s=0.0, next_try_s=None) for feed in self._feeds]


@dataclass
class FeedCounts:
    """Progress of a feed, as far as Spark's reports about micro-batches show it, over all runs of the feed's query."""

    progress: FeedProgress
    run: str | None = None
    """Spark's id of the run of the query that the last report is about."""
    _last: tuple[str, int, str] = ("", -1, "")
    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def hear(self, told: Sequence[Mapping[str, Any]]) -> bool:
        """Count the new reports of a list that begins with the oldest. Return True if one of them is about a completed micro-batch."""
        done = False
        for report in told:
            place = (str(report["runId"]), int(report["batchId"]), str(report["timestamp"]))
            if place[0] == self._last[0] and place[1:] <= self._last[1:]:
                continue
            self._last = place
            self.run = place[0]
            self.progress = replace(self.progress, lag=lag_of(report["sources"]))
            # A report without addBatch is about a trigger that found no rows, so no micro-batch was completed.
            if "addBatch" in report["durationMs"]:
                self.progress = replace(
                    self.progress,
                    rows=self.progress.rows + int(report["numInputRows"]),
                    batch=int(report["batchId"]),
                    batch_ms=float(report["durationMs"]["triggerExecution"]),
                    offsets=[source.get("endOffset") for source in report["sources"]],
                )
                done = True
        return done

    def rate(self, now: float) -> float:
        """Return the number of rows per second over about the last RATE_S seconds."""
        self._seen.append((now, self.progress.rows))
        while len(self._seen) > 2 and self._seen[1][0] <= now - RATE_S:
            self._seen.popleft()
        since, rows = self._seen[0]
        return (self.progress.rows - rows) / (now - since) if now > since else 0.0


def lag_of(sources: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the sum of the lags of all sources that report their latest offset; None if no source reports its latest offset."""
    lags = [behind(source.get("latestOffset"), source.get("endOffset")) for source in sources]
    numbers = [lag for lag in lags if lag is not None]
    return sum(numbers) if numbers else None


def behind(latest: object, done: object) -> float | None:
    """Return how far the offset `done` is behind the offset `latest`; None unless the offsets are numbers, or numbers by partition."""
    if isinstance(latest, bool) or isinstance(done, bool):
        return None
    if isinstance(latest, Mapping) and isinstance(done, Mapping | None):
        parts = [behind(value, None if done is None else done.get(key)) for key, value in latest.items()]
        numbers = [part for part in parts if part is not None]
        return sum(numbers) if numbers else None
    if isinstance(latest, int | float) and isinstance(done, int | float | None):
        return max(0.0, float(latest) - float(done or 0))
    return None


def problems_of(feeds: Iterable[FeedProgress]) -> list[str]:
    """Return one line for each feed that does not run because of a problem."""
    ill = (feed for feed in feeds if feed.state in ("failed", "waiting", "stopped"))
    return [f"feed {feed.feed} does not run: {feed.last_error or 'no process runs it'}" for feed in ill]


def hidden(text: str, secrets: Sequence[str]) -> str:
    """Return the text with `…` in place of each secret."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def brief(text: str, secrets: Sequence[str]) -> str:
    """Return one line of an error, for a table: the line that names the exception of a traceback, or else the first line."""
    text = hidden(text, secrets)
    lines = [line.strip() for line in (raised_in(text) or text).splitlines() if line.strip()]
    line = SQL_STATE.sub("", ERROR_CLASS.sub("", lines[0])).rstrip(".") if lines else "no reason given"
    line = JAVA_PACKAGE.sub("", line)
    return line if len(line) <= ERROR_LENGTH_MAX else line[: ERROR_LENGTH_MAX - 1] + HIDDEN


def raised_in(text: str) -> str | None:
    """Return the cause of a Spark error, or None without a known cause.

    The cause is the Java exception that follows the last Python traceback, or else the exception that the traceback names.
    """
    traceback = text.rpartition(TRACEBACK)[2] if TRACEBACK in text else ""
    if PY4J in traceback and (causes := JAVA_CAUSE.findall(traceback)):
        cause = next((cause for cause in causes if not cause.startswith(SPARK_ITSELF)), causes[-1])
        return " ".join(cause.split())
    raised = EXCEPTION.search(traceback) or JAVA_EXCEPTION.search(text)
    return None if raised is None else raised[1]
