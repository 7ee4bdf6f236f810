"""Memory that queued tuples take: number of tuples times size, with the exact integral over time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class QueueMemory:
    """Total size of all queued tuples: current value, maximum, and mean over time. Calls must come in the order of time."""

    held: float = 0.0
    peak: float = 0.0
    area: float = 0.0
    at: float = 0.0

    def change(self, size: float, now: float) -> None:
        self.area += self.held * (now - self.at)
        self.at = now
        self.held += size
        if self.held > self.peak:
            self.peak = self.held

    def has_come(self, size: float, waited_s: float, now: float) -> None:
        """Add tuples that arrived before `now`; `waited_s` is the sum of (waiting time × size) over these tuples."""
        self.area += waited_s
        self.change(size, now)

    def mean(self, now: float) -> float:
        return (self.area + self.held * (now - self.at)) / now if now > 0 else 0.0
