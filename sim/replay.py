"""Replay of a recorded run: a new core receives the recorded events, and must return the recorded commands.

Logs are read line by line. Only the messages between cores are kept in memory, some bytes each. The table shows what the replay does
with each kind of line:

    line of a log      what the replay does
    header             makes a new core from the recorded settings; this begins a "life" of the core
    decision           calls `handle(event, now)`, and compares its commands with the recorded commands, to the last digit
    cut                notes why recording ended
    incomplete line    stops: the process was killed while it wrote this line

After all logs have been read, messages between cores are checked. Each command of a capacity core must have reached the load
manager or round robin that it was sent to, in order and within ON_ITS_WAY_S. Messages may be missing near the beginning and the
end of a life: the receiver may not have run yet, or the sender may have been killed before it could send.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from configs.errors import InvalidInput
from loadshed.records import (
    KINDS,
    Core,
    CoreKind,
    CoreName,
    Header,
    NotARecord,
    commands_line,
    cut_from,
    decision_from,
    header_from,
)

LINE_BYTES_MAX = 1 << 26
# Maximum time in seconds that a message takes from one core to another.
ON_ITS_WAY_S = 2.0
# Maximum number of seconds until the coordinator has noticed the restart of a core; until then, the core receives no messages.
SEEN_AGAIN_S = 3.0
# Maximum number of received messages that are skipped to find the next message of a sender. Messages of other senders are in between.
LOOK_AHEAD = 1000
LINES_A_STEP = 2000

# For each type of command of a capacity core: the type of the event that the receiver gets.
HEARD_AS = {"HeadroomScaled": "HeadroomScaled", "SharesChanged": "SharesSet"}
# For each kind of receiver: the type of the events that the receiver gets from a capacity core.
LISTENS_TO: dict[CoreName, str] = {"load": "HeadroomScaled", "turns": "SharesSet"}

Advance = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Decision that differs from the recorded decision, or message that was not received as it was sent."""

    file: str
    line: int
    at: float
    event: str
    expected: str
    got: str


@dataclass(slots=True)
class Life:
    """Life of a core (a component that makes decisions): from its creation to the end of its record."""

    file: str
    events: int = 0
    decisions: int = 0
    """Number of compared commands. An event without commands is also compared, but adds 0."""
    disagreements: int = 0
    first: Disagreement | None = None
    ended: str = ""
    """Reason why the record is incomplete; empty if no part is known to be missing."""


@dataclass(frozen=True, slots=True)
class CoreReport:
    core: CoreName
    name: str
    folder: str = ""
    """Folder of the log, relative to the path that is replayed."""
    lives: list[Life] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        return not any(life.disagreements for life in self.lives)


@dataclass(frozen=True, slots=True)
class Delivery:
    """Messages from a capacity core (which moves shares) to one receiver."""

    sender: str
    receiver: str
    sent: int
    heard: int
    excused: int
    """Number of messages that were not received while sender or receiver was ending or not running."""
    first_lost: Disagreement | None = None


@dataclass(frozen=True, slots=True)
class ReplayReport:
    cores: tuple[CoreReport, ...]
    deliveries: tuple[Delivery, ...]
    empty: tuple[str, ...] = ()
    """Logs without a header, because the process was killed before it was written."""

    @property
    def agrees(self) -> bool:
        return all(core.agrees for core in self.cores) and not any(
            delivery.first_lost for delivery in self.deliveries
        )

    @property
    def events(self) -> int:
        return sum(life.events for core in self.cores for life in core.lives)


def replay(path: Path, advance: Advance = lambda _: None) -> ReplayReport:
    """Replay a log, or every log in a folder and its subfolders; `advance` is called with the number of bytes read.

    The logs of one folder belong to one system. Cores of the same name in different folders are different cores.
    """
    replays: dict[str, _Replay] = {}
    read = 0
    for file in log_files(path):
        folder = _folder(file, path)
        replaying = replays.setdefault(folder, _Replay(folder))
        for size in replaying.file(file):
            read += size
            advance(read)
    if not any(replay.reports for replay in replays.values()):
        hint = "give an event log or a folder of event logs"
        raise InvalidInput("this path contains no event log", hint=hint, file=str(path))
    order = list(KINDS)
    reports = (report for replay in replays.values() for report in replay.reports.values())
    return ReplayReport(
        tuple(sorted(reports, key=lambda one: (one.folder, order.index(one.core), one.name))),
        tuple(delivery for replay in replays.values() for delivery in replay.deliveries()),
        tuple(file for replay in replays.values() for file in replay.empty),
    )


