"""A unit that restarts from its log, run step by step by the test: its state after the restart, and the fate
of queued input.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from actors.host.inbox import ArrivedPiece
from actors.host.recent_latency import LATE_PIECE_S
from actors.host.unit import HostedUnit
from actors.host.unit_load import Record, not_recorded
from actors.log.commit_format import answers_of, is_snapshot
from actors.log.segment_log import Reader, SegmentWriter
from actors.log.train_format import batch_parts
from actors.log.unit_log import QUERIES, UnitLog
from actors.messages.unit_messages import Unit, units_from_json, units_to_json
from actors.runtime.run_dirs import RunDirs
from configs.classes.live_class import LiveClass, LiveSettings
from configs.classes.managers import Manager
from configs.classes.plans import PlanSettings
from configs.classes.policies import Automatic, Chain, HighestRate, PolicySettings
from configs.classes.policy_and_plan import Choice
from configs.classes.window_settings import WindowSettings
from engine.class_.steps import QueryAdded
from engine.data.schema import StreamSchema
from engine.data.train import train_from_arrow
from loadshed.aloma import Control
from loadshed.manager import LoadManager

STREAM = "CREATE STREAM readings (ts int64, sensor int32, temp float64, WATERMARK FOR ts AS ts)"
MEAN = "SELECT window_end AS wend, sensor, AVG(temp) AS v FROM readings [RANGE 4 SECONDS] GROUP BY sensor"
DECLARED = LiveClass(
    name="gold", priority=1, delay_target_ms=1, max_drop=0.9, streams=(STREAM,), queries={"mean": MEAN}
)


@contextmanager
def made(
    dirs: RunDirs,
    manager: Manager = "dilos",
    share: float = 1.0,
    declared: LiveClass = DECLARED,
    idle_after_s: float | None = None,
) -> Iterator[HostedUnit]:
    """Open a unit; at the end, close it without a last snapshot, as if the unit were killed."""
    settings = LiveSettings.model_validate(
        {"manager": manager, "idle_after_s": idle_after_s, "snapshot_s": 1000.0}
    )
    unit = HostedUnit(Unit(declared, 0, original=1.0, share=share), settings, dirs)
    try:
        yield unit
    finally:
        unit.close(at_rest=False)


def cycle(unit: HostedUnit) -> None:
    unit.end_cycle(time.monotonic())


def arrive(unit: HostedUnit, number: int, rows: int) -> None:
    """Publish a batch, and offer it to the unit as the ingest thread does."""
    schema: StreamSchema = unit.hosted.queries.schemas["readings"]
    numbers = np.arange(number * rows, (number + 1) * rows)
    columns = {"ts": numbers, "sensor": pa.array(numbers % 7, pa.int32()), "temp": numbers / 4}
    train = train_from_arrow(pa.RecordBatch.from_pydict(columns), schema.schema, time.monotonic())
    stream = SegmentWriter(unit.input.dirs.stream("readings"))
    stream.append(*batch_parts(float(train.arrival[0]), train))
    stream.close()
    feed, inbox = unit.intake.feeds["readings"], unit.inbox
    feed.door.set_keep(inbox.keep[1])
    piece = feed.door.admit(number, train, inbox.queued("readings"))
    inbox.let_in["readings"] += len(piece.train)
    inbox.pieces_in += 1
    inbox.arrived.append(ArrivedPiece(piece, (number + 1) * rows))


def repeat(unit: HostedUnit) -> None:
    while unit.hosted.repeating:
        unit.run(1e-6)


def control(unit: HostedUnit) -> Control:
    assert unit.load.manager is not None
    return unit.load.manager.control


def steer(unit: HostedUnit, headroom: float, keep: float) -> None:
    assert unit.load.manager is not None
    unit.load.manager.control = Control(headroom, keep)
    unit.load.set_keep(keep)


def test_a_killed_unit_restarts_with_its_headroom_and_keep(dirs: RunDirs) -> None:
    opened: list[Control] = []
    with made(dirs) as unit:
        steer(unit, 0.3, 0.4)
        before = control(unit)
    assert before.keep < 1
    with made(dirs) as unit:
        assert (control(unit).headroom, control(unit).keep) == (before.headroom, before.keep)
        assert unit.inbox.keep[1] == before.keep
    settings = LiveSettings.model_validate({"manager": "dilos"})

    def record(manager: LoadManager) -> Record:
        opened.append(manager.control)
        return not_recorded(manager)

    HostedUnit(Unit(DECLARED, 0, 1.0, 1.0), settings, dirs, record).close(at_rest=True)
    assert [one.keep for one in opened] == [before.keep]


def test_headroom_and_keep_are_adapted_to_a_new_share_and_max_drop_at_a_restart(
    dirs: RunDirs,
) -> None:
    with made(dirs) as unit:
        steer(unit, 0.6, 0.1)
        before = control(unit)
    careful = DECLARED.model_copy(update={"max_drop": 0.5})
    with made(dirs, share=0.5, declared=careful) as unit:
        assert control(unit).headroom == pytest.approx(before.headroom / 2)
        assert control(unit).keep == 0.5


def test_keep_set_by_the_common_manager_survives_a_restart(dirs: RunDirs) -> None:
    with made(dirs, "common") as unit:
        unit.load.set_keep(0.25)
    with made(dirs, "common") as unit:
        assert unit.inbox.keep[1] == 0.25
    with made(dirs, "none") as unit:
        assert unit.inbox.keep[1] == 1.0


def test_input_that_waited_during_a_restart_is_shed_if_it_would_be_late(dirs: RunDirs) -> None:
    with made(dirs) as unit:
        arrive(unit, 0, 1000)
        while unit.run(1.0)[1]:
            pass
    with made(dirs) as unit:
        assert unit.hosted.repeating
        for number in range(1, 6):
            arrive(unit, number, 200_000)
            cycle(unit)
        waiting = unit.hosted.replay.held("readings")
        assert waiting == 1_000_000
        repeat(unit)
        assert unit.hosted.input.queued("readings") == waiting
        cycle(unit)
        ledger, queued = unit.hosted.input.accounts()["readings"]
        assert queued < waiting / 5
        assert ledger.closes(queued)
        assert (ledger.offered, ledger.shed + ledger.delivered + queued) == (1_001_000, 1_001_000)
        assert not unit.hosted.replay.mismatches


def test_a_unit_changes_its_policy_and_keeps_its_queue(dirs: RunDirs) -> None:
    with made(dirs) as unit:
        arrive(unit, 0, 100)
        assert runs_by(unit) == HighestRate()
        for declared, choice, expected in [
            (DECLARED.model_copy(update={"objective": "memory"}), None, Chain()),
            (DECLARED.model_copy(update={"objective": "memory", "policy": Automatic()}), None, Chain()),
            (
                DECLARED.model_copy(update={"objective": "memory", "policy": Automatic()}),
                Choice(HighestRate()),
                HighestRate(),
            ),
        ]:
            changed = replace(unit.unit, declared=declared, choice=choice)
            assert unit.can_become(changed)
            unit.become(changed)
            assert runs_by(unit) == expected
        unit.run(1.0)
        assert unit.hosted.input.accounts()["readings"][0].delivered == 100


def test_a_restarted_unit_runs_by_the_chosen_policy_and_plan(dirs: RunDirs) -> None:
    declared = DECLARED.model_copy(update={"policy": Automatic()})
    apart = PlanSettings(shared=False)
    for recovered in (False, True):
        plan = apart if recovered else PlanSettings()
        unit = HostedUnit(Unit(declared, 0, 1.0, 1.0, Choice(Chain(), plan)), LiveSettings(), dirs)
        repeat(unit)
        network = unit.hosted.runner.network
        assert runs_by(unit) == Chain()
        assert (network.plan, {network.planned_as(name) for name in network.queries}) == (plan, {plan})
        unit.close(at_rest=False)
        assert units_from_json(units_to_json([unit.unit])) == [unit.unit]


def test_units_saved_by_older_versions_without_a_plan_are_read() -> None:
    declared = DECLARED.model_copy(update={"policy": Automatic(), "plan": PlanSettings(shared=False)})
    (kept,) = units_to_json([Unit(declared, 0, 1.0, 0.5)])
    assert units_from_json([kept[:4]]) == [Unit(declared, 0, 1.0, 0.5)]
    older = [*kept[:4], Chain().model_dump(mode="json")]
    assert units_from_json([older]) == [Unit(declared, 0, 1.0, 0.5, Choice(Chain(), declared.plan))]


def test_a_sample_taken_during_a_plan_exchange_is_marked_and_has_the_new_plan(
    dirs: RunDirs,
) -> None:
    often = "SELECT window_end AS wend, COUNT(*) AS n FROM readings [RANGE 2 SECONDS]"
    declared = DECLARED.model_copy(update={"queries": {"exact": often}, "policy": Automatic()})
    with made(dirs, declared=declared) as unit:
        noticed = []
        for number, plan in enumerate(
            [PlanSettings(), PlanSettings(shared=False), PlanSettings(shared=False)]
        ):
            unit.become(replace(unit.unit, choice=Choice(HighestRate(), plan)))
            arrive(unit, number, 3_000)
            unit.run(1.0)
            cycle(unit)
            noticed.append(unit.noticed())
    tuples = [
        sum(tuples for tuples, _ in one.arrivals.get("readings", ())) if one else None for one in noticed
    ]
    assert [one and one.is_exchanging for one in noticed] == [False, True, True]
    assert tuples[0] == 3_000
    assert [one and one.running and one.running.choice.plan.shared for one in noticed] == [True, False, False]


def test_a_self_tuning_unit_samples_the_staleness_and_utility_of_its_answers(
    dirs: RunDirs,
) -> None:
    declared = DECLARED.model_copy(
        update={"objective": "utility", "policy": Automatic(), "delay_target_ms": 1e6}
    )
    with made(dirs, declared=declared) as unit:
        cycle(unit)
        arrive(unit, 0, 20_000)
        while unit.hosted.has_input() or unit.inbox.arrived:
            unit.run(1.0)
        cycle(unit)
        first = unit.noticed()
        cycle(unit)
        second = unit.noticed()
    assert first is not None
    assert second is not None
    # No utility is lost, because all answers came long before the target. Still, outputs were stale for a part of the time.
    assert (first.lost, first.stale is not None and 0 < first.stale <= 1) == (0.0, True)
    assert [graph is not None for graph in first.graphs] == [not line.feeds for line in first.lines]
    # No input has arrived since the first sample.
    assert (second.lost, second.stale) == (None, 0.0)


def test_a_self_tuning_unit_samples_the_deadlines_and_tardiness_of_its_answers(
    dirs: RunDirs,
) -> None:
    queries = {
        "plain": "SELECT ts, temp FROM readings WHERE sensor = 1",
        "window": "SELECT COUNT(*) AS n FROM readings [RANGE 2 SECONDS SLIDE 1 SECOND]",
    }
    declared = DECLARED.model_copy(
        update={"objective": "tardiness", "policy": Automatic(), "queries": queries}
    )
    with made(dirs, declared=declared) as unit:
        cycle(unit)
        arrive(unit, 0, 20_000)
        while unit.hosted.has_input() or unit.inbox.arrived:
            unit.run(1.0)
        due = unit.hosted.runner.answers.quality["window"].tardiness
        cycle(unit)
        first = unit.noticed()
        cycle(unit)
        second = unit.noticed()
    assert first is not None
    assert second is not None
    assert due is not None
    assert due.answers > 0
    assert first.tardy_ms == pytest.approx(1e3 * due.mean_s)
    # The slack of the window is its pane of 1 s; answers of the plain query have no deadline.
    roots = {
        line.queries: slack for line, slack in zip(first.lines, first.slacks, strict=True) if not line.feeds
    }
    assert roots == {("plain",): None, ("window",): 1.0}
    assert [slack for slack in first.slacks if slack is not None] == [1.0]
    # No input has arrived since the first sample.
    assert second.tardy_ms is None


def test_slowdown_is_reported_with_the_measured_ideal_time_of_answers(dirs: RunDirs) -> None:
    with made(dirs) as unit:
        arrive(unit, 0, 20_000)
        while unit.run(1.0)[1]:
            pass
        cycle(unit)
        report, alone = unit.reported, unit.hosted.runner.scheduled.alone()["mean"]
    assert report is not None
    assert report.counted is not None
    (mean,) = report.counted.quality
    assert mean.answers > 0
    assert alone.apart_s == 0
    assert mean.slowdown == pytest.approx(mean.response_s / alone.ideal_s)
    assert report.figures.slowdown == pytest.approx(
        dict.fromkeys(("mean", "of_queries"), mean.slowdown / mean.answers)
    )


def runs_by(unit: HostedUnit) -> PolicySettings:
    return unit.hosted.runner.scheduled.policy


def test_changes_made_while_the_log_is_not_writable_are_written_later_in_order(tmp_path: Path) -> None:
    dirs = RunDirs(tmp_path, "s", "n")
    first, second = (f"SELECT ts, temp FROM readings WHERE sensor = {number}" for number in (1, 2))
    with made(dirs) as unit:
        hindrance = dirs.class_log("gold") / f"{QUERIES}.draft"
        hindrance.mkdir()
        queries = dict(DECLARED.queries)
        for name, sql in (("first", first), ("second", second)):
            queries[name] = sql
            unit.become(replace(unit.unit, declared=DECLARED.model_copy(update={"queries": dict(queries)})))
            assert unit.commits.is_stuck
        hindrance.rmdir()
        unit.run(1.0)
        assert not unit.commits.is_stuck
        unit.run(1.0)
    log = UnitLog(dirs.class_log("gold"), 1 << 20)
    steps = [step for commit in log.found()[1] for step in commit.steps]
    log.close()
    assert steps == [QueryAdded("first", first), QueryAdded("second", second)]


EARLY = {
    "early": "SELECT window_end AS wend, MAX(temp) AS hi FROM readings [RANGE 300 SECONDS SLIDE AT MOST 3 SECONDS]",
    "often": "SELECT window_end AS wend, COUNT(*) AS n FROM readings [RANGE 200 SECONDS SLIDE AT MOST 2 SECONDS]",
}


def ends(unit: HostedUnit, query: str) -> list[int]:
    """Return the ends of the windows that a query has answered, in seconds, as readers of the log see them."""
    found = []
    for _, payload in Reader(unit.input.dirs.class_log(unit.name)).frames(0):
        if not is_snapshot(payload):
            for answer in answers_of(payload, query):
                found += (answer.train.columns[1].data // 1000).tolist()
    return found


def test_a_plan_exchange_is_repeated_after_a_restart(dirs: RunDirs) -> None:
    often = "SELECT window_end AS wend, COUNT(*) AS n FROM readings [RANGE 2 SECONDS]"
    apart = PlanSettings(shared=False)
    before = DECLARED.model_copy(update={"queries": EARLY | {"exact": often}})
    after = before.model_copy(update={"plan": apart})
    with made(dirs, declared=before) as unit:
        arrive(unit, 0, 10_000)
        unit.run(1.0)
        changed = replace(unit.unit, declared=after)
        assert unit.can_become(changed)
        unit.become(changed)
        arrive(unit, 1, 10_000)
        unit.run(1.0)
        network = unit.hosted.runner.network
        assert [network.planned_as(name) == apart for name in (*EARLY, "exact")] == [False, False, True]
        assert unit.problems().keys() == {"plan"}
        # A class that has chosen a plan itself knows which of its queries cannot run by the plan, so no problem is reported.
        unit.become(replace(changed, choice=Choice(HighestRate(), apart)))
        assert not unit.problems()
        unit.become(changed)
        answered = dict(unit.hosted.runner.answers.counts)
        assert answered["exact"] == 9  # Windows of 2 s have closed up to second 18 of 19.
    with made(dirs, declared=after) as unit:
        repeat(unit)
        assert not unit.hosted.replay.mismatches
        assert unit.hosted.runner.answers.counts == answered
        assert unit.hosted.runner.network.planned_as("exact") == apart


def test_a_change_of_the_window_schedule_is_repeated_after_a_restart(
    dirs: RunDirs,
) -> None:
    apart = DECLARED.model_copy(update={"queries": EARLY, "windows": WindowSettings(schedule="none")})
    together = apart.model_copy(update={"windows": WindowSettings()})
    with made(dirs, declared=apart) as unit:
        arrive(unit, 0, 10_000)
        unit.run(1.0)
        changed = replace(unit.unit, declared=together)
        assert unit.can_become(changed)
        unit.become(changed)
        arrive(unit, 1, 10_000)
        unit.run(1.0)
        window_ends = ends(unit, "early"), ends(unit, "often")
        state = unit.hosted.runner.settled_state()
    assert window_ends == ([3, 6, 9, 10, 12, 14, 16, 18], [2, 4, 6, 8, 10, 12, 14, 16, 18])
    with made(dirs, declared=together) as unit:
        repeat(unit)
        assert not unit.hosted.replay.mismatches
        assert unit.hosted.runner.answers.counts == state.answered
        windows = [key for key, one in state.states.items() if isinstance(one, tuple) and len(one) == 2]
        again = unit.hosted.runner.settled_state()
        assert [again.states[key] for key in windows] == [state.states[key] for key in windows]
    with made(dirs, declared=apart) as unit:
        repeat(unit)
        unit.run(1e-6)
        assert unit.hosted.runner.network.windows == apart.windows


@pytest.mark.parametrize(
    ("fed", "caught_up_s", "advanced_s"),
    [
        # The feed may be down or have a backlog, so event time does not advance.
        (True, None, 0),
        # The feed caught up 8 s after the last row. That is less than `idle_after_s` (10 s), so event time does not advance.
        (True, 8.0, 0),
        (True, 37.0, 27),
        (False, None, 990),  # Without a feed, the clock alone advances event time.
    ],
)
def test_event_time_of_a_fed_stream_advances_only_while_its_feed_has_caught_up(
    dirs: RunDirs, fed: bool, caught_up_s: float | None, advanced_s: int
) -> None:
    declared = DECLARED.model_copy(update={"fed": ("Readings",) if fed else ()})
    with made(dirs, declared=declared, idle_after_s=10.0) as unit:
        arrive(unit, 0, 100)
        unit.run(10.0)
        since = time.monotonic() - 1000.0
        unit.end_cycle(since)
        if caught_up_s is not None:
            unit.inbox.caught_up["readings"] = since + caught_up_s
        unit.idle.ask()
        unit.run(10.0)
        latest = unit.hosted.queries.event_time("readings")
        assert latest is not None
        # Expected and actual event time are rounded down to ten seconds before the comparison.
        assert (latest - 99) // 10_000 == 1000 * advanced_s // 10_000


def test_a_units_report_names_the_query_that_fails_on_every_row(dirs: RunDirs) -> None:
    failing = DECLARED.model_copy(
        update={"queries": {"small": "SELECT CAST(ts + 3000000000 AS INT) AS v FROM readings"}}
    )
    with made(dirs, declared=failing) as unit:
        cycle(unit)
        arrive(unit, 0, 40)
        unit.run(1.0)
        report = unit.end_cycle(time.monotonic() + LATE_PIECE_S)
        assert report is not None
        (failure,) = report.failures
        assert (failure.queries, failure.rows, failure.part) == (("small",), 40, 1.0)
        ledger, _ = report.accounts["readings"]
        assert (ledger.delivered, ledger.failed) == (40, 0)
