"""Trains are read from frames as they were written: with every type, with NULLs, empty, and with the progress of event time."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from actors.log.segment_log import Reader, SegmentWriter
from actors.log.train_format import (
    BatchId,
    append_train,
    batch_head,
    batch_id,
    batch_of,
    batch_parts,
    later_parts,
    mark_of,
    train_of,
    train_parts,
)
from engine.data.schema import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    DataType,
    Field,
    Schema,
    decimal,
)
from engine.data.train import Train, Values, is_same, same_arrival, train_from_arrow, train_to_arrow
from engine.data.watermark_causes import NO_PROGRESS, AdvanceCause, Causes, Moment, Together, Tuples

TYPES = st.sampled_from(
    [BOOLEAN, INT32, INT64, FLOAT32, FLOAT64, STRING, TIMESTAMP, decimal(18, 3), decimal(5, 0)]
)
INT64S = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)


@st.composite
def columns(draw: st.DrawFn, rows: int) -> Values:
    type_ = draw(TYPES)
    valid = draw(st.none() | st.lists(st.booleans(), min_size=rows, max_size=rows))
    mask = None if valid is None else np.array(valid, bool)
    if type_ is STRING:
        before, texts = draw(st.integers(0, 3)), draw(st.lists(st.text(), min_size=rows, max_size=rows))
        return Values(type_, pa.array(["cut"] * before + texts, pa.string())[before:], mask)
    # Every bit pattern is a valid value. Half of the arrays are strided, because frames must accept strided arrays, too.
    stride = draw(st.integers(1, 2))
    size = rows * stride * type_.numpy.itemsize
    data = draw(st.binary(min_size=size, max_size=size))
    array = np.frombuffer(data, np.uint8) % 2 == 1 if type_ is BOOLEAN else np.frombuffer(data, type_.numpy)
    return Values(type_, array[::stride], mask)


@st.composite
def arrivals(draw: st.DrawFn, rows: int) -> Any:
    if draw(st.booleans()):
        return same_arrival(draw(FLOATS), rows)
    return np.array(draw(st.lists(FLOATS, min_size=rows, max_size=rows)), float)


@st.composite
def steps(draw: st.DrawFn, depth: int = 2) -> AdvanceCause:
    upto = draw(INT64S)
    match draw(st.integers(0, 2 if depth else 1)):
        case 0:
            return Moment(upto, draw(FLOATS))
        case 1:
            rows = draw(st.integers(0, 5))
            times = np.array(draw(st.lists(INT64S, min_size=rows, max_size=rows)), np.int64)
            return Tuples(upto, times, draw(arrivals(rows)), draw(INT64S))
    inputs = draw(
        st.lists(st.tuples(st.lists(steps(depth=depth - 1), max_size=2).map(tuple), INT64S), max_size=3)
    )
    return Together(upto, tuple(inputs))


@st.composite
def trains(draw: st.DrawFn) -> Train:
    rows = draw(st.integers(0, 70))
    return Train(
        tuple(draw(st.lists(columns(rows), max_size=5))),
        draw(arrivals(rows)),
        draw(st.floats(0, 1)),
        draw(st.just(NO_PROGRESS) | INT64S),
        tuple(draw(st.lists(steps(), max_size=3))),
    )


def plain(train: Train) -> tuple[Any, ...]:
    """Return all fields of a train as bytes and texts, for comparison."""
    found = [
        (
            column.type,
            column.data.to_pylist()
            if column.type is STRING or column.type == STRING
            else column.data.tobytes(),
            None if column.valid is None or not len(column) else column.valid.tobytes(),
        )
        for column in train.columns
    ]
    moments = (train.arrival.tobytes(), is_same(train.arrival))
    return found, moments, train.kept, train.watermark, plain_causes(train.causes)


def plain_causes(causes: Causes) -> list[Any]:
    return [plain_step(step) for step in causes]


def plain_step(step: AdvanceCause) -> Any:
    match step:
        case Tuples(upto, times, moments, behind):
            return upto, times.tobytes(), moments.tobytes(), is_same(moments), behind
        case Together(upto, inputs):
            return upto, [(plain_causes(causes), behind) for causes, behind in inputs]
    return step


def through_a_log(parts: list[Any], size: int | None = None) -> memoryview:
    with TemporaryDirectory() as folder:
        log = SegmentWriter(Path(folder))
        log.append([b"something else"])
        log.append(parts, size)
        log.close()
        return next(payload for _, payload in Reader(Path(folder)).frames(1))


@given(trains())
def test_a_train_is_read_as_it_was_written(train: Train) -> None:
    parts, size = train_parts(train)
    assert size == sum(memoryview(part).nbytes for part in parts)
    assert plain(train_of(through_a_log(parts, size))) == plain(train)


@given(trains())
def test_a_train_written_without_the_record_of_what_advanced_its_watermark_is_read_with_all_other_fields(
    train: Train,
) -> None:
    parts: list[Any] = []
    size = append_train(parts, train, with_causes=False)
    train.causes = ()
    assert plain(train_of(through_a_log(parts, size))) == plain(train)


def values_of(type_: DataType) -> st.SearchStrategy[Any]:
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "boolean": st.booleans(),
        "int32": st.integers(-(2**31), 2**31 - 1),
        "int64": INT64S,
        "float32": st.floats(allow_nan=False, width=32),
        "float64": FLOATS,
        "string": st.text(),
        "timestamp": INT64S,
        "decimal": st.decimals(-99, 99, places=type_.scale),
    }
    return kinds[type_.kind]


@st.composite
def batches(draw: st.DrawFn) -> tuple[Schema, pa.RecordBatch]:
    rows = draw(st.integers(0, 30))
    schema = Schema(
        tuple(Field(f"c{place}", type_) for place, type_ in enumerate(draw(st.lists(TYPES, max_size=4))))
    )
    arrays = [
        pa.array(
            draw(st.lists(st.none() | values_of(field.type), min_size=rows, max_size=rows)), field.type.arrow
        )
        for field in schema.fields
    ]
    return schema, pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


def batch_ids() -> st.SearchStrategy[BatchId | None]:
    return st.none() | st.builds(BatchId, st.text().map(mark_of), st.integers(0, 2**63 - 1))


@given(batches(), st.floats(0, 1e9), st.floats(-1e3, 1e3), st.integers(0, 2**63), batch_ids())
def test_an_input_batch_is_read_back_as_an_equal_train(
    given_batch: tuple[Schema, pa.RecordBatch],
    arrival: float,
    ahead: float,
    before: int,
    part_of: BatchId | None,
) -> None:
    schema, batch = given_batch
    payload = through_a_log(*batch_parts(arrival, train_from_arrow(batch, schema, 0.0), before, part_of))
    assert batch_head(payload) == (batch.num_rows, arrival, before)
    assert batch_id(payload) == part_of
    found = batch_of(payload)
    expected = train_from_arrow(batch, schema, arrival)
    assert train_to_arrow(found, schema).equals(train_to_arrow(expected, schema))
    assert found.arrival.tolist() == expected.arrival.tolist()
    moved = through_a_log(later_parts(payload, ahead))
    assert batch_head(moved) == (batch.num_rows, arrival + ahead, before)
    assert batch_id(moved) == part_of
