"""What a gateway, its readers and its producers say to each other.

Readers, as packets (`actors.runtime.unix_channel`):

    reader → gateway    Subscribe(reader, stream, next, lossless, ask)  Heard(reader, stream, next)
                        Released(reader, stream, below)  Unsubscribe(reader, stream)  Grew(name, next)
                        Reads(reader, streams)  AwaitGrowth(name, next)
    gateway → reader    Subscribed(reader, stream, ask, next, rows)  News(reader, stream, next)  Denied(reader, stream, reason)
                        CaughtUp(reader, stream, at)  LogIsFull(reader, stream)  Grew(name, next)

A reader that subscribes with FROM_NOW begins where its declaration found the stream. A known reader without a new declaration
resumes at the position that it last released. `next` of Subscribed has the position.
After Subscribed or News the reader reads up to `next` from the stream's log and says Heard with the number it wants to
go on with. That is answered with one News as soon as there is more, so a slow reader gets no more than it asks for.
Released says that the reader will not need the frames below any more.
Hosts send Grew when the log of a class has more commits. A reader of answers sends AwaitGrowth with the number of the last Grew
that it has received, and receives one Grew as soon as there is another number.

Producers, over a stream socket: a head, then the name of the stream, then a body.

    producer → gateway  Describe(stream; body: Arrow schema)  Publish(stream, rows, id; body: Arrow record batch)
    gateway → producer  Described(body: the stream's Arrow schema)  Accepted(number, again)  Refused(reason, retry_after_s)

A producer that numbers its batches may send one again, and it is published once; others send no id.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from actors.log.train_format import MARK_BYTES, NOBODY, BatchId
from actors.messages.turn_messages import NotUnderstood
from actors.runtime.unix_channel import MESSAGE_MAX

VERSION = 5
# `next` of a Subscribe without a position: begin with what has come since the reader was declared.
FROM_NOW = -1
NAME_MAX = 80  # a unit's: a class, with the shard behind a #
# `next` of an AwaitGrowth before the first Grew, and of a class that has announced nothing.
NO_GROWTH = -1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.#-]*")
_SEPARATOR = "\n"


@dataclass(frozen=True, slots=True)
class Subscribe:
    """The reader will read the stream from this number on; nothing may be lost of it if `lossless`."""

    reader: str
    stream: str
    next: int
    lossless: bool
    ask: int = 0
    """A number that comes back with the answer: a reader may have subscribed several times."""


@dataclass(frozen=True, slots=True)
class Heard:
    """The reader has read what is below, and waits for more."""

    reader: str
    stream: str
    next: int


@dataclass(frozen=True, slots=True)
class Released:
    """The reader will not come back to what is below."""

    reader: str
    stream: str
    below: int


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Nothing needs to be kept for the reader any more."""

    reader: str
    stream: str


@dataclass(frozen=True, slots=True)
class Reads:
    """All streams that the reader reads: nothing needs to be kept of others for it, whatever was said before."""

    reader: str
    streams: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grew:
    """The log of the class has frames up to this number."""

    name: str
    next: int


@dataclass(frozen=True, slots=True)
class AwaitGrowth:
    """Request for one Grew of the class, as soon as its number is another one than `next`."""

    name: str
    next: int = NO_GROWTH


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The stream's log has frames up to `next`."""

    reader: str
    stream: str
    ask: int
    """Of the Subscribe that this answers."""
    next: int
    rows: int | None = None
    """Who begins with `next`: how many the stream has had before; None if that is not known."""


