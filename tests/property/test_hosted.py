"""A class in its host: after a crash at any moment, committed work is repeated exactly, and the ledger closes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from configs.classes.live_class import LiveClass
from configs.classes.plans import PlanSettings
from configs.classes.policies import POLICY_KINDS, policy_of
from configs.classes.priority_class import Victim
from configs.classes.window_settings import WindowSettings
from engine.class_.door import Door, Piece, both, packed, turned_away, unpacked
from engine.class_.hosted_class import HostedClass
from engine.class_.input_account import FROM_NOW
from engine.class_.steps import Commit, Interrupted, Opened
from engine.data.shards import shard_places
from engine.data.train import Train, Values, same_arrival, values_to_arrow
from loadshed.shedder import Shedder

STREAMS = (
    "CREATE STREAM readings (ts int64, sensor int32, temp float64, WATERMARK FOR ts AS ts)",
    "CREATE STREAM alerts (ts int64, sensor int32, level int32, WATERMARK FOR ts AS ts)",
)
QUERIES = {
    "hot": "SELECT ts, sensor, temp FROM readings WHERE temp > 0",
    "mean": "SELECT window_end AS wend, sensor, AVG(temp) AS v FROM readings [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY sensor",
    "last": "SELECT COUNT(*) AS n, MAX(temp) AS hi FROM readings [ROWS 5 SLIDE 3]",
    "near": "SELECT r.ts AS rts, a.ts AS ats, r.sensor, r.temp, a.level FROM readings r JOIN alerts a ON r.sensor = a.sensor"
    " AND a.ts BETWEEN r.ts - INTERVAL 500 MILLISECONDS AND r.ts + INTERVAL 500 MILLISECONDS",
    "looked": "SELECT r.ts AS rts, r.temp, a.level FROM readings r LEFT JOIN alerts [LAST BY sensor] a ON r.sensor = a.sensor",
    "many": "SELECT window_end AS wend, COUNT(*) AS n FROM hot [RANGE 2 SECONDS] GROUP BY window_end",
}
EVERY_POLICY = [(kind, 0) for kind in POLICY_KINDS] + [("bsd", 4)]
QUERIES["early"] = (
    "SELECT window_end AS wend, MAX(temp) AS hi, APPROX_COUNT_DISTINCT(temp) AS some, APPROX_QUANTILE(temp, 0.5) AS middle,"
    " APPROX_TOP_K(temp, 2) AS often FROM readings [RANGE 6 SECONDS SLIDE AT MOST 3 SECONDS]"
)
QUERIES["earlier"] = (
    "SELECT window_end AS wend, SUM(temp) AS t FROM readings [RANGE 4 SECONDS SLIDE AT MOST 2 SECONDS]"
)
QUERIES["many"] = "SELECT window_end AS wend, COUNT(*) AS n FROM hot [RANGE 2 SECONDS]"


def declared(**changes: object) -> LiveClass:
    return LiveClass.model_validate(
        {"name": "gold", "priority": 6, "delay_target_ms": 300, "streams": STREAMS, "queries": QUERIES}
        | changes
    )


PAIRED = QUERIES | {
    "pairs": "SELECT r.ts AS rts, r.sensor, r.temp, a.level FROM readings r JOIN alerts a ON r.sensor = a.sensor"
    " AND a.ts BETWEEN r.ts - INTERVAL 1 SECOND AND r.ts + INTERVAL 2 SECONDS WHERE r.temp > 0 AND a.level < 4",
    "paired": "SELECT window_end AS wend, level, COUNT(*) AS n FROM pairs [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY level",
    "meet": "SELECT r.temp, a.level FROM readings [RANGE 2 SECONDS] r JOIN alerts [RANGE 1 SECOND] a ON r.sensor = a.sensor"
    " WHERE r.temp < 1",
    "over": "SELECT window_end AS wend2, MAX(v) AS v FROM (SELECT wend, v FROM mean WHERE v > -1) [RANGE 6 SECONDS]",
    "both": "SELECT window_end AS wend3, COUNT(*) AS n FROM (SELECT ts, sensor FROM readings UNION ALL SELECT ts, sensor"
    " FROM alerts) [RANGE 2 SECONDS]",
}
PLANS = [
    PlanSettings(select_first=first, shared=shared) for first in (True, False) for shared in (True, False)
]


@dataclass
class Input:
    """Batches of both streams, in order of arrival."""

    batches: dict[str, list[Train]] = field(default_factory=lambda: {"readings": [], "alerts": []})
    order: list[tuple[str, int]] = field(default_factory=list)

    forgotten: Counter[str] = field(default_factory=Counter)  # Number of the first stored batch, by stream

    def fetch(self, stream: str, number: int) -> Train | None:
        if number < self.forgotten[stream]:
            return None
        batch = self.batches[stream][number]
        return Train(batch.columns, batch.arrival)

    def rows(self, stream: str, number: int) -> int:
        """Return the number of rows in all batches before batch `number`."""
        return sum(map(len, self.batches[stream][:number]))


def drawn(seed: int, batches: int) -> Input:
    chance, given, clock = np.random.default_rng(seed), Input(), 0
    schemas = {schema.name: schema for schema in HostedClass(declared(), 100).queries.schemas.values()}
    for arrival in range(batches):
        stream = "readings" if chance.random() < 0.7 else "alerts"
        size = int(chance.integers(1, 30))
        times = clock + np.sort(chance.integers(0, 1500, size))
        clock += int(chance.integers(0, 1500))
        sensor = chance.integers(0, 4, size).astype(np.int32)
        last = (
            chance.integers(-8, 8, size) / 4
            if stream == "readings"
            else chance.integers(1, 5, size).astype(np.int32)
        )
        columns = tuple(
            Values(one.type, np.asarray(data))
            for one, data in zip(schemas[stream].schema.fields, (times, sensor, last), strict=True)
        )
        given.order.append((stream, len(given.batches[stream])))
        given.batches[stream].append(Train(columns, same_arrival(float(arrival), size)))
    return given


@dataclass
class Host:
    """Host with one class. The commits of the class and its last saved state survive a crash."""

    given: Input
    chance: np.random.Generator
    keep: float = 1.0
    victim: Victim = "random"
    train_max: int = 7
    queue_max: int = 10**6
    answers_max: float = math.inf
    windows: WindowSettings = field(default_factory=WindowSettings)
    queries: Mapping[str, str] = field(default_factory=lambda: QUERIES)
    plan: PlanSettings = PLANS[0]
    commits: list[Commit] = field(default_factory=list)
    since_state: list[Commit] = field(default_factory=list)
    state: bytes | None = None

    def start(self) -> None:
        self.hosted = HostedClass(
            declared(victim=self.victim, windows=self.windows, queries=self.queries, plan=self.plan),
            self.train_max,
            self.answers_max,
        )
        self.doors = {
            name: Door(name, Shedder(self.victim, self.generator()), self.queue_max)
            for name in self.given.batches
        }
        for door in self.doors.values():
            door.set_keep(self.keep)

    def generator(self) -> np.random.Generator:
        return np.random.default_rng(int(self.chance.integers(2**32)))

    def begin(self) -> None:
        self.start()
        for stream in self.given.batches:
            self.hosted.begin(stream, 0, 0)
        self.state = self.hosted.state()

    def crash(self) -> None:
        self.start()
        self.hosted.recover(self.state, self.since_state, self.given.fetch)

    def read(self, arrived: int) -> None:
        """Ingest the first `arrived` batches, except those that were read before."""
        following = self.hosted.following()
        for stream, number in self.given.order[:arrived]:
            if stream in following and number >= following[stream].batch:
                self._read(stream, number, self.given.rows(stream, number + 1))

    def _read(self, stream: str, number: int, upto: int) -> None:
        """Read one batch. Earlier rows that were not read and are no longer stored count as failed."""
        batch, (following, rows) = self.given.fetch(stream, number), self.hosted.following()[stream]
        if batch is None:
            return
        before = upto - len(batch)
        if rows is not None and number > following:
            self.hosted.take(turned_away(stream, number - 1, failed=before - rows), before)
        self.hosted.take(self.doors[stream].admit(number, batch, self.hosted.input.queued(stream)), upto)

    def work(self, steps: int) -> None:
        """Run a slice with the given number of operator calls."""
        at = iter(range(10**9))
        self.hosted.run(float(steps), lambda: 1000.0, lambda: float(next(at)))
        self.commit()

    def commit(self) -> None:
        commit = self.hosted.committed()
        if commit is not None:
            self.commits.append(commit)
            self.since_state.append(commit)

    def save(self) -> None:
        state = self.hosted.state()
        if state is not None:
            self.state, self.since_state = state, []

    def happen(self, event: str, arrived: int) -> None:
        match event:
            case "read":
                self.read(arrived)
            case "work":
                self.work(5)
            case "save":
                self.save()
            case "crash":
                self.crash()

    def finish(self) -> None:
        self.read(len(self.given.order))
        while self.hosted.has_input():
            self.work(1000)

    def check(self) -> None:
        assert not self.hosted.replay.mismatches
        for stream in self.given.batches:
            ledger = self.hosted.input.ledger(stream)
            assert ledger.closes(self.hosted.input.queued(stream)), (
                stream,
                ledger,
                self.hosted.input.queued(stream),
            )


def answers(commits: list[Commit]) -> dict[str, list[tuple[int, tuple[object, ...]]]]:
    """Return all answer rows of each query, each with its sequence number."""
    found: dict[str, list[tuple[int, tuple[object, ...]]]] = {}
    for commit in commits:
        for answer in commit.answers:
            rows = zip(*(values_to_arrow(one).to_pylist() for one in answer.train.columns), strict=True)
            found.setdefault(answer.query, []).extend(
                (answer.first + place, (*row, answer.train.kept)) for place, row in enumerate(rows)
            )
    return found


def whole(given: Input, seed: int, **changes: Any) -> Host:
    host = Host(given, np.random.default_rng(seed), **changes)
    host.begin()
    host.finish()
    return host


def events(seed: int) -> Iterator[str]:
    chance = np.random.default_rng(seed)
    while True:
        yield chance.choice(["work", "work", "work", "read", "crash", "save"])


def lived(host: Host, course: int, length: int) -> Iterator[str]:
    """Run random events on a host. Before each read of the host, two more batches arrive."""
    arrived = 0
    for event in islice(events(course), length):
        if event == "read":
            arrived = min(arrived + 2, len(host.given.order))
        host.happen(event, arrived)
        yield event


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 2**32), st.integers(1, 40))
def test_a_class_killed_at_any_moment_gives_the_same_answers(seed: int, course: int, batches: int) -> None:
    given_ = drawn(seed, batches)
    undisturbed = answers(whole(given_, seed).commits)
    host = Host(given_, np.random.default_rng(seed))
    host.begin()
    for _ in lived(host, course, 3 * batches):
        host.check()
    host.finish()
    host.check()
    found = answers(host.commits)
    assert {query: Counter(row for _, row in rows) for query, rows in found.items()} == {
        query: Counter(row for _, row in rows) for query, rows in undisturbed.items()
    }
    for rows in found.values():
        assert [seq for seq, _ in rows] == list(range(len(rows)))


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(0, 2**32),
    st.lists(st.sampled_from(EVERY_POLICY), min_size=1, max_size=5),
    st.lists(st.dictionaries(st.sampled_from(sorted(QUERIES)), st.sampled_from([0.001, 7.0])), min_size=1),
    st.integers(1, 9),
)
def test_policy_and_weight_changes_at_any_moment_change_no_answer(
    seed: int, course: int, policies: list[tuple[str, int]], weights: list[dict[str, float]], calls: int
) -> None:
    given_ = drawn(seed, 12)
    undisturbed = answers(whole(given_, seed).commits)
    host, others, weighed = Host(given_, np.random.default_rng(seed)), cycle(policies), cycle(weights)
    host.begin()
    for _ in lived(host, course, 30):
        # Most changes of policy and weights come in the middle of a slice, while trains are queued inside the network.
        host.work(calls)
        host.hosted.runner.scheduled.switch(policy_of(*next(others)))
        host.hosted.queries.weigh(declared().model_copy(update={"weights": next(weighed)}))
        host.check()
    host.finish()
    host.check()
    found = answers(host.commits)
    assert {query: Counter(row for _, row in rows) for query, rows in found.items()} == {
        query: Counter(row for _, row in rows) for query, rows in undisturbed.items()
    }
    for rows in found.values():
        assert [seq for seq, _ in rows] == list(range(len(rows)))


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(0, 2**32),
    st.lists(st.tuples(st.sampled_from(PLANS), st.integers(1, 25)), min_size=1, max_size=4),
    st.integers(10, 40),
)
def test_plan_changes_at_any_moment_change_no_answer(
    seed: int, course: int, changes: list[tuple[PlanSettings, int]], batches: int
) -> None:
    given_ = drawn(seed, batches)
    undisturbed = answers(whole(given_, seed, queries=PAIRED, plan=changes[-1][0]).commits)
    host = Host(given_, np.random.default_rng(seed), queries=PAIRED, plan=changes[-1][0])
    host.begin()
    events_ = lived(host, course, 3 * batches)
    for plan, length in changes:
        for _ in islice(events_, length):
            host.check()
        host.hosted.set_plan(plan)
        host.work(3)
    for _ in events_:
        host.check()
    host.finish()
    host.check()
    found = answers(host.commits)
    assert {query: Counter(row for _, row in rows) for query, rows in found.items()} == {
        query: Counter(row for _, row in rows) for query, rows in undisturbed.items()
    }
    for rows in found.values():
        assert [seq for seq, _ in rows] == list(range(len(rows)))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(0, 2**32),
    st.sampled_from(["random", "oldest", "newest"]),
    st.sampled_from([0.05, 0.3, 0.9]),
)
def test_shed_tuples_stay_shed_and_the_ledger_closes_after_a_crash(
    seed: int, course: int, victim: Victim, keep: float
) -> None:
    given_ = drawn(seed, 25)
    host = Host(given_, np.random.default_rng(seed), keep, victim, queue_max=60)
    host.begin()
    for _ in lived(host, course, 60):
        host.check()
    host.finish()
    host.check()
    offered = {stream: sum(map(len, batches)) for stream, batches in given_.batches.items()}
    assert {stream: host.hosted.input.ledger(stream).offered for stream in offered} == offered


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 2**32), st.sampled_from([1.0, 0.4]))
def test_every_row_has_a_fate_although_the_log_forgot_batches_that_were_not_yet_read(
    seed: int, course: int, keep: float
) -> None:
    given_, chance = drawn(seed, 40), np.random.default_rng(course)
    host, arrived = Host(given_, np.random.default_rng(seed), keep), 0
    host.begin()
    for event in islice(events(course), 100):
        host.happen(event, arrived)
        arrived = min(arrived + int(chance.integers(0, 3)), 38)
        for stream, number in given_.order[:arrived]:
            if chance.random() < 0.05:
                given_.forgotten[stream] = max(number, given_.forgotten[stream])
        for stream in given_.batches:
            assert host.hosted.input.ledger(stream).closes(host.hosted.input.queued(stream))
    host.finish()
    for stream, batches in given_.batches.items():
        ledger = host.hosted.input.ledger(stream)
        assert ledger.closes(host.hosted.input.queued(stream))
        assert ledger.offered == sum(map(len, batches)), stream


def test_an_answer_is_committed_only_with_all_steps_that_led_to_it() -> None:
    host = Host(drawn(5, 20), np.random.default_rng(1), train_max=100)
    host.begin()
    host.read(20)
    # The slice ends while a train is still queued.
    host.hosted.run(1.0, lambda: 0.0, iter(range(100)).__next__)
    assert host.hosted.committed() is None


def test_after_a_crash_only_answers_that_an_interrupted_slice_did_not_commit_are_emitted() -> None:
    host = Host(drawn(5, 20), np.random.default_rng(1), train_max=100)
    undisturbed = answers(whole(host.given, 1, train_max=100).commits)
    host.begin()
    host.read(20)
    while not (host.commits and Interrupted() in host.commits[-1].steps):
        host.work(1)
    *_, last = host.commits
    assert last.answers
    host.crash()
    host.work(1000)
    # After the crash, only the uncommitted answers are emitted, from repeated steps. Only these answers are measured.
    rest = host.commits[-1]
    assert rest.answers
    assert not rest.steps
    assert {one.first for one in rest.answers} <= set(last.answered.values())
    measured = {query for query, one in host.hosted.runner.answers.quality.items() if one.has_answers}
    assert measured == {one.query for one in rest.answers}
    host.finish()
    host.check()
    found = answers(host.commits)
    assert {query: Counter(rows) for query, rows in found.items()} == {
        query: Counter(rows) for query, rows in undisturbed.items()
    }


def test_queries_added_and_removed_survive_a_crash() -> None:
    host = Host(drawn(9, 30), np.random.default_rng(2))
    host.begin()
    host.read(10)
    host.work(3)
    host.hosted.add_query("cold", "SELECT ts, temp FROM readings WHERE temp < 0")
    host.hosted.remove_query("last")
    host.work(1000)
    host.read(20)
    host.work(1000)
    host.crash()
    host.finish()
    found = answers(host.commits)
    assert "cold" in found
    assert set(host.hosted.queries.by_name) == {*QUERIES, "cold"} - {"last"}
    host.check()


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
# In this example, windows that are added together are computed in another way than windows that are added one by one.
@example(9, 11)
def test_changes_of_queries_window_settings_and_plans_are_repeated_after_crashes(
    seed: int, course: int
) -> None:
    host = Host(drawn(seed, 30), np.random.default_rng(seed))
    host.begin()
    chance = np.random.default_rng(course)
    kept, windows, plan = QUERIES, WINDOWS[0], PLANS[0]
    for event in lived(host, course, 60):
        match event:
            case "save":
                kept = {name: sql for name, sql in VARIED.items() if chance.random() < 0.6}
                host.hosted.set_queries(kept)
                windows = WINDOWS[int(chance.integers(len(WINDOWS)))]
                host.hosted.set_windows(windows)
                plan = PLANS[int(chance.integers(len(PLANS)))]
                host.hosted.set_plan(plan)
            case "crash":
                host.hosted.set_plan(plan)
                host.hosted.set_queries(kept)
                host.hosted.set_windows(windows)
        for stream in host.hosted.following():
            assert host.hosted.input.ledger(stream).closes(host.hosted.input.queued(stream))
    while host.hosted.has_input():
        host.work(1000)
    assert {name: one.sql for name, one in host.hosted.queries.by_name.items()} == kept
    assert (host.hosted.runner.network.windows, host.hosted.runner.network.plan) == (windows, plan)
    assert not host.hosted.replay.mismatches


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 2**32), st.integers(0, 3))
def test_windows_that_ran_late_have_the_same_ends_when_steps_are_repeated_after_a_crash(
    seed: int, course: int, mode: int
) -> None:
    host = Host(drawn(seed, 40), np.random.default_rng(seed), train_max=100, windows=WINDOWS[mode])
    host.begin()
    begun = host.state
    for _ in lived(host, course, 40):
        host.hosted.set_windows(WINDOWS[mode])
    host.finish()
    again = HostedClass(declared(windows=WINDOWS[mode]), 100)
    again.recover(begun, host.commits, host.given.fetch)
    again.run(math.inf, lambda: 0.0, lambda: 0.0)
    assert not again.replay.mismatches
    assert not again.repeating
    for one in (again, host.hosted):
        one.rest(lambda: 0.0)
    ends = [
        {
            name: node.operator.snapshot()
            for node in one.runner.network.nodes
            for name in node.users
            if "window" in node.name
        }
        for one in (again, host.hosted)
    ]
    assert ends[0] == ends[1]
    assert ends[0]


WINDOWS = [
    WindowSettings(),
    WindowSettings(late="late"),
    WindowSettings(schedule="aggressive", late="late-pending"),
    WindowSettings(schedule="none", late="late"),
]
VARIED = {
    "early": QUERIES["early"],
    "earlier": QUERIES["earlier"],
    "hot": "SELECT ts, sensor, temp FROM readings WHERE temp > 1",
    "mean": QUERIES["mean"],
    "last": QUERIES["last"],
    "level": "SELECT ts, level FROM alerts WHERE level > 1",
    "short": "SELECT window_end AS wend, sensor, AVG(temp) AS v FROM readings [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY sensor",
}


def test_a_clock_advance_is_committed_together_with_its_answers() -> None:
    host = Host(drawn(5, 20), np.random.default_rng(1), train_max=100)
    host.begin()
    host.read(20)
    host.work(1000)
    latest = host.hosted.queries.event_time("readings")
    assert latest is not None
    host.hosted.advance("readings", latest + 60_000, 20.0)
    assert host.hosted.committed() is None
    host.hosted.run(1.0, lambda: 20.0, lambda: 0.0)
    commit = host.hosted.committed()
    assert commit is not None
    assert {answer.query for answer in commit.answers} >= {"mean"}


def test_overdue_lookups_have_the_same_answers_when_steps_are_repeated_after_a_crash() -> None:
    host = Host(drawn(5, 20), np.random.default_rng(1), train_max=100)
    host.begin()
    host.read(20)
    host.work(1000)
    assert host.hosted.overdue(20.0)
    host.hosted.release(20.0, 21.0)
    host.work(1000)
    assert not host.hosted.overdue(20.0)
    released = answers(host.commits)["looked"]
    host.crash()
    host.finish()
    host.check()
    assert (answers(host.commits)["looked"], host.hosted.overdue(20.0)) == (released, False)
    readings = sum(map(len, host.given.batches["readings"])) - host.hosted.input.ledger("readings").late
    assert len(released) == readings


def test_rows_missing_after_the_start_position_of_a_stream_count_as_failed() -> None:
    hosted = HostedClass(declared(), 100)
    assert hosted.following() == {"readings": (FROM_NOW, None), "alerts": (FROM_NOW, None)}
    hosted.begin("readings", 7, 100)
    hosted.begin("readings", 9, 100)
    assert hosted.following()["readings"] == (7, 100)
    hosted.take(turned_away("readings", 8, failed=5), 105)
    hosted.take(turned_away("readings", 9, rejected=3), 108)
    assert hosted.following() == {"readings": (10, 108), "alerts": (FROM_NOW, None)}
    ledger = hosted.input.ledger("readings")
    assert (ledger.offered, ledger.failed, ledger.rejected) == (8, 5, 3)
    assert ledger.closes(hosted.input.queued("readings"))
    hosted.take(turned_away("unknown", 1, rejected=3))


def test_no_stream_of_a_join_runs_ahead_of_the_other_streams_by_more_than_a_train() -> None:
    host = Host(drawn(5, 60), np.random.default_rng(1), train_max=100)
    host.begin()
    host.read(60)
    host.work(100_000)
    opened = [step for one in host.commits for step in one.steps if isinstance(step, Opened)]
    waiting, ahead = list(host.given.order), {}
    for step in opened:
        batch = (step.stream, step.batch)
        ahead[batch] = step.offered - step.shed - step.rejected
        while waiting and waiting[0] in ahead:
            del ahead[waiting.pop(0)]
        assert sum(ahead.values()) <= 100
    assert not waiting


def test_a_slice_ends_when_uncommitted_answers_reach_their_limit() -> None:
    sizes: list[list[int]] = []
    for most in (math.inf, 100.0):
        host = Host(drawn(5, 60), np.random.default_rng(1), answers_max=most)
        host.begin()
        host.read(60)
        commits = []
        while host.hosted.has_input():
            host.hosted.run(1e9, lambda: 60.0, lambda: 0.0)
            commits.append(host.hosted.committed())
        sizes.append([sum(len(one.train) for one in each.answers) for each in commits if each is not None])
    (all_at_once,), in_parts = sizes
    assert sum(in_parts) == all_at_once
    assert len(in_parts) > 10
    assert max(in_parts) < all_at_once / 5


@given(st.integers(1, 5), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=50))
def test_every_tuple_belongs_to_one_shard_and_equal_keys_to_the_same_shard(
    shards: int, sensors: list[int]
) -> None:
    schema = HostedClass(declared(), 100).queries.schemas["alerts"].schema
    data = np.array(sensors, np.int32)
    columns = tuple(Values(one.type, data.astype(one.type.numpy)) for one in schema.fields)
    train = Train(columns, same_arrival(0.0, len(data)))
    parts = [shard_places(train, 1, shard, shards) for shard in range(shards)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(data)))
    again = {int(sensor) for part in parts[:1] for sensor in data[part]}
    assert not again & {int(sensor) for part in parts[1:] for sensor in data[part]}


@given(st.lists(st.booleans(), max_size=40))
def test_positions_of_accepted_tuples_are_unchanged_after_packing_and_unpacking(chosen: list[bool]) -> None:
    places = np.flatnonzero(np.array(chosen, bool))
    found = unpacked(packed(places, len(chosen)), len(chosen))
    assert found is not None
    assert np.array_equal(found, places)
    assert both(None, None) is None


@pytest.mark.parametrize("lossless", [False, True])
def test_a_full_queue_rejects_the_newest_tuples_unless_the_class_holds_back_input(lossless: bool) -> None:
    given_ = drawn(3, 10)
    batch = given_.batches["readings"][0]

    def admitted(holds_back: bool) -> Piece:
        shedder = Shedder("random", np.random.default_rng(0))
        door = Door("readings", shedder, 5, lossless=lossless, holds_back=holds_back)
        return door.admit(0, Train(batch.columns, batch.arrival), queued=3)

    piece = admitted(holds_back=True)
    assert (len(piece.train), piece.rejected, piece.mask) == (len(batch), 0, None)
    piece = admitted(holds_back=False)
    assert (len(piece.train), piece.rejected) == (2, len(batch) - 2)


def test_a_class_with_shards_must_name_a_key() -> None:
    with pytest.raises(
        ValueError, match="the class has several shards, but no key column to split its tuples by"
    ):
        declared(shards=2)


@pytest.mark.parametrize("times", [0.5, 1.0, 3.0])
def test_the_reported_cost_of_tuples_follows_the_processor_time_used(times: float) -> None:
    host = Host(drawn(11, 30), np.random.default_rng(4), train_max=100)
    host.begin()
    reported = []
    for arrived in range(1, 31):
        host.read(arrived)
        ticks = (1e-3 * tick for tick in range(10**9))
        used_s = host.hosted.run(1e9, lambda: 1.0, ticks.__next__)
        cycle = host.hosted.end_cycle(float(arrived), times * used_s)
        reported.append(sum(one.offered * one.work_s for one in cycle.inputs) / (times * used_s))
    # The tolerance is wide, because the costs are smoothed over load cycles with different batches.
    assert 0.5 < np.mean(reported[5:]) < 2.0


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=8),
    st.integers(0, 8),
    st.lists(st.sampled_from(["save", "crash"]), max_size=4),
)
def test_tuples_shed_for_their_age_lower_the_kept_fraction(
    sizes: list[int], old: int, meanwhile: list[str]
) -> None:
    """Drop the oldest of batches that arrive one second apart. Windows must report their kept fraction, also after a crash."""
    queries = {"last": QUERIES["last"], "other": "SELECT ts AS at FROM alerts"}
    host = Host(in_order(sizes), np.random.default_rng(0), train_max=1, queries=queries)
    host.begin()
    host.read(len(sizes))
    gone, left = sum(sizes[:old]), sizes[old:]
    assert host.hosted.input.drop_older(float(len(sizes) - old), float(len(sizes))) == gone
    host.hosted.runner.settle(0.0)
    host.commit()
    for event in meanwhile:
        host.happen(event, len(sizes))
    host.finish()
    host.check()
    rows = answers(host.commits).get("last", [])
    assert [row[-1] for _, row in rows] == pytest.approx(kept_of(gone, sum(left)))
    assert host.hosted.input.ledger("readings").shed == gone


def in_order(sizes: list[int]) -> Input:
    """Return batches of readings of these sizes, without late rows."""
    given, clock = Input(), 0
    types = [one.type for one in HostedClass(declared(), 100).queries.schemas["readings"].schema.fields]
    for arrival, size in enumerate(sizes):
        columns = (np.arange(clock, clock + size), np.zeros(size, np.int32), np.zeros(size))
        values = tuple(Values(kind, data) for kind, data in zip(types, columns, strict=True))
        given.order.append(("readings", arrival))
        given.batches["readings"].append(Train(values, same_arrival(float(arrival), size)))
        clock += size
    return given


def kept_of(dropped: int, rows: int) -> list[float]:
    """Return the kept fractions of windows of five rows that slide by three rows, if `dropped` rows were dropped before the first row.

    The dropped rows count in each window that contains the first row.
    """
    stands_for = [1.0 + dropped, *[1.0] * rows][:rows]
    windows = [stands_for[max(0, end - 5) : end] for end in range(3, rows + 1, 3)]
    return [len(window) / sum(window) for window in windows]
