"""One unit in its host: the class, its doors, its load manager and its log. No Ray, no threads of its own.

    run(quota)       a slice: take what has come, run operators, write down what has settled, now and then a snapshot
    end_cycle(now)   the load cycle: monitors, load manager, what is reported
    ask_advance      where a stream is idle, its event time goes on with the clock, within the next slice

Every call comes from the class thread; what the ingest thread needs of a unit is its `intake`.

Guarantees:
1. Answers become visible with the commit that holds the steps they came of. Killed at any moment, a unit that is made
   again over the same logs goes on as if nothing had been.
2. There always is a snapshot, from the unit's first moment on. It costs no more than SNAPSHOT_PART of the unit's time,
   unless input or commits since the last one have come near the bounds of what is kept of them.
3. What `released` tells is not needed any more.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from actors.host.failure_counts import FailureCounts
from actors.host.inbox import Inbox
from actors.host.ingest_thread import Feed, Intake
from actors.host.recent_latency import RECENT_S, LateShares, Recent, RecentFlow
from actors.host.slice_counts import Counting
from actors.host.tuning_sample import Noticed, UnitNow
from actors.host.unit_quality import Worth
from actors.log.segment import LogMissing
from actors.log.segment_log import FrameForgotten, LogFull, Reader
from actors.log.train_format import batch_of
from actors.log.unit_log import Steered, UnitLog
from actors.messages.unit_messages import FAILING, Account, Figures, Unit, UnitReport
from actors.runtime.run_dirs import RunDirs
from configs.classes.live_class import LiveClass, LiveSettings
from configs.classes.managers import sheds
from engine.class_.class_queries import schemas_of
from engine.class_.door import Door
from engine.class_.explain import Line, explain
from engine.class_.hosted_class import HostedClass
from engine.class_.input_account import Following
from engine.class_.steps import Commit, QueryAdded, QueryRemoved
from engine.data.schema import StreamSchema
from engine.data.train import Train
from loadshed.build import load_manager
from loadshed.cycle import CycleEnded
from loadshed.ledger import TupleLedger
from loadshed.manager import (
    LEAST_ROOM,
    DropOlder,
    Explanation,
    HoldBack,
    LoadManager,
    ReportUsage,
    RequestReclaim,
    TrimQueue,
)
from loadshed.shedder import Shedder
from scheduler.capacity.core import HeadroomScaled

# Cycles without input or answers after which a unit sleeps.
QUIET_CYCLES = 10
# Of a unit's processor time.
SNAPSHOT_PART = 0.01
# Of what is kept of input: so much since the last snapshot asks for another one at once.
FILLED_PART = 0.25
# Idle streams are told of the time less and less often.
ADVANCE_GROWTH = 1.5
# What the answers to one tuple are taken to need in a log whose size the class says itself.
ANSWER_BYTES = 256
NEVER = float("inf")

Record = Callable[[Any, float, Sequence[Any]], None]
OpenRecord = Callable[[LoadManager], Record]


def made_for(declared: LiveClass) -> tuple[object, ...]:
    """Return the part of a declaration that doors and log are made for; the rest can change while the unit runs."""
    split = declared.shards, declared.key, declared.victim, declared.lossless, declared.holds_back
    return declared.name, *split, declared.limits.result_bytes


def said_of_queries(declared: LiveClass) -> tuple[object, ...]:
    """Return the queries of a declaration, with their streams and limits."""
    return dict(declared.queries), declared.streams, declared.limits


def not_recorded(manager: LoadManager) -> Record:
    return lambda event, now, commands: None


def lane_clock(part: float) -> Callable[[], float]:
    """Processor time of this thread, in seconds of a lane that has so much of its core."""
    return time.thread_time if part == 1 else lambda: time.thread_time() / part


@dataclass(slots=True)
class Idle:
    """A stream since its last input."""

    since: float
    pause_s: float
    due: float
    base: int | None = None
    """Its event time when it fell idle."""


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


@dataclass(eq=False)
class HostedUnit:
    """Made over what its log holds."""

    unit: Unit
    settings: LiveSettings
    dirs: RunDirs
    open_record: OpenRecord = not_recorded
    inbox: Inbox = field(init=False, default_factory=Inbox)
    hosted: HostedClass = field(init=False)
    intake: Intake = field(init=False)
    manager: LoadManager | None = field(init=False, default=None)
    asleep: bool = field(init=False, default=False)
    next_advance: float = field(init=False, default=NEVER)
    used_s: float = field(init=False, default=0.0)  # of the lane
    used_by_snapshots_s: float = field(init=False, default=0.0)
    _used_at_cycle: float = field(init=False, default=0.0)
    _ran_dry: bool = field(init=False, default=True)
    """Whether there was nothing to do for some of this load cycle."""
    snapshots: int = field(init=False, default=0)
    released: Mapping[str, int] = field(init=False, default_factory=dict)
    """By stream, the first batch that is still needed."""
    queries_moved: bool = field(init=False, default=False)
    """Whether other streams may be read than before."""

    def __post_init__(self) -> None:
        now = time.monotonic()
        self._cpu = lane_clock(self.settings.lane_part)
        limited = self.unit.declared.limits.result_bytes
        self._log = UnitLog(self.dirs.class_log(self.unit.name), limited or self.settings.results_bytes)
        self._schemas = schemas_of(self.unit.declared.streams)
        try:
            self._open(now)
        except BaseException:
            self._log.close()
            raise

    def _open(self, now: float) -> None:
        declared, found = self.unit.declared, self._log.found()
        is_new = found.snapshot is None and not found.commits
        runs_by = self.unit.runs_by
        begin = declared.model_copy(update={"plan": runs_by.plan} | ({} if is_new else {"queries": {}}))
        # What one more train adds to a commit should fit, too.
        self.hosted = HostedClass(begin, self._most_in_train(), self._log.frame_max / 2)
        self._readers: dict[str, Reader] = {}
        self._unwritten: Commit | None = None
        self._problem = ""
        self._taken: dict[str, int] = {}  # tuples by stream that have come out of the inbox
        self._feeds: dict[str, Feed] = {}  # by stream, where it comes from
        self._idle: dict[str, Idle] = {}
        self._late = LateShares()
        self._failing = FailureCounts()
        self._quiet = 0
        self._save_asked = self._advance_asked = False
        self._saved_at, self._snapshot_cost_s, self._used_at_save, self._bytes_at_save = now, 0.0, 0.0, 0
        self.reported: UnitReport | None = None  # last
        self._keep = 1.0
        self._cycles = 0
        self._counting = Counting(recovered=not is_new)
        self._held_back_at = -math.inf  # when input last waited outside for room
        self._held_back = False  # in this load cycle
        self._waited = False  # before a stream was left: whatever still waits has to be tried again
        self._noticed = Noticed(self.settings.load.cycle_ms / 1e3, self._most_in_train())
        self._worth = Worth(self.hosted.runner.scheduled.alone)
        if is_new:
            state = self.hosted.state()
            assert state is not None
            self._log.save(state)
        else:
            snapshot = found.snapshot
            self.hosted.recover(
                None if snapshot is None else bytes(snapshot.state), found.commits, self.fetch
            )
            self.hosted.set_plan(runs_by.plan)
            self.hosted.set_queries(declared.queries, declared.streams, declared.limits)
            self.hosted.set_windows(declared.windows)
        self._log.describe(self.hosted.queries.by_name)
        if runs_by.policy != declared.first_policy:
            self.hosted.runner.scheduled.switch(runs_by.policy)
        self._noticed.follow(declared.policy, self.hosted)
        self._set_manager()
        self.figures = Figures()
        name = self.unit.name
        self.intake = Intake(name, self.inbox, declared.holds_back, (self.unit.shard, declared.shards))
        self._reading: dict[str, StreamSchema] = {}
        more, _ = self.streams_changed() or ((), ())
        self.intake.feeds.update((feed.name, feed) for feed in more)
        self._account(now)
        self._begin_recent(now)
        self._tell_doors()
        self.hosted.wake(now)

    # -- what is declared -----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.unit.name

    def can_become(self, unit: Unit) -> bool:
        """Return True if it can be changed as it runs; otherwise it has to be made again over its log."""
        return made_for(unit.declared) == made_for(self.unit.declared)

    def become(self, unit: Unit) -> None:
        before, self.unit = self.unit, unit
        if (before.declared.graph, before.declared.utilities) != (
            unit.declared.graph,
            unit.declared.utilities,
        ):
            self.hosted.queries.value(unit.declared)
        if before.declared.weights != unit.declared.weights:
            self.hosted.queries.weigh(unit.declared)
            self._worth.begin(time.monotonic(), self.hosted.runner.answers.quality)
            self._noticed.weighed()
        self._set_train_max()
        self.hosted.set_plan(unit.runs_by.plan)
        if said_of_queries(before.declared) != said_of_queries(unit.declared):
            declared = unit.declared
            self.hosted.set_queries(declared.queries, declared.streams, declared.limits)
            self._commit()
        if before.declared.streams != unit.declared.streams:
            self._schemas = schemas_of(unit.declared.streams)
            # With a snapshot, recovery does not need frames of streams that are left: they may be dropped at once.
            self._save_asked = True
        if before.runs_by.policy != unit.runs_by.policy:
            self.hosted.runner.scheduled.switch(unit.runs_by.policy)
        self._noticed.follow(unit.declared.policy, self.hosted)
        self.hosted.set_windows(unit.declared.windows)
        limits = [
            (one.declared.delay_target_ms, one.declared.max_drop, one.declared.max_age_ms)
            for one in (before, unit)
        ]
        if limits[0] != limits[1]:
            self.hosted.times.set_target(unit.declared.delay_target_ms / 1e3)
            self._set_manager()
        elif self.manager is not None and (self.manager.share, self.manager.original_share) != (
            unit.share,
            unit.original,
        ):
            self._scale(unit.share / self.manager.share, unit.share, unit.original)

    def _most_in_train(self) -> int:
        """Return how many tuples one call of an operator takes at most."""
        declared, most = self.unit.declared, self.settings.train_max
        most = min(declared.train_max or most, most)
        if declared.limits.result_bytes is None:
            return most
        # What one train leads to should fit into a commit.
        return max(1, min(most, self._log.frame_max // 2 // ANSWER_BYTES))

    def _set_train_max(self) -> None:
        self.hosted.runner.train_max = self._noticed.train_max = self._most_in_train()

    def scale_headroom(self, factor: float, share: float, original: float) -> None:
        """The share has moved to this one, perhaps with what it was at first; told of twice, it is done once."""
        manager = self.manager
        if manager is not None and (manager.share, manager.original_share) != (share, original):
            self._scale(factor, share, original)

    def set_keep(self, keep: float) -> None:
        """What a manager for all has decided."""
        self._keep = keep
        self._tell_doors()

    def _scale(self, factor: float, share: float, original: float) -> None:
        assert self.manager is not None
        event, now = HeadroomScaled(self.name, factor, share, original), time.monotonic()
        self._record(event, now, self.manager.handle(event, now))

    def _set_manager(self) -> None:
        """It goes on from what the last one has come to, perhaps in another process with another share."""
        steered, shedding, unit = self._log.steered, sheds(self.settings.manager), self.unit
        if shedding == "everybody" and steered is not None:
            self._keep = steered.keep
        if shedding != "each":
            return
        named = unit.declared.model_copy(update={"name": unit.name})
        lanes = self.settings.lanes
        self.manager = load_manager(named, self.settings.load, unit.share, unit.original, lanes)
        if steered is not None and steered.headroom > 0:
            self.manager.resume(steered.headroom * unit.share / steered.share, steered.keep)
        self._keep = self.manager.control.keep
        self._record = self.open_record(self.manager)

    # -- input ------------------------------------------------------------------------------------------

    def streams_changed(self) -> tuple[list[Feed], list[str]] | None:
        """Return feeds of streams to read from now on, and streams to leave; a stream with other columns is in both.

        While steps are repeated, queries may run that the declaration no longer has. Their streams are not read, and neither are
        those without a position at the end of the steps: the class leaves them before, or begins with them afterwards.
        """
        self.queries_moved = False
        following = self.hosted.following()
        reads = {
            name: schema
            for schema in self.hosted.queries.streams()
            if self._schemas.get(name := schema.name.lower()) == schema
            and not (self.hosted.repeating and following[name] == Following())
        }
        before, self._reading = self._reading, reads
        was_whole, self.intake.is_whole = self.intake.is_whole, not self.hosted.repeating
        if reads == before and was_whole == self.intake.is_whole:
            return None
        less = sorted(name for name, schema in before.items() if reads.get(name) != schema)
        more = [
            self._feed(schema, following[name])
            for name, schema in reads.items()
            if before.get(name) != schema
        ]
        for name in less:
            self._idle.pop(name, None)
            self._feeds.pop(name, None)
        if less:
            # Input that waited may be that of a stream that was left; what waits of others is noticed again.
            self._waited, self.inbox.held_back = self.inbox.held_back, False
            self._held_back_at = -math.inf
        self._feeds |= {feed.name: feed for feed in more}
        return more, less

    def _feed(self, schema: StreamSchema, start: Following) -> Feed:
        declared, stream = self.unit.declared, schema.name.lower()
        shedder = Shedder(declared.victim, np.random.default_rng())
        key = None if declared.key is None else schema.schema.index(declared.key)
        shard = (self.unit.shard, declared.shards)
        most, lossless, holds_back = self.settings.queue_max, declared.lossless, declared.holds_back
        door = Door(
            stream=stream,
            shedder=shedder,
            queue_max=most,
            key=key,
            shard=shard,
            lossless=lossless,
            holds_back=holds_back,
        )
        if self.manager is not None and holds_back:
            # What a tuple costs is not known before the first load cycle.
            self.inbox.rooms = {stream: LEAST_ROOM, **self.inbox.rooms}
        return Feed(self.intake, door, self.dirs.stream(stream), start.batch, start.rows)

    def fetch(self, stream: str, number: int) -> Train | None:
        """A batch of the stream's log again; None if it is gone."""
        try:
            if stream not in self._readers:
                self._readers[stream] = Reader(self.dirs.stream(stream))
            found = next(self._readers[stream].frames(number), None)
        except (FrameForgotten, LogMissing):
            return None
        return None if found is None else batch_of(found[1])

    def _take(self, now: float) -> None:
        """What has come joins the class's queues."""
        inbox = self.inbox
        while inbox.begun:
            stream, batch, rows, feed = inbox.begun.popleft()
            if self._is_current(stream, feed):
                self.hosted.begin(stream, batch, rows)
        if not inbox.arrived:
            return
        if self.asleep:
            self.wake(now)
        for _ in range(len(inbox.arrived)):
            piece, upto, feed = inbox.arrived.popleft()
            if self._is_current(piece.stream, feed):
                self.hosted.take(piece, upto)
            self._taken[piece.stream] = self._taken.get(piece.stream, 0) + len(piece.train)
            self._idle.pop(piece.stream, None)
            inbox.pieces_gone += 1

    def _is_current(self, stream: str, feed: Feed | None) -> bool:
        """Return False for input of a feed that has been replaced or left."""
        return feed is None or self._feeds.get(stream) is feed

    def _account(self, now: float) -> None:
        """Tell the door how much has left the queue."""
        hosted, inbox = self.hosted, self.inbox
        for stream in self._reading:
            waiting = hosted.input.queued(stream) + (hosted.replay.held(stream) if hosted.repeating else 0)
            inbox.gone[stream] = self._taken.get(stream, 0) - waiting

    # -- slices -----------------------------------------------------------------------------------------

    def run(self, quota_s: float) -> tuple[float, bool]:
        """A slice; the processor time used, and whether there is more to do."""
        began = self._cpu()
        now = time.monotonic()
        self._take(now)
        if self._write():
            if self._advance_asked:
                self._advance(now)
            self._release(now)
            repeated = self.hosted.repeating
            # However long taking input took, a slice gets something done.
            left_s = max(quota_s - (self._cpu() - began), 1e-6)
            self.hosted.run(left_s, time.monotonic, self._cpu)
            self.queries_moved |= repeated and not self.hosted.repeating
            self._commit()
            if self._save_asked or self._is_save_due():
                self._save()
        self._account(now)
        used_s = self._cpu() - began
        self.used_s += used_s
        self._counting.slice_ended(quota_s, used_s)
        has_more = self.has_input()
        self._ran_dry |= not has_more
        return used_s, has_more

    def makes_room(self) -> bool:
        """Return True if input waits outside for room, of which there may be some after a slice."""
        waits = self.inbox.held_back
        if waits:
            self.inbox.held_back, self._held_back_at = False, time.monotonic()
            self._held_back = True
        waited, self._waited = self._waited, False
        return waits or waited

    def has_input(self) -> bool:
        """Whether a slice would have something to do."""
        return not self._unwritten and (bool(self.inbox.arrived) or self.hosted.has_input())

    @property
    def is_stuck(self) -> bool:
        """Whether the log has no room; nothing goes on before it has."""
        return self._unwritten is not None

    def wants_slice(self) -> bool:
        asked = self._save_asked or self._advance_asked or self._is_release_due(time.monotonic())
        return self.has_input() or self.is_stuck or asked

    @property
    def log_next(self) -> int:
        return self._log.next

    def _commit(self) -> None:
        """What has settled, as soon as what came before it is written."""
        if self._write():
            self._unwritten = self.hosted.committed()
            self._write()

    def _write(self) -> bool:
        """Whether everything that has settled is in the log."""
        if self._unwritten is None:
            return True
        steps = self._unwritten.steps
        added = {step.name for step in steps if isinstance(step, QueryAdded)}
        try:
            if added:
                self._log.describe(self.hosted.queries.by_name, added)
            self._log.append(self._unwritten)
        except LogFull as full:
            self._problem = str(full)
            return False
        if added or any(isinstance(step, QueryRemoved) for step in steps):
            self.queries_moved = True
        self._unwritten, self._problem = None, ""
        return True

    # -- snapshots --------------------------------------------------------------------------------------

    def _is_save_due(self) -> bool:
        if self.hosted.repeating:
            return False
        filled = self.inbox.bytes_in - self._bytes_at_save > FILLED_PART * self.settings.retained_bytes
        if filled or self._log.is_filling:
            return True
        if time.monotonic() - self._saved_at < self.settings.snapshot_s:
            return False
        return self.used_s - self._used_at_save > self._snapshot_cost_s / SNAPSHOT_PART

    def _save(self) -> None:
        began = self._cpu()
        state = self._settled_state()
        if state is not None:
            try:
                self._log.save(state)
            except LogFull as full:
                self._problem = str(full)
            else:
                self._problem = ""
                self.released = self.hosted.input.positions()
                self.snapshots += 1
        self._save_asked = False
        self._saved_at, self._bytes_at_save = time.monotonic(), self.inbox.bytes_in
        self._snapshot_cost_s = self._cpu() - began
        self._used_at_save = self.used_s + self._snapshot_cost_s
        self.used_by_snapshots_s += self._snapshot_cost_s

    def _settled_state(self) -> bytes | None:
        """With everything before it written down; None while that cannot be."""
        self.hosted.rest(time.monotonic)
        self._commit()
        return None if self._unwritten is not None else self.hosted.state()

    def close(self, at_rest: bool) -> int:
        """No more calls; `at_rest` with a last snapshot, which the log carries too. The log's next number."""
        try:
            if at_rest and not self.hosted.repeating:
                state = self._settled_state()
                if state is not None:
                    self._log.rest(state)
                    self._log.save(state)
            return self._log.next
        finally:
            self._log.close()

    def remove(self) -> None:
        """No more calls, and nothing stays."""
        self._log.remove()

    # -- the load cycle ---------------------------------------------------------------------------------

    def wake(self, now: float) -> None:
        """There is input again."""
        self.asleep = self.inbox.asleep = False
        self._quiet = 0
        # How fast it was before it slept is not recent.
        self._begin_recent(now)
        self.hosted.wake(now)

    def end_cycle(self, now: float) -> UnitReport | None:
        """None while the class does again what it had done."""
        self._take(now)
        self._account(now)
        cycle = self.hosted.end_cycle(now, self.used_s - self._used_at_cycle, self._ran_dry)
        cycle = replace(cycle, held_back=self._held_back or self.inbox.held_back)
        self._used_at_cycle, self._ran_dry, self._held_back = self.used_s, not self.has_input(), False
        self._measure(now)
        if self.hosted.repeating:
            return None
        self._noticed.cycle_ended(cycle, self._keep, self.hosted, now)
        usage, load, reclaim = self._decide(cycle, now)
        self._fall_asleep(cycle)
        self._worth.end_cycle(now, self.hosted.runner.answers.quality, self.asleep)
        self._look_for_idle(now)
        shown = cycle if sheds(self.settings.manager) == "everybody" else None
        accounts = self.ledger()
        ledgers = {stream: ledger for stream, (ledger, _) in accounts.items()}
        self._late_now = self._late.end_cycle(now, ledgers)
        failures = self._failing.end_cycle(now, self.hosted.runner, self.asleep)
        self._flow.end_cycle(now, ledgers)
        counted = self._counting.told(self.hosted, now, self._worth.queries)
        self.figures = self._figures(load, accounts, counted.queue_age_s, now)
        problems = self._problems()
        self.reported = UnitReport(
            unit=self.name,
            usage=usage,
            load=load,
            reclaim=reclaim,
            asleep=self.asleep,
            figures=self.figures,
            cycle=shown,
            accounts=accounts,
            problem="; ".join(f"{what}: {why}" for what, why in problems.items()),
            trouble=FAILING if self.inbox.problems or self._problem else "",
            counted=counted,
            failures=failures,
            at=now,
        )
        return self.reported

    def _decide(self, cycle: CycleEnded, now: float) -> tuple[float, float, bool]:
        """Usage, load, and whether capacity is asked back."""
        if self.manager is None:
            load = sum(input_.offered * input_.work_s for input_ in cycle.inputs) / max(cycle.cycle_s, 1e-9)
            self._tell_doors()
            return 0.0, load, False
        usage, load, reclaim = 0.0, 0.0, False
        commands = self.manager.handle(cycle, now)
        self._record(cycle, now, commands)
        for command in commands:
            match command:
                case ReportUsage(usage, load):
                    pass
                case RequestReclaim():
                    reclaim = True
                case TrimQueue(part) if not self.unit.declared.lossless:
                    self.hosted.input.trim(part)
                    self._account(now)
                case DropOlder(age_s) if not self.unit.declared.lossless:
                    self._counting.expired += self.hosted.input.drop_older(age_s, now)
                    self._account(now)
                case HoldBack(rooms):
                    self.inbox.rooms = rooms
        self._counting.decided(self.manager.explanations[-1], reclaim, cycle.cycle_s)
        self._keep = self.manager.control.keep
        self._tell_doors()
        return usage, load, reclaim

    def _tell_doors(self) -> None:
        self._cycles += 1
        self.inbox.keep = (self._cycles, self._keep)
        manager = self.manager
        headroom, share = (0.0, 1.0) if manager is None else (manager.control.headroom, manager.share)
        self._log.steer(Steered(self._keep, headroom, share))

    def _fall_asleep(self, cycle: CycleEnded) -> None:
        moved = any(input_.offered for input_ in cycle.inputs) or any(
            output.results for output in cycle.outputs
        )
        waits = self.has_input() or self.hosted.overdue(time.monotonic())
        busy = moved or waits or self.is_stuck or self._keep < 1
        self._quiet = 0 if busy else self._quiet + 1
        if self._quiet < QUIET_CYCLES:
            return
        self.asleep = self.inbox.asleep = True
        if self.inbox.arrived:  # since, and its sender thought it was awake
            self.wake(time.monotonic())
        elif self._log.bytes_since:
            # What it has not released is kept for it as long as it sleeps.
            self._save_asked = True

    # -- lookups that wait --------------------------------------------------------------------------------

    def _is_release_due(self, now: float) -> bool:
        """Return True if lookups have waited for the other stream for as long as they may."""
        return self.hosted.overdue(now - self.settings.lookup_wait_s)

    def _release(self, now: float) -> None:
        if self._is_release_due(now):
            self.hosted.rest(time.monotonic)
            self.hosted.release(now - self.settings.lookup_wait_s, now)

    # -- event time of idle streams -----------------------------------------------------------------------

    def _look_for_idle(self, now: float) -> None:
        """When a stream is to be told of the time next."""
        after_s = self.settings.idle_after_s
        self.next_advance = NEVER
        if after_s is None or not any(
            holding.state for holding in self.hosted.runner.network.account.holdings.values()
        ):
            return
        for stream in self._reading:
            if self.hosted.queries.event_time(stream) is None:
                continue
            if stream not in self._idle:
                self._idle[stream] = Idle(now, after_s, now + after_s)
            self.next_advance = min(self.next_advance, self._idle[stream].due)

    def ask_advance(self) -> None:
        """In the next slice."""
        self._advance_asked = True
        self.next_advance = NEVER

    def _advance(self, now: float) -> None:
        self._advance_asked = False
        hosted, after_s = self.hosted, self.settings.idle_after_s or 0.0
        for stream, idle in self._idle.items():
            latest = hosted.queries.event_time(stream)
            if now < idle.due or latest is None or hosted.input.queued(stream) or hosted.repeating:
                continue
            if idle.base is None:
                idle.base = latest
            # Behind the clock by what a pause may last: who goes on after a shorter one is not late.
            gone_us = 1e6 * (self._nothing_came_until(stream, now) - idle.since - after_s)
            if gone_us <= 0:
                # Its feed is down, starting, or in the middle of a batch: what it brings then is not late.
                idle.due = now + idle.pause_s
                continue
            hosted.rest(time.monotonic)
            hosted.advance(
                stream, idle.base + int(gone_us / hosted.queries.schemas[stream].time_unit_us), now
            )
            idle.pause_s *= ADVANCE_GROWTH
            idle.due = now + idle.pause_s
        self._look_for_idle(now)

    def _nothing_came_until(self, stream: str, now: float) -> float:
        """Return the moment up to which it is known that the stream had no more rows."""
        if stream not in map(str.lower, self.unit.declared.fed):
            return now
        return min(now, self.inbox.caught_up.get(stream, -NEVER))

    # -- what people see ----------------------------------------------------------------------------------

    def ledger(self) -> dict[str, Account]:
        """Return by stream the account and what is queued, which closes; also of streams that are not read any more."""
        return self.hosted.input.accounts()

    def explanations(self, last: int) -> tuple[Explanation, ...]:
        """The last decisions of its load manager."""
        if self.manager is None or last <= 0:
            return ()
        return tuple(self.manager.explanations)[-last:]

    def plan(self) -> list[Line]:
        return explain(self.hosted.runner)

    def noticed(self) -> UnitNow | None:
        """What the class's policy is chosen from, since it was asked for last; None if the class says it."""
        share = self.unit.share * self.settings.lanes
        if self.manager is not None:
            share = max(self.manager.control.headroom, self.manager.share * self.settings.lanes)
        return self._noticed.now(self.hosted, min(1.0, share))

    def status(self) -> UnitStatus:
        hosted = self.hosted
        return UnitStatus(
            unit=self.name,
            figures=self.figures,
            asleep=self.asleep,
            repeating=hosted.repeating,
            mismatches=tuple(hosted.replay.mismatches),
            lost_answers=self._log.lost_answers,
            problems=self._problems(),
        )

    def _problems(self) -> dict[str, str]:
        found = dict(self.inbox.problems) | ({"log": self._problem} if self._problem else {})
        found |= {f"query {name}": why for name, why in self.hosted.queries.refused.items()}
        # Who chooses plans by himself knows what each query can run by.
        if self.unit.choice is None and (kept := self.hosted.exchanges.kept):
            name, why = next(iter(kept.items()))
            others = f" and {len(kept) - 1:,} others" if len(kept) > 1 else ""
            found["plan"] = f"{name}{others} will run by it when removed and added again ({why})"
        return found

    def _measure(self, now: float) -> None:
        if self._recent.end_cycle(now, self._answered(), self.hosted.times.recent):
            self.hosted.times.begin_recent()

    def _begin_recent(self, now: float) -> None:
        self._recent = Recent(now, self._answered())
        self._flow = RecentFlow(now, {stream: ledger for stream, (ledger, _) in self.ledger().items()})
        self._worth.begin(now, self.hosted.runner.answers.quality)
        self.hosted.times.begin_recent()

    def _answered(self) -> int:
        return self.hosted.queries.answers

    def _figures(
        self, load: float, accounts: Mapping[str, Account], queue_age_s: float, now: float
    ) -> Figures:
        hosted, total, queued = self.hosted, TupleLedger(), 0
        for ledger, waiting in accounts.values():
            total += ledger
            queued += waiting
        account, recent, worth = hosted.runner.network.account, self._recent.figures, self._worth.figures
        return Figures(
            headroom=0.0 if self.manager is None else self.manager.control.headroom,
            load=load,
            keep=self._keep,
            queued=queued,
            results=self._answered(),
            # Nobody will measure again before there is input.
            results_per_s=0.0 if self.asleep else recent.results_per_s,
            mean_ms=recent.mean_ms,
            p50_ms=recent.p50_ms,
            p95_ms=recent.p95_ms,
            p99_ms=recent.p99_ms,
            offered=total.offered,
            delivered=total.delivered,
            shed=total.shed,
            late=total.late,
            rejected=total.rejected,
            failed=total.failed,
            state_bytes=account.state + account.queued,
            ingest_s=self.inbox.used_s,
            used_s=self.used_s,
            within_target_pct=hosted.times.total.target_met_pct(),
            response_ms=hosted.times.total.response_ms(),
            utility=worth.utility,
            slowdown=worth.slowdown,
            staleness=worth.staleness,
            tardiness=worth.tardiness,
            slowdown_now=0.0 if self.asleep else worth.slowdown_now,
            utility_now=1.0 if self.asleep else worth.utility_now,
            missed_now=0.0 if self.asleep else worth.missed_now,
            staleness_now=0.0 if self.asleep else worth.staleness_now,
            tardy_now=0.0 if self.asleep else worth.tardy_now,
            queue_bytes=account.queued,
            late_now=self._late_now,
            queue_age_s=queue_age_s,
            shed_now=0.0 if self.asleep else self._flow.shed,
            taken_per_s=0.0 if self.asleep else self._flow.taken_per_s,
            # A class without turns does not look whether there is room: its input still waits.
            held_back=int(self.inbox.held_back or now - self._held_back_at < RECENT_S),
        )
