"""Threads of running mirrors, which poll objects, publish changes, and read the lookups query to count uses of objects.

`Mirrors.begin(mirror)` starts a mirror and returns at once. If the start fails, the mirror's progress says why, and the start is
repeated. `Mirrors.end(name)` stops a mirror.

Numbered properties:
1. A problem of one mirror, or of its store, is shown in the mirror's progress and does not affect other mirrors.
2. After `end`, a mirror publishes nothing more, unless a call that publishes its rows takes longer than `END_S`.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from actors.runtime.backoff import Backoff
from configs.documents.declarations import StreamDeclaration
from configs.errors import InvalidInput, UnknownName
from engine.sql import Mirror, PlanningError, parse_create_mirror, parse_create_stream, split_statements
from services.client import Client
from services.mirror.doors import MirrorEnds
from services.mirror.mirror_definition import credentials, stream_of
from services.mirror.objects import objects_of
from services.mirror.poll_loop import LAST_S, WORKERS, MirrorProgress, Polling, begun
from services.mirror.row_publisher import Problem, in_a_line

RETRY_S = 5.0
BEGIN_LEAST_S, BEGIN_MOST_S = 1.0, 60.0
END_S = 2 * LAST_S


def mirrors_in(file: Path) -> list[Mirror]:
    """Return the mirrors that an SQL file declares; all other statements of the file are ignored."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"the SQL file cannot be read: {error}", "FILE", str(file), "give the path of an SQL file"
        ) from None
    mirrors, offset = [], (0, 0)
    try:
        for statement in split_statements(text):
            if statement.kind == "mirror":
                offset = statement.line_offset, statement.column_offset
                mirrors.append(parse_create_mirror(statement.text))
    except PlanningError as problem:
        problem = problem.moved(*offset)
        problem.file = str(file)
        raise problem from None
    if not mirrors:
        raise InvalidInput("the file declares no mirror", "FILE", str(file), "add CREATE MIRROR …")
    return mirrors


def declare(mirror: Mirror, weir: Client) -> None:
    """Declare the stream of the mirror's changes if no such stream exists; raise InvalidInput if another stream has its name."""
    try:
        declaration = weir.get("Stream", mirror.name)
    except UnknownName:
        weir.put(stream_of(mirror), version=0)
        return
    there = declaration.declaration
    assert isinstance(there, StreamDeclaration)
    if there.source is not None or parse_create_stream(there.declaration(mirror.name)) != mirror.stream:
        hint = f"declare the stream as {mirror.stream_sql}, or give the mirror another name"
        raise InvalidInput(
            "a stream of this name exists, but its columns or event time differ from those of the mirror",
            "CREATE MIRROR",
            mirror.name,
            hint,
        )


class AtWork:
    """Running mirror with its threads."""

    def __init__(self, mirror: Mirror, door: MirrorEnds, password: str = "") -> None:
        """Create the threads of the mirror without starting them; raise InvalidInput if an address of the mirror is not valid."""
        self.mirror, self._door, self._password = mirror, door, password
        # In an SQL file, the addresses of a mirror may contain passwords. Error texts must hide these passwords as well.
        said = (password, *(secret for _, secret in credentials(mirror)))
        self._secrets = tuple(secret for secret in said if secret)
        self._stop = threading.Event()
        self._polling: Polling | None = None
        self._failure: Problem | None = None
        """Last reason why polling could not start or has ended; None without such a problem."""
        self._lookups = ""
        """Reason why the answers of the lookups query cannot be read; empty without a problem."""
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
        """Ask the threads of the mirror to end, without waiting for their end."""
        self._stop.set()

    def join(self, until: float) -> None:
        """Wait until the mirror publishes nothing more. The thread that reads lookups may end later, after its current poll."""
        if self._threads[0].is_alive():
            self._threads[0].join(max(0.0, until - time.monotonic()))

    def progress(self) -> MirrorProgress:
        polling, failure = self._polling, self._failure
        progress = begun(self.mirror) if polling is None else polling.progress()
        if polling is None and failure is not None:
            problems = {failure.told: 1}
            progress = replace(progress, state="waiting", problems=problems, last_problem=failure)
        if self._lookups:
            progress.problems[f"lookups: {self._lookups}"] = 1
        return progress

    def _run(self) -> None:
        backoff = Backoff(BEGIN_LEAST_S, BEGIN_MOST_S)
        while not self._stop.is_set():
            try:
                self._poll()
            except Exception as problem:
                # The thread continues after every error, because the mirror would otherwise stay `starting` for ever.
                self._failure = Problem(in_a_line(problem, self._secrets), time.time())
                self._polling = None
            self._stop.wait(backoff.failed())

    def _poll(self) -> None:
        """Poll until the mirror is stopped."""
        objects = objects_of(self.mirror, WORKERS, self._password)
        try:
            name = f"mirror-{self.mirror.name}-{secrets.token_hex(4)}"
            publish = partial(self._door.publish, self.mirror)
            self._polling = Polling(self.mirror, objects, publish, name, self._secrets)
            self._polling.run(self._stop)
        finally:
            objects.close()

    def _follow(self, query: str) -> None:
        """Read the answers of the lookups query. Each answer counts as one use of the object that the answer names."""
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
    """Return the key in an answer: the value of the column that is named like the key column, or else of the first column."""
    named = {name.lower(): value for name, value in row.items() if not name.startswith("_")}
    return str(named[key] if key in named else next(iter(named.values()), None))


class Mirrors:
    """All mirrors that this process polls; thread-safe."""

    def __init__(self, door: MirrorEnds) -> None:
        self._door = door
        self._lock = threading.Lock()
        self._at_work: dict[str, AtWork] = {}

    def begin(self, mirror: Mirror, password: str = "") -> None:
        """Start a mirror. The mirror replaces a running mirror of the same name."""
        self.end(mirror.name)
        at_work = AtWork(mirror, self._door, password)
        with self._lock:
            self._at_work[mirror.name] = at_work
        at_work.begin()

    def end(self, name: str) -> None:
        """Stop the mirror with this name, if such a mirror runs."""
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
        """Stop all mirrors. A second call has no effect."""
        with self._lock:
            ended, self._at_work = list(self._at_work.values()), {}
        for mirror in ended:
            mirror.stop()
        until = time.monotonic() + END_S
        for mirror in ended:
            mirror.join(until)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
