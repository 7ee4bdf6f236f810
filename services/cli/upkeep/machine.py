"""What runs for a catalog: a system of one node or several, its streams, the keys of its doors, and Spark if it runs here."""

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


# Longest wait until gateways and hosts have what a step has declared. A host process starts within seconds; one that takes longer
# must not hold up the changes of other tenants.
SET_S = 10.0
LOOK_S = 0.02
# Gateways get a new report on a feed that was still caught up this much later.
NEWS_S = 1.0


class SystemMachine:
    """Made around a system; steps are performed by one thread."""

    def __init__(self, system: System, own_key: str, mirrors: Mirrors, brings: Brings | None = None) -> None:
        """`own_key` opens every door, beside the catalog's keys. Without `brings` feeds are another process's to bring."""
        self._system, self._own_key, self._mirrors, self._brings = system, own_key, mirrors, brings
        self._polled: dict[str, MirrorDeclaration] = {}
        self._caught_up: dict[str, float] = {}
        self.brought_elsewhere: Callable[[], Sequence[FeedProgress]] = tuple
        """The progress of feeds that another process runs."""
        self._keys: KeyRing | None = None
        self._file: StreamsFile | None = None
        # Nodes whose doors have the keys.
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
        """Report to all gateways how long ago feeds had nothing left to publish, if that has changed."""
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
        """Mirrors and Spark; the system is ended by whoever has started it."""
        self._stopping.set()
        self._mirrors.stop()
        if self._brings is not None:
            self._brings.stop()

    def _publish(self, keys: KeyRing) -> None:
        self._opened, self._keys = frozenset(), keys
        for node in self._status().nodes:
            self._call(node, "publish_keys", keys.with_key(self._own_key))
            self._opened |= {node}

    # The coordinator tells gateways what they are to have, and waits for nobody; who goes on after this finds it done.

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
        """Wait until gateways expect the readers of all classes, and hosts have their queries."""
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
            # Ray's own text is about its insides.
            raise Away(f"the gateway of node {node} ended and is being restarted") from None
