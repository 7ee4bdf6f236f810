"""Changes of a query's plan while the query runs: how long old and new operators both run, and which changes are refused or cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from configs.classes.live_class import LiveClass
from configs.classes.plans import PlanSettings
from engine.class_.door import Piece
from engine.class_.hosted_class import HostedClass
from engine.class_.steps import Commit, Exchanged, ExchangeGivenUp, PlanSet
from engine.data.train import Train, Values, same_arrival
from engine.network.row_losses import failed_rows
from engine.plan.plan import Plan
from engine.plan.plan_exchange import Unbounded, wait_us
from engine.sql import SqlCatalog, parse_create_stream, plan_query

READINGS = "CREATE STREAM readings (ts int64, sensor int32, temp float64, WATERMARK FOR ts AS ts)"
ALERTS = "CREATE STREAM alerts (ts int64, sensor int32, level int32, WATERMARK FOR ts AS ts)"
CATALOG = SqlCatalog.of([parse_create_stream(READINGS), parse_create_stream(ALERTS)])
HOT = "SELECT ts, sensor, temp FROM readings WHERE temp > 0"
MEAN = "SELECT window_end AS wend, sensor, AVG(temp) AS v FROM readings [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY sensor"
NEAR = (
    "SELECT r.ts, a.level FROM readings r JOIN alerts a ON r.sensor = a.sensor"
    " AND a.ts BETWEEN r.ts - INTERVAL 1 SECOND AND r.ts + INTERVAL 3 SECONDS WHERE r.temp > 0"
)
APART = PlanSettings(shared=False)


def planned(sql: str) -> Plan:
    return plan_query("q", sql, CATALOG).plan


@pytest.mark.parametrize(
    ("sql", "seconds"),
    [
        (HOT, 0),
        (MEAN, 2 * (4 + 2)),
        (NEAR, 2 * 3),
        (f"SELECT window_end AS e, COUNT(*) AS n FROM ({NEAR}) [RANGE 5 SECONDS]", 2 * (3 + 5 + 5)),
    ],
)
def test_a_plan_exchange_waits_for_twice_the_time_span_of_windows_and_joins(sql: str, seconds: int) -> None:
    assert wait_us(planned(sql), frozenset()) == seconds * 1_000_000


def test_a_plan_exchange_does_not_wait_for_operators_that_already_run() -> None:
    rows = planned("SELECT COUNT(*) AS n FROM readings [ROWS 5]")
    assert wait_us(rows, {rows}) == 0


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT COUNT(*) AS n FROM readings [ROWS 5]", "window of rows"),
        ("SELECT COUNT(*) AS n FROM readings [RANGE 4 SECONDS SLIDE AT MOST 2 SECONDS]", "SLIDE AT MOST"),
        (
            "SELECT r.ts, a.level FROM readings r JOIN alerts [LAST BY sensor] a ON r.sensor = a.sensor",
            "last row",
        ),
    ],
)
def test_plans_without_a_bound_in_event_time_cannot_be_exchanged(sql: str, why: str) -> None:
    with pytest.raises(Unbounded, match=why):
        wait_us(planned(sql), frozenset())


class Running:
    """Class that reads one tuple of each sensor per second."""

    def __init__(self, queries: Mapping[str, str], **changes: Any) -> None:
        declared = {"name": "gold", "priority": 6, "delay_target_ms": 300, "streams": [READINGS, ALERTS]}
        self.hosted = HostedClass(LiveClass.model_validate(declared | {"queries": queries} | changes), 100)
        self.commits: list[Commit] = []
        self.second = 0
        self.hosted.begin("readings", 0, 0)

    def advance(self, seconds: int) -> None:
        for _ in range(seconds):
            times = np.full(4, 1000 * self.second, np.int64)
            columns = (times, np.arange(4, dtype=np.int32), np.arange(4) - 1.5)
            schema = self.hosted.queries.schemas["readings"].schema
            values = tuple(Values(one.type, data) for one, data in zip(schema.fields, columns, strict=True))
            train = Train(values, same_arrival(float(self.second), 4))
            self.hosted.take(Piece("readings", self.second, 4, 0, 0, train, None), 4 * self.second + 4)
            self.second += 1
            self.hosted.run(1.0, lambda: 0.0, lambda: 0.0)
            commit = self.hosted.committed()
            if commit is not None:
                self.commits.append(commit)

    def steps(self) -> list[object]:
        kinds = PlanSet | Exchanged | ExchangeGivenUp
        return [step for commit in self.commits for step in commit.steps if isinstance(step, kinds)]


def test_each_query_is_exchanged_once_its_new_operators_have_enough_input() -> None:
    running = Running({"hot": HOT, "mean": MEAN, "rows": "SELECT COUNT(*) AS n FROM readings [ROWS 5]"})
    running.advance(10)
    running.hosted.set_plan(APART)
    network = running.hosted.runner.network
    assert [network.planned_as(name) for name in ("hot", "mean", "rows")] == [
        APART,
        PlanSettings(),
        PlanSettings(),
    ]
    assert running.hosted.exchanges.kept == {
        "rows": "a window of rows depends on the number of rows before it"
    }
    running.advance(12)
    assert running.steps() == [PlanSet(APART)]
    running.advance(2)
    assert running.steps() == [PlanSet(APART), Exchanged("mean")]
    assert [network.planned_as(name) for name in ("hot", "mean", "rows")] == [APART, APART, PlanSettings()]
    assert {user for node in network.nodes for user in node.users} == {"hot", "mean", "rows"}


def test_a_cancelled_plan_exchange_leaves_no_operators() -> None:
    running = Running({"mean": MEAN})
    running.advance(5)
    before = [node.name for node in running.hosted.runner.network.nodes]
    running.hosted.set_plan(APART)
    running.advance(1)
    assert len(running.hosted.runner.network.nodes) > len(before)
    running.hosted.set_plan(PlanSettings())
    assert [node.name for node in running.hosted.runner.network.nodes] == before


def test_a_plan_exchange_without_room_for_new_operators_is_cancelled() -> None:
    running = Running({"mean": MEAN}, limits={"groups": 10})
    running.advance(5)
    running.hosted.set_plan(APART)
    running.advance(20)
    assert running.steps() == [PlanSet(APART), ExchangeGivenUp()]
    assert list(running.hosted.exchanges.kept) == ["mean"]
    assert running.hosted.runner.network.planned_as("mean") == PlanSettings()
    assert not failed_rows(running.hosted.runner.network.nodes)
