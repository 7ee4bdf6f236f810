"""Messages between a gateway, its readers and its producers.

Readers and gateway exchange packets (`actors.runtime.unix_channel`):

    reader → gateway    Subscribe(reader, stream, next, lossless, ask)  Heard(reader, stream, next)
                        Released(reader, stream, below)  Unsubscribe(reader, stream)  Grew(name, next)
                        Reads(reader, streams)  AwaitGrowth(name, next)
    gateway → reader    Subscribed(reader, stream, ask, next, rows)  News(reader, stream, next)  Denied(reader, stream, reason)
                        CaughtUp(reader, stream, at)  LogIsFull(reader, stream)  Grew(name, next)

A reader that subscribes with FROM_NOW begins at the position that the stream had when the reader was declared. A known reader
without a new declaration resumes at the position it last released. `next` of Subscribed contains the position.
After Subscribed or News the reader reads the stream's log up to `next` and sends Heard with the number of the frame it wants
next. The gateway answers with one News as soon as there are more frames, so a slow reader is not flooded.
Released means that the reader does not need the frames below the number any more.
Hosts send Grew when the log of a class has more commits. A reader of answers sends AwaitGrowth with the number of the last Grew
that it received. It receives one Grew as soon as the number has changed.

Producers use a stream socket. A message is a head, the name of the stream, and a body:

    producer → gateway  Describe(stream; body: Arrow schema)  Publish(stream, rows, id; body: Arrow record batch)
    gateway → producer  Described(body: the stream's Arrow schema)  Accepted(number, again)  Refused(reason, retry_after_s)

A producer that numbers its batches may send a batch again, and the batch is published once. Other producers send no id.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from actors.log.train_format import MARK_BYTES, NOBODY, BatchId
from actors.messages.turn_messages import NotUnderstood
from actors.runtime.unix_channel import MESSAGE_MAX

VERSION = 5
# Value of `next` in a Subscribe without a position: begin with the frames that came after the reader was declared.
FROM_NOW = -1
NAME_MAX = 80  # longest name of a unit: its class, then # and the shard
# Value of `next` in an AwaitGrowth before the first Grew, and in a Grew for a class without an announcement.
NO_GROWTH = -1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.#-]*")
_SEPARATOR = "\n"


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Request to read a stream from frame `next` on. If `lossless`, no frame may be forgotten before the reader releases it."""

    reader: str
    stream: str
    next: int
    lossless: bool
    ask: int = 0
    """Number that the answer repeats, so that a reader can match answers to several Subscribe messages."""


@dataclass(frozen=True, slots=True)
class Heard:
    """Message of a reader that has read all frames below `next` and waits for more."""

    reader: str
    stream: str
    next: int


@dataclass(frozen=True, slots=True)
class Released:
    """Message of a reader that does not need the frames below a number any more."""

    reader: str
    stream: str
    below: int


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Request to end a subscription, after which no frames are kept for the reader."""

    reader: str
    stream: str


@dataclass(frozen=True, slots=True)
class Reads:
    """All streams that a reader reads. Its subscriptions to other streams are ended."""

    reader: str
    streams: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grew:
    """Announcement of the length of a class's log: `next` is the number of its next frame."""

    name: str
    next: int


@dataclass(frozen=True, slots=True)
class AwaitGrowth:
    """Request for one Grew of a class as soon as its number differs from `next`."""

    name: str
    next: int = NO_GROWTH


@dataclass(frozen=True, slots=True)
class Subscribed:
    """Confirmation of a Subscribe. The reader begins at `next` if it sent FROM_NOW; otherwise `next` is the end of the stream."""

    reader: str
    stream: str
    ask: int
    """Number from the Subscribe that this message answers."""
    next: int
    rows: int | None = None
    """Number of rows of the stream before `next` if the reader begins there; None if it is not known."""


@dataclass(frozen=True, slots=True)
class News:
    """Announcement that the stream's log has frames below `next`."""

    reader: str
    stream: str
    next: int


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Time, by the clock of arrivals, at which the stream's feed had published everything that its source had."""

    reader: str
    stream: str
    at: float


@dataclass(frozen=True, slots=True)
class LogIsFull:
    """Notice that producers of the stream are refused until the reader releases frames."""

    reader: str
    stream: str


