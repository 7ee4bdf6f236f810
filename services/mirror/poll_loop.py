"""A mirror at work: threads look at objects, one loop tells them which, and what has changed goes on as a stream.

    decide `MirrorCore.due` ──► threads: fetch ──► `polled` ──► rows ──► published, in order, until they are taken

Numbered properties:
1. No more than `WORKERS` objects are looked at at a time, and no more than `ROWS_WAITING_MAX` changes or `BYTES_WAITING_MAX` wait
   to be published: when nobody takes them, polling pauses, and nothing that was seen is lost.
2. An object that cannot be fetched, or is not what the columns say, is counted with its problem; the others go on.
3. `stop` ends it: what is being looked at is left, what has been seen is published if that takes no longer than `LAST_S`.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

import pyarrow as pa

from actors.runtime.backoff import Backoff
from configs.errors import Away, WeirError, shown
from engine.sql.create_mirror import CHANGED_AT, SEEN_AT, Mirror
from scheduler.mirrors.change_rates import Interests
from scheduler.mirrors.poller import MirrorCore, MirrorStatistics, Outcome
from services.ingest.progress import hidden
from services.mirror.mirror_definition import checked_keys, profile_of
from services.mirror.objects import Fetched, ObjectProblem, Objects
from services.results.row_parsing import DOES_NOT_FIT, Brought, of_objects
from services.results.rows import NoRoom

WORKERS = 16
ROWS_WAITING_MAX = 10_000
BYTES_WAITING_MAX = 64 << 20
# Of what is published at once; a service takes 16 MiB, and rows as JSON are larger than as Arrow.
BATCH_ROWS, BATCH_BYTES = 5_000, 4 << 20
LOOK_S = 0.2
LAST_S = 5.0
TELL_S = 0.5  # statistics look at every object
# Uses of an object count half after an hour.
HALF_LIFE_S = 3600.0
PROBLEMS_MAX = 20
OTHERS = "other problems"
TOLD_MAX = 300
USES_WAITING_MAX = 100_000
# A rate is over so long.
RATE_S = 10.0
State = Literal["starting", "running", "waiting"]
Unit = Literal["polls", "bytes"]
NOTHING = MirrorStatistics(
    objects=0,
    held=0,
    polls=0,
    changes=0,
    failures=0,
    failing=0,
    spent=0.0,
    solved=0,
    uses=0.0,
    perceived_expected=0.0,
    perceived_measured=None,
)

# Rows and the name of their batch; how many were not taken, by reason.
Publish = Callable[[pa.Table, str], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Looked:
    """What a thread has found."""

    one: int
    asked_at: float
    outcome: Outcome
    size: float
    batch: pa.RecordBatch | None = None
    problem: str = ""
    detail: str = ""


class Polling:
    """One mirror; `run` in a thread of its own."""

    def __init__(
        self, mirror: Mirror, objects: Objects, publish: Publish, name: str, secrets: Sequence[str] = ()
    ) -> None:
        """`name` goes into the names of batches: of two runs they must differ; `secrets` are in no problem that is told.

        InvalidInput if the keys are impossible.
        """
        self._secrets = secrets
        self.mirror, self._objects, self._publish, self._name = mirror, objects, publish, name
        self.keys = checked_keys(mirror, objects.keys())
        self._numbers = {key: number for number, key in enumerate(self.keys)}
        interests = Interests(profile_of(mirror, self.keys), HALF_LIFE_S)
        self._core = MirrorCore(interests, len(self.keys), mirror.bandwidth, mirror.by_bytes)
        self._looked: queue.SimpleQueue[Looked] = queue.SimpleQueue()
        self._uses: queue.Queue[str] = queue.Queue(USES_WAITING_MAX)
        self._rows: deque[pa.RecordBatch] = deque()
        self._rows_bytes = 0
        self._lock = threading.Lock()
        self._rows_there = threading.Event()
        self._problems: Counter[str] = Counter()
        self._brought_at = [math.inf] * len(self.keys)  # never yet: it will be
        self._published = 0
        self._unknown_uses = 0
        self._publishing = ""
        self._last_problem: Problem | None = None
        self._bytes = 0.0
        self._statistics = self._core.statistics(0.0)
        self._spent: deque[tuple[float, float]] = deque()
        """In all, at moments of late."""

    # -- from any thread ---------------------------------------------------------------------------------

    def used(self, key: str) -> None:
        """Somebody has looked it up; what is more than fits is not counted."""
        try:
            self._uses.put_nowait(key)
        except queue.Full:
            self._unknown_uses += 1

    def progress(self) -> MirrorProgress:
        with self._lock:
            problems, last = dict(self._problems.most_common()), self._last_problem
            spent = list(self._spent)
        if self._publishing:
            problems = {f"publishing: {self._publishing}": 1} | problems
        return replace(
            begun(self.mirror),
            state="running",
            statistics=self._statistics,
            published=self._published,
            problems=problems,
            unknown_uses=self._unknown_uses,
            bytes=int(self._bytes),
            spent_per_s=rate_of(spent),
            last_problem=last,
        )

    # -- the loop ----------------------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        over = threading.Event()
        publisher = threading.Thread(target=self._publish_all, args=(over,), daemon=True)
        publisher.start()
        began, flying, reported_at = time.monotonic(), 0, 0.0
        workers = ThreadPoolExecutor(WORKERS, thread_name_prefix=f"mirror-{self.mirror.name}")
        try:
            while not stop.is_set():
                now = time.monotonic() - began
                self._take_uses(now)
                while flying < WORKERS and self._has_room() and (key := self._core.due(now)) is not None:
                    workers.submit(self._look, key, began)
                    flying += 1
                wait_s = LOOK_S if flying >= WORKERS else min(LOOK_S, self._core.wait_s(now))
                flying -= self._take_looked(began, max(wait_s, 1e-3))
                if now >= reported_at + TELL_S:
                    self._tell(now)
                    reported_at = now
        finally:
            over.set()
            self._statistics = self._core.statistics(time.monotonic() - began)
            workers.shutdown(wait=False, cancel_futures=True)
            self._rows_there.set()
            publisher.join(LAST_S)

    def _tell(self, now: float) -> None:
        self._statistics = self._core.statistics(now)
        with self._lock:
            self._spent.append((now, self._statistics.spent))
            while self._spent[0][0] < now - RATE_S:
                self._spent.popleft()

    def _take_uses(self, now: float) -> None:
        for _ in range(self._uses.qsize()):
            number = self._numbers.get(self._uses.get_nowait())
            if number is None:
                self._unknown_uses += 1
            else:
                self._core.used(number, 1.0, now)

    def _take_looked(self, began: float, wait_s: float) -> int:
        """What has come within that time; how many."""
        taken = 0
        try:
            looked = self._looked.get(timeout=wait_s)
            while True:
                taken += 1
                self._take(looked, time.monotonic() - began)
                looked = self._looked.get_nowait()
        except queue.Empty:
            return taken

    def _take(self, found: Looked, now: float) -> None:
        self._core.polled(found.one, found.asked_at, found.outcome, found.size, now)
        self._bytes += found.size
        if found.problem:
            detail = f" ({found.detail})" if found.detail else ""
            self._count_problem(found.problem, 1, f"{self.keys[found.one]}: {found.problem}{detail}")
        if found.batch is not None:
            with self._lock:
                self._rows.append(found.batch)
                self._rows_bytes += found.batch.nbytes
            self._rows_there.set()

    def _count_problem(self, told: str, times: int, last: str = "") -> None:
        """By what it is; the last one also with whose it is."""
        told, last = hidden(told, self._secrets), hidden(last or told, self._secrets)
        with self._lock:
            is_listed = told in self._problems or len(self._problems) < PROBLEMS_MAX
            self._problems[told if is_listed else OTHERS] += times
            self._last_problem = Problem(last, time.time())

    def _has_room(self) -> bool:
        return len(self._rows) < ROWS_WAITING_MAX and self._rows_bytes < BYTES_WAITING_MAX

    # -- threads -----------------------------------------------------------------------------------------

    def _look(self, one: int, began: float) -> None:
        key, asked_at = self.keys[one], time.monotonic() - began
        try:
            fetched = self._objects.fetch(key, self._is_to_repeat(one, asked_at))
            if fetched.row is None:
                self._looked.put(Looked(one, asked_at, Outcome.UNCHANGED, fetched.size))
                return
            batch = self._batch(fetched)
            self._objects.took(key, fetched)
            self._brought_at[one] = asked_at
            outcome = Outcome.CHANGED if fetched.is_new else Outcome.UNCHANGED
            self._looked.put(Looked(one, asked_at, outcome, fetched.size, batch))
        except ObjectProblem as problem:
            text, detail = str(problem), problem.detail
            self._looked.put(
                Looked(
                    one=one,
                    asked_at=asked_at,
                    outcome=Outcome.FAILED,
                    size=problem.size,
                    batch=None,
                    problem=text,
                    detail=detail,
                )
            )
        except (
            Exception
        ) as problem:  # a thread that ends without a word would leave the object in flight for ever
            text = f"{type(problem).__name__}: {problem}"[:200]
            self._looked.put(
                Looked(one=one, asked_at=asked_at, outcome=Outcome.FAILED, size=0, batch=None, problem=text)
            )

    def _is_to_repeat(self, one: int, now: float) -> bool:
        every_s = self.mirror.repeat_s
        return every_s is not None and now - self._brought_at[one] >= every_s

    def _batch(self, fetched: Fetched) -> pa.RecordBatch:
        """As a row of the stream."""
        times: dict[str, Any] = {SEEN_AT: datetime.now(UTC).isoformat()}
        times[CHANGED_AT] = fetched.changed_at.isoformat() if fetched.changed_at else None
        brought = of_objects(self.mirror.stream, [{**(fetched.row or {}), **times}], Brought())
        if not brought.rows:
            raise ObjectProblem(
                "; ".join(brought.rejected), fetched.size, self._misfits(fetched.row or {}, brought)
            )
        return brought.batches[0]

    def _misfits(self, row: Mapping[str, Any], brought: Brought) -> str:
        return ", ".join(
            f"{field.name} is to be {field.type}, got {shown(row.get(field.name))}"
            for field in self.mirror.columns.fields
            if f"{DOES_NOT_FIT}: {field.name}" in brought.rejected
        )

    def _next_rows(self) -> list[pa.RecordBatch]:
        """Those that are published together: as many as one call takes."""
        rows, taken = list[pa.RecordBatch](), 0
        with self._lock:
            while self._rows and len(rows) < BATCH_ROWS:
                taken += self._rows[0].nbytes
                if rows and taken > BATCH_BYTES:
                    break
                rows.append(self._rows.popleft())
                self._rows_bytes -= rows[-1].nbytes
            if self._rows:
                self._rows_there.set()
        return rows

    def _publish_all(self, over: threading.Event) -> None:
        """One batch after the other; each until it is taken, under one name, so that it is there once."""
        number, backoff = 0, Backoff(least_s=0.2, most_s=10.0)
        while True:
            self._rows_there.wait(LOOK_S)
            self._rows_there.clear()
            rows = self._next_rows()
            if not rows:
                if over.is_set():
                    return
                continue
            table = pa.Table.from_batches(rows).combine_chunks()
            while True:
                try:
                    refused = self._publish(table, f"{self._name}-{number}")
                except Exception as problem:  # who publishes no more lets polling pause for ever
                    self._publishing = in_a_line(problem, self._secrets)
                    self._last_problem = Problem(f"publishing: {self._publishing}", time.time())
                    # Who is away, or has no room, may take it soon; what is refused, only when somebody sets it right.
                    soon = isinstance(problem, Away | NoRoom) or not isinstance(problem, WeirError)
                    if over.wait(backoff.failed() if soon else backoff.most_s):
                        return
                else:
                    self._publishing = ""
                    backoff.succeeded()
                    self._published += len(rows) - sum(refused.values())
                    for reason, rows_refused in refused.items():
                        self._count_problem(f"not taken by the stream: {reason}", rows_refused)
                    number += 1
                    break


def rate_of(spent: Sequence[tuple[float, float]]) -> float:
    """Return what was spent a second between the first moment and the last; 0 where polls gave more back than was spent."""
    if len(spent) < 2:
        return 0.0
    (since, before), (now, after) = spent[0], spent[-1]
    return max(0.0, after - before) / (now - since)


def in_a_line(problem: Exception, secrets: Sequence[str]) -> str:
    """With what it is about, and what to do."""
    text = str(problem) if isinstance(problem, WeirError) else f"{type(problem).__name__}: {problem}"
    return hidden(text.replace("\n  hint: ", "; "), secrets)[:TOLD_MAX]


@dataclass(frozen=True, slots=True)
class Problem:
    """The last one."""

    told: str
    at: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class MirrorProgress:
    """How a mirror fares."""

    mirror: str
    bandwidth: float
    unit: Unit
    """Of the bandwidth."""
    state: State = "starting"
    """`waiting` after it could not begin: it tries again."""
    statistics: MirrorStatistics = NOTHING
    published: int = 0
    """Rows that the stream has taken."""
    problems: dict[str, int] = field(default_factory=dict)
    """How often each has been met."""
    unknown_uses: int = 0
    """Uses of what is no object of the mirror."""
    bytes: int = 0
    """Of what polls have brought."""
    spent_per_s: float = 0.0
    """Of the bandwidth, of late."""
    last_problem: Problem | None = None

    def as_json(self) -> dict[str, Any]:
        fields = asdict(self)
        return {**fields.pop("statistics"), **fields}


def begun(mirror: Mirror) -> MirrorProgress:
    """Of one that has done nothing yet."""
    return MirrorProgress(mirror.name, mirror.bandwidth, "bytes" if mirror.by_bytes else "polls")
