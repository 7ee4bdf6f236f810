"""Conversion of arguments of the client: documents (models or dicts), and rows (dicts or any Arrow data).

Tables and data frames are read through Arrow's PyCapsule interface, so neither pandas nor polars is imported.
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
ROWS_HINT = "give one dict, several dicts, or a table of pandas, polars or PyArrow"
DOCUMENT_HINT = "give a model of configs.documents.declarations, or a dict with `kind` and `name`"


@runtime_checkable
class ArrowStream(Protocol):
    """Table or data frame with Arrow data: of PyArrow, polars, DuckDB, or pandas 2.2 and later."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


@runtime_checkable
class ArrowArray(Protocol):
    """Record batch with Arrow data, for example of PyArrow."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object: ...


Row = Mapping[str, Any]
Rows = Row | Iterable[Row] | ArrowStream | ArrowArray
DocumentLike = Declaration | Document | Mapping[str, Any]


def document_in(given: DocumentLike) -> Declaration | Document:
    """Return the document as a model; a dict is converted to a model."""
    if isinstance(given, Mapping):
        return declared_in(dict(given))
    if isinstance(given, Settings | Document):
        return given
    raise WrongType(f"a document cannot be of type {type(given).__name__}", "document", hint=DOCUMENT_HINT)


def documents_in(given: DocumentLike | Sequence[DocumentLike]) -> list[Declaration | Document]:
    """Return the documents as a list; a single document becomes a list of one."""
    if isinstance(given, Mapping | Settings | Document):
        return [document_in(given)]
    return [document_in(document) for document in given]


def rows_content(rows: Rows) -> tuple[bytes, str]:
    """Return the body in which the rows are sent, and its media type."""
    if isinstance(rows, ArrowStream | ArrowArray):
        return arrow_content(rows), ARROW
    items = listed(rows)
    try:
        options = orjson.OPT_NAIVE_UTC | orjson.OPT_SERIALIZE_NUMPY
        return orjson.dumps(items, text_of, options), JSON
    except orjson.JSONEncodeError as problem:
        title = f"a row has a value that JSON cannot represent: {problem}"
        raise WrongType(title, "rows", hint="give numbers, texts, booleans, datetimes or None") from None


def listed(rows: object) -> list[Row]:
    """Return one dict or several dicts as a list of rows; raise WrongType for anything else."""
    if isinstance(rows, Mapping):
        return [rows]
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise WrongType(f"rows cannot be of type {type(rows).__name__}", "rows", hint=ROWS_HINT)
    items: list[Row] = []
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            title = f"a row cannot be of type {type(row).__name__}"
            raise WrongType(title, f"rows[{place}]", hint=ROWS_HINT)
        items.append(row)
    return items


def text_of(value: object) -> object:
    """Return a Decimal or mapping in the form in which JSON and the service can hold it."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def arrow_content(rows: ArrowStream | ArrowArray) -> bytes:
    """Return the rows as an Arrow stream of plain columns: the service accepts neither views nor dictionaries."""
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
    """Return the plain Arrow type that can hold the values of a dictionary or view type."""
    import pyarrow as pa

    if pa.types.is_dictionary(given):
        return plain_type(given.value_type)
    if pa.types.is_string_view(given):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(given) else given
