"""Polling of one mirror: a loop decides which objects to poll, threads fetch them, and changes are published as a stream.

`MirrorCore.due` decides which object is next, and a thread fetches the object. `MirrorCore.polled` records the result, and
changed rows are published in order.

Numbered properties:
1. At most `WORKERS` objects are fetched at a time. At most `ROWS_WAITING_MAX` changes with at most `BYTES_WAITING_MAX` bytes
   wait to be published. If the stream does not accept changes, polling pauses, and no fetched change is lost.
2. If an object cannot be fetched or does not fit the columns, the problem is counted; other objects are not affected.
3. `stop` ends polling: fetches in progress are abandoned, and fetched changes are published if that takes at most `LAST_S`.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from configs.errors import shown
from engine.sql.create_mirror import CHANGED_AT, SEEN_AT, Mirror
from scheduler.mirrors.change_rates import Interests
from scheduler.mirrors.poller import MirrorCore, MirrorStatistics, PollOutcome
from services.mirror.mirror_definition import checked_keys, floors_of, profile_of
from services.mirror.objects import Fetched, ObjectProblem, Objects
from services.mirror.row_publisher import MirrorProblems, Problem, Publish, RowPublisher
from services.results.row_parsing import DOES_NOT_FIT, Brought, of_objects

WORKERS = 16
LOOK_S = 0.2
LAST_S = 5.0
# Seconds between two computations of the statistics. Each computation reads the figures of all objects.
TELL_S = 0.5
# Seconds after which a use of an object counts half.
HALF_LIFE_S = 3600.0
USES_WAITING_MAX = 100_000
# Seconds over which the spent bandwidth is averaged.
RATE_S = 10.0
# Maximum number of objects that the status lists with their least freshness.
FLOORS_SHOWN = 100
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


@dataclass(slots=True)
class Looked:
    """Result of one poll of an object. The result is a failure until the object has been fetched."""

    one: int
    asked_at: float
    outcome: PollOutcome = PollOutcome.FAILED
    size: int = 0
    batch: pa.RecordBatch | None = None
    problem: str = ""
    detail: str = ""


class Polling:
    """Polling of one mirror. The method `run` polls, and is called in a separate thread."""

    def __init__(
        self, mirror: Mirror, objects: Objects, publish: Publish, name: str, secrets: Sequence[str] = ()
    ) -> None:
        """Read the keys of the objects; raise InvalidInput if the keys are not valid.

        The names of all batches begin with `name`, which must differ between runs. The texts of problems do not show `secrets`.
        """
        self.mirror, self._objects = mirror, objects
        self._problems = MirrorProblems(secrets)
        self._publisher = RowPublisher(publish, name, self._problems)
        self.keys = checked_keys(mirror, objects.keys())
        self._numbers = {key: number for number, key in enumerate(self.keys)}
        interests = Interests(profile_of(mirror, self.keys), HALF_LIFE_S)
        floors = floors_of(mirror, self.keys)
        self._core = MirrorCore(interests, len(self.keys), mirror.bandwidth, mirror.by_bytes, floors)
        self._looked: queue.SimpleQueue[Looked] = queue.SimpleQueue()
        self._uses: queue.Queue[str] = queue.Queue(USES_WAITING_MAX)
        self._lock = threading.Lock()
        # Time at which each object was last published. Infinity means that the object was never published.
        self._brought_at = [math.inf] * len(self.keys)
        self._unknown_uses = 0
        self._bytes = 0.0
        self._statistics, self._floors = self._core.statistics(0.0), list[ObjectFloor]()
        self._spent: deque[tuple[float, float]] = deque()
        """Pairs of a time and the total bandwidth spent until this time, for the last RATE_S seconds."""

    def used(self, key: str) -> None:
        """Count a use of the object with this key. If the queue of uses is full, the use counts as a use of an unknown object."""
        try:
            self._uses.put_nowait(key)
        except queue.Full:
            self._unknown_uses += 1

    def progress(self) -> MirrorProgress:
        problems, last = self._problems.counts()
        with self._lock:
            spent = list(self._spent)
        if failure := self._publisher.failure:
            problems = {f"publishing: {failure}": 1} | problems
        if shortage := shortage_told(self.mirror, self._statistics):
            problems = {shortage: 1} | problems
        return replace(
            begun(self.mirror),
            state="running",
            statistics=self._statistics,
            published=self._publisher.published,
            problems=problems,
            unknown_uses=self._unknown_uses,
            bytes=int(self._bytes),
            spent_per_s=rate_of(spent),
            last_problem=last,
            floors=self._floors,
        )

    def run(self, stop: threading.Event) -> None:
        over = threading.Event()
        publisher = threading.Thread(target=self._publisher.run, args=(over,), daemon=True)
        publisher.start()
        began, flying, noted_at = time.monotonic(), 0, 0.0
        workers = ThreadPoolExecutor(WORKERS, thread_name_prefix=f"mirror-{self.mirror.name}")
        try:
            while not stop.is_set():
                now = time.monotonic() - began
                self._take_uses(now)
                while (
                    flying < WORKERS
                    and self._publisher.has_room
                    and (number := self._core.due(now)) is not None
                ):
                    workers.submit(self._look, number, began)
                    flying += 1
                wait_s = LOOK_S if flying >= WORKERS else min(LOOK_S, self._core.wait_s(now))
                flying -= self._take_looked(began, max(wait_s, 1e-3))
                if now >= noted_at + TELL_S:
                    self._tell(now)
                    noted_at = now
        finally:
            over.set()
            self._statistics = self._core.statistics(time.monotonic() - began)
            workers.shutdown(wait=False, cancel_futures=True)
            self._publisher.wake()
            publisher.join(LAST_S)

    def _tell(self, now: float) -> None:
        self._statistics, self._floors = self._core.statistics(now), self._floors_now()
        with self._lock:
            self._spent.append((now, self._statistics.spent))
            while self._spent[0][0] < now - RATE_S:
                self._spent.popleft()

    def _floors_now(self) -> list[ObjectFloor]:
        """Return the objects with a least freshness, at most FLOORS_SHOWN: objects that lack most come first."""
        floors, fresh = self._core.floors, self._core.freshnesses()
        floored = np.flatnonzero(floors > 0)
        lacking = floored[np.argsort(fresh[floored] - floors[floored], kind="stable")[:FLOORS_SHOWN]]
        return [
            ObjectFloor(self.keys[number], float(floors[number]), float(fresh[number])) for number in lacking
        ]

    def _take_uses(self, now: float) -> None:
        for _ in range(self._uses.qsize()):
            number = self._numbers.get(self._uses.get_nowait())
            if number is None:
                self._unknown_uses += 1
            else:
                self._core.used(number, 1.0, now)

    def _take_looked(self, began: float, wait_s: float) -> int:
        """Wait at most `wait_s` for results of polls, process all results, and return their number."""
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
            self._problems.count(found.problem, 1, f"{self.keys[found.one]}: {found.problem}{detail}")
        if found.batch is not None:
            self._publisher.add(found.batch)

    def _look(self, one: int, began: float) -> None:
        looked = Looked(one, time.monotonic() - began)
        try:
            self._fetch(looked)
        except ObjectProblem as problem:
            looked.size, looked.problem, looked.detail = problem.size, str(problem), problem.detail
        except Exception as problem:
            # Every fetch must have a result, because an object without a result would count as being polled for ever.
            looked.problem = f"{type(problem).__name__}: {problem}"[:200]
        self._looked.put(looked)

    def _fetch(self, looked: Looked) -> None:
        """Fetch the object, and store the result in `looked`."""
        key = self.keys[looked.one]
        every_s = self.mirror.repeat_s
        is_repeated = every_s is not None and looked.asked_at - self._brought_at[looked.one] >= every_s
        fetched = self._objects.fetch(key, whole=is_repeated)
        if fetched.row is not None:
            batch = self._batch(fetched)
            self._objects.took(key, fetched)
            looked.batch = batch
            self._brought_at[looked.one] = looked.asked_at
        is_new = fetched.row is not None and fetched.is_new
        looked.outcome = PollOutcome.CHANGED if is_new else PollOutcome.UNCHANGED
        looked.size = fetched.size

    def _batch(self, fetched: Fetched) -> pa.RecordBatch:
        """Return the fetched object as a row of the mirror's stream; raise ObjectProblem if the object does not fit the columns."""
        times: dict[str, Any] = {SEEN_AT: datetime.now(UTC).isoformat()}
        times[CHANGED_AT] = fetched.changed_at.isoformat() if fetched.changed_at else None
        row = fetched.row or {}
        brought = of_objects(self.mirror.stream, [{**row, **times}], Brought())
        if brought.rows:
            return brought.batches[0]
        misfits = [
            f"{field.name} must be {field.type}, got {shown(row.get(field.name))}"
            for field in self.mirror.columns.fields
            if f"{DOES_NOT_FIT}: {field.name}" in brought.rejected
        ]
        raise ObjectProblem("; ".join(brought.rejected), fetched.size, ", ".join(misfits))


