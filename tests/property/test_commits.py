"""Commits and snapshots are read from the log of a class exactly as the class wrote them."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.log.commit_format import (
    SnapshotFrame,
    answers_of,
    commit_parts,
    is_snapshot,
    snapshot_of,
    snapshot_parts,
    steps_of,
)
from actors.log.train_format import NotAFrame
from configs.classes.limits import ClassLimits
from configs.classes.plans import PlanSettings
from configs.classes.window_settings import WindowSettings
from engine.class_.steps import (
    Advanced,
    Answer,
    Commit,
    Evicted,
    Exchanged,
    ExchangeGivenUp,
    Interrupted,
    LimitsSet,
    LookupsReleased,
    Opened,
    PlanSet,
    QueryAdded,
    QueryRemoved,
    Step,
    StreamLeft,
    StreamsSet,
    Took,
    WindowsSet,
)
from engine.data.schema import INT64
from engine.data.train import Train, Values, same_arrival
from engine.data.watermark_causes import Moment

NAMES = st.text(min_size=1, max_size=12)
NUMBERS = st.integers(0, 2**62)
FRACTIONS = st.floats(0, 1)
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.builds(
        Opened,
        NAMES,
        NUMBERS,
        NUMBERS,
        NUMBERS,
        NUMBERS,
        FRACTIONS,
        st.none() | st.binary(),
        NUMBERS,
        NUMBERS,
    ),
    st.builds(Took, NAMES, NUMBERS),
    st.builds(Evicted, NAMES, NUMBERS),
    st.builds(Advanced, NAMES, st.integers(-(2**63), 2**63 - 1), st.floats(0, 1e9)),
    st.builds(LookupsReleased, NAMES, st.integers(-(2**63), 2**63 - 1), st.floats(0, 1e9)),
    st.builds(QueryAdded, NAMES, st.text(), st.booleans()),
    st.builds(QueryRemoved, NAMES),
    st.builds(StreamLeft, NAMES),
    st.builds(StreamsSet, st.lists(st.text()).map(tuple)),
    st.builds(LimitsSet, st.builds(ClassLimits, queries=st.integers(1, 2**53 - 1))),
    st.builds(WindowsSet, st.builds(WindowSettings)),
    st.builds(PlanSet, st.builds(PlanSettings)),
    st.builds(Exchanged, NAMES),
    st.just(ExchangeGivenUp()),
    st.just(Interrupted()),
)


def train(rows: int) -> Train:
    arrival = same_arrival(1.5, rows) if rows % 2 else np.arange(rows, dtype=float)
    return Train((Values(INT64, np.arange(rows)),), arrival, 0.5, rows, (Moment(rows, 1.0),))


ANSWERS = st.builds(Answer, NAMES, NUMBERS, st.integers(0, 40).map(train))
COUNTS = st.dictionaries(NAMES, NUMBERS, max_size=4)


def joined(parts: list[Any], size: int) -> memoryview:
    found = b"".join(bytes(part) for part in parts)
    assert len(found) == size
    return memoryview(found)


@given(st.lists(STEPS, max_size=6).map(tuple), st.lists(ANSWERS, max_size=4).map(tuple), COUNTS)
def test_a_commit_is_read_as_it_was_written(
    steps: tuple[Step, ...], answers: tuple[Answer, ...], answered: dict[str, int]
) -> None:
    payload = joined(*commit_parts(Commit(steps, answers, answered)))
    assert not is_snapshot(payload)
    assert steps_of(payload) == Commit(steps, (), answered)
    for query in {one.query for one in answers} | {"another"}:
        found, expected = answers_of(payload, query), [one for one in answers if one.query == query]
        assert [one.first for one in found] == [one.first for one in expected]
        for got, written in zip(found, expected, strict=True):
            assert got.train.columns[0].data.tolist() == written.train.columns[0].data.tolist()
            assert got.train.arrival.tolist() == written.train.arrival.tolist()
            assert (got.train.kept, got.train.watermark) == (written.train.kept, written.train.watermark)


@given(NUMBERS, st.binary())
def test_a_snapshot_is_read_as_it_was_written(following: int, state: bytes) -> None:
    payload = joined(*snapshot_parts(SnapshotFrame(following, pickle.PickleBuffer(state))))
    assert is_snapshot(payload)
    found = snapshot_of(payload)
    assert (found.following, bytes(found.state)) == (following, state)


def test_a_frame_of_another_version_is_refused_with_a_clear_error() -> None:
    payload = bytearray(joined(*commit_parts(Commit((), (), {}))))
    payload[0] = 9
    with pytest.raises(NotAFrame, match="of this version"):
        is_snapshot(memoryview(payload))
