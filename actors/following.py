"""A copy of another node's log: the same frames under the same numbers.

A follower asks for the frames after those it has; the other side answers when there are some. Whatever goes wrong, it
asks again, from where it stands: a frame is taken once. Arrival stamps are by the clock of the node they came in at.
How far the clocks are apart is estimated from the answers, each of which says when it left: the least of late is the
one that travelled fastest.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from actors.frames import later_parts
from actors.segments import KEEP_NONE, Part, Writer
from actors.streams import Streams

# Clocks of two machines drift by some ten microseconds a second at most.
STAMPS_KEPT = 64
PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class Frames:
    """Some frames of a log, and the other side's clock when they left."""

    now: float
    frames: Sequence[tuple[int, Part]]


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
    def next(self) -> int:
        with self._streams.lock:
            return self._streams.find(self._name).log.next

    def take(self, number: int, payload: Part, ahead_s: float) -> None:
        parts = later_parts(memoryview(payload), ahead_s)
        self._streams.append_copy(self._name, number, parts, sum(len(part) for part in parts))

    def close(self) -> None:
        """The stream stays declared."""


class ClassCopy:
    """Where the frames of a class go, as they are; the oldest are forgotten when there is no room."""

    def __init__(self, log: Writer, tell: Callable[[int], None]) -> None:
        self._log, self._tell = log, tell
        log.keep_from = KEEP_NONE

    @property
    def next(self) -> int:
        return self._log.next

    def take(self, number: int, payload: Part, ahead_s: float) -> None:
        if number >= self._log.next:
            self._log.skip_to(number)
            self._log.append([payload], len(payload))
            self._tell(self._log.next)

    def close(self) -> None:
        self._log.close()


Result = Callable[[Future[Any]], Any]
"""Waits for a future's result; raises Stopped if the follower is stopped meanwhile."""


class Stopped(Exception):
    """The follower is to end."""


class Follower:
    """Makes a copy and pulls into it until it is stopped, in a thread of its own."""

    def __init__(
        self,
        make: Callable[[Result], StreamCopy | ClassCopy],
        pull: Callable[[int], Future[Any]],
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
            except Stopped:
                break
            except Exception as problem:  # whatever the other side has; it is told in the status
                self.problem = repr(problem)
                self._wake.wait(PAUSE_S)
        if copy is not None:
            copy.close()

    def _take_some(self, copy: StreamCopy | ClassCopy) -> None:
        found = self._result(self._pull(copy.next))
        ahead_s = self.distance.hear(found.now, self._clock())
        for number, payload in found.frames:
            copy.take(number, payload, ahead_s)

    def _result(self, future: Future[Any]) -> Any:
        future.add_done_callback(lambda _: self._wake.set())
        self._wake.wait()
        if self._stopped:
            raise Stopped
        self._wake.clear()
        return future.result()
