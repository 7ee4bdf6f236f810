"""Staging: parts of batches stay in memory until their commit, within a limit of bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.stream import Stream
from actors.gateway.streams import Streams
from actors.runtime.run_dirs import RunDirs
from configs.errors import InvalidInput
from services.ingest.staging import (
    PART_BYTES,
    BatchKey,
    NotStaged,
    StagedPart,
    Staging,
    StagingFull,
)

HOUR_S = 3600.0


@pytest.fixture(scope="module")
def stream() -> Iterator[Stream]:
    with TemporaryDirectory() as base:
        dirs = RunDirs(Path(base), "s", "n")
        held = dirs.hold()
        streams = Streams(dirs, lambda: 0.0)
        yield streams.declare("CREATE STREAM s (x int64)")
        streams.close()
        os.close(held)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def put(staging: Staging, batch: BatchKey, name: tuple[int, str], size: int = 0) -> StagedPart:
    part = StagedPart()
    with staging.receiving(batch) as held:
        staging.hold(held, size)
        staging.put(held, name, part)
    return part


def test_parts_are_ordered_by_partition_and_taken_from_the_named_attempt(stream: Stream) -> None:
    staging, batch = Staging(), BatchKey(stream, "p", 1)
    names = [(2, "a"), (10, "b"), (1, "c"), (1, "d")]
    parts = {name: put(staging, batch, name) for name in names}
    found = staging.parts(batch, [(10, "b"), (1, "d"), (2, "a")])
    assert [id(part) for part in found] == [id(parts[name]) for name in [(1, "d"), (2, "a"), (10, "b")]]
    with pytest.raises(NotStaged, match="write the batch again"):
        staging.parts(batch, [(1, "d"), (3, "a")])
    with pytest.raises(NotStaged):
        staging.parts(BatchKey(stream, "q", 1), [(1, "d")])
    assert staging.parts(BatchKey(stream, "q", 1), []) == []


def test_dropping_a_batch_drops_the_producers_earlier_batches(stream: Stream) -> None:
    staging = Staging()
    for producer, number in (("p", 1), ("p", 2), ("p", 3), ("q", 1)):
        put(staging, BatchKey(stream, producer, number), (0, "a"))
    staging.drop_until(BatchKey(stream, "p", 2))
    assert staging.status()["batches"] == 2
    staging.drop(BatchKey(stream, "p", 3))
    staging.drop(BatchKey(stream, "p", 3))
    staging.drop(BatchKey(stream, "q", 1))
    assert staging.status() == {"bytes": 0, "bytes_max": staging.status()["bytes_max"], "batches": 0}


def test_part_is_refused_for_good_if_its_batch_exceeds_all_room_and_only_for_now_if_other_batches_fill_it(
    stream: Stream,
) -> None:
    staging = Staging(bytes_max=100_000)
    put(staging, BatchKey(stream, "p", 1), (0, "a"), 60_000)
    with pytest.raises(StagingFull):
        put(staging, BatchKey(stream, "q", 1), (0, "a"), 60_000)
    with pytest.raises(InvalidInput, match="maxOffsetsPerTrigger"):
        put(staging, BatchKey(stream, "p", 1), (1, "a"), 60_000)
    assert staging.status()["bytes"] == 60_000 + PART_BYTES
    staging.drop(BatchKey(stream, "p", 1))
    put(staging, BatchKey(stream, "q", 1), (0, "a"), 60_000)


def test_a_staged_batch_untouched_for_an_hour_is_dropped_to_make_room_for_a_new_batch(stream: Stream) -> None:
    clock = Clock()
    staging = Staging(bytes_max=100_000, clock=clock)
    batches = [BatchKey(stream, name, 1) for name in "pqr"]
    for batch in batches:
        put(staging, batch, (0, "a"), 20_000)
    clock.now = HOUR_S / 2
    staging.parts(batches[0], [(0, "a")])
    clock.now = HOUR_S
    put(staging, BatchKey(stream, "s", 1), (0, "a"), 60_000)
    assert staging.status()["batches"] == 2
    with pytest.raises(NotStaged):
        staging.parts(batches[1], [(0, "a")])
    staging.parts(batches[0], [(0, "a")])


@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "lose", "drop", "until"]), st.integers(0, 3), st.integers(0, 3), st.integers(0, 40)),
        max_size=40,
    )
)  # fmt: skip
def test_bytes_and_batches_are_counted_exactly_and_stay_within_the_limit(
    stream: Stream, actions: list[tuple[str, int, int, int]]
) -> None:
    staging, most = Staging(bytes_max=100_000), 100_000
    expected: dict[tuple[int, int], int] = {}
    for action, number, partition, size in actions:
        batch, name = BatchKey(stream, "p", number), (partition, "a")
        match action:
            case "put" | "lose":
                try:
                    with staging.receiving(batch) as held:
                        staging.hold(held, 1000 * size)
                        if action == "put":
                            staging.put(held, name, StagedPart())
                            expected[number, partition] = 1000 * size + PART_BYTES
                except (StagingFull, InvalidInput):
                    assert sum(expected.values()) + PART_BYTES + 1000 * size > most
            case "drop":
                staging.drop(batch)
                expected = {key: bytes_ for key, bytes_ in expected.items() if key[0] != number}
            case "until":
                staging.drop_until(batch)
                expected = {key: bytes_ for key, bytes_ in expected.items() if key[0] > number}
        assert staging.status()["bytes"] == sum(expected.values()) <= most
        assert staging.status()["batches"] == len({key[0] for key in expected})
