"""The coordinator as a Ray actor: a thread around `actors.coordinator.control_plane.ControlPlane`, one per cluster.

Other threads send the control thread work through a queue. In a loop, the control thread does four things:

    observe     calls of users and hosts, answers of other actors, nodes that join or leave
    decide      the control plane
    enact       the store is written, then hosts, dispatchers and gateways are called without waiting for answers
    record      the cores' decisions, if a folder for events is set

Guarantees:
1. When `apply` or another change returns, it is in the store and being sent to other actors. When it raises InvalidInput,
   nothing has changed.
2. Ray restarts a coordinator that was killed, and it continues from the store. Until then hosts and dispatchers keep the
   state that they have; reports of hosts are lost meanwhile.
3. An actor that does not answer is not called until its `ping` answers; then its whole state is sent to it again. The same is
   done for an actor that Ray has restarted, which has a new process. An actor that has ended for good is created again.
4. `ping` and `status` answer even while the control thread is busy. Every other call is answered within `ANSWER_S`.
   Every call but `add_query` and `remove_query` may be repeated.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import ray

from actors.coordinator.control_plane import ControlPlane
from actors.coordinator.coordinator_status import CoordinatorStatus, Decisions, Number, StatusMoment
from actors.coordinator.node_shares import OpenRecord, not_recorded
from actors.coordinator.ray_effects import RayEffects
from actors.coordinator.settings import CoordinatorSettings
from actors.host.tuning_sample import UnitNow
from actors.messages.unit_messages import UnitReport
from actors.runtime import kv_store
from actors.runtime.cluster import run_or_exit, start_actor
from actors.runtime.idle_throttle import Rest
from actors.runtime.names import COORDINATOR, DECLARED_KEY, SHARES_KEY, find, host_name
from configs.classes.live_class import LiveClass
from configs.classes.objectives import Objective
from configs.errors import WeirError
from engine.network.one_time import OneTimeAnswer
from loadshed.records import Core, CoreName
from scheduler.capacity.core import ShareMove
from scheduler.tuning import Compared

# Seconds that a caller waits for the control thread, or for the reply of a host.
ANSWER_S = 30.0
# Seconds between two pings of all actors. A dead actor is noticed at the next ping; until then, classes that need the actor do not run.
WATCH_S = 2.0
WATCH_AGAIN_S = 0.25  # Seconds between two pings of all actors while an actor does not answer
WATCH_ASLEEP_S = 6.0  # Seconds between two pings of all actors while no class has input
# Maximum length of the work queue: far more than the reports that arrive while a node starts.
WORK_MAX = 10_000
# Seconds that `stop` waits for the control thread to finish its current work.
STOP_S = 2.0

Answer = TypeVar("Answer")


class Coordinator:
    """Ray actor made by `start`. The constructor starts the control thread, since Ray calls nothing else after a crash."""

    def __init__(self, settings: CoordinatorSettings) -> None:
        self._control = ControlThread(settings)
        Rest(lambda: not self._control.is_awake)

    @ray.method(concurrency_group="health")
    def ping(self) -> int:
        """Return the id of the actor's process."""
        return os.getpid()

    @ray.method(concurrency_group="health")
    def status(self) -> CoordinatorStatus:
        """Return the current status, or the last known status if the control thread is busy."""
        return self._control.status()

    def look(self, seen: Number | None = None) -> StatusMoment | None:
        """Return the status and the lent processor-seconds. If nothing has changed since status number `seen`, return None."""
        return self._control.ask(lambda plane, now: self._control.look(plane, now, seen))

    @ray.method(concurrency_group="reports")
    def report(self, host: str, reports: Sequence[UnitReport]) -> None:
        self._control.report(host, reports)

    def apply(self, classes: Sequence[LiveClass]) -> None:
        """Add classes, or replace existing classes that have the same names. If one class is refused, no class changes."""
        self._control.ask(lambda plane, now: plane.apply(classes, now))

    def remove_class(self, name: str) -> None:
        self._control.ask(lambda plane, now: plane.remove_class(name, now))

    def declare_stream(self, sql: str) -> None:
        self._control.ask(lambda plane, now: plane.declare_stream(sql, now))

    def drop_stream(self, name: str) -> None:
        self._control.ask(lambda plane, now: plane.drop_stream(name, now))

    def add_query(self, class_name: str, name: str, sql: str) -> None:
        self._control.ask(lambda plane, now: plane.add_query(class_name, name, sql, now))

    def remove_query(self, class_name: str, name: str) -> None:
        self._control.ask(lambda plane, now: plane.remove_query(class_name, name, now))

    def lending(self) -> dict[str, dict[str, float]]:
        """Return the processor-seconds that classes have lent, as a mapping from lender to borrower to seconds."""
        return self._control.ask(lambda plane, now: plane.cores.lending(now))

    def share_moves(self) -> list[ShareMove]:
        """Return the last moves of shares on all nodes, oldest first."""
        return self._control.ask(lambda plane, _: plane.cores.moves(plane.nodes))

    def last_moves(self, last: int) -> tuple[list[ShareMove], float]:
        """Return the last moves that changed a share, and the seconds to add to the times of the moves to get Unix time."""
        moves = self._control.ask(lambda plane, _: plane.cores.last_moves(last))
        return moves, time.time() - time.monotonic()

    def decisions(self, class_name: str, last: int = 10) -> Decisions:
        """Return the last decisions about a class: decisions of its load managers, share moves, and choices of policy."""
        units = self._ask_units(class_name, "explanations", last)
        moves = self._control.ask(lambda plane, _: plane.moves(class_name, last))
        tuned = self._control.ask(lambda plane, _: plane.tunings.explanations(class_name, last))
        return Decisions(units, tuple(moves), time.time() - time.monotonic(), tuned)

    def plan(self, class_name: str) -> Any:
        """Return the operators of the class's first unit, with the measurements of each operator."""
        return self._ask_first_unit(class_name, "plan")

    @ray.method(concurrency_group="questions")
    def answer_once(self, class_name: str, sql: str) -> dict[str, OneTimeAnswer]:
        """Return the answer of each unit of a class to a one-time query."""
        return self._ask_units(class_name, "answer_once", sql)

    def noticed(self, class_name: str) -> UnitNow | None:
        """Return what the first unit of a class has measured since the last call, for the choice of the class's policy."""
        sample: UnitNow | None = self._ask_first_unit(class_name, "noticed")
        return sample

    def _ask_units(self, class_name: str, method: str, argument: object) -> dict[str, Any]:
        """Call `method` of the hosts of all units of a class, and return the answers by unit."""
        hosts = self._control.ask(lambda plane, _: plane.units_of(class_name))
        calls = {
            unit: getattr(find(host_name(host)), method).remote(unit, argument)
            for unit, host in hosts.items()
        }
        return dict(zip(calls, ray.get(list(calls.values()), timeout=ANSWER_S), strict=True))

    def _ask_first_unit(self, class_name: str, method: str) -> Any:
        """Call `method` of the host on which the first unit of a class runs, and return the answer."""
        hosts = self._control.ask(lambda plane, _: plane.units_of(class_name))
        unit, host = next(iter(hosts.items()))
        return ray.get(getattr(find(host_name(host)), method).remote(unit), timeout=ANSWER_S)

    def compared(self, class_name: str, objective: Objective, event: Compared) -> None:
        """Handle the measured and forecast objective of a self-tuning class. If the class switches its policy, inform its hosts."""
        self._control.ask(lambda plane, now: plane.compared(class_name, objective, event, now))

    def move(self, unit: str, node: str) -> None:
        """Begin to move a unit to another node."""
        self._control.ask(lambda plane, _: plane.move(unit, node))

    def stop(self) -> None:
        """End all actors but the coordinator, hosts first, and free shared memory."""
        self._control.stop()


