"""Start of a local Ray for this process, or connection to the Ray of a cluster.

Functions add their clean-up actions to the list `undo`, which the caller runs in reverse order. The processes end in order even
if all of them receive SIGTERM at once.
"""

from __future__ import annotations

import fcntl
import logging
import math
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import ray
from ray._private import ray_constants
from ray._private import worker as ray_worker

from actors.runtime.names import NAMESPACE
from actors.runtime.run_dirs import (
    LOCK,
    TEMPORARY,
    clusters,
    kill_users,
    remove_dead,
    shared_memory,
)
from configs.errors import InvalidInput

LOG = logging.getLogger(__name__)
# Environment variables that switch off Ray's monitoring, and make Ray poll less often.
# With these variables and without Ray's monitoring processes (`end_watchers`), an idle Ray uses 0.4% of a processor, not 1.9%.
# Ray wakes each idle actor every 10 ms and has no setting for that; `actors.runtime.idle_throttle` reduces the cost.
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
    # Milliseconds between two checks of free memory, 250 by default: memory rarely runs out within 2 s.
    "RAY_memory_monitor_refresh_ms": "2000",
    "RAY_local_fs_monitor_interval_ms": "10000",
    # Number of actors' processes started at the same time (default: the number of processors); each takes nearly a second.
    "RAY_worker_maximum_startup_concurrency": "4",
    # Niceness of actors' processes. With Ray's default of 15, hosts would yield to the processes that send them input.
    "RAY_worker_niceness": "0",
    # Under `uv run`, Ray by default uploads the folder and installs the environment again for each actor.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}
# Size of Ray's object store. The largest objects are short-lived batches between gateways; Ray's minimum is 75 MB.
OBJECT_STORE_BYTES = 128 << 20
POLL_S = 0.02
STOP_S = 10.0
# Seconds for removing the folder of Ray's files, into which its last processes may still write.
REMOVED_S = 5.0
REMOVE_AGAIN_S = 0.05
STAYS_AWAY_S = 0.3
ANSWERS_S = 3.0
ASK_AGAIN_S = 0.5
NO_CLUSTER = "no Ray cluster answers at this address"
START_ONE = "start a system with `weir up`"
LOCAL, LOOPBACK = "local", "127.0.0.1"
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Beginning of Ray's message about a killed process. Weir logs this message only at level DEBUG, because the coordinator reports the loss.
WORKER_DIED = "A worker died or was killed"

Undo = list[Callable[[], object]]