@dataclass(frozen=True, slots=True)
class Denied:
    """Notice that the reader is not, or no longer, subscribed."""

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
_FIXED = struct.Struct("<BBqqq")  # fields of a reader's packet: version, kind, three numbers
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
    """Return the message of a packet from an untrusted sender; raise NotUnderstood if the packet is malformed."""
    if not _FIXED.size <= len(packet) <= MESSAGE_MAX:
        raise NotUnderstood(f"a message has {_FIXED.size} to {MESSAGE_MAX} bytes (got {len(packet)})")
    version, kind, *numbers = _FIXED.unpack_from(packet)
    if version != VERSION:
        raise NotUnderstood(
            f"the sender uses version {version} of the gateway messages; this process expects version {VERSION}"
        )
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
    raise NotUnderstood(f"the gateway message has an unknown kind {kind} with {len(names)} names")


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
    raise NotUnderstood(f"the gateway message has an unknown kind {kind}")


def _checked(name: str) -> str:
    if len(name) > NAME_MAX or _NAME.fullmatch(name) is None:
        raise NotUnderstood(f"the gateway message contains an invalid name: {name[:NAME_MAX]!r}")
    return name


@dataclass(frozen=True, slots=True)
class ProducerHead:
    """Head of a producer's message, which precedes the body."""

    kind: int
    stream: str
    rows: int
    body: int  # size of the body in bytes
    part_of: BatchId | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """Answer to a batch that is in the stream's log.

    `number` is the batch's first frame; if the batch had been published before (`again`), all its frames are below `number`.
    """

    number: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class RefusedBatch:
    """Answer to a batch that is not in the log. The batch may be sent again after `retry_after_s` seconds; None means never."""

    reason: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Described:
    """Answer to Describe: the columns of the stream as a serialized Arrow schema."""

    schema: bytes


Answer = Accepted | RefusedBatch | Described

DESCRIBE, PUBLISH = range(2)
DESCRIBED, ACCEPTED, REFUSED, AGAIN = range(4)
# Fields: version, kind, bytes of the stream's name, rows, bytes of the body, hash of the producer's name, number of the batch.
HEAD = struct.Struct(f"<BBHIQ{MARK_BYTES}sq")
# Fields: version, kind, bytes of the body, frame number, seconds until a retry.
_ANSWER = struct.Struct("<BBxxIqd")
ANSWER_SIZE = _ANSWER.size
_NEVER = -1.0
REASON_MAX = 2000


def head_bytes(kind: int, stream: str, rows: int, body: int, part_of: BatchId | None = None) -> bytes:
    name = stream.encode()
    mark, number = (NOBODY, 0) if part_of is None else (part_of.mark, part_of.number)
    head = (VERSION, kind, len(name), rows, body, mark, number)
    return HEAD.pack(*head) + name


def name_size(head: memoryview) -> int:
    """Return the size of the stream's name that follows the head; raise NotUnderstood if the head is malformed."""
    version, kind, size, *_, number = HEAD.unpack_from(head)
    if version != VERSION:
        raise NotUnderstood(
            f"the sender uses version {version} of the producer messages; this process expects version {VERSION}"
        )
    if kind not in (DESCRIBE, PUBLISH) or not 0 < size <= NAME_MAX:
        raise NotUnderstood(f"the producer message has an unknown kind {kind} with a name of {size} bytes")
    if number < 0:
        raise NotUnderstood(f"the number of a batch is negative (got {number})")
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
    """Return the size of the body that follows the fixed part of an answer."""
    version, _, size, _, _ = _ANSWER.unpack(head)
    if version != VERSION:
        raise NotUnderstood(
            f"the sender uses version {version} of the producer messages; this process expects version {VERSION}"
        )
    return int(size)


def answer_of(head: bytes, body: bytes) -> Answer:
    _, kind, _, number, seconds = _ANSWER.unpack(head)
    if kind in (ACCEPTED, AGAIN):
        return Accepted(number, kind == AGAIN)
    if kind == DESCRIBED:
        return Described(body)
    return RefusedBatch(body.decode(errors="replace"), None if seconds == _NEVER else seconds)
