"""The running system that follows a catalog: its classes, streams and mirrors, the keys of its gateways, and Spark if it runs here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from configs.documents.declarations import MirrorDeclaration
from configs.documents.spark_streams import StreamsFile
from configs.errors import Away, UnknownName
from services.catalog.reconcile import (
    ApplyClasses,
    BeginMirror,
    Bring,
    DeclareStream,
    DropStream,
    EndMirror,
    PublishKeys,
    RemoveClass,
    Step,
    SystemState,
)
from services.ingest.keys import KeyRing
from services.ingest.progress import FeedProgress
from services.ingest.spark_supervisor import Brings
from services.mirror.mirror_definition import read_mirror
from services.mirror.mirror_threads import Mirrors
from services.mirror.poll_loop import MirrorProgress

if TYPE_CHECKING:
    from actors.coordinator.control_plane import SystemStatus
    from actors.system import System


# Maximum seconds to wait until gateways and hosts have made a change: a slow host must not delay the changes of other tenants.
SET_S = 10.0
LOOK_S = 0.02
# Minimum seconds between two reports to gateways that a feed has nothing left to publish.
NEWS_S = 1.0


class SystemMachine:
    """Running system with the methods by which the reconciler changes it; only one thread calls these methods."""

    def __init__(self, system: System, own_key: str, mirrors: Mirrors, brings: Brings | None = None) -> None:
        """All gateways accept `own_key` and the keys of the catalog. `brings` runs the feeds. Without `brings`, another process runs the feeds."""
        self._system, self._own_key, self._mirrors, self._brings = system, own_key, mirrors, brings
        self._polled: dict[str, MirrorDeclaration] = {}
        self._caught_up: dict[str, float] = {}
        self.brought_elsewhere: Callable[[], Sequence[FeedProgress]] = tuple
        """Function that returns the progress of feeds that another process runs."""
        self._keys: KeyRing | None = None
        self._file: StreamsFile | None = None
        # Nodes with gateways that have the current keys.
        self._opened: frozenset[str] = frozenset()
        self._stopping = threading.Event()

    def running(self) -> SystemState:
        now = self._status()
        keys = self._keys if self._opened >= now.nodes.keys() else None
        return SystemState(now.classes, now.streams, self._file, keys, dict(self._polled))

    def perform(self, step: Step) -> None:
        match step:
            case PublishKeys(keys):
                self._publish(keys)
            case RemoveClass(name):
                with suppress(UnknownName):
                    self._system.remove_class(name)
            case ApplyClasses(classes):
                self._system.apply(classes)
                self._wait_set()
            case DropStream(name):
                self._drop(name)
            case DeclareStream(name, sql):
                self._declare(name, sql)
            case Bring(file):
                if self._brings is not None:
                    self._file = None
                    self._brings.bring(file)
                self._file = file
            case EndMirror(name):
                self._polled.pop(name, None)
                self._mirrors.end(name)
            case BeginMirror(declared):
                self._mirrors.begin(read_mirror(declared), declared.password)
                self._polled[declared.name] = declared

    def used_keys(self) -> dict[str, float]:
        used: dict[str, float] = {}
        for node in self._status().nodes:
            for key, at in self._call(node, "status").get("keys_used", {}).items():
                used[key] = max(at, used.get(key, at))
        return used

    def feeds(self) -> Sequence[FeedProgress]:
        return () if self._brings is None else self._brings.progress()

    def report_caught_up(self) -> None:
        """Report to all gateways when each feed last had nothing left to publish. Only times that changed since the last report are sent."""
        if self._file is None:
            return
        streams = {name: feed.streams for name, feed in self._file.all_feeds().items()}
        now, ages_s = time.time(), dict[str, float]()
        for feed in (*self.feeds(), *self.brought_elsewhere()):
            at = feed.caught_up_at
            if at is not None and feed.feed in streams and at - self._caught_up.get(feed.feed, 0.0) >= NEWS_S:
                self._caught_up[feed.feed] = at
                ages_s |= dict.fromkeys(streams[feed.feed], now - at)
        if ages_s:
            for node in self._status().nodes:
                self._call(node, "caught_up", ages_s)

    def mirrors(self) -> Sequence[MirrorProgress]:
        return self._mirrors.progress()

    def stop(self) -> None:
        """Stop the mirrors and Spark, but not the system, because the code that started the system must end the system."""
        self._stopping.set()
        self._mirrors.stop()
        if self._brings is not None:
            self._brings.stop()

    def _publish(self, keys: KeyRing) -> None:
        self._opened, self._keys = frozenset(), keys
        for node in self._status().nodes:
            self._call(node, "publish_keys", keys.with_key(self._own_key))
            self._opened |= {node}

    # The coordinator sends changes to gateways without waiting for an answer.
    # So `_declare` and `_drop` also call the gateway directly: when they return, the gateway has made the change.

    def _declare(self, name: str, sql: str) -> None:
        self._system.declare_stream(sql)
        home = self._status().homes.get(name.lower())
        if home is not None:
            self._call(home, "declare", sql)

    def _drop(self, name: str) -> None:
        home = self._status().homes.get(name.lower())
        with suppress(UnknownName):
            self._system.drop_stream(name)
        if home is not None:
            with suppress(UnknownName):
                self._call(home, "drop", name)

    def _wait_set(self) -> None:
        """Wait until all gateways know which classes read their streams, and all hosts have the queries of their classes."""
        until = time.monotonic() + SET_S
        while self._system.status().being_set and time.monotonic() < until:
            if self._stopping.wait(LOOK_S):
                return

    def _status(self) -> SystemStatus:
        return self._system.status().system

    def _call(self, node: str, method: str, *arguments: Any) -> Any:
        from ray.exceptions import RayActorError

        from actors.system import call

        try:
            return call(getattr(self._system.gateway(node), method), *arguments)
        except RayActorError:
            # Ray's own message is not shown, because it describes internals of Ray.
            raise Away(f"the gateway of node {node} ended and is being restarted") from None
