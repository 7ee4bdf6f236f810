"""A copy of another node's log: the same frames under the same numbers.

A follower asks for the frames after those it has; the other side answers when there are some. Whatever goes wrong, it
asks again, from where it stands: a frame is taken once. Arrival stamps are by the clock of the node they came in at.
How far the clocks are apart is estimated from the answers, each of which says when it left: the least of late is the
one that travelled fastest.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.gateway.streams import Streams
from actors.log.commit_format import snapshot_of
from actors.log.segment_log import KEEP_NONE, Part, SegmentWriter
from actors.log.train_format import later_parts
from actors.log.unit_log import (
    SNAPSHOT_BYTES,
    SNAPSHOT_SEGMENT_BYTES,
    SNAPSHOTS,
    SNAPSHOTS_KEPT,
    describe_as,
)

# Clocks of two machines drift by some ten microseconds a second at most.
STAMPS_KEPT = 64
PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class Frames:
    """Some frames of a log, and the other side's clock when they left."""

    now: float
    frames: Sequence[tuple[int, Part]]


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """How far a copy of a unit's logs has come."""

    commits: int
    snapshots: int
    released: Mapping[str, int]
    """By stream, the first batch that the unit still needs."""


@dataclass(frozen=True, slots=True)
class UnitFrames(Frames):
    """What a unit's logs hold from some place on."""

    snapshots: Sequence[tuple[int, Part]]
    released: Mapping[str, int]
    """As far as these snapshots, or earlier ones, allow it."""
    queries: bytes
    """Their description, which is at least as new as the frames."""


class ClockDistance:
    """How far this node's clock is ahead of another's."""

    def __init__(self) -> None:
        self._found: deque[float] = deque(maxlen=STAMPS_KEPT)

    def hear(self, theirs: float, ours: float) -> float:
        self._found.append(ours - theirs)
        return self.ahead_s

    @property
    def ahead_s(self) -> float:
        return min(self._found, default=0.0)


class StreamCopy:
    """Where the frames of a stream go."""

    def __init__(self, streams: Streams, name: str) -> None:
        self._streams, self._name = streams, name

    @property
    def place(self) -> int:
        with self._streams.lock:
            return self._streams.find(self._name).log.next

    def take(self, found: Frames, ahead_s: float) -> None:
        for number, payload in found.frames:
            parts = later_parts(memoryview(payload), ahead_s)
            self._streams.append_copy(self._name, number, parts, sum(len(part) for part in parts))

    def close(self) -> None:
        """The stream stays declared."""


class ClassCopy:
    """Where the logs of a unit go, as they are; the oldest commits are forgotten when there is no room.

    A snapshot is there when all commits before it are, so that who goes on from it gives no answer a wrong number.
    Only then the input before it is released.
    """

    def __init__(
        self,
        folder: Path,
        bytes_max: int,
        tell: Callable[[int], None],
        release: Callable[[Mapping[str, int]], None],
    ) -> None:
        self._folder, self._tell, self._release = folder, tell, release
        self._commits = SegmentWriter(folder, bytes_max=bytes_max, keep_from=KEEP_NONE)
        try:
            self._snapshots = SegmentWriter(
                folder / SNAPSHOTS, bytes_max=SNAPSHOT_BYTES, segment_bytes=SNAPSHOT_SEGMENT_BYTES
            )
        except BaseException:
            self._commits.close()
            raise
        self._released: Mapping[str, int] = {}
        self._queries = b""

    @property
    def place(self) -> CopyProgress:
        return CopyProgress(self._commits.next, self._snapshots.next, self._released)

    def take(self, found: UnitFrames, ahead_s: float) -> None:
        if found.queries != self._queries:
            describe_as(self._folder, found.queries)
            self._queries = found.queries
        for number, payload in found.frames:
            append_at(self._commits, number, payload)
        if found.frames:
            self._tell(self._commits.next)
        for number, payload in found.snapshots:
            if snapshot_of(memoryview(payload)).following > self._commits.next:
                return
            append_at(self._snapshots, number, payload)
            self._snapshots.forget(number - SNAPSHOTS_KEPT + 1)
        self._release(found.released)
        self._released = found.released

    def close(self) -> None:
        self._commits.close()
        self._snapshots.close()


def append_at(log: SegmentWriter, number: int, payload: Part) -> None:
    """Under the same number; one that is there already stays."""
    if number >= log.next:
        log.skip_to(number)
        log.append([payload], len(payload))


Result = Callable[[Future[Any]], Any]
"""Waits for a future's result; raises Stopped if the follower is stopped meanwhile."""


class ReplicationStopped(Exception):
    """The follower is to end."""


class Follower:
    """Makes a copy and pulls into it until it is stopped, in a thread of its own."""

    def __init__(
        self,
        make: Callable[[Result], StreamCopy | ClassCopy],
        pull: Callable[[Any], Future[Any]],
        clock: Callable[[], float],
    ) -> None:
        self.distance = ClockDistance()
        self.problem = ""  # of the last try
        self.made = threading.Event()
        self._make, self._pull, self._clock = make, pull, clock
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        self._thread.join()

    def status(self) -> dict[str, Any]:
        return {"ahead_s": self.distance.ahead_s, "problem": self.problem}

    def _run(self) -> None:
        copy: StreamCopy | ClassCopy | None = None
        while not self._stopped:
            try:
                if copy is None:
                    copy = self._make(self._result)
                    self.made.set()
                self._take_some(copy)
                self.problem = ""
            except ReplicationStopped:
                break
            except Exception as problem:  # whatever the other side has; it is told in the status
                self.problem = repr(problem)
                self._wake.wait(PAUSE_S)
        if copy is not None:
            copy.close()

    def _take_some(self, copy: StreamCopy | ClassCopy) -> None:
        frames = self._result(self._pull(copy.place))
        copy.take(frames, self.distance.hear(frames.now, self._clock()))

    def _result(self, future: Future[Any]) -> Any:
        future.add_done_callback(lambda _: self._wake.set())
        self._wake.wait()
        if self._stopped:
            raise ReplicationStopped
        self._wake.clear()
        return future.result()
