"""Equivalent plans of the same queries: their operators, and conditions that may not be moved."""

from __future__ import annotations

import pytest

from configs.classes.plans import PlanSettings
from engine.data.schema import INT32, STRING, Field, Schema, TableSchema
from engine.network.network import ClassNetwork
from engine.plan.plan import TRUE, Filter, IntervalJoin, LastJoin, TableJoin, WindowJoin, walk
from engine.plan.plan_rewrites import arranged
from engine.sql import SqlCatalog, parse_create_stream, plan_query

STREAMS = (
    "CREATE STREAM readings (ts int64, sensor int32, temp float64, WATERMARK FOR ts AS ts)",
    "CREATE STREAM alerts (ts int64, sensor int32, level int32, WATERMARK FOR ts AS ts)",
)
SENSORS = TableSchema("sensors", Schema((Field("sensor", INT32), Field("name", STRING))))
CATALOG = SqlCatalog.of([parse_create_stream(one) for one in STREAMS], [SENSORS])
NEAR = (
    "SELECT r.temp, a.level FROM readings r JOIN alerts a ON r.sensor = a.sensor"
    " AND a.ts BETWEEN r.ts - INTERVAL 1 SECOND AND r.ts + INTERVAL 1 SECOND"
    " WHERE r.temp > 0 AND a.level = 3"
)
AFTER = PlanSettings(select_first=False)
APART = PlanSettings(shared=False)


def network(plan: PlanSettings, *queries: str) -> ClassNetwork:
    made = ClassNetwork()
    made.plan = plan
    made.add(*(plan_query(f"q{place}", sql, CATALOG) for place, sql in enumerate(queries)))
    return made


def test_the_plan_setting_select_first_moves_conditions_from_the_join_to_filters_before_the_join() -> None:
    def names(plan: PlanSettings) -> list[str]:
        return sorted(node.name for node in network(plan, NEAR).nodes)

    assert names(AFTER) == ["join.left", "join.right", "project", "source:alerts", "source:readings"]
    assert names(PlanSettings()) == sorted([*names(AFTER), "filter", "filter"])


def test_equal_queries_share_operators_unless_the_plan_is_unshared() -> None:
    window = "SELECT AVG(temp) AS t FROM readings [RANGE 4 SECONDS]"
    users = {
        shared: sorted(
            (node.name, tuple(sorted(node.users)))
            for node in network(PlanSettings(shared=shared), window, window).nodes
        )
        for shared in (True, False)
    }
    both = ("q0", "q1")
    assert users[True] == [
        ("panes", both),
        ("project", both),
        ("source:readings", both),
        ("window", both),
    ]
    assert users[False] == [
        *((name, (one,)) for name in ("panes", "project") for one in both),
        ("source:readings", both),
        *(("window", (one,)) for one in both),
    ]


def test_in_an_unshared_plan_removing_a_query_removes_only_its_own_operators() -> None:
    made = network(APART, NEAR, NEAR)
    made.remove("q0")
    assert [node.users for node in made.nodes] == [{"q1"} for _ in made.nodes]
    made.remove("q1")
    assert (made.nodes, made._found) == ([], {})


@pytest.mark.parametrize(
    ("sql", "moves"),
    [
        (NEAR, True),
        (
            "SELECT r.temp FROM readings [RANGE 2 SECONDS] r JOIN alerts [RANGE 2 SECONDS] a ON r.sensor = a.sensor"
            " WHERE a.level > 1",
            True,
        ),
        (
            "SELECT r.temp, s.name FROM readings r JOIN sensors s ON r.sensor = s.sensor WHERE r.temp > 0",
            True,
        ),
        (
            "SELECT r.temp, s.name FROM readings r LEFT JOIN sensors s ON r.sensor = s.sensor WHERE r.temp > 0",
            False,
        ),
        (
            "SELECT r.temp, a.level FROM readings r LEFT JOIN alerts [LAST BY sensor] a ON r.sensor = a.sensor"
            " WHERE r.temp > 0",
            False,
        ),
    ],
)
def test_only_conditions_of_inner_joins_are_moved_into_the_join(sql: str, moves: bool) -> None:
    plan = arranged(plan_query("q", sql, CATALOG).plan, {}, AFTER, "q")
    (join,) = (one for one in walk(plan) if isinstance(one, IntervalJoin | WindowJoin | TableJoin | LastJoin))
    assert (join.residual != TRUE) == moves
    assert any(isinstance(one, Filter) for one in walk(plan)) != moves


def test_a_condition_on_looked_up_rows_stays_before_the_join() -> None:
    last = "(SELECT ts, sensor, level FROM alerts WHERE level > 1) [LAST BY sensor]"
    sql = f"SELECT r.temp, a.level FROM readings r JOIN {last} AS a ON r.sensor = a.sensor WHERE r.temp > 0"
    plan = arranged(plan_query("q", sql, CATALOG).plan, {}, AFTER, "q")
    (join,) = (one for one in walk(plan) if isinstance(one, LastJoin))
    assert not any(isinstance(one, Filter) for one in walk(join.left))
    assert any(isinstance(one, Filter) for one in walk(join.right))
