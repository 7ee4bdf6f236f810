"""The feeder, a Spark source that replays files, is called without Spark: rates, laps, offsets, event times, options and files."""

import gzip
import itertools
import json
import math
import pickle
import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import DoubleType, LongType, StringType, StructType, TimestampType
from pyspark_weir_feeder import DefaultSource
from pyspark_weir_feeder.arrivals import PIECE_ROWS, Arrivals, Bursts, Poisson, Schedule, Steps, schedule_of
from pyspark_weir_feeder.conditions import parse_split, with_stream
from pyspark_weir_feeder.offsets import Bounds, Offset, advanced, rows_between
from pyspark_weir_feeder.options import NAMES, read_options
from pyspark_weir_feeder.problems import ChangedReplay, FeederError, InvalidOption
from pyspark_weir_feeder.replay import TILE_ROWS, Replay
from pyspark_weir_feeder.source import PARTITION_ROWS, FeederReader

from configs.scenario.arrivals import Arrivals as SimulatedArrivals
from configs.scenario.arrivals import BurstArrivals, ConstantArrivals, PoissonArrivals, RateStep, StepArrivals
from sim.run.arrivals import arrival_chunks
from tests.support.checkout import ROOT

BEGAN_US = 1_800_000_000_000_000
FILE_US = 1_700_000_000_000_000
SECOND = 1_000_000
PAGE = ROOT / "docs" / "feeder.md"
STEPS = ((0.0, 40.0), (2.0, 0.0), (5.0, 7.5), (6.5, 100.0))
UTC = pa.timestamp("us", "UTC")

SCHEDULES: dict[str, Callable[[], Schedule]] = {
    "constant": lambda: Steps(((0.0, 90.0),), seed=3),
    "steps": lambda: Steps(STEPS, seed=3),
    "steps, silent at last": lambda: Steps(((0.0, 300.0), (4.0, 0.0)), seed=3),
    "poisson": lambda: Poisson(90.0, seed=3),
    "fast poisson": lambda: Poisson(50_000.0, seed=3),
    "bursts": lambda: Bursts(90.0, 0.5, 1.5, 1.5, seed=3),
    "fast bursts": lambda: Bursts(50_000.0, 0.02, 0.03, 1.2, seed=3),
}
EVERY_SCHEDULE = pytest.mark.parametrize("kind", SCHEDULES)


# -- arrival times of rows --------------------------------------------------------------------------------


def simulator_arrivals(arrivals: SimulatedArrivals, end_s: float, seed: int) -> list[float]:
    return list(itertools.chain(*arrival_chunks(arrivals, random.Random(seed), 1.0, end_s)))


def feeder_arrivals(schedule: Schedule, end_s: float) -> list[float]:
    return list(schedule.times(0, schedule.due(end_s)))


def dispersion(moments: Sequence[float], window_s: float, end_s: float) -> float:
    """Return the variance of the counts in windows, divided by the mean of the counts. The result is 1 for a Poisson stream."""
    counts, _ = np.histogram(moments, bins=round(end_s / window_s), range=(0, end_s))
    return float(counts.var() / counts.mean())


def ks_distance(some: Iterable[float], others: Iterable[float]) -> float:
    """Return the Kolmogorov–Smirnov distance of two samples, divided by its critical value for 0.1%."""
    left, right = np.sort(list(some)), np.sort(list(others))
    both = np.concatenate((left, right))
    gap = np.searchsorted(left, both, "right") / len(left) - np.searchsorted(right, both, "right") / len(
        right
    )
    return float(np.abs(gap).max() / (1.95 * math.sqrt(1 / len(left) + 1 / len(right))))


def silences(moments: Sequence[float], least_s: float) -> list[float]:
    return [gap for gap in np.diff(moments) if gap > least_s]


@pytest.mark.parametrize("seed", [1, 7])
def test_constant_arrivals_equal_the_simulators_arrivals(seed: int) -> None:
    expected = simulator_arrivals(ConstantArrivals(kind="constant", rate=130), 20, seed)
    moments = feeder_arrivals(schedule_of(Arrivals("constant", seed, rate=130.0)), 20)
    assert moments == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", [1, 7])
def test_step_arrivals_equal_the_simulators_arrivals(seed: int) -> None:
    steps = tuple(RateStep(at_s=at_s, rate=rate) for at_s, rate in STEPS)
    expected = simulator_arrivals(StepArrivals(kind="steps", steps=steps), 20, seed)
    moments = feeder_arrivals(schedule_of(Arrivals("steps", seed, steps=STEPS)), 20)
    assert moments == pytest.approx(expected, rel=1e-12)


def test_poisson_arrivals_follow_the_simulators_distribution() -> None:
    expected = simulator_arrivals(PoissonArrivals(kind="poisson", rate=200), 1000, 1)
    moments = feeder_arrivals(schedule_of(Arrivals("poisson", 1, rate=200.0)), 1000)
    assert len(moments) > 5 * PIECE_ROWS
    assert len(moments) == pytest.approx(200_000, abs=4 * math.sqrt(200_000))
    assert ks_distance(np.diff(moments), np.diff(expected)) < 1
    assert dispersion(moments, 0.5, 1000) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("alpha", [1.5, 3.0, 8.0])
