"""Mirrors at work: each with threads of its own that poll, publish, and follow the answers which say what is looked up.

    mirrors = Mirrors(door)
    mirrors.begin(mirror)       returns at once; what keeps it from polling is told, and tried again later and later
    mirrors.end(name)

Numbered properties:
1. What is wrong with one mirror, or with its store, is told in its progress and keeps no other from being polled.
2. A mirror that has ended publishes nothing more, unless what takes its rows has not answered for `END_S`.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from actors.runtime.backoff import Backoff
from configs.documents.declarations import StreamDeclaration
from configs.errors import InvalidInput, UnknownName
from engine.sql import Mirror, PlanningError, parse_create_mirror, parse_create_stream, split_statements
from services.client import Client
from services.mirror.doors import MirrorEnds
from services.mirror.mirror_definition import credentials, stream_of
from services.mirror.objects import objects_of
from services.mirror.poll_loop import (
    LAST_S,
    WORKERS,
    MirrorProgress,
    Polling,
    State,
    begun,
)
from services.mirror.row_publisher import Problem, in_a_line

RETRY_S = 5.0
BEGIN_LEAST_S, BEGIN_MOST_S = 1.0, 60.0
END_S = 2 * LAST_S


def mirrors_in(file: Path) -> list[Mirror]:
    """The mirrors that an SQL file declares; other statements are left alone."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"cannot be read: {error}", "FILE", str(file), "give the path of an SQL file"
        ) from None
    mirrors = []
    try:
        statements = split_statements(text)
    except PlanningError as problem:
        problem.file = str(file)
        raise
    for statement in statements:
        if statement.kind == "mirror":
            try:
                mirrors.append(parse_create_mirror(statement.text))
            except PlanningError as problem:
                problem = problem.moved(statement.line_offset, statement.column_offset)
                problem.file = str(file)
                raise problem from None
    if not mirrors:
        raise InvalidInput("there is no mirror in it", "FILE", str(file), "add CREATE MIRROR …")
    return mirrors


def declare(mirror: Mirror, weir: Client) -> None:
    """The stream of its changes, if it is not there; InvalidInput if it is there and another."""
    try:
        declaration = weir.get("Stream", mirror.name)
    except UnknownName:
        weir.put(stream_of(mirror), version=0)
        return
    there = declaration.declaration
    assert isinstance(there, StreamDeclaration)
    if there.source is not None or parse_create_stream(there.declaration(mirror.name)) != mirror.stream:
        hint = f"declare it as {mirror.stream_sql}, or name the mirror otherwise"
        raise InvalidInput("the stream of that name is another one", "CREATE MIRROR", mirror.name, hint)


class AtWork:
    """One mirror."""

    def __init__(self, mirror: Mirror, door: MirrorEnds, password: str = "") -> None:
        """InvalidInput if there is an address that is none."""
        self.mirror, self._door, self._password = mirror, door, password
        # A file may have passwords in addresses; a document has none there.
        said = (password, *(secret for _, secret in credentials(mirror)))
        self._secrets = tuple(secret for secret in said if secret)
        self._stop = threading.Event()
        self._polling: Polling | None = None
        self._why = self._lookups = ""
        """What keeps it from polling, and from following lookups."""
        self._last: Problem | None = None
        self._threads = [threading.Thread(target=self._run, name=f"mirror-{mirror.name}", daemon=True)]
        if mirror.lookups is not None:
            following = threading.Thread(
                target=self._follow, args=(mirror.lookups,), name=f"lookups-{mirror.name}", daemon=True
            )
            self._threads.append(following)

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """It need not have ended when this returns."""
        self._stop.set()

    def join(self, until: float) -> None:
        """It publishes nothing more; what follows lookups leaves when the look is over that it waits for."""
        if self._threads[0].is_alive():
            self._threads[0].join(max(0.0, until - time.monotonic()))

    def progress(self) -> MirrorProgress:
        polling, why = self._polling, self._why
        if polling is not None:
            progress = polling.progress()
        else:
            problems = {why: 1} if why else {}
            state: State = "waiting" if why else "starting"
            progress = replace(begun(self.mirror), state=state, problems=problems, last_problem=self._last)
        if self._lookups:
            progress.problems[f"lookups: {self._lookups}"] = 1
        return progress

    # -- threads -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        backoff = Backoff(BEGIN_LEAST_S, BEGIN_MOST_S)
        while not self._stop.is_set():
            try:
                self._poll()
            except Exception as problem:  # a thread that ends without a word would leave it starting for ever
                self._fails(in_a_line(problem, self._secrets))
            self._stop.wait(backoff.failed())

    def _poll(self) -> None:
        """Until it is stopped."""
        objects = objects_of(self.mirror, WORKERS, self._password)
        try:
            name = f"mirror-{self.mirror.name}-{secrets.token_hex(4)}"
            polling = Polling(self.mirror, objects, self._publish, name, self._secrets)
            self._why, self._polling = "", polling
            polling.run(self._stop)
        finally:
            objects.close()

    def _publish(self, table: pa.Table, batch: str) -> Mapping[str, int]:
        return self._door.publish(self.mirror, table, batch)

    def _fails(self, why: str) -> None:
        self._polling, self._why = None, why
        self._last = Problem(why, time.time())

    def _follow(self, query: str) -> None:
        """Each answer of the query names an object in the column of the key, or in its first."""
        key = self.mirror.columns.fields[0].name.lower()
        while not self._stop.is_set():
            try:
                for rows in self._door.answers(query, self._stop):
                    if self._stop.is_set():
                        return
                    self._lookups = ""
                    if (polling := self._polling) is not None:
                        for row in rows:
                            polling.used(used_in(row, key))
            except Exception as problem:
                self._lookups = f"{query}: {in_a_line(problem, self._secrets)}"
            self._stop.wait(RETRY_S)


def used_in(row: Mapping[str, Any], key: str) -> str:
    """Of an answer."""
    named = {name.lower(): value for name, value in row.items() if not name.startswith("_")}
    return str(named[key] if key in named else next(iter(named.values()), None))


class Mirrors:
    """All that are polled from here; may be called by several threads."""

    def __init__(self, door: MirrorEnds) -> None:
        self._door = door
        self._lock = threading.Lock()
        self._at_work: dict[str, AtWork] = {}

    def begin(self, mirror: Mirror, password: str = "") -> None:
        """In place of the one of its name, if there is one."""
        self.end(mirror.name)
        at_work = AtWork(mirror, self._door, password)
        with self._lock:
            self._at_work[mirror.name] = at_work
        at_work.begin()

    def end(self, name: str) -> None:
        """Idempotent."""
        with self._lock:
            at_work = self._at_work.pop(name, None)
        if at_work is not None:
            at_work.stop()
            at_work.join(time.monotonic() + END_S)

    def progress(self) -> list[MirrorProgress]:
        with self._lock:
            mirrors = list(self._at_work.values())
        return [mirror.progress() for mirror in mirrors]

    def stop(self) -> None:
        """All of them; idempotent."""
        with self._lock:
            ended, self._at_work = list(self._at_work.values()), {}
        for mirror in ended:
            mirror.stop()
        until = time.monotonic() + END_S
        for mirror in ended:
            mirror.join(until)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
