"""Messages between a gateway, its readers and its producers.

Readers and gateway exchange packets (`actors.runtime.unix_channel`). A reader subscribes to a stream, reads the frames from the
stream's log, and releases frames that it no longer needs. The gateway informs readers of new frames:

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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from actors.log.train_format import MARK_BYTES, NOBODY, BatchId
from actors.messages.turn_messages import NAME_MAX, NotUnderstood, check_version
from actors.runtime.unix_channel import MESSAGE_MAX

VERSION = 5
# Value of `next` in a Subscribe without a position: begin with the frames that came after the reader was declared.
FROM_NOW = -1
# Value of `next` for an unknown length of a class's log: no host has announced its length, or the reader has not been informed.
NO_GROWTH = -1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.#-]*")
_SEPARATOR = "\n"


@dataclass(frozen=True, slots=True)
class ReaderMessage:
    """Message about a reader and a stream, from the reader to the gateway or from the gateway to the reader."""

    reader: str
    stream: str


@dataclass(frozen=True, slots=True)
class Subscribe(ReaderMessage):
    """Request to read a stream from frame `next` on. If `lossless`, the gateway keeps each frame until the reader releases the frame."""

    next: int
    lossless: bool
    ask: int = 0
    """Number that the answer repeats, so that a reader can match answers to several Subscribe messages."""


@dataclass(frozen=True, slots=True)
class Heard(ReaderMessage):
    """Message of a reader that has read all frames before frame `next` and waits for more frames."""

    next: int


@dataclass(frozen=True, slots=True)
class Released(ReaderMessage):
    """Message of a reader that does not need the frames before frame `below` any more."""

    below: int


@dataclass(frozen=True, slots=True)
class Unsubscribe(ReaderMessage):
    """Request to end a subscription, after which no frames are kept for the reader."""


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
    """Request of a reader to be informed once, by a message Grew, when the length of a class's log differs from `next`."""

    name: str
    next: int = NO_GROWTH


@dataclass(frozen=True, slots=True)
class Subscribed(ReaderMessage):
    """Confirmation of a Subscribe. The reader begins at `next` if it sent FROM_NOW; otherwise `next` is the end of the stream."""

    ask: int
    """Number from the Subscribe that this message answers."""
    next: int
    rows: int | None = None
    """Number of rows of the stream before `next` if the reader begins there; None if it is not known."""


@dataclass(frozen=True, slots=True)
class News(ReaderMessage):
    """Announcement that the stream's log has all frames before frame `next`."""

    next: int


@dataclass(frozen=True, slots=True)
class CaughtUp(ReaderMessage):
    """Time at which the stream's feed had published everything that its source had, by the clock of arrival times."""

    at: float


@dataclass(frozen=True, slots=True)
class LogIsFull(ReaderMessage):
    """Notice that producers of the stream are refused until the reader releases frames."""


@dataclass(frozen=True, slots=True)
class Denied(ReaderMessage):
    """Notice that the reader is not, or no longer, subscribed."""

    reason: str


# The position of a type in the union `Message` is its number in packets.
Message = (
    Subscribe
    | Heard
    | Released
    | Unsubscribe
    | Grew
    | Subscribed
    | News
    | Denied
    | CaughtUp
    | Reads
    | LogIsFull
    | AwaitGrowth
)
_KINDS: tuple[Any, ...] = get_args(Message)
_FIXED = struct.Struct("<BBqqq")  # Fields of a reader's packet: version, kind, three numbers
_UNKNOWN = -1


def encode(message: Message) -> bytes:
    match message:
        case Heard(reader, stream, number) | Released(reader, stream, number) | News(reader, stream, number):
            return _packet(message, (reader, stream), number)
        case Grew(name, number) | AwaitGrowth(name, number):
            return _packet(message, (name,), number)
        case Unsubscribe(reader, stream) | LogIsFull(reader, stream):
            return _packet(message, (reader, stream))
        case CaughtUp(reader, stream, at):
            return _packet(message, (reader, stream), round(1e6 * at))
        case Subscribe(reader, stream, number, lossless, ask):
            return _packet(message, (reader, stream), number, lossless, ask)
        case Subscribed(reader, stream, ask, number, rows):
            return _packet(message, (reader, stream), ask, number, _UNKNOWN if rows is None else rows)
        case Reads(reader, streams):
            return _packet(message, (reader, *streams))
        case Denied(reader, stream, reason):
            return _packet(message, (reader, stream, reason))[:MESSAGE_MAX]


def _packet(
    message: Message, texts: tuple[str, ...], first: int = 0, second: int = 0, third: int = 0
) -> bytes:
    number = _KINDS.index(type(message))
    return _FIXED.pack(VERSION, number, first, second, third) + _SEPARATOR.join(texts).encode()


def decode(packet: bytes) -> Message:
    """Return the message of a packet from an untrusted sender; raise NotUnderstood if the packet is malformed."""
    if not _FIXED.size <= len(packet) <= MESSAGE_MAX:
        raise NotUnderstood(f"a message has {_FIXED.size} to {MESSAGE_MAX} bytes (got {len(packet)})")
    version, number, first, second, third = _FIXED.unpack_from(packet)
    check_version(version, VERSION, "gateway")
    kind: Any = _KINDS[number] if number < len(_KINDS) else None
    texts = packet[_FIXED.size :].decode(errors="replace").split(_SEPARATOR, -1 if kind is Reads else 2)
    if kind is Denied:
        return Denied(*[*texts, "", "", ""][:3])
    names = tuple(map(_checked, texts))
    if kind is Reads:
        return Reads(names[0], names[1:])
    if kind is None or len(names) != (1 if kind in (Grew, AwaitGrowth) else 2):
        raise NotUnderstood(f"the gateway message has an unknown kind {number} with {len(names)} names")
    values: Mapping[Any, tuple[Any, ...]] = {
        Subscribe: (first, bool(second), third),
        Subscribed: (first, second, None if third == _UNKNOWN else third),
        CaughtUp: (first / 1e6,),
        Unsubscribe: (),
        LogIsFull: (),
    }
    message: Message = kind(*names, *values.get(kind, (first,)))
    return message


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
    body: int  # Size of the body in bytes
    part_of: BatchId | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """Answer to a batch that is in the stream's log.

    `number` is the number of the batch's first frame. If the batch had been published before (`again`), its frames are before `number`.
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
# Head of a producer's message: version, kind, bytes of the stream's name, rows, bytes of the body, hash of the producer's name, batch.
HEAD = struct.Struct(f"<BBHIQ{MARK_BYTES}sq")
# Head of an answer to a producer: version, kind, bytes of the body, frame number, seconds until a retry.
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
    check_version(version, VERSION, "producer")
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
    check_version(version, VERSION, "producer")
    return int(size)


def answer_of(head: bytes, body: bytes) -> Answer:
    _, kind, _, number, seconds = _ANSWER.unpack(head)
    if kind in (ACCEPTED, AGAIN):
        return Accepted(number, kind == AGAIN)
    if kind == DESCRIBED:
        return Described(body)
    return RefusedBatch(body.decode(errors="replace"), None if seconds == _NEVER else seconds)