def check_answers(address: str) -> None:
    """Raise InvalidInput if nothing answers at the address, which Ray itself would try to reach for a minute."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "/" not in host:
        try:
            socket.create_connection((host, int(port)), ANSWERS_S).close()
        except OSError:
            raise InvalidInput(NO_CLUSTER, "--address", address, START_ONE) from None


def wait_answers(address: str, wait_s: float) -> None:
    """Repeat `check_answers` until it succeeds; after `wait_s`, raise its error."""
    until = time.monotonic() + wait_s
    while True:
        try:
            return check_answers(address)
        except InvalidInput:
            if time.monotonic() >= until:
                raise
        time.sleep(ASK_AGAIN_S)


def start_ray(name: str, lanes: int, loopback: bool, undo: Undo) -> None:
    """Start a Ray for this process alone. When this process ends, Ray ends too, and Ray's files are removed."""
    settings = {variable: value for variable, value in RAY_SETTINGS.items() if variable not in os.environ}
    os.environ.update(settings)
    undo.append(lambda: [os.environ.pop(variable, None) for variable in settings])
    # The folder contains sockets, and the paths of sockets have a limited length.
    folder = tempfile.mkdtemp(prefix=f"{TEMPORARY}{name}-")
    undo.append(lambda: remove_folder(Path(folder)))
    # The lock marks the folder as in use until this process ends, however that happens.
    file = os.open(Path(folder) / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    undo.append(lambda: os.close(file))
    undo.append(restored_signal(signal.SIGTERM))
    # The clean-up is added before Ray starts, because a start that fails halfway also leaves processes.
    undo.append(lambda: end_ray(Path(folder)))
    init_ray(
        LOCAL,
        loopback,
        # Weir's actors request no processors; Ray starts as many workers in advance as `num_cpus` says.
        num_cpus=lanes,
        object_store_memory=OBJECT_STORE_BYTES,
        include_dashboard=False,
        _temp_dir=folder,
    )
    end_watchers()
    # Ray's own signal handler would kill Ray's processes at once, before the actors have stopped in order.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda number, _: end_in_order(Path(folder), 128 + number))


def remove_folder(folder: Path) -> None:
    """Remove a folder repeatedly until Ray's last processes do not recreate it; give up after REMOVED_S."""
    until = time.monotonic() + REMOVED_S
    gone_at = math.inf
    while (now := time.monotonic()) < until and now - gone_at < STAYS_AWAY_S:
        if folder.exists():
            shutil.rmtree(folder, ignore_errors=True)
            gone_at = math.inf
        elif gone_at == math.inf:
            gone_at = now
        time.sleep(REMOVE_AGAIN_S)


def end_watchers() -> None:
    """End Ray's monitoring processes, which `ray.init` always starts.

    These processes are not needed here: logs are not forwarded to this process, the set of nodes is fixed, and there is no dashboard.
    """
    node = own_node()
    for kind in ("log_monitor", "monitor", "dashboard"):
        if (end := getattr(node, f"kill_{kind}", None)) is not None:
            end(check_alive=False)


def restored_signal(number: int) -> Callable[[], object]:
    before = signal.getsignal(number)
    in_main = threading.current_thread() is threading.main_thread()
    return lambda: signal.signal(number, before) if in_main else None


def log_ray_message(data: Mapping[str, Any], ignore_prefix: bool = False) -> None:
    """Log a message of Ray's in one line without colours. Ray itself prints several lines with codes for a terminal."""
    text = " ".join(ANSI.sub("", " ".join(data["lines"])).split())
    LOG.log(logging.DEBUG if WORKER_DIED in text else logging.WARNING, "Ray: %s", text)


def init_ray(address: str, loopback: bool, **settings: Any) -> None:
    # Suppress the message, printed at each start, that Ray checks authentication tokens.
    logging.getLogger("ray._private.authentication").setLevel(logging.ERROR)
    # Ray installs a SIGTERM handler that does not stop Weir in order, so Weir's own handler is restored after `ray.init`.
    restore = restored_signal(signal.SIGTERM)
    # With log_to_driver=False, only Ray's thread that listens for errors calls `log_ray_message`.
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
    """Return True for the address of a Ray that was started on this machine and listens only on loopback."""
    here = (cluster.address for cluster in clusters(shared_memory()).values())
    return address.startswith(f"{LOOPBACK}:") and address in here


@contextmanager
def loopback_alone() -> Iterator[None]:
    """Make Ray use the address 127.0.0.1 for this machine, so that its processes listen only on loopback.

    Ray replaces a given loopback address by an external one, even in `_node_ip_address`, unless its constant
    ENABLE_RAY_CLUSTER is False. The corresponding environment variable (RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER) is read only when Ray
    is imported.
    """
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def end_in_order(folder: Path, code: int) -> None:
    """End the process in order; if Ray received the same signal and ends first, `end_after_ray` ends the process."""
    threading.Thread(target=end_after_ray, args=(folder, code), name="end-after-ray", daemon=True).start()
    sys.exit(code)


def end_after_ray(folder: Path, code: int) -> None:
    """End this process if it still runs STOP_S after its Ray has ended.

    Threads of this process would otherwise wait for a minute in Ray calls. Then Ray would end the process, and leave processes and files.
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
    """Return Ray's object for the processes that this process has started, or None."""
    return getattr(ray._private.worker, "_global_node", None)


def end_rest(node: Any, folder: Path) -> None:
    """Kill the processes and actors that remain after Ray's head has ended; `folder` has their files."""
    node.kill_all_processes(check_alive=False, allow_graceful=False)
    kill_users(folder)


def ray_runs() -> bool:
    """Return False once the head or the node manager of this process's Ray has ended."""
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


def while_ray_runs(work: Callable[[], None]) -> None:
    """Run `work`, which calls Ray, and return when it is done or as soon as Ray has ended.

    A supervisor may send SIGTERM to all processes at once. A call to a head that has ended blocks for a minute, and then Ray ends
    this process.
    """
    working = threading.Thread(target=work, name="ray-calls", daemon=True)
    working.start()
    while working.is_alive() and ray_runs():
        working.join(POLL_S)
