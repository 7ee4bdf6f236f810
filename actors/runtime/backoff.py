"""Pauses between tries of what fails, which grow until it succeeds."""

from __future__ import annotations

from dataclasses import dataclass

BACKOFF_LEAST_S = 0.5
BACKOFF_MOST_S = 30.0


@dataclass
class Backoff:
    """Pauses before the next try: twice as long each time, up to a bound, until something succeeds."""

    least_s: float = BACKOFF_LEAST_S
    most_s: float = BACKOFF_MOST_S
    failures: int = 0

    def failed(self) -> float:
        """Count a failure, and return the seconds to wait before the next try."""
        # No power of what may have failed for a year.
        pause_s = self.most_s if self.failures > 30 else min(self.most_s, self.least_s * 2.0**self.failures)
        self.failures += 1
        return pause_s

    def succeeded(self) -> None:
        self.failures = 0
