"""Calibration of estimated work by the processor time really used.

The estimated costs of operators do not include all work: delivering and recording answers, and closing windows when
only event time advances. So estimated and used time are both averaged over load cycles, recent cycles counting most, and
estimates are multiplied by the ratio of the two.

Estimates follow the most recent calls, and the first calls after a pause are slow because caches are cold. At the start of
a burst that would overestimate the work of the whole burst. So the work per tuple of a stream is smoothed over cycles
too, unless it changes by more than JUMP times.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Weight of the latest cycle in the averages, as for costs, selectivities and rates (thesis of Sharaf, §3.3.3).
ALPHA = 0.175
# Lowest and highest ratio of used to estimated time.
# Without these limits, a cycle with almost no estimated work could give any ratio.
FACTOR_LEAST, FACTOR_MOST = 1e-3, 1e3

# Work per tuple that changes by more than this factor is not smoothed, because queries or data have changed then.
JUMP = 1.5


@dataclass
class SteadyWork:
    """Estimated work per tuple of each stream in seconds, smoothed over load cycles."""

    _known: dict[str, float] = field(init=False, default_factory=dict)

    def observe(self, stream: str, work_s: float) -> float:
        """Add the estimate of one cycle for a stream; return the smoothed work per tuple."""
        known = self._known.get(stream)
        if known is not None and known / JUMP <= work_s <= known * JUMP:
            work_s = known + ALPHA * (work_s - known)
        self._known[stream] = work_s
        return work_s

    def forget(self) -> None:
        """Forget all estimates; the caller does so when queries change, because other queries cause other work."""
        self._known.clear()


@dataclass
class WorkCheck:
    """Ratio of the processor time really used to the estimated work."""

    _used_s: float = field(init=False, default=0.0)
    _believed_s: float = field(init=False, default=0.0)

    def observe(self, used_s: float, believed_s: float) -> None:
        """Add the used and the estimated processor time of one cycle; ignore a cycle without estimated work."""
        if believed_s <= 0:
            return
        self._used_s += ALPHA * (used_s - self._used_s)
        self._believed_s += ALPHA * (believed_s - self._believed_s)

    @property
    def factor(self) -> float:
        """Ratio of used to estimated time; 0 before the first measured cycle, so that a guess cannot cause shedding."""
        if self._believed_s <= 0:
            return 0.0
        return min(max(self._used_s / self._believed_s, FACTOR_LEAST), FACTOR_MOST)
