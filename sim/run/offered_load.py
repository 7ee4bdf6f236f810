"""Arrival rates and costs at which a simulated class offers the load that its scenario declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isclose

from configs.errors import InvalidInput
from configs.scenario.scenario import Scenario, SimulatedClass
from sim.run.arrivals import arrival_chunks
from sim.run.networks import BoxPlan, build_plan
from sim.run.rng import generator

# Allowed relative error of the factor by which a class's arrival rates are multiplied, and largest factor that is tried.
SCALE_ERROR, SCALE_MAX = 1e-9, 1e9


def scaled_plan(scenario: Scenario, settings: SimulatedClass, seed: int) -> tuple[BoxPlan, float]:
    """Return the class's operators, and the factor for its arrival rates that gives the declared offered load.

    For Sharaf's testbed, costs are scaled instead of rates, so that the load is right at the real mean rate of the trace
    (§3.7).
    """
    model = scenario.networks[settings.network]
    rates = {name: stream.arrivals.mean_rate() for name, stream in settings.streams.items()}
    if model.kind == "sharaf":
        rates = {stream: realised_rate(scenario, settings, stream, seed) for stream in rates}

    def plan_of(cost_scale: float) -> BoxPlan:
        return build_plan(
            model, scenario.costs, generator(seed, settings.name, "network"), cost_scale, scenario.seconds
        )

    plan = plan_of(1.0)
    train, offered = scenario.load_at_train, settings.offered_load
    if offered is None:
        return plan, 1.0
    if model.kind == "sharaf":
        return plan_of(offered / plan.load(train, rates)), 1.0
    if plan.load(train, {stream: rate * SCALE_MAX for stream, rate in rates.items()}) < offered:
        hint = "give the operators of the network a cost per tuple, or leave offered_load out"
        title = "no arrival rate is high enough for this offered load"
        raise InvalidInput(title, f"{settings.name}.offered_load", offered, hint)
    return plan, rate_scale(plan, train, rates, offered)


def rate_scale(plan: BoxPlan, train: int, rates: Mapping[str, float], offered: float) -> float:
    """Return the factor by which rates are multiplied to offer the load `offered`. With joins, the load grows faster than the rates."""

    def load(scale: float) -> float:
        return plan.load(train, {stream: rate * scale for stream, rate in rates.items()})

    linear = offered / load(1.0)
    if isclose(load(linear), offered):
        return linear
    low, high = 0.0, linear
    while load(high) < offered:
        high *= 2
    while high - low > SCALE_ERROR * high:
        middle = (low + high) / 2
        low, high = (middle, high) if load(middle) < offered else (low, middle)
    return high


def realised_rate(scenario: Scenario, settings: SimulatedClass, stream: str, seed: int) -> float:
    chunks = arrivals_of(scenario, settings, stream, 1.0, seed)
    return max(1, sum(len(chunk) for chunk in chunks)) / scenario.seconds


def arrivals_of(
    scenario: Scenario, settings: SimulatedClass, stream: str, scale: float, seed: int
) -> Iterator[list[float]]:
    rng = generator(seed, settings.name, stream, "arrivals")
    given = settings.streams[stream]
    return arrival_chunks(given.arrivals, rng, scale, scenario.seconds, given.stalls)
