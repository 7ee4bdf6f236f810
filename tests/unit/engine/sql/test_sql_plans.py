"""The whole plan of every form of query, including the eleven queries of workload W11."""

import pytest

from engine.data.schema import (
    BOOLEAN,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    DataType,
    Field,
    Schema,
    TableSchema,
    decimal,
)
from engine.plan.aggregations import Aggregation
from engine.plan.plan import (
    TRUE,
    Aggregate,
    Call,
    Case,
    Cast,
    Column,
    EventTime,
    Expression,
    Filter,
    IntervalJoin,
    Literal,
    Numbered,
    Plan,
    Project,
    QueryOutput,
    RowWindow,
    Scan,
    TableJoin,
    TimeWindow,
    Union,
    WindowAggregate,
    WindowJoin,
    event_time,
)
from engine.sql import SqlCatalog, output_of, parse_create_stream, plan_query

READINGS = parse_create_stream(
    "CREATE STREAM readings (ts int64, sensor int32, region int32, temp float64, humidity float64, wind float64, "
    "WATERMARK FOR ts AS ts)"
)
ALERTS = parse_create_stream(
    "CREATE STREAM alerts (ts int64, sensor int32, level int32, WATERMARK FOR ts AS ts - INTERVAL '1 second')"
)
TRADES = parse_create_stream(
    "CREATE STREAM trades (at timestamp, symbol string, price decimal(10, 2), qty int64, ok boolean, "
    "WATERMARK FOR at AS at)"
)
LOOSE = parse_create_stream("CREATE STREAM loose (a int32, b string)")
SENSORS = TableSchema(
    "sensors", Schema((Field("sensor", INT32), Field("name", STRING), Field("floor", INT32)))
)
HOT = QueryOutput("hot", Schema((Field("ts", INT64), Field("temp", FLOAT64))), time=0, time_unit_us=1000)
CATALOG = SqlCatalog.of([READINGS, ALERTS, TRADES, LOOSE], [SENSORS], [HOT])

S = 1_000_000  # one second, in microseconds
TS, SENSOR, REGION = Column(0, INT64), Column(1, INT32), Column(2, INT32)
TEMP, HUMIDITY, WIND = Column(3, FLOAT64), Column(4, FLOAT64), Column(5, FLOAT64)
AT, SYMBOL, PRICE = Column(0, TIMESTAMP), Column(1, STRING), Column(2, decimal(10, 2))
QTY, OK = Column(3, INT64), Column(4, BOOLEAN)


def planned(sql: str) -> Plan:
    return plan_query("q", sql, CATALOG).plan


def value(of: bool | int | float | str | None, type_: DataType = FLOAT64) -> Literal:
    return Literal(of, type_)


def holds(function: str, *arguments: Expression) -> Call:
    return Call(function, arguments, BOOLEAN)


def fields(**types: DataType) -> Schema:
    return Schema(tuple(Field(name, type_) for name, type_ in types.items()))


def windowed(
    below: Plan,
    window: TimeWindow,
    keys: tuple[int, ...],
    *aggregates: Aggregate,
    bound: DataType = INT64,
) -> WindowAggregate:
    """Return the plan of a windowed aggregate, with arbitrary column names in its schema."""
    schema = [Field("window_start", bound), Field("window_end", bound)]
    schema += [Field(f"k{place}", below.schema.fields[key].type) for place, key in enumerate(keys)]
    schema += [Field(f"a{place}", one.type) for place, one in enumerate(aggregates)]
    return WindowAggregate(below, window, keys, aggregates, Schema(tuple(schema)))


def joined_schema(*sides: Schema) -> Schema:
    types = [one.type for side in sides for one in side.fields]
    return Schema(tuple(Field(f"c{place}", type_) for place, type_ in enumerate(types)))


def columns(*of: Column) -> tuple[Column, ...]:
    return of


# --- queries of workload W11 ----------------------------------------------------------------------------


