"""One unit in its host: the class, its doors, its load manager and its log. It uses no Ray, and has no threads of its own.

Only the class thread calls a unit; the ingest thread uses the unit's `intake`. Parts of a unit are `UnitInput` (streams and inbox),
`UnitLoad` (load manager), `UnitSnapshots`, `CommitWriter` (the order of the log), `IdleStreams` (event time of streams without
input) and `UnitMeasurements` (figures).

    run(quota)       a slice: take new input, run operators, write a commit of steps and answers, sometimes take a snapshot
    end_cycle(now)   the end of a load cycle: monitors, load manager, report

Guarantees:
1. Answers become visible with the commit that contains their steps. If a unit is killed at any moment and opened again from
   the same logs, it continues as if it had never stopped.
2. There always is a snapshot, from the unit's first moment on. Snapshots cost no more than SNAPSHOT_PART of the unit's time,
   unless input or commits since the last snapshot have nearly filled the space that is kept for them.
3. Batches before those in `snapshots.released` are no longer needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from operator import attrgetter

from actors.host.commit_writer import CommitWriter
from actors.host.idle_streams import IdleStreams
from actors.host.inbox import Feed
from actors.host.tuning_sample import Noticed, UnitNow
from actors.host.unit_input import UnitInput
from actors.host.unit_load import OpenRecord, UnitLoad, not_recorded
from actors.host.unit_measurements import UnitMeasurements
from actors.host.unit_snapshots import UnitSnapshots
from actors.log.commit_format import SnapshotFrame
from actors.log.unit_log import UnitLog
from actors.messages.unit_messages import FAILING, Figures, Unit, UnitReport
from actors.runtime.run_dirs import RunDirs
from configs.classes.live_class import LiveSettings
from configs.classes.managers import sheds
from engine.class_.explain import PlanLine, explain
from engine.class_.hosted_class import HostedClass
from engine.class_.steps import Commit
from engine.network.one_time import OneTimeAnswer, answered_once
from loadshed.cycle import CycleEnded

# Number of load cycles without input or answers after which a unit falls asleep.
QUIET_CYCLES = 10
# Assumed bytes of the answers to one tuple, if the class sets the size of its log (`limits.result_bytes`).
ANSWER_BYTES = 256


# Function that returns the part of a declaration from which doors and log are built; all other settings can change in a running unit.
BUILT_FROM = ("name", "shards", "key", "victim", "lossless", "holds_back", "limits.result_bytes")
made_for = attrgetter(*BUILT_FROM)
# Functions that return a part of a declaration: its queries, its limits for the load manager, and the utility of its answers.
said_of_queries = attrgetter("queries", "streams", "limits")
said_of_load = attrgetter("delay_target_ms", "max_drop", "max_age_ms")
said_of_values = attrgetter("graph", "utilities")


def lane_clock(part: float) -> Callable[[], float]:
    """Return a clock that shows this thread's processor time divided by `part`, the part of a processor that queries may use."""
    return time.thread_time if part == 1 else lambda: time.thread_time() / part


@dataclass(frozen=True, slots=True)
class UnitStatus:
    """Status of a unit at the end of its last load cycle."""

    unit: str
    figures: Figures
    asleep: bool
    repeating: bool
    """True while the unit repeats steps that were committed before a crash."""
    mismatches: tuple[str, ...]
    """Differences between repeated steps and the originals; empty unless there is a defect."""
    lost_answers: int
    """Number of answers that were lost because their commit was too large for the log."""
    problems: Mapping[str, str]
    """Descriptions of problems; a key is the name of a stream, `query NAME`, `log` or `plan`."""


