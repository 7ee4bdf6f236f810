"""What producers send, as the stream has it: names, types, policies, and rows that cannot be."""

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


def taken(
    sql: str, batch: pa.RecordBatch, policy: SchemaPolicy = "reject", time: str | None = None
) -> tuple[dict[str, list[Any]], Dead]:
    """Columns of the rows that are taken; reason, column and rows of those that are not."""
    stream = parse_create_stream(sql)
    batch.validate(full=True)
    good, dead = mapped(stream, sql, batch.schema, policy, time).take(batch)
    good.validate(full=True)
    assert good.schema == stream.schema.arrow
    lost = [
        (one.reason, one.column, [row for rows in one.batches for row in rows.to_pylist()]) for one in dead
    ]
    return good.to_pydict(), lost


def readings(**columns: Any) -> pa.RecordBatch:
    given_columns = {
        "ts": pa.array([1, 2], TIME),
        "sensor": pa.array([1, 2], pa.int32()),
        "temp": [0.5, None],
    }
    return pa.RecordBatch.from_pydict({**given_columns, **columns})


def test_same_columns_in_another_order_and_case_are_the_streams() -> None:
    batch = readings().select(["temp", "ts", "sensor"]).rename_columns(["TEMP", "Ts", "sensor"])
    found, dead = taken(SQL, batch)
    assert (found["sensor"], found["temp"], dead) == ([1, 2], [0.5, None], [])


@pytest.mark.parametrize(
    ("batch", "policy", "time", "what"),
    [
        (readings(x=[1, 2]), "reject", None, r"column x: the stream has no such column.*schemaPolicy=ignore"),
        (readings(x=[1, 2]), "addNullable", None, r"CREATE STREAM readings \(x int64, ts timestamp"),
        (readings().drop_columns(["temp"]), "reject", None, r"column temp: the column is missing.*addNullable"),
        (readings().drop_columns(["temp"]), "ignore", None, r"column temp: the column is missing"),
        (readings().drop_columns(["ts"]), "addNullable", None, r"column ts: the column is missing.*timestampColumn"),
        (readings(TEMP=[1.0, 2.0]), "ignore", None, r"two columns of one name"),
        (readings(temp=["a", "b"]), "reject", None, r"column temp: string where float64 \(double\) is expected"),
        (readings(sensor=[1.0, 2.0]), "reject", None, r"column sensor: double where int32"),
        (readings(ts=[1, 2]), "reject", None, r"column ts: int64 where timestamp"),
        (readings(ts=pa.array([1, 2], pa.timestamp("us"))), "reject", None, r"write it with a time zone"),
        (readings(), "reject", "when", r"column when: the column of the event time is not among those sent"),
    ],
)  # fmt: skip
def test_columns_that_are_not_the_streams_are_refused_with_a_remedy(
    batch: pa.RecordBatch, policy: SchemaPolicy, time: str | None, what: str
) -> None:
    with pytest.raises(NotAccepted, match=f"(?s){what}"):
        taken(SQL, batch, policy, time)


def test_event_time_for_a_stream_without_one_is_refused() -> None:
    with pytest.raises(NotAccepted, match="the stream has no event time"):
        taken("CREATE STREAM s (x int64)", pa.RecordBatch.from_pydict({"x": [1]}), "reject", "x")


def test_policies_drop_what_is_unknown_or_fill_what_is_missing() -> None:
    found, _ = taken(SQL, readings(x=[1, 2]), "ignore")
    assert list(found) == ["ts", "sensor", "temp"]
    found, _ = taken(SQL, readings().drop_columns(["temp", "sensor"]), "addNullable")
    assert (found["sensor"], found["temp"]) == ([None, None], [None, None])


def test_event_time_may_have_another_name_and_be_finer_than_the_streams_unit() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"when": pa.array([1_999, -1, 2_000_000], TIME), "x": pa.array([1, 2, 3], pa.int32())}
    )
    assert taken(COUNTED, batch, "reject", "when") == ({"ts": [1, -1, 2000], "x": [1, 2, 3]}, [])


