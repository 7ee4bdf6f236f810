"""Scenarios of the demonstration: the classes of the DILoS paper with the queries of workload W11, scaled to the machine.

Loads are fractions of the capacity that calibration has measured. In the presets that copy the paper, the three classes of
`dilos-sc` together are offered about this capacity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from configs.classes.live_class import LiveClass
from configs.errors import InvalidInput, UnknownName, nearest
from configs.scenario import w11
from configs.scenario.arrivals import ConstantArrivals, RateStep, StepArrivals
from configs.scenario.scenario import Scenario, load_scenario

WHOLE = "dilos-sc"
READINGS = "readings"
# In the scenario `overload`, the class with the highest priority asks for this fraction of its share.
ENTITLED_PART = 0.8


@dataclass(frozen=True, slots=True)
class DemoScenario:
    """Scenario of the demonstration."""

    preset: str
    load: float
    """Offered load as a multiple of the machine's capacity, unless `--load` is given."""
    lane_part: float = 0.2
    """Fraction of each processor for queries, unless `--lane-part` is given. Spark needs the rest to produce the input."""
    overloads: bool = False
    description: str = ""
    phases: Mapping[str, Sequence[tuple[float, float]]] | None = None
    """Pairs of (start as a fraction of the run, load as a fraction of the capacity) by class; None for the preset's own rates."""


# Classes 1, 2 and 3 are entitled to 0.6, 0.3 and 0.1 of the machine. At first, the share of each class is larger than its load.
# Then class 1 becomes idle, and class 2 asks for far more than its share: a loan is visible even if Spark brings less input than planned.
# Later, class 1 asks for its share again while class 2 still asks for too much. At the end, class 3 borrows from classes 1 and 2.
LENDING: Mapping[str, Sequence[tuple[float, float]]] = {
    "class1": ((0.0, 0.3), (0.2, 0.05), (0.5, 0.45), (0.75, 0.05)),
    "class2": ((0.0, 0.15), (0.2, 0.85), (0.6, 0.15)),
    "class3": ((0.0, 0.05), (0.75, 0.75)),
}

SCENARIOS: Mapping[str, DemoScenario] = {
    "lending": DemoScenario(
        "dilos-sc",
        1.0,
        description="class 1 becomes idle and lends to class 2, gets its share back at once when its load returns, and becomes "
        "idle again, so that class 3 borrows",
        # Lanes get little of each processor, so that Spark can bring enough input for a loan even on a machine with one processor.
        lane_part=0.1,
        phases=LENDING,
    ),
    "sc": DemoScenario(
        "dilos-sc", 1.0, description="three classes at equal constant rates, together about the capacity"
    ),
    "steps": DemoScenario(
        "dilos-steps",
        1.0,
        description="class 1 changes its rate while classes 2 and 3 ask for more than their shares",
    ),
    "overload": DemoScenario(
        "overload-2x",
        2.0,
        overloads=True,
        description="class 1 asks for 0.8 of its share, classes 2 and 3 split the rest of the load",
    ),
}


def demo_scenario(name: str) -> DemoScenario:
    if name not in SCENARIOS:
        raise UnknownName("there is no scenario of this name", "--scenario", name, nearest(name, SCENARIOS))
    return SCENARIOS[name]


def live_classes(scenario: DemoScenario, prefix: str = "", lossless: bool = False) -> list[LiveClass]:
    """Return the classes of the preset, each with its own streams and the eleven queries of W11."""
    return [
        LiveClass(
            name=f"{prefix}{class_.name}",
            priority=class_.priority,
            delay_target_ms=class_.delay_target_ms,
            streams=w11.streams(f"{prefix}{class_.name}_"),
            queries=w11.queries(f"{prefix}{class_.name}_"),
            lossless=lossless,
        )
        for class_ in load_scenario(scenario.preset).classes
    ]


def loads(scenario: DemoScenario, load: float, seconds: float) -> dict[str, list[tuple[float, float]]]:
    """Return pairs of (start in seconds, load as a fraction of the machine's capacity) by class."""
    if scenario.phases is not None:
        return {
            name: [(seconds * part, load * part_of_load) for part, part_of_load in phases]
            for name, phases in scenario.phases.items()
        }
    if scenario.overloads:
        return overload(load_scenario(scenario.preset), load)
    preset = load_scenario(scenario.preset)
    whole = sum(step.rate for sequence in steps(load_scenario(WHOLE)).values() for step in sequence)
    return {
        name: [(step.at_s / preset.seconds * seconds, load * step.rate / whole) for step in sequence]
        for name, sequence in steps(preset).items()
    }


def overload(preset: Scenario, load: float) -> dict[str, list[tuple[float, float]]]:
    """Return the load of each class: the first class asks for a part of its share, and the other classes split the rest evenly."""
    shares = preset.original_shares()
    first, *others = shares
    demand = ENTITLED_PART * shares[first]
    if load <= demand:
        raise InvalidInput(
            f"the load must be above {demand:g}, the load of class 1 alone",
            "--load",
            load,
            "write a larger load, or choose another scenario",
        )
    return {first: [(0.0, demand)]} | {name: [(0.0, (load - demand) / len(others))] for name in others}


def steps(preset: Scenario) -> dict[str, Sequence[RateStep]]:
    """Return the rates of readings by class."""
    steps_by_class: dict[str, Sequence[RateStep]] = {}
    for class_ in preset.classes:
        arrivals = class_.streams[READINGS].arrivals
        if isinstance(arrivals, StepArrivals):
            steps_by_class[class_.name] = arrivals.steps
        else:
            assert isinstance(arrivals, ConstantArrivals)
            steps_by_class[class_.name] = (RateStep(at_s=0, rate=arrivals.rate),)
    return steps_by_class


def rates(
    asked: Mapping[str, Sequence[tuple[float, float]]], capacity_per_s: float
) -> dict[str, StepArrivals]:
    """Return the rates in tuples per second by class, for a machine with this capacity."""
    return {
        name: StepArrivals(
            kind="steps", steps=tuple(RateStep(at_s=at_s, rate=part * capacity_per_s) for at_s, part in parts)
        )
        for name, parts in asked.items()
    }
