"""Trains in frames of a log: their arrays are read directly from the memory of the log, without copies."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.log.segment_log import ALIGNED
from actors.log.train_format import NotAFrame, batch_of, batch_parts, train_of, train_parts
from engine.data.schema import BOOLEAN, FLOAT64, INT64, STRING, Field, Schema
from engine.data.train import Train, Values, is_same, same_arrival, train_from_arrow

ROWS = 5


def in_memory(parts: list[Any]) -> memoryview:
    """Join the parts at an address that is a multiple of 64, because payloads of frames begin at such addresses."""
    joined = b"".join(bytes(part) for part in parts)
    space = np.zeros(len(joined) + ALIGNED, np.uint8)
    begin = -space.__array_interface__["data"][0] % ALIGNED
    space[begin : begin + len(joined)] = np.frombuffer(joined, np.uint8)
    return space.data[begin : begin + len(joined)]


def train() -> Train:
    valid = np.array([True, False, True, True, False])
    return Train(
        (
            Values(INT64, np.arange(ROWS)),
            Values(BOOLEAN, valid, valid),
            Values(STRING, pa.array(["a", "", "ccc", "d", "e"]), valid),
            Values(FLOAT64, np.arange(ROWS) / 2),
        ),
        np.arange(ROWS, dtype=float),
    )


def test_arrays_of_a_train_are_read_in_place_from_aligned_parts_of_the_frame() -> None:
    payload = in_memory(train_parts(train())[0])
    found = train_of(payload)
    arrays: list[Any] = [found.arrival]
    for column in found.columns:
        if column.type == STRING:
            arrays += [np.frombuffer(buffer, np.uint8) for buffer in column.data.buffers()[1:]]
        else:
            arrays.append(column.data)
        if column.valid is not None:
            arrays.append(column.valid)
    assert len(arrays) == 8
    whole = np.frombuffer(payload, np.uint8)
    assert all(np.shares_memory(array, whole) for array in arrays)
    assert [array.__array_interface__["data"][0] % ALIGNED for array in arrays] == [0] * len(arrays)


def test_equal_arrivals_are_stored_as_a_single_value() -> None:
    many = 100_000
    parts, size = train_parts(Train((), same_arrival(2.5, many)))
    found = train_of(in_memory(parts))
    assert size <= ALIGNED
    assert is_same(found.arrival)
    assert (len(found), found.arrival[-1]) == (many, 2.5)


def test_numbers_of_an_input_batch_are_read_in_place_from_the_frame() -> None:
    schema = Schema((Field("a", INT64), Field("b", FLOAT64)))
    batch = pa.RecordBatch.from_arrays([np.arange(ROWS), np.arange(ROWS) / 2], schema=schema.arrow)
    payload = in_memory(batch_parts(1.0, train_from_arrow(batch, schema, 0.0))[0])
    found = batch_of(payload)
    whole = np.frombuffer(payload, np.uint8)
    assert all(np.shares_memory(column.data, whole) for column in found.columns)


def test_payload_of_another_kind_or_version_is_refused() -> None:
    payload = in_memory(batch_parts(1.0, Train((), np.empty(0)))[0])
    with pytest.raises(NotAFrame, match="format 1 of version 1"):
        train_of(payload)
    payload[0] = 9
    with pytest.raises(NotAFrame, match="version 1"):
        batch_of(payload)
