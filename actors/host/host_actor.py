"""A class host as a Ray actor: a process around `actors.host.host.Host`.

Guarantees:
1. A host runs its units as soon as it is constructed. It finds the units in Ray's key-value store, so that Ray can restart the host
   after a crash without other help. If a thread of the host fails, the thread ends the process, so that Ray restarts the host too.
2. When a call returns, its work is done. Every call may be repeated. `set_units` names all units that the host should run.
3. `ping` and `status` answer while other calls are running. Reports to the coordinator are sent without waiting.
"""

from __future__ import annotations

import os
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ray

from actors.host.host import Host, HostStatus, prepare_process
from actors.host.tuning_sample import UnitNow
from actors.host.unit_load import Record, not_recorded
from actors.messages.unit_messages import Account, Explanations, Unit, UnitReport, units_from_json
from actors.runtime import kv_store
from actors.runtime.cluster import start_actor
from actors.runtime.cpu_pinning import Cores, keep_process_off
from actors.runtime.event_log import LogWriter
from actors.runtime.idle_throttle import Rest
from actors.runtime.names import COORDINATOR, find, host_key, host_name
from actors.runtime.run_dirs import RunDirs
from configs.classes.live_class import LiveSettings
from engine.class_.explain import PlanLine
from engine.network.one_time import OneTimeAnswer
from loadshed.manager import LoadManager

# Maximum number of reports that wait while the coordinator cannot be found; older reports are useless.
REPORTS_MAX = 4
CALLS = 8


class Reporter:
    """Sender of reports to the coordinator, with its own thread: a call through Ray takes longer than a class thread can spare."""

    def __init__(self, coordinator: Callable[[], Any]) -> None:
        self._coordinator = coordinator
        self._waiting: deque[tuple[str, Sequence[UnitReport]]] = deque(maxlen=REPORTS_MAX)
        self._news = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="reports", daemon=True)
        self._thread.start()

    def report(self, host: str, reports: Sequence[UnitReport]) -> None:
        self._waiting.append((host, reports))
        self._news.set()

    def stop(self) -> None:
        self._stopping = True
        self._news.set()

    def _run(self) -> None:
        handle: Any = None
        sent: Any = None
        while True:
            self._news.wait()
            self._news.clear()
            if self._stopping:
                return
            try:
                while self._waiting:
                    if sent is not None and failed(sent):
                        handle = None
                    handle = handle or self._coordinator()
                    sent = handle.report.remote(*self._waiting.popleft())
            except Exception:
                # While the coordinator is away, reports are lost; a new coordinator receives the reports of the next load cycle.
                handle = sent = None


def failed(sent: Any) -> bool:
    """Return True if a call has failed already, and False if it has succeeded or is still running."""
    done, _ = ray.wait([sent], timeout=0)
    if not done:
        return False
    try:
        ray.get(done[0])
    except ray.exceptions.RayError:
        return True
    return False


class ClassHost:
    """Ray actor made by `start`. The constructor starts the threads, since Ray calls nothing else after a crash."""

    def __init__(
        self,
        host: str,
        dirs: RunDirs,
        settings: LiveSettings,
        cores: Cores | None,
        events: Path | None,
    ) -> None:
        self._name = host
        self._held = dirs.hold(), dirs.hold_node()
        self._reporter = Reporter(lambda: find(COORDINATOR))
        self._events = None if events is None else LogWriter(events)
        cores = None if cores is None else keep_process_off(cores)
        record = not_recorded if self._events is None else self._opened
        self._host = Host(
            name=host,
            dirs=dirs,
            settings=settings,
            report=self._reporter.report,
            failed=end_process,
            open_record=record,
            cores=cores,
            awoke=lambda: rest.end(),
        )
        rest = Rest(lambda: self._host.is_asleep)
        prepare_process()
        found = kv_store.get(host_key(host))
        self._host.start([] if found is None else units_from_json(found))

    def _opened(self, manager: LoadManager) -> Record:
        assert self._events is not None
        return self._events.open("load", manager.name, manager).record

    @ray.method(concurrency_group="health")
    def ping(self) -> int:
        """Return the id of the actor's process."""
        return os.getpid()

    @ray.method(concurrency_group="health")
    def status(self) -> HostStatus:
        return self._host.status()

    @ray.method(concurrency_group="control")
    def set_units(self, units: Sequence[Unit]) -> None:
        self._host.set_units(units)

    @ray.method(concurrency_group="control")
    def scale_headroom(self, unit: str, factor: float, share: float, original: float) -> None:
        self._host.scale_headroom(unit, factor, share, original)

    @ray.method(concurrency_group="control")
    def set_keep(self, unit: str, keep: float) -> None:
        self._host.set_keep(unit, keep)

    def explanations(self, unit: str, last: int) -> Explanations:
        """Return the last decisions of the unit's load manager."""
        return self._host.explanations(unit, last)

    def plan(self, unit: str) -> list[PlanLine]:
        """Return the unit's operators with their measurements."""
        return self._host.plan(unit)

    @ray.method(concurrency_group="questions")
    def answer_once(self, unit: str, sql: str) -> OneTimeAnswer:
        """Return the answer of the unit to a one-time query."""
        return self._host.answer_once(unit, sql)

    def noticed(self, unit: str) -> UnitNow | None:
        """Return the unit's measurements since the last call, for the choice of the class's policy."""
        return self._host.noticed(unit)

    def ledger(self, unit: str) -> dict[str, Account]:
        """Return two values for each stream: the account of its tuples, and the number of queued tuples."""
        return self._host.ledger(unit)

    def drain(self, unit: str) -> int:
        """Bring the unit to rest for a move; return the number of frames in its log."""
        return self._host.drain(unit)

    def stop(self) -> None:
        """Stop the host. If the saved state no longer contains the host, also delete the data of its units."""
        self._host.stop(remove=kv_store.get(host_key(self._name)) is None)
        self._reporter.stop()
        if self._events is not None:
            self._events.close()


def end_process(problem: BaseException) -> None:
    traceback.print_exception(problem)
    os._exit(1)


def start(
    host: str,
    node_id: str,
    dirs: RunDirs,
    settings: LiveSettings,
    cores: Cores | None = None,
    events: Path | None = None,
) -> Any:
    """Return the handle of the host actor, and start the actor on the node if it does not exist."""
    # The group `control` has a single thread, so that changes of shares take effect in the order in which they are sent.
    # One-time queries have threads of their own, so that waiting for slices delays no other call.
    groups = {"health": 2, "control": 1, "questions": 4}
    arguments = (host, dirs, settings, cores, events)
    return start_actor(ClassHost, host_name(host), node_id, groups, arguments, concurrency=CALLS)
