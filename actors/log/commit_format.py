"""Format of a class's log: commits (`engine.class_.steps`) and snapshots, as payloads of frames (`actors.log.segment_log`).

A snapshot is the state of the whole class between two commits. Restoring it and repeating the steps of the later
commits results in the same class and the same answers.

    commit     header: version, kind, steps, answers, queries, size of the next three parts; the steps; the number of answers
               that each query has emitted; for each answer its query, first number and position; then the trains of the answers
               (`actors.log.train_format`), each at a multiple of 64 bytes
    snapshot   header; the state at a multiple of 64 bytes

Trains of answers are written without the causes of their watermarks (`Train.causes`), because no reader of answers uses them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any

from pydantic import BaseModel

from actors.log.segment_log import ALIGNED, Part
from actors.log.train_format import PADDING, NotAFrame, aligned, append_in_a_row, append_train, train_of
from configs.classes.limits import ClassLimits
from configs.classes.plans import PlanSettings
from configs.classes.window_settings import WindowSettings
from engine.class_.steps import (
    Advanced,
    Answer,
    Commit,
    Evicted,
    Exchanged,
    ExchangeGivenUp,
    Interrupted,
    LimitsSet,
    LookupsReleased,
    Opened,
    PlanSet,
    QueryAdded,
    QueryRemoved,
    Step,
    StreamLeft,
    StreamsSet,
    Took,
    WindowsSet,
)

VERSION = 2
COMMIT, SNAPSHOT = 3, 4


@dataclass(frozen=True, slots=True)
class SnapshotFrame:
    """State of a class at one moment."""

    following: int
    """Number of the first frame of the class's log that the state does not contain yet."""
    state: Part


# Fields of a commit: version, kind, number of steps, number of answers, number of queries, bytes of the head.
_COMMIT = Struct("=BBxxIIII")
# Fields of a snapshot: version, kind, first frame after the state, bytes of the state.
_SNAPSHOT = Struct("=BB6xQQ")
_STEP = Struct("=BxxxIq")  # Fields of a step: kind, bytes of the name, a number
# Further fields of the step of an accepted batch (`Opened`): numbers of offered, shed, rejected and failed tuples; number of rows in the
# stream before the batch; kept fraction; bytes of the bit mask that marks the kept tuples.
_OPENED = Struct("=qqqqqdi")
_NOW = Struct("=d")
_COUNTED = Struct("=Iq")  # Fields of a query's count: bytes of the query's name, number of answers
# Fields of an answer: bytes of the query's name, first number, offset of the train after the head, bytes of the train.
_ANSWER = Struct("=IqQQ")
# Types of steps. The position of a type in this table is its number in the log.
# QueryAdded has two positions: one for steps with the flag `with_next`, and one for steps without it.
_KINDS: tuple[Any, ...] = (
    Opened,
    Took,
    Evicted,
    Advanced,
    QueryAdded,
    QueryRemoved,
    WindowsSet,
    QueryAdded,
    PlanSet,
    Exchanged,
    ExchangeGivenUp,
    Interrupted,
    LookupsReleased,
    StreamLeft,
    StreamsSet,
    LimitsSet,
)
_NUMBERS = {kind: number for number, kind in enumerate(_KINDS)}
_ADDED, _ADDED_WITH_NEXT = (number for number, kind in enumerate(_KINDS) if kind is QueryAdded)
_SETTINGS: Mapping[Any, Any] = {WindowsSet: WindowSettings, PlanSet: PlanSettings, LimitsSet: ClassLimits}
NO_MASK = -1


def commit_parts(commit: Commit) -> tuple[list[Part], int]:
    """Return the parts that make up the payload of a commit, and their total size."""
    head = [step_bytes(step) for step in commit.steps]
    head += [counted_bytes(query, number) for query, number in commit.answered.items()]
    parts: list[Part] = [b""]
    size = 0
    for answer in commit.answers:
        length = append_train(parts, answer.train, with_causes=False)
        name = answer.query.encode()
        head.append(_ANSWER.pack(len(name), answer.first, size, length) + name)
        size += length
        if gap := -length % ALIGNED:
            parts.append(PADDING[gap])
            size += gap
    body = b"".join(head)
    counts = len(commit.steps), len(commit.answers), len(commit.answered)
    header = _COMMIT.pack(VERSION, COMMIT, *counts, len(body))
    begin = aligned(len(header) + len(body))
    parts[0] = (header + body).ljust(begin, b"\0")
    return parts, begin + size


def snapshot_parts(snapshot: SnapshotFrame) -> tuple[list[Part], int]:
    state = memoryview(snapshot.state).cast("B")
    parts: list[Part] = []
    head = _SNAPSHOT.pack(VERSION, SNAPSHOT, snapshot.following, len(state))
    return parts, append_in_a_row(parts, head, [state])


