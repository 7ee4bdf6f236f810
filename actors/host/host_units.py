"""The units of a host. Units are opened from their logs, changed, and opened again after failures.

Only the class thread uses this module.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace

from actors.host.ingest_thread import Ingest
from actors.host.turn_client import SliceClient
from actors.host.unit import HostedUnit
from actors.log.segment_log import LogTaken
from actors.messages.gateway_messages import Grew, Released
from actors.messages.unit_messages import GIVEN_UP, Figures, Unit, UnitReport
from configs.errors import Away, UnknownName, WeirError, nearest, sentence
from engine.network.one_time import OneTimeAnswer

# Number of failures in a row, without new entries in the unit's log, after which a unit is given up (not opened again).
FAILURES_MAX = 3
FAILURES_KEPT = 20
# Minimum seconds between two announcements that the log of a unit with a backlog has grown.
ANNOUNCE_S = 0.02


@dataclass(frozen=True, slots=True)
class Question:
    """One-time query that waits for the next slice of a unit."""

    sql: str
    answer: Future[OneTimeAnswer] = field(default_factory=Future)


class HostUnits:
    """Units of a host. Turn client, ingest thread and gateway are informed whenever a unit is added, changed or removed."""

    def __init__(
        self,
        make: Callable[[Unit], HostedUnit],
        client: SliceClient,
        ingest: Ingest,
        report: Callable[[Sequence[UnitReport]], None],
    ) -> None:
        """Begin without units. The function `make` opens a unit from its log."""
        self.by_name: dict[str, HostedUnit] = {}
        self.broken: dict[str, str] = {}
        """Reasons why units were given up, by unit."""
        self.taken: dict[str, Unit] = {}
        """Units with logs that another process still writes: the process that copied the logs to this node and is about to stop."""
        self.failures: deque[str] = deque(maxlen=FAILURES_KEPT)
        self._make, self._client, self._ingest, self._report = make, client, ingest, report
        # For each unit: the number of failures in a row without growth of its log, and the length of the log.
        self._failure_runs: dict[str, tuple[int, int]] = {}
        self._grown: dict[str, int] = {}  # Length of each unit's log that was last announced to the gateway
        # Earliest time at which the log of a unit with a backlog is announced again.
        self._announce_at: dict[str, float] = {}
        # One-time queries that have no answer yet, by unit.
        self._questions: dict[str, list[Question]] = {}

    def named(self, name: str) -> HostedUnit:
        unit = self.by_name.get(name)
        if unit is None:
            raise UnknownName("the host runs no unit of this name", "unit", name, nearest(name, self.by_name))
        return unit

    def set_all(self, units: Sequence[Unit]) -> None:
        """Run exactly these units; the data of units that are no longer listed is deleted."""
        declared = {unit.name: unit for unit in units}
        self.taken.clear()
        for name in [name for name in self.by_name if name not in declared]:
            self._let_go(name, remove=True)
        for name in [name for name in self.broken if name not in declared]:
            del self.broken[name]
        self._failure_runs = {name: run for name, run in self._failure_runs.items() if name in declared}
        for unit in declared.values():
            self._set(unit)
        # Reports of sleeping units are sent again; otherwise a restarted coordinator would receive none.
        reports = [
            unit.reported for unit in self.by_name.values() if unit.asleep and unit.reported is not None
        ]
        if reports:
            self._report(reports)

    def open_taken(self) -> None:
        """Try again to open units with logs that another process was still writing."""
        taken, self.taken = self.taken, {}
        for unit in taken.values():
            self._open(unit)

    def close_all(self) -> None:
        for name in list(self.by_name):
            self._let_go(name, remove=False)

    def drain(self, name: str) -> int:
        """Bring a unit to rest and stop running it; return the number of frames in its log."""
        unit = self.named(name)
        if unit.hosted.repeating:
            raise WeirError("the unit is still recovering from a crash", "unit", name, "try again later")
        self._leave(unit)
        return unit.close(at_rest=True)

    def _set(self, unit: Unit) -> None:
        name, hosted = unit.name, self.by_name.get(unit.name)
        if hosted is not None and not hosted.can_become(unit):
            self._let_go(name, remove=False)
            hosted = None
        if hosted is None:
            self.broken.pop(name, None)
            self._open(unit)
            return
        try:
            hosted.become(unit)
            self._change_feeds(hosted)
        except Exception as problem:
            self.make_again(name, problem)
        else:
            self._client.ready(name)

    def _open(self, unit: Unit) -> None:
        try:
            hosted = self._make(unit)
        except LogTaken:
            self.taken[unit.name] = unit
            return
        except Exception as problem:
            self._give_up(unit.name, problem)
            return
        self.by_name[unit.name] = hosted
        self._client.join(unit.name)
        self._ingest.open(hosted.intake)
        if hosted.wants_slice():
            self._client.ready(unit.name)

    def _leave(self, unit: HostedUnit, for_good: bool = False) -> None:
        """Stop running a unit: it gets no more turns and no more input."""
        del self.by_name[unit.name]
        self._refuse_questions(unit.name, "the class is being restarted or moved")
        self._client.leave(unit.name)
        self._ingest.close(unit.intake, for_good)

    def _let_go(self, name: str, remove: bool) -> None:
        unit = self.by_name[name]
        self._leave(unit, for_good=remove)
        self._grown.pop(name, None)
        self._announce_at.pop(name, None)
        if remove:
            unit.remove()
            return
        try:
            unit.close(at_rest=True)
        except Exception as problem:
            # Even if closing a unit fails, its logs are correct, so nothing is lost.
            self._keep_failure(name, problem)

    def put_question(self, name: str, question: Question) -> None:
        """Request a slice of the unit, in which the question is answered."""
        self.named(name)
        self._questions.setdefault(name, []).append(question)
        self._client.ready(name)

    def answer_questions(self, unit: HostedUnit) -> float:
        """Answer the one-time queries that wait for the unit; return the processor time used."""
        questions, used_s = self._questions.get(unit.name), unit.used_s
        if not questions:
            return 0.0
        if not unit.rest():
            self._refuse_questions(unit.name, "the class is recovering, or its log has no room for answers")
        for question in self._questions.pop(unit.name, ()):
            if question.answer.set_running_or_notify_cancel():
                # A question that cannot be answered is no failure of the unit, whatever the reason is.
                try:
                    question.answer.set_result(unit.answer_once(question.sql))
                except Exception as problem:
                    question.answer.set_exception(problem)
        return unit.used_s - used_s

    def _refuse_questions(self, name: str, why: str) -> None:
        for question in self._questions.pop(name, ()):
            if question.answer.set_running_or_notify_cancel():
                question.answer.set_exception(Away(why, hint="try again in a few seconds"))

    def after_slice(self, unit: HostedUnit, backlog: bool) -> None:
        """Inform the ingest thread and the gateway of changes by a slice: released input, changed queries, and a longer log."""
        snapshots = unit.snapshots
        for stream, below in snapshots.released.items():
            if below > 0:
                self._ingest.gateway.say(Released(unit.name, stream, below))
        snapshots.released = {}
        if unit.commits.queries_moved:
            self._change_feeds(unit)
        if not backlog or time.monotonic() >= self._announce_at.get(unit.name, 0.0):
            self.report_grown(unit)

    def report_grown(self, unit: HostedUnit) -> None:
        """Send the gateway the length of the unit's log, if it has changed since the last time."""
        if self._grown.get(unit.name) != unit.log_next:
            self._grown[unit.name] = unit.log_next
            self._announce_at[unit.name] = time.monotonic() + ANNOUNCE_S
            self._ingest.gateway.say(Grew(unit.name, unit.log_next))

    def _change_feeds(self, unit: HostedUnit) -> None:
        changed = unit.streams_changed()
        if changed is not None:
            self._ingest.change(unit.intake, *changed)

    def make_again(self, name: str, problem: Exception) -> None:
        """Open a failed unit again from its logs, as after a crash; after FAILURES_MAX failures, leave it closed."""
        unit = self.by_name.get(name)
        if unit is None:
            return
        self._keep_failure(name, problem)
        count, log_next = self._failure_runs.get(name, (0, -1))
        count = count + 1 if log_next == unit.log_next else 1
        self._failure_runs[name] = count, unit.log_next
        self._leave(unit)
        with suppress(Exception):  # If closing fails, the next attempt to open the unit reports the problem.
            unit.close(at_rest=False)
        if count < FAILURES_MAX:
            self._open(replace(unit.unit))
        else:
            self._give_up(name, problem, unit.reported)

    def _give_up(self, name: str, problem: Exception, last: UnitReport | None = None) -> None:
        self._keep_failure(name, problem)
        self.broken[name] = sentence(problem)
        last = last or UnitReport(
            unit=name, usage=0.0, load=0.0, reclaim=False, asleep=True, figures=Figures()
        )
        # A unit that is given up counts as asleep, so that other classes can borrow its share.
        report = replace(
            last, asleep=True, reclaim=False, problem=f"given up: {sentence(problem)}", trouble=GIVEN_UP
        )
        self._report([report])

    def _keep_failure(self, name: str, problem: Exception) -> None:
        traceback.print_exception(problem)
        self.failures.append(f"{name}: {sentence(problem)}")
