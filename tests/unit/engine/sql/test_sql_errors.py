"""Queries that cannot be planned: each message has the place, the mistake and what to write instead."""

import pickle

import pytest

from engine.data.schema import INT32, STRING, Field, Schema, TableSchema
from engine.sql import PlanningError, SqlCatalog, parse_create_stream, plan_query

STREAMS = (
    "CREATE STREAM readings (ts int64, sensor int32, region int32, temp float64, humidity float64, wind float64, WATERMARK FOR ts AS ts)",
    "CREATE STREAM alerts (ts int64, sensor int32, level int32, WATERMARK FOR ts AS ts)",
    "CREATE STREAM trades (at timestamp, symbol string, price decimal(10, 2), qty int64, ok boolean, WATERMARK FOR at AS at)",
    "CREATE STREAM loose (a int32, b string)",
)
SENSORS = TableSchema("sensors", Schema((Field("sensor", INT32), Field("name", STRING))))
CATALOG = SqlCatalog.of([parse_create_stream(one) for one in STREAMS], [SENSORS])

MESSAGES = {
    # names that do not exist or are ambiguous
    "SELECT * FROM reading": "line 1, column 15: there is no such stream (got 'reading')\n  hint: did you mean readings?",
    "SELECT temq FROM readings": "line 1, column 8: there is no such column (got 'temq')\n  hint: did you mean temp?",
    "SELECT r.temp FROM readings a": "line 1, column 8: FROM has no stream or table with this name (got 'r')\n  hint: known: a",
    "SELECT a.tmp FROM readings a": "line 1, column 8: there is no such column (got 'tmp')\n  hint: did you mean temp?",
    "SELECT sensor FROM readings r JOIN alerts a ON r.sensor = a.sensor AND ABS(r.ts - a.ts) < 10": "line 1, column 8: the name of this column is ambiguous (got 'sensor')\n  hint: r.sensor or a.sensor",
    "SELECT x.readings.temp FROM readings": "line 1, column 8: the name of a column can have at most two parts: column or stream.column\n  hint: temp",
    "SELECT * FROM other.readings": "line 1, column 20: the name of a stream cannot contain a dot",
    "SELECT * FROM readings, readings": "line 1, column 25: two items of FROM have the same name (got 'readings')\n  hint: readings AS a JOIN readings AS b",
    "SELECT a AS x, b AS x FROM loose": "line 1, column 16: two columns have the same name (got 'x')\n  hint: give one of the columns another name: b AS x_1",
    "SELECT uppr(symbol) FROM trades": "line 1, column 8: there is no such function (got 'uppr')\n  hint: did you mean upper?",
    "SELECT now() FROM readings": "line 1, column 8: a query cannot read the clock, random numbers, files, the network or the environment (got 'now()')\n  hint: if you need the time, use the event time of the stream",
    "SELECT current_timestamp FROM readings": "line 1, column 8: a query cannot read the clock, random numbers, files, the network or the environment (got 'current_timestamp')\n  hint: if you need the time, use the event time of the stream",
    "SELECT CAST(temp AS flot) FROM readings": "line 1, column 21: there is no such type (got 'flot')\n  hint: did you mean float?",
    "SELECT DATE '2026-01-01' FROM readings": "line 1, column 8: there is no such type (got 'date')\n  hint: use timestamp",
    # windows
    "SELECT avg(temp) FROM readings": "line 1, column 8: an aggregate over a stream needs a window, because a stream never ends\n  hint: FROM readings [RANGE 10 SECONDS]",
    "SELECT region, count(*) FROM readings GROUP BY region": "line 1, column 16: an aggregate over a stream needs a window, because a stream never ends\n  hint: FROM readings [RANGE 10 SECONDS]",
    "SELECT count(DISTINCT sensor) FROM readings": "line 1, column 8: COUNT(DISTINCT …) over a stream without a window would keep every value for ever\n  hint: FROM readings [RANGE 10 SECONDS]",
    "SELECT DISTINCT region FROM readings": "line 1, column 17: DISTINCT over a stream without a window would keep every row for ever\n  hint: FROM readings [RANGE 10 SECONDS]",
    "SELECT * FROM readings HAVING temp > 3": "line 1, column 31: HAVING filters aggregates, but the query has no window and no aggregates\n  hint: FROM readings [RANGE 10 SECONDS]",
    "SELECT avg(x) FROM (SELECT avg(temp) AS x FROM readings [RANGE 10 SECONDS])": "line 1, column 8: an aggregate over a stream needs a window, because a stream never ends\n  hint: FROM (SELECT …) AS x [RANGE 10 SECONDS]",
    "SELECT count(*) FROM readings r JOIN alerts a ON r.sensor = a.sensor AND r.ts = a.ts": "line 1, column 8: an aggregate over a stream needs a window, because a stream never ends\n  hint: give the joined result a window: FROM (SELECT … FROM a JOIN b ON …) AS x [RANGE 10 SECONDS]",
    "SELECT avg(temp) FROM readings [RANGE 2 SECONDS SLIDE 10 SECONDS]": "line 1, column 55: SLIDE is longer than RANGE (2 SECONDS), so rows between two windows would be left out (got '10 SECONDS')\n  hint: make SLIDE 2 SECONDS or less",
    "SELECT avg(temp) FROM readings [RANGE 2 SECONDS SLIDE AT MOST 10 SECONDS]": "line 1, column 63: SLIDE is longer than RANGE (2 SECONDS), so rows between two windows would be left out (got '10 SECONDS')\n  hint: make SLIDE 2 SECONDS or less",
    "SELECT avg(temp) FROM readings [RANGE 2 SECONDS SLIDE AT MOST 0 SECONDS]": "line 1, column 63: SLIDE of a window must be more than 0 (got '0 SECONDS')\n  hint: [RANGE 10 SECONDS SLIDE 2 SECONDS]",
    "SELECT avg(temp) FROM readings [RANGE 2 SECONDS SLIDE AT MOST -1 SECONDS]": "line 1, column 63: SLIDE of a window must be more than 0 (got '-1 SECONDS')\n  hint: [RANGE 10 SECONDS SLIDE 2 SECONDS]",
    "SELECT avg(temp) FROM readings [RANGE 2 SECONDS SLIDE AT 1 SECOND]": "line 1, column 55: MOST is missing after AT\n  hint: SLIDE AT MOST 2 SECONDS",
    "SELECT avg(temp) FROM readings [RANGE 2 SECONDS SLIDE AT MOST]": "line 1, column 62: a value or a column is missing here (got ']')",
    "SELECT avg(temp) FROM readings [RANGE 2 SECONDS SLIDE AT MOST 3]": "line 1, column 63: SLIDE of a window must be a constant with a unit of time (got '3')\n  hint: [RANGE 10 SECONDS SLIDE 2 SECONDS]",
    "SELECT avg(temp) FROM readings [RANGE 1 HOUR SLIDE AT MOST 7001 MILLISECONDS]": "line 1, column 60: RANGE is 3,600,000 times the greatest common divisor of RANGE and SLIDE; 100,000 is the maximum (got '7001 MILLISECONDS')\n  hint: use a SLIDE that divides 1 HOUR",
    "SELECT avg(temp) FROM readings [RANGE 2 SECONDS SLIDE AT MOST 500 MICROSECONDS]": "line 1, column 32: SLIDE is not a multiple of 1,000 µs, the unit of the event time (got '500 microseconds')\n  hint: use whole milliseconds",
    "SELECT avg(temp) FROM readings [RANGE 1500 MICROSECONDS]": "line 1, column 32: RANGE is not a multiple of 1,000 µs, the unit of the event time (got '1500 microseconds')\n  hint: use whole milliseconds",
    "SELECT avg(temp) FROM readings [ROWS 10 SLIDE AT MOST 2]": "line 1, column 32: a window of rows cannot use SLIDE AT MOST\n  hint: [ROWS 100 SLIDE 10], or [RANGE 10 SECONDS SLIDE AT MOST 2 SECONDS]",
    "SELECT r.temp, a.level FROM readings [RANGE 5 SECONDS SLIDE AT MOST 1 SECOND] r JOIN alerts [RANGE 5 SECONDS] a ON r.sensor = a.sensor": "line 1, column 29: a join cannot use SLIDE AT MOST\n  hint: [RANGE 10 SECONDS], or [RANGE 10 SECONDS SLIDE 2 SECONDS]",
    "SELECT avg(temp) FROM HOP(readings, ts, INTERVAL '10 seconds', INTERVAL '2 seconds')": "line 1, column 41: the slide is longer than the size (2 SECONDS), so rows between two windows would be left out (got '10 SECONDS')\n  hint: give HOP the slide first, then the size",
    "SELECT avg(temp) FROM HOP(readings, ts, INTERVAL '10 seconds')": "line 1, column 23: HOP was called with the wrong number of arguments\n  hint: HOP(s, ts, INTERVAL '2 seconds', INTERVAL '10 seconds'), with the slide before the size",
    "SELECT avg(temp) FROM TUMBLE(readings, sensor, INTERVAL '10 seconds')": "line 1, column 40: a window must use the event time of its stream (got 'sensor')\n  hint: write ts, the event time",
    "SELECT avg(temp) FROM readings [RANGE temp SECONDS]": "line 1, column 39: the length of an interval must be a constant\n  hint: INTERVAL '10 seconds'",
    "SELECT avg(temp) FROM readings [RANGE 10]": "line 1, column 39: RANGE of a window must be a constant with a unit of time (got '10')\n  hint: [RANGE 10 SECONDS SLIDE 2 SECONDS]",
    "SELECT avg(temp) FROM readings [RANGE 10 MONTHS]": "line 1, column 42: the window has an unknown unit of time (got 'MONTHS')\n  hint: use microseconds, milliseconds, seconds, minutes, hours, days, weeks",
    "SELECT avg(temp) FROM readings [RANGE INTERVAL '1 month']": "line 1, column 39: months and years have no fixed length (got '1 month')\n  hint: INTERVAL '30 days'",
    "SELECT avg(temp) FROM readings [RANGE 0 SECONDS]": "line 1, column 39: RANGE of a window must be more than 0 (got '0 SECONDS')\n  hint: [RANGE 10 SECONDS SLIDE 2 SECONDS]",
    "SELECT avg(temp) FROM readings [RANGE 400 DAYS]": "line 1, column 39: a window can be at most 366 days long (got '400 DAYS')\n  hint: use a shorter window, and a second query over its results",
    "SELECT avg(temp) FROM readings [RANGE 300 DAYS SLIDE 1 SECOND]": "line 1, column 54: RANGE is more than 100,000 times SLIDE (got '1 SECOND')\n  hint: make SLIDE 259200 MILLISECONDS or more",
    "SELECT avg(temp) FROM readings [ROWS 10 SLIDE 20]": "line 1, column 47: SLIDE is longer than the window's 10 rows, so rows between two windows would be left out (got 20)\n  hint: make SLIDE 10 or less",
    "SELECT avg(temp) FROM readings [ROWS temp]": "line 1, column 38: the length of this window must be a constant number of rows (got 'temp')\n  hint: [ROWS 100 SLIDE 10]",
    "SELECT avg(temp) FROM readings [NOW]": "line 1, column 33: a window must begin with RANGE or ROWS (got 'NOW')\n  hint: [RANGE 10 SECONDS SLIDE 2 SECONDS] or [ROWS 100 SLIDE 10]",
    "SELECT avg(temp) FROM readings RANGE 10 SECONDS": "line 1, column 32: a window must be written in brackets (got 'RANGE')\n  hint: [RANGE 10 SECONDS SLIDE 2 SECONDS]",
    "SELECT avg(a) FROM loose [RANGE 10 SECONDS]": "line 1, column 26: a window with RANGE needs event time, but this stream or subquery has none (got 'loose')\n  hint: declare a WATERMARK on the stream and select its time column in subqueries, or use [ROWS 100]",
    "SELECT region FROM readings [RANGE 10 SECONDS]": "line 1, column 20: the query has a window, but no aggregate\n  hint: remove the window, or add an aggregate such as COUNT(*)",
    "SELECT window_end FROM readings": "line 1, column 8: window bounds are not available in SELECT (got 'window_end')\n  hint: aggregate in a window: FROM s [RANGE 10 SECONDS]",
    "SELECT window_end, count(*) FROM readings [ROWS 10]": "line 1, column 8: a window of rows has no window_start and no window_end (got 'window_end')",
    "SELECT avg(temp) OVER (PARTITION BY region) FROM readings": "line 1, column 8: window functions (OVER) are not supported yet (got 'avg(temp) OVER (PARTITION BY region)')\n  hint: for a moving average write `SELECT AVG(x) AS mean FROM s [RANGE 10 SECONDS SLIDE 1 SECOND]`, or `SELECT AVG(x) AS mean FROM s [ROWS 6 SLIDE 1]`",
    # groups and aggregates
    "SELECT sensor, region, avg(temp) FROM readings [RANGE 10 SECONDS] GROUP BY region": "line 1, column 8: this column is neither in GROUP BY nor inside an aggregate (got 'sensor')\n  hint: GROUP BY sensor, or take one value of each group: MAX(sensor)",
    "SELECT *, avg(temp) FROM readings [RANGE 10 SECONDS] GROUP BY region": "line 1, column 8: this column is neither in GROUP BY nor inside an aggregate (got 'ts')\n  hint: add ts to GROUP BY, or list the columns you need",
    "SELECT * FROM readings WHERE avg(temp) > 3": "line 1, column 30: WHERE cannot contain aggregates (got 'avg')\n  hint: filter groups with HAVING",
    "SELECT avg(max(temp)) FROM readings [RANGE 10 SECONDS]": "line 1, column 12: an aggregate cannot contain another aggregate (got 'max(temp)')\n  hint: aggregate the results of another query: FROM (SELECT …) AS x [RANGE …]",
    "SELECT count(*) FROM readings [RANGE 10 SECONDS] GROUP BY 3": "line 1, column 59: GROUP BY has a number that is not the position of a column of SELECT (got '3')\n  hint: use a number from 1 to 1",
    "SELECT count(*) FROM readings [RANGE 10 SECONDS] GROUP BY 1": "line 1, column 59: GROUP BY cannot use an aggregate (got '1')",
    "SELECT count(*) FROM readings [RANGE 10 SECONDS] GROUP BY ROLLUP (region)": "line 1, column 67: several groupings in one query (GROUPING SETS, ROLLUP, CUBE) are not supported yet (got 'region')\n  hint: write a query for each: `SELECT k, COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY k UNION ALL SELECT NULL AS k, COUNT(*) AS n FROM s [RANGE 1 MINUTE]`",
    "SELECT count(*) AS n FROM readings [RANGE 10 SECONDS] HAVING m > 3": "line 1, column 62: there is no such column (got 'm')\n  hint: known: humidity, n, region, sensor, temp, ts, wind, window_end, window_start",
    "SELECT sum(symbol) FROM trades [RANGE 10 SECONDS]": "line 1, column 8: sum takes numbers, but this is string (got 'symbol')\n  hint: use `TOP(symbol, 10)`, `MIN(symbol)` or `COUNT(DISTINCT symbol)` for strings; if they contain numbers, convert them by `TRY_CAST(symbol AS float64)`",
    "SELECT sum(DISTINCT temp) FROM readings [RANGE 10 SECONDS]": "line 1, column 8: sum of DISTINCT values is not supported\n  hint: COUNT(DISTINCT x)",
    "SELECT max(*) FROM readings [RANGE 10 SECONDS]": "line 1, column 8: max takes a column, not *\n  hint: COUNT(*)",
    "SELECT percentile(temp) FROM readings [RANGE 10 SECONDS]": "line 1, column 8: percentile takes two arguments\n  hint: PERCENTILE(x, 0.95)",
    "SELECT percentile(temp, 2) FROM readings [RANGE 10 SECONDS]": "line 1, column 25: the second argument of percentile must be a constant from 0 to 1 (got '2')",
    "SELECT top(temp, wind) FROM readings [RANGE 10 SECONDS]": "line 1, column 18: the second argument of top must be a whole number from 1 to 1,000 (got 'wind')",
    "SELECT approx_quantile(temp) FROM readings [RANGE 10 SECONDS]": "line 1, column 8: approx_quantile takes two arguments\n  hint: APPROX_QUANTILE(x, 0.95)",
    "SELECT approx_quantile(temp, 95) FROM readings [RANGE 10 SECONDS]": "line 1, column 30: the second argument of approx_quantile must be a constant from 0 to 1 (got '95')",
    "SELECT approx_quantile(symbol, 0.5) FROM trades [RANGE 10 SECONDS]": "line 1, column 8: approx_quantile takes numbers, but this is string (got 'symbol')\n  hint: use `TOP(symbol, 10)`, `MIN(symbol)` or `COUNT(DISTINCT symbol)` for strings; if they contain numbers, convert them by `TRY_CAST(symbol AS float64)`",
    "SELECT approx_top_k(symbol, 200) FROM trades [RANGE 10 SECONDS]": "line 1, column 29: the second argument of approx_top_k must be a whole number from 1 to 100 (got '200')",
    "SELECT approx_count_distinct(*) FROM trades [RANGE 10 SECONDS]": "line 1, column 8: approx_count_distinct takes a column, not *\n  hint: COUNT(*)",
    "SELECT SCALED(approx_count_distinct(symbol)) FROM trades [RANGE 10 SECONDS]": "line 1, column 15: SCALED accepts only COUNT and SUM (got 'approx_count_distinct')\n  hint: SCALED(SUM(x)), SCALED(COUNT(*))",
    "SELECT SCALED(avg(temp)) FROM readings [RANGE 10 SECONDS]": "line 1, column 15: SCALED accepts only COUNT and SUM (got 'avg')\n  hint: SCALED(SUM(x)), SCALED(COUNT(*))",
    "SELECT SCALED(temp) FROM readings [RANGE 10 SECONDS]": "line 1, column 8: SCALED takes a count or a sum\n  hint: SCALED(SUM(x)), SCALED(COUNT(*))",
    "SELECT SCALED_ERROR(avg(temp)) FROM readings [RANGE 10 SECONDS]": "line 1, column 21: SCALED accepts only COUNT and SUM (got 'avg')\n  hint: SCALED_ERROR(SUM(x)), SCALED_ERROR(COUNT(*))",
    "SELECT SCALED_ERROR(temp) FROM readings [RANGE 10 SECONDS]": "line 1, column 8: SCALED_ERROR takes a count or a sum\n  hint: SCALED_ERROR(SUM(x)), SCALED_ERROR(COUNT(*))",
    "SELECT SCALED_ERROR(SCALED(count(*))) FROM readings [RANGE 10 SECONDS]": "line 1, column 21: SCALED_ERROR takes a count or a sum\n  hint: SCALED_ERROR(SUM(x)), SCALED_ERROR(COUNT(*))",
    "SELECT * FROM readings WHERE SCALED_ERROR(count(*)) > 3": "line 1, column 30: WHERE cannot contain aggregates (got 'scaled_error')\n  hint: filter groups with HAVING",
    "SELECT DISTINCT count(*) FROM readings [RANGE 10 SECONDS]": "line 1, column 17: DISTINCT cannot be combined with aggregates or GROUP BY\n  hint: leave DISTINCT out: groups are distinct already",
    "SELECT DISTINCT ON (temp) temp FROM readings [RANGE 10 SECONDS]": "line 1, column 21: DISTINCT ON is not supported\n  hint: use FIRST(x) or LAST(x), with GROUP BY",
    # mistakes with streams, tables and joins
    "SELECT * FROM readings ORDER BY temp": "line 1, column 24: a stream never ends, so its rows cannot be sorted (ORDER BY)\n  hint: leave ORDER BY out, or sort the answers where they are read; for the most frequent values of each window write `SELECT TOP(name, 10) AS names FROM s [RANGE 10 SECONDS]`",
    "SELECT * FROM readings LIMIT 10": "line 1, column 24: a stream never ends, so its rows cannot be limited (LIMIT, OFFSET, FETCH)\n  hint: leave the clause out; for the most frequent values of each window write `SELECT TOP(name, 10) AS names FROM s [RANGE 10 SECONDS]`",
    "SELECT * FROM readings UNION SELECT * FROM readings": "line 1, column 37: UNION would keep every row for ever, in order to remove duplicates\n  hint: use UNION ALL",
    "SELECT * FROM readings EXCEPT SELECT * FROM readings": "line 1, column 38: EXCEPT would keep both streams for ever\n  hint: use UNION ALL, or a join with a bound on time",
    "SELECT ts FROM readings UNION ALL SELECT ts, level FROM alerts": "line 1, column 42: the queries of UNION ALL differ in their number of columns (got '1 and 2')\n  hint: count window_start and window_end: a query with a window has them first, unless it selects them itself",
    "SELECT ts FROM readings UNION ALL SELECT symbol FROM trades": "line 1, column 42: column 1 of the queries of UNION ALL has incompatible types (got 'int64 and string')\n  hint: CAST one of the columns",
    "SELECT * FROM readings r JOIN alerts a ON r.sensor = a.sensor": "line 1, column 26: a join of two streams without a bound on time would keep both streams for ever\n  hint: add AND a.ts BETWEEN r.ts - INTERVAL '1 minute' AND r.ts + INTERVAL '1 minute', or give both sides a window",
    "SELECT * FROM readings r JOIN alerts a ON r.sensor = a.sensor AND a.ts > r.ts": "line 1, column 26: the join bounds time in one direction only, so one stream would be kept for ever\n  hint: add AND a.ts BETWEEN r.ts - INTERVAL '1 minute' AND r.ts + INTERVAL '1 minute', or give both sides a window",
    "SELECT * FROM readings r JOIN alerts a ON a.ts > r.ts + 10 AND a.ts < r.ts": "line 1, column 26: no pair of rows can satisfy the bounds on time",
    "SELECT * FROM readings [RANGE 10 SECONDS] r JOIN alerts a ON r.sensor = a.sensor": "line 1, column 50: one side of the join has a window and the other side has none (got 'a')\n  hint: a [RANGE 10 SECONDS]",
    "SELECT * FROM readings r JOIN trades t ON r.ts = t.at": "line 1, column 31: the event times of the two joined streams have different types (got 'int64 and timestamp')",
    "SELECT * FROM trades a JOIN trades b ON ABS(a.at - b.at) <= 500": "line 1, column 61: a distance in time must be an interval, not a number (got '500')\n  hint: INTERVAL '1 second'",
    "SELECT * FROM readings r JOIN loose l ON r.sensor = l.a": "line 1, column 31: a join of streams needs event time, but this stream or subquery has none (got 'l')\n  hint: declare a WATERMARK on the stream and select its time column in subqueries",
    "SELECT * FROM readings r LEFT JOIN alerts a ON r.sensor = a.sensor AND r.ts = a.ts": "line 1, column 36: LEFT JOIN with a stream is not supported, because a match may still come\n  hint: use JOIN, or LEFT JOIN with a table",
    "SELECT * FROM readings r FULL JOIN alerts a ON r.sensor = a.sensor": "line 1, column 26: FULL JOIN is not supported\n  hint: use JOIN, or LEFT JOIN with a table",
    "SELECT * FROM readings r, readings s, alerts a WHERE r.ts = s.ts AND s.ts = a.ts": "line 1, column 39: a query can join at most two streams\n  hint: FROM (SELECT … FROM a JOIN b ON …) AS x JOIN c ON …",
    "SELECT * FROM sensors": "line 1, column 15: a continuous query must read a stream, but FROM has only tables (got 'sensors')\n  hint: SELECT … FROM stream JOIN sensors ON …",
    "SELECT * FROM readings r JOIN sensors s ON r.temp > 3": "line 1, column 26: a join with a table needs a key\n  hint: ON stream.k = table.k",
    "SELECT * FROM readings r JOIN sensors [RANGE 10 SECONDS] s ON r.sensor = s.sensor": "line 1, column 39: a table cannot have a window (got 's')\n  hint: remove the window",
    # types of expressions
    "SELECT temp + 'a' FROM readings": "line 1, column 8: add: argument 2 is string, which is not allowed (got \"temp + 'a'\")\n  hint: add takes two numbers, or a timestamp and an interval",
    "SELECT temp + symbol FROM trades, readings": "line 1, column 35: the event times of the two joined streams have different types (got 'timestamp and int64')",
    "SELECT * FROM trades WHERE symbol > 3": "line 1, column 28: this expression must have type int32, but it is a string (got 'symbol')\n  hint: to compare strings, quote the constant: '5'; if the strings contain values of that type, convert them by `TRY_CAST(symbol AS int32)`, which is NULL for other strings",
    "SELECT * FROM readings WHERE temp > 'abc'": "line 1, column 37: this is not a value of type float64 (got \"'abc'\")\n  hint: write a number without quotes (5 or 2.5), and a column without quotes or in double quotes",
    "SELECT * FROM readings WHERE temp": "line 1, column 30: WHERE needs a condition, but this expression has type float64\n  hint: compare it with something: x > 0",
    "SELECT * FROM readings WHERE NOT temp": "line 1, column 34: NOT needs a condition, but this expression has type float64",
    "SELECT upper(temp, 3) FROM readings": "line 1, column 8: upper: called with 2 arguments (got 'upper(temp, 3)')\n  hint: upper takes string",
    "SELECT at - at FROM trades": "line 1, column 8: two timestamps cannot be added or subtracted (got 'at - at')\n  hint: epoch_ms(a) - epoch_ms(b)",
    "SELECT at + 5 FROM trades": "line 1, column 8: only an interval can be added to a timestamp or subtracted from it (got 'at + 5')\n  hint: ts + INTERVAL '10 seconds'",
    "SELECT price + INTERVAL '5 seconds' FROM trades": "line 1, column 8: an interval can only be added to a timestamp or subtracted from it (got 'decimal(10, 2)')\n  hint: ts + INTERVAL '10 seconds'",
    "SELECT INTERVAL '5 seconds' FROM trades": "line 1, column 8: an interval can only be added to a timestamp or subtracted from it (got \"INTERVAL '5 seconds'\")\n  hint: ts + INTERVAL '10 seconds'",
    "SELECT CAST(temp AS timestamp) FROM readings": "line 1, column 13: float64 cannot be cast to timestamp (got 'temp')\n  hint: use epoch_ms(x), which converts between timestamps and milliseconds",
    "SELECT CAST('abc' AS int) FROM readings": "line 1, column 13: this is not a value of type int32 (got \"'abc'\")\n  hint: write a whole number without quotes: 5",
    "SELECT TIMESTAMP 'yesterday' FROM readings": "line 1, column 18: this is not a value of type timestamp (got \"'yesterday'\")\n  hint: write `TIMESTAMP '2026-01-01 00:00:00'`",
    "SELECT CASE WHEN temp > 3 THEN 1 ELSE 'a' END FROM readings": "line 1, column 18: the branches of CASE have incompatible types (got 'int32, string')\n  hint: CAST one of the branches",
    "SELECT date_trunc('hur', at) FROM trades": "line 1, column 19: date_trunc does not support this unit (got 'hur')\n  hint: did you mean hour?",
    "SELECT 99999999999999999999 FROM readings": "line 1, column 8: this number does not fit into int64 (got '99999999999999999999')\n  hint: write it with an exponent: 1e20",
    "SELECT price * 0.00000000000000001 FROM trades": "line 1, column 8: multiply: decimal(10, 2) times decimal(18, 17) has 19 digits after the point, but a decimal can have at most 18 (got 'price * 0.00000000000000001')\n  hint: CAST one of the factors to a decimal with fewer digits, or to double",
    # statements that are refused
    "INSERT INTO readings VALUES (1)": "line 1, column 1: INSERT is refused: queries read streams and change nothing\n  hint: send rows to a stream by a feed or by weir rows put, or read them from a file by weir run --input; query them by `SELECT x FROM s`",
    "DROP TABLE readings": "line 1, column 1: DROP is refused: queries read streams and change nothing\n  hint: write a query such as `SELECT x FROM s WHERE x > 0`",
    "COPY readings TO 'x.csv'": "line 1, column 1: COPY is refused: queries read streams and change nothing\n  hint: write a query such as `SELECT x FROM s WHERE x > 0`",
    "SELECT * FROM read_csv('x.csv')": "line 1, column 15: there is no such table function (got 'read_csv')\n  hint: use TUMBLE or HOP over a registered stream; queries cannot read files or the network",
    "SELECT * FROM 'x.csv'": "line 1, column 15: FROM needs the name of a stream or table, but this is a text in quotes (got 'x.csv')\n  hint: write the name of a registered stream without quotes; weir run also reads files such as 'x.csv', and stdin as '-'",
    "SELECT read_text('x') FROM readings": "line 1, column 8: a query cannot read the clock, random numbers, files, the network or the environment (got 'read_text()')\n  hint: if you need the time, use the event time of the stream",
    "SELECT getenv('HOME') FROM readings": "line 1, column 8: a query cannot read the clock, random numbers, files, the network or the environment (got 'getenv()')\n  hint: if you need the time, use the event time of the stream",
    "SELECT * FROM readings WHERE sensor IN (SELECT sensor FROM alerts)": "line 1, column 41: IN with a query is not supported\n  hint: use a JOIN instead",
    "SELECT (SELECT max(level) FROM alerts) FROM readings": "line 1, column 16: a query inside an expression is not supported (got 'max(level) FROM alerts')\n  hint: use a JOIN instead",
    "SELECT * EXCLUDE (temp) FROM readings": "line 1, column 10: * EXCLUDE is not supported\n  hint: list the columns you need",
    "SELECT (temp, wind) FROM readings": "line 1, column 9: a list of values is not supported (got 'temp, wind')\n  hint: compare the values one by one: a.x = 1 AND a.y = 2",
    "WITH RECURSIVE x AS (SELECT 1) SELECT * FROM x": "line 1, column 16: WITH RECURSIVE is not supported",
    "SELECT 1": "line 1, column 8: a continuous query must read a stream, but this query has no FROM\n  hint: SELECT … FROM stream",
    "SELECT temp FROM readings; SELECT temp FROM readings": "line 1, column 26: the SQL contains several statements, but only one is allowed",
    # mistakes of syntax
    "SELEC temp FROM readings": "line 1, column 1: the query does not begin with SELECT (got 'SELEC')\n  hint: SELECT … FROM stream …",
    "SELECT temp, FROM readings": "line 1, column 14: a value or a column is missing here (got 'FROM')",
    "SELECT temp FROM readings WHERE": "line 1, column 32: a value or a column is missing here",
    "SELECT temp FROM readings WHERE temp > 3 AND": "line 1, column 45: a value or a column is missing here",
    "SELECT temp FROM readings WHERE (temp > 3": "line 1, column 42: a closing parenthesis is missing\n  hint: add a closing parenthesis, a comma or an operator",
    "SELECT temp FROM readings WHERE temp > 3)": "line 1, column 41: unexpected text (got ')')",
    "SELECT 'abc FROM readings": "line 1, column 8: the closing ' is missing",
    "SELECT CASE WHEN temp > 3 THEN 1 FROM readings": "line 1, column 34: END is missing here\n  hint: CASE WHEN condition THEN value ELSE value END",
    "SELECT CASE WHEN temp > 3 1 END FROM readings": "line 1, column 27: THEN is missing here\n  hint: CASE WHEN condition THEN value ELSE value END",
    "SELECT temp FROM readings WHERE temp BETWEEN 1": "line 1, column 47: AND is missing here\n  hint: x BETWEEN low AND high",
    "SELECT temp FROM (SELECT temp FROM readings": "line 1, column 44: a closing parenthesis is missing\n  hint: add a closing parenthesis, a comma or an operator",
    "SELECT count(*) FROM readings [RANGE 10 SECONDS": "line 1, column 48: the closing bracket of the window is missing here\n  hint: [RANGE 10 SECONDS SLIDE 2 SECONDS]",
    "SELECT CAST(temp int) FROM readings": "line 1, column 18: AS is missing here\n  hint: CAST(x AS float64)",
    "SELECT temp & 3 FROM readings": "line 1, column 13: bit operators are not supported yet (got '&')\n  hint: for whole powers of two write `k % 8` for the lower bits and `k // 8` for the upper ones",
    "WITH x AS (SELECT temp FROM readings) x": "line 1, column 40: SELECT is missing after WITH\n  hint: WITH x AS (SELECT …) SELECT … FROM x",
}


