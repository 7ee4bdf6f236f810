"""Reconciliation of the running system with the catalog. Each step starts, changes or removes one part of the running system.

Example:

    with Reconciling(catalog, machine) as reconciling: ...

`steps` computes the steps that lead from the running to the declared state; a Machine performs the steps. A step that fails is listed in
`problems` and tried again later; all other steps are performed nevertheless. If one class is refused, all other classes are
applied. If a query of a class cannot be planned, the class's other queries run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from actors.runtime.backoff import Backoff
from configs.classes.live_class import LiveClass
from configs.documents.declarations import MirrorDeclaration
from configs.documents.spark_streams import StreamsFile
from configs.errors import InvalidInput, WeirError, sentence
from engine.class_.admission import runnable, without_streams
from engine.sql import parse_create_stream
from services.catalog.catalog import Catalog, Desired
from services.common.background_thread import BackgroundThread
from services.ingest.keys import KeyRing

LOOK_S = 1.0
# Revision of a system in which no state of the catalog has been carried out yet.
NOTHING = -1


@dataclass(frozen=True)
class SystemState:
    """State of the running system."""

    classes: tuple[LiveClass, ...] = ()
    streams: Mapping[str, str] = field(default_factory=dict)
    """CREATE STREAM statements of the streams that exist because the catalog declares them, by name."""
    file: StreamsFile | None = None
    keys: KeyRing | None = None
    mirrors: Mapping[str, MirrorDeclaration] = field(default_factory=dict)
    """Declarations of the mirrors that are polled, by name."""


@dataclass(frozen=True)
class RemoveClass:
    name: str


@dataclass(frozen=True)
class DropStream:
    name: str


@dataclass(frozen=True)
class DeclareStream:
    name: str
    sql: str


@dataclass(frozen=True)
class ApplyClasses:
    classes: tuple[LiveClass, ...]


@dataclass(frozen=True)
class Bring:
    """Step that runs exactly the feeds of `file` in Spark, and stops all other feeds."""

    file: StreamsFile | None


@dataclass(frozen=True)
class PublishKeys:
    keys: KeyRing


@dataclass(frozen=True)
class BeginMirror:
    """Step that starts to poll a mirror, in place of a running mirror of the same name."""

    mirror: MirrorDeclaration


@dataclass(frozen=True)
class EndMirror:
    name: str


Step = RemoveClass | DropStream | DeclareStream | ApplyClasses | Bring | PublishKeys | BeginMirror | EndMirror


class Machine(Protocol):
    """Interface to the running system, its streams, feeds and mirrors."""

    def running(self) -> SystemState: ...

    def perform(self, step: Step) -> None:
        """Carry out a step, or raise an exception. Carrying out a step a second time has no effect."""

    def report_caught_up(self) -> None:
        """Report to gateways which feeds have nothing left to publish. Without a change since the last report, do nothing."""
        ...

    def used_keys(self) -> dict[str, float]:
        """Return the time of last use of each key."""

    def stop(self) -> None:
        """Stop all that steps have started, and the step in progress. Any thread may call this method, also repeatedly."""


def steps(wanted: Desired, running: SystemState) -> list[Step]:
    """Return the steps from the running state to the declared state. Their order ensures that no class reads a missing or wrong stream."""
    due: list[Step] = []
    if running.keys != wanted.keys:
        due.append(PublishKeys(wanted.keys))
    here, there = by_folded(running.streams), by_folded(wanted.streams)
    changed = {
        name for name, stream in here.items() if name in there and not is_same(stream.sql, there[name].sql)
    }
    before = {class_.name: class_ for class_ in running.classes}
    named = {class_.name: class_ for class_ in wanted.classes}
    # Classes that read a changed stream run without this stream and its queries until the stream is replaced.
    parted = {
        name: without_streams(class_, changed)
        for name, class_ in before.items()
        if changed & streams_of(class_)
    }
    polled, mirrors = running.mirrors, wanted.mirrors
    due += [EndMirror(name) for name, mirror in polled.items() if mirrors.get(name) != mirror]
    ended = {
        name
        for name, class_ in before.items()
        if name not in named
        or not goes_on(class_, named[name])
        or (name in parted and not parted[name].queries)
    }
    due += [RemoveClass(name) for name in ended]
    if parting := tuple(class_ for name, class_ in parted.items() if name not in ended):
        due.append(ApplyClasses(parting))
    due += [DropStream(here[name].name) for name in changed]
    applied = tuple(
        class_
        for name, class_ in named.items()
        if before.get(name) != class_ or name in ended or name in parted
    )
    if applied:
        # A step that applies a class also declares the class's streams, so that a new stream has readers before its first row.
        due.append(ApplyClasses(applied))
    due += [
        DeclareStream(stream.name, stream.sql)
        for name, stream in there.items()
        if name not in here or name in changed
    ]
    due += [DropStream(stream.name) for name, stream in here.items() if name not in there]
    if running.file != wanted.file:
        due.append(Bring(wanted.file))
    due += [BeginMirror(mirror) for name, mirror in mirrors.items() if polled.get(name) != mirror]
    return due


def by_folded(streams: Mapping[str, str]) -> dict[str, DeclareStream]:
    """Return streams by name in lower case: names that differ only in case are the same stream."""
    return {name.lower(): DeclareStream(name, sql) for name, sql in streams.items()}


def streams_of(one: LiveClass) -> set[str]:
    """Return the names, in lower case, of the streams that a class may read."""
    return {parse_create_stream(sql).name.lower() for sql in one.streams}


def is_same(one: str, other: str) -> bool:
    """Return True if two statements declare the same stream."""
    return one == other or parse_create_stream(one) == parse_create_stream(other)


def goes_on(before: LiveClass, after: LiveClass) -> bool:
    """Return True if a class can take over the new declaration while it runs, so that it need not be restarted."""
    return before.shards == after.shards and (before.key == after.key or before.shards == 1)


class Reconciling(BackgroundThread):
    """Background thread that makes the system follow the catalog, from `start` to `stop`."""

    def __init__(self, catalog: Catalog, machine: Machine, look_s: float = LOOK_S) -> None:
        super().__init__("reconcile")
        self._catalog, self._machine, self._look_s = catalog, machine, look_s
        # Event that ends the thread's wait for the next poll, so that a change takes effect at once.
        self._woken = threading.Event()
        self._followed = threading.Condition()
        self._enacted = NOTHING
        self.problems: Sequence[str] = ()
        """Texts that say which parts of the system do not run as declared, and why."""
        self._wanted = catalog.desired()
        # Classes with queries that cannot be planned, by class name; such a class runs without these queries.
        self._reduced: dict[str, Reduced] = {}
        self._backoff = Backoff(look_s)

    def start(self) -> None:
        """Carry out all steps from the catalog, then start the thread; `problems` lists the steps that have failed."""
        self.problems = self._follow()
        self._note_enacted()
        super().start()

    def wait_enacted(self, most_s: float) -> bool:
        """Wait until all present declarations are carried out; return False if that takes longer than `most_s` seconds."""
        revision = self._catalog.revision()
        self._woken.set()
        with self._followed:
            return self._followed.wait_for(lambda: self._enacted >= revision, most_s)

    def stop(self) -> None:
        self._stopping.set()
        self._woken.set()
        while self._thread.is_alive():
            # The thread may have started a part of the system after `stop` of the machine was called, so `stop` is called again.
            self._machine.stop()
            self._thread.join(LOOK_S)

    def _run(self) -> None:
        retry_at = time.monotonic()
        while self._waits():
            try:
                is_news = self._look()
                if is_news:
                    self._backoff.succeeded()
                elif self.problems and time.monotonic() < retry_at:
                    continue
                self.problems = self._follow()
                self._note_enacted()
            except Exception as problem:
                self.problems = (told(problem),)
            if self.problems:
                retry_at = time.monotonic() + self._backoff.failed()
            else:
                self._backoff.succeeded()

    def _waits(self) -> bool:
        """Wait until the next poll is due or an event demands an earlier poll. Return False if the thread must end."""
        self._woken.wait(self._look_s)
        self._woken.clear()
        return not self._stopping.is_set()

    def _note_enacted(self) -> None:
        with self._followed:
            self._enacted = self._wanted.revision
            self._followed.notify_all()

    def _look(self) -> bool:
        """Read the catalog; return True if it has changed, or if a query has started or ended."""
        self._catalog.keys.note_used(self._machine.used_keys())
        self._machine.report_caught_up()
        if self._catalog.is_desired(self._wanted):
            return False
        self._wanted = self._catalog.desired()
        return True

    def _follow(self) -> tuple[str, ...]:
        """Perform all due steps; return the problems of failed steps, and of queries that cannot run."""
        named = {class_.name: class_ for class_ in self._wanted.classes}
        self._reduced = {
            name: reduced for name, reduced in self._reduced.items() if named.get(name) == reduced.wanted
        }
        named |= {name: reduced.running for name, reduced in self._reduced.items()}
        running = self._machine.running()
        # A class without a query that can run is removed.
        nothing = {name for name, reduced in self._reduced.items() if not reduced.running.queries}
        # When all queries of a class have ended, a running class stays, so that its answers can be read; it is not started again.
        nothing |= {name for name, class_ in named.items() if not class_.queries}.difference(
            class_.name for class_ in running.classes
        )
        desired = replace(
            self._wanted, classes=tuple(class_ for name, class_ in named.items() if name not in nothing)
        )
        problems: list[str] = []
        for step in steps(desired, running):
            problems += self._performed(step)
        return (*problems, *(why for reduced in self._reduced.values() for why in reduced.problems))

    def _performed(self, step: Step) -> Sequence[str]:
        """Perform a step, and return the problems that have prevented the step. The result of a successful step is empty."""
        if self._stopping.is_set():
            return ()
        try:
            self._machine.perform(step)
        except Exception as problem:
            if isinstance(step, ApplyClasses) and isinstance(problem, InvalidInput):
                if len(step.classes) > 1:
                    return [
                        why for class_ in step.classes for why in self._performed(ApplyClasses((class_,)))
                    ]
                if self._is_reduced(step.classes[0]):
                    return ()
            return (f"{type(step).__name__}: {told(problem)}",)
        return ()

    def _is_reduced(self, wanted: LiveClass) -> bool:
        """Apply the class without queries that cannot be planned; remove the class if no query is left. Return True on success."""
        try:
            runnable_part, problems = runnable(wanted)
            if not problems:
                return False
            self._machine.perform(
                ApplyClasses((runnable_part.declared,)) if runnable_part.queries else RemoveClass(wanted.name)
            )
        except Exception:
            return False
        about = f"Query {wanted.name}/"
        why = tuple(f"{about}{name} does not run: {sentence(problem)}" for name, problem in problems.items())
        self._reduced[wanted.name] = Reduced(wanted, runnable_part.declared, why)
        return True


@dataclass(frozen=True)
class Reduced:
    """Class that has queries which cannot be planned."""

    wanted: LiveClass
    running: LiveClass
    """Copy of the class that has only the queries that can be planned."""
    problems: Sequence[str]


def told(problem: Exception) -> str:
    return str(problem) if isinstance(problem, WeirError) else f"{type(problem).__name__}: {problem}"
