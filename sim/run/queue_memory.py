"""How much memory queued tuples take over time: number times size, exactly, from one change to the next."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class QueueMemory:
    """What queues hold, with the mean over time and the most there has been. Time does not go back here."""

    held: float = 0.0
    peak: float = 0.0
    area: float = 0.0
    at: float = 0.0

    def until(self, now: float) -> None:
        self.area += self.held * (now - self.at)
        self.at = now

    def change(self, size: float, now: float) -> None:
        self.area += self.held * (now - self.at)
        self.at = now
        self.held += size
        if self.held > self.peak:
            self.peak = self.held

    def has_come(self, size: float, waited_s: float, now: float) -> None:
        """What came before this moment; `waited_s` is the waits of all of it by size."""
        self.area += waited_s
        self.change(size, now)

    def mean(self, now: float) -> float:
        return (self.area + self.held * (now - self.at)) / now if now > 0 else 0.0
