"""A whole system: started on this machine, started on a Ray cluster, or found on a cluster.

A system consists of a coordinator and, on each node, a gateway, a dispatcher and hosts. A system on this machine ends with this
process. For example:

    with start(settings, classes) as system:        # a local Ray of its own
        system.coordinator.add_query(…)

Guarantees:
1. When `start` returns, every class is placed and every actor that it needs answers. When it raises, no process or file of the
   system is left.
2. After `stop` of a system that was started on this machine, no process, socket or folder of it is left. `stop` is called by
   `with`, by Ctrl-C and SIGTERM, and when Python exits. If this process is killed, Ray's processes end with it, and the next
   start removes what is left in shared memory. A system on a cluster continues until `stop` or `end`.
3. Systems on one machine share nothing but processors; pin the threads of only one system.
"""

from __future__ import annotations

import atexit
import os
import secrets
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray

from actors.coordinator import coordinator_actor
from actors.coordinator.coordinator_status import CoordinatorStatus
from actors.coordinator.settings import CoordinatorSettings
from actors.dispatcher.turn_loop import TurnStatus
from actors.gateway.endpoint import EndpointSettings
from actors.runtime import kv_store
from actors.runtime.cluster import all_names, kill
from actors.runtime.cpu_pinning import Cores, cores_of_process, keep_process_off, lane_cores
from actors.runtime.names import (
    COORDINATOR,
    SETTINGS_KEY,
    SYSTEM_KEY,
    dispatcher_name,
    find,
    gateway_name,
    host_name,
)
from actors.runtime.ray_process import (
    POLL_S,
    START_ONE,
    STOP_S,
    Undo,
    check_answers,
    init_ray,
    is_local,
    ray_runs,
    start_ray,
    wait_answers,
    while_ray_runs,
)
from actors.runtime.run_dirs import Cluster, RunDirs, remove_dead, remove_dead_temporary, shared_memory
from configs.classes.live_class import LiveClass, LiveSettings
from configs.errors import Away, InvalidInput, UnknownName
from scheduler.capacity.core import ShareMove

# Seconds to wait for all actors. A start takes some seconds, or up to a minute on a busy machine.
READY_S = 120.0
# Maximum number of characters of the last failure in an error message.
WHY_SHOWN = 600
# Seconds in which calls of a missing actor are repeated; Ray restarts a killed actor within some seconds.
BACK_S = 20.0
# Environment variable that Ray sets when it starts a cluster that checks authentication tokens.
AUTH_MODE = "RAY_AUTH_MODE"


