"""Believed work against processor time used.

What is believed of operators leaves out what stands around them: handing out answers, writing them down, windows that
close because event time went on and not because a tuple came. Over some cycles both are summed up, older cycles
counting less and less; what is believed of a tuple is then scaled by what tuples have really cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# As for costs, selectivities and rates (Sharaf §3.3.3).
ALPHA = 0.175
# Where next to nothing was believed or used, a ratio says nothing.
FACTOR_LEAST, FACTOR_MOST = 1e-3, 1e3


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
