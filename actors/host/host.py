"""The threads of a host and the units between them. No Ray.

    class thread     takes turns (`actors.host.turn_client`), and between them load cycles and what other threads ask for
    ingest thread    `actors.host.ingest_thread`
    any thread       the methods of `Host`: what touches a unit is done by the class thread, and waited for so long

Guarantees:
1. A unit's state is touched by the class thread only.
2. A unit that fails, in whatever is done with it, is made again over its logs. A unit that fails several times at the same
   place is given up. Other units continue.
3. Nothing happens in a host whose units sleep: no timer, no cycle.
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
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from actors.host.ingest_thread import Ingest
from actors.host.tuning_sample import UnitNow
from actors.host.turn_client import SliceClient
from actors.host.unit import NEVER, HostedUnit, OpenRecord, UnitStatus, not_recorded
from actors.log.segment_log import LogTaken
from actors.messages.gateway_messages import Grew, Released
from actors.messages.unit_messages import GIVEN_UP, Account, Explanations, Figures, Unit, UnitReport
from actors.runtime.cpu_pinning import Cores
from actors.runtime.run_dirs import RunDirs
from configs.classes.live_class import LiveSettings
from configs.errors import UnknownName, WeirError, nearest, sentence
from engine.class_.explain import Line

# Class thread and ingest thread share the interpreter: how long one of them may keep it when the other wants it. Between
# 20 µs and 5 ms it makes no difference to slices, which give it up in every larger call of numpy: with 300 batches a second
# they are kept waiting for 4% of their time. It does to who waits beside a class that calls for little only.
SWITCH_S = 5e-4
# How long other threads wait for the class thread; a state of some hundred MB takes seconds to restore.
ANSWER_S = 30.0
# Without an answer in between.
FAILURES_MAX = 3
FAILURES_KEPT = 20
STOP_S = 5.0
TAKEN_AGAIN_S = 0.05
# Growth of the log of a unit that has a backlog is announced after so many seconds, not after each slice.
ANNOUNCE_S = 0.02

Answer = TypeVar("Answer")
# Not waited for.
Report = Callable[[str, Sequence[UnitReport]], None]


def prepare_process() -> None:
    """Once, in a process whose work is to be a host."""
    sys.setswitchinterval(SWITCH_S)
    # What Ray has loaded stays; a full collection would take milliseconds of some slice to find that out.
    gc.freeze()


@dataclass(frozen=True, slots=True)
class HostStatus:
    """A host at one moment."""

    host: str
    units: dict[str, UnitStatus]
    broken: dict[str, str]
    """Units that are given up, and why."""
    failures: tuple[str, ...]
    slices: int
    ran_s: float
    """Of all slices by the clock; beyond `used_s` the class thread was kept waiting."""
    used_s: float
    not_pinned: str


@dataclass(slots=True)
class Failures:
    """Of one unit."""

    count: int = 0
    log_next: int = -1  # when it failed last


@dataclass
class Host:
    """Made, then `start`ed once. `failed` hears of the end of a thread that should not have ended."""

    name: str
    dirs: RunDirs
    settings: LiveSettings
    report: Report
    failed: Callable[[BaseException], None]
    open_record: OpenRecord = not_recorded
    cores: Cores | None = None
    awoke: Callable[[], None] = lambda: None
    """Told that a unit is about to end its sleep."""
    _units: dict[str, HostedUnit] = field(init=False, default_factory=dict)
    _broken: dict[str, str] = field(init=False, default_factory=dict)
    # Units whose logs somebody else still writes: who copied them here is about to end.
    _taken: dict[str, Unit] = field(init=False, default_factory=dict)
    _failures: dict[str, Failures] = field(init=False, default_factory=dict)
    _told: deque[str] = field(init=False, default_factory=lambda: deque(maxlen=FAILURES_KEPT))
    _grown: dict[str, int] = field(init=False, default_factory=dict)  # what the gateway was told of logs
    _announce_at: dict[str, float] = field(
        init=False, default_factory=dict
    )  # the same of a unit with a backlog
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
        self._status = HostStatus(
            host=self.name,
            units={},
            broken={},
            failures=(),
            slices=0,
            ran_s=0.0,
            used_s=0.0,
            not_pinned=self._client.not_pinned,
        )
        self._threads = [
            threading.Thread(target=self._serve, args=(work,), name=name, daemon=True)
            for name, work in (("classes", self._client.serve), ("ingest", self._ingest.run))
        ]

    # -- for any thread -----------------------------------------------------------------------------------

    def start(self, units: Sequence[Unit]) -> None:
        self._post(lambda: self._set_units(units))
        for thread in self._threads:
            thread.start()

    def set_units(self, units: Sequence[Unit]) -> None:
        """These units and no others; what is gone from the list leaves nothing. May be repeated."""
        self.ask(lambda: self._set_units(units))

    def scale_headroom(self, unit: str, factor: float, share: float, original: float) -> None:
        self.ask(lambda: self._known(unit).scale_headroom(factor, share, original))

    def set_keep(self, unit: str, keep: float) -> None:
        self.ask(lambda: self._known(unit).set_keep(keep))

    def explanations(self, unit: str, last: int) -> Explanations:
        decisions = self.ask(lambda: self._known(unit).explanations(last))
        return Explanations(time.time() - time.monotonic(), decisions)

    def plan(self, unit: str) -> list[Line]:
        return self.ask(lambda: self._known(unit).plan())

    def noticed(self, unit: str) -> UnitNow | None:
        return self.ask(lambda: self._known(unit).noticed())

    def ledger(self, unit: str) -> dict[str, Account]:
        """By stream, the account and what is queued."""
        return self.ask(lambda: self._known(unit).ledger())

    def drain(self, unit: str) -> int:
        """Bring the unit to rest, with a snapshot that its log carries; the number of frames in the log.

        It stays at rest until `set_units` names it again.
        """
        return self.ask(lambda: self._drain(unit))

    def status(self) -> HostStatus:
        """As of the last load cycle, or of the last change."""
        return self._status

    @property
    def is_asleep(self) -> bool:
        return all(unit.asleep for unit in self._status.units.values())

    def stop(self, remove: bool = False) -> None:
        """Threads end after what is under way, and units come to rest; or nothing of them stays. Idempotent."""
        if remove:
            with suppress(TimeoutError):
                self.set_units(())
        self._client.stop()
        self._ingest.stop()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(STOP_S)
        if not self._threads[0].is_alive():
            for name in list(self._units):
                self._let_go(name, remove=False)

    def ask(self, work: Callable[[], Answer]) -> Answer:
        """Done by the class thread; TimeoutError if it does not come to it in time: it is not done then."""
        answer: Future[Answer] = Future()

        def do() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(work())
                except Exception as problem:
                    answer.set_exception(problem)

        self._post(do)
        try:
            return answer.result(ANSWER_S)
        except TimeoutError:
            answer.cancel()
            raise TimeoutError(f"host {self.name} has been busy for {ANSWER_S:g} s; try again") from None

    def _post(self, work: Callable[[], None]) -> None:
        self._asked.append(work)
        self._client.wake()

    def _serve(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as problem:
            traceback.print_exc()
            self.failed(problem)

    # -- the ingest thread ----------------------------------------------------------------------------------

    def _hear_of_input(self, name: str) -> None:
        unit = self._units.get(name)
        if unit is None:
            return
        self._client.ready(name)
        if unit.inbox.asleep:
            unit.inbox.asleep = False
            self._post(partial(self._wake, name))
            self.awoke()

    def _hear_of_failure(self, name: str, problem: Exception) -> None:
        self._post(lambda: self._make_again(name, problem))

    # -- the class thread: turns ------------------------------------------------------------------------------

    def _run(self, name: str, quota_s: float) -> tuple[float, bool]:
        unit = self._units.get(name)
        if unit is None:
            return 0.0, False
        began = time.monotonic()
        try:
            used_s, backlog = unit.run(quota_s)
            self._after_slice(unit, backlog)
        except Exception as problem:
            self._make_again(name, problem)
            return quota_s, False
        if unit.makes_room():
            self._ingest.go_on()
        self._slices += 1
        self._ran_s += time.monotonic() - began
        self._used_s += used_s
        return used_s, backlog

    def _after_slice(self, unit: HostedUnit, backlog: bool) -> None:
        if unit.released:
            self._release(unit)
        if unit.queries_moved:
            self._change_feeds(unit)
        if not backlog or time.monotonic() >= self._announce_at.get(unit.name, 0.0):
            self._tell_grown(unit)
        if unit.asleep:
            self._due = min(self._due, unit.next_advance)

    def _release(self, unit: HostedUnit) -> None:
        for stream, below in unit.released.items():
            if below > 0:
                self._ingest.say(Released(unit.name, stream, below))
        unit.released = {}

    def _tell_grown(self, unit: HostedUnit) -> None:
        if self._grown.get(unit.name) != unit.log_next:
            self._grown[unit.name] = unit.log_next
            self._announce_at[unit.name] = time.monotonic() + ANNOUNCE_S
            self._ingest.say(Grew(unit.name, unit.log_next))

    def _change_feeds(self, unit: HostedUnit) -> None:
        changed = unit.streams_changed()
        if changed is not None:
            self._ingest.change(unit.intake, *changed)

    # -- the class thread: between turns ----------------------------------------------------------------------

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
        """Load cycles of units that are awake, and the time for those that sleep."""
        reports = []
        taken, self._taken = self._taken, {}
        for one in taken.values():
            self._open(one)
        for unit in list(self._units.values()):
            if now >= unit.next_advance:
                unit.ask_advance()
            if not unit.asleep and now >= self._next_cycle:
                report = self._end_cycle(unit, now)
                if report is not None:
                    reports.append(report)
            if unit.wants_slice():
                self._client.ready(unit.name)
        if now >= self._next_cycle:
            # After a long slice the cycles that were missed are not made up for.
            self._next_cycle = max(self._next_cycle + self._cycle_s, now + self._cycle_s / 2)
        if reports:
            self.report(self.name, reports)
        self._look_ahead()

    def _end_cycle(self, unit: HostedUnit, now: float) -> UnitReport | None:
        try:
            report = unit.end_cycle(now)
        except Exception as problem:
            self._make_again(unit.name, problem)
            return None
        self._tell_grown(unit)
        if unit.asleep:
            self._ingest.rest(unit.intake)
        return report

    def _wake(self, name: str) -> None:
        unit = self._units.get(name)
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
        """When something is due next, and what others see."""
        units = self._units.values()
        self._due = min((unit.next_advance for unit in units if unit.asleep), default=NEVER)
        if any(not unit.asleep for unit in units):
            self._due = min(self._due, self._next_cycle)
        if self._taken:
            self._due = min(self._due, time.monotonic() + TAKEN_AGAIN_S)
        self._status = HostStatus(
            host=self.name,
            units={unit.name: unit.status() for unit in units},
            broken=dict(self._broken),
            failures=tuple(self._told),
            slices=self._slices,
            ran_s=self._ran_s,
            used_s=self._used_s,
            not_pinned=self._client.not_pinned,
        )

    # -- the class thread: units ------------------------------------------------------------------------------

    def _known(self, name: str) -> HostedUnit:
        unit = self._units.get(name)
        if unit is None:
            raise UnknownName("the host has no such unit", "unit", name, nearest(name, self._units))
        return unit

    def _set_units(self, units: Sequence[Unit]) -> None:
        wanted = {unit.name: unit for unit in units}
        self._taken.clear()
        for name in [name for name in self._units if name not in wanted]:
            self._let_go(name, remove=True)
        for name in [name for name in self._broken if name not in wanted]:
            del self._broken[name]
        self._failures = {name: one for name, one in self._failures.items() if name in wanted}
        for unit in wanted.values():
            self._set_unit(unit)
        self._report_sleepers()
        self._start_cycles(time.monotonic())

    def _set_unit(self, unit: Unit) -> None:
        name, hosted = unit.name, self._units.get(unit.name)
        if hosted is not None and not hosted.can_become(unit):
            self._let_go(name, remove=False)
            hosted = None
        if hosted is None:
            self._broken.pop(name, None)
            self._open(unit)
            return
        try:
            hosted.become(unit)
            self._change_feeds(hosted)
        except Exception as problem:
            self._make_again(name, problem)
        else:
            self._client.ready(name)

    def _report_sleepers(self) -> None:
        """A coordinator that has begun anew would hear nothing of them."""
        reports = [
            unit.reported for unit in self._units.values() if unit.asleep and unit.reported is not None
        ]
        if reports:
            self.report(self.name, reports)

    def _open(self, unit: Unit) -> None:
        try:
            hosted = HostedUnit(unit, self.settings, self.dirs, self.open_record)
        except LogTaken:
            self._taken[unit.name] = unit
            return
        except Exception as problem:
            self._give_up(unit.name, problem)
            return
        self._units[unit.name] = hosted
        self._client.join(unit.name)
        self._ingest.open(hosted.intake)
        if hosted.wants_slice():
            self._client.ready(unit.name)

    def _let_go(self, name: str, remove: bool) -> None:
        hosted = self._units.pop(name)
        self._client.leave(name)
        self._ingest.close(hosted.intake, for_good=remove)
        self._grown.pop(name, None)
        self._announce_at.pop(name, None)
        if remove:
            hosted.remove()
        else:
            self._close(hosted)

    def _close(self, hosted: HostedUnit) -> int:
        try:
            return hosted.close(at_rest=True)
        except Exception as problem:
            # What is in its logs is right.
            self._tell_failure(hosted.name, problem)
            return hosted.log_next

    def _drain(self, name: str) -> int:
        hosted = self._known(name)
        if hosted.hosted.repeating:
            raise WeirError("the unit is still coming back from a crash", "unit", name, "try again")
        del self._units[name]
        self._client.leave(name)
        self._ingest.close(hosted.intake, for_good=False)
        following = hosted.close(at_rest=True)
        self._look_ahead()
        return following

    def _make_again(self, name: str, problem: Exception) -> None:
        """From its logs, as after a crash."""
        hosted = self._units.pop(name, None)
        if hosted is None:
            return
        self._tell_failure(name, problem)
        failures = self._failures.setdefault(name, Failures())
        failures.count = failures.count + 1 if failures.log_next == hosted.log_next else 1
        failures.log_next = hosted.log_next
        self._ingest.close(hosted.intake, for_good=False)
        self._client.leave(name)
        with suppress(Exception):  # what cannot be closed is found out when it is opened
            hosted.close(at_rest=False)
        if failures.count < FAILURES_MAX:
            self._open(replace(hosted.unit))
        else:
            self._give_up(name, problem, hosted.reported)

    def _give_up(self, name: str, problem: Exception, last: UnitReport | None = None) -> None:
        self._tell_failure(name, problem)
        self._broken[name] = sentence(problem)
        last = last or UnitReport(
            unit=name, usage=0.0, load=0.0, reclaim=False, asleep=True, figures=Figures()
        )
        # Others may have its share until it is declared anew.
        report = replace(
            last, asleep=True, reclaim=False, problem=f"given up: {sentence(problem)}", trouble=GIVEN_UP
        )
        self.report(self.name, [report])

    def _tell_failure(self, name: str, problem: Exception) -> None:
        traceback.print_exception(problem)
        self._told.append(f"{name}: {sentence(problem)}")