class HostedUnit:
    """One class or shard that a host runs, with its input, commits, snapshots, load management and measurements."""

    def __init__(
        self, unit: Unit, settings: LiveSettings, dirs: RunDirs, open_record: OpenRecord = not_recorded
    ) -> None:
        now = time.monotonic()
        self.unit, self.settings = unit, settings
        self.asleep = False
        self.used_s = 0.0
        """Processor seconds that the unit has used, in seconds of its lane."""
        self.reported: UnitReport | None = None
        """The last report to the coordinator."""
        self._used_at_cycle = 0.0
        self._ran_dry = True  # True if the unit had nothing to do at some time of the current load cycle
        self._quiet = 0  # Number of consecutive load cycles without input or answers
        self._cpu = lane_clock(settings.lane_part)
        limited = unit.declared.limits.result_bytes
        with ExitStack() as opened:
            self._log = UnitLog(dirs.class_log(unit.name), limited or settings.results_bytes)
            opened.callback(self._log.close)
            snapshot, commits = self._log.found()
            is_new = snapshot is None and not commits
            begin: dict[str, object] = {"plan": unit.runs_by.plan} | ({} if is_new else {"queries": {}})
            # A commit is limited to half of the largest frame, so that the answers to one more train still fit.
            self.hosted = HostedClass(
                unit.declared.model_copy(update=begin), self._most_in_train(), self._log.frame_max / 2
            )
            self.input = UnitInput(unit, settings, dirs, self.hosted)
            self.inbox, self.intake = self.input.inbox, self.input.intake
            self.commits = CommitWriter(self._log, self.hosted)
            self.snapshots = UnitSnapshots(self._log, self.hosted, self.commits, settings)
            self.idle = IdleStreams(self.hosted, self.inbox, settings.idle_after_s)
            self.load = UnitLoad(self.hosted, self.input, self._log, settings, open_record)
            self._sample = Noticed(settings.load.cycle_ms / 1e3, self._most_in_train())
            if is_new:
                state = self.hosted.state()
                assert state is not None
                self._log.save(state)
            else:
                self._recover(snapshot, commits)
            self.measured = UnitMeasurements(self.hosted, now, recovered=not is_new)
            self._begin(now)
            opened.pop_all()

    def _recover(self, snapshot: SnapshotFrame | None, commits: Sequence[Commit]) -> None:
        declared = self.unit.declared
        state = None if snapshot is None else bytes(snapshot.state)
        self.hosted.recover(state, commits, self.input.fetch)
        self.hosted.set_plan(self.unit.runs_by.plan)
        self.hosted.set_queries(declared.queries, declared.streams, declared.limits)
        self.hosted.set_windows(declared.windows)

    def _begin(self, now: float) -> None:
        declared, runs_by = self.unit.declared, self.unit.runs_by
        self._log.describe(self.hosted.queries.by_name)
        if runs_by.policy != declared.first_policy:
            self.hosted.runner.scheduled.switch(runs_by.policy)
        self._sample.follow(declared.policy, self.hosted)
        self.load.begin(self.unit)
        more, _ = self.streams_changed() or ((), ())
        self.intake.feeds.update((feed.name, feed) for feed in more)
        self.input.account()
        self.load.pass_on()
        self.hosted.cycle.begin(now)

    @property
    def name(self) -> str:
        return self.unit.name

    def can_become(self, unit: Unit) -> bool:
        """Return True if the unit can change to this declaration while it runs; otherwise it must be opened again from its log."""
        return made_for(unit.declared) == made_for(self.unit.declared)

    def become(self, unit: Unit) -> None:
        """Change the running unit to the given declaration, share and policy."""
        hosted, ran_by = self.hosted, self.unit.runs_by
        (before, after), self.unit = (self.unit.declared, unit.declared), unit
        if said_of_values(before) != said_of_values(after):
            hosted.queries.value(after)
        if before.weights != after.weights:
            hosted.queries.weigh(after)
            self.measured.begin_quality(time.monotonic())
            self._sample.weighed()
        hosted.runner.train_max = self._sample.train_max = self._most_in_train()
        hosted.set_plan(unit.runs_by.plan)
        if said_of_queries(before) != said_of_queries(after):
            hosted.set_queries(after.queries, after.streams, after.limits)
            self.commits.commit()
        self.input.declare(unit)
        if before.streams != after.streams:
            # A snapshot is taken, because recovery then needs no frames of streams that are no longer read.
            self.snapshots.is_asked = True
        if ran_by.policy != unit.runs_by.policy:
            hosted.runner.scheduled.switch(unit.runs_by.policy)
        self._sample.follow(after.policy, hosted)
        hosted.set_windows(after.windows)
        if said_of_load(before) != said_of_load(after):
            hosted.times.set_target(after.delay_target_ms / 1e3)
            self.load.begin(unit)
        else:
            self.load.set_share(self.name, unit.share, unit.original)

    def _most_in_train(self) -> int:
        """Return the maximum number of tuples that one call of an operator takes."""
        declared, most = self.unit.declared, self.settings.train_max
        most = min(declared.train_max or most, most)
        if declared.limits.result_bytes is None:
            return most
        # The answers to one train should fit into a commit.
        return max(1, min(most, self._log.frame_max // 2 // ANSWER_BYTES))

    def streams_changed(self) -> tuple[list[Feed], list[str]] | None:
        """Return the streams that the unit must begin to read, and the names of streams that it must no longer read; None if unchanged."""
        self.commits.queries_moved = False
        changed = self.input.streams_changed()
        for stream in changed[1] if changed is not None else ():
            self.idle.forget(stream)
        return changed

    def _take(self, now: float) -> None:
        """Move input that has arrived into the class's queues."""
        self.input.begin_streams()
        if self.inbox.arrived:
            if self.asleep:
                self.wake(now)
            for stream in self.input.take():
                self.idle.forget(stream)

    def run(self, quota_s: float) -> tuple[float, bool]:
        """Run a slice; return the processor time used, and True if there is more to do."""
        began = self._cpu()
        now = time.monotonic()
        self._take(now)
        if self.commits.write():
            if self.idle.is_asked:
                self.idle.advance(self.input.reading, self.unit.declared.fed, now)
            if self._is_release_due(now):
                self.hosted.rest(time.monotonic)
                self.hosted.release(now - self.settings.lookup_wait_s, now)
            repeated = self.hosted.repeating
            # A slice makes progress even if taking input has used up its quota.
            left_s = max(quota_s - (self._cpu() - began), 1e-6)
            self.hosted.run(left_s, time.monotonic, self._cpu)
            self.commits.queries_moved |= repeated and not self.hosted.repeating
            self.commits.commit()
            if self.snapshots.is_due(self.used_s, self.inbox.bytes_in):
                self.save()
        self.input.account()
        used_s = self._cpu() - began
        self.used_s += used_s
        self.measured.counting.slice_ended(quota_s, used_s)
        has_more = self.has_input()
        self._ran_dry |= not has_more
        return used_s, has_more

    def answer_once(self, sql: str) -> OneTimeAnswer:
        """Answer a one-time query from the rows that the unit has taken; call this only after `rest`."""
        began, declared = self._cpu(), self.unit.declared
        try:
            query = self.hosted.queries.planned("", sql)
            key = declared.key if declared.shards > 1 else None
            return answered_once(query, self.hosted.runner.network, key)
        finally:
            used_s = self._cpu() - began
            self.used_s += used_s
            # A load cycle compares its processor time with the work of tuples, so it leaves out one-time queries.
            self._used_at_cycle += used_s

    def rest(self) -> bool:
        """Run to a settle point; return False while the unit recovers from a crash, or its log has no room."""
        if self.hosted.repeating or not self.commits.write():
            return False
        began = self._cpu()
        self.hosted.rest(time.monotonic)
        self.commits.commit()
        self.used_s += self._cpu() - began
        return True

    def has_input(self) -> bool:
        """Return True if a slice would have something to do."""
        return not self.commits.is_stuck and (bool(self.inbox.arrived) or self.hosted.has_input())

    def wants_slice(self) -> bool:
        asked = self.snapshots.is_asked or self.idle.is_asked or self._is_release_due(time.monotonic())
        return self.has_input() or self.commits.is_stuck or asked

    def _is_release_due(self, now: float) -> bool:
        """Return True if a tuple has waited `lookup_wait_s` for the rows of the stream in which it is looked up."""
        return self.hosted.overdue(now - self.settings.lookup_wait_s)

    @property
    def log_next(self) -> int:
        return self._log.next

    def save(self) -> None:
        """Take a snapshot now."""
        self.snapshots.save(self.used_s, self.inbox.bytes_in, self._cpu)

    def close(self, at_rest: bool) -> int:
        """Close the unit and return the number of the next frame of its log. If `at_rest`, write a final snapshot first."""
        try:
            if at_rest and not self.hosted.repeating:
                state = self.commits.settled_state()
                if state is not None:
                    self._log.rest(state)
                    self._log.save(state)
            return self._log.next
        finally:
            self._log.close()

    def remove(self) -> None:
        """Close the unit and delete its data."""
        self._log.remove()

    def wake(self, now: float) -> None:
        """Wake the unit up, because there is input again."""
        self.asleep = self.inbox.asleep = False
        self._quiet = 0
        # Response times from before the sleep no longer count as recent.
        self.measured.begin_recent(now)
        self.hosted.cycle.begin(now)

    def end_cycle(self, now: float) -> UnitReport | None:
        """End a load cycle and return its report; None while steps are repeated after a crash."""
        self._take(now)
        self.input.account()
        cycle = self.hosted.end_cycle(now, self.used_s - self._used_at_cycle, self._ran_dry)
        cycle = replace(cycle, held_back=self.input.end_cycle())
        self._used_at_cycle, self._ran_dry = self.used_s, not self.has_input()
        self.measured.end_recent(now)
        if self.hosted.repeating:
            return None
        self._sample.cycle_ended(cycle, self.load.keep, self.hosted, now)
        usage, load, reclaim = self.load.decide(
            cycle, now, lossless=self.unit.declared.lossless, counting=self.measured.counting
        )
        self._fall_asleep(cycle)
        self.idle.find(self.input.reading, now)
        accounts, counted, failures = self.measured.end_cycle(now, self.asleep)
        problems, manager = self.problems(), self.load.manager
        self.measured.figures = replace(
            self.measured.measure(accounts, self.asleep),
            load=load,
            keep=self.load.keep,
            headroom=0.0 if manager is None else manager.control.headroom,
            used_s=self.used_s,
            ingest_s=self.inbox.used_s,
            queue_age_s=counted.queue_age_s,
            held_back=int(self.input.is_held_back(now)),
            unsaved_bytes=self._log.bytes_since,
        )
        self.reported = UnitReport(
            unit=self.name,
            usage=usage,
            load=load,
            reclaim=reclaim,
            asleep=self.asleep,
            figures=self.measured.figures,
            cycle=cycle if sheds(self.settings.manager) == "everybody" else None,
            accounts=accounts,
            problem="; ".join(f"{what}: {why}" for what, why in problems.items()),
            trouble=FAILING if self.inbox.problems or self.commits.problem else "",
            counted=counted,
            failures=failures,
            at=now,
        )
        return self.reported

    def _fall_asleep(self, cycle: CycleEnded) -> None:
        moved = any(input_.offered for input_ in cycle.inputs) or any(
            output.results for output in cycle.outputs
        )
        waits = self.has_input() or self.hosted.overdue(time.monotonic())
        busy = moved or waits or self.commits.is_stuck or self.load.keep < 1
        self._quiet = 0 if busy else self._quiet + 1
        if self._quiet < QUIET_CYCLES:
            return
        self.asleep = self.inbox.asleep = True
        if self.inbox.arrived:
            # Input has arrived, but the ingest thread did not know yet that the unit sleeps. So the class thread wakes the unit.
            self.wake(time.monotonic())
        elif self._log.bytes_since:
            # A snapshot releases input that would otherwise be kept for as long as the unit sleeps.
            self.snapshots.is_asked = True

    def plan(self) -> list[PlanLine]:
        return explain(self.hosted.runner)

    def noticed(self) -> UnitNow | None:
        """Return the measurements since the last call, for the choice of the class's policy; None if the class has a fixed policy."""
        share, manager = self.unit.share * self.settings.lanes, self.load.manager
        if manager is not None:
            share = max(manager.control.headroom, manager.share * self.settings.lanes)
        return self._sample.now(self.hosted, min(1.0, share))

    def status(self) -> UnitStatus:
        return UnitStatus(
            unit=self.name,
            figures=self.measured.figures,
            asleep=self.asleep,
            repeating=self.hosted.repeating,
            mismatches=tuple(self.hosted.replay.mismatches),
            lost_answers=self._log.lost_answers,
            problems=self.problems(),
        )

    def problems(self) -> dict[str, str]:
        """Return descriptions of the current problems, by the name of a stream, `query NAME`, `log` or `plan`."""
        problems = dict(self.inbox.problems) | ({"log": self.commits.problem} if self.commits.problem else {})
        problems |= {f"query {name}": why for name, why in self.hosted.queries.refused.items()}
        # Queries that cannot change to a plan are a problem only if the user has chosen the plan.
        if self.unit.choice is None and (kept := self.hosted.exchanges.kept):
            name, why = next(iter(kept.items()))
            others = f" and {len(kept) - 1:,} others" if len(kept) > 1 else ""
            problems["plan"] = f"not used yet by {name}{others}: remove and add each query again ({why})"
        return problems
