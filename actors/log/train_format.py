"""Format of trains and input batches as payloads of frames (`actors.log.segment_log`), which are read without copying.

The gateway converts an input batch to a train once, when it writes the batch; all classes read that train. The columns are
aligned, which the buffers of an Arrow message are not: operators take a fifth longer to read unaligned columns.

    train   header: version, kind, arrival form, columns, rows, kept, watermark, the common arrival, bytes of the causes
            a record for each column: kind, digits, whether there is a mask, bytes of text
            causes; arrivals unless all are the same; for each column its mask, offsets, data
    batch   header: version, kind, rows, arrival, rows of all earlier batches, producer and number of the batch if it has one;
            then the train, 64 bytes after the beginning of the header

Every array of a train begins at a multiple of 64 bytes from the beginning of the payload. The value stored under a NULL is
preserved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.log.segment_log import ALIGNED, Part
from configs.errors import WeirError
from engine.data.schema import DataType, Field, TypeKind
from engine.data.train import Train, Values, empty_values, is_same, same_arrival
from engine.data.watermark_causes import AdvanceCause, Causes, Moment, Together, Tuples

VERSION = 1
TRAIN, BATCH = 1, 2

# Fields of a train's header: version, kind, flag for equal arrivals, columns, bytes of causes, rows, kept fraction, watermark, arrival.
_TRAIN = Struct("=BB?xHxxQQdqd")
# Fields of a column's record: kind, precision, scale, flag for a mask, bytes of text
_COLUMN = Struct("=BBB?xxxxQ")
# Fields of a batch's header: version, kind, rows, arrival, rows of earlier batches, hash of the producer's name, number of its batch
_BATCH = Struct("=BB6xQdQ16sq8x")
_KINDS = tuple(TypeKind)
PADDING = tuple(bytes(size) for size in range(ALIGNED))
MARK_BYTES = 16
NOBODY = bytes(MARK_BYTES)
# Maximum number of types in the cache, since every new plan creates new type objects.
TYPES_KEPT = 4096

_MOMENT, _TUPLES, _TOGETHER = range(3)
_COUNT = Struct("=Q")
_BEHIND = Struct("=q")
# Fields of a watermark cause of type Moment: kind of cause, event time reached, arrival time
_MOMENT_OF = Struct("=Qqd")
# Fields of a watermark cause of type Tuples: kind of cause, event time reached, delay of the watermark, rows, flag for equal arrivals.
_TUPLES_OF = Struct("=QqqQQ")
# Fields of a watermark cause of type Together: kind of cause, event time reached, number of inputs
_TOGETHER_OF = Struct("=QqQ")


@dataclass(frozen=True, slots=True)
class BatchId:
    """Id of a batch from a producer that numbers its batches. By the id, a batch that is sent again is recognized."""

    mark: bytes
    """Hash of the producer's name, see `mark_of`."""
    number: int


class NotAFrame(WeirError):
    """Error for a payload of another version or kind."""


@dataclass(frozen=True, slots=True)
class WrittenType:
    """Data type, and how columns of this type are written."""

    type: DataType  # Reference that keeps the type alive, so that its id() stays unique
    code: int
    is_text: bool
    record: bytes  # Bytes that describe a column without a mask and without text


_described: dict[int, WrittenType] = {}


def train_parts(train: Train) -> tuple[list[Part], int]:
    """Return the parts that make up the payload of a train, and their total size."""
    parts: list[Part] = []
    return parts, append_train(parts, train)


def append_train(parts: list[Part], train: Train, with_causes: bool = True) -> int:
    """Append the parts of a train and return their size. The existing parts must end at a multiple of 64 bytes."""
    rows = len(train.arrival)
    same = is_same(train.arrival)
    causes = causes_bytes(train.causes) if with_causes and train.causes else b""
    records = []
    arrays: list[Any] = [] if same else [contiguous(train.arrival)]
    for column in train.columns:
        known = _described.get(id(column.type)) or described(column.type)
        # Most columns have neither a mask nor text, and take only these three lines.
        if column.valid is None and not known.is_text:
            arrays.append(contiguous(column.data))
            records.append(known.record)
            continue
        text = 0
        if column.valid is not None:
            arrays.append(contiguous(column.valid))
        if known.is_text:
            offsets, data = text_buffers(column.data)
            text = len(data)
            arrays += (offsets, data)
        else:
            arrays.append(contiguous(column.data))
        fields = (known.code, column.type.precision, column.type.scale, column.valid is not None, text)
        records.append(_COLUMN.pack(*fields))
    moment = train.arrival[0] if same else 0.0
    counts = (same, len(records), len(causes), rows)
    header = (VERSION, TRAIN, *counts, train.kept, train.watermark, moment)
    head = b"".join((_TRAIN.pack(*header), *records))
    if causes:
        head = head.ljust(aligned(len(head)), b"\0") + causes
    return append_in_a_row(parts, head, arrays if rows else ())


