"""One unit in its host: the class, its doors, its load manager and its log. No Ray, no threads of its own.

    run(quota)       a slice: take what has come, run operators, write down what has settled, now and then a snapshot
    end_cycle(now)   the load cycle: monitors, load manager, report

Its parts: `UnitInput` (feeds and inbox), `UnitLoad` (load manager), `UnitSnapshots`, `CommitWriter` (the order of the log),
`IdleStreams` (event time of streams without input) and `UnitMeasurements` (figures).

Every call comes from the class thread; what the ingest thread needs of a unit is its `intake`.

Guarantees:
1. Answers become visible with the commit that holds the steps they came of. Killed at any moment, a unit that is made
   again over the same logs goes on as if nothing had been.
2. There always is a snapshot, from the unit's first moment on. It costs no more than SNAPSHOT_PART of the unit's time,
   unless input or commits since the last one have come near the bounds of what is kept of them.
3. Batches before those in `snapshots.released` are not needed any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from actors.host.commit_writer import CommitWriter
from actors.host.idle_streams import IdleStreams
from actors.host.inbox import Feed
from actors.host.tuning_sample import Noticed, UnitNow
from actors.host.unit_input import UnitInput
from actors.host.unit_load import OpenRecord, UnitLoad, not_recorded
from actors.host.unit_measurements import UnitMeasurements
from actors.host.unit_snapshots import UnitSnapshots
from actors.log.unit_log import LogContents, UnitLog
from actors.messages.unit_messages import FAILING, Account, Figures, Unit, UnitReport
from actors.runtime.run_dirs import RunDirs
from configs.classes.live_class import LiveClass, LiveSettings
from configs.classes.managers import sheds
from engine.class_.explain import PlanLine, explain
from engine.class_.hosted_class import HostedClass
from loadshed.cycle import CycleEnded

# Cycles without input or answers after which a unit sleeps.
QUIET_CYCLES = 10
# What the answers to one tuple are taken to need in a log whose size the class says itself.
ANSWER_BYTES = 256


def made_for(declared: LiveClass) -> tuple[object, ...]:
    """Return the part of a declaration that doors and log are made for; the rest can change while the unit runs."""
    split = declared.shards, declared.key, declared.victim, declared.lossless, declared.holds_back
    return declared.name, *split, declared.limits.result_bytes


def said_of_queries(declared: LiveClass) -> tuple[object, ...]:
    """Return the queries of a declaration, with their streams and limits."""
    return dict(declared.queries), declared.streams, declared.limits


def said_of_load(declared: LiveClass) -> tuple[object, ...]:
    """Return the limits of a declaration that a load manager is made for."""
    return declared.delay_target_ms, declared.max_drop, declared.max_age_ms


def said_of_values(declared: LiveClass) -> tuple[object, ...]:
    """Return what a declaration says of the worth of answers."""
    return declared.graph, declared.utilities


def lane_clock(part: float) -> Callable[[], float]:
    """Processor time of this thread, in seconds of a lane that has so much of its core."""
    return time.thread_time if part == 1 else lambda: time.thread_time() / part


@dataclass(frozen=True, slots=True)
class UnitStatus:
    """A unit at the end of its last load cycle."""

    unit: str
    figures: Figures
    asleep: bool
    repeating: bool
    """Whether it is still doing again what was committed before a crash."""
    mismatches: tuple[str, ...]
    """What did not come out as it had before; empty unless something is wrong."""
    lost_answers: int
    """Rows of commits that no log of this size takes."""
    problems: Mapping[str, str]
    """By stream, why it cannot be read; by log, why nothing can be written."""


class HostedUnit:
    """A class that continues from what its log holds, with input, commits, snapshots, load management and measurements."""

    def __init__(
        self, unit: Unit, settings: LiveSettings, dirs: RunDirs, open_record: OpenRecord = not_recorded
    ) -> None:
        now = time.monotonic()
        self.unit, self.settings = unit, settings
        self.asleep = False
        self.used_s = 0.0
        """Processor time of the lane."""
        self.reported: UnitReport | None = None
        """The last report."""
        self._used_at_cycle = 0.0
        self._ran_dry = True  # whether there was nothing to do for some of this load cycle
        self._quiet = 0  # load cycles
        self._cpu = lane_clock(settings.lane_part)
        limited = unit.declared.limits.result_bytes
        with ExitStack() as opened:
            self._log = UnitLog(dirs.class_log(unit.name), limited or settings.results_bytes)
            opened.callback(self._log.close)
            found = self._log.found()
            is_new = found.snapshot is None and not found.commits
            begin: dict[str, object] = {"plan": unit.runs_by.plan} | ({} if is_new else {"queries": {}})
            # What one more train adds to a commit should fit, too.
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
                self._recover(found)
            self.measured = UnitMeasurements(self.hosted, now, recovered=not is_new)
            self._begin(now)
            opened.pop_all()

    def _recover(self, found: LogContents) -> None:
        declared, snapshot = self.unit.declared, found.snapshot
        state = None if snapshot is None else bytes(snapshot.state)
        self.hosted.recover(state, found.commits, self.input.fetch)
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

    # -- what is declared -----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.unit.name

    def can_become(self, unit: Unit) -> bool:
        """Return True if it can be changed as it runs; otherwise it has to be made again over its log."""
        return made_for(unit.declared) == made_for(self.unit.declared)

    def become(self, unit: Unit) -> None:
        """Run as this unit is declared from now on."""
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
            # With a snapshot, recovery does not need frames of streams that are left: they may be dropped at once.
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
        """Return how many tuples one call of an operator takes at most."""
        declared, most = self.unit.declared, self.settings.train_max
        most = min(declared.train_max or most, most)
        if declared.limits.result_bytes is None:
            return most
        # What one train leads to should fit into a commit.
        return max(1, min(most, self._log.frame_max // 2 // ANSWER_BYTES))

    # -- input ------------------------------------------------------------------------------------------

    def streams_changed(self) -> tuple[list[Feed], list[str]] | None:
        """Return feeds of streams to read from now on, and streams to leave; None if nothing has changed."""
        self.commits.queries_moved = False
        changed = self.input.streams_changed()
        for stream in changed[1] if changed is not None else ():
            self.idle.forget(stream)
        return changed

    def _take(self, now: float) -> None:
        """Let what has come join the class's queues."""
        self.input.begin_streams()
        if self.inbox.arrived:
            if self.asleep:
                self.wake(now)
            for stream in self.input.take():
                self.idle.forget(stream)

    # -- slices -----------------------------------------------------------------------------------------

    def run(self, quota_s: float) -> tuple[float, bool]:
        """Run for a slice; return the processor time used, and whether there is more to do."""
        began = self._cpu()
        now = time.monotonic()
        self._take(now)
        if self.commits.write():
            if self.idle.is_asked:
                self.idle.advance(self.input.reading, self.unit.declared.fed, now)
            self._release(now)
            repeated = self.hosted.repeating
            # However long taking input took, a slice gets something done.
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

    def has_input(self) -> bool:
        """Return True if a slice would have something to do."""
        return not self.commits.is_stuck and (bool(self.inbox.arrived) or self.hosted.has_input())

    def wants_slice(self) -> bool:
        asked = self.snapshots.is_asked or self.idle.is_asked or self._is_release_due(time.monotonic())
        return self.has_input() or self.commits.is_stuck or asked

    def _is_release_due(self, now: float) -> bool:
        """Return True if lookups have waited for the other stream for as long as they may."""
        return self.hosted.overdue(now - self.settings.lookup_wait_s)

    def _release(self, now: float) -> None:
        if self._is_release_due(now):
            self.hosted.rest(time.monotonic)
            self.hosted.release(now - self.settings.lookup_wait_s, now)

    # -- the log ----------------------------------------------------------------------------------------

    @property
    def log_next(self) -> int:
        return self._log.next

    def save(self) -> None:
        """Take a snapshot now."""
        self.snapshots.save(self.used_s, self.inbox.bytes_in, self._cpu)

    def close(self, at_rest: bool) -> int:
        """End, `at_rest` with a last snapshot, which the log carries too; return the log's next number."""
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
        """End, and leave nothing."""
        self._log.remove()

    # -- the load cycle ---------------------------------------------------------------------------------

    def wake(self, now: float) -> None:
        """There is input again."""
        self.asleep = self.inbox.asleep = False
        self._quiet = 0
        # How fast it was before it slept is not recent.
        self.measured.begin_recent(now)
        self.hosted.cycle.begin(now)

    def end_cycle(self, now: float) -> UnitReport | None:
        """Return a report; None while the class repeats what it had done."""
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
        problems = self.problems()
        self.reported = UnitReport(
            unit=self.name,
            usage=usage,
            load=load,
            reclaim=reclaim,
            asleep=self.asleep,
            figures=self._measure(accounts, load, counted.queue_age_s, now),
            cycle=cycle if sheds(self.settings.manager) == "everybody" else None,
            accounts=accounts,
            problem="; ".join(f"{what}: {why}" for what, why in problems.items()),
            trouble=FAILING if self.inbox.problems or self.commits.problem else "",
            counted=counted,
            failures=failures,
            at=now,
        )
        return self.reported

    def _measure(
        self, accounts: Mapping[str, Account], load: float, queue_age_s: float, now: float
    ) -> Figures:
        manager = self.load.manager
        return self.measured.measure(
            accounts,
            load=load,
            keep=self.load.keep,
            headroom=0.0 if manager is None else manager.control.headroom,
            used_s=self.used_s,
            ingest_s=self.inbox.used_s,
            queue_age_s=queue_age_s,
            held_back=self.input.is_held_back(now),
            unsaved_bytes=self._log.bytes_since,
            asleep=self.asleep,
        )

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
        if self.inbox.arrived:  # since, and its sender thought it was awake
            self.wake(time.monotonic())
        elif self._log.bytes_since:
            # What it has not released is kept for it as long as it sleeps.
            self.snapshots.is_asked = True

    # -- what people see ----------------------------------------------------------------------------------

    def plan(self) -> list[PlanLine]:
        return explain(self.hosted.runner)

    def noticed(self) -> UnitNow | None:
        """Return what the class's policy is chosen from, since the last call; None if the class says it."""
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
        """Return what is wrong, by stream or query, or "log" or "plan"."""
        problems = dict(self.inbox.problems) | ({"log": self.commits.problem} if self.commits.problem else {})
        problems |= {f"query {name}": why for name, why in self.hosted.queries.refused.items()}
        # A system that chooses plans itself knows what each query can run by.
        if self.unit.choice is None and (kept := self.hosted.exchanges.kept):
            name, why = next(iter(kept.items()))
            others = f" and {len(kept) - 1:,} others" if len(kept) > 1 else ""
            problems["plan"] = f"{name}{others} will run by it when removed and added again ({why})"
        return problems
