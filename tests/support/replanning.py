"""Class that runs in the tests and is measured as in a live host. Forecasts of its other plans use the measurements."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from actors.host.tuning_sample import Noticed, UnitNow
from configs.classes.live_class import LiveClass
from configs.classes.plans import PlanSettings
from engine.class_.door import Piece
from engine.class_.hosted_class import HostedClass
from engine.data.train import Train, Values, same_arrival

READINGS = "CREATE STREAM readings (ts int64, sensor int32, temp float64, WATERMARK FOR ts AS ts)"
ALERTS = "CREATE STREAM alerts (ts int64, sensor int32, level float64, WATERMARK FOR ts AS ts)"
STREAMS = {"readings": READINGS, "alerts": ALERTS}
CYCLE_S = 0.15
# Milliseconds between two batches of a stream.
STEP_MS = 50


class RunningClass:
    """Running class that gets batches of both streams in turn. Each batch has `tuples` tuples with up to
    `keys` keys, and values uniform from 0 to 1.

    All times are processor times of this thread, so that nothing depends on other work of the machine.
    """

    def __init__(self, queries: Mapping[str, str], tuples: int, keys: int, **declared: Any) -> None:
        given = {"name": "gold", "priority": 1, "delay_target_ms": 300, "policy": {"kind": "auto"}}
        given |= {"streams": tuple(STREAMS.values()), "queries": queries}
        self.declared = LiveClass.model_validate(given | declared)
        self.hosted = HostedClass(self.declared, 10_000)
        self.noticed = Noticed(CYCLE_S, 10_000)
        self.noticed.follow(self.declared.policy, self.hosted)
        self.tuples, self.keys, self.batches, self.used_s = tuples, keys, 0, 0.0
        self.chance = np.random.default_rng(1)
        self.answers: Counter[tuple[Any, ...]] = Counter()
        for stream in STREAMS:
            self.hosted.begin(stream, 0, 0)

    def go_on(self, cycles: int, batches: int = 5) -> None:
        """Run the given number of load cycles, each with `batches` batches of each stream."""
        for _ in range(cycles):
            for _ in range(batches):
                for stream in STREAMS:
                    self._arrive(stream)
                self.used_s += self.hosted.run(60.0, time.thread_time, time.thread_time)
            self._answered()
            ended = self.hosted.end_cycle(CYCLE_S * self.batches, 0.1)
            self.noticed.cycle_ended(ended, 1.0, self.hosted, CYCLE_S * self.batches)

    def now(self, capacity: float = 1.0) -> UnitNow:
        found = self.noticed.now(self.hosted, capacity)
        assert found is not None
        return found

    @property
    def plans(self) -> set[PlanSettings]:
        """Return the plans by which the queries of the class run."""
        network = self.hosted.runner.network
        return {network.planned_as(name) for name in network.queries}

    def _arrive(self, stream: str) -> None:
        number, size = self.batches // 2, self.tuples
        self.batches += 1
        times = STEP_MS * number + np.sort(self.chance.integers(0, STEP_MS, size))
        sensors = self.chance.integers(0, self.keys, size).astype(np.int32)
        schema = self.hosted.queries.schemas[stream].schema
        columns = (times, sensors, self.chance.random(size))
        values = tuple(Values(one.type, data) for one, data in zip(schema.fields, columns, strict=True))
        train = Train(values, same_arrival(time.thread_time(), size))
        self.hosted.take(Piece(stream, number, size, 0, 0, train, None), (number + 1) * size)

    def _answered(self) -> None:
        commit = self.hosted.committed()
        for answer in commit.answers if commit is not None else ():
            columns = [one.data.tolist() for one in answer.train.columns]
            self.answers.update((answer.query, *row) for row in zip(*columns, strict=True))