def append_in_a_row(parts: list[Part], head: Part, arrays: Iterable[Any]) -> int:
    """Append the head and the arrays, each at a multiple of 64 bytes from the beginning of the head; return their size."""
    parts.append(head)
    size: int = len(head)
    for array in arrays:
        if gap := -size % ALIGNED:
            parts.append(PADDING[gap])
            size += gap
        parts.append(array)
        size += array.nbytes
    return size


def train_of(payload: memoryview) -> Train:
    """Return the train of a payload; its arrays are views of the payload."""
    check(payload, TRAIN, _TRAIN.size)
    _, _, same, columns, causes_size, rows, kept, watermark, moment = _TRAIN.unpack_from(payload)
    begin = _TRAIN.size + columns * _COLUMN.size
    records = _COLUMN.iter_unpack(payload[_TRAIN.size : begin])
    place = aligned(begin)
    causes = read_causes(payload, place)[0] if causes_size else ()
    if not rows:
        empty = [empty_values(Field("", typed(*record[:3]))) for record in records]
        return Train(tuple(empty), np.empty(0), kept, watermark, causes)
    place = aligned(place + causes_size)
    if same:
        arrival = same_arrival(moment, rows)
    else:
        arrival = np.frombuffer(payload, np.float64, rows, place)
        place = aligned(place + 8 * rows)
    found = []
    for code, precision, scale, masked, text in records:
        type_ = typed(code, precision, scale)
        valid = None
        if masked:
            valid = np.frombuffer(payload, np.bool_, rows, place)
            place = aligned(place + rows)
        if type_.kind is TypeKind.STRING:
            begin = aligned(place + 4 * (rows + 1))
            offsets, strings = pa.py_buffer(payload[place:begin]), pa.py_buffer(payload[begin : begin + text])
            data: Any = pa.StringArray.from_buffers(rows, offsets, strings)
            place = aligned(begin + text)
        else:
            data = np.frombuffer(payload, type_.numpy, rows, place)
            place = aligned(place + data.nbytes)
        found.append(Values(type_, data, valid))
    return Train(tuple(found), arrival, kept, watermark, causes)


def batch_parts(
    arrival: float, train: Train, before: int = 0, part_of: BatchId | None = None
) -> tuple[list[Part], int]:
    """Return the parts of an input batch and their total size; `before` is the number of rows of all earlier batches."""
    parts, size = train_parts(train)
    mark, number = (NOBODY, 0) if part_of is None else (part_of.mark, part_of.number)
    header = (VERSION, BATCH, len(train), arrival, before, mark, number)
    return [_BATCH.pack(*header), *parts], _BATCH.size + size


def mark_of(producer: str) -> bytes:
    """Return a hash of a producer's name, which is unique in practice."""
    return blake2b(producer.encode(), digest_size=MARK_BYTES).digest()


def batch_of(payload: memoryview) -> Train:
    """Return the train of an input batch; its arrays are views of the payload."""
    rows, arrival, _ = batch_head(payload)
    train = train_of(payload[_BATCH.size :])
    train.arrival = same_arrival(arrival, rows)
    return train


def batch_head(payload: memoryview) -> tuple[int, float, int]:
    """Return number of rows and arrival time of an input batch, and the number of rows of all earlier batches."""
    check(payload, BATCH, _BATCH.size)
    _, _, rows, arrival, before, _, _ = _BATCH.unpack_from(payload)
    return rows, arrival, before


def batch_id(payload: memoryview) -> BatchId | None:
    """Return the id of an input batch; None if its producer does not number batches."""
    check(payload, BATCH, _BATCH.size)
    _, _, _, _, _, mark, number = _BATCH.unpack_from(payload)
    return None if mark == NOBODY else BatchId(mark, number)


