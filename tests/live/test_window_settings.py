"""The setting `windows` of a class, which schedules windows with SLIDE AT MOST, changes while tuples arrive, on Ray."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pyarrow as pa
import pytest

from actors.host.answer_reader import AnswerReader
from actors.runtime.run_dirs import RunDirs, shared_memory
from actors.system import System
from configs.classes.live_class import LiveClass, LiveSettings
from configs.classes.periodic_schedules import PeriodicKind
from configs.classes.window_settings import WindowSettings
from tests.live import runs
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

STREAM = "CREATE STREAM readings (ts int64, x int64, WATERMARK FOR ts AS ts)"
ANSWER = "SELECT window_start, window_end, COUNT(*) AS n, SUM(x) AS v FROM readings"
QUERIES = {
    "exact": f"{ANSWER} [RANGE 6 SECONDS SLIDE 3 SECONDS]",
    "slow": f"{ANSWER} [RANGE 12 SECONDS SLIDE AT MOST 6 SECONDS]",
    "fast": f"{ANSWER} [RANGE 4 SECONDS SLIDE AT MOST 2 SECONDS]",
}
# Ranges and greatest slides of the queries' windows, in milliseconds of event time.
RANGES = {"exact": 6000, "slow": 12_000, "fast": 4000}
BOUNDS = {"exact": 3000, "slow": 6000, "fast": 2000}
BATCH_MS, ROWS = 500, 20
# Schedules that are set one after another, each with the slide in ms that query `slow` has under the schedule.
COURSE: list[tuple[PeriodicKind, int]] = [("none", 6000), ("aggressive", 2000), ("conservative", 6000)]
# Number of equal slides in a row that show that a setting is in force.
IN_A_ROW = 10


def class_with(schedule: PeriodicKind) -> LiveClass:
    more = {"windows": WindowSettings(schedule=schedule)}
    return runs.declared("periodic", 1.0, [STREAM], QUERIES, **more)


@dataclass
class Flow:
    """Publisher of tuples in the order of event time, until `enough` is set."""

    publisher: runs.Publisher
    enough: Event = field(default_factory=Event)
    batches: int = 0

    def run(self) -> None:
        while not self.enough.wait(0.002):
            self.publisher.publish([("readings", batch(self.batches))])
            self.batches += 1


def batch(number: int) -> pa.RecordBatch:
    places = np.arange(number * ROWS, (number + 1) * ROWS)
    return pa.RecordBatch.from_pydict({"ts": places * BATCH_MS // ROWS, "x": places % 97})


@contextmanager
def flowing(system: System) -> Iterator[Flow]:
    flow = Flow(runs.Publisher(runs.folders(system, runs.node_of(system))))
    thread = Thread(target=flow.run)
    thread.start()
    try:
        yield flow
    finally:
        flow.enough.set()
        thread.join()


def answered(system: System, query: str) -> list[tuple[int, int, int, int]]:
    """Return start, end, count and sum of all answers, after checking that their sequence numbers have no gap or repetition."""
    ((name, unit),) = runs.units(system).items()
    log = AnswerReader(RunDirs(shared_memory(), system.name, unit.home), name)
    tables = runs.numbered(log, query)
    columns = (
        [np.concatenate([table[place].to_numpy() for table in tables]) for place in range(4)]
        if tables
        else []
    )
    return list(zip(*(column.astype(np.int64).tolist() for column in columns), strict=True))


def life(system: System) -> tuple[int, float]:
    """Return the identifier of the current process of the unit. A restart changes the identifier, and a change of settings must not."""
    (unit,) = runs.units(system).values()
    assert unit.report is not None
    assert unit.report.counted is not None
    return unit.report.counted.life


def steps(system: System, query: str) -> list[int]:
    return [after[1] - before[1] for before, after in pairwise(answered(system, query))]


def slides_by(system: System, step: int, before: int) -> bool:
    """Return True if the last windows of query `slow`, not counting the first `before` windows, slide by `step`."""
    return steps(system, "slow")[before:][-IN_A_ROW:] == [step] * IN_A_ROW


def test_changed_window_settings_take_effect_without_lost_or_repeated_answers(tmp_path: Path) -> None:
    # Without `idle_after_s` the clock closes no window, so the answers depend only on the published rows.
    with runs.started(LiveSettings(idle_after_s=None), tmp_path) as system:
        runs.host(system, [class_with(COURSE[0][0])])
        lives = set()
        with flowing(system) as flow:
            for schedule, step in COURSE:
                before = len(steps(system, "slow"))
                system.apply([class_with(schedule)])
                is_in_force = partial(slides_by, system, step, before)
                eventually(is_in_force, f"windows of schedule {schedule}")
                lives.add(life(system))
        figures = runs.worked_off(system, runs.offered([class_with("none")], flow.publisher.accepted))[
            "periodic"
        ]
        found = {query: answered(system, query) for query in QUERIES}
    assert (figures.delivered, len(lives)) == (flow.batches * ROWS, 1)
    places = np.arange(flow.batches * ROWS)
    times, values = places * BATCH_MS // ROWS, places % 97
    for query, rows in found.items():
        for start, end, count, total in rows:
            inside = (times >= start) & (times < end)
            assert (end - start, count, total) == (RANGES[query], inside.sum(), values[inside].sum()), query
        ends = [0, *(end for _, end, _, _ in rows), int(times[-1])]
        assert all(0 < after - before <= BOUNDS[query] for before, after in pairwise(ends[:-1])), query
        assert 0 <= ends[-1] - ends[-2] < BOUNDS[query], query
    slides = [step for step, _ in groupby(b - a for (_, a, *_), (_, b, *_) in pairwise(found["slow"]))]
    # The ends are multiples of the slide, so one distance between ends may be shorter where the setting changes.
    assert [step for step in slides if step != 4000] == [6000, 2000, 6000]
    assert {b[1] - a[1] for a, b in pairwise(found["exact"])} == {3000}
