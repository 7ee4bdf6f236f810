"""A lane of the dispatcher: its current slice, and statistics of how its time was used."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from actors.runtime.unix_channel import Channel


@dataclass(slots=True)
class LaneStatus:
    running: str | None = None
    slices: int = 0
    busy_s: float = 0.0
    """Seconds in which the lane was granted: from the message that led to a grant to the arrival of its Ended."""
    in_slices_s: float = 0.0
    """Part of `busy_s` that hosts spent inside slices; the rest is the overhead of handing over turns."""
    used_s: float = 0.0
    """Processor seconds that the slices used."""
    idle_s: float = 0.0


@dataclass(eq=False, slots=True)
class ConnectedHost:
    """Connection to a host, with the name and classes that the host has announced."""

    channel: Channel
    name: str = ""
    classes: set[str] = field(default_factory=set)
    overdue: set[str] = field(default_factory=set)
    gone: bool = False


@dataclass(slots=True)
class GrantedSlice:
    name: str
    host: ConnectedHost
    since: float
    due: float
    """Time at which the slice becomes overdue."""


@dataclass(slots=True)
class TurnLane:
    free_since: float
    slice: GrantedSlice | None = None
    ended_slices: LaneStatus = field(default_factory=LaneStatus)
    """Statistics without the current slice."""
    rests_until: float = 0.0
    # Class of the last slice, and processor-seconds of the slice. Both are set while the lane rests (is kept idle after a slice).
    ended: str = ""
    ended_used_s: float = 0.0

    @property
    def due(self) -> float:
        """Return the time at which the current slice becomes overdue, or at which the lane may be used again after a rest.

        Return infinity if the lane is free.
        """
        if self.slice is not None:
            return self.slice.due
        return self.rests_until if self.ended else math.inf

    def begin(self, granted: GrantedSlice) -> None:
        self.ended_slices.idle_s += granted.since - self.free_since
        # The core grants a resting lane only if the class of the lane's last slice has been removed from the node.
        self.ended = ""
        self.slice = granted

    def free(self, now: float) -> None:
        """End the current slice and update the statistics."""
        assert self.slice is not None
        self.ended_slices.slices += 1
        self.ended_slices.busy_s += now - self.slice.since
        self.free_since, self.slice = now, None

    def status(self, now: float) -> LaneStatus:
        running, ended = self.slice, self.ended_slices
        if running is None:
            return replace(ended, idle_s=ended.idle_s + now - self.free_since)
        return replace(ended, running=running.name, busy_s=ended.busy_s + now - running.since)