def later_parts(payload: memoryview, seconds: float) -> list[Part]:
    """Return the parts of an input batch, with an arrival time that is `seconds` later than in the payload."""
    check(payload, BATCH, _BATCH.size)
    _, _, rows, arrival, *others = _BATCH.unpack_from(payload)
    return [_BATCH.pack(VERSION, BATCH, rows, arrival + seconds, *others), payload[_BATCH.size :]]


def check(payload: memoryview, kind: int, size: int) -> None:
    if len(payload) < size or payload[0] != VERSION or payload[1] != kind:
        raise NotAFrame(
            f"the payload does not have format {kind} of version {VERSION}",
            value=bytes(payload[:2]),
            hint="check that the log was written by this version of Weir",
        )


def aligned(place: int) -> int:
    return -(-place // ALIGNED) * ALIGNED


def contiguous(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def described(type_: DataType) -> WrittenType:
    if len(_described) >= TYPES_KEPT:
        _described.clear()
    code = _KINDS.index(type_.kind)
    record = _COLUMN.pack(code, type_.precision, type_.scale, False, 0)
    found = _described[id(type_)] = WrittenType(type_, code, type_.kind is TypeKind.STRING, record)
    return found


@cache
def typed(code: int, precision: int, scale: int) -> DataType:
    return DataType(_KINDS[code], precision, scale)


def text_buffers(strings: pa.StringArray) -> tuple[npt.NDArray[np.int32], memoryview]:
    """Return the offsets of strings, moved so that they begin at 0, and the text they refer to."""
    _, places, text = strings.buffers()
    offsets = (
        np.frombuffer(places, np.int32, len(strings) + 1, 4 * strings.offset)
        if places
        else np.zeros(1, np.int32)
    )
    first, last = int(offsets[0]), int(offsets[-1])
    within = memoryview(b"") if text is None else memoryview(text)[first:last]
    return (offsets - offsets[0] if first else offsets), within


def causes_bytes(causes: Causes) -> bytes:
    return b"".join([_COUNT.pack(len(causes)), *map(step_bytes, causes)])


def step_bytes(step: AdvanceCause) -> bytes:
    match step:
        case Moment(upto, at):
            return _MOMENT_OF.pack(_MOMENT, upto, at)
        case Tuples(upto, times, arrivals, behind):
            header = _TUPLES_OF.pack(_TUPLES, upto, behind, len(times), is_same(arrivals))
            return header + times.tobytes() + (arrivals[:1] if is_same(arrivals) else arrivals).tobytes()
        case Together(upto, inputs):
            each = [_BEHIND.pack(behind) + causes_bytes(causes) for causes, behind in inputs]
            return b"".join([_TOGETHER_OF.pack(_TOGETHER, upto, len(inputs)), *each])
    raise TypeError(f"the cause of a watermark has an unknown kind: {step!r}")


def read_causes(payload: memoryview, place: int) -> tuple[Causes, int]:
    (steps,) = _COUNT.unpack_from(payload, place)
    place += _COUNT.size
    found = []
    for _ in range(steps):
        step, place = read_step(payload, place)
        found.append(step)
    return tuple(found), place


def read_step(payload: memoryview, place: int) -> tuple[AdvanceCause, int]:
    (kind,) = _COUNT.unpack_from(payload, place)
    if kind == _MOMENT:
        _, upto, at = _MOMENT_OF.unpack_from(payload, place)
        return Moment(upto, at), place + _MOMENT_OF.size
    if kind == _TUPLES:
        _, upto, behind, rows, same = _TUPLES_OF.unpack_from(payload, place)
        place += _TUPLES_OF.size
        times = np.frombuffer(payload, np.int64, rows, place)
        place += 8 * rows
        arrivals = np.frombuffer(payload, np.float64, 1 if same else rows, place)
        place += arrivals.nbytes
        return Tuples(upto, times, same_arrival(arrivals[0], rows) if same else arrivals, behind), place
    _, upto, inputs = _TOGETHER_OF.unpack_from(payload, place)
    place += _TOGETHER_OF.size
    found = []
    for _ in range(inputs):
        (behind,) = _BEHIND.unpack_from(payload, place)
        causes, place = read_causes(payload, place + _BEHIND.size)
        found.append((causes, behind))
    return Together(upto, tuple(found)), place