def test_bursts_follow_the_simulators_distribution(alpha: float) -> None:
    settings = BurstArrivals(kind="bursts", rate=400, on_s=0.5, off_s=1.0, alpha=alpha)
    expected = simulator_arrivals(settings, 2000, 2)
    moments = feeder_arrivals(schedule_of(Arrivals("bursts", 2, 400.0, 0.5, 1.0, alpha)), 2000)
    least_off_s = 1.0 * (alpha - 1) / alpha
    assert ks_distance(silences(moments, least_off_s), silences(expected, least_off_s)) < 1
    within = [[gap for gap in np.diff(part) if gap < 0.01] for part in (moments, expected)]
    assert ks_distance(*within) < 1
    bursts = [
        [len(burst) for burst in np.split(part, np.flatnonzero(np.diff(part) > least_off_s) + 1)]
        for part in (moments, expected)
    ]
    assert ks_distance(*bursts) < 1


def test_bursts_with_light_tails_keep_their_mean_rate() -> None:
    assert Bursts(400.0, 0.5, 1.0, 8.0, seed=1).due(5000.0) == pytest.approx(2_000_000, rel=0.02)


@EVERY_SCHEDULE
@given(elapsed_s=st.floats(0, 30), first=st.integers(0, 900), rows=st.integers(0, 300))
def test_rows_are_due_once_their_arrival_time_has_passed(
    kind: str, elapsed_s: float, first: int, rows: int
) -> None:
    schedule = SCHEDULES[kind]()
    due = schedule.due(elapsed_s)
    near = schedule.times(max(0, due - 50), due + 50)
    assert due - max(0, due - 50) == int((near < elapsed_s).sum())
    moments = schedule.times(first, first + rows)
    assert len(moments) == rows
    finite = moments[np.isfinite(moments)]
    assert (np.diff(finite) >= 0).all()
    for row, moment in list(enumerate(finite, start=first))[:3]:
        assert schedule.due(math.nextafter(moment, math.inf)) > row
        assert schedule.due(moment) <= row


@EVERY_SCHEDULE
@given(cuts=st.lists(st.integers(0, 120_000), min_size=2, max_size=6))
def test_arrival_times_of_rows_are_the_same_however_they_are_requested_in_parts(
    kind: str, cuts: list[int]
) -> None:
    cuts.sort()
    whole = SCHEDULES[kind]().times(cuts[0], cuts[-1])
    schedule = SCHEDULES[kind]()
    parts = [schedule.times(first, end) for first, end in reversed([*itertools.pairwise(cuts)])]
    np.testing.assert_array_equal(np.concatenate(parts[::-1]), whole)


@EVERY_SCHEDULE
def test_no_row_of_the_feeder_is_due_at_its_start_time_or_before(kind: str) -> None:
    assert [SCHEDULES[kind]().due(elapsed_s) for elapsed_s in (-5.0, 0.0)] == [0, 0]


@pytest.mark.parametrize("kind", ["poisson", "bursts"])
def test_different_seeds_give_different_arrivals(kind: Any) -> None:
    first, second = (schedule_of(Arrivals(kind, seed, 100.0, 1.0, 1.0, 1.5)).times(0, 100) for seed in (1, 2))
    assert not (first == second).any()


def test_arrivals_keep_their_rate_after_days() -> None:
    day_s = 86_400.0
    for schedule in (Poisson(20_000.0, seed=1), Bursts(20_000.0, 1.0, 2.0, 3.0, seed=1)):
        due = schedule.due(3 * day_s)
        assert due == pytest.approx(20_000 * 3 * day_s, rel=0.05)
        assert (schedule.times(due - 1000, due) < 3 * day_s).all()


# -- offsets in the endless replay ------------------------------------------------------------------------

START = Offset(row=0, missed=0, began_us=BEGAN_US, base=0, arrivals="a", replay="r")


@given(
    waits_us=st.lists(st.integers(0, 3 * SECOND), max_size=30),
    max_rows=st.none() | st.integers(1, 200),
    catch_up_s=st.none() | st.floats(0, 2),
    rows=st.none() | st.integers(1, 1000),
)
def test_every_due_row_is_in_a_micro_batch_or_counted_as_missed(
    waits_us: list[int], max_rows: int | None, catch_up_s: float | None, rows: int | None
) -> None:
    schedule, bounds = Steps(STEPS, seed=1), Bounds(rows, max_rows, catch_up_s)
    offset, now_us, given_out = START, BEGAN_US, 0
    for wait_us in waits_us:
        now_us += wait_us
        end = advanced(offset, now_us, schedule, bounds)
        batch = rows_between(offset, end)
        due = min(schedule.due((now_us - BEGAN_US) / 1e6), rows or 10**9)
        assert batch.stop == end.row <= due
        assert max_rows is None or len(batch) <= max_rows
        if max_rows is None:
            assert end.row == due
        if catch_up_s is not None and batch:
            behind_us = now_us - round(catch_up_s * 1e6) - BEGAN_US
            assert batch.start >= min(schedule.due(behind_us / 1e6), rows or 10**9)
        if catch_up_s is None:
            assert end.missed == 0
        given_out += len(batch)
        offset = end
    assert given_out + offset.missed == offset.row


