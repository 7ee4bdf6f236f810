"""Statements: CREATE STREAM, files with several statements, and the catalog of names that a query can use."""

import pytest

from engine.data.schema import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    Field,
    Schema,
    StreamSchema,
    TableSchema,
    decimal,
)
from engine.sql import PlanningError, SqlCatalog, Statement, parse_create_stream, plan_query, split_statements


def test_create_stream_is_parsed_into_columns_event_time_and_lateness() -> None:
    sql = "CREATE STREAM s (at timestamp, x float64, WATERMARK FOR at AS at - INTERVAL '5 seconds')"
    schema = Schema((Field("at", TIMESTAMP), Field("x", FLOAT64)))
    assert parse_create_stream(sql) == StreamSchema("s", schema, 0, 5_000_000, 1)


def test_int64_event_time_is_in_milliseconds() -> None:
    sql = "create stream s (x int, ts bigint, watermark for TS as ts);"
    assert parse_create_stream(sql) == StreamSchema(
        "s", Schema((Field("x", INT32), Field("ts", INT64))), 1, 0, 1000
    )


def test_stream_without_watermark_has_no_event_time() -> None:
    sql = 'CREATE STREAM "my stream" ("select" text, value real)'
    schema = Schema((Field("select", STRING), Field("value", FLOAT32)))
    assert parse_create_stream(sql) == StreamSchema("my stream", schema)


def test_every_spelling_of_a_column_type_is_recognised() -> None:
    names = {
        "boolean bool": BOOLEAN,
        "int32 int integer": INT32,
        "int64 bigint": INT64,
        "float32 real float": FLOAT32,
        "float64 double": FLOAT64,
        "string varchar text varchar(10)": STRING,
        "timestamp": TIMESTAMP,
        "decimal(9,3) numeric(9,3)": decimal(9, 3),
        "decimal(9)": decimal(9, 0),
    }
    for spellings, type_ in names.items():
        for name in spellings.split():
            (field,) = parse_create_stream(f"CREATE STREAM s (x {name})").schema.fields
            assert (name, field.type) == (name, type_)


EXAMPLE = "CREATE STREAM name (ts timestamp, x float64, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')"
BAD_STREAMS = {
    "": "line 1, column 1: the SQL contains no statement\n  hint: SELECT … FROM stream …",
    "CREATE TABLE s (a int)": f"line 1, column 1: the declaration of a stream does not begin with CREATE STREAM\n  hint: {EXAMPLE}",
    "CREATE STREAM (a int)": f"line 1, column 15: the name of the stream is missing here (got '(')\n  hint: {EXAMPLE}",
    "CREATE STREAM s": f"line 1, column 16: the columns are missing here\n  hint: {EXAMPLE}",
    "CREATE STREAM s (a)": "line 1, column 19: the name of a type is missing here",
    "CREATE STREAM s (a int": "line 1, column 23: a comma or the closing parenthesis is missing here",
    "CREATE STREAM s (a int) b": "line 1, column 25: unexpected text (got 'b')",
    "CREATE STREAM s (a strin)": "line 1, column 20: there is no such type (got 'strin')\n  hint: did you mean string?",
    "CREATE STREAM s (a int,\n A text)": "line 2, column 2: two columns have the same name (got 'A')",
    "CREATE STREAM s (a decimal(20, 2))": "line 1, column 20: a decimal must have 1 to 18 digits (got 20)",
    "CREATE STREAM s (a decimal(3, 5))": (
        "line 1, column 20: a decimal cannot have more digits after the point than in total (got 5)"
    ),
    "CREATE STREAM s (a int, WATERMARK FOR b AS b)": (
        "line 1, column 39: there is no such column (got 'b')\n  hint: a"
    ),
    "CREATE STREAM s (a float, WATERMARK FOR a AS a)": (
        "line 1, column 41: event time must be a timestamp, or an int64 of milliseconds since the epoch (got 'a float32')"
    ),
    "CREATE STREAM s (a timestamp, WATERMARK FOR a AS a - 5)": (
        f"line 1, column 54: the delay of a watermark must be an interval (got '5')\n  hint: {EXAMPLE}"
    ),
    "CREATE STREAM s (a timestamp, WATERMARK FOR a AS b - INTERVAL '5 seconds')": (
        f"line 1, column 50: a watermark must be its column, or its column minus an interval\n  hint: {EXAMPLE}"
    ),
    "CREATE STREAM s (a timestamp, WATERMARK FOR a AS a - INTERVAL '-1 second')": (
        "line 1, column 54: the delay of a watermark must be 0 to 366 days (got \"INTERVAL '-1 second'\")"
    ),
}


@pytest.mark.parametrize("sql", BAD_STREAMS)
def test_invalid_stream_is_refused_with_place_and_hint(sql: str) -> None:
    with pytest.raises(PlanningError) as caught:
        parse_create_stream(sql)
    assert str(caught.value) == BAD_STREAMS[sql]


def test_file_is_split_into_statements_with_their_places() -> None:
    text = """-- a comment; with a semicolon
CREATE STREAM s (a int, b text);
  CREATE QUERY hot AS
    SELECT a FROM s WHERE b = ';' ; SELECT b FROM s;;
EXPLAIN SELECT * FROM s
"""
    assert split_statements(text) == [
        Statement("stream", "CREATE STREAM s (a int, b text)", 1, 0, "s"),
        Statement("query", "SELECT a FROM s WHERE b = ';'", 3, 4, "hot"),
        Statement("query", "SELECT b FROM s", 3, 36, "q1"),
        Statement("explain", "SELECT * FROM s", 4, 8, "q2"),
    ]


BAD_FILES = {
    "SELECT 1;\nDROP TABLE s": (
        "line 2, column 1: DROP is refused: queries read streams and change nothing\n  hint: write a query such as `SELECT x FROM s WHERE x > 0`"
    ),
    "SELEKT 1": (
        "line 1, column 1: a statement must be CREATE STREAM, CREATE MIRROR, CREATE QUERY, EXPLAIN or a query (got 'SELEKT')\n  hint: did you mean SELECT?"
    ),
    "CREATE QUERY SELECT 1": (
        "line 1, column 1: CREATE QUERY must be followed by a name and AS\n  hint: CREATE QUERY name AS SELECT …"
    ),
    "EXPLAIN": "line 1, column 8: EXPLAIN must be followed by a query\n  hint: EXPLAIN SELECT …",
    "CREATE QUERY a AS SELECT 1; CREATE QUERY A AS SELECT 1": (
        "line 1, column 42: an earlier statement already has this name (got 'A')"
    ),
}


@pytest.mark.parametrize("text", BAD_FILES)
def test_invalid_file_is_refused_with_place_and_reason(text: str) -> None:
    with pytest.raises(PlanningError) as caught:
        split_statements(text)
    assert str(caught.value) == BAD_FILES[text]


def test_sql_catalog_finds_names_in_any_case_and_adding_a_query_leaves_it_unchanged() -> None:
    stream = parse_create_stream("CREATE STREAM S (a int)")
    table = TableSchema("T", Schema((Field("k", INT32),)))
    catalog = SqlCatalog.of([stream], [table])
    more = catalog.with_query(plan_query("Hot", "SELECT a FROM s WHERE a > 1", catalog))
    assert (catalog.find("s"), catalog.find("t"), catalog.find("hot")) == (stream, table, None)
    assert more.names() == ["S", "T", "Hot"]
    assert plan_query("q", "SELECT * FROM HOT", more).plan == more.find("hot")
