"""The two monitors that ALoMa compares: the load as statistics tell it, the response as answers tell it.

Load. L0 = Σ rate·work over the inputs, the work offered; the share of it that is admitted is L. The rate of an
input is smoothed while it stays within counting noise (three standard deviations of a Poisson count; of an input
that comes in batches, two batches) and taken at once when it jumps; a silent input decays to 0 the same way.

Response. Per output the mean of the cycle against its target; a silent output whose input has been waiting has
that wait as its response. A window makes responses long without any overload, so *accumulating* (the papers'
UT) asks for both: mean above twice the lowest seen, and a queue that takes a part of the target to work off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from loadshed.cycle import InputCycle, OutputCycle

RATE_ALPHA = 0.175  # as for costs and selectivities (Sharaf §3.3.3)
RATE_JUMP_SIGMAS = 3.0
# Batches come when they are ready: a cycle has one more or less than its part, or the one that the last cycle missed.
RATE_JUMP_BATCHES = 2.0
LEAST_CYCLE_S = 1e-9  # less than a tick of any clock; a rate taken over it could be infinite
ACCUMULATING_RATIO = 2.0  # authors: mean > 2 × the lowest mean seen
# The reference for "lowest" grows by this a cycle: it doubles in 70 cycles, some ten seconds.
LOWEST_AGEING = 1.01
# Queueing below this part of the target is not accumulation.
ACCUMULATING_QUEUE = 0.1


@dataclass
class LoadMonitor:
    """Offered work per second of one class."""

    _rates: dict[str, float] = field(default_factory=dict)
    _batches: dict[str, float] = field(default_factory=dict)
    """Mean tuples of one batch, by stream."""

    def offered_load(self, inputs: Sequence[InputCycle], cycle_s: float) -> float:
        """L0 in processors, after this cycle."""
        return sum(self._rate(input_, cycle_s) * input_.work_s for input_ in inputs)

    def rate(self, stream: str) -> float:
        return self._rates.get(stream, 0.0)

    def _rate(self, input_: InputCycle, cycle_s: float) -> float:
        stream, offered = input_.stream, input_.offered
        if cycle_s < LEAST_CYCLE_S:  # a clock that stood still or ran back has measured nothing
            return self.rate(stream)
        current, before = offered / cycle_s, self._rates.get(stream)
        batch = self._batches.get(stream, 0.0)
        if before is None or abs(offered - before * cycle_s) > noise(before * cycle_s, batch):
            rate = current
        else:
            rate = before + RATE_ALPHA * (current - before)
        self._rates[stream] = rate
        if input_.batches:
            size = offered / input_.batches
            self._batches[stream] = batch + RATE_ALPHA * (size - batch) if batch else size
        return rate


def noise(expected: float, batch: float) -> float:
    """By how much the count of a cycle may be off without anything having changed."""
    return max(RATE_JUMP_SIGMAS * math.sqrt(expected + 1), RATE_JUMP_BATCHES * batch)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the response times say of the class this cycle."""

    over_target: bool = False  # OT: some output's mean is above its target
    critical: bool = False  # …by more than the gap
    accumulating: bool = False  # UT: below target, but delay is building up
    rising: bool = False
    falling: bool = False
    worst: float = 0.0  # the largest mean as a part of its target

    @property
    def name(self) -> str:
        if self.over_target:
            return "critical" if self.critical else "over target"
        return "accumulating" if self.accumulating else "normal"


@dataclass
class ResponseMonitor:
    """Turns a cycle's responses into a verdict; remembers last cycle and the lowest means."""

    gap: float
    _lowest: dict[str, float] = field(default_factory=dict)
    _last_worst: float | None = None

    def verdict(self, outputs: Sequence[OutputCycle], queueing_s: float) -> Verdict:
        worst, accumulating = 0.0, False
        for output in outputs:
            mean = output.mean_s if output.results else output.waiting_s
            if mean <= 0:
                continue
            worst = max(worst, mean / output.target_s)
            if output.results:
                lowest = min(mean, self._lowest.get(output.query, mean) * LOWEST_AGEING)
                self._lowest[output.query] = lowest
                if mean > ACCUMULATING_RATIO * lowest and queueing_s > ACCUMULATING_QUEUE * output.target_s:
                    accumulating = True
        # Silence says nothing about rising or falling.
        change = worst - self._last_worst if worst > 0 and self._last_worst is not None else 0.0
        self._last_worst = worst or self._last_worst
        return Verdict(
            over_target=worst > 1.0,
            critical=worst > 1.0 + self.gap,
            accumulating=accumulating and worst <= 1.0,
            rising=change > 0,
            falling=change < 0,
            worst=worst,
        )
