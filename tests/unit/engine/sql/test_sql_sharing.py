"""Queries that compute the same have equal plans, and so share operators, however they are written."""

import pytest

from engine.data.schema import INT32, STRING, Field, Schema, TableSchema
from engine.plan.plan import Plan, Project, WindowAggregate
from engine.sql import SqlCatalog, parse_create_stream, plan_query

STREAMS = (
    "CREATE STREAM readings (ts int64, sensor int32, region int32, temp float64, wind float64, "
    "WATERMARK FOR ts AS ts)",
    "CREATE STREAM alerts (ts int64, sensor int32, level int32, WATERMARK FOR ts AS ts)",
    "CREATE STREAM trades (at timestamp, symbol string, price decimal(10, 2), ok boolean, WATERMARK FOR at AS at)",
)
SENSORS = TableSchema("sensors", Schema((Field("sensor", INT32), Field("name", STRING))))
CATALOG = SqlCatalog.of([parse_create_stream(one) for one in STREAMS], [SENSORS])


def planned(sql: str) -> Plan:
    return plan_query("q", sql, CATALOG).plan


WHERE = "SELECT * FROM readings WHERE "
EQUAL = [
    (WHERE + "temp > 30", "select * from READINGS as r where not (30 >= R.TEMP)"),
    (WHERE + "temp > 30 AND wind < 3", WHERE + "3 > wind AND (30 < temp)"),
    (WHERE + "temp > 30 AND temp > 30 AND TRUE", WHERE + "temp > 30"),
    (WHERE + "a.temp > 1".replace("a.", ""), "SELECT * FROM (SELECT * FROM readings) AS x WHERE temp > 1"),
    (
        WHERE + "temp > 1 AND wind > 2",
        "SELECT * FROM (SELECT * FROM readings WHERE wind > 2) AS x WHERE temp > 1",
    ),
    (WHERE + "region IN (3, 1, 2)", WHERE + "region = 1 OR region IN (2, 3) OR region = 3"),
    (WHERE + "region NOT IN (1, 2)", WHERE + "region <> 2 AND 1 <> region"),
    (WHERE + "region IN (1)", WHERE + "region = 1"),
    (WHERE + "region BETWEEN 1 AND 3", WHERE + "region <= 3 AND NOT region < 1"),
    (WHERE + "NOT (temp > 1 OR wind IS NULL)", WHERE + "wind IS NOT NULL AND temp <= 1"),
    (WHERE + "temp * wind + 1 > 2 * 10", WHERE + "20 < 1.0 + wind * temp"),
    (
        "SELECT temp * 1.8 + 32 AS f FROM readings",
        "SELECT f FROM (SELECT ts, 32 + 1.8 * temp AS f FROM readings) AS x",
    ),
    (
        "SELECT CASE region WHEN 1 THEN 'a' END AS x FROM readings",
        "SELECT CASE WHEN 1 = region THEN 'a' ELSE NULL END AS x FROM readings",
    ),
    (
        "SELECT avg(temp) AS v FROM readings [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY region",
        "SELECT AVG(r.temp) AS v FROM HOP(readings, ts, INTERVAL '2' SECOND, INTERVAL 10 SECONDS) r GROUP BY r.region",
    ),
    (
        "SELECT count(*) AS n FROM readings [RANGE 1 MINUTE]",
        "SELECT count(1) AS n FROM TUMBLE(readings, ts, INTERVAL '60 seconds') GROUP BY window_start, window_end",
    ),
    (
        "SELECT region, count(*) AS n FROM readings [RANGE 1 MINUTE] GROUP BY region",
        "SELECT region, count(*) AS n FROM readings [RANGE 60000 MILLISECONDS SLIDE 1 MINUTE] GROUP BY ALL",
    ),
    (
        "SELECT floor(temp) AS f, count(*) AS n FROM readings [RANGE 1 MINUTE] GROUP BY floor(temp) HAVING count(*) > 3",
        "SELECT floor(temp) AS f, count(*) AS n FROM readings [RANGE 1 MINUTE] GROUP BY 1 HAVING NOT n <= 3",
    ),
    (
        "SELECT DISTINCT region FROM readings [RANGE 1 MINUTE]",
        "SELECT region FROM readings [RANGE 1 MINUTE] GROUP BY region",
    ),
    (
        "SELECT sum(temp) FILTER (WHERE region = 1) AS s FROM readings [RANGE 1 MINUTE]",
        "SELECT sum(CASE WHEN region = 1 THEN temp END) AS s FROM readings [RANGE 1 MINUTE]",
    ),
    (
        "SELECT r.temp FROM readings r JOIN alerts a ON r.sensor = a.sensor AND ABS(r.ts - a.ts) <= 500",
        "SELECT r.temp FROM alerts a, readings r WHERE a.sensor = r.sensor "
        "AND r.ts BETWEEN a.ts - 500 AND a.ts + INTERVAL '500 milliseconds'",
    ),
    (
        "SELECT r.temp FROM readings r JOIN alerts a ON r.sensor = a.sensor AND ABS(r.ts - a.ts) < 500",
        "SELECT temp FROM readings JOIN alerts USING (sensor) "
        "WHERE 499 >= ABS(alerts.ts - readings.ts) AND ABS(readings.ts - alerts.ts) <= INTERVAL '1 minute'",
    ),
    (
        "SELECT r.temp FROM readings r JOIN alerts a ON r.ts = a.ts AND r.temp > 3",
        "SELECT r.temp FROM (SELECT * FROM readings WHERE temp > 3) r JOIN alerts a ON a.ts <= r.ts AND r.ts <= a.ts",
    ),
    (
        "SELECT r.temp FROM readings [RANGE 5 SECONDS] r JOIN alerts [RANGE 9 SECONDS] a ON r.sensor = a.sensor",
        "SELECT r.temp FROM alerts [RANGE 9 SECONDS] a, TUMBLE(readings, ts, INTERVAL '5 seconds') r "
        "WHERE a.sensor = r.sensor",
    ),
    (
        "SELECT ts FROM readings UNION ALL SELECT ts FROM alerts",
        "SELECT ts FROM alerts UNION ALL (SELECT ts FROM readings)",
    ),
    (
        "SELECT at FROM trades WHERE at > '2026-01-01' AND price = 1.5",
        "SELECT at FROM trades WHERE TIMESTAMP '2026-01-01 00:00:00' < at AND 1.50 = price AND 1 = 1",
    ),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_queries_that_compute_the_same_have_equal_plans(one: str, other: str) -> None:
    assert planned(one) == planned(other)
    assert hash(planned(one)) == hash(planned(other))


DIFFERENT = [
    (WHERE + "temp > 30", WHERE + "temp >= 30"),
    (WHERE + "temp > wind", WHERE + "wind > temp"),
    ("SELECT temp - wind AS x FROM readings", "SELECT wind - temp AS x FROM readings"),
    ("SELECT temp + (wind + 1) AS x FROM readings", "SELECT (temp + wind) + 1 AS x FROM readings"),
    (
        "SELECT avg(temp) FROM readings [RANGE 10 SECONDS SLIDE 2 SECONDS]",
        "SELECT avg(temp) FROM readings [RANGE 10 SECONDS]",
    ),
    ("SELECT count(*) FROM readings [ROWS 5]", "SELECT SCALED(count(*)) AS count FROM readings [ROWS 5]"),
    (
        "SELECT r.temp FROM readings r JOIN alerts a ON r.ts BETWEEN a.ts AND a.ts + 5",
        "SELECT r.temp FROM readings r JOIN alerts a ON a.ts BETWEEN r.ts AND r.ts + 5",
    ),
    (
        "SELECT name FROM readings r JOIN sensors s ON r.sensor = s.sensor AND r.temp > 1",
        "SELECT name FROM readings r LEFT JOIN sensors s ON r.sensor = s.sensor AND r.temp > 1",
    ),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_queries_that_differ_have_different_plans(one: str, other: str) -> None:
    assert planned(one) != planned(other)


def test_queries_that_differ_only_in_column_names_have_equal_plans_below_the_projection() -> None:
    one = planned("SELECT region AS a, avg(temp) AS b FROM readings [RANGE 1 MINUTE] GROUP BY region")
    other = planned(
        "SELECT avg(x.temp) AS mean, x.region FROM readings [RANGE 1 MINUTE] AS x GROUP BY x.region"
    )
    assert isinstance(one, Project)
    assert isinstance(other, Project)
    assert one.input == other.input
    assert one != other


def test_windows_of_any_length_share_their_input() -> None:
    plans = [
        planned(f"SELECT region, {what} FROM readings [RANGE {size} SECONDS] WHERE wind > 1 GROUP BY region")
        for what, size in (("avg(temp)", 10), ("count(*)", 5), ("max(wind) - min(temp)", 60))
    ]
    windows = [plan.input for plan in plans if isinstance(plan, Project)]
    inputs = {one.input for one in windows if isinstance(one, WindowAggregate)}
    assert (len(windows), len(inputs)) == (3, 1)
