"""The gateway of a node as a Ray actor: a process around `actors.gateway.gateway_loop.Gateway`.

Guarantees:
1. The actor serves its sockets as soon as it is created. After a crash and restart it has all streams, readers and frames
   again. If its loop fails, the process exits, so that Ray restarts it.
2. Every call may be repeated. Batches do not arrive by Ray calls, but by socket (`actors.gateway.producer_door`) or over the
   network (`endpoint`).
3. The copy of another node's stream has the same frames under the same numbers. The origin keeps each frame until the copy
   has it. Copying continues after a restart.
4. Input of a unit that runs on another node (`set_copies`) is kept until a snapshot that covers the input has been copied here.
5. Calls that declare, drop or follow streams are executed in the order in which they were made.
6. `ping` and `status` answer even while other calls are in progress.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import ray

from actors.gateway.endpoint import EndpointSettings
from actors.gateway.gateway_loop import Gateway
from actors.gateway.log_replication import (
    ClassCopy,
    CopyProgress,
    Follower,
    Frames,
    Result,
    StreamCopy,
    UnitFrames,
)
from actors.log.segment import LogMissing
from actors.log.segment_log import LOCK, LOG_BYTES, LogFull, LogTaken, Reader, frames_left, locked
from actors.log.unit_log import QUERIES, SNAPSHOTS
from actors.messages.unit_messages import Copy, copies_reader
from actors.runtime.cluster import run_or_exit, start_actor
from actors.runtime.idle_throttle import Rest, unchanged
from actors.runtime.names import find, gateway_name
from actors.runtime.run_dirs import RunDirs, remove_dead
from configs.errors import InvalidInput

# Maximum size in bytes of one reply to a follower (a node that copies a log of this node).
PULL_BYTES = 16 << 20
# Seconds that a follower's call waits for new frames. Meanwhile, the call occupies one of PULLS threads.
PULL_WAIT_S = 30.0
PULLS = 64
# Seconds between two polls of a class's log. A log is polled until a host announces its length for the first time.
UNTOLD_S = 0.25
NO_ENDPOINT: Mapping[str, Any] = {"endpoint": None, "dead": {}}
# Maximum seconds that `follow` and `follow_class` wait until the copy of a log exists. Afterwards a thread keeps trying.
MADE_S = 5.0


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    dirs: RunDirs
    bytes_max: int = LOG_BYTES
    results_bytes: int = LOG_BYTES
    endpoint: EndpointSettings | None = None
    """Settings of the network endpoint; None if no endpoint is opened."""


class Publishable(Protocol):
    """Access keys that can be pickled. Only the endpoint interprets them."""

    def publish(self, path: Path) -> None:
        """Write the keys to a file atomically, readable only by its owner."""


class GatewayActor:
    """The Ray actor, created by `start`. The constructor starts serving, because after a crash Ray calls nothing else."""

    def __init__(self, settings: GatewayOptions) -> None:
        self._dirs = dirs = settings.dirs
        self._held = dirs.hold(), dirs.hold_node()
        remove_dead(dirs.base)
        dirs.remove_dead_nodes()
        self._results_bytes = settings.results_bytes
        self._gateway = Gateway(dirs, bytes_max=settings.bytes_max)
        self._streams = self._gateway.streams
        self._followers: dict[tuple[str, str], Follower] = {}
        self._following = threading.Lock()
        self._readers: dict[Log, Reader] = {}
        self._copies: dict[str, Copy] = {}
        # Readers for which a copied stream keeps frames until they subscribe, by the stream's name in lower case.
        self._expected: dict[str, Mapping[str, bool] | None] = {}
        self._stopping = False
        opened = settings.endpoint
        self._endpoint = None if opened is None else opened.open(self._streams, dirs)
        self._thread = threading.Thread(
            target=run_or_exit, args=(self._gateway.run,), name="ingress", daemon=True
        )
        self._thread.start()
        for stream in self._streams.all():
            if stream.origin is not None:
                self._follow_stream(stream.origin, stream.name)
        is_quiet = unchanged(self._streams.frames)
        # While other nodes pull frames by Ray calls, the main thread does not sleep, because classes wait for the replies.
        Rest(lambda: is_quiet() and not (self._readers or self._followers))

    @ray.method(concurrency_group="health")
    def ping(self) -> int:
        """Return the id of the process."""
        return os.getpid()

    @ray.method(concurrency_group="health")
    def status(self) -> dict[str, Any]:
        with self._following:
            following = {
                f"{kind} {name}": follower.status() for (kind, name), follower in self._followers.items()
            }
        failures = list(self._gateway.failures)
        endpoint = NO_ENDPOINT if self._endpoint is None else self._endpoint.status()
        dead = endpoint["dead"]
        streams = [stream | {"dead": dead.get(stream["stream"], {})} for stream in self._streams.status()]
        return {**endpoint, "streams": streams, "following": following, "failures": failures}

    def publish_keys(self, keys: Publishable) -> None:
        """Replace the access keys of this node's endpoint."""
        keys.publish(self._dirs.keys)

    def declare(self, sql: str) -> str:
        """Declare a stream by its CREATE STREAM statement and return its name."""
        return self._streams.declare(sql).name

    def declare_all(self, declared: Sequence[tuple[str, Mapping[str, bool]]]) -> None:
        """Declare streams with their expected readers. Keep frames of a stream until each expected reader has subscribed.

        If some streams cannot be declared, declare all others, and then raise the first error.
        """
        problems = []
        for sql, readers in declared:
            try:
                self._streams.declare(sql, readers=readers)
            except (InvalidInput, LogFull) as problem:
                problems.append(problem)
        if problems:
            raise problems[0]

    def drop(self, stream: str) -> None:
        """Drop a stream; if the stream is a copy of another node's stream, also stop copying."""
        self._unfollow("stream", stream)
        with self._streams.lock:
            origin = self._streams.find(stream).origin
        if origin is not None:
            # The gateway of the node from which the stream was copied may have ended.
            with suppress(ValueError):
                find(gateway_name(origin)).forget_copy.remote(stream, self._reader)
        self._streams.drop(stream)
        folder = self._dirs.stream(stream)
        self._readers = {log: reader for log, reader in self._readers.items() if log.folder != folder}

    def forget_reader(self, reader: str) -> None:
        """Stop keeping frames for a reader that will not return."""
        self._streams.forget_reader(reader)

    def forget_unit(self, unit: str) -> None:
        """Stop keeping a unit's input, and remove the unit's logs unless another process is writing to them."""
        self._streams.forget_reader(unit)
        folder = self._dirs.class_log(unit)
        self._readers = {
            log: reader
            for log, reader in self._readers.items()
            if folder not in (log.folder, log.folder.parent)
        }
        with suppress(FileNotFoundError, LogTaken):
            lock = locked(folder / LOCK)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)

    def caught_up(self, ages_s: Mapping[str, float]) -> None:
        """Send the readers of each stream the time at which the stream's feed last had nothing left to publish.

        `ages_s` has the seconds since that time, by stream.
        """
        self._streams.caught_up(ages_s)

    @ray.method(concurrency_group="others")
    def begin_copy(self, stream: str, reader: str) -> str:
        """Return the declaration of a stream for a node that will copy it. Keep the stream's frames until the node has copied them."""
        return self._streams.begin_copy(stream, reader)

    @ray.method(concurrency_group="pulls")
    def frames(self, stream: str, from_number: int, reader: str = "", wait_s: float = 0.0) -> Frames:
        """Return frames of a stream from number `from_number` on. If no such frame exists yet, wait up to `wait_s` seconds.

        Earlier frames are released, because the other node (`reader`) has copied them.
        """
        if reader:
            self._streams.follow_from(stream, reader, from_number)
        self._streams.wait_grown(
            lambda: self._stopping or self._streams.find(stream).log.next > from_number, wait_s
        )
        return self._read(Log(self._dirs.stream(stream), reader), from_number)

    @ray.method(concurrency_group="pulls")
    def class_frames(self, name: str, from_number: int, reader: str = "", wait_s: float = 0.0) -> Frames:
        """Return frames of a class's log from number `from_number` on. If no such frame exists yet, wait up to `wait_s` seconds.

        The log is polled if no host has announced its length yet.
        """
        log = Reader(self._dirs.class_log(name))
        until = time.monotonic() + wait_s
        while not self._stopping and log.next <= from_number and (left_s := until - time.monotonic()) > 0:
            most_s = left_s if self._streams.growth.is_announced(name) else UNTOLD_S
            self._streams.wait_grown(lambda: self._stopping or log.next > from_number, min(left_s, most_s))
        return self._read(Log(self._dirs.class_log(name), reader), from_number)

    @ray.method(concurrency_group="pulls")
    def unit_frames(self, name: str, place: CopyProgress, reader: str, wait_s: float) -> UnitFrames:
        """Return the commits and snapshots that another node has not copied yet, and the input that the unit has released.

        `place` has the numbers of the first commit and snapshot to return. If there is nothing new yet, wait up to `wait_s` seconds.
        """
        folder = self._dirs.class_log(name)
        log, saved = Reader(folder), Reader(folder / SNAPSHOTS)

        def has_more() -> bool:
            grown = log.next > place.commits or saved.next > place.snapshots
            return self._stopping or grown or self._streams.released_by(name) != place.released

        self._streams.wait_grown(has_more, wait_s)
        # The snapshot is read after the released positions, so that the snapshot covers all released input.
        # Commits are read after the snapshot, so that the commits reach up to the snapshot.
        with self._streams.lock:
            released = self._streams.released_by(name)
        last = max(place.snapshots, saved.next - 1)
        snapshots = self._read(Log(folder / SNAPSHOTS, reader), last).frames
        commits = self._read(Log(folder, reader), place.commits).frames
        try:
            queries = (folder / QUERIES).read_bytes()
        except FileNotFoundError:
            raise LogMissing(
                "the unit has not written its log yet; try again later", file=str(folder)
            ) from None
        return UnitFrames(time.monotonic(), commits, snapshots, released, queries)

    def follow(self, origin: str, stream: str, readers: Mapping[str, bool] | None = None) -> None:
        """Start to copy a stream from the gateway of another node. Keep frames of the copy until its readers have subscribed.

        If the other node does not have the stream yet, keep trying.
        """
        if origin == self._dirs.node:
            raise InvalidInput(
                "a node cannot copy the streams of its own gateway", "origin", origin, "name another node"
            )
        self._expected[stream.lower()] = readers
        if self._follow_stream(origin, stream).made.wait(MADE_S) and readers is not None:
            self._streams.expect(stream, readers)

    def follow_class(self, origin: str, name: str, results_bytes: int | None = None) -> None:
        """Copy the logs of a unit from the gateway of the node on which the unit runs."""
        folder = self._dirs.class_log(name)

        def make(_: Result) -> ClassCopy:
            return ClassCopy(
                folder,
                results_bytes or self._results_bytes,
                partial(self._streams.growth.hear, name),
                partial(self._streams.release_for, name),
            )

        pull = Pull(origin, "unit_frames", name, self._reader)
        self._follow("class", name, pull, make).made.wait(MADE_S)

    def set_copies(self, copies: Mapping[str, Copy]) -> None:
        """Copy the logs of these units. Copies of units that are no longer listed are kept, but not continued."""
        for name, copy in self._copies.items():
            now = copies.get(name)
            if now is None or (now.origin, now.results_bytes) != (copy.origin, copy.results_bytes):
                self.unfollow_class(name)
        self._copies = dict(copies)
        for name, copy in copies.items():
            self._streams.keep_for(name, copy.streams, copy.holds_back)
            self.follow_class(copy.origin, name, copy.results_bytes)

    def unfollow_class(self, name: str) -> None:
        self._unfollow("class", name)

    @ray.method(concurrency_group="others")
    def forget_copy(self, stream: str, reader: str) -> None:
        """Stop keeping frames of a stream for a node (`reader`) that no longer copies the stream."""
        self._streams.unfollowed(stream, reader)
        self._readers.pop(Log(self._dirs.stream(stream), reader), None)

    def stop(self, remove: bool = False) -> None:
        """Stop serving. The logs stay unless `remove` is set."""
        self._stopping = True
        with self._following:
            for follower in self._followers.values():
                follower.stop()
            self._followers.clear()
        if self._endpoint is not None:
            self._endpoint.close()
        self._gateway.stop()
        self._thread.join()
        if remove:
            self._dirs.remove()
        for file in self._held:
            os.close(file)

    @property
    def _reader(self) -> str:
        return copies_reader(self._dirs.node)

    def _read(self, log: Log, from_number: int) -> Frames:
        # Each follower has its own reader, which continues where the last call ended; calls of one follower do not overlap.
        reader = self._readers.pop(log, None) or Reader(log.folder)
        frames = []
        size = 0
        for number, payload in frames_left(reader, from_number):
            frames.append((number, np.frombuffer(payload, np.uint8)))
            size += len(payload)
            if size >= PULL_BYTES:
                break
        self._readers[log] = reader
        return Frames(time.monotonic(), frames)

    def _follow_stream(self, origin: str, stream: str) -> Follower:
        def make(result: Result) -> StreamCopy:
            sql = result(find(gateway_name(origin)).begin_copy.remote(stream, self._reader).future())
            declared = self._streams.declare(sql, origin, self._expected.get(stream.lower()))
            return StreamCopy(self._streams, declared.name)

        return self._follow("stream", stream, Pull(origin, "frames", stream, self._reader), make)

    def _follow(
        self, kind: str, name: str, pull: Pull, make: Callable[[Result], StreamCopy | ClassCopy]
    ) -> Follower:
        with self._following:
            running = self._followers.get((kind, name.lower()))
            if running is not None:
                return running
            follower = self._followers[kind, name.lower()] = Follower(make, pull, time.monotonic)
            return follower

    def _unfollow(self, kind: str, name: str) -> None:
        with self._following:
            follower = self._followers.pop((kind, name.lower()), None)
        if follower is not None:
            follower.stop()


