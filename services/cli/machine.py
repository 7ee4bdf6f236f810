"""What runs on this machine for a catalog: a system, its streams, the keys of its door, and Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.dirs import RunDirs, shared_memory
from configs.problems import UnknownName
from configs.streams import StreamsFile
from services.catalog.reconcile import (
    ApplyClasses,
    Bring,
    DeclareStream,
    DropStream,
    PublishKeys,
    RemoveClass,
    Running,
    Step,
)
from services.ingest.java import find_java
from services.ingest.job import Door, Job
from services.ingest.process import IngestProcess
from services.ingest.progress import FeedProgress

if TYPE_CHECKING:
    from actors.system import System


class LocalMachine:
    """Made around a system of one node; steps are performed by one thread."""

    def __init__(self, system: System, node: str, door: Door, folder: Path) -> None:
        self._system, self._node, self._door, self._folder = system, node, door, folder
        self._running = Running()
        self._spark: IngestProcess | None = None

    def running(self) -> Running:
        classes = tuple(self._system.status().system.classes)
        there = {one["stream"] for one in self._gateway()["streams"]}
        streams = {name: sql for name, sql in self._running.streams.items() if name in there}
        keys = self._running.keys if self._keys.is_file() else None
        return replace(self._running, classes=classes, streams=streams, keys=keys)

    def perform(self, step: Step) -> None:
        from actors.system import call

        gateway, now = self._system.gateway(self._node), self._running
        match step:
            case PublishKeys(keys):
                keys.publish(self._keys)
                self._running = replace(now, keys=keys)
            case RemoveClass(name):
                with suppress(UnknownName):
                    self._system.remove_class(name)
            case ApplyClasses(classes):
                self._system.apply(classes)
            case DropStream(name):
                with suppress(UnknownName):
                    call(gateway.drop, name)
                others = {other: sql for other, sql in now.streams.items() if other != name}
                self._running = replace(now, streams=others)
            case DeclareStream(name, sql):
                call(gateway.declare, sql)
                self._running = replace(now, streams={**now.streams, name: sql})
            case Bring(file):
                self._bring(file)

    def used_keys(self) -> dict[str, float]:
        used: dict[str, float] = self._gateway().get("keys_used", {})
        return used

    def feeds(self) -> Sequence[FeedProgress]:
        return () if self._spark is None else self._spark.progress()

    def stop(self) -> None:
        """Spark; the system is ended by whoever has started it."""
        if self._spark is not None:
            self._spark.stop()

    def _bring(self, file: StreamsFile | None) -> None:
        self.stop()
        self._spark, self._running = None, replace(self._running, file=None)
        if file is None:
            return
        java = find_java(file.session.java_home, os.environ)
        self._spark = IngestProcess(Job(file, self._door, self._folder.absolute(), java.home))
        self._spark.start()
        self._running = replace(self._running, file=file)

    @property
    def _keys(self) -> Path:
        return RunDirs(shared_memory(), self._system.name, self._node).keys

    def _gateway(self) -> dict[str, Any]:
        from actors.system import call

        found: dict[str, Any] = call(self._system.gateway(self._node).status)
        return found