def test_only_rows_older_than_the_catch_up_time_are_missed() -> None:
    schedule = Steps(((0.0, 100.0),), seed=1)
    end = advanced(START, BEGAN_US + 60 * SECOND, schedule, Bounds(None, None, catch_up_s=5.0))
    assert (end.row, end.missed) == (6000, 5500)
    assert rows_between(START, end) == range(5500, 6000)


def test_limit_of_rows_per_micro_batch_does_not_count_missed_rows() -> None:
    schedule = Steps(((0.0, 100.0),), seed=1)
    end = advanced(START, BEGAN_US + 60 * SECOND, schedule, Bounds(None, 30, catch_up_s=5.0))
    assert rows_between(START, end) == range(5500, 5530)


def test_clock_set_back_leaves_the_offset_unchanged() -> None:
    schedule = Steps(((0.0, 100.0),), seed=1)
    ahead = advanced(START, BEGAN_US + 10 * SECOND, schedule, Bounds(None, None, None))
    assert advanced(ahead, BEGAN_US + 5 * SECOND, schedule, Bounds(None, None, None)) is ahead


# -- rows, laps (passes through the files) and event times ------------------------------------------------


def readings(rows: int, gap_us: int = 1000) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "ts": pa.array([FILE_US + number * gap_us for number in range(rows)]).cast(UTC),
            "temp": pa.array([float(number % 50) for number in range(rows)]),
            "room": pa.array([None if number % 7 == 0 else f"r{number % 5}" for number in range(rows)]),
        }
    )


def whole(replay: Replay, first: int, end: int) -> list[dict[str, Any]]:
    return pa.Table.from_batches(replay.batches(first, end)).to_pylist() if first < end else []


def oracle(table: pa.Table, first: int, end: int, lap: int) -> list[dict[str, Any]]:
    """Return rows of the endless replay. Each row is computed separately from the definition of the replay."""
    rows = table.to_pylist()
    times = table["ts"].cast(pa.int64()).to_pylist()
    found = []
    for number in range(first, end):
        laps, place = divmod(number, len(rows))
        moment = None if times[place] is None else times[place] + laps * lap
        found.append(rows[place] | {"ts": pa.scalar(moment, pa.int64()).cast(UTC).as_py()})
    return found


