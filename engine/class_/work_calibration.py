"""Believed work against processor time used.

What is believed of operators leaves out what stands around them: handing out answers, writing them down, windows that
close because event time went on and not because a tuple came. Over some cycles both are summed up, older cycles
counting less and less; what is believed of a tuple is then scaled by what tuples have really cost.

What is believed of operators follows their last calls, and the first calls after a pause take longer: caches are cold. Whoever
looks while a burst begins would take all of it for that much work. So what a stream's tuples take is smoothed over cycles too,
unless it is another altogether.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# As for costs, selectivities and rates (Sharaf §3.3.3).
ALPHA = 0.175
# Where next to nothing was believed or used, a ratio says nothing.
FACTOR_LEAST, FACTOR_MOST = 1e-3, 1e3

# Beyond this the work of a tuple is not the same as before: other queries, other data.
JUMP = 1.5


@dataclass
class SteadyWork:
    """What a tuple of each stream is believed to take, over some cycles."""

    _known: dict[str, float] = field(init=False, default_factory=dict)

    def observe(self, stream: str, work_s: float) -> float:
        """One cycle; what the stream's tuples take then."""
        known = self._known.get(stream)
        if known is not None and known / JUMP <= work_s <= known * JUMP:
            work_s = known + ALPHA * (work_s - known)
        self._known[stream] = work_s
        return work_s

    def forget(self) -> None:
        """Other queries take other work."""
        self._known.clear()


@dataclass
class WorkCheck:
    """How many times the believed work was really used."""

    _used_s: float = field(init=False, default=0.0)
    _believed_s: float = field(init=False, default=0.0)

    def observe(self, used_s: float, believed_s: float) -> None:
        """One cycle: processor time used, and what its tuples were believed to cost; without tuples it tells nothing."""
        if believed_s <= 0:
            return
        self._used_s += ALPHA * (used_s - self._used_s)
        self._believed_s += ALPHA * (believed_s - self._believed_s)

    @property
    def factor(self) -> float:
        """0 as long as nothing is known: a first guess of costs is no reason to shed."""
        if self._believed_s <= 0:
            return 0.0
        return min(max(self._used_s / self._believed_s, FACTOR_LEAST), FACTOR_MOST)