def shortage_told(mirror: Mirror, statistics: MirrorStatistics) -> str:
    """Return a warning if the bandwidth does not suffice for all least freshnesses, with a bandwidth that does; otherwise an empty text.

    Before every object has been fetched, change rates are mostly unknown, and there is no warning.
    """
    if statistics.floor_part == 1 or statistics.held < statistics.objects - statistics.failing:
        return ""
    unit = "BYTES PER SECOND" if mirror.by_bytes else "PER SECOND"
    return (
        f"MIN FRESHNESS needs more than BANDWIDTH {mirror.bandwidth:.12g} {unit}, so every object gets less than its least freshness;"
        f" BANDWIDTH {rounded_up(statistics.needed):.12g} {unit} suffices"
    )


def rounded_up(number: float) -> float:
    """Return the smallest number not below this positive number that is 1, 2 or 5 times a power of ten."""
    # A warning with a rounded number stays the same while estimates change a little.
    power = 10.0 ** math.floor(math.log10(number))
    return next((step * power for step in (1, 2, 5) if step * power >= number), 10 * power)


def rate_of(spent: Sequence[tuple[float, float]]) -> float:
    """Return the bandwidth spent per second between the first and the last pair. A pair is (time, bandwidth spent until then).

    The result is 0 if corrections have lowered the spent bandwidth.
    """
    if len(spent) < 2:
        return 0.0
    (since, before), (now, after) = spent[0], spent[-1]
    return max(0.0, after - before) / (now - since)


