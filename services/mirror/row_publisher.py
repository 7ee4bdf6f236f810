"""Rows of a mirror that wait for its stream, and the problems that polling and publishing have met.

Batches are published one after the other, each under one name until it is taken, so that its rows are there once.
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
# Of what is published at once; a service takes 16 MiB, and rows as JSON are larger than as Arrow.
BATCH_ROWS, BATCH_BYTES = 5_000, 4 << 20
WAIT_S = 0.2
PROBLEMS_MAX = 20
OTHERS = "other problems"
TOLD_MAX = 300

# Rows and the name of their batch; how many were not taken, by reason.
Publish = Callable[[pa.Table, str], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Problem:
    """The last one."""

    told: str
    at: float
    """Seconds since 1970."""


class MirrorProblems:
    """Counts by text, in which secrets are hidden; from any thread."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = secrets
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._last: Problem | None = None

    def count(self, text: str, times: int, last: str = "") -> None:
        """Count a problem by its kind; the last one is kept with the name of its object."""
        text, last = hidden(text, self._secrets), hidden(last or text, self._secrets)
        with self._lock:
            is_listed = text in self._counts or len(self._counts) < PROBLEMS_MAX
            self._counts[text if is_listed else OTHERS] += times
            self._last = Problem(last, time.time())

    def note_failure(self, problem: Exception) -> str:
        """Make it the last problem without counting it, and return its text."""
        text = in_a_line(problem, self._secrets)
        with self._lock:
            self._last = Problem(f"publishing: {text}", time.time())
        return text

    def counts(self) -> tuple[dict[str, int], Problem | None]:
        """Return how often each was met, the most frequent first, and the last one."""
        with self._lock:
            return dict(self._counts.most_common()), self._last


class RowPublisher:
    """`run` in a thread of its own."""

    def __init__(self, publish: Publish, name: str, problems: MirrorProblems) -> None:
        """`name` goes into the names of batches."""
        self._publish, self._name, self._problems = publish, name, problems
        self._rows: deque[pa.RecordBatch] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self._news = threading.Event()
        self.published = 0
        """Rows that the stream has taken."""
        self.failure = ""
        """Why the next batch is not taken."""

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
        """Until it is over and nothing waits, or what waits is not taken."""
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
        except Exception as problem:  # a publisher that ends would let polling pause for ever
            self.failure = self._problems.note_failure(problem)
            # A service that is away or has no room may take it soon; a refused row only after a person has mended something.
            soon = isinstance(problem, Away | NoRoom) or not isinstance(problem, WeirError)
            over.wait(backoff.failed() if soon else backoff.most_s)
            return False
        self.failure = ""
        backoff.succeeded()
        self.published += table.num_rows - sum(refused.values())
        for reason, rows_refused in refused.items():
            self._problems.count(f"not taken by the stream: {reason}", rows_refused)
        return True

    def _next_rows(self) -> list[pa.RecordBatch]:
        """Those that are published together: as many as one call takes."""
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
    """Return an error as one line, with its subject and the remedy."""
    text = str(problem) if isinstance(problem, WeirError) else f"{type(problem).__name__}: {problem}"
    return hidden(text.replace("\n  hint: ", "; "), secrets)[:TOLD_MAX]