@given(
    times=st.lists(st.none() | st.integers(0, 10**6), min_size=1, max_size=40),
    first=st.integers(0, 10**7),
    rows=st.integers(0, 200),
    pieces=st.integers(1, 4),
)
def test_replayed_rows_equal_those_of_a_simple_definition_of_the_replay(
    times: list[int | None], first: int, rows: int, pieces: int
) -> None:
    table = pa.table({"id": range(len(times)), "ts": pa.array(times, pa.int64()).cast(UTC)})
    cut = -(-len(times) // pieces)
    chunked = pa.concat_tables([table.slice(start, cut) for start in range(0, len(times), cut)])
    known = [moment for moment in times if moment is not None]
    reach = max(known) - min(known) if known else 0
    lap = reach + max(1, round(reach / max(1, len(known) - 1))) if known else 1
    assert whole(Replay(chunked, "ts"), first, first + rows) == oracle(table, first, first + rows, lap)


@pytest.mark.parametrize("rows", [3, 1000, TILE_ROWS - 1, TILE_ROWS, TILE_ROWS + 1])
def test_event_time_continues_from_lap_to_lap(rows: int) -> None:
    replay = Replay(readings(rows, gap_us=1000), "ts")
    table = pa.Table.from_batches(replay.batches(0, 3 * rows + 1))
    times = table["ts"].cast(pa.int64()).to_numpy()
    np.testing.assert_array_equal(times, FILE_US + np.arange(3 * rows + 1) * 1000)
    np.testing.assert_array_equal(table["id"].to_numpy(), np.arange(3 * rows + 1) % rows)


def test_many_laps_over_a_short_file_are_read_in_few_batches() -> None:
    slices = list(Replay(readings(3), "ts").batches(0, 100_000))
    assert len(slices) <= 3


@given(cuts=st.lists(st.integers(0, 400_000), min_size=2, max_size=6))
def test_replayed_rows_are_the_same_however_they_are_requested_in_parts(cuts: list[int]) -> None:
    cuts.sort()
    replay = Replay(readings(70_001), "ts")
    parts = [batch for first, end in itertools.pairwise(cuts) for batch in replay.batches(first, end)]
    together = list(replay.batches(cuts[0], cuts[-1]))
    assert sum(batch.num_rows for batch in together) == cuts[-1] - cuts[0]
    if together:
        assert pa.Table.from_batches(parts).equals(pa.Table.from_batches(together))


# -- the reader, called as Spark calls it -----------------------------------------------------------------


@dataclass
class Clock:
    now_us: int = BEGAN_US

    def __call__(self) -> int:
        return self.now_us


@dataclass
class Query:
    """Streaming query that calls a reader as Spark does, and keeps Spark's log of offsets."""

    options: dict[str, str]
    clock: Clock = field(default_factory=Clock)
    schema: StructType | None = None
    log: list[dict[str, Any]] = field(default_factory=list)

    def reader(self) -> FeederReader:
        schema = self.schema or DefaultSource(self.options).schema()
        return FeederReader(read_options(self.options), schema, self.clock)

    def rows(self, reader: FeederReader, start: dict[str, Any], end: dict[str, Any]) -> pa.Table:
        partitions = pickle.loads(pickle.dumps(reader.partitions(start, end)))
        batches = [batch for partition in partitions for batch in reader.read(partition)]
        return pa.Table.from_batches(batches) if batches else pa.table({})

    def step(self, reader: FeederReader, wait_s: float) -> pa.Table:
        """Return the rows of the next micro-batch, `wait_s` seconds after the previous micro-batch."""
        if not self.log:
            self.log.append(through_json(reader.initialOffset()))
        self.clock.now_us += round(wait_s * 1e6)
        start = self.log[-1]
        self.log.append(through_json(reader.latestOffset(start, reader.getDefaultReadLimit())))
        return self.rows(reader, start, self.log[-1])


def through_json(offset: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


@pytest.fixture
def path(tmp_path: Path) -> str:
    pq.write_table(readings(1000), tmp_path / "readings.parquet", row_group_size=300)
    return str(tmp_path / "readings.parquet")


def ids(table: pa.Table) -> list[int]:
    found: list[int] = table["id"].to_pylist() if table.num_columns else []
    return found


def times_us(table: pa.Table) -> list[int]:
    found: list[int] = table["ts"].cast(pa.int64()).to_pylist()
    return found


def test_rows_arrive_at_the_rate_over_several_laps(path: str) -> None:
    query = Query({"path": path, "rate": "400"})
    reader = query.reader()
    tables = [query.step(reader, wait_s) for wait_s in (1.0, 2.5, 0.0, 3.0)]
    assert [table.num_rows for table in tables] == [400, 1000, 0, 1200]
    assert list(itertools.chain(*map(ids, tables))) == [number % 1000 for number in range(2600)]


def test_replay_without_loop_ends_with_the_files(path: str) -> None:
    query = Query({"path": path, "rate": "400", "loop": "false"})
    reader = query.reader()
    assert [query.step(reader, 2.0).num_rows for _ in range(4)] == [800, 200, 0, 0]


def test_micro_batch_repeated_by_another_process_has_the_same_rows(path: str) -> None:
    options = {"path": path, "rate": "700", "arrivals": "poisson", "eventTime": "clock"}
    query = Query(options)
    first, second = query.reader(), pickle.loads(pickle.dumps(query.reader()))
    tables = [query.step(first, wait_s) for wait_s in (0.5, 1.25, 3.0)]
    again = [query.rows(second, start, end) for start, end in itertools.pairwise(query.log)]
    assert again == tables


def test_first_micro_batch_has_the_same_rows_when_a_later_reader_repeats_it(path: str) -> None:
    query = Query({"path": path, "rate": "700", "eventTime": "clock"})
    table = query.step(query.reader(), 1.0)
    query.clock.now_us += 9 * SECOND
    reader = query.reader()
    assert query.rows(reader, through_json(reader.initialOffset()), query.log[-1]) == table


def test_initial_offset_of_a_feeder_reader_does_not_change_with_time(path: str) -> None:
    query = Query({"path": path, "rate": "1"})
    reader = query.reader()
    first = reader.initialOffset()
    query.clock.now_us += SECOND
    assert reader.initialOffset() == first


def test_query_that_was_down_catches_up_or_counts_missed_rows(path: str) -> None:
    for catch_up, expected in ({}, (1000 * 61, 0)), ({"catchUpSeconds": "2"}, (2000, 58_000)):
        query = Query({"path": path, "rate": "1000", **catch_up})
        query.step(query.reader(), 1.0)
        table = query.step(query.reader(), 60.0 if catch_up else 61.0)
        assert (table.num_rows, query.log[-1]["missed"]) == expected


def test_micro_batches_have_at_most_the_limit_of_rows_unless_spark_asks_for_all(path: str) -> None:
    query = Query({"path": path, "rate": "1000", "maxRowsPerTrigger": "300"})
    reader = query.reader()
    assert reader.getDefaultReadLimit() == ReadMaxRows(300)
    assert [query.step(reader, 1.0).num_rows for _ in range(3)] == [300] * 3
    end = reader.latestOffset(query.log[-1], ReadAllAvailable())
    assert end["row"] == 3000
    assert reader.reportLatestOffset() == end


def test_trigger_available_now_reads_the_rows_due_at_its_start(path: str) -> None:
    query = Query({"path": path, "rate": "1000", "maxRowsPerTrigger": "700"})
    query.step(query.reader(), 1.0)
    query.clock.now_us += SECOND
    reader = query.reader()
    reader.prepareForTriggerAvailableNow()
    assert [query.step(reader, 5.0).num_rows for _ in range(3)] == [700, 600, 0]


def test_large_micro_batches_are_read_in_partitions(path: str) -> None:
    query = Query({"path": path, "rate": "1000000"})
    reader = query.reader()
    start = reader.initialOffset()
    query.clock.now_us += round(2.5 * SECOND)
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    parts = [(part.first, part.end) for part in reader.partitions(start, end)]
    assert parts == [
        (0, PARTITION_ROWS),
        (PARTITION_ROWS, 2 * PARTITION_ROWS),
        (2 * PARTITION_ROWS, 2_500_000),
    ]
    assert reader.partitions(end, end) == []


@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
def test_event_time_clock_gives_each_row_its_arrival_time(path: str, arrivals: str) -> None:
    query = Query({"path": path, "rate": "500", "arrivals": arrivals, "eventTime": "clock"})
    reader = query.reader()
    times = list(itertools.chain(*(times_us(query.step(reader, 2.0)) for _ in range(3))))
    moments = schedule_of(read_options(query.options).arrivals).times(0, len(times))
    assert times == [BEGAN_US + int(moment * 1e6) for moment in moments]
    assert times[-1] < query.clock.now_us


def test_event_rate_spaces_event_times_evenly(path: str) -> None:
    query = Query({"path": path, "rate": "700", "eventRate": "50"})
    reader = query.reader()
    times = list(itertools.chain(*(times_us(query.step(reader, 2.0)) for _ in range(3))))
    assert times == [FILE_US + number * 20_000 for number in range(4200)]


def test_query_with_a_changed_rate_continues_at_its_last_row(path: str) -> None:
    query = Query({"path": path, "rate": "5000"})
    seen = ids(query.step(query.reader(), 2.0))
    query.options["rate"] = "100"
    reader = query.reader()
    tables = [query.step(reader, 60.0), query.step(reader, 3.0)]
    assert [table.num_rows for table in tables] == [0, 300]
    assert [*seen, *ids(tables[1])] == [number % 1000 for number in range(10_300)]


CHANGES = [
    pytest.param({"rate": "100"}, id="rate"),
    pytest.param({"arrivals": "poisson"}, id="arrivals"),
    pytest.param({"arrivals": "bursts", "onSeconds": "1", "offSeconds": "1"}, id="bursts"),
    pytest.param({"seed": "7"}, id="seed"),
    pytest.param({"eventTime": "file"}, id="event time"),
    pytest.param({"eventTime": "file", "eventRate": "10"}, id="event rate"),
    pytest.param({"maxRowsPerTrigger": "10"}, id="limit"),
    pytest.param({"catchUpSeconds": "1"}, id="catching up"),
    pytest.param({"split": "_: temp > 30"}, id="split"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_micro_batch_that_is_repeated_after_options_changed_has_the_same_rows(
    path: str, change: dict[str, str]
) -> None:
    query = Query({"path": path, "rate": "5000", "eventTime": "clock"})
    query.schema = DefaultSource(query.options).schema()
    table = query.step(query.reader(), 2.0)
    query.options |= change
    assert query.rows(query.reader(), *query.log) == table


@pytest.mark.parametrize("change", [{"rate": "100"}, {"arrivals": "steps", "steps": "0:100"}])
def test_changed_arrivals_take_effect_from_the_next_micro_batch(path: str, change: dict[str, str]) -> None:
    query = Query({"path": path, "rate": "5000", "eventTime": "clock"})
    query.step(query.reader(), 2.0)
    del query.options["rate"]
    query.options |= change
    reader = query.reader()
    query.rows(reader, *query.log)
    tables = [query.step(reader, 60.0), query.step(reader, 3.0)]
    assert [table.num_rows for table in tables] == [0, 300]
    assert ids(tables[1]) == [number % 1000 for number in range(10_000, 10_300)]
    assert query.clock.now_us - 3 * SECOND <= min(times_us(tables[1]))


def test_after_a_change_of_files_replay_begins_at_their_first_row_after_the_planned_micro_batch(
    path: str, tmp_path: Path
) -> None:
    query = Query({"path": path, "rate": "300"})
    table = query.step(query.reader(), 2.0)
    pq.write_table(readings(50), tmp_path / "others.parquet")
    query.options["path"] = str(tmp_path / "others.parquet")
    reader = query.reader()
    assert query.rows(reader, *query.log) == table
    tables = [query.step(reader, 60.0), query.step(reader, 1.0)]
    assert [table.num_rows for table in tables] == [0, 300]
    assert ids(tables[1]) == [number % 50 for number in range(300)]


def test_micro_batch_of_deleted_files_is_refused(path: str, tmp_path: Path) -> None:
    query = Query({"path": path, "rate": "300"})
    query.step(query.reader(), 2.0)
    pq.write_table(readings(50), tmp_path / "others.parquet")
    query.options["path"] = str(tmp_path / "others.parquet")
    Path(path).unlink()
    with pytest.raises(ChangedReplay, match=re.escape(f"was planned with the files at {path}")):
        query.rows(query.reader(), *query.log)


def test_checkpoint_without_stored_options_continues_with_the_same_options(path: str) -> None:
    query = Query({"path": path, "rate": "300", "eventTime": "clock"})
    table = query.step(query.reader(), 2.0)
    for offset in query.log:
        del offset["planned"]
    assert query.rows(query.reader(), *query.log) == table
    query.options["rate"] = "100"
    with pytest.raises(ChangedReplay, match="other arrivals"):
        query.rows(query.reader(), *query.log)
    assert query.step(query.reader(), 0.0).num_rows == 0
    assert query.step(query.reader(), 3.0).num_rows == 300


def test_checkpoint_is_refused_if_the_rows_of_its_files_have_changed(path: str) -> None:
    query = Query({"path": path, "rate": "100"})
    query.step(query.reader(), 1.0)
    pq.write_table(readings(900), path)
    reader = query.reader()
    with pytest.raises(ChangedReplay, match="does not fit the files"):
        query.rows(reader, *query.log)
    with pytest.raises(ChangedReplay, match="option split"):
        reader.latestOffset(query.log[-1], ReadAllAvailable())


def test_file_that_changes_during_a_query_is_refused(path: str) -> None:
    query = Query({"path": path, "rate": "100"})
    reader = query.reader()
    pq.write_table(readings(900), path)
    with pytest.raises(ChangedReplay, match="has changed since the query began"):
        query.step(reader, 1.0)


def test_checkpoint_stays_valid_when_the_files_are_moved(path: str, tmp_path: Path) -> None:
    query = Query({"path": path, "rate": "100"})
    query.step(query.reader(), 1.0)
    (tmp_path / "moved").mkdir()
    query.options["path"] = str(Path(path).rename(tmp_path / "moved" / "readings.parquet"))
    assert ids(query.step(query.reader(), 1.0)) == list(range(100, 200))


# -- files that the feeder reads --------------------------------------------------------------------------


def write_as(table: pa.Table, ending: str, path: Path) -> str:
    file = path / f"readings{ending}"
    if ending in (".parquet", ".pq"):
        pq.write_table(table, file)
    elif ending in (".arrow", ".ipc"):
        with pa.ipc.new_file(file, table.schema) as sink:
            sink.write_table(table, max_chunksize=170)
    elif ending == ".feather":
        pa.feather.write_feather(table, file)
    elif ending == ".csv":
        pa.csv.write_csv(table, file)
    else:
        lines = (json.dumps(row | {"ts": row["ts"].isoformat(" ")}) for row in table.to_pylist())
        packed = gzip.open if ending.endswith(".gz") else open
        with packed(file, "wt", encoding="utf-8") as text:
            text.write("\n".join(lines))
    return str(file)


@pytest.mark.parametrize(
    "ending",
    [".parquet", ".pq", ".arrow", ".ipc", ".feather", ".csv", ".json", ".jsonl", ".ndjson", ".jsonl.gz"],
)
def test_every_file_format_gives_the_same_rows(ending: str, tmp_path: Path) -> None:
    table = readings(500).set_column(3, "room", pa.array([f"r{number}" for number in range(500)]))
    schema = StructType().add("id", LongType()).add("ts", TimestampType()).add("temp", DoubleType())
    query = Query(
        {"path": write_as(table, ending, tmp_path), "rate": "100"}, schema=schema.add("room", StringType())
    )
    assert query.step(query.reader(), 5.0).to_pylist() == table.to_pylist()


def test_files_are_read_in_order_of_paths_and_then_by_name(tmp_path: Path) -> None:
    parts = {
        "b/2.parquet": 30,
        "b/10.parquet": 20,
        "b/c/1.parquet": 10,
        "b/_hidden.parquet": 7,
        "b/.x/1.parquet": 7,
    }
    start = 0
    firsts = {}
    for name, rows in parts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(readings(200).slice(start, rows), tmp_path / name)
        firsts[name] = list(range(start, start + rows))
        start += rows
    pa.csv.write_csv(readings(200).slice(190), tmp_path / "a.csv")
    query = Query({"path": f"{tmp_path / 'b'}, {tmp_path / 'a.csv'}", "rate": "70", "columns": "id"})
    expected = [*firsts["b/10.parquet"], *firsts["b/2.parquet"], *firsts["b/c/1.parquet"], *range(190, 200)]
    assert ids(query.step(query.reader(), 1.0)) == expected


def test_option_file_format_overrides_the_file_extension(tmp_path: Path) -> None:
    csv = tmp_path / "readings.txt"
    csv.write_text("id,room\n1,a\n2,b\n")
    query = Query({"path": str(csv), "rate": "2", "fileFormat": "CSV"})
    assert query.step(query.reader(), 1.0).to_pylist() == [{"id": 1, "room": "a"}, {"id": 2, "room": "b"}]


def test_columns_keep_the_listed_order_and_types_unknown_to_spark_are_widened(tmp_path: Path) -> None:
    table = pa.table(
        {
            "small": pa.array([1, 255], pa.uint8()),
            "large": pa.array([1, 2**64 - 1], pa.uint64()),
            "word": pa.array(["a", "b"]).dictionary_encode(),
            "empty": pa.nulls(2),
            "left": pa.array([1, 2]),
        }
    )
    pq.write_table(table, tmp_path / "odd.parquet")
    options = {"path": str(tmp_path / "odd.parquet"), "columns": "word,large,small,empty", "rate": "2"}
    assert DefaultSource(options).schema().simpleString() == (
        "struct<word:string,large:decimal(20,0),small:smallint,empty:string>"
    )
    query = Query(options)
    assert query.step(query.reader(), 1.0).to_pylist() == [
        {"word": "a", "large": 1, "small": 1, "empty": None},
        {"word": "b", "large": 2**64 - 1, "small": 255, "empty": None},
    ]


def test_timestamps_are_truncated_to_microseconds(tmp_path: Path) -> None:
    times = pa.array([FILE_US * 1000 + 1_999, FILE_US * 1000 + 2_001], pa.timestamp("ns", "Europe/Paris"))
    pq.write_table(pa.table({"ts": times}), tmp_path / "fine.parquet")
    query = Query({"path": str(tmp_path / "fine.parquet"), "rate": "2"})
    assert times_us(query.step(query.reader(), 1.0)) == [FILE_US + 1, FILE_US + 2]


def test_nested_columns_are_unchanged(tmp_path: Path) -> None:
    columns = {
        "list": pa.array([[1, 2], None]),
        "struct": pa.array([{"a": 1}, {"a": None}]),
        "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    }
    pq.write_table(pa.table(columns), tmp_path / "nested.parquet")
    query = Query({"path": str(tmp_path / "nested.parquet"), "rate": "2"})
    assert query.step(query.reader(), 1.0).to_pylist() == pa.table(columns).to_pylist()


def test_event_time_may_be_an_integer_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"second": [10, 20, 40]}), tmp_path / "whole.parquet")
    query = Query({"path": str(tmp_path / "whole.parquet"), "rate": "7", "timeColumn": "second"})
    assert query.step(query.reader(), 1.0)["second"].to_pylist() == [10, 20, 40, 55, 65, 85, 100]


def test_csv_is_read_with_the_declared_schema(tmp_path: Path) -> None:
    csv = tmp_path / "rooms.csv"
    csv.write_text("code,ts\n007,2024-05-01 10:00:00\n011,2024-05-01 10:00:01\n")
    schema = StructType().add("code", StringType()).add("ts", TimestampType())
    query = Query({"path": str(csv), "rate": "3"}, schema=schema)
    table = query.step(query.reader(), 1.0)
    assert table["code"].to_pylist() == ["007", "011", "007"]
    assert table["ts"].cast(pa.string()).to_pylist() == [
        f"2024-05-01 10:00:0{second}.000000Z" for second in (0, 1, 2)
    ]


# -- rows split among partitions --------------------------------------------------------------------------

CONDITIONS: list[tuple[str, Callable[[Any, Any], bool | None]]] = [
    ("temp > 30", lambda temp, _: None if temp is None else temp > 30),
    (
        "temp <= 30 and room = 'a'",
        lambda temp, room: both(None if temp is None else temp <= 30, is_a(room)),
    ),
    ("not (room = 'a')", lambda _, room: None if room is None else room != "a"),
    ("room is null", lambda _, room: room is None),
    ("room IS NOT NULL", lambda _, room: room is not None),
    ("room in ('a', 'it''s')", lambda _, room: None if room is None else room in ("a", "it's")),
    ("room not in ('a')", lambda _, room: None if room is None else room != "a"),
    ("`temp` <> -1.5e1", lambda temp, _: None if temp is None else temp != -15),
    ("true", lambda _temp, _room: True),
    ("false", lambda _temp, _room: False),
]


def is_a(room: str | None) -> bool | None:
    return None if room is None else room == "a"


def both(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


@given(
    rows=st.lists(
        st.tuples(st.none() | st.integers(-20, 60), st.none() | st.sampled_from(["a", "b", "it's"])),
        max_size=20,
    ),
    chosen=st.lists(st.sampled_from(range(len(CONDITIONS))), min_size=1, max_size=4),
)
def test_row_goes_to_the_first_true_condition_or_to_no_stream(
    rows: list[tuple[int | None, str | None]], chosen: list[int]
) -> None:
    temps, rooms = [temp for temp, _ in rows], [room for _, room in rows]
    table = pa.table({"temp": pa.array(temps, pa.float64()), "room": pa.array(rooms, pa.string())})
    split = "; ".join(f"s{place}: {CONDITIONS[number][0]}" for place, number in enumerate(chosen))
    expected = []
    for temp, room in rows:
        holding = (f"s{place}" for place, number in enumerate(chosen) if CONDITIONS[number][1](temp, room))
        stream = next(holding, None)
        expected += [{"temp": temp, "room": room, "_stream": stream}] if stream else []
    assert with_stream(table, parse_split(split)).to_pylist() == expected


def test_rows_that_match_no_condition_are_left_out(path: str) -> None:
    query = Query({"path": path, "rate": "100", "split": "hot: temp >= 48; cold: temp < 1", "columns": "id"})
    table = query.step(query.reader(), 1.0)
    kept = [number for number in range(1000) if number % 50 in (48, 49, 0)]
    assert ids(table) == list(itertools.islice(itertools.cycle(kept), 100))
    assert table["_stream"].to_pylist() == ["cold" if number % 50 == 0 else "hot" for number in ids(table)]


def test_conditions_may_compare_timestamps_with_text(path: str) -> None:
    query = Query({"path": path, "rate": "10", "split": "late: ts >= '2023-11-14 22:13:20.990Z'"})
    assert ids(query.step(query.reader(), 1.0)) == list(range(990, 1000))


# -- options that are refused -----------------------------------------------------------------------------

REFUSED = [
    ({"ratte": "5"}, "option ratte: there is no such option; did you mean rate?"),
    ({"maxrowspertriger": "5"}, "did you mean maxRowsPerTrigger?"),
    ({"rate": ""}, "option rate: the value is empty"),
    ({"rate": "fast"}, "option rate: the value must be a number (got 'fast')"),
    ({"rate": "0"}, "option rate: the value must be above 0"),
    ({"rate": "inf"}, "option rate: the value must be a number"),
    ({"rate": "1e12"}, "option rate: the value must be at most 1e+09"),
    (
        {"arrivals": "possion"},
        "option arrivals: the value is not valid; did you mean poisson? (got 'possion')",
    ),
    ({"arrivals": "bursts"}, "option onSeconds: this required option is missing"),
    (
        {"arrivals": "bursts", "onSeconds": "1", "offSeconds": "1", "alpha": "1"},
        "option alpha: the value must be above 1",
    ),
    ({"onSeconds": "1"}, "option onSeconds: this option is for arrivals=bursts, not for arrivals=constant"),
    ({"arrivals": "steps"}, "option rate: this option is for arrivals=constant or poisson or bursts"),
    ({"loop": "yes"}, "option loop: the value is not valid; known: true, false"),
    ({"seed": "-1"}, "option seed: the value must be a whole number, at least 0"),
    ({"maxRowsPerTrigger": "0"}, "option maxRowsPerTrigger: the value must be a whole number, at least 1"),
    ({"catchUpSeconds": "-1"}, "option catchUpSeconds: the value must be at least 0"),
    (
        {"eventTime": "clock", "eventRate": "5"},
        "option eventRate: this option cannot be combined with eventTime=clock",
    ),
    (
        {"timeColumn": "id", "eventTime": "clock"},
        "option timeColumn: the column must be a timestamp if eventTime=clock or eventRate is set",
    ),
    ({"timeColumn": "tss"}, "option timeColumn: there is no column tss; did you mean ts?"),
    ({"timeColumn": "room"}, "option timeColumn: the column must be a timestamp or a 64-bit integer"),
    ({"columns": "id,romo"}, "option columns: there is no column romo; did you mean room?"),
    ({"columns": "id,,ts"}, "option columns: the list has an empty item"),
    (
        {"columns": "id", "eventRate": "5"},
        "option timeColumn: the option is missing, and no column is a timestamp",
    ),
    ({"fileFormat": "xml"}, "option fileFormat:"),
    ({"fileFormat": "json"}, "is not a valid json file"),
    ({"split": "hot temp > 30"}, "option split: a condition has temp where ':' is needed"),
    ({"split": "hot: temp >"}, "option split: a condition has the end where a column or a literal is needed"),
    ({"split": "hot: temp > 30 cold: true"}, "option split: a condition has cold where ';' is needed"),
    ({"split": "hot: temp # 30"}, "option split: the text cannot be parsed from '# 30' on"),
    ({"split": "hot: tmp > 30"}, "option split: there is no column tmp; did you mean temp?"),
    ({"split": "hot: temp"}, "option split: condition hot must be true or false, but its type is double"),
    ({"split": "hot: temp > 'warm'"}, "option split: condition hot cannot be evaluated"),
    ({"split": "hot: temp > 1; hot: true"}, "option split: two conditions have the same name"),
    ({"split": "hot: temp > 1000"}, "the files contain no rows for which a condition of split holds"),
    ({"split": ";"}, "option split: a condition has ; where the name of a condition is needed"),
]


@pytest.mark.parametrize(("given_options", "says"), REFUSED)
def test_wrong_options_are_refused_by_name(given_options: dict[str, str], says: str, path: str) -> None:
    query = Query({"path": path, "rate": "5", **given_options})
    with pytest.raises(InvalidOption) as refused:
        query.step(query.reader(), 1.0)
    assert says in str(refused.value)
    assert isinstance(pickle.loads(pickle.dumps(refused.value)), FeederError)


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ("0:10,5", "option steps: the value must be a number (got '')"),
        ("1:10", "must begin at second 0"),
        ("0:10,5:3,5:4", "must be in ascending order"),
        ("0:-1", "the value must be at least 0"),
    ],
)
def test_invalid_rate_steps_are_refused_with_a_reason(steps: str, says: str, path: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        read_options({"path": path, "arrivals": "steps", "steps": steps})
    assert says in str(refused.value)


@pytest.mark.parametrize("name", ["nothing.parquet", "readings.txt", "empty"])
def test_paths_that_hold_no_rows_of_a_known_format_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "readings.txt").write_text("1")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidOption, match="option path"):
        DefaultSource({"path": str(tmp_path / name), "rate": "1"}).schema()


