"""How far each feed of an ingest has come, and when a query that has failed is tried again.

Nothing here knows Spark but the shape of what it tells of a micro-batch.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

State = Literal["starting", "running", "failed", "waiting", "stopped"]
"""`failed`: waits for its next try; `waiting`: Spark's process is started again; `stopped`: no process brings the feed."""
# A rate is over so long: a few micro-batches, and a few looks of whoever watches.
RATE_S = 5.0
HIDDEN = "…"
# An exception of Python's comes to Spark with how it came about; its own line begins at the margin, with its module.
TRACEBACK = "Traceback (most recent call last):"
EXCEPTION = re.compile(r"^(?:\w+\.)*(\w+: .+)$", re.MULTILINE)
# An exception of Java's comes after a line that names the call.
JAVA_EXCEPTION = re.compile(r"^An error occurred while calling \S+\n: [\w.$]+: (.+)$", re.MULTILINE)
# Spark writes its own names for an error around the sentence that says what is wrong.
ERROR_CLASS = re.compile(r"^\[[A-Z0-9_.]+\] (?=\S)")
SQL_STATE = re.compile(r" SQLSTATE: [0-9A-Z]{5}\b.*$")
# Of what Spark says when a query fails; the rest is in its log.
ERROR_LENGTH_MAX = 500


@dataclass(frozen=True, slots=True)
class FeedProgress:
    """One feed at this moment; a stream with a source of its own is a feed of its name."""

    feed: str
    state: State = "starting"
    rows: int = 0
    """Read by Spark since the start; after a failure the same rows may have been read again."""
    rows_per_s: float = 0.0
    batch: int | None = None
    """The last that is done."""
    batch_ms: float | None = None
    lag: float | None = None
    """Offsets that the source has and that are not done; None where it does not tell."""
    offsets: Sequence[Any] = ()
    """Of each source, how far the last batch has come, as the source writes it."""
    restarts: int = 0
    last_error: str | None = None
    caught_up_at: float | None = None
    """When the source was seen last to have nothing that is not published, in seconds since 1970; None if never."""
    last_error_at: float | None = None
    """Seconds since 1970, as are the other moments."""
    next_try_s: float | None = None
    """Seconds until the query is started again; None if that is not waited for."""
    batch_at: float | None = None
    """When the last micro-batch was done."""
    event_time: float | None = None
    """The latest event time that was published; None without one, and where executors publish."""
    run: str | None = None
    """Spark's id of this run of the query."""


# Who brings feeds elsewhere tells of them every few seconds.
SILENT_S = 30.0


@dataclass
class ToldFeeds:
    """How feeds fare that another process brings, as it told last; who is silent for long does not run."""

    _feeds: Sequence[FeedProgress] = ()
    _at: float = float("-inf")

    def tell(self, feeds: Sequence[FeedProgress], now: float) -> None:
        self._feeds, self._at = tuple(feeds), now

    def is_heard(self, now: float) -> bool:
        """Return True if the process has reported lately."""
        return now < self._at + SILENT_S

    def seen(self, now: float) -> Sequence[FeedProgress]:
        if self.is_heard(now):
            return self._feeds
        return [replace(feed, state="stopped", rows_per_s=0.0, next_try_s=None) for feed in self._feeds]


@dataclass
class FeedCounts:
    """What the micro-batches of a feed have told, over all runs of its query."""

    rows: int = 0
    batch: int | None = None
    batch_ms: float | None = None
    lag: float | None = None
    offsets: Sequence[Any] = ()
    run: str | None = None
    """The run of the query that was heard of last."""
    _last: tuple[str, int, str] = ("", -1, "")
    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def hear(self, told: Sequence[Mapping[str, Any]]) -> bool:
        """Reports of a query, oldest first, of which some may be known; whether a batch was done."""
        done = False
        for report in told:
            place = (str(report["runId"]), int(report["batchId"]), str(report["timestamp"]))
            if place[0] == self._last[0] and place[1:] <= self._last[1:]:
                continue
            self._last = place
            self.run = place[0]
            self.lag = lag_of(report["sources"])
            # Of a trigger that found nothing to do Spark reports the time that it looked.
            if "addBatch" in report["durationMs"]:
                self.rows += int(report["numInputRows"])
                self.batch, self.batch_ms = (
                    int(report["batchId"]),
                    float(report["durationMs"]["triggerExecution"]),
                )
                self.offsets = [source.get("endOffset") for source in report["sources"]]
                done = True
        return done

    def rate(self, now: float) -> float:
        """Rows a second lately."""
        self._seen.append((now, self.rows))
        while len(self._seen) > 2 and self._seen[1][0] <= now - RATE_S:
            self._seen.popleft()
        since, rows = self._seen[0]
        return (self.rows - rows) / (now - since) if now > since else 0.0


def lag_of(sources: Sequence[Mapping[str, Any]]) -> float | None:
    """Of all sources of a query that tell how far they could be read."""
    lags = [behind(source.get("latestOffset"), source.get("endOffset")) for source in sources]
    numbers = [lag for lag in lags if lag is not None]
    return sum(numbers) if numbers else None


def behind(latest: object, done: object) -> float | None:
    """The difference of two offsets: numbers, or numbers by topic and partition."""
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
    """A line for each feed that does not run because something is wrong."""
    ill = (feed for feed in feeds if feed.state in ("failed", "waiting", "stopped"))
    return [f"feed {feed.feed} does not run: {feed.last_error or 'no process runs it'}" for feed in ill]


def hidden(text: str, secrets: Sequence[str]) -> str:
    """The text without what nobody is to read."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def brief(text: str, secrets: Sequence[str]) -> str:
    """The line that says why, for a table: of a traceback the exception, else the first."""
    text = hidden(text, secrets)
    raised = EXCEPTION.search(text.rpartition(TRACEBACK)[2]) if TRACEBACK in text else None
    raised = raised or JAVA_EXCEPTION.search(text)
    lines = [raised[1]] if raised else [line.strip() for line in text.splitlines() if line.strip()]
    line = SQL_STATE.sub("", ERROR_CLASS.sub("", lines[0])).rstrip(".") if lines else "no reason given"
    return line if len(line) <= ERROR_LENGTH_MAX else line[: ERROR_LENGTH_MAX - 1] + HIDDEN
