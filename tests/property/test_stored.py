"""Tuples stored by a side of a join, compared with a plain list, for any order of adding, forgetting and matching."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from engine.data.schema import FLOAT64, INT64, STRING, Field, Schema
from engine.data.train import Train, Values, same_arrival, values_to_arrow
from engine.operators.join_state import StoredTuples

SCHEMA = Schema((Field("ts", INT64), Field("x", FLOAT64), Field("g", STRING)))
CODES = 3
# Row of one side of a join: time after the floor (the time before which rows are forgotten), number of the key, value, and text.
Row = tuple[int, int, float | None, str | None]

values = st.one_of(st.none(), st.sampled_from([0.5, 1.5]))
texts = st.one_of(st.none(), st.sampled_from(["", "a", "ß"]))
one = st.tuples(st.integers(0, 9), st.integers(0, CODES - 1), values, texts)
rows = st.lists(one, min_size=1, max_size=8)
probes = st.lists(st.tuples(st.integers(0, 4), st.integers(0, CODES - 1)), max_size=8)
# Step of a test: rows to add, their arrival and kept fraction, the rise of the floor, and the tuples of the other side (probes).
steps = st.tuples(rows, st.floats(0, 9), st.sampled_from([1.0, 0.5, 0.25]), st.integers(0, 4), probes)
scripts = st.lists(steps, min_size=4, max_size=16)
Step = tuple[list[Row], float, float, int, list[tuple[int, int]]]


def train_of(some: list[Row], arrival: float, kept: float) -> Train:
    present = [np.array([row[place] is not None for row in some], bool) for place in (2, 3)]
    x, g = (None if mask.all() else mask for mask in present)
    columns = (
        Values(INT64, np.array([row[0] for row in some], np.int64)),
        Values(FLOAT64, np.array([row[2] or 0.0 for row in some]), x),
        Values(STRING, pa.array([row[3] or "" for row in some], pa.string()), g),
    )
    return Train(columns, same_arrival(arrival, len(some)), kept)


@given(scripts, st.sampled_from([1, 32]), st.sampled_from([0, 4]), st.integers(-4, 2))
def test_a_probe_finds_all_matching_stored_tuples_with_their_values(
    script: list[Step], room: int, scanned_max: int, low: int
) -> None:
    stored, high = StoredTuples(SCHEMA, 0, room, scanned_max), low + 3
    listed: list[tuple[Row, float, float]] = []
    floor = 0
    for some, arrival, kept, by, probing in script:
        some = [(floor + ts, code, x, g) for ts, code, x, g in some]
        stored.add(train_of(some, arrival, kept), np.array([row[1] for row in some], np.intp))
        listed += [(row, arrival, kept) for row in some]
        floor += by
        stored.forget(floor)
        # Probes have the times that tuples of the other side can have, so no probe can match a forgotten tuple.
        probing = [(floor - low + ts, code) for ts, code in probing]
        found, least = pairs_of(stored, probing, low, high)
        partners = [
            (place, *one)
            for place, (ts, code) in enumerate(probing)
            for one in listed
            if one[0][1] == code and low <= one[0][0] - ts <= high
        ]
        expected = [(place, row[0], row[2], row[3], max(arrival, 4.5)) for place, row, arrival, _ in partners]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        assert least == min((kept for *_, kept in partners), default=None)
        assert sum(row[0] >= floor for row, *_ in listed) <= len(stored) <= len(listed)


def pairs_of(
    stored: StoredTuples, some: list[tuple[int, int]], low: int, high: int
) -> tuple[list[tuple[object, ...]], float | None]:
    """Return the matched pairs, each as (number of the probe, stored values, arrival), and the lowest kept fraction of all pairs."""
    codes, times = np.array([code for _, code in some], np.intp), np.array([ts for ts, _ in some], np.int64)
    probe, places = stored.matches(codes, times, low, high, CODES)
    columns = [values_to_arrow(one).to_pylist() for one in stored.take(places)]
    arrivals = stored.arrivals(places, same_arrival(4.5, len(places))).tolist()
    return list(zip(probe.tolist(), *columns, arrivals, strict=True)), (
        stored.kept(places) if len(places) else None
    )


def test_stored_tuples_in_time_order_are_dropped_once_they_are_too_old_to_match() -> None:
    stored = StoredTuples(SCHEMA, 0)
    for start in range(0, 100_000, 500):
        some: list[Row] = [(ts, 0, None, None) for ts in range(start, start + 500)]
        stored.add(train_of(some, 0.0, 1.0), np.zeros(500, np.intp))
        stored.forget(start)
        assert len(stored) == 500


def test_old_stored_tuples_are_dropped_although_one_tuple_is_from_the_far_future() -> None:
    stored = StoredTuples(SCHEMA, 0)
    stored.add(train_of([(10**15, 0, None, None)], 0.0, 1.0), np.zeros(1, np.intp))
    for start in range(0, 100_000, 500):
        some: list[Row] = [(ts, 0, None, None) for ts in range(start, start + 500)]
        stored.add(train_of(some, 0.0, 1.0), np.zeros(500, np.intp))
        stored.forget(start)
    assert len(stored) < 4_000