class ControlThread:
    """Thread that owns the control plane; other threads send it work through a queue."""

    def __init__(self, settings: CoordinatorSettings) -> None:
        self._settings = settings
        self._work: queue.Queue[Callable[[], None]] = queue.Queue(WORK_MAX)
        self._writer = settings.log_writer()
        open_record: OpenRecord = not_recorded if self._writer is None else self._opened
        self._effects = RayEffects(self._settings, self._post)
        self._effects.plane = self._plane = ControlPlane(settings.live, self._effects, open_record)
        self._reports_lost = 0
        self._stopping = False
        self._last: CoordinatorStatus | None = None
        # If the control thread fails, the process ends, and a new process continues from the state in Ray's key-value store.
        self._thread = threading.Thread(target=run_or_exit, args=(self._run,), name="control", daemon=True)
        self._thread.start()

    # Other threads call the following methods.

    def ask(self, work: Callable[[ControlPlane, float], Answer]) -> Answer:
        """Run `work` on the control thread and return its result; raise TimeoutError after ANSWER_S. Work that has not begun by then is skipped."""
        answer: Future[Answer] = Future()

        def do() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(work(self._plane, time.monotonic()))
                except BaseException as problem:
                    answer.set_exception(problem)
                    if not isinstance(problem, WeirError):
                        raise

        try:
            self._work.put(do, timeout=ANSWER_S)
            return answer.result(ANSWER_S)
        except (TimeoutError, queue.Full):
            answer.cancel()
            raise TimeoutError(f"the coordinator has been busy for {ANSWER_S:g} s; try again") from None

    @property
    def is_awake(self) -> bool:
        return self._plane.is_awake

    def report(self, host: str, reports: Sequence[UnitReport]) -> None:
        try:
            self._work.put_nowait(lambda: self._plane.report(host, reports, time.monotonic()))
        except queue.Full:
            self._reports_lost += 1

    def status(self) -> CoordinatorStatus:
        done = threading.Event()

        def look() -> None:
            self._last = self._look()
            done.set()

        try:
            self._work.put_nowait(look)
            done.wait(1.0 if self._last is not None else ANSWER_S)
        except queue.Full:
            pass
        if self._last is None:
            raise TimeoutError("the coordinator has not started yet; try again")
        return self._last

    def stop(self) -> None:
        self._stopping = True
        self._post(lambda: None)
        self._thread.join(STOP_S)
        self._effects.stop_all(self._plane.hosts, self._plane.nodes)
        if self._writer is not None:
            self._writer.close()

    def _post(self, work: Callable[[], None]) -> None:
        self._work.put(work)

    # Only the control thread calls the following methods.

    def _run(self) -> None:
        self._begin()
        self._loop()

    def _begin(self) -> None:
        lanes = self._effects.look_at_nodes()
        declared = kv_store.get(DECLARED_KEY)
        if declared is not None:
            self._plane.restore(declared, kv_store.get(SHARES_KEY), lanes, time.monotonic())
        self._effects.watch()
        self._effects.stop_strangers()

    def _loop(self) -> None:
        """The main loop: observe, decide, enact, record."""
        now = time.monotonic()
        watch_at, redistribute_at = now + WATCH_S, now + self._plane.redistribution_s
        while not self._stopping:
            due = min(watch_at, redistribute_at) if self._plane.is_awake else watch_at
            self._take(due - time.monotonic())
            now = time.monotonic()
            if now >= redistribute_at:
                # An idle system has no redistribution cycles; the first report starts them again.
                if self._plane.is_awake:
                    self._plane.redistribute(now)
                redistribute_at = now + self._plane.redistribution_s
            if now >= watch_at:
                self._effects.watch()
                self._plane.relieve()
                watch_at = time.monotonic() + self._watch_again_s()
            elif self._plane.is_awake:
                watch_at = min(watch_at, now + WATCH_S)

    def _watch_again_s(self) -> float:
        if self._effects.actors.quarantined:
            return WATCH_AGAIN_S
        return WATCH_S if self._plane.is_awake else WATCH_ASLEEP_S

    def _take(self, wait_s: float) -> None:
        try:
            work = self._work.get(timeout=max(wait_s, 0.0))
        except queue.Empty:
            return
        work()

    def look(self, plane: ControlPlane, now: float, seen: Number | None) -> StatusMoment | None:
        actors = self._effects.actors
        last_failure = tuple(actors.failures)[-1:]
        number = (os.getpid(), plane.changes, actors.waited_for, actors.quarantined, last_failure)
        return None if number == seen else StatusMoment(number, self._look(), plane.cores.lending(now))

    def _look(self) -> CoordinatorStatus:
        return CoordinatorStatus(
            pid=os.getpid(),
            at=time.monotonic(),
            system=self._plane.status(),
            waited_for=self._effects.actors.waited_for,
            quarantined=self._effects.actors.quarantined,
            failures=tuple(self._effects.actors.failures),
            reports_lost=self._reports_lost,
            being_set=self._effects.actors.being_set,
        )

    def _opened(self, kind: CoreName, name: str, core: Core) -> Callable[[Any, float, Sequence[Any]], None]:
        assert self._writer is not None
        return self._writer.open(kind, name, core).record


def start(settings: CoordinatorSettings) -> Any:
    """Return the handle of the coordinator actor, and start the actor on the head node if it does not exist."""
    groups = {"health": 2, "reports": 1, "questions": 8}
    return start_actor(Coordinator, COORDINATOR, None, groups, (settings,), concurrency=8)
