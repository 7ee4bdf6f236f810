"""Rows of a mirror that wait to be published, and the problems of polling and publishing.

Batches are published one after the other. A batch is sent repeatedly with the same name until the stream accepts the batch. So its
rows are published once.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from actors.runtime.backoff import Backoff
from configs.errors import Away, WeirError
from services.ingest.progress import hidden
from services.results.rows import NoRoom

ROWS_WAITING_MAX = 10_000
BYTES_WAITING_MAX = 64 << 20
# Maximum number of rows and bytes of a published batch. A service accepts 16 MiB, and rows are larger as JSON than as Arrow.
BATCH_ROWS, BATCH_BYTES = 5_000, 4 << 20
WAIT_S = 0.2
PROBLEMS_MAX = 20
OTHERS = "other problems"
TOLD_MAX = 300

# Function that publishes rows as a batch with the given name, and returns the number of refused rows by reason.
Publish = Callable[[pa.Table, str], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Problem:
    """Last problem of a mirror."""

    told: str
    at: float
    """Time of the problem, in seconds since 1970."""


class MirrorProblems:
    """Number of problems by text, with secrets hidden; thread-safe."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = secrets
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._last: Problem | None = None

    def count(self, text: str, times: int, last: str = "") -> None:
        """Count a problem by its `text`. The text `last`, which also names the object, is stored as the last problem."""
        text, last = hidden(text, self._secrets), hidden(last or text, self._secrets)
        with self._lock:
            is_listed = text in self._counts or len(self._counts) < PROBLEMS_MAX
            self._counts[text if is_listed else OTHERS] += times
            self._last = Problem(last, time.time())

    def note_failure(self, problem: Exception) -> str:
        """Store a failure to publish as the last problem, without counting the failure, and return its text."""
        text = in_a_line(problem, self._secrets)
        with self._lock:
            self._last = Problem(f"publishing: {text}", time.time())
        return text

    def counts(self) -> tuple[dict[str, int], Problem | None]:
        """Return the number of occurrences of each problem, most frequent first, and the last problem."""
        with self._lock:
            return dict(self._counts.most_common()), self._last


class RowPublisher:
    """Publisher of a mirror's rows. The method `run` publishes, and is called in a separate thread."""

    def __init__(self, publish: Publish, name: str, problems: MirrorProblems) -> None:
        """Store the function `publish`, which publishes one batch. The names of all batches begin with `name`."""
        self._publish, self._name, self._problems = publish, name, problems
        self._rows: deque[pa.RecordBatch] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self._news = threading.Event()
        self.published = 0
        """Number of rows that the stream has accepted."""
        self.failure = ""
        """Reason why the stream does not accept the next batch; empty without a problem."""

    @property
    def has_room(self) -> bool:
        return len(self._rows) < ROWS_WAITING_MAX and self._bytes < BYTES_WAITING_MAX

    def add(self, row: pa.RecordBatch) -> None:
        with self._lock:
            self._rows.append(row)
            self._bytes += row.nbytes
        self._news.set()

    def wake(self) -> None:
        self._news.set()

    def run(self, over: threading.Event) -> None:
        """Publish rows until `over` is set. Then publish the rows that still wait, and return after the first failure."""
        number, backoff = 0, Backoff(least_s=0.2, most_s=10.0)
        while True:
            self._news.wait(WAIT_S)
            self._news.clear()
            rows = self._next_rows()
            if rows:
                table = pa.Table.from_batches(rows).combine_chunks()
                while not self._is_taken(table, f"{self._name}-{number}", backoff, over):
                    if over.is_set():
                        return
                number += 1
            elif over.is_set():
                return

    def _is_taken(self, table: pa.Table, batch: str, backoff: Backoff, over: threading.Event) -> bool:
        try:
            refused = self._publish(table, batch)
        except Exception as problem:
            # The thread continues after every error, because polling would otherwise pause for ever.
            self.failure = self._problems.note_failure(problem)
            # A service that is away or full may accept the batch soon. Other errors last until a person corrects their cause.
            soon = isinstance(problem, Away | NoRoom) or not isinstance(problem, WeirError)
            over.wait(backoff.failed() if soon else backoff.most_s)
            return False
        self.failure = ""
        backoff.succeeded()
        self.published += table.num_rows - sum(refused.values())
        for reason, rows_refused in refused.items():
            self._problems.count(f"refused by the stream: {reason}", rows_refused)
        return True

    def _next_rows(self) -> list[pa.RecordBatch]:
        """Remove and return the rows of the next batch, as many as one call may publish."""
        rows, size = list[pa.RecordBatch](), 0
        with self._lock:
            while self._rows and len(rows) < BATCH_ROWS:
                size += self._rows[0].nbytes
                if rows and size > BATCH_BYTES:
                    break
                rows.append(self._rows.popleft())
                self._bytes -= rows[-1].nbytes
            if self._rows:
                self._news.set()
        return rows


def in_a_line(problem: Exception, secrets: Sequence[str]) -> str:
    """Return the error and its hint as one line, with secrets hidden."""
    text = str(problem) if isinstance(problem, WeirError) else f"{type(problem).__name__}: {problem}"
    return hidden(text.replace("\n  hint: ", "; "), secrets)[:TOLD_MAX]
