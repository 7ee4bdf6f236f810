"""A lane of the dispatcher: its current slice, and statistics of how its time was used."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from actors.runtime.unix_channel import Channel


@dataclass(frozen=True, slots=True)
class LaneStatus:
    running: str | None
    slices: int
    busy_s: float
    """Seconds in which the lane was granted: from the message that led to a grant to the arrival of its Ended."""
    in_slices_s: float
    """Part of `busy_s` that hosts spent inside slices; the rest is the overhead of handing over turns."""
    used_s: float
    """Processor seconds that the slices used."""
    idle_s: float


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
    slices: int = 0
    busy_s: float = 0.0
    in_slices_s: float = 0.0
    used_s: float = 0.0
    idle_s: float = 0.0
    rests_until: float = 0.0
    # Class of the last slice, and processor-seconds that this slice used, while the lane rests after the slice.
    ended: str = ""
    ended_used_s: float = 0.0

    @property
    def due(self) -> float:
        """Return when the lane's slice becomes overdue or its rest is over; infinity if the lane is free."""
        if self.slice is not None:
            return self.slice.due
        return self.rests_until if self.ended else math.inf

    def begin(self, granted: GrantedSlice) -> None:
        self.idle_s += granted.since - self.free_since
        # A lane that rests is granted only after the class of its last slice has left.
        self.ended = ""
        self.slice = granted

    def free(self, now: float) -> None:
        """End the current slice and update the statistics."""
        assert self.slice is not None
        self.slices += 1
        self.busy_s += now - self.slice.since
        self.free_since, self.slice = now, None

    def status(self, now: float) -> LaneStatus:
        running = self.slice
        return LaneStatus(
            running=running.name if running else None,
            slices=self.slices,
            busy_s=self.busy_s + (now - running.since if running else 0.0),
            in_slices_s=self.in_slices_s,
            used_s=self.used_s,
            idle_s=self.idle_s + (0.0 if running else now - self.free_since),
        )
