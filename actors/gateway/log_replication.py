"""Copying of another node's log: the same frames under the same numbers.

A follower (thread that copies) requests the next frames, and the other node answers when it has some. After a failure, the
follower requests the frames after the last copied frame, so each frame is copied once.

Arrival times in frames are by the clock of the origin and are converted to the local clock. Each reply carries the time at
which it was sent. The difference between sending and receiving is the clock distance plus the travel time. So the smallest of
the last differences is the best estimate of the clock distance.
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
from actors.log.unit_log import SNAPSHOTS_KEPT, describe_as, snapshot_writer

# Number of last replies from which the clock distance is estimated. Older replies would mislead, since clocks drift apart.
STAMPS_KEPT = 64
PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class Frames:
    """Some frames of a log, and the sender's clock when they were sent."""

    now: float
    frames: Sequence[tuple[int, Part]]


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """Progress of copying a unit's logs: numbers of the next commit and snapshot to copy, and released input."""

    commits: int
    snapshots: int
    released: Mapping[str, int]
    """Number of the first batch that the unit still needs, by stream."""


@dataclass(frozen=True, slots=True)
class UnitFrames(Frames):
    """Commits and snapshots of a unit's logs from a position on."""

    snapshots: Sequence[tuple[int, Part]]
    released: Mapping[str, int]
    """Number of the first batch that the unit still needs, by stream; `snapshots` cover all earlier batches."""
    queries: bytes
    """Description of the unit's queries, at least as new as the frames."""


class StreamCopy:
    """Copy of a stream of another node. The gateway of this node maintains the copy."""

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
        """Do nothing: when copying ends, the copied stream stays declared on this node."""


class ClassCopy:
    """Copy of the commit and snapshot logs of a unit. If the copy has no room, it deletes the oldest commits.

    A snapshot is copied only after all earlier commits; without them, a unit restarted from the snapshot would number answers wrongly.
    Input that the snapshot covers is released only after that.
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
            self._snapshots = snapshot_writer(folder)
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
    """Append a frame with the number that the frame has on the other node. Ignore a frame that has been copied before."""
    if number >= log.next:
        log.skip_to(number)
        log.append([payload], len(payload))


Result = Callable[[Future[Any]], Any]
"""Function that waits for a future's result and raises ReplicationStopped if the follower is stopped meanwhile."""


class ReplicationStopped(Exception):
    """Signal that the follower has to end."""


class Follower:
    """Thread that creates a copy of a log and pulls frames into it until it is stopped."""

    def __init__(
        self,
        make: Callable[[Result], StreamCopy | ClassCopy],
        pull: Callable[[Any], Future[Any]],
        clock: Callable[[], float],
    ) -> None:
        # For each reply: its time of arrival by this node's clock, minus its time of sending by the other node's clock.
        self._differences_s: deque[float] = deque(maxlen=STAMPS_KEPT)
        self.problem = ""  # Error of the last attempt to copy; empty if the attempt succeeded
        self.made = threading.Event()
        self._make, self._pull, self._clock = make, pull, clock
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        self._thread.join()

    def status(self) -> dict[str, Any]:
        return {"ahead_s": self._ahead_s(), "problem": self.problem}

    def _ahead_s(self) -> float:
        """Return an estimate of the seconds by which this node's clock is ahead of the other node's clock."""
        return min(self._differences_s, default=0.0)

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
            except Exception as problem:
                # After any failure of the other node, the follower tries again, and its status contains the error.
                self.problem = repr(problem)
                self._wake.wait(PAUSE_S)
        if copy is not None:
            copy.close()

    def _take_some(self, copy: StreamCopy | ClassCopy) -> None:
        frames = self._result(self._pull(copy.place))
        self._differences_s.append(self._clock() - frames.now)
        copy.take(frames, self._ahead_s())

    def _result(self, future: Future[Any]) -> Any:
        future.add_done_callback(lambda _: self._wake.set())
        self._wake.wait()
        if self._stopped:
            raise ReplicationStopped
        self._wake.clear()
        return future.result()
