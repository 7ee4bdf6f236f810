"""W11, the workload of the demonstration and of the benchmarks: two streams and eleven queries over them.

The queries are four selects, five sliding-window aggregates and two window joins. Classes with a stream of the same name
share this stream, so stream names get a prefix for each class that needs streams of its own.
"""

from __future__ import annotations

_STREAMS = (
    "CREATE STREAM {readings} (ts int64, sensor int32, region int32, temp float64, humidity float64, wind float64,"
    " WATERMARK FOR ts AS ts)",
    "CREATE STREAM {alerts} (ts int64, sensor int32, level int32, WATERMARK FOR ts AS ts)",
)
_QUERIES = {
    "S1": "SELECT * FROM {readings} WHERE temp > 30",
    "S2": "SELECT ts, sensor, temp * 1.8 + 32 AS f FROM {readings} WHERE humidity < 20 AND wind > 15",
    "S3": "SELECT * FROM {readings} WHERE region = 3",
    "S4": "SELECT sensor, temp FROM {readings} WHERE wind > 40",
    "A1": "SELECT window_end AS wend, region, AVG(temp) AS v FROM {readings} [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY region",
    "A2": "SELECT window_end AS wend, sensor, MAX(wind) AS v FROM {readings} [RANGE 10 SECONDS] GROUP BY sensor",
    "A3": "SELECT window_end AS wend, region, COUNT(*) AS n FROM {readings} [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY region",
    "A4": "SELECT window_end AS wend, region, MIN(humidity) AS lo, MAX(humidity) AS hi"
    " FROM {readings} [RANGE 20 SECONDS SLIDE 5 SECONDS] GROUP BY region",
    "A5": "SELECT window_end AS wend, sensor, SUM(temp) AS v FROM {readings} [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY sensor",
    "J1": "SELECT r.ts AS rts, a.ts AS ats, r.sensor, r.temp, a.level FROM {readings} r JOIN {alerts} a ON r.sensor = a.sensor"
    " AND a.ts BETWEEN r.ts - INTERVAL 500 MILLISECONDS AND r.ts + INTERVAL 500 MILLISECONDS",
    "J2": "SELECT r.ts AS rts, a.ts AS ats, r.sensor, r.temp, a.level FROM {readings} r JOIN {alerts} a ON r.sensor = a.sensor"
    " AND a.ts BETWEEN r.ts - INTERVAL 1 SECOND AND r.ts + INTERVAL 1 SECOND WHERE a.level >= 4 AND r.temp > 25",
}

COMPUTES = {
    "S1": "readings above 30 degrees",
    "S2": "temperature in Fahrenheit where it is dry and windy",
    "S3": "readings of region 3",
    "S4": "temperature of each sensor where the wind is above 40",
    "A1": "mean temperature of each region, every 2 s over the last 10 s",
    "A2": "highest wind of each sensor, every 10 s",
    "A3": "number of readings of each region, every second over the last 5 s",
    "A4": "lowest and highest humidity of each region, every 5 s over the last 20 s",
    "A5": "sum of the temperatures of each sensor, every 2 s over the last 4 s",
    "J1": "alerts with the readings of the same sensor within half a second",
    "J2": "severe alerts with the warm readings of the same sensor within a second",
}
"""Description of what each query computes."""


def names(prefix: str = "") -> dict[str, str]:
    """Return the prefixed name of each stream, by the stream's name without the prefix."""
    return {name: f"{prefix}{name}" for name in ("readings", "alerts")}


def streams(prefix: str = "") -> tuple[str, ...]:
    return tuple(sql.format(**names(prefix)) for sql in _STREAMS)


def queries(prefix: str = "") -> dict[str, str]:
    """Return the SQL of each query by name."""
    return {name: sql.format(**names(prefix)) for name, sql in _QUERIES.items()}