def test_time_column_is_required_with_several_timestamps(tmp_path: Path) -> None:
    table = readings(5).append_column("seen", readings(5)["ts"])
    pq.write_table(table, tmp_path / "two.parquet")
    options = {"path": str(tmp_path / "two.parquet"), "rate": "5"}
    with pytest.raises(InvalidOption, match="set it to one of the timestamp columns: ts, seen"):
        Query(options).reader()
    query = Query(options | {"timeColumn": "seen"})
    assert query.step(query.reader(), 1.0).num_rows == 5


def test_names_of_options_are_case_insensitive(path: str) -> None:
    options = {
        "path": path, "arrivals": "bursts", "rate": "5", "onSeconds": "1", "offSeconds": "2", "alpha": "1.7",
        "maxRowsPerTrigger": "9", "catchUpSeconds": "3", "eventTime": "clock", "loop": "false", "seed": "4",
    }  # fmt: skip
    lowered = {name.lower(): value for name, value in options.items()}
    assert read_options(lowered) == read_options(options)
    assert read_options(options).arrivals == Arrivals("bursts", 4, 5.0, 1.0, 2.0, 1.7)


def test_docs_list_exactly_the_options_of_the_feeder() -> None:
    listed = re.findall(r"^\| `(\w+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(NAMES)
