"""Messages between a dispatcher and its hosts, sent as packets (`actors.runtime.unix_channel`).

A packet consists of the version, the kind, the fixed fields of the kind, and text. Refused has the same format in every
version, so that a process of another version can read why it was refused.

    host → dispatcher      Hello(host, classes)  Ready(name)  Ended(name, lane, used_s, ran_s, backlog)  Left(name)
    dispatcher → host      Granted(name, lane, quota_s)  Refused(reason)
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from typing import get_args

from actors.runtime.unix_channel import MESSAGE_MAX

VERSION = 1
NAME_MAX = 80  # Maximum length of the name of a unit: its class, then # and the shard

_PLAIN = struct.Struct("<BB")
# Number of classes that fit into one Hello, in addition to the host's name, if all names have the maximum length.
CLASSES_A_HELLO = (MESSAGE_MAX - _PLAIN.size) // (NAME_MAX + 1) - 1
_ENDED = struct.Struct("<BBH?dd")
_GRANTED = struct.Struct("<BBHd")
_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_.#-]{{0,{NAME_MAX - 1}}}")
_SEPARATOR = "\n"


@dataclass(frozen=True, slots=True)
class Hello:
    """Announcement of a host and of some of its classes. The classes are added to the classes that the host has announced before."""

    host: str
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """Notice that the class has input and waits for a turn."""

    name: str


@dataclass(frozen=True, slots=True)
class Ended:
    """End of a slice, which used `used_s` of processor time in `ran_s` of wall-clock time; the lane is free again."""

    name: str
    lane: int
    used_s: float
    ran_s: float
    backlog: bool


@dataclass(frozen=True, slots=True)
class Left:
    """Notice that the host no longer holds the class."""

    name: str


@dataclass(frozen=True, slots=True)
class Granted:
    """Permission for the class to run on the lane for `quota_s` of processor time."""

    name: str
    lane: int
    quota_s: float


@dataclass(frozen=True, slots=True)
class RefusedHost:
    """Rejection of a host by the dispatcher, which then closes the channel."""

    reason: str


# The position of a type in the union `Message` is its number in packets.
Message = Hello | Ready | Ended | Left | Granted | RefusedHost
_NUMBERS = {kind: number for number, kind in enumerate(get_args(Message))}


class NotUnderstood(Exception):
    """Error for a packet that has another version or an unknown kind, or is malformed."""


def check_version(version: int, expected: int, messages: str) -> None:
    if version != expected:
        raise NotUnderstood(
            f"the sender uses version {version} of the {messages} messages; this process expects version {expected}"
        )


def encode(message: Message) -> bytes:
    kind = _NUMBERS[type(message)]
    match message:
        case Ended(name, lane, used_s, ran_s, backlog):
            fields = (VERSION, kind, lane, backlog, used_s, ran_s)
            return _ENDED.pack(*fields) + name.encode()
        case Granted(name, lane, quota_s):
            return _GRANTED.pack(VERSION, kind, lane, quota_s) + name.encode()
        case Ready(name) | Left(name):
            return _PLAIN.pack(VERSION, kind) + name.encode()
        case Hello(host, classes):
            return _PLAIN.pack(VERSION, kind) + _SEPARATOR.join((host, *classes)).encode()
        case RefusedHost(reason):
            return _PLAIN.pack(VERSION, kind) + reason.encode()[: MESSAGE_MAX - _PLAIN.size]


def decode(packet: bytes) -> Message:
    """Return the message of a packet from an untrusted sender; raise NotUnderstood if the packet is malformed."""
    if len(packet) < _PLAIN.size:
        raise NotUnderstood(f"the packet is shorter than any message: {len(packet)} bytes")
    if len(packet) > MESSAGE_MAX:
        raise NotUnderstood(f"the packet is longer than {MESSAGE_MAX} bytes")
    version, kind = packet[0], packet[1]
    if kind == _NUMBERS[RefusedHost]:
        return RefusedHost(packet[_PLAIN.size :].decode(errors="replace"))
    check_version(version, VERSION, "turn")
    try:
        return _decode(kind, packet)
    except (struct.error, UnicodeDecodeError) as problem:
        raise NotUnderstood(f"the turn message of kind {kind} is malformed: {problem}") from None


def _decode(kind: int, packet: bytes) -> Message:
    if kind == _NUMBERS[Ended]:
        _, _, lane, backlog, used_s, ran_s = _ENDED.unpack_from(packet)
        return Ended(_name(packet, _ENDED.size), lane, _seconds(used_s), _seconds(ran_s), backlog)
    if kind == _NUMBERS[Granted]:
        _, _, lane, quota_s = _GRANTED.unpack_from(packet)
        return Granted(_name(packet, _GRANTED.size), lane, _seconds(quota_s))
    if kind == _NUMBERS[Ready]:
        return Ready(_name(packet, _PLAIN.size))
    if kind == _NUMBERS[Left]:
        return Left(_name(packet, _PLAIN.size))
    if kind == _NUMBERS[Hello]:
        host, *classes = packet[_PLAIN.size :].decode().split(_SEPARATOR)
        return Hello(_checked(host), tuple(map(_checked, classes)))
    raise NotUnderstood(f"the turn message has an unknown kind {kind}")


def _name(packet: bytes, begin: int) -> str:
    return _checked(packet[begin:].decode())


def _checked(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise NotUnderstood(f"the turn message contains an invalid name: {name[:NAME_MAX]!r}")
    return name


def _seconds(value: float) -> float:
    if not 0 <= value < math.inf:
        raise NotUnderstood(f"the turn message contains an invalid duration: {value}")
    return value
