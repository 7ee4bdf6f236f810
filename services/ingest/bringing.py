"""Spark brings what is declared, and then what is declared anew: a child of this process, replaced when its job changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from configs.problems import Away, WeirError
from configs.streams import StreamsFile
from services.ingest.java import find_java
from services.ingest.job import Door, Job
from services.ingest.process import IngestProcess
from services.ingest.progress import Backoff, FeedProgress

LOOK_S = 5.0


class Brings:
    """Spark as a child of this process; or none, while nothing has a source."""

    def __init__(self, door: Door, folder: Path) -> None:
        self._door, self._folder = door, folder
        self._spark: IngestProcess | None = None

    def bring(self, file: StreamsFile | None, endpoints: Mapping[str, str] | None = None) -> None:
        """These feeds and no others, from now on; with endpoints, each stream through the door of its own node."""
        self.stop()
        self._spark = None
        if file is None:
            return
        java = find_java(file.session.java_home, os.environ)
        door = self._door if endpoints is None else replace(self._door, endpoints=dict(endpoints))
        self._spark = IngestProcess(Job(file, door, self._folder.absolute(), java.home))
        self._spark.start()

    def progress(self) -> Sequence[FeedProgress]:
        return () if self._spark is None else self._spark.progress()

    def stop(self) -> None:
        """Idempotent."""
        if self._spark is not None:
            self._spark.stop()


class Wanted(Protocol):
    """What a service says."""

    @property
    def file(self) -> StreamsFile | None: ...

    @property
    def endpoints(self) -> Mapping[str, str]: ...


class Bringing(Protocol):
    def bring(self, file: StreamsFile | None, endpoints: Mapping[str, str]) -> None: ...

    def progress(self) -> Sequence[FeedProgress]: ...


class FollowedFeeds:
    """What a service says is brought; what was said last goes on while it does not answer."""

    def __init__(
        self,
        ask: Callable[[], Wanted],
        tell: Callable[[Sequence[FeedProgress]], None],
        brings: Bringing,
        alive: Path | None = None,
    ) -> None:
        """The service is told how feeds fare; the file `alive` is touched at each look."""
        self._ask, self._tell, self._brings, self._alive = ask, tell, brings, alive
        self._said: Wanted | None = None
        self._due = float("-inf")
        self._backoff = Backoff()
        self.problem = ""
        """Why it is not as it should be; empty if it is."""

    def look(self, now: float) -> None:
        """Ask what is to be brought, if it is time to, and see to it. NotAllowed if the key may not know."""
        if self._alive is not None:
            self._alive.touch()
        if now < self._due:
            return
        self._due = now + LOOK_S
        try:
            said = self._ask()
            self._tell(self._brings.progress())
        except Away as problem:
            self.problem = str(problem)
            return
        if self._said is not None and (said.file, said.endpoints) == (self._said.file, self._said.endpoints):
            self.problem = ""
            return
        self._said = None
        try:
            self._brings.bring(said.file, said.endpoints)
        except WeirError as problem:
            self.problem = str(problem)
            self._due = now + self._backoff.failed()
        else:
            self._backoff.succeeded()
            self._said, self.problem = said, ""
