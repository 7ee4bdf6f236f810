"""Conversion of the columns of a producer's batch to those of a stream: names, types, schema policies, and rows that do not fit."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.batch_validation import NotAccepted
from engine.sql import parse_create_stream
from services.ingest.columns import DOES_NOT_FIT, NO_EVENT_TIME, mapped
from services.ingest.messages import SchemaPolicy

SQL = "CREATE STREAM readings (ts timestamp, sensor int32, temp float64, WATERMARK FOR ts AS ts)"
COUNTED = "CREATE STREAM counted (ts int64, x int32, WATERMARK FOR ts AS ts)"
TIME = pa.timestamp("us", "UTC")

Dead = list[tuple[str, str, list[dict[str, Any]]]]


def mapped_rows(
    sql: str, batch: pa.RecordBatch, policy: SchemaPolicy = "reject", time: str | None = None
) -> tuple[dict[str, list[Any]], Dead]:
    """Return the columns of the accepted rows, and the reason, column and rows of each group of invalid rows."""
    stream = parse_create_stream(sql)
    batch.validate(full=True)
    good, dead = mapped(stream, sql, batch.schema, policy, time).take(batch)
    good.validate(full=True)
    assert good.schema == stream.schema.arrow
    return good.to_pydict(), [(rows.reason, rows.column, rows.batch.to_pylist()) for rows in dead]


def readings(**columns: Any) -> pa.RecordBatch:
    given_columns = {
        "ts": pa.array([1, 2], TIME),
        "sensor": pa.array([1, 2], pa.int32()),
        "temp": [0.5, None],
    }
    return pa.RecordBatch.from_pydict({**given_columns, **columns})


def test_order_and_case_of_columns_do_not_matter() -> None:
    batch = readings().select(["temp", "ts", "sensor"]).rename_columns(["TEMP", "Ts", "sensor"])
    found, dead = mapped_rows(SQL, batch)
    assert (found["sensor"], found["temp"], dead) == ([1, 2], [0.5, None], [])


@pytest.mark.parametrize(
    ("batch", "policy", "time", "pattern"),
    [
        (readings(x=[1, 2]), "reject", None, r"column x: the stream has no column of this name.*schemaPolicy=ignore"),
        (readings(x=[1, 2]), "addNullable", None, r"CREATE STREAM readings \(x int64, ts timestamp"),
        (readings().drop_columns(["temp"]), "reject", None, r"column temp: the column is missing.*addNullable"),
        (readings().drop_columns(["temp"]), "ignore", None, r"column temp: the column is missing"),
        (readings().drop_columns(["ts"]), "addNullable", None, r"column ts: the column is missing.*timestampColumn"),
        (readings(TEMP=[1.0, 2.0]), "ignore", None, r"two columns of the same name"),
        (readings(temp=["a", "b"]), "reject", None, r"column temp: type string; expected float64 \(double\)"),
        (readings(sensor=[1.0, 2.0]), "reject", None, r"column sensor: type double; expected int32"),
        (readings(ts=[1, 2]), "reject", None, r"column ts: type int64; expected timestamp"),
        (readings(ts=pa.array([1, 2], pa.timestamp("us"))), "reject", None, r"write timestamps with a time zone"),
        (readings(), "reject", "when", r"column when: the event-time column is not among the sent columns"),
    ],
)  # fmt: skip
def test_columns_that_differ_from_the_stream_are_refused_with_a_hint(
    batch: pa.RecordBatch, policy: SchemaPolicy, time: str | None, pattern: str
) -> None:
    with pytest.raises(NotAccepted, match=f"(?s){pattern}"):
        mapped_rows(SQL, batch, policy, time)


def test_timestamp_column_is_refused_for_a_stream_without_event_time() -> None:
    with pytest.raises(NotAccepted, match="the stream has no event time"):
        mapped_rows("CREATE STREAM s (x int64)", pa.RecordBatch.from_pydict({"x": [1]}), "reject", "x")


def test_policies_drop_unknown_columns_or_fill_missing_columns() -> None:
    found, _ = mapped_rows(SQL, readings(x=[1, 2]), "ignore")
    assert list(found) == ["ts", "sensor", "temp"]
    found, _ = mapped_rows(SQL, readings().drop_columns(["temp", "sensor"]), "addNullable")
    assert (found["sensor"], found["temp"]) == ([None, None], [None, None])


def test_event_time_may_have_another_name_and_a_finer_unit() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"when": pa.array([1_999, -1, 2_000_000], TIME), "x": pa.array([1, 2, 3], pa.int32())}
    )
    assert mapped_rows(COUNTED, batch, "reject", "when") == ({"ts": [1, -1, 2000], "x": [1, 2, 3]}, [])


def test_event_time_may_be_copied_from_another_column_of_the_stream() -> None:
    sql = "CREATE STREAM s (ts timestamp, seen timestamp, WATERMARK FOR ts AS ts)"
    at = datetime(2020, 1, 1, tzinfo=UTC)
    batch = pa.RecordBatch.from_pydict({"seen": pa.array([at], TIME)})
    assert mapped_rows(sql, batch, "reject", "seen") == ({"ts": [at], "seen": [at]}, [])


def test_a_row_with_two_invalid_columns_becomes_one_dead_row_with_the_first_reason() -> None:
    batch = readings(
        ts=pa.array([1, None, None, 4], TIME),
        sensor=pa.array([1, 2, 2**40, 2**40], pa.int64()),
        temp=[1.0, 2.0, 3.0, 4.0],
    )
    found, dead = mapped_rows(SQL, batch)
    assert found["temp"] == [1.0]
    assert [(reason, column, [row["temp"] for row in rows]) for reason, column, rows in dead] == [
        (NO_EVENT_TIME, "ts", [2.0, 3.0]),
        (DOES_NOT_FIT, "sensor", [4.0]),
    ]
    assert dead[1][2][0]["sensor"] == 2**40


UNITS = {"s": 10**6, "ms": 10**3, "us": 1}
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


def around(type_: pa.DataType) -> st.SearchStrategy[int]:
    """Generate integers of a type, often at the limits of this type or of other types."""
    bits, signed = type_.bit_width, pa.types.is_signed_integer(type_)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    ends = [
        sign * 2**power + step
        for power in (7, 8, 15, 16, 24, 31, 32, 53, 63)
        for sign in (-1, 1)
        for step in (-1, 0, 1)
    ]
    return st.integers(low, high) | st.sampled_from([end for end in [*ends, 999, 1000] if low <= end <= high])


@st.composite
def integers(draw: st.DrawFn) -> pa.Array:
    type_ = draw(st.sampled_from(INTEGERS))
    return pa.array(draw(st.lists(st.none() | around(type_), max_size=20)), type_)


@given(
    integers(), st.sampled_from(["int32", "int64", "float32", "float64", "decimal(5, 2)", "decimal(18, 0)"])
)
def test_integers_become_dead_rows_if_the_column_type_cannot_hold_them_exactly(
    array: pa.Array, target: str
) -> None:
    def fits(value: int | None) -> bool:
        if value is None:
            return True
        match target:
            case "int32":
                return -(2**31) <= value < 2**31
            case "int64":
                return -(2**63) <= value < 2**63
            case "float32":
                return abs(value) <= 2**24
            case "float64":
                return abs(value) <= 2**53
            case "decimal(5, 2)":
                return abs(value) < 1000
        return abs(value) < 10**18

    batch = pa.RecordBatch.from_arrays([array], names=["x"])
    found, dead = mapped_rows(f"CREATE STREAM s (x {target})", batch)
    values = array.to_pylist()
    assert found["x"] == [value for value in values if fits(value)]
    lost = [row["x"] for _, _, rows in dead for row in rows]
    assert lost == [value for value in values if not fits(value)]


@given(
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.lists(st.none() | st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-(10**16), 10**16), max_size=20),
)
def test_timestamps_become_dead_rows_if_microseconds_cannot_hold_them_exactly(
    unit: str, values: list[int | None]
) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.timestamp(unit, "Europe/Paris"))], names=["x"])
    sql = "CREATE STREAM s (x timestamp)"
    good, dead = mapped(parse_create_stream(sql), sql, batch.schema, "reject", None).take(batch)

    def moment(value: int | None) -> int | None:
        if value is None:
            return None
        return value // 1000 if unit == "ns" else value * UNITS[unit]

    def fits(value: int | None) -> bool:
        if value is None:
            return True
        return value % 1000 == 0 if unit == "ns" else abs(value * UNITS[unit]) < 2**63

    assert good.column(0).view(pa.int64()).to_pylist() == [moment(value) for value in values if fits(value)]
    lost = [row for rows in dead for row in rows.batch.column(0).view(pa.int64()).to_pylist()]
    assert lost == [value for value in values if not fits(value)]


@given(st.lists(st.none() | st.decimals(-(10**9), 10**9, places=2), max_size=10))
def test_decimals_become_dead_rows_if_the_column_type_cannot_hold_them(values: list[Decimal | None]) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.decimal128(20, 2))], names=["x"])
    found, dead = mapped_rows("CREATE STREAM s (x decimal(9, 4))", batch)
    most = Decimal("99999.99")
    assert found["x"] == [value for value in values if value is None or abs(value) <= most]
    lost = [row["x"] for _, _, rows in dead for row in rows]
    assert lost == [value for value in values if value is not None and abs(value) > most]


@pytest.mark.parametrize(
    ("array", "target"),
    [
        (pa.array(["a", None, "b"]).dictionary_encode(), "string"),
        (pa.array(["a", None, "b"], pa.large_string()), "string"),
        (pa.array(["a", None, "b"], pa.string_view()), "string"),
        (pa.array([0.5, None, float("inf")], pa.float32()), "float64"),
        (pa.array([True, None, False]), "boolean"),
        (pa.nulls(3), "int32"),
    ],
)
def test_every_arrow_encoding_of_the_same_values_is_accepted(array: pa.Array, target: str) -> None:
    batch = pa.RecordBatch.from_arrays([array], names=["x"])
    assert mapped_rows(f"CREATE STREAM s (x {target})", batch) == ({"x": array.to_pylist()}, [])


def test_rows_outside_a_slice_of_a_batch_are_ignored() -> None:
    whole = readings(
        ts=pa.array([None, *range(9)], TIME), sensor=np.arange(10) + 2**31 - 5, temp=np.arange(10) / 2
    )
    found, dead = mapped_rows(SQL, whole.slice(3, 5))
    assert (found["temp"], [row["temp"] for row in dead[0][2]]) == ([1.5, 2.0], [2.5, 3.0, 3.5])
