"""Mirrors of a file, their streams at a service, and the queries whose answers say what is looked up."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from configs.declarations import StreamDeclaration
from configs.problems import Away, InvalidInput, UnknownName, WeirError
from engine.sql import Mirror, PlanningError, parse_create_mirror, parse_create_stream, split_statements
from services.client import Client
from services.mirror.objects import Objects, objects_of
from services.mirror.polling import LAST_S, WORKERS, MirrorProgress, Polling, Publish

RETRY_S = 5.0


def mirrors_in(file: Path) -> list[Mirror]:
    """The mirrors that an SQL file declares; other statements are left alone."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"cannot be read: {error}", "FILE", str(file), "give the path of an SQL file"
        ) from None
    found = []
    try:
        statements = split_statements(text)
    except PlanningError as problem:
        problem.file = str(file)
        raise
    for statement in statements:
        if statement.kind == "mirror":
            try:
                found.append(parse_create_mirror(statement.text))
            except PlanningError as problem:
                problem = problem.moved(statement.line_offset, statement.column_offset)
                problem.file = str(file)
                raise problem from None
    if not found:
        raise InvalidInput("there is no mirror in it", "FILE", str(file), "add CREATE MIRROR …")
    return found


def declare(mirror: Mirror, weir: Client) -> None:
    """The stream of its changes, if it is not there; InvalidInput if it is there and another."""
    try:
        found = weir.get("Stream", mirror.name)
    except UnknownName:
        weir.put(StreamDeclaration(kind="Stream", name=mirror.name, sql=mirror.stream_sql), version=0)
        return
    there = found.declaration
    assert isinstance(there, StreamDeclaration)
    if there.source is not None or parse_create_stream(there.declaration(mirror.name)) != mirror.stream:
        hint = f"declare it as {mirror.stream_sql}, or name the mirror otherwise"
        raise InvalidInput("the stream of that name is another one", "CREATE MIRROR", mirror.name, hint)


class Running:
    """Mirrors at work, until it is left."""

    def __init__(self, mirrors: Sequence[Mirror], weir: Client) -> None:
        self._weir, self._stop = weir, threading.Event()
        self._threads: list[threading.Thread] = []
        self._open = ExitStack()
        self.pollings: list[Polling] = []
        self._lookups: dict[str, str] = {}
        """What is wrong with following them, by mirror."""
        try:
            for mirror in mirrors:
                objects: Objects = objects_of(mirror, WORKERS)
                self._open.callback(objects.close)
                name = f"mirror-{mirror.name}-{secrets.token_hex(4)}"
                self.pollings.append(Polling(mirror, objects, self._publisher(mirror.name), name))
        except BaseException:
            self._open.close()
            raise

    def __enter__(self) -> Self:
        for one in self.pollings:
            self._begin(one.run, self._stop)
            if one.mirror.lookups is not None:
                self._begin(self._follow, one, one.mirror.lookups)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        until = time.monotonic() + 2 * LAST_S
        for thread, one in zip(self._threads, self._is_run, strict=True):
            if one:
                thread.join(max(0.0, until - time.monotonic()))
        self._open.close()

    def declare(self) -> None:
        """The streams of their changes, where they are not there."""
        for one in self.pollings:
            declare(one.mirror, self._weir)

    def progress(self) -> list[MirrorProgress]:
        found = []
        for one in self.pollings:
            told = one.progress()
            if one.mirror.name in self._lookups:
                told.problems[f"lookups: {self._lookups[one.mirror.name]}"] = 1
            found.append(told)
        return found

    # -- inside ------------------------------------------------------------------------------------------

    @property
    def _is_run(self) -> list[bool]:
        """Which threads end by themselves when they are told; one that waits for answers does not."""
        return [not thread.name.startswith("lookups") for thread in self._threads]

    def _begin(self, work: Any, *given: Any) -> None:
        name = "lookups" if work == self._follow else "mirror"
        thread = threading.Thread(target=work, args=given, daemon=True, name=f"{name}-{len(self._threads)}")
        self._threads.append(thread)
        thread.start()

    def _publisher(self, stream: str) -> Publish:
        def publish(table: pa.Table, batch: str) -> Mapping[str, int]:
            return self._weir.put_rows(stream, table, batch).reasons

        return publish

    def _follow(self, polling: Polling, query: str) -> None:
        """Each answer of the query names an object in the column of the key, or in its first."""
        key = polling.mirror.columns.fields[0].name.lower()
        while not self._stop.is_set():
            try:
                answers = self._weir.results(query, after="latest", follow=True, forgotten=lambda lost: None)
                for row in answers:
                    if self._stop.is_set():
                        return
                    self._lookups.pop(polling.mirror.name, None)
                    named = {name.lower(): value for name, value in row.items() if not name.startswith("_")}
                    value = named[key] if key in named else next(iter(named.values()), None)
                    polling.used(str(value))
                problem: WeirError = Away("the query is gone")
            except WeirError as raised:
                problem = raised
            self._lookups[polling.mirror.name] = f"{query}: {problem.title}"
            self._stop.wait(RETRY_S)
