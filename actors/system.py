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
import fcntl
import logging
import math
import os
import re
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ray
from ray._private import ray_constants
from ray._private import worker as ray_worker

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
    NAMESPACE,
    dispatcher_name,
    find,
    gateway_name,
    host_name,
    settings_key,
    system_key,
)
from actors.runtime.run_dirs import (
    LOCK,
    TEMPORARY,
    Cluster,
    RunDirs,
    clusters,
    kill_users,
    remove_dead,
    remove_dead_temporary,
    shared_memory,
)
from configs.classes.live_class import LiveClass, LiveSettings
from configs.errors import Away, InvalidInput, UnknownName
from scheduler.capacity.core import ShareMove

LOG = logging.getLogger(__name__)
# What Ray does beside calls, in environment variables. The first ones are for people who watch Ray itself, and pauses between
# looks at what does not change here: with these, and without the watchers that nobody asks (`end_watchers`), Ray's own processes
# take 0.4% of a core while nothing happens instead of 1.9%. What actors take is mostly a wake-up of each one's main thread every
# 10 ms, which Ray has no setting for (`actors.runtime.idle_throttle`).
RAY_SETTINGS: Mapping[str, str] = {
    "RAY_task_events_report_interval_ms": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_event_stats": "0",
    "RAY_metrics_report_interval_ms": "60000",
    "REPORTER_UPDATE_INTERVAL_MS": "60000",
    "METRICS_RECORD_INTERVAL_S": "60",
    "SCAN_EVENT_DIR_INTERVAL_SECONDS": "60",
    "RAY_DASHBOARD_STATS_UPDATING_INTERVAL": "60",
    "RAY_raylet_report_resources_period_milliseconds": "5000",
    "RAY_gcs_pull_resource_loads_period_milliseconds": "10000",
    "RAY_ray_syncer_message_refresh_interval_ms": "10000",
    "RAY_report_worker_backlog_interval_ms": "10000",
    "RAY_raylet_check_gc_period_milliseconds": "2000",
    "RAY_kill_idle_workers_interval_ms": "5000",
    "RAY_object_manager_timer_freq_ms": "1000",
    # Memory does not run out within two seconds that does not within a quarter of one.
    "RAY_memory_monitor_refresh_ms": "2000",
    "RAY_local_fs_monitor_interval_ms": "10000",
    # Each actor is a process, which takes most of a second to begin; Ray starts as many at a time as it has processors.
    "RAY_worker_maximum_startup_concurrency": "4",
    # Ray would run its workers at niceness 15; hosts are not to give way to those who send them input.
    "RAY_worker_niceness": "0",
    # Under `uv run` Ray would upload the folder and install the environment anew for each actor.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}
# Batches between gateways are the largest objects, and short-lived; Ray's least is 75 MB.
OBJECT_STORE_BYTES = 128 << 20
# A start takes some seconds, and a minute where the machine does much else.
READY_S = 120.0
POLL_S = 0.02
WHY_TOLD = 600
STOP_S = 10.0
# To remove the folder of Ray's files, in which its last processes still write.
REMOVED_S = 5.0
REMOVE_AGAIN_S = 0.05
STAYS_AWAY_S = 0.3
# An actor that was killed is back after some seconds.
BACK_S = 20.0
ANSWERS_S = 3.0
ASK_AGAIN_S = 0.5
NO_CLUSTER = "no Ray cluster answers there"
START_ONE = "start a system with `weir up`"
LOCAL, LOOPBACK = "local", "127.0.0.1"
# Ray sets it for all that follows when it starts a cluster of its own that checks tokens.
AUTH_MODE = "RAY_AUTH_MODE"


@dataclass
class System:
    """A running system, as the process sees it that started or found it."""

    name: str
    _undo: list[Callable[[], object]] = field(default_factory=list)
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
        found: CoordinatorStatus = repeated(self.coordinator.status)
        return found

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
        found: dict[str, dict[str, float]] = repeated(self.coordinator.lending)
        return found

    def share_moves(self) -> list[ShareMove]:
        """The last moves of shares on all nodes, oldest first."""
        found: list[ShareMove] = repeated(self.coordinator.share_moves)
        return found

    def turns(self, node: str) -> TurnStatus:
        found: TurnStatus = repeated(self.dispatcher(node).status).turns
        return found

    def readers(self, node: str) -> dict[str, set[str]]:
        """By stream of the node, the units that read it there; what has come before is not for them."""
        streams = repeated(self.gateway(node).status)["streams"]
        found = {
            one["stream"]: {name for name, reader in one["readers"].items() if reader["connected"]}
            for one in streams
        }
        return {stream: names for stream, names in found.items() if names}

    def accepted_rows(self, node: str) -> dict[str, int]:
        """What has come in at a node, by stream."""
        return {one["stream"]: one["accepted_rows"] for one in repeated(self.gateway(node).status)["streams"]}

    def door(self, node: str) -> Path:
        """Where producers on the node bring their input."""
        return RunDirs(shared_memory(), self.name, node).door_socket

    def endpoint(self, node: str) -> str | None:
        """Where producers and readers elsewhere reach the node; None if it was not to be reached."""
        found: str | None = repeated(self.gateway(node).status)["endpoint"]
        return found

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
            found = self.status()
            if not found.waited_for:
                return
            if time.monotonic() > until:
                why = (
                    found.failures[-1][-WHY_TOLD:]
                    if found.failures
                    else "nothing has failed; the machine is busy"
                )
                raise Away(f"not ready after {READY_S:g} s: {', '.join(found.waited_for)}", hint=why)
            time.sleep(POLL_S)

    def stop(self) -> None:
        """End the system that this process has started, within some ten seconds; let go of one it has found. Idempotent."""
        atexit.unregister(self.stop)
        while self._undo:
            self._undo.pop()()

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

    The local Ray listens on 127.0.0.1 alone, unless `loopback` is False: then other nodes can join it. With an endpoint its nodes are reached over the network, with the key of the system. `home` is the folder of the catalog that
    the system follows.
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
        cores = None
        if address is None:
            remove_dead(base)
            remove_dead_temporary(Path(tempfile.gettempdir()))
            system._undo.append(lambda: remove_dead(base))
            cores = reserved(system, settings.lanes) if pinned else Cores(why_not="not asked for")
            start_ray(system, settings.lanes, loopback)
        else:
            join_ray(system, address)
            # Processors of a machine that others use, too, are not ours to choose.
            cores = None if pinned else Cores(why_not="not asked for")
        claim(system)
        given = CoordinatorSettings(
            live=settings,
            start_host=start_host,
            base=base,
            system=system.name,
            cores=cores,
            data_folder=data_folder,
        )
        key = None
        if endpoint is not None:
            opened, key = endpoint.with_new_key()
            given = replace(given, endpoint=opened)
        coordinator_actor.start(given)
        system._undo.append(end_actors)
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
    wanted = {"live": settings.model_dump(mode="json"), "pinned": pinned, "endpoint": repr(endpoint)}
    wait_answers(address, wait_s)
    init_ray(address, is_local(address))
    try:
        name = kv_store.get(system_key())
        if name is not None:
            if kv_store.get(settings_key()) == wanted:
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
        kv_store.put(settings_key(), wanted)
    except BaseException:
        system.stop()
        raise
    system._undo = [ray.shutdown]
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


def check_answers(address: str) -> None:
    """Ray would try for a minute to reach a cluster that is not there."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "/" not in host:
        try:
            socket.create_connection((host, int(port)), ANSWERS_S).close()
        except OSError:
            raise InvalidInput(NO_CLUSTER, "--address", address, START_ONE) from None


def wait_answers(address: str, wait_s: float) -> None:
    """The last refusal of `check_answers` if none else comes in time."""
    until = time.monotonic() + wait_s
    while True:
        try:
            return check_answers(address)
        except InvalidInput:
            if time.monotonic() >= until:
                raise
        time.sleep(ASK_AGAIN_S)


# -- the beginning ---------------------------------------------------------------------------------------------


def reserved(system: System, lanes: int) -> Cores:
    """This process, and so all it starts, off the cores that are lanes."""
    before = cores_of_process()
    cores = keep_process_off(lane_cores(lanes, before))
    if cores.lanes:
        system._undo.append(lambda: keep_process_off(Cores(cores.lanes, tuple(before))))
    return cores


def start_ray(system: System, lanes: int, loopback: bool) -> None:
    """A Ray of this process's own; its files go with it."""
    given = {name: value for name, value in RAY_SETTINGS.items() if name not in os.environ}
    os.environ.update(given)
    system._undo.append(lambda: [os.environ.pop(name, None) for name in given])
    # Sockets are in there, whose paths must be short.
    folder = tempfile.mkdtemp(prefix=f"{TEMPORARY}{system.name}-")
    system._undo.append(lambda: remove_folder(Path(folder)))
    hold_temporary(system, Path(folder))
    system._undo.append(restored_signal(signal.SIGTERM))
    # Before Ray is there: one that failed halfway has processes, too.
    system._undo.append(lambda: end_ray(Path(folder)))
    init_ray(
        LOCAL,
        loopback,
        # Actors take no processors of Ray's; it starts a worker for each beforehand.
        num_cpus=lanes,
        object_store_memory=OBJECT_STORE_BYTES,
        include_dashboard=False,
        _temp_dir=folder,
    )
    end_watchers()
    # Ray's own handler kills its processes at once, under those who are to stop in order.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda number, _: end_in_order(Path(folder), 128 + number))


def remove_folder(folder: Path) -> None:
    """Remove a folder that Ray's last threads and processes may make again, until it stays away; give up after REMOVED_S."""
    until = time.monotonic() + REMOVED_S
    gone_at = math.inf
    while (now := time.monotonic()) < until and now - gone_at < STAYS_AWAY_S:
        if folder.exists():
            shutil.rmtree(folder, ignore_errors=True)
            gone_at = math.inf
        elif gone_at == math.inf:
            gone_at = now
        time.sleep(REMOVE_AGAIN_S)


def hold_temporary(system: System, folder: Path) -> None:
    """Mark the folder of Ray's files as in use until this process ends, however that happens."""
    file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    system._undo.append(lambda: os.close(file))


def end_watchers() -> None:
    """Those of Ray's processes that only watch: `ray.init` starts them always, where `ray start` could be told not to. Logs are
    not brought to this process, nodes do not come and go, and there is no dashboard."""
    node = own_node()
    for kind in ("log_monitor", "monitor", "dashboard"):
        if (end := getattr(node, f"kill_{kind}", None)) is not None:
            end(check_alive=False)


def restored_signal(number: int) -> Callable[[], object]:
    before = signal.getsignal(number)
    in_main = threading.current_thread() is threading.main_thread()
    return lambda: signal.signal(number, before) if in_main else None


def join_ray(system: System, address: str) -> None:
    system._undo.append(ray.shutdown)
    init_ray(address, is_local(address))


ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Beginning of Ray's message about an actor's process that was killed; the coordinator reports that itself.
WORKER_DIED = "A worker died or was killed"


def log_ray_message(data: Mapping[str, Any], ignore_prefix: bool = False) -> None:
    """Log a message of Ray's in one line without colours. Ray itself prints several lines with codes for a terminal."""
    text = " ".join(ANSI.sub("", " ".join(data["lines"])).split())
    LOG.log(logging.DEBUG if WORKER_DIED in text else logging.WARNING, "Ray: %s", text)


def init_ray(address: str, loopback: bool, **settings: Any) -> None:
    # Ray tells everybody, always, that it checks tokens.
    logging.getLogger("ray._private.authentication").setLevel(logging.ERROR)
    # Ray has a handler of its own for SIGTERM; who has begun has one that ends things in order.
    restore = restored_signal(signal.SIGTERM)
    # With log_to_driver=False only the thread that listens for errors calls it.
    ray_worker.print_to_stdstream = log_ray_message
    with loopback_alone() if loopback else nullcontext():
        try:
            ray.init(address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False, **settings)
        except (ConnectionError, ValueError):
            if address == LOCAL:
                raise
            raise InvalidInput(NO_CLUSTER, "--address", address, START_ONE) from None
    restore()


def is_local(address: str) -> bool:
    """Return True for a Ray that `start` has started on this machine, and that listens on loopback alone."""
    here = (cluster.address for cluster in clusters(shared_memory()).values())
    return address.startswith(f"{LOOPBACK}:") and address in here


@contextmanager
def loopback_alone() -> Iterator[None]:
    """Let Ray name this machine 127.0.0.1, so that each of its processes listens there and nowhere else.

    Ray replaces that address by an outer one wherever it is given, also in `_node_ip_address`, unless it takes the machine
    for one that joins no cluster. The constant is Ray's switch for that; its environment variable
    (RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER) is read only when Ray is imported.
    """
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


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
    system._undo.append(forget_name)


def forget_name() -> None:
    while_ray_runs(delete_name)


def delete_name() -> None:
    with suppress(Exception):  # Ray has gone, and the name with it
        kv_store.delete(settings_key())
        kv_store.delete(system_key())


# -- the end ---------------------------------------------------------------------------------------------------


def end_in_order(folder: Path, code: int) -> None:
    """Let the process end, in order unless Ray has got the same signal and ends first."""
    threading.Thread(target=end_after_ray, args=(folder, code), name="end-after-ray", daemon=True).start()
    sys.exit(code)


def end_after_ray(folder: Path, code: int) -> None:
    """End this process at once if it is still there STOP_S after its Ray has ended.

    Threads wait in calls of Ray then, which last a minute; after that Ray ends the process, and leaves processes and files.
    """
    while ray_runs():
        time.sleep(POLL_S)
    time.sleep(STOP_S)
    if (node := own_node()) is not None:
        end_rest(node, folder)
        remove_folder(folder)
        remove_dead(shared_memory())
        os._exit(code)


def own_node() -> Any:
    """Return Ray's object for the processes that this one has started, or None."""
    return getattr(ray._private.worker, "_global_node", None)


def end_rest(node: Any, folder: Path) -> None:
    """Kill what has outlived Ray's head: its other processes and actors, whose files are in the folder."""
    node.kill_all_processes(check_alive=False, allow_graceful=False)
    kill_users(folder)


def ray_runs() -> bool:
    """Return False once the Ray that this process has started lacks its head or its node manager."""
    node = own_node()
    return node is None or bool(node.remaining_processes_alive())


def end_ray(folder: Path) -> None:
    """End the Ray that this process has started; `folder` has its files."""
    if ray_runs():
        ray.shutdown()
        return
    node = own_node()
    threading.Thread(target=ray.shutdown, name="ray-shutdown", daemon=True).start()
    end_rest(node, folder)


def end_actors() -> None:
    """What does not end in time ends with Ray, or is killed where Ray goes on."""
    while_ray_runs(ask_to_end)


def ask_to_end() -> None:
    with suppress(Exception):
        ray.get(find(COORDINATOR).stop.remote(), timeout=STOP_S)
    with suppress(Exception):
        kill(all_names())


def while_ray_runs(work: Callable[[], None]) -> None:
    """Do work that calls Ray; leave it as soon as Ray has ended.

    A supervisor may send SIGTERM to all processes at once. A call of a head that is gone lasts a minute, after which Ray ends this
    process.
    """
    working = threading.Thread(target=work, name="ray-calls", daemon=True)
    working.start()
    while working.is_alive() and ray_runs():
        working.join(POLL_S)


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