def aggregated(window: TimeWindow, key: int, *aggregates: Aggregate, **names: DataType) -> Plan:
    """Return the plan of a W11 query that selects the window's bounds, the key and the aggregates."""
    below = windowed(Scan(READINGS), window, (key,), *aggregates)
    out = [Column(place, one.type) for place, one in enumerate(below.schema.fields)]
    return Project(below, tuple(out), fields(window_start=INT64, wend=INT64, **names), 1)


def joined(low: int, high: int, alerts: Plan, readings: Plan) -> Plan:
    schema = joined_schema(ALERTS.schema, READINGS.schema)
    below = IntervalJoin(alerts, readings, (1,), (1,), low, high, TRUE, schema)
    out = columns(Column(3, INT64), Column(0, INT64), Column(4, INT32), Column(6, FLOAT64), Column(2, INT32))
    return Project(below, out, fields(rts=INT64, ats=INT64, sensor=INT32, temp=FLOAT64, level=INT32), 0)


W11 = {
    "SELECT * FROM readings WHERE temp > 30": Filter(Scan(READINGS), holds("greater", TEMP, value(30.0))),
    "SELECT ts, sensor, temp*1.8+32 AS f FROM readings WHERE humidity < 20 AND wind > 15": Project(
        Filter(
            Scan(READINGS),
            holds("and", holds("greater", WIND, value(15.0)), holds("less", HUMIDITY, value(20.0))),
        ),
        (
            TS,
            SENSOR,
            Call("add", (Call("multiply", (TEMP, value(1.8)), FLOAT64), value(32.0)), FLOAT64),
        ),
        fields(ts=INT64, sensor=INT32, f=FLOAT64),
        0,
    ),
    "SELECT * FROM readings WHERE region = 3": Filter(
        Scan(READINGS), holds("equal", REGION, value(3, INT32))
    ),
    "SELECT sensor, temp FROM readings WHERE wind > 40": Project(
        Filter(Scan(READINGS), holds("greater", WIND, value(40.0))),
        (SENSOR, TEMP),
        fields(sensor=INT32, temp=FLOAT64),
    ),
    "SELECT window_end AS wend, region, avg(temp) AS v FROM readings [RANGE 10 SECONDS SLIDE 2 SECONDS] "
    "GROUP BY region": aggregated(
        TimeWindow(10 * S, 2 * S), 2, Aggregate(Aggregation.AVG, 3, FLOAT64), region=INT32, v=FLOAT64
    ),
    "SELECT window_end AS wend, sensor, max(wind) AS v FROM TUMBLE(readings, ts, INTERVAL '10 seconds') "
    "GROUP BY sensor": aggregated(
        TimeWindow(10 * S, 10 * S), 1, Aggregate(Aggregation.MAX, 5, FLOAT64), sensor=INT32, v=FLOAT64
    ),
    "SELECT window_end AS wend, region, count(*) AS n FROM readings [RANGE 5 SECONDS SLIDE 1 SECOND] "
    "GROUP BY region": aggregated(
        TimeWindow(5 * S, S), 2, Aggregate(Aggregation.COUNT_ALL, None, INT64), region=INT32, n=INT64
    ),
    "SELECT window_end AS wend, sensor, sum(temp) AS v "
    "FROM HOP(readings, ts, INTERVAL '2 seconds', INTERVAL '4 seconds') GROUP BY sensor": aggregated(
        TimeWindow(4 * S, 2 * S), 1, Aggregate(Aggregation.SUM, 3, FLOAT64), sensor=INT32, v=FLOAT64
    ),
    "SELECT window_end AS wend, region, max(humidity) AS hi, min(humidity) AS lo "
    "FROM readings [RANGE 20 SECONDS SLIDE 5 SECONDS] GROUP BY region": aggregated(
        TimeWindow(20 * S, 5 * S),
        2,
        Aggregate(Aggregation.MAX, 4, FLOAT64),
        Aggregate(Aggregation.MIN, 4, FLOAT64),
        region=INT32,
        hi=FLOAT64,
        lo=FLOAT64,
    ),
    "SELECT r.ts AS rts, a.ts AS ats, r.sensor, r.temp, a.level FROM readings r JOIN alerts a "
    "ON r.sensor = a.sensor AND ABS(r.ts - a.ts) <= 500": joined(
        -500_000, 500_000, Scan(ALERTS), Scan(READINGS)
    ),
    "SELECT r.ts AS rts, a.ts AS ats, r.sensor, r.temp, a.level FROM readings r JOIN alerts a "
    "ON r.sensor = a.sensor AND a.ts BETWEEN r.ts - INTERVAL '1 second' AND r.ts + INTERVAL '1 second' "
    "AND a.level >= 4 AND r.temp > 25": joined(
        -1_000_000,
        1_000_000,
        Filter(Scan(ALERTS), holds("greater_equal", Column(2, INT32), value(4, INT32))),
        Filter(Scan(READINGS), holds("greater", TEMP, value(25.0))),
    ),
}


