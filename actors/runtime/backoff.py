"""Exponential backoff: growing pauses between attempts of an operation that fails."""

from __future__ import annotations

from dataclasses import dataclass

BACKOFF_LEAST_S = 0.5
BACKOFF_MOST_S = 30.0


@dataclass
class Backoff:
    """Pauses between attempts: each pause is twice as long as the last pause, up to `most_s`. A success resets the pauses."""

    least_s: float = BACKOFF_LEAST_S
    most_s: float = BACKOFF_MOST_S
    failures: int = 0

    def failed(self) -> float:
        """Count a failure, and return the seconds to wait before the next attempt."""
        # The exponent is limited, because the power of 2 would overflow after many failures.
        pause_s = self.most_s if self.failures > 30 else min(self.most_s, self.least_s * 2.0**self.failures)
        self.failures += 1
        return pause_s

    def succeeded(self) -> None:
        self.failures = 0
