"""The threads of a host and the units that they run, without Ray.

A host has two threads. The *class thread* runs slices (`actors.host.turn_client`). Between slices, it handles load cycles and requests
of other threads. The *ingest thread* reads input (`actors.host.ingest_thread`). Any thread may call methods of `Host`. Methods that
touch a unit run on the class thread, and the caller waits up to ANSWER_S.

Guarantees:
1. Only the class thread touches the state of a unit.
2. A unit that fails is opened again from its logs, whatever it was doing. After several failures at the same place of its log it
   is given up (not opened again until its declaration changes). Other units continue.
3. While all units sleep there are no load cycles. The host then wakes up by itself only to advance idle streams.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from actors.host.host_units import HostUnits, Question
from actors.host.idle_streams import NEVER
from actors.host.ingest_thread import Ingest
from actors.host.tuning_sample import UnitNow
from actors.host.turn_client import SliceClient
from actors.host.unit import HostedUnit, UnitStatus
from actors.host.unit_load import OpenRecord, not_recorded
from actors.messages.unit_messages import Account, Explanations, Unit, UnitReport
from actors.runtime.cpu_pinning import Cores
from actors.runtime.run_dirs import RunDirs
from configs.classes.live_class import LiveSettings
from engine.class_.explain import PlanLine
from engine.network.one_time import OneTimeAnswer

# Switch interval of the interpreter, in seconds: one thread keeps the interpreter for at most this time while another thread waits.
# The switch interval does not change the speed of slices, because large numpy calls release the interpreter.
# Small numpy calls do not release the interpreter; then a short switch interval lets the ingest thread run sooner.
SWITCH_S = 5e-4
# Seconds that other threads wait for the class thread; restoring a state of some hundred MB takes seconds.
ANSWER_S = 30.0
# Seconds that a one-time query waits for a slice of its unit.
QUESTION_S = 4.0
STOP_S = 5.0
TAKEN_AGAIN_S = 0.05

Answer = TypeVar("Answer")
# Function that sends reports of the units of a host, without waiting for an answer.
Report = Callable[[str, Sequence[UnitReport]], None]


def prepare_process() -> None:
    """Set garbage collection and thread switching so that they do not delay slices. Call this function once per process."""
    sys.setswitchinterval(SWITCH_S)
    # Objects that Ray has loaded are excluded from garbage collection: a full collection would take milliseconds of a slice.
    gc.freeze()


@dataclass(frozen=True, slots=True)
class HostStatus:
    """Status of a host at the end of a load cycle or after a change."""

    host: str
    units: dict[str, UnitStatus]
    broken: dict[str, str]
    """Reasons why units are not started again after repeated failures ("given up"), by unit."""
    failures: tuple[str, ...]
    slices: int
    ran_s: float
    """Seconds of all slices by the clock; the time beyond `used_s` was spent waiting for the processor or the interpreter."""
    used_s: float


@dataclass
class Host:
    """A class host. Call `start` once. `failed` is called if one of its threads ends with an error."""

    name: str
    dirs: RunDirs
    settings: LiveSettings
    report: Report
    failed: Callable[[BaseException], None]
    open_record: OpenRecord = not_recorded
    cores: Cores | None = None
    awoke: Callable[[], None] = lambda: None
    """Function called when a unit is about to wake up."""
    _slices: int = field(init=False, default=0)
    _ran_s: float = field(init=False, default=0.0)
    _used_s: float = field(init=False, default=0.0)
    _due: float = field(init=False, default=NEVER)

    def __post_init__(self) -> None:
        self._cycle_s = self.settings.load.cycle_ms / 1e3
        self._next_cycle = 0.0
        self._asked: deque[Callable[[], None]] = deque()
        self._ingest = Ingest(self.dirs, self._hear_of_input, self._hear_of_failure)
        path = self.dirs.dispatcher_socket
        self._client = SliceClient(
            path=path,
            host=self.name,
            run=self._run,
            between=self._between,
            classes=(),
            cores=self.cores,
            quiet_s=self._quiet_s,
        )
        self.units = HostUnits(
            lambda unit: HostedUnit(unit, self.settings, self.dirs, self.open_record),
            self._client,
            self._ingest,
            partial(self.report, self.name),
        )
        self._status = self._status_now()
        self._threads = [
            threading.Thread(target=self._serve, args=(work,), name=name, daemon=True)
            for name, work in (("classes", self._client.serve), ("ingest", self._ingest.run))
        ]

    # Any thread may call the following methods.

    def start(self, units: Sequence[Unit]) -> None:
        self._post(lambda: self._set_units(units))
        for thread in self._threads:
            thread.start()

    def set_units(self, units: Sequence[Unit]) -> None:
        """Run exactly these units; the data of units that are no longer listed is deleted. May be repeated."""
        self.ask(lambda: self._set_units(units))

    def scale_headroom(self, unit: str, factor: float, share: float, original: float) -> None:
        self.ask(lambda: self.units.named(unit).load.set_share(unit, share, original, factor))

    def set_keep(self, unit: str, keep: float) -> None:
        self.ask(lambda: self.units.named(unit).load.set_keep(keep))

    def explanations(self, unit: str, last: int) -> Explanations:
        decisions = self.ask(lambda: self.units.named(unit).load.explanations(last))
        return Explanations(time.time() - time.monotonic(), decisions)

    def plan(self, unit: str) -> list[PlanLine]:
        return self.ask(lambda: self.units.named(unit).plan())

    def answer_once(self, unit: str, sql: str) -> OneTimeAnswer:
        """Answer a one-time query in the next slice of the unit, also if the unit is asleep."""
        question = Question(sql)
        self.ask(lambda: self.units.put_question(unit, question))
        return awaited(question.answer, self.name, QUESTION_S)

    def noticed(self, unit: str) -> UnitNow | None:
        return self.ask(lambda: self.units.named(unit).noticed())

    def ledger(self, unit: str) -> dict[str, Account]:
        """Return two values for each stream: the account of its tuples, and the number of queued tuples."""
        return self.ask(lambda: self.units.named(unit).hosted.input.accounts())

    def drain(self, unit: str) -> int:
        """Bring the unit to rest, with a last snapshot in its log; return the number of frames in the log.

        The unit stays at rest until `set_units` names it again.
        """
        return self.ask(lambda: self._drain(unit))

    def status(self) -> HostStatus:
        """Return the status as of the last load cycle or the last change."""
        return self._status

    @property
    def is_asleep(self) -> bool:
        return all(unit.asleep for unit in self._status.units.values())

    def stop(self, remove: bool = False) -> None:
        """Stop the threads after their current work, and bring the units to rest; with `remove`, delete their data. May be repeated."""
        if remove:
            with suppress(TimeoutError):
                self.set_units(())
        self._client.stop()
        self._ingest.stop()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(STOP_S)
        if not self._threads[0].is_alive():
            self.units.close_all()

    def ask(self, work: Callable[[], Answer]) -> Answer:
        """Run `work` on the class thread and return its result; raise TimeoutError after ANSWER_S. Work that has not begun by then is skipped."""
        answer: Future[Answer] = Future()

        def do() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(work())
                except Exception as problem:
                    answer.set_exception(problem)

        self._post(do)
        return awaited(answer, self.name)

    def _post(self, work: Callable[[], None]) -> None:
        self._asked.append(work)
        self._client.wake()

    def _serve(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as problem:
            traceback.print_exc()
            self.failed(problem)

    # The ingest thread calls the following methods.

    def _hear_of_input(self, name: str) -> None:
        unit = self.units.by_name.get(name)
        if unit is None:
            return
        self._client.ready(name)
        if unit.inbox.asleep:
            unit.inbox.asleep = False
            self._post(partial(self._wake, name))
            self.awoke()

    def _hear_of_failure(self, name: str, problem: Exception) -> None:
        self._post(lambda: self.units.make_again(name, problem))

    # Only the class thread calls the following methods.

    def _run(self, name: str, quota_s: float) -> tuple[float, bool]:
        unit = self.units.by_name.get(name)
        if unit is None:
            return 0.0, False
        began = time.monotonic()
        try:
            asked_s = self.units.answer_questions(unit)
            ran_s, backlog = unit.run(quota_s - asked_s)
            used_s = asked_s + ran_s
            self.units.after_slice(unit, backlog)
            if unit.asleep:
                self._due = min(self._due, unit.idle.next_advance)
        except Exception as problem:
            self.units.make_again(name, problem)
            return quota_s, False
        if unit.input.makes_room():
            self._ingest.go_on()
        self._slices += 1
        self._ran_s += time.monotonic() - began
        self._used_s += used_s
        return used_s, backlog

    def _quiet_s(self) -> float | None:
        return None if self._due == NEVER else self._due - time.monotonic()

    def _between(self) -> None:
        while self._asked:
            self._asked.popleft()()
        now = time.monotonic()
        if now >= self._due:
            self._do_due(now)
        self._ingest.slice_ended()

    def _do_due(self, now: float) -> None:
        """End load cycles that are due, and request slices for units that have something to do, such as to advance idle streams."""
        reports = []
        self.units.open_taken()
        for unit in list(self.units.by_name.values()):
            if now >= unit.idle.next_advance:
                unit.idle.ask()
            if not unit.asleep and now >= self._next_cycle:
                report = self._end_cycle(unit, now)
                if report is not None:
                    reports.append(report)
            if unit.wants_slice():
                self._client.ready(unit.name)
        if now >= self._next_cycle:
            # Load cycles that were missed during a long slice are skipped.
            self._next_cycle = max(self._next_cycle + self._cycle_s, now + self._cycle_s / 2)
        if reports:
            self.report(self.name, reports)
        self._look_ahead()

    def _end_cycle(self, unit: HostedUnit, now: float) -> UnitReport | None:
        try:
            report = unit.end_cycle(now)
        except Exception as problem:
            self.units.make_again(unit.name, problem)
            return None
        self.units.report_grown(unit)
        if unit.asleep:
            self._ingest.rest(unit.intake)
        return report

    def _wake(self, name: str) -> None:
        unit = self.units.by_name.get(name)
        if unit is not None:
            now = time.monotonic()
            if unit.asleep:
                unit.wake(now)
            self._start_cycles(now)

    def _start_cycles(self, now: float) -> None:
        if self._next_cycle <= now:
            self._next_cycle = now + self._cycle_s
        self._look_ahead()

    def _look_ahead(self) -> None:
        """Compute when the next load cycle or other timed work is due, and update the status."""
        units = self.units.by_name.values()
        self._due = min((unit.idle.next_advance for unit in units if unit.asleep), default=NEVER)
        if any(not unit.asleep for unit in units):
            self._due = min(self._due, self._next_cycle)
        if self.units.taken:
            self._due = min(self._due, time.monotonic() + TAKEN_AGAIN_S)
        self._status = self._status_now()

    def _status_now(self) -> HostStatus:
        return HostStatus(
            host=self.name,
            units={unit.name: unit.status() for unit in self.units.by_name.values()},
            broken=dict(self.units.broken),
            failures=tuple(self.units.failures),
            slices=self._slices,
            ran_s=self._ran_s,
            used_s=self._used_s,
        )

    def _set_units(self, units: Sequence[Unit]) -> None:
        self.units.set_all(units)
        self._start_cycles(time.monotonic())

    def _drain(self, name: str) -> int:
        following = self.units.drain(name)
        self._look_ahead()
        return following


def awaited(answer: Future[Answer], host: str, wait_s: float = ANSWER_S) -> Answer:
    """Return the result of work on the class thread; raise TimeoutError after `wait_s`, and cancel the work if it has not begun."""
    try:
        return answer.result(wait_s)
    except TimeoutError:
        answer.cancel()
        raise TimeoutError(f"host {host} has been busy for {wait_s:g} s; try again") from None
