"""The replay feeder without a gateway: rows that are due by the scheduled rates, missed rows, and new time stamps
for each lap (pass) through the files.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.producer import Producer
from actors.gateway.replay_feeder import (
    CATCH_UP_S,
    ROWS_MAX,
    TICK_S,
    Pace,
    ReplayBatch,
    ReplaySource,
    StreamReplay,
)
from actors.messages.gateway_messages import Accepted, RefusedBatch
from configs.scenario.arrivals import StepArrivals

BEGIN = 1_700_000_000_000
PERIOD_MS = 1000


def plan(*steps: tuple[float, float]) -> StepArrivals:
    return StepArrivals.model_validate(
        {"kind": "steps", "steps": [{"at_s": at_s, "rate": rate} for at_s, rate in steps]}
    )


def table(rows_per_ms: float) -> pa.Table:
    rows = int(rows_per_ms * PERIOD_MS)
    times = BEGIN + (np.arange(rows) / rows_per_ms).astype(np.int64)
    return pa.table({"sensor": np.arange(rows, dtype=np.int32), "ts": times})


class Door:
    """Stand-in for a producer: it refuses the first `refusals` messages, and keeps the rest."""

    def __init__(self, refusals: int = 0) -> None:
        self.refusals = refusals
        self.taken: list[tuple[str, list[int]]] = []

    def publish_message(self, stream: str, rows: int, message: Any) -> Accepted | RefusedBatch:
        if self.refusals:
            self.refusals -= 1
            return RefusedBatch("full", 0.2)
        batch = pa.ipc.read_record_batch(pa.py_buffer(bytes(message)), table(1).schema)
        assert batch.num_rows == rows
        self.taken.append((stream, batch.column("ts").to_pylist()))
        return Accepted(len(self.taken))

    @property
    def producer(self) -> Producer:
        return cast(Producer, self)

    def times(self, stream: str) -> list[int]:
        return [time for name, times in self.taken for time in times if name == stream]


def source() -> ReplaySource:
    tables = {"dense": table(10), "sparse": table(0.5)}
    return ReplaySource(
        {name: StreamReplay(one, "ts", BEGIN, PERIOD_MS) for name, one in tables.items()}, PERIOD_MS
    )


def fed(feeding: ReplaySource, door: Door, until: float, began: float = 0.0) -> None:
    now = began
    while now <= until:
        feeding.go_on(door.producer, now)
        now = round(now + TICK_S, 6)


# Tests of the times at which rows are due by the rates.


def test_the_number_of_due_rows_follows_the_rates_planned_for_the_feeder() -> None:
    pace = Pace(plan((0, 1000), (2, 0), (3, 5000)), 10.0, tuples_per_ms=10.0)
    owed = []
    for now in np.arange(10.0, 14.001, 0.05):
        assert pace.owe(float(now)) == pytest.approx(0, abs=1e-6)
        owed.append(pace.owed_ms)
        pace.owed_ms = 0.0
    assert sum(owed) == pytest.approx((2 * 1000 + 1 * 5000) / 10)
    assert pace.speed == 500


def test_rows_due_for_longer_than_the_catch_up_time_are_counted_as_missed() -> None:
    pace = Pace(plan((0, 1000)), 0.0, tuples_per_ms=1.0)
    missed = pace.owe(5.0)
    assert [pace.owed_ms, missed] == pytest.approx([1000 * CATCH_UP_S, 5000 - 1000 * CATCH_UP_S])


@given(
    st.lists(st.tuples(st.floats(0.01, 5), st.floats(0, 1e6)), min_size=1, max_size=5),
    st.lists(st.floats(0.001, 1), min_size=1, max_size=20),
)
def test_due_and_missed_rows_add_up_to_the_rows_planned_for_the_feeder(
    lengths: list[tuple[float, float]], pauses: list[float]
) -> None:
    starts = np.concatenate([[0.0], np.cumsum([length for length, _ in lengths])[:-1]])
    steps = [(float(at_s), rate) for at_s, (_, rate) in zip(starts, lengths, strict=True)]
    pace, now, owed, missed = Pace(plan(*steps), 100.0, 2.0), 100.0, 0.0, 0.0
    for pause in pauses:
        now += pause
        missed += pace.owe(now)
        owed, pace.owed_ms = owed + pace.owed_ms, 0.0
    grid = [*(at_s for at_s, _ in steps[1:]), np.inf]
    whole = sum(
        rate * max(0.0, min(end, now - 100.0) - begin) for (begin, rate), end in zip(steps, grid, strict=True)
    )
    assert 2.0 * owed + missed == pytest.approx(whole, rel=1e-6, abs=1e-3)


# Tests of the files and their rows.


def test_event_time_continues_from_lap_to_lap() -> None:
    feeding, door = source(), Door()
    feeding.begin(plan((0, 30_000)), 0.0, 0.0)
    fed(feeding, door, until=1.0)
    for stream, per_ms in (("dense", 10), ("sparse", 0.5)):
        times = door.times(stream)
        assert len(times) == pytest.approx(30_000 * per_ms / 10.5, rel=0.02)
        assert times == (BEGIN + np.arange(len(times)) / per_ms).astype(np.int64).tolist()
    assert feeding.accepted == sum(len(times) for _, times in door.taken)
    assert feeding.missed == 0


def test_streams_of_a_class_advance_together_in_event_time() -> None:
    feeding, door = source(), Door()
    feeding.begin(plan((0, 30_000)), 0.0, 0.0)
    fed(feeding, door, until=0.5)
    for before in range(1, len(door.taken)):
        upto = {name: times[-1] for name, times in door.taken[:before]}
        if len(upto) == 2:
            assert abs(upto["dense"] - upto["sparse"]) <= 2 * TICK_S * 30_000 / 10.5 + 2


def test_a_batch_holds_the_rows_of_a_tick_up_to_a_maximum() -> None:
    for rate, longest in ((30_000, 30_000 * TICK_S), (1e7, ROWS_MAX)):
        feeding, door = source(), Door()
        feeding.begin(plan((0, rate)), 0.0, 0.0)
        fed(feeding, door, until=0.2)
        found = max(len(times) for _, times in door.taken)
        assert 0.85 * longest <= found <= 1.05 * longest


def test_a_feeder_with_changed_rates_continues_at_the_row_where_it_stopped() -> None:
    feeding, door = source(), Door()
    feeding.begin(plan((0, 30_000)), 0.0, 0.0)
    fed(feeding, door, until=0.2)
    feeding.begin(plan((0, 7_000)), 0.2, 0.0)
    fed(feeding, door, until=0.5, began=0.21)
    times = door.times("dense")
    assert times == (BEGIN + np.arange(len(times)) / 10).astype(np.int64).tolist()


def test_the_feeder_repeats_a_refused_batch_until_it_is_accepted() -> None:
    feeding, door = source(), Door(refusals=3)
    feeding.begin(None, 0.0, 0.0)
    feeding.go_on(door.producer, 1.0)
    assert (feeding.next_at, door.taken) == (1.2, [])
    for now in (1.2, 1.4, 1.6, 1.7):
        feeding.go_on(door.producer, now)
    times = door.times("dense")
    assert times == (BEGIN + np.arange(len(times)) / 10).astype(np.int64).tolist()
    assert feeding.next_at == 1.7


def test_the_feeder_ends_with_an_error_if_a_batch_is_refused_for_good() -> None:
    class Closed(Door):
        def publish_message(self, stream: str, rows: int, message: Any) -> RefusedBatch:
            return RefusedBatch("no such stream")

    feeding = source()
    feeding.begin(None, 0.0, 0.0)
    with pytest.raises(ValueError, match="dense: no such stream"):
        feeding.go_on(Closed().producer, 0.0)


def test_stamping_a_batch_shifts_its_event_times_and_changes_no_other_column() -> None:
    batch = pa.record_batch({"text": ["a", None, "c"], "ts": pa.array([5, 6, 7], pa.int64())})
    message = ReplayBatch(batch.slice(1, 2), "ts")
    for by_ms in (0, 1000, 3000):
        message.stamp(by_ms)
        found = pa.ipc.read_record_batch(pa.py_buffer(message.stamped), batch.schema)
        assert found.to_pydict() == {"text": [None, "c"], "ts": [6 + by_ms, 7 + by_ms]}