def log_files(path: Path) -> list[Path]:
    """Return the logs at a path and in its subfolders, with the logs of one core in the order of time."""
    try:
        files = list(path.rglob("*.jsonl")) if path.is_dir() else [path]
        for file in files:
            with file.open("rb"):
                pass
    except OSError as problem:
        why = (problem.strerror or str(problem)).lower()
        title = f"the event log cannot be read: {why}"
        hint = "check the path and its permissions"
        raise InvalidInput(title, hint=hint, file=str(problem.filename or path)) from None
    if not files:
        hint = "give a folder with files that end in .jsonl"
        raise InvalidInput("the folder contains no event log", hint=hint, file=str(path))
    return sorted(files, key=lambda file: (_folder(file, path), *_place(file)))


def _place(file: Path) -> tuple[str, int]:
    numbered = re.fullmatch(r"(.*)-(\d{1,9})", file.stem)
    return (numbered[1], int(numbered[2])) if numbered else (file.stem, 0)


def _folder(file: Path, path: Path) -> str:
    """Return the folder of a log relative to the path; empty if the path is the log or its folder."""
    return "" if file.parent == path or file == path else file.parent.relative_to(path).as_posix()


@dataclass(slots=True)
class _Span:
    """Times of a core's first and last event, and the name of the clock from which these times were read."""

    clock: str
    first: float | None = None
    last: float = 0.0

    def covers(self, at: float) -> bool:
        """Return True if the core ran long enough before and after `at` to receive a message sent at that time."""
        return self.first is not None and self.first + SEEN_AGAIN_S <= at <= self.last - ON_ITS_WAY_S


@dataclass(slots=True)
class _Messages:
    """Messages that a core sent or received in one life, in order: time, hash of the content, and line in the log."""

    span: _Span
    file: str
    at: array[float] = field(default_factory=lambda: array("d"))
    said: array[int] = field(default_factory=lambda: array("q"))
    line: array[int] = field(default_factory=lambda: array("q"))

    def add(self, at: float, said: list[Any], line: int) -> None:
        self.at.append(at)
        self.said.append(hash(repr(said)))
        self.line.append(line)


@dataclass(slots=True)
class _Living:
    """Core that replays the record that is being read."""

    header: Header
    kind: CoreKind
    core: Core
    life: Life
    span: _Span
    failed: bool = False


# Kind and name of a core.
_Who = tuple[str, str]


