"""Statements in the SQL of other systems: a statement works, or the error names the construct and what to write instead.

Every piece of SQL in backticks that a hint suggests can be parsed and planned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from engine.data.schema import INT32, INT64, STRING, Field, Schema, TableSchema
from engine.expressions.functions import ALIASES, RULES
from engine.plan.aggregations import AGGREGATES, SCALINGS
from engine.sql import PlanningError, SqlCatalog, parse_create_stream, plan_query, split_statements
from engine.sql.terms.expressions import CONSTANTS
from engine.sql.terms.foreign_constructs import CONSTRUCTS, FUNCTIONS, PREFIXES, STATEMENTS, edits, near
from tests.support.checkout import ROOT

STREAMS = (
    "CREATE STREAM clicks (ts timestamp, user_id int64, page string, referrer string, amount float64, qty int32, "
    "ok boolean, props string, WATERMARK FOR ts AS ts)",
    "CREATE STREAM orders (ts timestamp, user_id int64, total float64, WATERMARK FOR ts AS ts)",
)
USERS = TableSchema("users", Schema((Field("user_id", INT64), Field("country", STRING))))
CATALOG = SqlCatalog.of(map(parse_create_stream, STREAMS), [USERS])

# The streams and the table that occur in the examples of hints.
COLUMNS = "(ts timestamp, since timestamp, k int32, x float64, y float64, name string, ok boolean, WATERMARK FOR ts AS ts)"
NAMES = TableSchema("t", Schema((Field("k", INT32), Field("name", STRING))))
EXAMPLES = SqlCatalog.of((parse_create_stream(f"CREATE STREAM {one} {COLUMNS}") for one in "sr"), [NAMES])

# Aggregates that the manual lists; hints must list the same aggregates.
AGGREGATES_OF_MANUAL = re.search(
    r"- Aggregates: (.*?)\n- ", (ROOT / "docs/sql.md").read_text(encoding="utf-8"), re.DOTALL
)
assert AGGREGATES_OF_MANUAL is not None
DOCUMENTED = ", ".join(sorted(set(re.findall(r"`([A-Z_]+)", AGGREGATES_OF_MANUAL[1]))))

WORK = (
    "SELECT window_start, COUNT(*) AS n FROM TUMBLE(clicks, ts, INTERVAL 1 MINUTE)",
    "SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
    "SELECT window_start, COUNT(*) AS n FROM TUMBLE(clicks, ts, INTERVAL '1' MINUTE)",
    "SELECT window_start, COUNT(*) AS n FROM TUMBLE(clicks, ts, INTERVAL '1 minute')",
    "SELECT window_start, user_id, COUNT(*) AS n FROM HOP(clicks, ts, INTERVAL '10 seconds', INTERVAL '1 minute') GROUP BY user_id",
    "SELECT date_trunc('minute', ts) AS m, amount FROM clicks",
    "WITH big AS (SELECT ts, user_id, amount FROM clicks WHERE amount > 50) SELECT user_id, amount FROM big",
    "WITH big AS (SELECT ts, user_id, amount FROM clicks WHERE amount > 50) SELECT user_id, COUNT(*) AS n FROM big [RANGE 1 MINUTE] GROUP BY user_id",
    "SELECT x.user_id, x.n FROM (SELECT user_id, COUNT(*) AS n FROM clicks [RANGE 1 MINUTE] GROUP BY user_id) AS x WHERE x.n > 1",
    "SELECT c.user_id, o.total FROM clicks c JOIN orders o ON c.user_id = o.user_id AND o.ts BETWEEN c.ts AND c.ts + INTERVAL '10 seconds'",
    "SELECT c.user_id, u.country FROM clicks c LEFT JOIN users u ON c.user_id = u.user_id",
    "SELECT country, COUNT(*) AS n FROM clicks [RANGE 1 MINUTE] c JOIN users u ON c.user_id = u.user_id GROUP BY country",
    "SELECT user_id, country FROM clicks JOIN users USING (user_id)",
    "SELECT page FROM clicks WHERE page ILIKE '/P%'",
    "SELECT ts + INTERVAL '1 hour' AS later FROM clicks",
    "SELECT EXTRACT(minute FROM ts) AS m FROM clicks",
    "SELECT CASE WHEN amount > 50 THEN 'big' ELSE 'small' END AS size FROM clicks",
    "SELECT IF(amount > 50, 'big', 'small') AS size FROM clicks",
    "SELECT page, COUNT(*) FILTER (WHERE amount > 50) AS n FROM clicks [RANGE 1 MINUTE] GROUP BY page",
    "SELECT COUNT_IF(amount > 50) AS n FROM clicks [RANGE 1 MINUTE]",
    "SELECT page, SUM(CASE WHEN amount > 50 THEN 1 ELSE 0 END) AS n FROM clicks [RANGE 1 MINUTE] GROUP BY page",
    "SELECT DISTINCT user_id FROM clicks [RANGE 1 MINUTE]",
    "SELECT COUNT(DISTINCT user_id) AS n FROM clicks [RANGE 1 MINUTE]",
    "SELECT PERCENTILE(amount, 0.95) AS p FROM clicks [RANGE 1 MINUTE]",
    "SELECT QUANTILE_CONT(amount, 0.95) AS p FROM clicks [RANGE 1 MINUTE]",
    "SELECT APPROX_QUANTILE(amount, 0.95) AS p FROM clicks [RANGE 1 MINUTE]",
    "SELECT TOP(page, 3) AS pages FROM clicks [RANGE 1 MINUTE]",
    "SELECT user_id, LAST(page) AS page FROM clicks [RANGE 10 MINUTES] GROUP BY user_id",
    "SELECT page, COUNT(*) AS n FROM clicks [RANGE 1 MINUTE] GROUP BY page HAVING COUNT(*) > 5",
    "SELECT ts, user_id FROM clicks UNION ALL SELECT ts, user_id FROM orders",
    "SELECT a.user_id, b.page FROM clicks a JOIN clicks b ON a.user_id = b.user_id AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '5 seconds'",
    "SELECT c.user_id, o.total, u.country FROM clicks c JOIN orders o ON c.user_id = o.user_id AND o.ts BETWEEN c.ts AND c.ts + INTERVAL '10 seconds' JOIN users u ON u.user_id = c.user_id",
    "SELECT page FROM clicks WHERE page IN ('/a', '/b')",
    "SELECT page FROM clicks WHERE user_id NOT IN (1, NULL)",
    "SELECT amount FROM clicks WHERE amount BETWEEN 10 AND 15",
    'SELECT "user_id" AS "User Id" FROM "clicks"',
    'SELECT page AS "select" FROM clicks',
    "SELECT CAST(amount AS int) AS a FROM clicks",
    "SELECT CAST(qty AS bigint) AS q, CAST(amount AS decimal(10, 2)) AS a FROM clicks",
    "SELECT COALESCE(NULLIF(page, '/a'), 'none') AS p FROM clicks",
    "SELECT page FROM clicks WHERE page IS DISTINCT FROM '/a'",
    "SELECT SUM(amount + NULL) AS s FROM clicks [RANGE 1 MINUTE]",
    "SELECT amount / 0 AS x FROM clicks",
    "SELECT qty // 2 AS h, qty % 2 AS r FROM clicks",
    "SELECT upper(page) AS u, length(page) AS l, substring(page, 2, 3) AS s, replace(page, '/', '-') AS r FROM clicks",
    "SELECT COUNT(*) AS n, AVG(amount) AS a FROM clicks [ROWS 10]",
    "SELECT page, COUNT(*) AS n FROM clicks [RANGE 1 MINUTE] GROUP BY 1",
    "SELECT upper(page) AS p, COUNT(*) AS n FROM clicks [RANGE 1 MINUTE] GROUP BY p",
    "SELECT page, COUNT(*) AS n FROM clicks [RANGE 1 MINUTE] GROUP BY ALL",
    "SELECT STDDEV(amount) AS s, VARIANCE(amount) AS v FROM clicks [RANGE 1 MINUTE]",
    "SELECT BOOL_OR(ok) AS any_ok FROM clicks [RANGE 1 MINUTE]",
    "SELECT c.user_id, o.total FROM clicks c LEFT JOIN orders [LAST BY user_id] o ON c.user_id = o.user_id",
    "SELECT user_id FROM clicks -- all of them\n;",
    "SELECT greatest(qty, 3) AS g, least(qty, 3) AS l FROM clicks",
)

REFUSED = {
    # session window fn
    "SELECT user_id, COUNT(*) AS n FROM SESSION(clicks, ts, INTERVAL '30 seconds') GROUP BY user_id": "line 1, column 36: session windows are not supported yet (got 'SESSION')\n  hint: use a window of fixed length: `SELECT k, COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY k`",
    # session group by
    "SELECT user_id, COUNT(*) AS n FROM clicks GROUP BY user_id, SESSION(ts, INTERVAL '30 seconds')": "line 1, column 61: session windows are not supported yet (got 'SESSION')\n  hint: use a window of fixed length: `SELECT k, COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY k`",
    # group by date_trunc
    "SELECT date_trunc('minute', ts) AS m, COUNT(*) AS n FROM clicks GROUP BY 1": "line 1, column 39: an aggregate over a stream needs a window, because a stream never ends\n  hint: FROM clicks [RANGE 10 SECONDS]",
    # OVER rows
    "SELECT user_id, AVG(amount) OVER (PARTITION BY user_id ORDER BY ts ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) AS a FROM clicks": "line 1, column 17: window functions (OVER) are not supported yet (got 'AVG(amount) OVER (PARTITION BY user_id ORDER BY ts ROWS BETWEEN 5 PRECEDING AN…)\n  hint: for a moving average write `SELECT AVG(x) AS mean FROM s [RANGE 10 SECONDS SLIDE 1 SECOND]`, or `SELECT AVG(x) AS mean FROM s [ROWS 6 SLIDE 1]`",
    # OVER range
    "SELECT user_id, SUM(amount) OVER (PARTITION BY user_id ORDER BY ts RANGE BETWEEN INTERVAL 10 SECONDS PRECEDING AND CURRENT ROW) AS a FROM clicks": "line 1, column 17: window functions (OVER) are not supported yet (got 'SUM(amount) OVER (PARTITION BY user_id ORDER BY...N INTERVAL 10 SECONDS PRECED…)\n  hint: for a moving average write `SELECT AVG(x) AS mean FROM s [RANGE 10 SECONDS SLIDE 1 SECOND]`, or `SELECT AVG(x) AS mean FROM s [ROWS 6 SLIDE 1]`",
    # LAG
    "SELECT user_id, amount - LAG(amount) OVER (PARTITION BY user_id ORDER BY ts) AS d FROM clicks": "line 1, column 26: functions of neighbouring rows (LAG, LEAD) are not supported yet (got 'LAG(amount) OVER (PARTITION BY user_id ORDER BY ts)')\n  hint: for the change from row to row write `SELECT LAST(x) - FIRST(x) AS change FROM s [ROWS 2 SLIDE 1]`, for the change by group `SELECT k, LAST(x) - FIRST(x) AS change FROM s [RANGE 10 SECONDS] GROUP BY k`",
    # LEAD
    "SELECT LEAD(amount) OVER (ORDER BY ts) AS n FROM clicks": "line 1, column 8: functions of neighbouring rows (LAG, LEAD) are not supported yet (got 'LEAD(amount) OVER (ORDER BY ts)')\n  hint: for the change from row to row write `SELECT LAST(x) - FIRST(x) AS change FROM s [ROWS 2 SLIDE 1]`, for the change by group `SELECT k, LAST(x) - FIRST(x) AS change FROM s [RANGE 10 SECONDS] GROUP BY k`",
    # ROW_NUMBER topn
    "SELECT * FROM (SELECT page, ROW_NUMBER() OVER (PARTITION BY page ORDER BY amount DESC) AS rn FROM clicks) AS x WHERE rn <= 3": "line 1, column 29: ranks of rows (ROW_NUMBER, RANK, QUALIFY) are not supported yet (got 'ROW_NUMBER() OVER (PARTITION BY page ORDER BY amount DESC)')\n  hint: for the most frequent values write `SELECT TOP(name, 3) AS names FROM s [RANGE 1 MINUTE]`, for the largest value of each group `SELECT k, MAX(x) AS most FROM s [RANGE 1 MINUTE] GROUP BY k`",
    # scalar subquery
    "SELECT user_id FROM clicks WHERE amount > (SELECT AVG(amount) FROM clicks [RANGE 10 SECONDS])": "line 1, column 51: a query inside an expression is not supported (got 'AVG(amount) FROM clicks [RANGE 10')\n  hint: use a JOIN instead",
    # IN subquery
    "SELECT user_id FROM clicks WHERE user_id IN (SELECT user_id FROM users)": "line 1, column 46: IN with a query is not supported\n  hint: use a JOIN instead",
    # EXISTS
    "SELECT user_id FROM clicks c WHERE EXISTS (SELECT 1 FROM users u WHERE u.user_id = c.user_id)": "line 1, column 44: a query inside an expression is not supported\n  hint: use a JOIN instead",
    # LEFT JOIN with a stream and an interval
    "SELECT c.user_id, o.total FROM clicks c LEFT JOIN orders o ON c.user_id = o.user_id AND o.ts BETWEEN c.ts AND c.ts + INTERVAL '10 seconds'": "line 1, column 51: LEFT JOIN with a stream is not supported, because a match may still come\n  hint: use JOIN, or LEFT JOIN with a table",
    # NATURAL JOIN
    "SELECT user_id, country FROM clicks NATURAL JOIN users": "line 1, column 37: NATURAL JOIN is not supported\n  hint: use JOIN, or LEFT JOIN with a table",
    # CROSS JOIN LATERAL
    "SELECT c.user_id, x.total FROM clicks c CROSS JOIN LATERAL (SELECT total FROM orders o WHERE o.user_id = c.user_id) AS x": "line 1, column 52: LATERAL is not supported yet (got 'LATERAL')\n  hint: join the two with a bound on time: `SELECT a.k, b.x FROM s a JOIN r b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1 minute'`, or with the last row of each key: `SELECT a.k, b.x FROM s a JOIN r [LAST BY k] b ON a.k = b.k`",
    # UNNEST
    "SELECT user_id, tag FROM clicks, UNNEST(page) AS t(tag)": "line 1, column 34: UNNEST is not supported: columns cannot hold arrays (got 'UNNEST')\n  hint: send one row for each element to a separate stream",
    # json arrow
    "SELECT props->>'country' AS country FROM clicks": "line 1, column 13: JSON operators (->, ->>) and functions are not supported yet (got '->>')\n  hint: parse the JSON before you send it, and declare its fields as columns: `CREATE STREAM s (ts timestamp, country string, WATERMARK FOR ts AS ts)`",
    # json path
    "SELECT json_extract_string(props, '$.country') AS country FROM clicks": "line 1, column 8: JSON operators (->, ->>) and functions are not supported yet (got 'json_extract_string')\n  hint: parse the JSON before you send it, and declare its fields as columns: `CREATE STREAM s (ts timestamp, country string, WATERMARK FOR ts AS ts)`",
    # json_value
    "SELECT json_value(props, '$.country') AS country FROM clicks": "line 1, column 8: JSON operators (->, ->>) and functions are not supported yet (got 'json_value')\n  hint: parse the JSON before you send it, and declare its fields as columns: `CREATE STREAM s (ts timestamp, country string, WATERMARK FOR ts AS ts)`",
    # array literal
    "SELECT [user_id, qty] AS a FROM clicks": "line 1, column 8: arrays are not supported yet (got '[')\n  hint: declare a column for each element, or send a row for each element; for a list of constants write `k IN (1, 2)`",
    # struct literal
    "SELECT {'a': user_id} AS s FROM clicks": "line 1, column 8: structs and maps are not supported yet (got '{')\n  hint: use a column for each part: `SELECT x AS point_x, y AS point_y FROM s`",
    # array_agg
    "SELECT user_id, array_agg(page) AS pages FROM clicks [RANGE 1 MINUTE] GROUP BY user_id": "line 1, column 17: lists of a group's values (ARRAY_AGG, STRING_AGG) are not supported yet (got 'array_agg')\n  hint: for the most frequent values of a window as one text write `SELECT TOP(name, 10) AS names FROM s [RANGE 1 MINUTE]`",
    # string_agg
    "SELECT user_id, string_agg(page, ',') AS pages FROM clicks [RANGE 1 MINUTE] GROUP BY user_id": "line 1, column 17: lists of a group's values (ARRAY_AGG, STRING_AGG) are not supported yet (got 'string_agg')\n  hint: for the most frequent values of a window as one text write `SELECT TOP(name, 10) AS names FROM s [RANGE 1 MINUTE]`",
    # regexp_matches
    "SELECT page FROM clicks WHERE regexp_matches(page, '^/p')": "line 1, column 31: regular expressions are not supported yet (got 'regexp_matches')\n  hint: match texts by `name LIKE 'a%'`, `name ILIKE '%b%'`, `starts_with(name, 'a')`, `ends_with(name, 'b')` or `contains(name, 'b')`",
    # regexp_extract
    "SELECT regexp_extract(page, '([0-9]+)') AS n FROM clicks": "line 1, column 8: regular expressions are not supported yet (got 'regexp_extract')\n  hint: match texts by `name LIKE 'a%'`, `name ILIKE '%b%'`, `starts_with(name, 'a')`, `ends_with(name, 'b')` or `contains(name, 'b')`",
    # SIMILAR TO
    "SELECT page FROM clicks WHERE page SIMILAR TO '/p.*'": "line 1, column 36: regular expressions are not supported yet (got 'SIMILAR TO')\n  hint: match texts by `name LIKE 'a%'`, `name ILIKE '%b%'`, `starts_with(name, 'a')`, `ends_with(name, 'b')` or `contains(name, 'b')`",
    # ~ operator
    "SELECT page FROM clicks WHERE page ~ '^/p'": "line 1, column 36: regular expressions are not supported yet (got '~')\n  hint: match texts by `name LIKE 'a%'`, `name ILIKE '%b%'`, `starts_with(name, 'a')`, `ends_with(name, 'b')` or `contains(name, 'b')`",
    # timestamp diff
    "SELECT c.ts - c.ts AS d FROM clicks c": "line 1, column 8: two timestamps cannot be added or subtracted (got 'c.ts - c.ts')\n  hint: epoch_ms(a) - epoch_ms(b)",
    # UDF create
    "CREATE FUNCTION f(x) AS x + 1": "line 1, column 1: user-defined functions (CREATE FUNCTION, CREATE MACRO) are not supported yet\n  hint: write the expression in each query, or once in a query that others read: `CREATE QUERY doubled AS SELECT ts, k, x * 2 AS x2 FROM s`",
    # DISTINCT ON
    "SELECT DISTINCT ON (user_id) user_id, page FROM clicks [RANGE 1 MINUTE]": "line 1, column 21: DISTINCT ON is not supported\n  hint: use FIRST(x) or LAST(x), with GROUP BY",
    # percentile_cont within group
    "SELECT PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY amount) AS p FROM clicks [RANGE 1 MINUTE]": "line 1, column 8: PERCENTILE_CONT and WITHIN GROUP are not supported (got 'PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY amount)')\n  hint: write `PERCENTILE(x, 0.95)`, or `APPROX_QUANTILE(x, 0.95)` in bounded memory",
    # ORDER BY and LIMIT in a window
    "SELECT page, COUNT(*) AS n FROM clicks [RANGE 1 MINUTE] GROUP BY page ORDER BY n DESC LIMIT 3": "line 1, column 71: a stream never ends, so its rows cannot be sorted (ORDER BY)\n  hint: leave ORDER BY out, or sort the answers where they are read; for the most frequent values of each window write `SELECT TOP(name, 10) AS names FROM s [RANGE 10 SECONDS]`",
    # QUALIFY
    "SELECT user_id, page FROM clicks QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) = 1": "line 1, column 34: ranks of rows (ROW_NUMBER, RANK, QUALIFY) are not supported yet\n  hint: for the most frequent values write `SELECT TOP(name, 3) AS names FROM s [RANGE 1 MINUTE]`, for the largest value of each group `SELECT k, MAX(x) AS most FROM s [RANGE 1 MINUTE] GROUP BY k`",
    # the clause EMIT ON WINDOW CLOSE
    "SELECT page, COUNT(*) AS n FROM clicks GROUP BY page EMIT ON WINDOW CLOSE": "line 1, column 54: EMIT is not supported: a windowed query answers when each of its windows closes (got 'EMIT')\n  hint: leave EMIT out: `SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE]`; for earlier answers let the window slide: `SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE SLIDE 10 SECONDS]`",
    # EMIT CHANGES
    "SELECT user_id, page FROM clicks EMIT CHANGES": "line 1, column 34: EMIT is not supported: a windowed query answers when each of its windows closes (got 'EMIT')\n  hint: leave EMIT out: `SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE]`; for earlier answers let the window slide: `SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE SLIDE 10 SECONDS]`",
    # UNION
    "SELECT user_id FROM clicks UNION SELECT user_id FROM orders": "line 1, column 41: UNION would keep every row for ever, in order to remove duplicates\n  hint: use UNION ALL",
    # EXCEPT
    "SELECT user_id FROM clicks EXCEPT SELECT user_id FROM orders": "line 1, column 42: EXCEPT would keep both streams for ever\n  hint: use UNION ALL, or a join with a bound on time",
    # RIGHT JOIN
    "SELECT c.user_id FROM clicks c RIGHT JOIN users u ON c.user_id = u.user_id": "line 1, column 32: RIGHT JOIN is not supported\n  hint: use JOIN, or LEFT JOIN with a table",
    # FULL JOIN
    "SELECT c.user_id FROM clicks c FULL JOIN users u ON c.user_id = u.user_id": "line 1, column 32: FULL JOIN is not supported\n  hint: use JOIN, or LEFT JOIN with a table",
    # AT TIME ZONE
    "SELECT ts AT TIME ZONE 'Europe/Vienna' AS t FROM clicks": "line 1, column 8: time zones are not supported yet: timestamps are UTC (got \"ts AT TIME ZONE 'Europe/Vienna'\")\n  hint: for a fixed offset write `ts + INTERVAL '1 hour'`",
    # strftime
    "SELECT strftime(ts, '%H:%M') AS t FROM clicks": "line 1, column 8: formatted times are not supported yet (STRFTIME)\n  hint: for the whole time write `CAST(ts AS string)`, for a part `hour(ts)`, for a coarser time `date_trunc('day', ts)`",
    # DATE cast
    "SELECT CAST(ts AS date) AS d FROM clicks": "line 1, column 19: there is no such type (got 'date')\n  hint: use timestamp",
    # now()
    "SELECT now() AS t FROM clicks": "line 1, column 8: a query cannot read the clock, random numbers, files, the network or the environment (got 'now()')\n  hint: if you need the time, use the event time of the stream",
    # concat_ws
    "SELECT concat_ws('-', page, referrer) AS c FROM clicks": "line 1, column 8: there is no function CONCAT_WS\n  hint: join texts by `name || '-' || k` or `concat(name, '-', k)`",
    # split_part
    "SELECT split_part(page, '/', 2) AS p FROM clicks": "line 1, column 8: there is no function SPLIT_PART\n  hint: for the part before the first '/' write `left(name, strpos(name, '/') - 1)`, for the part after it `substring(name, strpos(name, '/') + 1)`",
    # hash/md5
    "SELECT md5(page) AS h FROM clicks": "line 1, column 8: hashes of values are not supported yet (MD5)\n  hint: select the column itself, or hash it before it is sent",
    # GROUPING SETS
    "SELECT page, ok, COUNT(*) AS n FROM clicks [RANGE 1 MINUTE] GROUP BY GROUPING SETS ((page), (ok))": "line 1, column 86: several groupings in one query (GROUPING SETS, ROLLUP, CUBE) are not supported yet (got 'page), (ok')\n  hint: write a query for each: `SELECT k, COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY k UNION ALL SELECT NULL AS k, COUNT(*) AS n FROM s [RANGE 1 MINUTE]`",
    # ROLLUP
    "SELECT page, ok, COUNT(*) AS n FROM clicks [RANGE 1 MINUTE] GROUP BY ROLLUP (page, ok)": "line 1, column 78: several groupings in one query (GROUPING SETS, ROLLUP, CUBE) are not supported yet (got 'page, ok')\n  hint: write a query for each: `SELECT k, COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY k UNION ALL SELECT NULL AS k, COUNT(*) AS n FROM s [RANGE 1 MINUTE]`",
    # MATCH_RECOGNIZE
    "SELECT * FROM clicks MATCH_RECOGNIZE (PARTITION BY user_id ORDER BY ts PATTERN (a b+) DEFINE a AS amount > 1)": "line 1, column 22: pattern matching (MATCH_RECOGNIZE) is not supported yet (got 'MATCH_RECOGNIZE')\n  hint: for a row that follows another within a time, join the stream with itself: `SELECT a.k, b.x FROM s a JOIN s b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '10 seconds' WHERE a.x < b.x`",
    # corr
    "SELECT CORR(amount, qty) AS c FROM clicks [RANGE 1 MINUTE]": "line 1, column 8: there is no aggregate CORR\n  hint: aggregates: "
    + DOCUMENTED,
    # max_by
    "SELECT MAX_BY(page, amount) AS p FROM clicks [RANGE 1 MINUTE]": "line 1, column 8: there is no aggregate MAX_BY\n  hint: for the largest value write `MAX(x)`, for the value of the latest row `LAST(name)`",
    # temporal FOR SYSTEM_TIME
    "SELECT c.user_id, u.country FROM clicks c JOIN users FOR SYSTEM_TIME AS OF c.ts AS u ON c.user_id = u.user_id": "line 1, column 54: temporal joins (FOR SYSTEM_TIME AS OF, ASOF JOIN) are not supported yet (got 'FOR')\n  hint: join with the last row of each key: `SELECT a.k, b.x FROM s a LEFT JOIN r [LAST BY k] b ON a.k = b.k`; a static table is joined as it is: `SELECT a.k, b.name FROM s a LEFT JOIN t b ON a.k = b.k`",
    # SELECT * EXCLUDE
    "SELECT * EXCLUDE (page) FROM clicks": "line 1, column 10: * EXCLUDE is not supported\n  hint: list the columns you need",
    # SELECT * REPLACE
    "SELECT * REPLACE (upper(page) AS page) FROM clicks": "line 1, column 10: * REPLACE is not supported\n  hint: list the columns you need",
    # VALUES
    "SELECT v.a FROM (VALUES (1), (2)) AS v(a)": "line 1, column 18: a list of rows (VALUES) is not supported in FROM (got 'VALUES')\n  hint: put the rows into a static table and join it: `SELECT a.x, b.name FROM s a JOIN t b ON a.k = b.k`; for a few values write `SELECT x FROM s WHERE k IN (1, 2)`",
    # SELECT 1
    "SELECT 1": "line 1, column 8: a continuous query must read a stream, but this query has no FROM\n  hint: SELECT … FROM stream",
    # -- further statements of other SQL systems
    "SELECT IF(ok, 1) AS x FROM clicks": "line 1, column 16: IF needs 3 arguments: a condition and two values (got 2)\n  hint: `IF(x > 0, 'up', 'down')`",
    "SELECT COUNT_IF(amount) AS n FROM clicks [RANGE 1 MINUTE]": "line 1, column 8: count_if takes a condition, but this is float64 (got 'amount')\n  hint: `COUNT_IF(x > 0)`",
    "SELECT BOOL_AND(DISTINCT page) AS n FROM clicks [RANGE 1 MINUTE]": "line 1, column 8: bool_and takes a condition, but this is string (got 'page')\n  hint: `BOOL_AND(x > 0)`",
    "SELECT SUM(ts) AS n FROM clicks [RANGE 1 MINUTE]": "line 1, column 8: sum takes numbers, but this is timestamp (got 'ts')\n  hint: convert it to a number: `epoch_ms(ts)`",
    "SELECT * FROM clicks WHERE ok = 'maybe'": "line 1, column 33: this is not a value of type boolean (got \"'maybe'\")\n  hint: write TRUE or FALSE",
    "SELECT * FROM clicks WHERE ts > 'soon'": "line 1, column 33: this is not a value of type timestamp (got \"'soon'\")\n  hint: write `TIMESTAMP '2026-01-01 00:00:00'`",
    "SELECT page FROM clicks WHERE COUNT_IF(ok) > 1": "line 1, column 31: WHERE cannot contain aggregates (got 'count_if')\n  hint: filter groups with HAVING",
    "SELECT SCALED(COUNT_IF(ok)) AS n, SCALED(BOOL_OR(ok)) AS b FROM clicks [RANGE 1 MINUTE]": "line 1, column 42: SCALED accepts only COUNT and SUM (got 'bool_or')\n  hint: SCALED(SUM(x)), SCALED(COUNT(*))",
    "SELECT COUNT_IF(*) AS n FROM clicks [RANGE 1 MINUTE]": "line 1, column 8: count_if takes a column, not *\n  hint: COUNT(*)",
    "SELECT COUNT_IF(DISTINCT ok) AS n FROM clicks [RANGE 1 MINUTE]": "line 1, column 8: count_if of DISTINCT values is not supported\n  hint: COUNT(DISTINCT x)",
    "SELECT EXTRACT(milliseconds FROM ts) AS m FROM clicks": "line 1, column 16: there is no such part of a time (got 'milliseconds')\n  hint: use year, quarter, month, day, day_of_week, day_of_year, hour, minute, second, epoch, epoch_ms",
    "SELECT date_part('weeks', ts) AS w FROM clicks": "line 1, column 8: there is no such part of a time (got 'weeks')\n  hint: use year, quarter, month, day, day_of_week, day_of_year, hour, minute, second, epoch, epoch_ms",
    "SELECT uppr(page) AS p FROM clicks [RANGE 1 MINUTE]": "line 1, column 8: there is no such function (got 'uppr')\n  hint: did you mean upper?",
    "SELECT round(corr(amount, qty), 2) AS c FROM clicks [RANGE 1 MINUTE]": "line 1, column 14: there is no aggregate CORR\n  hint: aggregates: "
    + DOCUMENTED,
    "SELECT SUM(page) FROM clicks [RANGE 1 MINUTE]": "line 1, column 8: sum takes numbers, but this is string (got 'page')\n  hint: use `TOP(page, 10)`, `MIN(page)` or `COUNT(DISTINCT page)` for strings; if they contain numbers, convert them by `TRY_CAST(page AS float64)`",
    "SELECT AVG(ok) FROM clicks [RANGE 1 MINUTE]": "line 1, column 8: avg takes numbers, but this is boolean (got 'ok')\n  hint: count the rows where it is true: `COUNT_IF(ok)`",
    "SELECT * FROM clicks WHERE amount = 'x'": "line 1, column 37: this is not a value of type float64 (got \"'x'\")\n  hint: write a number without quotes (5 or 2.5), and a column without quotes or in double quotes",
    "SELECT * FROM clicks WHERE page > 5": "line 1, column 28: this expression must have type int32, but it is a string (got 'page')\n  hint: to compare strings, quote the constant: '5'; if the strings contain values of that type, convert them by `TRY_CAST(page AS int32)`, which is NULL for other strings",
    "SELECT user_id AS a, page AS a FROM clicks": "line 1, column 22: two columns have the same name (got 'a')\n  hint: give one of the columns another name: page AS a_1",
    "INSERT INTO clicks VALUES (1)": "line 1, column 1: INSERT is refused: queries read streams and change nothing\n  hint: send rows to a stream by a feed or by weir rows put, or read them from a file by weir run --input; query them by `SELECT x FROM s`",
    "SELECT * FROM clicks LIMIT 10": "line 1, column 22: a stream never ends, so its rows cannot be limited (LIMIT, OFFSET, FETCH)\n  hint: leave the clause out; for the most frequent values of each window write `SELECT TOP(name, 10) AS names FROM s [RANGE 10 SECONDS]`",
    "SELECT foo(page) FROM clicks": "line 1, column 8: there is no such function (got 'foo')\n  hint: functions: abs, ceil, coalesce, concat, contains, date_trunc, day, day_of_week, day_of_year, ends_with, epoch, epoch_ms, exp, floor, greatest, hour, if, least, left, length, ln, log10, log2, lower, ltrim, minute, month, nullif, power, quarter, replace, right, round, rtrim, second, sign, sqrt, starts_with, strpos, substring, trim, upper, year; aggregates: "
    + DOCUMENTED,
    "SELECT foo(page) FROM clicks [RANGE 1 MINUTE]": "line 1, column 8: there is no aggregate FOO\n  hint: aggregates: "
    + DOCUMENTED,
    "SELECT c.user_id, o.total FROM clicks c ASOF JOIN orders o ON c.user_id = o.user_id AND c.ts >= o.ts": "line 1, column 41: temporal joins (FOR SYSTEM_TIME AS OF, ASOF JOIN) are not supported yet\n  hint: join with the last row of each key: `SELECT a.k, b.x FROM s a LEFT JOIN r [LAST BY k] b ON a.k = b.k`; a static table is joined as it is: `SELECT a.k, b.name FROM s a LEFT JOIN t b ON a.k = b.k`",
    "SELECT c.user_id FROM clicks c SEMI JOIN users u ON c.user_id = u.user_id": "line 1, column 32: joins without columns of the other side (SEMI JOIN, ANTI JOIN) are not supported yet\n  hint: for rows with a match write `SELECT a.x FROM s a JOIN t b ON a.k = b.k`, for rows without one `SELECT a.x FROM s a LEFT JOIN t b ON a.k = b.k WHERE b.k IS NULL`",
    "SELECT * FROM clicks PIVOT (SUM(amount) FOR page IN ('a', 'b'))": "line 1, column 22: PIVOT is not supported yet (got 'PIVOT')\n  hint: write a column for each value: `SELECT SUM(x) FILTER (WHERE k = 1) AS k_1, SUM(x) FILTER (WHERE k = 2) AS k_2 FROM s [RANGE 1 MINUTE]`",
    "SELECT props #>> 'a' FROM clicks": "line 1, column 14: JSON operators (->, ->>) and functions are not supported yet (got '#>>')\n  hint: parse the JSON before you send it, and declare its fields as columns: `CREATE STREAM s (ts timestamp, country string, WATERMARK FOR ts AS ts)`",
    "SELECT props:country FROM clicks": "line 1, column 13: JSON operators (->, ->>) and functions are not supported yet (got ':')\n  hint: parse the JSON before you send it, and declare its fields as columns: `CREATE STREAM s (ts timestamp, country string, WATERMARK FOR ts AS ts)`",
    "SELECT page[1] FROM clicks": "line 1, column 12: arrays are not supported yet (got '[')\n  hint: declare a column for each element, or send a row for each element; for a list of constants write `k IN (1, 2)`",
    "SELECT qty & 3 FROM clicks": "line 1, column 12: bit operators are not supported yet (got '&')\n  hint: for whole powers of two write `k % 8` for the lower bits and `k // 8` for the upper ones",
    "SELECT qty << 2 FROM clicks": "line 1, column 8: bit operators are not supported yet (got 'qty << 2')\n  hint: for whole powers of two write `k % 8` for the lower bits and `k // 8` for the upper ones",
    "SELECT * FROM clicks WHERE page RLIKE 'a'": "line 1, column 33: regular expressions are not supported yet (got 'RLIKE')\n  hint: match texts by `name LIKE 'a%'`, `name ILIKE '%b%'`, `starts_with(name, 'a')`, `ends_with(name, 'b')` or `contains(name, 'b')`",
    "SELECT * FROM clicks WHERE page GLOB 'a*'": "line 1, column 33: regular expressions are not supported yet (got 'GLOB')\n  hint: match texts by `name LIKE 'a%'`, `name ILIKE '%b%'`, `starts_with(name, 'a')`, `ends_with(name, 'b')` or `contains(name, 'b')`",
    "SELECT * FROM clicks WHERE user_id = ANY (1, 2)": "line 1, column 38: arrays are not supported yet (got 'any')\n  hint: declare a column for each element, or send a row for each element; for a list of constants write `k IN (1, 2)`",
    "SELECT ARRAY[1, 2] FROM clicks": "line 1, column 13: arrays are not supported yet (got '[')\n  hint: declare a column for each element, or send a row for each element; for a list of constants write `k IN (1, 2)`",
    "SELECT page, COUNT(*) FROM clicks [RANGE 1 MINUTE] GROUP BY CUBE (page)": "line 1, column 67: several groupings in one query (GROUPING SETS, ROLLUP, CUBE) are not supported yet (got 'page')\n  hint: write a query for each: `SELECT k, COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY k UNION ALL SELECT NULL AS k, COUNT(*) AS n FROM s [RANGE 1 MINUTE]`",
    "CREATE TABLE x (a int)": "line 1, column 1: SQL cannot create tables\n  hint: declare a stream by `CREATE STREAM s (ts timestamp, x float64, WATERMARK FOR ts AS ts)`, or a query by `CREATE QUERY name AS SELECT k, x FROM s`",
    "CREATE MATERIALIZED VIEW v AS SELECT * FROM clicks": "line 1, column 1: views are not supported: other queries can read the answers of a query as a stream\n  hint: write `CREATE QUERY name AS SELECT k, x FROM s`",
    "UPDATE clicks SET page = 'a'": "line 1, column 1: UPDATE is refused: queries read streams and change nothing\n  hint: write a query such as `SELECT x FROM s WHERE x > 0`",
    "SELECT to_char(ts, 'HH') FROM clicks": "line 1, column 8: formatted times are not supported yet (TO_CHAR)\n  hint: for the whole time write `CAST(ts AS string)`, for a part `hour(ts)`, for a coarser time `date_trunc('day', ts)`",
    "SELECT date_diff('second', ts, ts) FROM clicks": "line 1, column 8: there is no function DATE_DIFF\n  hint: for the milliseconds between two times write `epoch_ms(ts) - epoch_ms(since)`",
    "SELECT NTH_VALUE(page, 2) OVER (ORDER BY ts) FROM clicks": "line 1, column 8: functions of neighbouring rows (LAG, LEAD) are not supported yet (got 'NTH_VALUE(page, 2) OVER (ORDER BY ts)')\n  hint: for the change from row to row write `SELECT LAST(x) - FIRST(x) AS change FROM s [ROWS 2 SLIDE 1]`, for the change by group `SELECT k, LAST(x) - FIRST(x) AS change FROM s [RANGE 10 SECONDS] GROUP BY k`",
    "SELECT LAG(amount) FROM clicks": "line 1, column 8: functions of neighbouring rows (LAG, LEAD) are not supported yet (got 'lag')\n  hint: for the change from row to row write `SELECT LAST(x) - FIRST(x) AS change FROM s [ROWS 2 SLIDE 1]`, for the change by group `SELECT k, LAST(x) - FIRST(x) AS change FROM s [RANGE 10 SECONDS] GROUP BY k`",
    "SELECT SUM(amount) OVER w FROM clicks WINDOW w AS (ORDER BY ts)": "line 1, column 39: the WINDOW clause is not supported\n  hint: write the window after its stream: `SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE]`",
    "SELECT explode(page) FROM clicks": "line 1, column 8: UNNEST is not supported: columns cannot hold arrays (got 'explode')\n  hint: send one row for each element to a separate stream",
    "SELECT TRY(amount / 0) FROM clicks": "line 1, column 8: TRY is not supported (got 'try')\n  hint: a row whose expression fails is left out and counted; for NULL instead write `TRY_CAST(name AS int32)`",
    "SELECT MODE(page) FROM clicks [RANGE 1 MINUTE]": "line 1, column 8: there is no aggregate MODE\n  hint: for the most frequent value write `TOP(name, 1)`",
    "SELECT ANY_VALUE(page) FROM clicks [RANGE 1 MINUTE]": "line 1, column 8: there is no aggregate ANY_VALUE\n  hint: for the latest value write `LAST(x)`, for the earliest `FIRST(x)`",
    "SELECT page, COUNT(*) FROM clicks EMIT FINAL": "line 1, column 35: EMIT is not supported: a windowed query answers when each of its windows closes (got 'EMIT')\n  hint: leave EMIT out: `SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE]`; for earlier answers let the window slide: `SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE SLIDE 10 SECONDS]`",
    "SELECT * FROM clicks c JOIN orders o WITHIN 1 HOUR ON c.user_id = o.user_id": "line 1, column 38: WITHIN is not supported in a join (got 'WITHIN')\n  hint: bound the time in ON: `SELECT a.k, b.x FROM s a JOIN r b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '1 hour' AND a.ts + INTERVAL '1 hour'`",
}


def plan_all(text: str, catalog: SqlCatalog) -> None:
    for statement in split_statements(text):
        if statement.kind == "stream":
            parse_create_stream(statement.text)
        else:
            plan_query(statement.name, statement.text, catalog)


@pytest.mark.parametrize("sql", WORK)
def test_a_statement_of_other_systems_is_planned(sql: str) -> None:
    plan_all(sql, CATALOG)


@pytest.mark.parametrize("sql", REFUSED)
def test_the_error_for_a_construct_of_another_system_says_what_to_write_instead(sql: str) -> None:
    with pytest.raises(PlanningError) as caught:
        plan_all(sql, CATALOG)
    assert str(caught.value) == REFUSED[sql]


# -- hints in error messages ---------------------------------------------------------------------------------


def suggestions(hints: Iterator[str]) -> list[str]:
    return sorted({example for hint in hints for example in re.findall(r"`([^`]+)`", hint)})


GENERAL = suggestions(
    iter([*(one.hint for one in CONSTRUCTS), *(hint for _, hint in STATEMENTS.values()), *CONSTANTS.values()])
)
FORMS = (
    "{}",
    "SELECT {} AS suggested FROM {}",
    "SELECT {} AS suggested FROM {} [RANGE 1 MINUTE]",
)


def can_be_planned(example: str, catalog: SqlCatalog, stream: str) -> bool:
    for form in FORMS:
        try:
            plan_all(form.format(example, stream), catalog)
        except PlanningError:
            continue
        return True
    return False


@pytest.mark.parametrize("example", GENERAL)
def test_sql_examples_in_general_hints_can_be_planned(example: str) -> None:
    assert can_be_planned(example, EXAMPLES, "s")


@pytest.mark.parametrize("sql", REFUSED)
def test_suggestions_for_refused_statements_can_be_planned(sql: str) -> None:
    for example in suggestions(iter([REFUSED[sql]])):
        assert can_be_planned(example, EXAMPLES, "s") or can_be_planned(example, CATALOG, "clicks")


def test_no_supported_function_is_listed_as_unsupported() -> None:
    known = {*RULES, *ALIASES, *AGGREGATES, *SCALINGS}
    assert {name for name in FUNCTIONS if name in known} == set()
    assert {name for name in known if name.startswith(tuple(PREFIXES))} == set()


def test_no_function_of_other_systems_is_listed_under_two_constructs() -> None:
    names = [name for construct in CONSTRUCTS for name in construct.functions.split()]
    assert sorted(names) == sorted(set(names))


# -- names that a message suggests for a misspelled name -----------------------------------------------------

KNOWN = ["avg", "count", "floor", "substring", "scaled", "concat", "upper"]


@pytest.mark.parametrize(
    ("name", "suggested_names"),
    [
        ("agv", ["avg"]),
        ("uppr", ["upper"]),
        ("subtsrign", ["substring"]),
        ("foo", []),
        ("json_value", []),
        ("string_agg", []),
        ("a", []),
    ],
)
def test_a_name_is_suggested_only_if_it_is_similar(name: str, suggested_names: list[str]) -> None:
    assert near(name, KNOWN) == suggested_names


@pytest.mark.parametrize(
    ("one", "other", "count"), [("", "abc", 3), ("avg", "avg", 0), ("agv", "avg", 1), ("foo", "floor", 2)]
)
def test_two_swapped_letters_count_as_one_edit_between_names(one: str, other: str, count: int) -> None:
    assert edits(one, other) == edits(other, one) == count
