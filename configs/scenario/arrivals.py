"""How the tuples of a stream arrive: constant, Poisson, ON/OFF bursts, steps, or a recorded trace."""

from __future__ import annotations

import itertools
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from configs.base import NonNegative, Positive, Settings
from configs.errors import Contradiction


class ConstantArrivals(Settings):
    """Equally spaced."""

    kind: Literal["constant"]
    rate: Positive

    def mean_rate(self) -> float:
        return self.rate


class PoissonArrivals(Settings):
    """Exponential gaps."""

    kind: Literal["poisson"]
    rate: Positive
    together: Annotated[int, Field(ge=1, le=100_000)] = 1
    """So many in a row come at once, when the first of them would (Sharaf §4.4.2)."""

    def mean_rate(self) -> float:
        return self.rate


class BurstArrivals(Settings):
    """ON/OFF with Pareto-distributed period lengths; Poisson while on, silent while off.

    With α ≤ 2 the lengths have no finite variance, which is what makes network traffic bursty on every scale.
    """

    kind: Literal["bursts"]
    rate: Positive
    """Mean over on and off periods."""

    on_s: Positive
    off_s: Positive
    alpha: Annotated[float, Field(gt=1, le=10)] = 1.5

    def mean_rate(self) -> float:
        return self.rate


class RateStep(Settings):
    """From `at_s` on, this rate."""

    at_s: NonNegative
    rate: NonNegative


class StepArrivals(Settings):
    """Equally spaced at a rate that changes at given times."""

    kind: Literal["steps"]
    steps: tuple[RateStep, ...] = Field(min_length=1, max_length=100_000)

    @model_validator(mode="after")
    def in_order(self) -> Self:
        times = [step.at_s for step in self.steps]
        if times[0] != 0:
            raise Contradiction(
                "the first step must be at 0 s",
                "steps[0].at_s",
                times[0],
                "begin with `at_s: 0`, rate 0 if silent",
            )
        for place, (earlier, later) in enumerate(itertools.pairwise(times), start=1):
            if later <= earlier:
                raise Contradiction(
                    f"must come after the step before it, which is at {earlier:g} s",
                    f"steps[{place}].at_s",
                    later,
                    "list the steps in rising order of at_s",
                )
        return self

    def mean_rate(self) -> float:
        """The highest rate: what a load is meant at."""
        return max(step.rate for step in self.steps)


class TraceArrivals(Settings):
    """Recorded arrival times in seconds, ascending; repeated until the end of the run if `repeat`."""

    kind: Literal["trace"]
    times_s: tuple[NonNegative, ...] = Field(min_length=1, max_length=1_000_000)
    repeat: bool = False

    @model_validator(mode="after")
    def ascending(self) -> Self:
        for place, (earlier, later) in enumerate(itertools.pairwise(self.times_s), start=1):
            if later < earlier:
                raise Contradiction(
                    f"must not be earlier than the time before it, {earlier:g}",
                    f"times_s[{place}]",
                    later,
                    "sort the times",
                )
        if self.repeat and self.times_s[-1] <= 0:
            raise Contradiction(
                "a trace that repeats must last longer than 0 s",
                "times_s",
                list(self.times_s),
                "end it with the time at which it starts again, or leave out repeat",
            )
        return self

    def mean_rate(self) -> float:
        return len(self.times_s) / self.times_s[-1] if self.times_s[-1] > 0 else float(len(self.times_s))


Arrivals = Annotated[
    ConstantArrivals | PoissonArrivals | BurstArrivals | StepArrivals | TraceArrivals,
    Field(discriminator="kind"),
]