@dataclass
class System:
    """A running system, as seen by the process that started or found it."""

    name: str
    undo: Undo = field(default_factory=list)
    """Functions that `stop` calls, last first; for a system that was found, only to disconnect from Ray."""

    @property
    def address(self) -> str:
        """Return the address at which other processes attach."""
        return str(ray.get_runtime_context().gcs_address)

    @property
    def auth_mode(self) -> str | None:
        """Return the value of RAY_AUTH_MODE that other processes need to attach; None if it is not set."""
        return os.environ.get(AUTH_MODE)

    @property
    def coordinator(self) -> Any:
        """Return the handle of the coordinator; it stays valid when Ray restarts the coordinator."""
        return find(COORDINATOR)

    def gateway(self, node: str) -> Any:
        return find(gateway_name(node))

    def dispatcher(self, node: str) -> Any:
        return find(dispatcher_name(node))

    def host(self, host: str) -> Any:
        return find(host_name(host))

    def status(self) -> CoordinatorStatus:
        status: CoordinatorStatus = repeated(self.coordinator.status)
        return status

    def apply(self, classes: Iterable[LiveClass]) -> None:
        repeated(self.coordinator.apply, list(classes))

    def remove_class(self, name: str) -> None:
        repeated(self.coordinator.remove_class, name)

    def declare_stream(self, sql: str) -> None:
        repeated(self.coordinator.declare_stream, sql)

    def drop_stream(self, name: str) -> None:
        repeated(self.coordinator.drop_stream, name)

    def lending(self) -> dict[str, dict[str, float]]:
        """Return the processor-seconds that classes have lent, as a mapping from lender to borrower to seconds."""
        seconds: dict[str, dict[str, float]] = repeated(self.coordinator.lending)
        return seconds

    def share_moves(self) -> list[ShareMove]:
        """Return the last moves of shares on all nodes, oldest first."""
        moves: list[ShareMove] = repeated(self.coordinator.share_moves)
        return moves

    def turns(self, node: str) -> TurnStatus:
        turns: TurnStatus = repeated(self.dispatcher(node).status).turns
        return turns

    def readers(self, node: str) -> dict[str, set[str]]:
        """Return the connected readers of each stream of the node. A new reader does not get rows that arrived earlier."""
        connected = {
            stream["stream"]: {name for name, reader in stream["readers"].items() if reader["connected"]}
            for stream in repeated(self.gateway(node).status)["streams"]
        }
        return {stream: names for stream, names in connected.items() if names}

    def accepted_rows(self, node: str) -> dict[str, int]:
        """Return the number of rows that have arrived at a node, by stream."""
        streams = repeated(self.gateway(node).status)["streams"]
        return {stream["stream"]: stream["accepted_rows"] for stream in streams}

    def door(self, node: str) -> Path:
        """Return the path of the socket at which producers on the node publish input."""
        return RunDirs(shared_memory(), self.name, node).door_socket

    def endpoint(self, node: str) -> str | None:
        """Return the network address of the node for producers and readers elsewhere; None if the node has no endpoint."""
        endpoint: str | None = repeated(self.gateway(node).status)["endpoint"]
        return endpoint

    @property
    def ingest_key(self) -> str:
        """Return the key that permits reading and writing all data at an endpoint; only the machine that started the system has the key."""
        for node in self.status().system.nodes:
            path = RunDirs(shared_memory(), self.name, node).ingest_key
            if path.is_file():
                return path.read_text(encoding="utf-8")
        raise InvalidInput(
            "this machine does not have the key that the gateways of this system require",
            "system",
            self.name,
            "start the system on this machine, and give it an endpoint",
        )

    def has_ended(self) -> bool:
        """Return True if Ray has ended, or the cluster no longer knows the system, or runs another system in its place."""
        return not ray_runs() or bool(kv_store.get(SYSTEM_KEY) != self.name)

    def wait_ready(self) -> None:
        """Wait until all actors have answered; after READY_S seconds, raise Away with the missing actors and the last failure."""
        until = time.monotonic() + READY_S
        while True:
            status = self.status()
            if not status.waited_for:
                return
            if time.monotonic() > until:
                why = (
                    status.failures[-1][-WHY_SHOWN:]
                    if status.failures
                    else "no call has failed; the machine may be busy, so try again"
                )
                raise Away(
                    f"the system did not start: no answer within {READY_S:g} s from {', '.join(status.waited_for)}",
                    hint=why,
                )
            time.sleep(POLL_S)

    def stop(self) -> None:
        """End a system that this process started (in about ten seconds), or disconnect from a system that it found. May be repeated."""
        atexit.unregister(self.stop)
        while self.undo:
            self.undo.pop()()

    def end(self) -> None:
        """End the system on a cluster, even if another process has started it."""
        end_actors()
        forget_name()
        self.stop()

    def __enter__(self) -> System:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


NOT_PINNED = Cores(why_not="pinning is not requested")


def start(
    settings: LiveSettings,
    classes: Iterable[LiveClass],
    *,
    address: str | None = None,
    data_folder: Path | None = None,
    pinned: bool = True,
    endpoint: EndpointSettings | None = None,
    home: Path | None = None,
    loopback: bool = True,
) -> System:
    """Start a system on the cluster at `address`; without an address, on a local Ray that ends with the system.

    The local Ray listens on 127.0.0.1 only, unless `loopback` is False: then other nodes can join it. With an endpoint, nodes
    can be reached over the network with the key of the system. `home` is the folder of the catalog that the system follows.
    """
    if ray.is_initialized():
        raise InvalidInput(
            "a process that is already connected to Ray cannot start a system",
            "address",
            address,
            "start the system before the process calls `ray.init`, or call `attach` for a system that runs",
        )
    system = System(secrets.token_hex(4))
    if address is None:
        atexit.register(system.stop)
    base = shared_memory()
    try:
        cores = NOT_PINNED
        if address is not None:
            system.undo.append(ray.shutdown)
            init_ray(address, is_local(address))
        else:
            cores = start_local(system, settings.lanes, base, pinned=pinned, loopback=loopback)
        claim(system)
        opened, key = (None, None) if endpoint is None else endpoint.with_new_key()
        coordinator = CoordinatorSettings(
            live=settings,
            base=base,
            system=system.name,
            # On a cluster, this process reserves no processors: the dispatcher of each node chooses the processors of its lanes.
            cores=None if pinned and address is not None else cores,
            data_folder=data_folder,
            endpoint=opened,
        )
        coordinator_actor.start(coordinator)
        system.undo.append(end_actors)
        system.wait_ready()
        system.apply(classes)
        system.wait_ready()
        note_cluster(base, system, home)
        if key is not None:
            note_key(base, system, key)
    except BaseException:
        system.stop()
        raise
    return system