@dataclass(frozen=True, slots=True)
class News:
    """The stream's log has frames up to `next`."""

    reader: str
    stream: str
    next: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The feed of the stream had published everything that its source had at this moment, by the clock of arrivals."""

    reader: str
    stream: str
    at: float


@dataclass(frozen=True, slots=True)
class LogIsFull:
    """Producers of the stream are refused until the reader releases frames."""

    reader: str
    stream: str


@dataclass(frozen=True, slots=True)
class Denied:
    """The reader is not subscribed, or no longer."""

    reader: str
    stream: str
    reason: str


Message = (
    Subscribe
    | Heard
    | Released
    | Unsubscribe
    | Reads
    | Grew
    | AwaitGrowth
    | Subscribed
    | News
    | Denied
    | CaughtUp
    | LogIsFull
)

SUBSCRIBE, HEARD, RELEASED, UNSUBSCRIBE, GREW, SUBSCRIBED, NEWS, DENIED = range(8)
CAUGHT_UP, READS, LOG_IS_FULL, AWAIT_GROWTH = range(8, 12)
_FIXED = struct.Struct("<BBqqq")  # version, kind, three numbers
_UNKNOWN = -1


def encode(message: Message) -> bytes:
    match message:
        case Subscribe(reader, stream, number, lossless, ask):
            return _packet(SUBSCRIBE, number, lossless, reader, stream, third=ask)
        case Heard(reader, stream, number):
            return _packet(HEARD, number, 0, reader, stream)
        case Released(reader, stream, number):
            return _packet(RELEASED, number, 0, reader, stream)
        case Unsubscribe(reader, stream):
            return _packet(UNSUBSCRIBE, 0, 0, reader, stream)
        case Reads(reader, streams):
            return _packet(READS, 0, 0, reader, *streams)
        case Grew(name, number):
            return _packet(GREW, number, 0, name)
        case AwaitGrowth(name, number):
            return _packet(AWAIT_GROWTH, number, 0, name)
        case Subscribed(reader, stream, ask, number, rows):
            rows_before = _UNKNOWN if rows is None else rows
            return _packet(SUBSCRIBED, ask, number, reader, stream, third=rows_before)
        case News(reader, stream, number):
            return _packet(NEWS, number, 0, reader, stream)
        case CaughtUp(reader, stream, at):
            return _packet(CAUGHT_UP, round(1e6 * at), 0, reader, stream)
        case LogIsFull(reader, stream):
            return _packet(LOG_IS_FULL, 0, 0, reader, stream)
        case Denied(reader, stream, reason):
            texts = (reader, stream, reason)
            return _packet(DENIED, 0, 0, *texts)[:MESSAGE_MAX]


def _packet(kind: int, first: int, second: int, *texts: str, third: int = 0) -> bytes:
    return _FIXED.pack(VERSION, kind, first, second, third) + _SEPARATOR.join(texts).encode()


def decode(packet: bytes) -> Message:
    """The message of a packet from anybody; NotUnderstood if it is none."""
    if not _FIXED.size <= len(packet) <= MESSAGE_MAX:
        raise NotUnderstood(f"no message has {len(packet)} bytes")
    version, kind, *numbers = _FIXED.unpack_from(packet)
    if version != VERSION:
        raise NotUnderstood(f"version {version} of the gateway messages, not {VERSION}")
    text = packet[_FIXED.size :].decode(errors="replace")
    if kind == READS:
        reader, *streams = map(_checked, text.split(_SEPARATOR))
        return Reads(reader, tuple(streams))
    texts = text.split(_SEPARATOR, 2)
    if kind == DENIED:
        return Denied(*[*texts, "", "", ""][:3])
    names = [_checked(text) for text in texts]
    match kind, names:
        case _, [reader, stream]:
            return _of_two(kind, reader, stream, *numbers)
        case _, [name] if kind == GREW:
            return Grew(name, numbers[0])
        case _, [name] if kind == AWAIT_GROWTH:
            return AwaitGrowth(name, numbers[0])
    raise NotUnderstood(f"no message has kind {kind} and {len(names)} names")


def _of_two(kind: int, reader: str, stream: str, first: int, second: int, third: int) -> Message:
    if kind == HEARD:
        return Heard(reader, stream, first)
    if kind == NEWS:
        return News(reader, stream, first)
    if kind == CAUGHT_UP:
        return CaughtUp(reader, stream, first / 1e6)
    if kind == RELEASED:
        return Released(reader, stream, first)
    if kind == SUBSCRIBE:
        return Subscribe(reader, stream, first, bool(second), third)
    if kind == SUBSCRIBED:
        return Subscribed(reader, stream, first, second, None if third == _UNKNOWN else third)
    if kind == UNSUBSCRIBE:
        return Unsubscribe(reader, stream)
    if kind == LOG_IS_FULL:
        return LogIsFull(reader, stream)
    raise NotUnderstood(f"no message has kind {kind}")


def _checked(name: str) -> str:
    if len(name) > NAME_MAX or _NAME.fullmatch(name) is None:
        raise NotUnderstood(f"no name: {name[:NAME_MAX]!r}")
    return name


@dataclass(frozen=True, slots=True)
class ProducerHead:
    """What comes before the body of what a producer says."""

    kind: int
    stream: str
    rows: int
    body: int  # its bytes
    part_of: BatchId | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """The batch is in the stream's log under this number; if it had been brought `again`, below this number."""

    number: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class RefusedBatch:
    """The batch is not in the log. It may be sent again after `retry_after_s`; if that is None, never."""

    reason: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Described:
    """The columns that the stream has, as a message of an Arrow schema."""

    schema: bytes