@dataclass(frozen=True, slots=True)
class ObjectFloor:
    """Least freshness of an object, and the freshness that its polls are expected to give."""

    key: str
    least: float
    expected: float


@dataclass(frozen=True, slots=True)
class MirrorProgress:
    """Progress of a mirror."""

    mirror: str
    bandwidth: float
    unit: Unit
    """Unit of the bandwidth."""
    state: State = "starting"
    """State of the mirror; `waiting` if its start has failed and will be repeated."""
    statistics: MirrorStatistics = NOTHING
    published: int = 0
    """Number of rows that the stream has accepted."""
    problems: dict[str, int] = field(default_factory=dict)
    """Number of occurrences of each problem, by the text of the problem."""
    unknown_uses: int = 0
    """Number of uses of keys that are not keys of the mirror's objects."""
    bytes: int = 0
    """Number of bytes that all polls have received."""
    spent_per_s: float = 0.0
    """Bandwidth spent per second, over the last RATE_S seconds."""
    last_problem: Problem | None = None
    floors: Sequence[ObjectFloor] = ()
    """Objects with a least freshness, at most FLOORS_SHOWN: objects that lack most come first."""

    def as_json(self) -> dict[str, Any]:
        fields = asdict(self)
        return {**fields.pop("statistics"), **fields}


def begun(mirror: Mirror) -> MirrorProgress:
    """Return the progress of a mirror that has done nothing yet."""
    return MirrorProgress(mirror.name, mirror.bandwidth, "bytes" if mirror.by_bytes else "polls")