def start_local(system: System, lanes: int, base: Path, *, pinned: bool, loopback: bool) -> Cores:
    """Start a Ray on this machine that ends with the system, and return the processors of its lanes.

    Files of dead systems are removed. The processors of the lanes are reserved before Ray starts, so that Ray's processes do not use them.
    """
    remove_dead(base)
    remove_dead_temporary(Path(tempfile.gettempdir()))
    system.undo.append(lambda: remove_dead(base))
    cores = NOT_PINNED
    if pinned:
        before = cores_of_process()
        cores = keep_process_off(lane_cores(lanes, before))
        if cores.lanes:
            system.undo.append(lambda: keep_process_off(Cores(cores.lanes, tuple(before))))
    start_ray(system.name, lanes, loopback, system.undo)
    return cores


def found_or_started(
    settings: LiveSettings,
    address: str,
    *,
    wait_s: float = 0.0,
    pinned: bool = False,
    endpoint: EndpointSettings | None = None,
    home: Path | None = None,
) -> System:
    """Return the running system of a cluster if it has these settings; otherwise start a new one.

    A system with other settings is ended first, and so is a system with an interrupted start. The system continues when this process
    ends.
    """
    record = {"live": settings.model_dump(mode="json"), "pinned": pinned, "endpoint": repr(endpoint)}
    wait_answers(address, wait_s)
    init_ray(address, is_local(address))
    try:
        name = kv_store.get(SYSTEM_KEY)
        if name is not None:
            if kv_store.get(SETTINGS_KEY) == record:
                return System(name, [ray.shutdown])
            end_actors()
            forget_name()
    except BaseException:
        ray.shutdown()
        raise
    ray.shutdown()
    system = start(settings, [], address=address, pinned=pinned, endpoint=endpoint, home=home)
    try:
        # Settings are stored last, so that an interrupted start leaves no settings.
        kv_store.put(SETTINGS_KEY, record)
    except BaseException:
        system.stop()
        raise
    system.undo = [ray.shutdown]
    return system


def attach(address: str) -> System:
    """Attach to the system of a cluster; the system continues when this process ends."""
    connects = not ray.is_initialized()
    if connects:
        check_answers(address)
        init_ray(address, is_local(address))
    name = kv_store.get(SYSTEM_KEY)
    if name is None:
        if connects:
            ray.shutdown()
        raise UnknownName("no system runs on this cluster", "--address", address, START_ONE)
    return System(name, [ray.shutdown] if connects else [])


def note_cluster(base: Path, system: System, home: Path | None) -> None:
    """Record the cluster in the system's run folder, for commands on this machine."""
    cluster = Cluster(system.address, system.auth_mode, None if home is None else str(home))
    for node in system.status().system.nodes:
        dirs = RunDirs(base, system.name, node)
        if dirs.root.is_dir():
            dirs.note_cluster(cluster)
            return


def note_key(base: Path, system: System, key: str) -> None:
    """Write the system's access key to the run folders of nodes on this machine, for local producers."""
    for node in system.status().system.nodes:
        path = RunDirs(base, system.name, node).ingest_key
        if path.parent.is_dir():
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(file, "w", encoding="utf-8") as writer:
                writer.write(key)


def claim(system: System) -> None:
    """Register the system as the only system of its cluster; raise InvalidInput if another system is registered."""
    other = kv_store.get(SYSTEM_KEY)
    if other is not None:
        raise InvalidInput(
            "this cluster already runs another system, and can run only one",
            "address",
            other,
            "attach to the other system, or stop it first",
        )
    kv_store.put(SYSTEM_KEY, system.name)
    system.undo.append(forget_name)


def forget_name() -> None:
    while_ray_runs(delete_name)


def delete_name() -> None:
    with suppress(Exception):  # If Ray has ended, the store with the registered names has ended too.
        kv_store.delete(SETTINGS_KEY)
        kv_store.delete(SYSTEM_KEY)


def end_actors() -> None:
    """End all actors. An actor that does not end in time is killed, or ends together with Ray."""
    while_ray_runs(ask_to_end)


def ask_to_end() -> None:
    with suppress(Exception):
        ray.get(find(COORDINATOR).stop.remote(), timeout=STOP_S)
    with suppress(Exception):
        kill(all_names())


def repeated(method: Any, *arguments: Any) -> Any:
    """Call an actor and return its answer; repeat the call for up to BACK_S seconds while the actor is being restarted."""
    until = time.monotonic() + BACK_S
    while True:
        try:
            return call(method, *arguments)
        except ray.exceptions.ActorUnavailableError:
            if time.monotonic() > until:
                raise
        time.sleep(POLL_S)


def call(method: Any, *arguments: Any) -> Any:
    """Call an actor and return its answer; raise the error that the actor raised."""
    try:
        return ray.get(method.remote(*arguments), timeout=READY_S)
    except ray.exceptions.RayTaskError as problem:
        raise problem.cause from None