@dataclass(frozen=True, slots=True)
class Log:
    """Key of a log reader: the folder of the log and the follower that reads it."""

    folder: Path
    reader: str


class Pull:
    """Callable that requests frames from another node's gateway. After a failure it looks the gateway actor up again."""

    def __init__(self, node: str, method: str, name: str, reader: str) -> None:
        self._node, self._method, self._name, self._reader = node, method, name, reader
        self._actor: Any = None

    def __call__(self, place: Any) -> Future[Any]:
        if self._actor is None:
            self._actor = find(gateway_name(self._node))
        method = getattr(self._actor, self._method)
        future: Future[Any] = method.remote(self._name, place, self._reader, PULL_WAIT_S).future()
        future.add_done_callback(self._look_again_after_failure)
        return future

    def _look_again_after_failure(self, future: Future[Any]) -> None:
        if future.exception() is not None:
            self._actor = None


def start(node_id: str, settings: GatewayOptions) -> Any:
    """Return the handle of a node's gateway actor, and start the actor if it does not exist."""
    groups = {"health": 2, "others": 2, "pulls": PULLS}
    # With `concurrency` 1, methods without a concurrency group run one after another, in the order of the calls.
    return start_actor(
        GatewayActor, gateway_name(settings.dirs.node), node_id, groups, (settings,), concurrency=1
    )
