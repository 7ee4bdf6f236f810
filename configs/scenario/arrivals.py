"""Arrivals of a stream: constant, Poisson, ON/OFF bursts, changing rates, or a recorded trace; and stalls, in which a stream is silent.
Rates are tuples per second.
"""

from __future__ import annotations

import itertools
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from configs.base import NonNegative, Positive, Settings
from configs.errors import Contradiction


class RatedArrivals(Settings):
    """Arrivals with a declared mean rate."""

    rate: Positive
    """Mean number of tuples per second, over ON and OFF periods together."""

    def mean_rate(self) -> float:
        return self.rate


class ConstantArrivals(RatedArrivals):
    """Arrivals at equal distances, with `rate` tuples per second."""

    kind: Literal["constant"]


class PoissonArrivals(RatedArrivals):
    """Poisson arrivals, which have exponentially distributed gaps, with `rate` tuples per second on average."""

    kind: Literal["poisson"]
    together: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Number of tuples that arrive together, at the time of the first tuple (Sharaf §4.4.2)."""


class BurstArrivals(RatedArrivals):
    """Arrivals in ON and OFF periods with Pareto-distributed lengths: Poisson arrivals in ON periods, none in OFF periods.

    With α ≤ 2 the lengths have no finite variance, which makes arrivals bursty on every time scale, like network traffic.
    """

    kind: Literal["bursts"]
    on_s: Positive
    off_s: Positive
    alpha: Annotated[float, Field(gt=1, le=10)] = 1.5


class RateStep(Settings):
    """Rate in tuples per second from the time `at_s` on."""

    at_s: NonNegative
    rate: NonNegative


class StepArrivals(Settings):
    """Arrivals at equal distances, with a rate that changes at given times."""

    kind: Literal["steps"]
    steps: tuple[RateStep, ...] = Field(min_length=1, max_length=100_000)

    @model_validator(mode="after")
    def in_order(self) -> Self:
        times = [step.at_s for step in self.steps]
        if times[0] != 0:
            hint = "begin with `at_s: 0`, rate 0 if silent"
            raise Contradiction("the first rate step must have at_s 0", "steps[0].at_s", times[0], hint)
        for place, (earlier, later) in enumerate(itertools.pairwise(times), start=1):
            if later <= earlier:
                title = f"each rate step must come after the previous step, which is at {earlier:g} s"
                hint = "list the steps in rising order of at_s"
                raise Contradiction(title, f"steps[{place}].at_s", later, hint)
        return self

    def mean_rate(self) -> float:
        """Return the highest declared rate; `offered_load` is the load at this rate, not at the mean rate."""
        return max(step.rate for step in self.steps)


class TraceArrivals(Settings):
    """Recorded arrival times in seconds, in ascending order; with `repeat`, the recording is repeated until the end of the run."""

    kind: Literal["trace"]
    times_s: tuple[NonNegative, ...] = Field(min_length=1, max_length=1_000_000)
    repeat: bool = False

    @model_validator(mode="after")
    def ascending(self) -> Self:
        for place, (earlier, later) in enumerate(itertools.pairwise(self.times_s), start=1):
            if later < earlier:
                title = f"each time must not be earlier than the previous time, {earlier:g}"
                hint = "sort the times"
                raise Contradiction(title, f"times_s[{place}]", later, hint)
        if self.repeat and self.times_s[-1] <= 0:
            title = "a trace that repeats must last longer than 0 s"
            hint = "end the trace with the time at which it starts again, or leave out repeat"
            raise Contradiction(title, "times_s", list(self.times_s), hint)
        return self

    def mean_rate(self) -> float:
        return len(self.times_s) / self.times_s[-1] if self.times_s[-1] > 0 else float(len(self.times_s))


Arrivals = Annotated[
    ConstantArrivals | PoissonArrivals | BurstArrivals | StepArrivals | TraceArrivals,
    Field(discriminator="kind"),
]


class Stall(Settings):
    """Time in which a stream is silent, while its producer collects tuples or sleeps."""

    at_s: NonNegative
    for_s: Positive
    collects: bool = True
    """Collect the tuples of the stall, and send them after the stall; if false, the producer makes no tuples during the stall."""

    catch_up_rate: Positive | None = None
    """Rate in tuples per second at which the producer sends after the stall, until it has sent all collected tuples. Default: all
    collected tuples arrive together at the end of the stall. With `offered_load`, this rate is scaled like the rates of arrivals."""

    @property
    def end_s(self) -> float:
        return self.at_s + self.for_s

    @model_validator(mode="after")
    def catches_up_only_after_collecting(self) -> Self:
        if self.catch_up_rate is not None and not self.collects:
            title = "a stall without collected tuples has nothing to catch up"
            hint = "leave out catch_up_rate, or set `collects: true`"
            raise Contradiction(title, "catch_up_rate", self.catch_up_rate, hint)
        return self


def one_after_another(stalls: tuple[Stall, ...]) -> tuple[Stall, ...]:
    """Return the stalls; raise Contradiction unless each stall begins after the end of the previous stall."""
    for place, (earlier, later) in enumerate(itertools.pairwise(stalls), start=1):
        if later.at_s <= earlier.end_s:
            title = f"each stall must begin after the previous stall, which ends at {earlier.end_s:g} s"
            hint = "list the stalls in rising order of at_s, or join the two stalls into a longer stall"
            raise Contradiction(title, f"[{place}].at_s", later.at_s, hint)
    return stalls


Stalls = Annotated[tuple[Stall, ...], Field(max_length=10_000), AfterValidator(one_after_another)]
