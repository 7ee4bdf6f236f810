"""Validation of the batches that producers send, before they are written to a stream's log.

Classes read accepted batches in place and do not check them again. The gateway therefore checks each batch once and in
full: its columns, offsets, strings and number of rows. It refuses compressed batches, which may unpack to any size.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from actors.log.segment_log import Part
from configs.errors import InvalidInput, nearest
from engine.data.schema import StreamSchema

RECORD_BATCH = 3  # Number that stands for a record batch in the type MessageHeader of Arrow's Message.fbs
# Numbers of fields in the flatbuffer tables of Arrow's Message.fbs.
HEADER_TYPE, HEADER, COMPRESSION = 1, 2, 3


class NotAccepted(InvalidInput):
    """Error for a schema or batch that does not match its stream."""


def check_columns(stream: StreamSchema, given: pa.Schema) -> None:
    """Raise NotAccepted unless `given` has exactly the columns and types of the stream, in any order."""
    expected = {field.name: field.type for field in stream.schema.fields}
    for name in given.names:
        if name not in expected:
            raise not_accepted(stream, name, "the stream has no column of this name", nearest(name, expected))
    for name, type_ in expected.items():
        places = given.get_all_field_indices(name)
        if len(places) != 1:
            what = "the column is missing" if not places else "several columns have this name"
            raise not_accepted(stream, name, f"{what}; expected {type_}", "send every column once")
        if given.field(places[0]).type != type_.arrow:
            what = f"the column has type {given.field(places[0]).type}; expected {type_} ({type_.arrow})"
            raise not_accepted(stream, name, what, f"cast it to {type_.arrow}")


def checked_batch(message: Part, stream: StreamSchema, arrow: pa.Schema, rows: int) -> pa.RecordBatch:
    """Return the record batch of a message. Raise NotAccepted if the batch is malformed or its length is not `rows`."""
    try:
        parsed = pa.ipc.read_message(pa.py_buffer(message))
        if not is_plain(parsed.metadata):
            raise not_accepted(
                stream,
                "",
                "the message is not a record batch, or the batch is compressed",
                "send the batch uncompressed",
            )
        batch = pa.ipc.read_record_batch(parsed, arrow)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, EOFError, struct.error) as problem:
        raise not_accepted(
            stream, "", "the record batch is malformed or does not fit the columns", str(problem)
        ) from None
    if batch.num_rows != rows:
        raise not_accepted(
            stream, "", f"the batch has {batch.num_rows} rows, but its header announces {rows}", ""
        )
    return batch


def is_plain(metadata: pa.Buffer) -> bool:
    """Return True if the metadata of an Arrow message describes an uncompressed record batch."""
    data = memoryview(metadata)
    (root,) = struct.unpack_from("<I", data)
    kind, header = field_of(data, root, HEADER_TYPE), field_of(data, root, HEADER)
    if not kind or not header or data[kind] != RECORD_BATCH:
        return False
    (offset,) = struct.unpack_from("<I", data, header)
    return not field_of(data, header + offset, COMPRESSION)


def field_of(data: memoryview, table: int, field: int) -> int:
    """Return the offset of a field in the table of a flatbuffer; 0 if the table does not have the field."""
    (back,) = struct.unpack_from("<i", data, table)
    vtable = table - back
    (size,) = struct.unpack_from("<H", data, vtable)
    place = 4 + 2 * field
    if place + 2 > size:
        return 0
    (offset,) = struct.unpack_from("<H", data, vtable + place)
    return table + offset if offset else 0


def not_accepted(stream: StreamSchema, column: str, what: str, hint: str) -> NotAccepted:
    where = f"stream {stream.name}, column {column}" if column else f"stream {stream.name}"
    return NotAccepted(what, where, hint=hint)