def is_snapshot(payload: memoryview) -> bool:
    """Return True for a snapshot and False for a commit. Only the header of the payload is read."""
    if len(payload) < _COMMIT.size or payload[0] != VERSION or payload[1] not in (COMMIT, SNAPSHOT):
        raise NotAFrame("the payload is not from a class log of this version", value=bytes(payload[:2]))
    return payload[1] == SNAPSHOT


def steps_of(payload: memoryview) -> Commit:
    """Return a commit without its answers, for a recovery, which computes the answers again."""
    head, steps, queries, _ = _head_of(payload)
    done = tuple([head.step() for _ in range(steps)])
    return Commit(done, (), dict(head.counted() for _ in range(queries)))


def answers_of(payload: memoryview, query: str) -> list[Answer]:
    """Return the answers of one query in a commit; their arrays are views of the payload."""
    head, steps, queries, answers = _head_of(payload)
    for _ in range(steps):
        head.step()
    for _ in range(queries):
        head.counted()
    begin = aligned(_COMMIT.size + head.size)
    found = []
    for _ in range(answers):
        name_size, first, place, length = head.take(_ANSWER)
        if head.text(name_size) == query:
            found.append(Answer(query, first, train_of(payload[begin + place : begin + place + length])))
    return found


def _head_of(payload: memoryview) -> tuple[HeadReader, int, int, int]:
    _, _, steps, answers, queries, size = _COMMIT.unpack_from(payload)
    return HeadReader(payload[_COMMIT.size : _COMMIT.size + size]), steps, queries, answers


def snapshot_of(payload: memoryview) -> SnapshotFrame:
    _, _, following, length = _SNAPSHOT.unpack_from(payload)
    begin = aligned(_SNAPSHOT.size)
    return SnapshotFrame(following, payload[begin : begin + length])


def step_bytes(step: Step) -> bytes:
    kind = _NUMBERS[type(step)]
    settings: BaseModel
    match step:
        case Opened(stream, batch, offered, shed, rejected, kept, mask, failed, upto):
            length = NO_MASK if mask is None else len(mask)
            fates = (offered, shed, rejected, failed, upto, kept, length)
            return named_bytes(kind, stream, batch) + _OPENED.pack(*fates) + (mask or b"")
        case Took(name, number) | Evicted(name, number):
            return named_bytes(kind, name, number)
        case Advanced(name, number, now) | LookupsReleased(name, number, now):
            return named_bytes(kind, name, number) + _NOW.pack(now)
        case QueryAdded(name, sql, with_next):
            text = sql.encode()
            return named_bytes(_ADDED_WITH_NEXT if with_next else _ADDED, name, len(text)) + text
        case QueryRemoved(name) | StreamLeft(name) | Exchanged(name):
            return named_bytes(kind, name)
        case StreamsSet(statements):
            return named_bytes(kind, json.dumps(statements))
        case WindowsSet(settings) | PlanSet(settings) | LimitsSet(settings):
            return named_bytes(kind, settings.model_dump_json())
        case ExchangeGivenUp() | Interrupted():
            return named_bytes(kind, "")


def named_bytes(kind: int, text: str, number: int = 0) -> bytes:
    name = text.encode()
    return _STEP.pack(kind, len(name), number) + name


def counted_bytes(text: str, number: int) -> bytes:
    name = text.encode()
    return _COUNTED.pack(len(name), number) + name


class HeadReader:
    """Sequential reader of the part of a commit that precedes the arrays."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._place = 0

    @property
    def size(self) -> int:
        return len(self._data)

    def take(self, form: Struct) -> tuple[Any, ...]:
        found: tuple[Any, ...] = form.unpack_from(self._data, self._place)
        self._place += form.size
        return found

    def bytes(self, size: int) -> memoryview:
        self._place += size
        return self._data[self._place - size : self._place]

    def text(self, size: int) -> str:
        return str(self.bytes(size), "utf-8")

    def counted(self) -> tuple[str, int]:
        size, number = self.take(_COUNTED)
        return self.text(size), number

    def step(self) -> Step:
        code, size, number = self.take(_STEP)
        kind, name = _KINDS[code], self.text(size)
        if kind is Opened:
            offered, shed, rejected, failed, upto, kept, length = self.take(_OPENED)
            mask = None if length == NO_MASK else bytes(self.bytes(length))
            return Opened(
                name, number, offered, shed, rejected, kept=kept, mask=mask, failed=failed, upto=upto
            )
        if kind is QueryAdded:
            return QueryAdded(name, self.text(number), with_next=code == _ADDED_WITH_NEXT)
        step: Step
        if kind in (Took, Evicted):
            step = kind(name, number)
        elif kind in (Advanced, LookupsReleased):
            step = kind(name, number, *self.take(_NOW))
        elif kind in _SETTINGS:
            step = kind(_SETTINGS[kind].model_validate_json(name))
        elif kind is StreamsSet:
            step = StreamsSet(tuple(json.loads(name)))
        elif kind in (ExchangeGivenUp, Interrupted):
            step = kind()
        else:
            step = kind(name)
        return step