def test_event_time_may_be_a_column_of_the_stream_as_well() -> None:
    sql = "CREATE STREAM s (ts timestamp, seen timestamp, WATERMARK FOR ts AS ts)"
    at = datetime(2020, 1, 1, tzinfo=UTC)
    batch = pa.RecordBatch.from_pydict({"seen": pa.array([at], TIME)})
    assert taken(sql, batch, "reject", "seen") == ({"ts": [at], "seen": [at]}, [])


def test_rows_that_cannot_be_are_set_apart_once_with_the_first_reason() -> None:
    batch = readings(
        ts=pa.array([1, None, None, 4], TIME),
        sensor=pa.array([1, 2, 2**40, 2**40], pa.int64()),
        temp=[1.0, 2.0, 3.0, 4.0],
    )
    found, dead = taken(SQL, batch)
    assert found["temp"] == [1.0]
    assert [(reason, column, [row["temp"] for row in rows]) for reason, column, rows in dead] == [
        (NO_EVENT_TIME, "ts", [2.0, 3.0]),
        (DOES_NOT_FIT, "sensor", [4.0]),
    ]
    assert dead[1][2][0]["sensor"] == 2**40


UNITS = {"s": 10**6, "ms": 10**3, "us": 1}
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


def around(type_: pa.DataType) -> st.SearchStrategy[int]:
    """Values of the type, and its ends, and the ends of others."""
    bits, signed = type_.bit_width, pa.types.is_signed_integer(type_)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    ends = [
        sign * 2**power + step
        for power in (7, 8, 15, 16, 24, 31, 32, 53, 63)
        for sign in (-1, 1)
        for step in (-1, 0, 1)
    ]
    return st.integers(low, high) | st.sampled_from([one for one in [*ends, 999, 1000] if low <= one <= high])


@st.composite
def integers(draw: st.DrawFn) -> pa.Array:
    type_ = draw(st.sampled_from(INTEGERS))
    return pa.array(draw(st.lists(st.none() | around(type_), max_size=20)), type_)


@given(
    integers(), st.sampled_from(["int32", "int64", "float32", "float64", "decimal(5, 2)", "decimal(18, 0)"])
)
def test_integers_keep_their_values_or_are_set_apart(array: pa.Array, target: str) -> None:
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
    found, dead = taken(f"CREATE STREAM s (x {target})", batch)
    values = array.to_pylist()
    assert found["x"] == [value for value in values if fits(value)]
    lost = [row["x"] for _, _, rows in dead for row in rows]
    assert lost == [value for value in values if not fits(value)]


@given(
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.lists(st.none() | st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-(10**16), 10**16), max_size=20),
)
def test_timestamps_keep_their_moments_or_are_set_apart(unit: str, values: list[int | None]) -> None:
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
    lost = [
        row for one in dead for rows in one.batches for row in rows.column(0).view(pa.int64()).to_pylist()
    ]
    assert lost == [value for value in values if not fits(value)]


@given(st.lists(st.none() | st.decimals(-(10**9), 10**9, places=2), max_size=10))
def test_decimals_keep_their_values_or_are_set_apart(values: list[Decimal | None]) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.decimal128(20, 2))], names=["x"])
    found, dead = taken("CREATE STREAM s (x decimal(9, 4))", batch)
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
def test_what_is_only_held_otherwise_is_the_same(array: pa.Array, target: str) -> None:
    batch = pa.RecordBatch.from_arrays([array], names=["x"])
    assert taken(f"CREATE STREAM s (x {target})", batch) == ({"x": array.to_pylist()}, [])


def test_rows_of_a_slice_are_those_of_the_slice() -> None:
    whole = readings(
        ts=pa.array([None, *range(9)], TIME), sensor=np.arange(10) + 2**31 - 5, temp=np.arange(10) / 2
    )
    found, dead = taken(SQL, whole.slice(3, 5))
    assert (found["temp"], [row["temp"] for row in dead[0][2]]) == ([1.5, 2.0], [2.5, 3.0, 3.5])
