"""The running system follows the catalog: what is wanted is compared with what runs, and the difference is enacted.

    with Reconciling(catalog, machine) as reconciling: ...

`steps` decides, from what is wanted and what runs; a Machine performs. What cannot be performed is told and tried again
later; it keeps nothing else from being performed. If one class is refused, the others are applied. If a query of a class
cannot be planned, the class's other queries run.
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
# Revision of a catalog before any of it is enacted.
NOTHING = -1


@dataclass(frozen=True)
class SystemState:
    """What runs."""

    classes: tuple[LiveClass, ...] = ()
    streams: Mapping[str, str] = field(default_factory=dict)
    """Declarations by name, of those that were declared for the catalog and are there."""
    file: StreamsFile | None = None
    keys: KeyRing | None = None
    mirrors: Mapping[str, MirrorDeclaration] = field(default_factory=dict)
    """Those that are polled, by name."""


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
    """Let Spark bring these, and no others."""

    file: StreamsFile | None


@dataclass(frozen=True)
class PublishKeys:
    keys: KeyRing


@dataclass(frozen=True)
class BeginMirror:
    """Poll it, in place of the one of its name."""

    mirror: MirrorDeclaration


@dataclass(frozen=True)
class EndMirror:
    name: str


Step = RemoveClass | DropStream | DeclareStream | ApplyClasses | Bring | PublishKeys | BeginMirror | EndMirror


class Machine(Protocol):
    """The system, its streams and its Spark."""

    def running(self) -> SystemState: ...

    def perform(self, step: Step) -> None:
        """Idempotent. Raises what cannot be."""

    def report_caught_up(self) -> None:
        """Report to gateways which feeds have nothing left to publish, if that has changed."""
        ...

    def used_keys(self) -> dict[str, float]:
        """When each was shown last."""

    def stop(self) -> None:
        """End what was started, also what is being performed; called by another thread, idempotent."""


def steps(wanted: Desired, running: SystemState) -> list[Step]:
    """What leads from one to the other. A class never reads a stream that is not there, or is another."""
    due: list[Step] = []
    if running.keys != wanted.keys:
        due.append(PublishKeys(wanted.keys))
    here, there = by_folded(running.streams), by_folded(wanted.streams)
    changed = {
        name for name, stream in here.items() if name in there and not is_same(stream.sql, there[name].sql)
    }
    before = {class_.name: class_ for class_ in running.classes}
    named = {class_.name: class_ for class_ in wanted.classes}
    # Classes as they run while streams are replaced: without these streams and the queries that read them.
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
        # Classes bring their streams: a new stream has its readers before its first row.
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
    """Return streams by name in small letters: names that differ in letters' case are one stream."""
    return {name.lower(): DeclareStream(name, sql) for name, sql in streams.items()}


def streams_of(one: LiveClass) -> set[str]:
    """Return the names, in small letters, of the streams that a class may read."""
    return {parse_create_stream(sql).name.lower() for sql in one.streams}


def is_same(one: str, other: str) -> bool:
    """Whether two statements declare the same stream."""
    return one == other or parse_create_stream(one) == parse_create_stream(other)


def goes_on(before: LiveClass, after: LiveClass) -> bool:
    """Whether a class can change so while it runs."""
    return before.shards == after.shards and (before.key == after.key or before.shards == 1)


class Reconciling(BackgroundThread):
    """Follows the catalog in a thread of its own, from `start` to `stop`."""

    def __init__(self, catalog: Catalog, machine: Machine, look_s: float = LOOK_S) -> None:
        super().__init__("reconcile")
        self._catalog, self._machine, self._look_s = catalog, machine, look_s
        # A change need not wait for the next look.
        self._woken = threading.Event()
        self._followed = threading.Condition()
        self._enacted = NOTHING
        self._problems: tuple[str, ...] = ()
        self._wanted = catalog.desired()
        # By class, what runs in its place, as some of its queries cannot be planned.
        self._reduced: dict[str, Reduced] = {}
        self._backoff = Backoff(look_s)

    @property
    def problems(self) -> Sequence[str]:
        """Why something does not run as it should, at this moment."""
        return self._problems

    def start(self) -> None:
        """What the catalog says runs when this returns; `problems` tells what could not be."""
        self._problems = self._follow()
        self._note_enacted()
        super().start()

    def wait_enacted(self, most_s: float) -> bool:
        """Let all that is declared now be enacted at once; return False if that takes longer than `most_s`."""
        revision = self._catalog.revision()
        self._woken.set()
        with self._followed:
            return self._followed.wait_for(lambda: self._enacted >= revision, most_s)

    def stop(self) -> None:
        self._stopping.set()
        self._woken.set()
        while self._thread.is_alive():
            # What it is about to start may be there only now.
            self._machine.stop()
            self._thread.join(LOOK_S)

    def _run(self) -> None:
        retry_at = time.monotonic()
        while self._waits():
            try:
                is_news = self._look()
                if is_news:
                    self._backoff.succeeded()
                elif self._problems and time.monotonic() < retry_at:
                    continue
                self._problems = self._follow()
                self._note_enacted()
            except Exception as problem:
                self._problems = (told(problem),)
            if self._problems:
                retry_at = time.monotonic() + self._backoff.failed()
            else:
                self._backoff.succeeded()

    def _waits(self) -> bool:
        """Wait for the next look; return False when the thread is to end."""
        self._woken.wait(self._look_s)
        self._woken.clear()
        return not self._stopping.is_set()

    def _note_enacted(self) -> None:
        with self._followed:
            self._enacted = self._wanted.revision
            self._followed.notify_all()

    def _look(self) -> bool:
        """Whether the catalog wants something else than before."""
        self._catalog.keys.note_used(self._machine.used_keys())
        self._machine.report_caught_up()
        if self._catalog.revision() == self._wanted.revision:
            return False
        self._wanted = self._catalog.desired()
        return True

    def _follow(self) -> tuple[str, ...]:
        """Perform what is to be done; return what has kept steps from being performed, and queries from running."""
        named = {class_.name: class_ for class_ in self._wanted.classes}
        self._reduced = {
            name: reduced for name, reduced in self._reduced.items() if named.get(name) == reduced.wanted
        }
        named |= {name: reduced.running for name, reduced in self._reduced.items()}
        # A class of which nothing can run has been removed.
        nothing = {name for name, reduced in self._reduced.items() if not reduced.running.queries}
        desired = replace(
            self._wanted, classes=tuple(class_ for name, class_ in named.items() if name not in nothing)
        )
        problems: list[str] = []
        for step in steps(desired, self._machine.running()):
            problems += self._performed(step)
        return (*problems, *(why for reduced in self._reduced.values() for why in reduced.problems))

    def _performed(self, step: Step) -> Sequence[str]:
        """Perform a step; return what has kept it from being performed."""
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
        """Return True if the class runs without those of its queries that cannot be planned, or not at all without any."""
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
    """A class some queries of which cannot be planned."""

    wanted: LiveClass
    running: LiveClass
    """The class with its other queries."""
    problems: Sequence[str]


def told(problem: Exception) -> str:
    return str(problem) if isinstance(problem, WeirError) else f"{type(problem).__name__}: {problem}"