@dataclass
class _Replay:
    """Replay of the logs of one folder."""

    folder: str
    reports: dict[_Who, CoreReport] = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)
    _sent: dict[tuple[_Who, _Who], list[_Messages]] = field(default_factory=dict)
    _heard: dict[_Who, list[_Messages]] = field(default_factory=dict)

    def file(self, path: Path) -> Iterator[int]:
        """Replay one log. After every LINES_A_STEP lines, yield the number of bytes read since the last yield."""
        living: _Living | None = None
        size = number = 0
        for number, text in _lines(path):
            size += len(text)
            if number % LINES_A_STEP == 0:
                yield size
                size = 0
            try:
                line = READER.decode(text.decode())
            except (ValueError, RecursionError):
                if text.endswith(b"\n"):
                    _unreadable(path, number, "the line is not JSON")
                if living is not None:
                    living.life.ended = "the last line was not fully written"
                break
            try:
                living = self._line(path, number, line, living)
            except NotARecord as problem:
                _unreadable(path, number, str(problem))
        if living is None:
            self.empty.append(str(path))
        yield size

    def _line(self, path: Path, number: int, line: Any, living: _Living | None) -> _Living:
        if type(line) is dict:
            why = cut_from(line)
            if why is None:
                return self._born(path, header_from(line))
            if living is not None:
                living.life.ended = why
        if living is None:
            raise NotARecord("the line comes before the first header of the event log")
        if type(line) is not dict:
            self._decision(number, line, living)
        return living

    def _born(self, path: Path, header: Header) -> _Living:
        kind, life, span = KINDS[header.core], Life(str(path)), _Span(header.clock)
        who = (header.core, header.name)
        self.reports.setdefault(who, CoreReport(header.core, header.name, self.folder)).lives.append(life)
        if header.core in LISTENS_TO:
            self._heard.setdefault(who, []).append(_Messages(span, str(path)))
        return _Living(header, kind, kind.core_of(header.settings), life, span)

    def _decision(self, number: int, line: Any, living: _Living) -> None:
        kind, life, span = living.kind, living.life, living.span
        now, event, commands = decision_from(kind, line)
        life.events += 1
        span.first, span.last = now if span.first is None else span.first, now
        self._note(number, now, line[1], commands, living)
        if living.failed:
            return
        try:
            got = commands_line(kind, living.core.handle(event, now))
        except Exception as problem:
            # The recorded core handled the event without an error, so an error of the replayed core is a disagreement.
            living.failed = True
            shown = f"{type(problem).__name__}: {problem}"
        else:
            life.decisions += len(commands)
            if got == commands:
                return
            shown = json.dumps(got)
        life.disagreements += 1
        if life.first is None:
            expected = json.dumps(commands)
            life.first = Disagreement(
                life.file, number, at=now, event=str(event), expected=expected, got=shown
            )

    def _note(self, number: int, now: float, event: list[Any], commands: list[Any], living: _Living) -> None:
        """Remember the messages in a recorded decision: the messages that the core sent, or the message that it received."""
        who = (living.header.core, living.header.name)
        if living.header.core == "capacity":
            for command in commands:
                self._note_sent(number, now, command, who, living)
        elif event[0] == LISTENS_TO.get(living.header.core):
            self._heard[who][-1].add(now, event[1:], number)

    def _note_sent(self, number: int, now: float, command: Any, who: _Who, living: _Living) -> None:
        said = living.kind.command.decode(command)
        name = type(said).__name__
        if name not in HEARD_AS:
            return
        receiver = ("load", said.name) if name == "HeadroomScaled" else ("turns", who[1])
        lives = self._sent.setdefault((who, receiver), [])
        if not lives or lives[-1].span is not living.span:
            lives.append(_Messages(living.span, living.life.file))
        lives[-1].add(now, command[1:], number)

    def deliveries(self) -> Iterator[Delivery]:
        """Yield, for each capacity core and each receiver with a log in this folder, which messages were delivered."""
        for (sender, receiver), lives in sorted(self._sent.items()):
            if receiver in self._heard:
                yield _delivery(" ".join(sender), " ".join(receiver), lives, self._heard[receiver])


def _delivery(sender: str, receiver: str, sent: Sequence[_Messages], heard: Sequence[_Messages]) -> Delivery:
    count = excused = 0
    lost = None
    for clock in dict.fromkeys(messages.span.clock for messages in sent):
        arrived = _Arrived([messages for messages in heard if messages.span.clock == clock])
        for messages in sent:
            if messages.span.clock != clock:
                continue
            for at, said, line in zip(messages.at, messages.said, messages.line, strict=True):
                if arrived.next_is(at, said):
                    count += 1
                elif at >= messages.span.last - ON_ITS_WAY_S or not arrived.awaits(at):
                    excused += 1
                elif lost is None:
                    lost = Disagreement(
                        file=messages.file,
                        line=line,
                        at=at,
                        event="message",
                        expected=f"received by {receiver}",
                        got="not received",
                    )
    return Delivery(
        sender=sender,
        receiver=receiver,
        sent=sum(len(messages.at) for messages in sent),
        heard=count,
        excused=excused,
        first_lost=lost,
    )


class _Arrived:
    """Messages that a receiver got in all of its lives with the same clock."""

    def __init__(self, heard: Sequence[_Messages]) -> None:
        self._spans = [messages.span for messages in heard]
        self._at, self._said = array("d"), array("q")
        for messages in heard:
            self._at += messages.at
            self._said += messages.said
        self._place = 0

    def awaits(self, at: float) -> bool:
        return any(span.covers(at) for span in self._spans)

    def next_is(self, at: float, said: int) -> bool:
        """Return True if the receiver got this message after the message of the last successful call."""
        for place in range(self._place, min(self._place + LOOK_AHEAD, len(self._at))):
            if self._said[place] == said and at <= self._at[place] <= at + ON_ITS_WAY_S:
                self._place = place + 1
                return True
        return False


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        number = 1
        while text := file.readline(LINE_BYTES_MAX):
            if len(text) == LINE_BYTES_MAX:
                _unreadable(path, number, f"the line is longer than {LINE_BYTES_MAX:,} bytes")
            yield number, text
            number += 1


def _refused(constant: str) -> NoReturn:
    raise ValueError(constant)


READER = json.JSONDecoder(parse_constant=_refused)


def _unreadable(path: Path, number: int, why: str) -> NoReturn:
    raise InvalidInput(why, f"line {number}", hint="give an event log that Weir recorded", file=str(path))