@pytest.mark.parametrize("sql", W11)
def test_each_query_of_workload_w11_has_its_expected_plan(sql: str) -> None:
    assert planned(sql) == W11[sql]


# --- expressions ----------------------------------------------------------------------------------------

EXPRESSIONS: dict[str, Expression] = {
    "qty + 1": Call("add", (QTY, value(1, INT64)), INT64),
    "1 + 2 * 3": value(7, INT32),
    "-(qty)": Call("negate", (QTY,), INT64),
    "-5": value(-5, INT32),
    "qty / 2": Call("divide", (Cast(QTY, FLOAT64), value(2.0)), FLOAT64),
    "qty // 2": Call("integer_divide", (QTY, value(2, INT64)), INT64),
    "qty % 2": Call("modulo", (QTY, value(2, INT64)), INT64),
    "2 ** 3": value(8.0),
    "price * 2": Call("multiply", (PRICE, value(2, decimal(1, 0))), decimal(11, 2)),
    "price > 10": holds("greater", PRICE, value(1000, decimal(10, 2))),
    "1.50": value(150, decimal(3, 2)),
    "1e3": value(1000.0),
    "3000000000": value(3_000_000_000, INT64),
    "'it''s'": value("it's", STRING),
    "NULL": value(None, INT32),
    "CAST(NULL AS string)": value(None, STRING),
    "NULL + qty": value(None, INT64),
    "TIMESTAMP '1970-01-01 00:00:01'": value(S, TIMESTAMP),
    "at > '1970-01-01 00:00:01'": holds("greater", AT, value(S, TIMESTAMP)),
    "at + INTERVAL '1 minute 1 second'": Call("add", (AT, value(61 * S, INT64)), TIMESTAMP),
    "at - INTERVAL 2 HOURS": Call("add", (AT, value(-7200 * S, INT64)), TIMESTAMP),
    "symbol || '-' || qty": Call(
        "append", (Call("append", (SYMBOL, value("-", STRING)), STRING), Cast(QTY, STRING)), STRING
    ),
    "symbol LIKE 'A%'": holds("like", SYMBOL, value("A%", STRING)),
    "symbol NOT ILIKE 'a!%' ESCAPE '!'": holds(
        "not", holds("ilike", SYMBOL, value("a!%", STRING), value("!", STRING))
    ),
    "ok IS NULL": holds("is_null", OK),
    "ok IS NOT NULL": holds("is_not_null", OK),
    "ok IS TRUE": holds("coalesce", OK, value(False, BOOLEAN)),
    "qty IS DISTINCT FROM 3": holds(
        "coalesce",
        holds("not_equal", QTY, value(3, INT64)),
        holds("is_null", QTY),
    ),
    "qty IN (3, 1, 2)": holds("in", QTY, value(1, INT64), value(2, INT64), value(3, INT64)),
    "qty IN (1, NULL)": holds("or", holds("equal", QTY, value(1, INT64)), value(None, BOOLEAN)),
    "qty BETWEEN 1 AND 2": holds(
        "and", holds("greater_equal", QTY, value(1, INT64)), holds("less_equal", QTY, value(2, INT64))
    ),
    "coalesce(NULL, price, 0)": Call("coalesce", (PRICE, value(0, decimal(10, 2))), decimal(10, 2)),
    "nullif(qty, 0)": Call("nullif", (QTY, value(0, INT64)), INT64),
    "CASE WHEN ok THEN 1 ELSE 2.5 END": Case(
        ((OK, value(10, decimal(2, 1))),), value(25, decimal(2, 1)), decimal(2, 1)
    ),
    "CASE qty WHEN 1 THEN 'one' END": Case(
        ((holds("equal", QTY, value(1, INT64)), value("one", STRING)),), value(None, STRING), STRING
    ),
    "TRY_CAST(symbol AS int)": Cast(SYMBOL, INT32, try_=True),
    "symbol::double": Cast(SYMBOL, FLOAT64),
    "TRY_CAST('x' AS int)": value(None, INT32),
    "date_trunc('Hours', at)": Call("date_trunc", (value("hour", STRING), AT), TIMESTAMP),
    "EXTRACT(hour FROM at)": Call("hour", (AT,), INT64),
    "date_part('year', at)": Call("year", (AT,), INT64),
    "upper(substring(symbol, 1, 2))": Call(
        "upper", (Call("substring", (SYMBOL, value(1, INT64), value(2, INT64)), STRING),), STRING
    ),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_is_typed_and_normalized_by_the_planner(text: str) -> None:
    expected = EXPRESSIONS[text]
    assert planned(f"SELECT {text} AS x FROM trades") == Project(
        Scan(TRADES), (expected,), fields(x=expected.type)
    )


# --- windows, groups and aggregates ---------------------------------------------------------------------


def test_expressions_over_aggregates_and_having_are_planned_above_the_window() -> None:
    sql = (
        "SELECT region, sum(temp) / count(*) AS mean FROM readings [RANGE 10 SECONDS] WHERE wind > 3 "
        "GROUP BY region HAVING max(wind) > 10"
    )
    below = windowed(
        Filter(Scan(READINGS), holds("greater", WIND, value(3.0))),
        TimeWindow(10 * S, 10 * S),
        (2,),
        Aggregate(Aggregation.COUNT_ALL, None, INT64),
        Aggregate(Aggregation.MAX, 5, FLOAT64),
        Aggregate(Aggregation.SUM, 3, FLOAT64),
    )
    mean = Call("divide", (Column(5, FLOAT64), Cast(Column(3, INT64), FLOAT64)), FLOAT64)
    assert planned(sql) == Project(
        Filter(below, holds("greater", Column(4, FLOAT64), value(10.0))),
        (Column(0, INT64), Column(1, INT64), Column(2, INT32), mean),
        fields(window_start=INT64, window_end=INT64, region=INT32, mean=FLOAT64),
        1,
    )


def test_computed_keys_and_arguments_are_projected_below_the_window() -> None:
    sql = (
        "SELECT qty % 10 AS digit, avg(price) AS p FROM trades [RANGE 1 HOUR SLIDE 30 MINUTES] GROUP BY digit"
    )
    projection = Project(
        Scan(TRADES),
        (AT, Call("modulo", (QTY, value(10, INT64)), INT64), Cast(PRICE, FLOAT64)),
        fields(c0=TIMESTAMP, c1=INT64, c2=FLOAT64),
        0,
    )
    below = windowed(
        projection,
        TimeWindow(3600 * S, 1800 * S),
        (1,),
        Aggregate(Aggregation.AVG, 2, FLOAT64),
        bound=TIMESTAMP,
    )
    assert planned(sql) == Project(
        below,
        (Column(0, TIMESTAMP), Column(1, TIMESTAMP), Column(2, INT64), Column(3, FLOAT64)),
        fields(window_start=TIMESTAMP, window_end=TIMESTAMP, digit=INT64, p=FLOAT64),
        1,
    )


AGGREGATES = {
    "count(*)": Aggregate(Aggregation.COUNT_ALL, None, INT64),
    "count(7)": Aggregate(Aggregation.COUNT_ALL, None, INT64),
    "count(symbol)": Aggregate(Aggregation.COUNT, 1, INT64),
    "count(DISTINCT symbol)": Aggregate(Aggregation.COUNT_DISTINCT, 1, INT64),
    "sum(qty)": Aggregate(Aggregation.SUM, 3, INT64),
    "sum(price)": Aggregate(Aggregation.SUM, 2, decimal(18, 2)),
    "avg(qty)": Aggregate(Aggregation.AVG, 3, FLOAT64),
    "min(symbol)": Aggregate(Aggregation.MIN, 1, STRING),
    "max(DISTINCT at)": Aggregate(Aggregation.MAX, 0, TIMESTAMP),
    "stddev(qty)": Aggregate(Aggregation.STDDEV, 3, FLOAT64),
    "var(qty)": Aggregate(Aggregation.VARIANCE, 3, FLOAT64),
    "median(qty)": Aggregate(Aggregation.MEDIAN, 3, FLOAT64),
    "percentile(qty, 0.95)": Aggregate(Aggregation.PERCENTILE, 3, FLOAT64, 0.95),
    "first(price)": Aggregate(Aggregation.FIRST, 2, decimal(10, 2)),
    "last(ok)": Aggregate(Aggregation.LAST, 4, BOOLEAN),
    "top(symbol, 3)": Aggregate(Aggregation.TOP, 1, STRING, 3.0),
    "SCALED(count(*))": Aggregate(Aggregation.COUNT_ALL, None, FLOAT64, scaled=True),
    "SCALED(sum(qty))": Aggregate(Aggregation.SUM, 3, FLOAT64, scaled=True),
    "SCALED_ERROR(count(*))": Aggregate(Aggregation.COUNT_ALL, None, FLOAT64, scaled=True, error=True),
    "SCALED_ERROR(sum(qty))": Aggregate(Aggregation.SUM, 3, FLOAT64, scaled=True, error=True),
}


@pytest.mark.parametrize("text", AGGREGATES)
def test_aggregate_over_a_row_window_has_its_type(text: str) -> None:
    expected = AGGREGATES[text]
    query = plan_query("q", f"SELECT {text} AS x FROM trades [ROWS 100 SLIDE 10]", CATALOG)
    clock = 0 if expected.function in (Aggregation.FIRST, Aggregation.LAST) else None
    schema = Schema((Field("a0", expected.type),))
    below = WindowAggregate(Numbered(Scan(TRADES)), RowWindow(100, 10), (), (expected,), schema, clock)
    assert query.plan == Project(below, (Column(0, expected.type),), fields(x=expected.type))
    assert query.scaled == expected.scaled


def test_count_with_a_filter_clause_is_planned_to_count_only_rows_that_meet_the_condition() -> None:
    sql = "SELECT count(*) FILTER (WHERE ok) AS n FROM trades [ROWS 5]"
    counted = Case(((OK, TRUE),), value(None, BOOLEAN), BOOLEAN)
    projection = Project(Numbered(Scan(TRADES)), (Column(5, INT64), counted), fields(c0=INT64, c1=BOOLEAN), 0)
    below = WindowAggregate(
        projection, RowWindow(5, 5), (), (Aggregate(Aggregation.COUNT, 1, INT64),), fields(a0=INT64)
    )
    assert planned(sql) == Project(below, (Column(0, INT64),), fields(n=INT64))


def test_distinct_in_a_window_groups_by_all_columns() -> None:
    below = windowed(Scan(READINGS), TimeWindow(S, S), (1, 2))
    assert planned("SELECT DISTINCT region, sensor FROM readings [RANGE 1 SECOND]") == Project(
        below,
        (Column(0, INT64), Column(1, INT64), Column(3, INT32), Column(2, INT32)),
        fields(window_start=INT64, window_end=INT64, region=INT32, sensor=INT32),
        1,
    )


def test_window_over_a_query_uses_the_event_time_of_its_output() -> None:
    below = windowed(HOT, TimeWindow(S, S), (), Aggregate(Aggregation.MAX, 1, FLOAT64))
    assert planned("SELECT max(temp) FROM hot [RANGE 1 SECOND]") == Project(
        below,
        (Column(0, INT64), Column(1, INT64), Column(2, FLOAT64)),
        fields(window_start=INT64, window_end=INT64, max_temp=FLOAT64),
        1,
    )


def test_a_window_result_has_the_windows_end_as_its_event_time() -> None:
    query = plan_query("n", "SELECT window_end, count(*) AS n FROM readings [RANGE 1 SECOND]", CATALOG)
    assert output_of(query) == QueryOutput(
        "n", fields(window_start=INT64, window_end=INT64, n=INT64), time=1, time_unit_us=1000
    )


# --- joins ----------------------------------------------------------------------------------------------


def test_the_planner_splits_join_conditions_into_keys_time_bounds_filters_and_the_rest() -> None:
    sql = (
        "SELECT a.price FROM trades a, trades b WHERE a.symbol = b.symbol AND b.at >= a.at "
        "AND b.at < a.at + INTERVAL '1 minute' AND b.price > a.price AND a.ok"
    )
    below = IntervalJoin(
        Filter(Scan(TRADES), OK),
        Scan(TRADES),
        (1,),
        (1,),
        0,
        60 * S - 1,
        holds("less", PRICE, Column(7, decimal(10, 2))),
        joined_schema(TRADES.schema, TRADES.schema),
    )
    assert planned(sql) == Project(below, (PRICE,), fields(price=decimal(10, 2)))


def test_computed_join_keys_are_added_to_their_side() -> None:
    sql = "SELECT level FROM readings r JOIN alerts a ON r.sensor % 10 = a.sensor AND r.ts = a.ts"
    key = Call("modulo", (SENSOR, value(10, INT32)), INT32)
    side = Project(
        Scan(READINGS),
        (TS, SENSOR, REGION, TEMP, HUMIDITY, WIND, key),
        fields(c0=INT64, c1=INT32, c2=INT32, c3=FLOAT64, c4=FLOAT64, c5=FLOAT64, c6=INT32),
        0,
    )
    below = IntervalJoin(
        Scan(ALERTS), side, (1,), (6,), 0, 0, TRUE, joined_schema(ALERTS.schema, side.schema)
    )
    assert planned(sql) == Project(below, (Column(2, INT32),), fields(level=INT32))


def test_windows_on_both_sides_make_a_window_join() -> None:
    sql = (
        "SELECT r.temp FROM readings [RANGE 10 SECONDS SLIDE 2 SECONDS] r, alerts [RANGE 4 SECONDS] a "
        "WHERE r.sensor = a.sensor"
    )
    below = WindowJoin(
        Scan(ALERTS),
        Scan(READINGS),
        TimeWindow(4 * S, 4 * S),
        TimeWindow(10 * S, 2 * S),
        (1,),
        (1,),
        TRUE,
        joined_schema(ALERTS.schema, READINGS.schema),
    )
    assert planned(sql) == Project(below, (Column(6, FLOAT64),), fields(temp=FLOAT64))


def test_a_join_with_a_table_checks_conditions_on_the_table_within_the_join() -> None:
    sql = "SELECT temp, name FROM readings JOIN sensors USING (sensor) WHERE floor = 3 AND temp > 1"
    below = TableJoin(
        Filter(Scan(READINGS), holds("greater", TEMP, value(1.0))),
        SENSORS,
        (1,),
        (0,),
        holds("equal", Column(8, INT32), value(3, INT32)),
        False,
        joined_schema(READINGS.schema, SENSORS.schema),
    )
    assert planned(sql) == Project(below, (TEMP, Column(7, STRING)), fields(temp=FLOAT64, name=STRING))


def test_a_left_join_applies_where_after_the_join_and_on_within_the_join() -> None:
    sql = (
        "SELECT r.* FROM readings r LEFT JOIN sensors s ON r.sensor = s.sensor AND r.temp > 1 "
        "WHERE s.name IS NULL"
    )
    below = TableJoin(
        Scan(READINGS),
        SENSORS,
        (1,),
        (0,),
        holds("greater", TEMP, value(1.0)),
        True,
        joined_schema(READINGS.schema, SENSORS.schema),
    )
    assert planned(sql) == Project(
        Filter(below, holds("is_null", Column(7, STRING))),
        (TS, SENSOR, REGION, TEMP, HUMIDITY, WIND),
        READINGS.schema,
        0,
    )


def test_window_over_a_join_uses_the_first_selected_event_time() -> None:
    sql = (
        "SELECT level, count(*) AS n FROM (SELECT r.ts, a.level FROM readings r JOIN alerts a "
        "ON r.sensor = a.sensor AND ABS(r.ts - a.ts) < 500) AS x [RANGE 10 SECONDS] GROUP BY level"
    )
    join = IntervalJoin(
        Scan(ALERTS),
        Scan(READINGS),
        (1,),
        (1,),
        -499_000,
        499_000,
        TRUE,
        joined_schema(ALERTS.schema, READINGS.schema),
    )
    below = windowed(
        Project(join, (Column(2, INT32), Column(3, INT64)), fields(c0=INT32, c1=INT64), 1),
        TimeWindow(10 * S, 10 * S),
        (0,),
        Aggregate(Aggregation.COUNT_ALL, None, INT64),
    )
    assert planned(sql) == Project(
        below,
        (Column(0, INT64), Column(1, INT64), Column(2, INT32), Column(3, INT64)),
        fields(window_start=INT64, window_end=INT64, level=INT32, n=INT64),
        1,
    )


# --- other forms of queries -----------------------------------------------------------------------------


def test_union_all_casts_columns_to_common_types_and_keeps_event_time() -> None:
    sql = "SELECT ts, temp FROM readings UNION ALL SELECT ts, level FROM alerts"
    branches = (
        Project(Scan(ALERTS), (TS, Cast(Column(2, INT32), FLOAT64)), fields(c0=INT64, c1=FLOAT64), 0),
        Project(Scan(READINGS), (TS, TEMP), fields(c0=INT64, c1=FLOAT64), 0),
    )
    union = Union(branches, fields(c0=INT64, c1=FLOAT64))
    assert set(branches) == set(union.inputs)
    found = planned(sql)
    assert found == Project(
        Union(tuple(sorted(branches, key=repr)), union.schema),
        (TS, Column(1, FLOAT64)),
        fields(ts=INT64, temp=FLOAT64),
        0,
    )
    assert event_time(found) == EventTime(0, 1000)


def test_a_subquery_that_only_selects_adds_no_operator() -> None:
    sql = "SELECT f FROM (SELECT ts, temp * 2 AS f FROM readings WHERE wind > 1) AS x WHERE f > 80"
    double = Call("multiply", (TEMP, value(2.0)), FLOAT64)
    condition = holds("and", holds("greater", WIND, value(1.0)), holds("greater", double, value(80.0)))
    assert planned(sql) == Project(Filter(Scan(READINGS), condition), (double,), fields(f=FLOAT64))


def test_stream_without_event_time_can_be_filtered() -> None:
    assert planned("FROM loose WHERE a > 1 AND TRUE") == Filter(
        Scan(LOOSE), holds("greater", Column(0, INT32), value(1, INT32))
    )


def test_star_over_a_join_renames_duplicate_columns() -> None:
    plan = planned("SELECT * FROM readings r JOIN alerts a ON r.sensor = a.sensor AND r.ts = a.ts")
    assert plan.schema.names == (*READINGS.schema.names, "ts_1", "sensor_1", "level")


def test_columns_without_an_alias_are_named_after_their_expressions() -> None:
    sql = "SELECT avg(temp), count(*), SCALED(SUM(wind)), avg(temp) + 1, avg(temp) FROM readings [ROWS 5]"
    assert planned(sql).schema.names == (
        "avg_temp",
        "count",
        "scaled_sum_wind",
        "column4",
        "avg_temp_1",
    )
