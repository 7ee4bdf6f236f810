"""Arrival times of the tuples of a simulated stream, in chunks of ascending times."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from configs.scenario.arrivals import (
    Arrivals,
    BurstArrivals,
    ConstantArrivals,
    PoissonArrivals,
    Stall,
    StepArrivals,
    TraceArrivals,
)

CHUNK = 1024


def arrival_chunks(
    settings: Arrivals, rng: random.Random, scale: float, end_s: float, stalls: Sequence[Stall] = ()
) -> Iterator[list[float]]:
    """Return chunks of arrival times before `end_s`, at `scale` times the declared rate. No tuple arrives during `stalls`."""
    times: Iterator[float]
    match settings:
        case ConstantArrivals():
            times = constant(settings.rate * scale, rng)
        case PoissonArrivals():
            times = grouped(poisson(settings.rate * scale, rng), settings.together)
        case BurstArrivals():
            times = bursts(settings, scale, rng)
        case StepArrivals():
            times = steps(settings, scale, rng)
        case TraceArrivals():
            times = trace(settings, scale)
    return chunked(before(end_s, stalled(times, stalls, scale) if stalls else times))


def chunked(times: Iterable[float]) -> Iterator[list[float]]:
    times = iter(times)
    while chunk := list(itertools.islice(times, CHUNK)):
        yield chunk


def constant(rate: float, rng: random.Random) -> Iterator[float]:
    # The first arrival is at a random time within a gap, so that streams of equal rate do not all have tuples at the same moments.
    gap, phase = 1 / rate, rng.random()
    return ((number + phase) * gap for number in itertools.count())


def poisson(rate: float, rng: random.Random, start_s: float = 0.0) -> Iterator[float]:
    now = start_s
    while True:
        now += rng.expovariate(rate)
        yield now


def grouped(times: Iterator[float], together: int) -> Iterator[float]:
    """Yield times in groups of `together`: all tuples of a group arrive at the time of its first tuple."""
    if together == 1:
        return times
    return (group[0] for group in iter(lambda: list(itertools.islice(times, together)), []) for _ in group)


def bursts(settings: BurstArrivals, scale: float, rng: random.Random) -> Iterator[float]:
    """Yield Poisson arrivals during ON periods; lengths of ON and OFF periods follow Pareto distributions."""
    on_part = settings.on_s / (settings.on_s + settings.off_s)
    rate_on = settings.rate * scale / on_part
    now = 0.0
    while True:
        end_on = now + pareto(settings.on_s, settings.alpha, rng)
        yield from before(end_on, poisson(rate_on, rng, now))
        now = end_on + pareto(settings.off_s, settings.alpha, rng)


def before(end_s: float, times: Iterator[float]) -> Iterator[float]:
    return itertools.takewhile(lambda time: time < end_s, times)


def pareto(mean: float, alpha: float, rng: random.Random) -> float:
    """Return a Pareto-distributed number with the given mean; the smallest possible number is mean·(α−1)/α."""
    return mean * (alpha - 1) / alpha * rng.paretovariate(alpha)


def steps(settings: StepArrivals, scale: float, rng: random.Random) -> Iterator[float]:
    """Yield equally spaced times at the current rate; a gap that has begun continues when the rate changes."""
    due = rng.random()  # Part of the present gap that is left until the next tuple, as a fraction of a gap
    ends = [step.at_s for step in settings.steps[1:]] + [float("inf")]
    for step, end in zip(settings.steps, ends, strict=True):
        rate, now = step.rate * scale, step.at_s
        while rate > 0 and now + due / rate < end:
            now += due / rate
            due = 1.0
            yield now
        due -= (end - now) * rate if rate > 0 else 0.0


def trace(settings: TraceArrivals, scale: float) -> Iterator[float]:
    for lap in itertools.count() if settings.repeat else range(1):
        for time in settings.times_s:
            yield (lap * settings.times_s[-1] + time) / scale


def stalled(times: Iterator[float], stalls: Sequence[Stall], scale: float) -> Iterator[float]:
    """Yield the times at which tuples arrive that a producer makes at the given times. The producer sends nothing during its stalls."""
    ahead = deque(stalls)
    ready = gap = (
        0.0  # Earliest time at which the producer can send again, and its distance between two tuples
    )
    for time in times:
        sent = max(time, ready)
        while ahead and ahead[0].end_s <= sent:
            ahead.popleft()
        if ahead and ahead[0].at_s <= sent:
            stall = ahead[0]
            if not stall.collects and time >= stall.at_s:
                continue
            sent = stall.end_s
            gap = 0.0 if stall.catch_up_rate is None else 1 / (stall.catch_up_rate * scale)
        # A tuple that is sent when it is made has no collected tuples before it.
        ready = sent + gap if sent > time else sent
        yield sent
