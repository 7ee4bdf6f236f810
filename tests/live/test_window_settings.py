"""When windows that slide by at most so much are answered is said anew while tuples flow (`windows` of a class), on Ray."""

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
# Of event time, in milliseconds.
RANGES = {"exact": 6000, "slow": 12_000, "fast": 4000}
BOUNDS = {"exact": 3000, "slow": 6000, "fast": 2000}
BATCH_MS, ROWS = 500, 20
# What `slow` slides by under each of them: its bound, or that of `fast`.
COURSE: list[tuple[PeriodicKind, int]] = [("none", 6000), ("aggressive", 2000), ("conservative", 6000)]
# Answers in a row by which a setting is known to be in force.
IN_A_ROW = 10


def said(schedule: PeriodicKind) -> LiveClass:
    more = {"windows": WindowSettings(schedule=schedule)}
    return runs.declared("periodic", 1.0, [STREAM], QUERIES, **more)


@dataclass
class Flow:
    """Tuples that come in the order of their event time until it is enough."""

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
    """Start, end, count and sum, as they were handed out; their numbers run from 0 on without gap or repetition."""
    ((name, unit),) = runs.units(system).items()
    log = AnswerReader(RunDirs(shared_memory(), system.name, unit.home), name)
    tables = runs.numbered(log, query)
    columns = (
        [np.concatenate([one[place].to_numpy() for one in tables]) for place in range(4)] if tables else []
    )
    return list(zip(*(one.astype(np.int64).tolist() for one in columns), strict=True))


def life(system: System) -> tuple[int, float]:
    """Of its process, which no change of settings ends."""
    (unit,) = runs.units(system).values()
    assert unit.report is not None
    assert unit.report.counted is not None
    return unit.report.counted.life


def steps(system: System, query: str) -> list[int]:
    return [after[1] - before[1] for before, after in pairwise(answered(system, query))]


def slides_by(system: System, step: int, before: int) -> bool:
    """Whether the last answers of `slow`, all after so many, are by this."""
    return steps(system, "slow")[before:][-IN_A_ROW:] == [step] * IN_A_ROW


def test_windows_slide_by_the_settings_there_are_and_no_answer_is_lost_or_given_twice(tmp_path: Path) -> None:
    # Nothing is answered for the clock's going on: what there is at the end is a function of what was published.
    with runs.started(LiveSettings(idle_after_s=None), tmp_path) as system:
        runs.host(system, [said(COURSE[0][0])])
        lives = set()
        with flowing(system) as flow:
            for schedule, step in COURSE:
                before = len(steps(system, "slow"))
                system.apply([said(schedule)])
                look = partial(slides_by, system, step, before)
                eventually(look, f"windows of schedule {schedule}")
                lives.add(life(system))
        figures = runs.worked_off(system, runs.offered([said("none")], flow.publisher.accepted))["periodic"]
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
    # Ends are multiples of what windows slide by: from one setting to the next, one step may be a shorter one.
    assert [step for step in slides if step != 4000] == [6000, 2000, 6000]
    assert {b[1] - a[1] for a, b in pairwise(found["exact"])} == {3000}
