"""Encoding of rows as JSON or as an Arrow stream.

In JSON, timestamps are ISO 8601 in UTC, or microseconds since 1970 outside the years 1 to 9999. Decimals are strings; NaN
and infinities are null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

# First moment of the year 1 and last moment of the year 9999, in microseconds since 1970.
FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999


def as_json_rows(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Return the rows as JSON objects separated by commas."""
    parts = (orjson.dumps(rows_of(batch))[1:-1] for batch in batches if batch.num_rows)
    return b",".join(parts)


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    names = batch.schema.names
    columns = [values_of(column) for column in batch.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def values_of(array: pa.Array) -> list[Any]:
    """Return the values of a column as Python values for JSON."""
    if pa.types.is_timestamp(array.type):
        return moments_of(array)
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.string())
    if array.null_count and not pa.types.is_string(array.type):
        values: list[Any] = array.to_pylist()
    else:
        values = array.to_numpy(zero_copy_only=False).tolist()
    return values


def moments_of(array: pa.Array) -> list[Any]:
    text = pc.replace_substring(array.cast(pa.timestamp("us")).cast(pa.string()), " ", "T")
    texts: list[Any] = pc.binary_join_element_wise(text, "Z", "").to_numpy(zero_copy_only=False).tolist()
    numbers = array.view(pa.int64())
    outside = pc.or_(pc.less(numbers, FIRST_US), pc.greater(numbers, LAST_US))
    if not pc.any(outside).as_py():
        return texts
    pairs = zip(texts, numbers.to_pylist(), outside.to_pylist(), strict=True)
    return [number if is_outside else moment for moment, number, is_outside in pairs]


def as_arrow_stream(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content
