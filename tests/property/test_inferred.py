"""Streams that `weir run` infers from files.

1. The statement that is printed for a stream declares that stream, whatever its names are.
2. However a file's rows are ordered, no row is late by the inferred watermark, and the inferred lateness is
   less than a second longer than needed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from engine.data.schema import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    Field,
    Schema,
    StreamSchema,
    decimal,
)
from engine.sql import parse_create_stream
from services.cli.input.schema_inference import create_stream, infer

TYPES = st.sampled_from(
    [BOOLEAN, INT32, INT64, FLOAT32, FLOAT64, STRING, TIMESTAMP, decimal(18, 3), decimal(5, 0)]
)
SOME = [
    "ts",
    "select",
    "order",
    "watermark",
    "for",
    "a b",
    'a"b',
    "1st",
    "Größe",
    "clicks.csv",
    "interval",
    "a;b",
    "--",
]
NAMES = st.one_of(
    st.sampled_from(SOME), st.text("abz_ .'\"[(`\\é漢", min_size=1, max_size=5).filter(str.strip)
)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@st.composite
def streams(draw: st.DrawFn) -> StreamSchema:
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique_by=str.lower))
    schema = Schema(tuple(Field(name, draw(TYPES)) for name in names))
    places = [place for place, field in enumerate(schema.fields) if field.type in (TIMESTAMP, INT64)]
    if not places or draw(st.booleans()):
        return StreamSchema(draw(NAMES), schema)
    place = draw(st.sampled_from(places))
    unit_us = 1 if schema.fields[place].type == TIMESTAMP else 1000
    return StreamSchema(draw(NAMES), schema, place, draw(st.integers(0, 10**6)) * 1000, unit_us)


@given(streams())
def test_a_stream_equals_the_stream_declared_by_its_printed_create_statement(stream: StreamSchema) -> None:
    assert parse_create_stream(create_stream(stream).removesuffix(";")) == stream


@given(st.lists(st.integers(0, 10_000_000) | st.none(), min_size=1, max_size=30))
def test_the_lateness_inferred_from_a_file_is_just_long_enough_for_every_row(
    milliseconds: list[int | None],
) -> None:
    times = [None if one is None else EPOCH + timedelta(milliseconds=one) for one in milliseconds]
    stream = infer("s", pa.table({"ts": pa.array(times, pa.timestamp("ms", tz="UTC"))}), None).stream
    known = [one for one in milliseconds if one is not None]
    behind = [max(known[: place + 1]) - one for place, one in enumerate(known)]
    assert stream.time == 0
    assert 0 <= stream.lateness_us - 1000 * max(behind, default=0) < 1_000_000
