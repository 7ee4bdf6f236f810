"""Documents and rows as callers of the client pass them: models or plain dicts, dicts or any Arrow data.

Frames are read through Arrow's PyCapsule interface, so that neither pandas nor polars is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import orjson

from configs.base import Settings
from configs.documents.declarations import Declaration, Document, declared_in
from configs.errors import WrongType

if TYPE_CHECKING:
    import pyarrow as pa

JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"
ROWS_HINT = "give a dict, dicts, or a table of pandas, polars or PyArrow"
DOCUMENT_HINT = "give a model of configs.documents.declarations, or a dict with `kind` and `name`"


@runtime_checkable
class ArrowStream(Protocol):
    """Tables and frames: PyArrow, polars, pandas from 2.2 on, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


@runtime_checkable
class ArrowArray(Protocol):
    """Record batches."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object: ...


Row = Mapping[str, Any]
Rows = Row | Iterable[Row] | ArrowStream | ArrowArray
DocumentLike = Declaration | Document | Mapping[str, Any]


def document_in(given: DocumentLike) -> Declaration | Document:
    """Return a document that may be given as a plain dict."""
    if isinstance(given, Mapping):
        return declared_in(dict(given))
    if isinstance(given, Settings | Document):
        return given
    raise WrongType(f"cannot be of type {type(given).__name__}", "document", hint=DOCUMENT_HINT)


def documents_in(given: DocumentLike | Sequence[DocumentLike]) -> list[Declaration | Document]:
    """Return several documents, or the one that is given alone."""
    if isinstance(given, Mapping | Settings | Document):
        return [document_in(given)]
    return [document_in(document) for document in given]


def rows_content(rows: Rows) -> tuple[bytes, str]:
    """Return rows as they are sent, with their media type."""
    if isinstance(rows, ArrowStream | ArrowArray):
        return arrow_content(rows), ARROW
    items = listed(rows)
    try:
        options = orjson.OPT_NAIVE_UTC | orjson.OPT_SERIALIZE_NUMPY
        return orjson.dumps(items, text_of, options), JSON
    except orjson.JSONEncodeError as problem:
        title = f"holds a value that JSON does not have: {problem}"
        raise WrongType(title, "rows", hint="give numbers, texts, booleans, moments or None") from None


def listed(rows: object) -> list[Row]:
    """Return the rows of a dict or of several; raise WrongType for anything else."""
    if isinstance(rows, Mapping):
        return [rows]
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise WrongType(f"cannot be of type {type(rows).__name__}", "rows", hint=ROWS_HINT)
    items: list[Row] = []
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            title = f"cannot be of type {type(row).__name__}"
            raise WrongType(title, f"rows[{place}]", hint=ROWS_HINT)
        items.append(row)
    return items


def text_of(value: object) -> object:
    """Return a value that JSON does not have as the service reads it."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def arrow_content(rows: ArrowStream | ArrowArray) -> bytes:
    """Return an Arrow stream of plain columns: the service takes neither views nor dictionaries."""
    import pyarrow as pa

    if isinstance(rows, ArrowStream):
        table = pa.RecordBatchReader.from_stream(rows).read_all()
    else:
        table = pa.Table.from_batches([pa.record_batch(rows)])
    plain = pa.schema([field.with_type(plain_type(field.type)) for field in table.schema])
    table = table.cast(plain)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def plain_type(given: pa.DataType) -> pa.DataType:
    """Return the type of the same values without dictionary or views."""
    import pyarrow as pa

    if pa.types.is_dictionary(given):
        return plain_type(given.value_type)
    if pa.types.is_string_view(given):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(given) else given
