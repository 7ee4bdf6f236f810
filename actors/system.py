"""A whole system: started on this machine, started on a Ray cluster, or found there.

    with start(settings, classes) as system:        # a local Ray of its own
        system.coordinator.add_query(…)

Guarantees:
1. When `start` returns, every class is placed and every actor that it needs answers. When it raises, nothing is left.
2. After `stop` of a system that was started on this machine there is no process, socket or folder of it any more. It is
   called by `with`, by Ctrl-C and SIGTERM, and at the end of Python. If this process is killed, Ray's processes end with
   it, and what is left in shared memory is removed by the next start. A system on a cluster goes on until `stop` or `end`.
3. Systems on one machine share nothing but the cores: of two, pin one only.
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
from actors.coordinator.settings import CoordinatorSettings, StartHost
from actors.dispatcher.turn_loop import TurnStatus
from actors.gateway.endpoint import EndpointSettings
from actors.host import host_actor
from actors.runtime import kv_store
from actors.runtime.cluster import all_names, kill
from actors.runtime.cpu_pinning import Cores, cores_of_process, keep_process_off, lane_cores
from actors.runtime.names import (
    COORDINATOR,
    dispatcher_name,
    find,
    gateway_name,
    host_name,
    settings_key,
    system_key,
)
from actors.runtime.ray_process import (
    POLL_S,
    START_ONE,
    STOP_S,
    Undo,
    check_answers,
    init_ray,
    is_local,
    join_ray,
    ray_runs,
    start_ray,
    wait_answers,
    while_ray_runs,
)
from actors.runtime.run_dirs import Cluster, RunDirs, remove_dead, remove_dead_temporary, shared_memory
from configs.classes.live_class import LiveClass, LiveSettings
from configs.errors import Away, InvalidInput, UnknownName
from scheduler.capacity.core import ShareMove

# A start takes some seconds, and a minute where the machine does much else.
READY_S = 120.0
WHY_TOLD = 600
# An actor that was killed is back after some seconds.
BACK_S = 20.0
# Ray sets it for all that follows when it starts a cluster of its own that checks tokens.
AUTH_MODE = "RAY_AUTH_MODE"


@dataclass
class System:
    """A running system, as the process sees it that started or found it."""

    name: str
    undo: Undo = field(default_factory=list)
    """What is to be done at the end, last first; of a system that was found, only to let go of it."""

    @property
    def address(self) -> str:
        """Where others attach."""
        return str(ray.get_runtime_context().gcs_address)

    @property
    def auth_mode(self) -> str | None:
        """Value of Ray's environment variable for processes that attach."""
        return os.environ.get(AUTH_MODE)

    @property
    def coordinator(self) -> Any:
        """The handle of the coordinator; it stays good when Ray starts the coordinator anew."""
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
        """lender → borrower → processor-seconds."""
        seconds: dict[str, dict[str, float]] = repeated(self.coordinator.lending)
        return seconds

    def share_moves(self) -> list[ShareMove]:
        """The last moves of shares on all nodes, oldest first."""
        moves: list[ShareMove] = repeated(self.coordinator.share_moves)
        return moves

    def turns(self, node: str) -> TurnStatus:
        turns: TurnStatus = repeated(self.dispatcher(node).status).turns
        return turns

    def readers(self, node: str) -> dict[str, set[str]]:
        """By stream of the node, the units that read it there; what has come before is not for them."""
        streams = repeated(self.gateway(node).status)["streams"]
        connected = {
            stream["stream"]: {name for name, reader in stream["readers"].items() if reader["connected"]}
            for stream in streams
        }
        return {stream: names for stream, names in connected.items() if names}

    def accepted_rows(self, node: str) -> dict[str, int]:
        """What has come in at a node, by stream."""
        streams = repeated(self.gateway(node).status)["streams"]
        return {stream["stream"]: stream["accepted_rows"] for stream in streams}

    def door(self, node: str) -> Path:
        """Where producers on the node bring their input."""
        return RunDirs(shared_memory(), self.name, node).door_socket

    def endpoint(self, node: str) -> str | None:
        """Where producers and readers elsewhere reach the node; None if it was not to be reached."""
        endpoint: str | None = repeated(self.gateway(node).status)["endpoint"]
        return endpoint

    @property
    def ingest_key(self) -> str:
        """Whoever shows it at an endpoint may write and read everything. It is on the machine of the start alone."""
        for node in self.status().system.nodes:
            path = RunDirs(shared_memory(), self.name, node).ingest_key
            if path.is_file():
                return path.read_text(encoding="utf-8")
        raise InvalidInput(
            "there is no key here", "system", self.name, "start it with an endpoint, on this machine"
        )

    def has_ended(self) -> bool:
        """Return True if Ray has ended, or the cluster no longer knows the system or runs another one in its place."""
        return not ray_runs() or bool(kv_store.get(system_key()) != self.name)

    def wait_ready(self) -> None:
        """Until all actors have answered; Away names those that have not, and what was the last of their problems."""
        until = time.monotonic() + READY_S
        while True:
            status = self.status()
            if not status.waited_for:
                return
            if time.monotonic() > until:
                why = (
                    status.failures[-1][-WHY_TOLD:]
                    if status.failures
                    else "nothing has failed; the machine is busy"
                )
                raise Away(f"not ready after {READY_S:g} s: {', '.join(status.waited_for)}", hint=why)
            time.sleep(POLL_S)

    def stop(self) -> None:
        """End the system that this process has started, within some ten seconds; let go of one it has found. Idempotent."""
        atexit.unregister(self.stop)
        while self.undo:
            self.undo.pop()()

    def end(self) -> None:
        """End the system on a cluster, whoever has started it."""
        end_actors()
        forget_name()
        self.stop()

    def __enter__(self) -> System:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(
    settings: LiveSettings,
    classes: Iterable[LiveClass],
    *,
    address: str | None = None,
    data_folder: Path | None = None,
    pinned: bool = True,
    start_host: StartHost = host_actor.start,
    endpoint: EndpointSettings | None = None,
    home: Path | None = None,
    loopback: bool = True,
) -> System:
    """On a cluster if an address is given, else on a local Ray that ends with the system.

    The local Ray listens on 127.0.0.1 alone, unless `loopback` is False: then other nodes can join it. With an endpoint its nodes
    are reached over the network, with the key of the system. `home` is the folder of the catalog that the system follows.
    """
    if ray.is_initialized():
        raise InvalidInput(
            "this process uses Ray already", "address", address, "start the system before, or attach to it"
        )
    system = System(secrets.token_hex(4))
    if address is None:
        atexit.register(system.stop)
    base = shared_memory()
    try:
        cores = Cores(why_not="not asked for")
        if address is not None:
            join_ray(address, system.undo)
        else:
            remove_dead(base)
            remove_dead_temporary(Path(tempfile.gettempdir()))
            system.undo.append(lambda: remove_dead(base))
            cores = reserved(system, settings.lanes) if pinned else cores
            start_ray(system.name, settings.lanes, loopback, system.undo)
        claim(system)
        opened, key = (None, None) if endpoint is None else endpoint.with_new_key()
        coordinator = CoordinatorSettings(
            live=settings,
            start_host=start_host,
            base=base,
            system=system.name,
            # Processors of a machine that others use, too, are not ours to choose.
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


def found_or_started(
    settings: LiveSettings,
    address: str,
    *,
    wait_s: float = 0.0,
    pinned: bool = False,
    endpoint: EndpointSettings | None = None,
    home: Path | None = None,
) -> System:
    """The system of a cluster, which goes on when this process ends: the one that is there, if it is set so; else a new one.

    One with other settings is ended first, and so is one whose start was broken off.
    """
    record = {"live": settings.model_dump(mode="json"), "pinned": pinned, "endpoint": repr(endpoint)}
    wait_answers(address, wait_s)
    init_ray(address, is_local(address))
    try:
        name = kv_store.get(system_key())
        if name is not None:
            if kv_store.get(settings_key()) == record:
                return System(name, [ray.shutdown])
            end_actors()
            forget_name()
    except BaseException:
        ray.shutdown()
        raise
    ray.shutdown()
    system = start(settings, [], address=address, pinned=pinned, endpoint=endpoint, home=home)
    try:
        # Last: a start that was broken off has none.
        kv_store.put(settings_key(), record)
    except BaseException:
        system.stop()
        raise
    system.undo = [ray.shutdown]
    return system


def attach(address: str) -> System:
    """Attach to the system of a cluster; it continues when this process ends."""
    connects = not ray.is_initialized()
    if connects:
        check_answers(address)
        init_ray(address, is_local(address))
    name = kv_store.get(system_key())
    if name is None:
        if connects:
            ray.shutdown()
        raise UnknownName("no system runs there", "--address", address, START_ONE)
    return System(name, [ray.shutdown] if connects else [])


# -- the beginning ---------------------------------------------------------------------------------------------


def reserved(system: System, lanes: int) -> Cores:
    """This process, and so all it starts, off the cores that are lanes."""
    before = cores_of_process()
    cores = keep_process_off(lane_cores(lanes, before))
    if cores.lanes:
        system.undo.append(lambda: keep_process_off(Cores(cores.lanes, tuple(before))))
    return cores


def note_cluster(base: Path, system: System, home: Path | None) -> None:
    """Record the cluster in the system's run folder, for commands on this machine."""
    cluster = Cluster(system.address, system.auth_mode, None if home is None else str(home))
    for node in system.status().system.nodes:
        dirs = RunDirs(base, system.name, node)
        if dirs.root.is_dir():
            dirs.note_cluster(cluster)
            return


def note_key(base: Path, system: System, key: str) -> None:
    """For those on this machine who bring input, beside where it is brought."""
    for node in system.status().system.nodes:
        path = RunDirs(base, system.name, node).ingest_key
        if path.parent.is_dir():
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(file, "w", encoding="utf-8") as writer:
                writer.write(key)


def claim(system: System) -> None:
    """One system a cluster."""
    other = kv_store.get(system_key())
    if other is not None:
        raise InvalidInput("a system runs there already", "address", other, "attach to it, or stop it first")
    kv_store.put(system_key(), system.name)
    system.undo.append(forget_name)


def forget_name() -> None:
    while_ray_runs(delete_name)


def delete_name() -> None:
    with suppress(Exception):  # Ray has gone, and the name with it
        kv_store.delete(settings_key())
        kv_store.delete(system_key())


# -- the end ---------------------------------------------------------------------------------------------------


def end_actors() -> None:
    """What does not end in time ends with Ray, or is killed where Ray goes on."""
    while_ray_runs(ask_to_end)


def ask_to_end() -> None:
    with suppress(Exception):
        ray.get(find(COORDINATOR).stop.remote(), timeout=STOP_S)
    with suppress(Exception):
        kill(all_names())


def repeated(method: Any, *arguments: Any) -> Any:
    """The same of a call that may be repeated, also of an actor that is about to come back."""
    until = time.monotonic() + BACK_S
    while True:
        try:
            return call(method, *arguments)
        except ray.exceptions.ActorUnavailableError:
            if time.monotonic() > until:
                raise
        time.sleep(POLL_S)


def call(method: Any, *arguments: Any) -> Any:
    """The answer of an actor, or the mistake it has found in what it was given."""
    try:
        return ray.get(method.remote(*arguments), timeout=READY_S)
    except ray.exceptions.RayTaskError as problem:
        raise problem.cause from None
