"""The two monitors that ALoMa compares: one measures the load from rates and costs, the other the response times of answers.

Load. L0 = Σ rate·work over the inputs is the offered work; the admitted part of it is L. The rate of an input is smoothed while
it stays within counting noise: three standard deviations of a Poisson count, or two batches if the input comes in batches. A
larger jump is taken over at once. The rate of a silent input decays to 0 by the same rules.

Response. The mean response time of each output in the cycle is compared with its target. If an output had no answers but its
input is waiting, the waiting time counts as response time. Windows make response times long even without overload. So
*accumulating* (the papers' UT) requires both a mean above twice the lowest mean seen and a queue that takes a part of the target
to process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from loadshed.cycle import InputCycle, OutputCycle

RATE_ALPHA = 0.175  # Smoothing factor of rates, as for costs and selectivities (Sharaf §3.3.3)
RATE_JUMP_SIGMAS = 3.0
# Number of batches by which a cycle may differ from the average without counting as a jump of the rate.
# A cycle may have one batch more or less by chance, and one batch more that was delayed from the last cycle.
RATE_JUMP_BATCHES = 2.0
# Shortest valid cycle, less than a tick of any clock; a shorter cycle could make rates infinite.
LEAST_CYCLE_S = 1e-9
ACCUMULATING_RATIO = 2.0  # Multiple of the lowest mean response time above which delay counts as growing (value of ALoMa's authors)
# Factor by which the stored lowest mean grows per cycle, so that an old minimum loses its effect: it doubles in about ten seconds.
LOWEST_AGEING = 1.01
# Queueing time, as a part of the target, below which a class does not count as accumulating.
ACCUMULATING_QUEUE = 0.1


@dataclass
class LoadMonitor:
    """Monitor of the offered work per second of one class."""

    _rates: dict[str, float] = field(default_factory=dict)
    _batches: dict[str, float] = field(default_factory=dict)
    """Mean number of tuples in a batch, by stream."""

    def offered_load(self, inputs: Sequence[InputCycle], cycle_s: float) -> float:
        """Return the offered load L0 in processors, after this load cycle."""
        return sum(self._rate(input_, cycle_s) * input_.work_s for input_ in inputs)

    def rate(self, stream: str) -> float:
        return self._rates.get(stream, 0.0)

    def _rate(self, input_: InputCycle, cycle_s: float) -> float:
        stream, offered = input_.stream, input_.offered
        if cycle_s < LEAST_CYCLE_S:  # The clock stood still or jumped back, so there is no rate.
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
    """Return how far the number of tuples in a cycle may differ from the expected number without counting as a jump."""
    return max(RATE_JUMP_SIGMAS * math.sqrt(expected + 1), RATE_JUMP_BATCHES * batch)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of the response monitor for one cycle of a class."""

    over_target: bool = False  # "OT": the mean response time of an output is above its target
    # True if the mean response time of an output is above its target by more than the setting `gap`, a fraction of the target.
    critical: bool = False
    accumulating: bool = False  # "UT": all means are within their targets, but delay grows
    rising: bool = False
    falling: bool = False
    worst: float = 0.0  # Largest mean response time of an output, divided by the output's target

    @property
    def name(self) -> str:
        if self.over_target:
            return "critical" if self.critical else "over target"
        return "accumulating" if self.accumulating else "normal"


@dataclass
class ResponseMonitor:
    """Monitor of response times, which remembers the last cycle and the lowest mean of each output."""

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
        # In a cycle without answers, the response time counts as neither rising nor falling.
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
