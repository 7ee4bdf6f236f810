"""What a dispatcher and its hosts say to each other, as packets (`actors.runtime.unix_channel`).

    host → dispatcher      Hello(host, classes)  Ready(name)  Ended(name, lane, used_s, ran_s, backlog)  Left(name)
    dispatcher → host      Granted(name, lane, quota_s)  Refused(reason)

A packet is version, kind, the kind's fixed fields, then text. Refused looks the same in every version, so that who
speaks another one can read why it is not understood.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass

from actors.runtime.unix_channel import MESSAGE_MAX

VERSION = 1
NAME_MAX = 80  # a unit's: a class, with the shard behind a #

HELLO, READY, ENDED, LEFT, GRANTED, REFUSED = range(6)
_PLAIN = struct.Struct("<BB")
# Beside the host's, so many names of the greatest length fit into one Hello.
CLASSES_A_HELLO = (MESSAGE_MAX - _PLAIN.size) // (NAME_MAX + 1) - 1
_ENDED = struct.Struct("<BBH?dd")
_GRANTED = struct.Struct("<BBHd")
_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_.#-]{{0,{NAME_MAX - 1}}}")
_SEPARATOR = "\n"


@dataclass(frozen=True, slots=True)
class Hello:
    """The host is here and holds these classes, beside those it has named before."""

    host: str
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """The class has input."""

    name: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The class gives the lane back: it used `used_s` of processor time, and ran for `ran_s` by the clock."""

    name: str
    lane: int
    used_s: float
    ran_s: float
    backlog: bool


@dataclass(frozen=True, slots=True)
class Left:
    """The host no longer holds the class."""

    name: str


@dataclass(frozen=True, slots=True)
class Granted:
    """The class may run on the lane for `quota_s` of processor time."""

    name: str
    lane: int
    quota_s: float


@dataclass(frozen=True, slots=True)
class RefusedHost:
    """The dispatcher will not talk to this host; the channel ends."""

    reason: str


Message = Hello | Ready | Ended | Left | Granted | RefusedHost


class NotUnderstood(Exception):
    """A packet that says nothing, and why: another version, or not what its kind looks like."""


def encode(message: Message) -> bytes:
    match message:
        case Ended(name, lane, used_s, ran_s, backlog):
            fields = (VERSION, ENDED, lane, backlog, used_s, ran_s)
            return _ENDED.pack(*fields) + name.encode()
        case Granted(name, lane, quota_s):
            return _GRANTED.pack(VERSION, GRANTED, lane, quota_s) + name.encode()
        case Ready(name):
            return _PLAIN.pack(VERSION, READY) + name.encode()
        case Left(name):
            return _PLAIN.pack(VERSION, LEFT) + name.encode()
        case Hello(host, classes):
            return _PLAIN.pack(VERSION, HELLO) + _SEPARATOR.join((host, *classes)).encode()
        case RefusedHost(reason):
            return _PLAIN.pack(VERSION, REFUSED) + reason.encode()[: MESSAGE_MAX - _PLAIN.size]


def decode(packet: bytes) -> Message:
    """The message of a packet from anybody; NotUnderstood if it is none."""
    if len(packet) < _PLAIN.size:
        raise NotUnderstood("shorter than any message")
    if len(packet) > MESSAGE_MAX:
        raise NotUnderstood(f"longer than {MESSAGE_MAX} bytes")
    version, kind = packet[0], packet[1]
    if kind == REFUSED:
        return RefusedHost(packet[_PLAIN.size :].decode(errors="replace"))
    if version != VERSION:
        raise NotUnderstood(f"version {version} of the turn messages, not {VERSION}")
    try:
        return _decode(kind, packet)
    except (struct.error, UnicodeDecodeError) as problem:
        raise NotUnderstood(f"malformed message of kind {kind}: {problem}") from None


def _decode(kind: int, packet: bytes) -> Message:
    if kind == ENDED:
        _, _, lane, backlog, used_s, ran_s = _ENDED.unpack_from(packet)
        return Ended(_name(packet, _ENDED.size), lane, _seconds(used_s), _seconds(ran_s), backlog)
    if kind == GRANTED:
        _, _, lane, quota_s = _GRANTED.unpack_from(packet)
        return Granted(_name(packet, _GRANTED.size), lane, _seconds(quota_s))
    if kind == READY:
        return Ready(_name(packet, _PLAIN.size))
    if kind == LEFT:
        return Left(_name(packet, _PLAIN.size))
    if kind == HELLO:
        host, *classes = packet[_PLAIN.size :].decode().split(_SEPARATOR)
        return Hello(_checked(host), tuple(map(_checked, classes)))
    raise NotUnderstood(f"no message has kind {kind}")


def _name(packet: bytes, begin: int) -> str:
    return _checked(packet[begin:].decode())


def _checked(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise NotUnderstood(f"no name: {name[:NAME_MAX]!r}")
    return name


def _seconds(value: float) -> float:
    if not 0 <= value < math.inf:
        raise NotUnderstood(f"no duration: {value}")
    return value
