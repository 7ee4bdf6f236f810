"""Cost of the control loop: a turn, a load cycle of one class, and a redistribution of capacity."""

from __future__ import annotations

import random

from bench.measure import Figure, seconds_each
from configs.classes.load_manager import LoadSettings
from loadshed.cycle import CycleEnded, InputCycle, OutputCycle
from loadshed.manager import LoadManager
from scheduler.capacity.redistribution import ClassAccount, redistribute
from scheduler.turns.round_robin import ClassReady, Grant, SliceEnded, TurnRoundRobin

CLASSES = 1000
QUERIES = 11


def figures() -> list[Figure]:
    return [
        Figure("a turn among 1,000 backlogged classes", 1e6 * turn_s(), "µs"),
        Figure("an ALoMa cycle of a class of 11 queries", 1e6 * cycle_s(), "µs", limit=50.0),
        Figure("a redistribution of 1,000 classes", 1e3 * redistribution_s(), "ms", limit=5.0),
    ]


def turn_s() -> float:
    lanes = TurnRoundRobin({f"c{number}": 1 / CLASSES for number in range(CLASSES)}, round_s=0.01)
    granted: tuple[Grant, ...] = ()
    for name in lanes.shares:
        granted = lanes.handle(ClassReady(name), 0.0) or granted

    def turn() -> None:
        nonlocal granted
        one = granted[0]
        granted = lanes.handle(SliceEnded(one.name, one.lane, one.quota_s, backlog=True), 0.0)

    return seconds_each(turn, 5000)


def cycle_s() -> float:
    manager = LoadManager("c", LoadSettings(), target_s=0.5, share=0.3, original_share=0.3)
    rng = random.Random(1)
    cycles = [
        CycleEnded(
            0.15,
            tuple(InputCycle(name, rng.randrange(150, 250), 2e-3) for name in ("readings", "alerts")),
            tuple(OutputCycle(f"q{n}", 0.5, 20, rng.uniform(0.2, 0.7)) for n in range(QUERIES)),
            rng.uniform(0.0, 0.1),
        )
        for _ in range(100)
    ]

    def hundred() -> None:
        for number, cycle in enumerate(cycles):
            manager.handle(cycle, 0.15 * number)

    return seconds_each(hundred, 20) / len(cycles)


def redistribution_s() -> float:
    rng = random.Random(1)
    priorities = [rng.randint(1, 10) for _ in range(CLASSES)]
    total = sum(priorities)
    accounts = [
        ClassAccount(f"c{number}", priority, priority / total, priority / total, rng.uniform(0.0, 2.0))
        for number, priority in enumerate(priorities)
    ]
    return seconds_each(lambda: redistribute(accounts), 20)
