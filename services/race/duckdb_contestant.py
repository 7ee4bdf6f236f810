"""W11 in DuckDB, as a static batch on one thread: DuckDB gets the whole input at once. The SQL aggregates rows by slide, then slides by window."""

from __future__ import annotations

import time

import duckdb
import pyarrow as pa

from services.race.hand_written import WINDOWS_MS
from services.race.w11_workload import Array, Data, RaceOutcome

# SQL of each window query: the column to group by, the aggregates of a pane, and the expression that combines panes.
PANES = {
    "A1": ("region", "sum(temp) AS s, count(*) AS n", "sum(s) / sum(n) AS v"),
    "A2": ("sensor", "max(wind) AS m", "max(m) AS v"),
    "A3": ("region", "count(*) AS c", "sum(c)::BIGINT AS n"),
    "A4": ("region", "min(humidity) AS l, max(humidity) AS h", "min(l) AS lo, max(h) AS hi"),
    "A5": ("sensor", "sum(temp) AS s", "sum(s) AS v"),
}
SELECTS = {
    "S1": "SELECT * FROM r WHERE temp > 30",
    "S2": "SELECT ts, sensor, temp * 1.8 + 32 AS f FROM r WHERE humidity < 20 AND wind > 15",
    "S3": "SELECT * FROM r WHERE region = 3",
    "S4": "SELECT sensor, temp FROM r WHERE wind > 40",
}


def run_duckdb(data: Data) -> RaceOutcome:
    """Answer the eleven queries of W11, one after another."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("SET preserve_insertion_order = false")
    connection.register("readings", data.readings)
    connection.register("alerts", data.alerts)
    began, cpu_began = time.perf_counter(), time.process_time()
    connection.execute("CREATE TABLE r AS SELECT * FROM readings")
    connection.execute("CREATE TABLE a AS SELECT * FROM alerts")
    tables = {name: connection.sql(sql).to_arrow_table() for name, sql in statements(data.last_ts).items()}
    elapsed_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    return RaceOutcome(
        elapsed_s, cpu_s, len(data.readings), 0, {name: columns(table) for name, table in tables.items()}
    )


def statements(last_ts: int) -> dict[str, str]:
    joins = {"J1": join(500, ""), "J2": join(1000, "AND b.level >= 4 AND r.temp > 25")}
    return SELECTS | {name: aggregate(name, last_ts) for name in PANES} | joins


def aggregate(name: str, last_ts: int) -> str:
    group, kept, combined = PANES[name]
    range_ms, slide_ms = WINDOWS_MS[name]
    end = f"(pane + 1 + later) * {slide_ms}"
    return (
        f"WITH p AS (SELECT ts // {slide_ms} AS pane, {group}, {kept} FROM r GROUP BY ALL) "
        f"SELECT {end} AS wend, {group}, {combined} FROM p, range({range_ms // slide_ms}) o(later) "
        f"WHERE {end} <= {last_ts} GROUP BY 1, 2"
    )


def join(within_ms: int, condition: str) -> str:
    """Return a window join as SQL. The SQL repeats each alert for all seconds in which the alert may match, so that DuckDB can hash-join."""
    return (
        f"WITH b AS (SELECT ts, sensor, level, unnest(range((ts - {within_ms}) // 1000, (ts + {within_ms}) // 1000 + 1))"
        " AS second FROM a) SELECT r.ts AS rts, b.ts AS ats, r.sensor, r.temp, b.level FROM r JOIN b"
        f" ON r.sensor = b.sensor AND r.ts // 1000 = b.second WHERE abs(r.ts - b.ts) <= {within_ms} {condition}"
    )


def columns(table: pa.Table) -> list[tuple[Array, ...]]:
    return [tuple(table.column(place).to_numpy() for place in range(table.num_columns))]