Answer = Accepted | RefusedBatch | Described

DESCRIBE, PUBLISH = range(2)
DESCRIBED, ACCEPTED, REFUSED, AGAIN = range(4)
# version, kind, bytes of the stream's name, rows, bytes of the body, mark of the producer, number of its batch
HEAD = struct.Struct(f"<BBHIQ{MARK_BYTES}sq")
_ANSWER = struct.Struct("<BBxxIqd")  # version, kind, bytes of the body, number, seconds
ANSWER_SIZE = _ANSWER.size
_NEVER = -1.0
REASON_MAX = 2000


def head_bytes(kind: int, stream: str, rows: int, body: int, part_of: BatchId | None = None) -> bytes:
    name = stream.encode()
    mark, number = (NOBODY, 0) if part_of is None else (part_of.mark, part_of.number)
    head = (VERSION, kind, len(name), rows, body, mark, number)
    return HEAD.pack(*head) + name


def name_size(head: memoryview) -> int:
    """How many bytes of name follow the fixed part of a head; NotUnderstood if it is none."""
    version, kind, size, *_, number = HEAD.unpack_from(head)
    if version != VERSION:
        raise NotUnderstood(f"version {version} of the door's messages, not {VERSION}")
    if kind not in (DESCRIBE, PUBLISH) or not 0 < size <= NAME_MAX:
        raise NotUnderstood(f"no message has kind {kind} and a name of {size} bytes")
    if number < 0:
        raise NotUnderstood(f"no batch has the number {number}")
    return int(size)


def head_of(data: memoryview) -> ProducerHead:
    _, kind, _, rows, body, mark, number = HEAD.unpack_from(data)
    part_of = None if mark == NOBODY else BatchId(mark, number)
    return ProducerHead(
        kind, _checked(bytes(data[HEAD.size :]).decode(errors="replace")), rows, body, part_of
    )


def answer_bytes(answer: Answer) -> bytes:
    match answer:
        case Accepted(number, again):
            return _ANSWER.pack(VERSION, AGAIN if again else ACCEPTED, 0, number, 0.0)
        case RefusedBatch(reason, retry_after_s):
            text = reason.encode()[:REASON_MAX]
            after = _NEVER if retry_after_s is None else retry_after_s
            return _ANSWER.pack(VERSION, REFUSED, len(text), 0, after) + text
        case Described(schema):
            return _ANSWER.pack(VERSION, DESCRIBED, len(schema), 0, 0.0) + schema


def answer_body(head: bytes) -> int:
    """How many bytes follow the fixed part of an answer."""
    version, _, size, _, _ = _ANSWER.unpack(head)
    if version != VERSION:
        raise NotUnderstood(f"version {version} of the door's messages, not {VERSION}")
    return int(size)


def answer_of(head: bytes, body: bytes) -> Answer:
    _, kind, _, number, seconds = _ANSWER.unpack(head)
    if kind in (ACCEPTED, AGAIN):
        return Accepted(number, kind == AGAIN)
    if kind == DESCRIBED:
        return Described(body)
    return RefusedBatch(body.decode(errors="replace"), None if seconds == _NEVER else seconds)
