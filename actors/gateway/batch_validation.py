"""What a producer may send: the columns of the stream, in a record batch that is sound to the last byte.

Every class of the stream's tenants reads what was accepted in place. So it is checked once at the door, in full: its
offsets and texts, its rows, and that nothing in it is compressed, which may unpack to any size.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from actors.log.segment_log import Part
from configs.errors import InvalidInput, nearest
from engine.data.schema import StreamSchema

RECORD_BATCH = 3  # MessageHeader of Arrow's Message.fbs
# Places of fields in the tables of Message.fbs.
HEADER_TYPE, HEADER, COMPRESSION = 1, 2, 3


class NotAccepted(InvalidInput):
    """What was sent is not a batch of the stream."""


def check_columns(stream: StreamSchema, given: pa.Schema) -> None:
    """The columns of the stream and no others, in any order, each of its type; NotAccepted if not."""
    expected = {field.name: field.type for field in stream.schema.fields}
    for name in given.names:
        if name not in expected:
            raise not_accepted(stream, name, "the stream has no such column", nearest(name, expected))
    for name, type_ in expected.items():
        places = given.get_all_field_indices(name)
        if len(places) != 1:
            what = "the column is missing" if not places else "there are two columns of this name"
            raise not_accepted(stream, name, f"{what}; expected {type_}", "send every column once")
        if given.field(places[0]).type != type_.arrow:
            what = f"{given.field(places[0]).type} where {type_} ({type_.arrow}) is expected"
            raise not_accepted(stream, name, what, f"cast it to {type_.arrow}")


def checked_batch(message: Part, stream: StreamSchema, arrow: pa.Schema, rows: int) -> pa.RecordBatch:
    """What the message holds, which is so many rows of the stream's columns; NotAccepted if not."""
    try:
        parsed = pa.ipc.read_message(pa.py_buffer(message))
        if not is_plain(parsed.metadata):
            raise not_accepted(stream, "", "not a record batch, or a compressed one", "send it uncompressed")
        batch = pa.ipc.read_record_batch(parsed, arrow)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, EOFError, struct.error) as problem:
        raise not_accepted(stream, "", "not a sound record batch of its columns", str(problem)) from None
    if batch.num_rows != rows:
        raise not_accepted(stream, "", f"{batch.num_rows} rows where {rows} are announced", "")
    return batch


def is_plain(metadata: pa.Buffer) -> bool:
    """Whether the flatbuffer is of a record batch without compression."""
    data = memoryview(metadata)
    (root,) = struct.unpack_from("<I", data)
    kind, header = field_of(data, root, HEADER_TYPE), field_of(data, root, HEADER)
    if not kind or not header or data[kind] != RECORD_BATCH:
        return False
    (offset,) = struct.unpack_from("<I", data, header)
    return not field_of(data, header + offset, COMPRESSION)


def field_of(data: memoryview, table: int, field: int) -> int:
    """Where the field of a flatbuffer's table is; 0 if it has none."""
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