def refusal(sql: str, catalog: SqlCatalog = CATALOG) -> PlanningError:
    with pytest.raises(PlanningError) as caught:
        plan_query("q", sql, catalog)
    return caught.value


@pytest.mark.parametrize("sql", MESSAGES)
def test_invalid_query_is_refused_with_place_and_hint(sql: str) -> None:
    assert str(refusal(sql)) == MESSAGES[sql]


def test_place_of_an_error_is_the_line_and_column_in_the_users_text() -> None:
    problem = refusal("-- hot ones\n\nSELECT ts,\n       temq\nFROM readings")
    assert (problem.line, problem.column) == (4, 8)


def test_error_of_a_statement_is_moved_to_its_place_in_the_file() -> None:
    problem = refusal("SELECT *\nFROM reading")
    assert str(problem.moved(10, 4)).startswith("line 12, column 6: ")
    assert str(refusal("SELECT temq FROM readings").moved(10, 4)).startswith("line 11, column 12: ")


def test_planning_error_is_unchanged_after_pickling() -> None:
    problem = refusal("SELECT * FROM reading")
    copy = pickle.loads(pickle.dumps(problem))
    assert (type(copy), str(copy), copy.line, copy.column) == (PlanningError, str(problem), 1, 15)
    shown = problem.shown_in("SELECT * FROM reading")
    assert str(pickle.loads(pickle.dumps(shown))) == str(shown) != str(problem)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT '" + "x" * 100_000 + "' FROM readings",
            "line 1, column 1: the text is longer than 100,000 bytes (got 100023)",
        ),
        (
            "SELECT " + "(" * 25 + "temp FROM readings",
            "line 1, column 32: the query is nested more than 24 levels deep",
        ),
        (
            "SELECT " + " + ".join(["temp"] * 200) + " AS x FROM readings",
            "the expression is nested too deeply",
        ),
        ("SELECT " + ", ".join(["temp"] * 1_001) + " FROM readings", "the query has too many parts"),
        (
            "SELECT * FROM readings r"
            + "".join(f" JOIN sensors s{n} ON s{n}.sensor = r.sensor" for n in range(16)),
            "FROM can have at most 16 items (got 17)",
        ),
        (
            "SELECT " + "CASE " * 20 + "region" + " WHEN 1 THEN 2 WHEN 2 THEN 3 END" * 20 + " FROM readings",
            "the query has too many parts",
        ),
    ],
    ids=["long", "nested", "deep", "wide", "joined", "doubling"],
)
def test_oversized_query_is_refused(sql: str, message: str) -> None:
    assert message in str(refusal(sql))


def test_query_whose_size_doubles_with_each_nested_query_is_refused() -> None:
    steps = ["x0 AS (SELECT ts, sensor FROM readings)"]
    steps += (
        f"x{n} AS (SELECT a.ts, a.sensor FROM x{n - 1} a JOIN x{n - 1} b ON a.ts = b.ts)"
        for n in range(1, 60)
    )
    assert refusal(f"WITH {', '.join(steps)} SELECT * FROM x59").title == "the query has too many parts"


def test_long_conditions_are_planned() -> None:
    conditions = " OR ".join(f"temp BETWEEN {n} AND {n + 0.5}" for n in range(1_000))
    plan_query("q", f"SELECT * FROM readings WHERE {conditions}", CATALOG)
