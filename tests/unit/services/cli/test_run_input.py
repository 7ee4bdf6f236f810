"""Input of `weir run`: SQL as an argument, a file or stdin, and files of rows with inferred column types."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from configs.errors import WeirError
from services.cli.main import app

Row = dict[str, object]
ROWS: list[Row] = [
    {"ts": "2026-01-01 00:00:01", "page": "/a", "amount": 1.5, "ok": True},
    {"ts": "2026-01-01 00:00:07", "page": "/b", "amount": 2.0, "ok": False},
    # The third row is four seconds older than the second row.
    {"ts": "2026-01-01 00:00:03", "page": "/a", "amount": 4.0, "ok": True},
    {"ts": "2026-01-01 00:00:12", "page": "/b", "amount": 8.0, "ok": True},
]
SUMS = "SELECT page, SUM(amount) AS total FROM clicks [RANGE 10 SECONDS] GROUP BY page"
ANSWERS = [("10", "/a", 5.5), ("10", "/b", 2.0), ("20", "/b", 8.0)]
DECLARED = """CREATE STREAM clicks (
  ts timestamp,
  page string,
  amount float64,
  ok boolean,
  WATERMARK FOR ts AS ts - INTERVAL '4 seconds'
);
"""


def run(*arguments: str, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(app, ["run", *arguments], catch_exceptions=False, input=stdin)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["run", *arguments])
    assert isinstance(result.exception, WeirError), result.output
    return str(result.exception)


def answers(*arguments: str, stdin: str | None = None) -> list[tuple[str, object, object]]:
    """Return the answers to SUMS: seconds of the window's end, page and total."""
    lines = run(*arguments, "-o", "json", stdin=stdin).stdout.splitlines()
    return sorted((one["window_end"][17:19], one["page"], one["total"]) for one in map(json.loads, lines))


# -- SQL and rows from stdin --------------------------------------------------------------------------------


def test_stdin_may_hold_csv_json_lines_or_a_json_array() -> None:
    lines = "\n".join(map(json.dumps, ROWS))
    for rows in (csv_of(ROWS).decode(), lines, json.dumps(ROWS)):
        assert answers(SUMS, "-i", "clicks=-", stdin=rows) == ANSWERS
        assert answers(SUMS.replace("clicks", "'-'"), stdin=rows) == ANSWERS


def test_reading_stdin_twice_or_without_rows_is_refused() -> None:
    assert "several inputs are to be read from stdin, which can be read only once" in refused(
        "-", "-i", "clicks=-"
    )
    assert "stdin has no rows" in refused(SUMS, "-i", "clicks=-")


# -- files of rows ---------------------------------------------------------------------------------------


def csv_of(rows: list[Row]) -> bytes:
    file = io.StringIO()
    writer = csv.DictWriter(file, rows[0])
    writer.writeheader()
    writer.writerows({**row, "ok": str(row["ok"]).lower()} for row in rows)
    return file.getvalue().encode()


def lines_of(rows: list[Row]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def parquet_of(rows: list[Row]) -> bytes:
    table = pa.Table.from_pylist(rows)
    table = table.set_column(0, "ts", table.column("ts").cast(pa.timestamp("ns")))
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


FILES: dict[str, Callable[[list[Row]], bytes]] = {
    "clicks.csv": csv_of,
    "clicks.csv.gz": lambda rows: gzip.compress(csv_of(rows)),
    "clicks.jsonl": lines_of,
    "clicks.ndjson.gz": lambda rows: gzip.compress(lines_of(rows)),
    "clicks.json": lambda rows: json.dumps(rows, indent=2).encode(),
    "clicks.parquet": parquet_of,
}


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    path = tmp_path / "clicks.csv"
    path.write_bytes(csv_of(ROWS))
    return path


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_any_format_needs_no_declaration(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name](ROWS))
    assert answers(SUMS, "-i", f"clicks={path}") == ANSWERS


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("pattern", ["", "/*"])
def test_a_folder_and_a_pattern_are_read_in_the_order_of_names(
    tmp_path: Path, name: str, pattern: str
) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for place, row in enumerate(ROWS):
        (folder / f"{place}-{name}").write_bytes(FILES[name]([row]))
    if not pattern:
        (folder / "_SUCCESS").touch()
    assert answers(SUMS, "-i", f"clicks={folder}{pattern}") == ANSWERS


def test_sql_comes_from_an_argument_a_file_or_stdin(tmp_path: Path, clicks: Path) -> None:
    file = tmp_path / "sums.sql"
    file.write_text(SUMS)
    given = ("-i", f"clicks={clicks}")
    assert answers(SUMS, *given) == answers(str(file), *given) == answers("-", *given, stdin=SUMS) == ANSWERS


def test_from_clause_may_name_a_file_instead_of_a_stream(tmp_path: Path, clicks: Path) -> None:
    assert answers(SUMS.replace("FROM clicks", f"FROM '{clicks}'")) == ANSWERS
    tumbling = f"FROM TUMBLE('{clicks}', ts, INTERVAL '10 seconds')"
    assert answers(SUMS.replace("FROM clicks [RANGE 10 SECONDS]", tumbling)) == ANSWERS


def test_a_file_name_in_a_comparison_stays_a_text(clicks: Path) -> None:
    sql = f"SELECT page FROM clicks WHERE page IS DISTINCT FROM '{clicks}' AND page = '/b'"
    assert len(run(sql, "-i", f"clicks={clicks}", "-o", "json").stdout.splitlines()) == 2


# -- inference of column types ---------------------------------------------------------------------------


def test_the_printed_inferred_declaration_gives_the_same_answers(clicks: Path) -> None:
    given = ("-i", f"clicks={clicks}")
    assert run("--schema", *given).stdout == DECLARED
    assert answers(DECLARED + SUMS, *given) == answers(SUMS, *given)


def test_explain_shows_the_inferred_declaration(clicks: Path) -> None:
    assert DECLARED in run(SUMS, "-i", f"clicks={clicks}", "--explain").stdout


def test_a_file_with_two_timestamps_needs_the_option_time(tmp_path: Path) -> None:
    path = tmp_path / "clicks.csv"
    path.write_bytes(csv_of([{**row, "seen": row["ts"]} for row in ROWS]))
    given = (SUMS, "-i", f"clicks={path}")
    assert refused(*given) == (
        "--input clicks: the file has several columns of timestamps, so the event time must be chosen (got 'ts, seen')\n"
        "  hint: choose the event time: --time clicks.ts or --time clicks.seen"
    )
    assert answers(*given, "--time", "seen") == answers(*given, "--time", "clicks.TS") == ANSWERS


def test_event_time_may_be_a_number_of_milliseconds(tmp_path: Path) -> None:
    path = tmp_path / "clicks.csv"
    path.write_text("at,page,amount\n1000,/a,1.5\n7000,/b,2.0\n3000,/a,4.0\n12000,/b,8.0\n")
    lines = run(SUMS, "-i", f"clicks={path}", "--time", "at", "-o", "json").stdout.splitlines()
    ends = [(one["window_end"], one["page"], one["total"]) for one in map(json.loads, lines)]
    assert sorted(ends) == [(10000, "/a", 5.5), (10000, "/b", 2.0), (20000, "/b", 8.0)]


@pytest.mark.parametrize(
    ("time", "message"),
    [
        (
            "page",
            "--time clicks.page: this column cannot be the event time, because it contains no times (got 'string')",
        ),
        ("clicks.tz", "--time clicks.tz: the file has no column of this name\n  hint: did you mean ts"),
        ("tz", "--time: no stream that --input reads has a column of this name (got 'tz')"),
        ("orders.ts", "--time: no --input reads a stream of this name (got 'orders')"),
        ("clicks.", "--time: the value must be COLUMN or STREAM.COLUMN (got 'clicks.')"),
    ],
)
def test_an_invalid_time_column_is_refused(clicks: Path, time: str, message: str) -> None:
    assert refused(SUMS, "-i", f"clicks={clicks}", "--time", time).startswith(message)


def test_the_option_time_is_refused_for_a_declared_stream(clicks: Path) -> None:
    refusal = refused(DECLARED + SUMS, "-i", f"clicks={clicks}", "--time", "clicks.ts")
    assert refusal.startswith(
        "--time: this option cannot be used for a stream that CREATE STREAM declares (got 'clicks')"
    )


def test_a_declared_text_keeps_its_leading_zeros(tmp_path: Path) -> None:
    for name, content in (("c.csv", b"zip\n00388\n"), ("c.jsonl", b'{"zip": "00388"}\n')):
        path = tmp_path / name
        path.write_bytes(content)
        out = run("CREATE STREAM c (ZIP string); SELECT zip FROM c", "-i", f"c={path}", "-o", "csv").stdout
        assert out == "zip,_seq,_kept\n00388,0,1.0\n"


def test_column_types_are_inferred_from_all_rows_of_a_file(tmp_path: Path) -> None:
    # The file is larger than the first block, the only part of a file from which Arrow would infer the types.
    count = 300_000
    for name, lines in (
        ("c.csv", ["x", *["12345"] * count, "many"]),
        ("c.jsonl", [*['{"x": 12345}'] * count, '{"x": 1.5}']),
    ):
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n")
        out = run("SELECT COUNT(x) AS n FROM c [ROWS 300001]", "-i", f"c={path}", "-o", "csv").stdout
        assert out == "n,_seq,_kept\n300001,0,1.0\n"


def test_a_column_of_an_unsupported_type_is_left_out_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"a": 1, "tags": ["x", "y"]}\n')
    result = run("SELECT * FROM c", "-i", f"c={path}", "-o", "csv")
    assert result.stdout == "a,_seq,_kept\n1,0,1.0\n"
    assert "column tags is left out: streams have no type for list" in " ".join(result.stderr.split())


def test_rows_without_an_event_time_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "clicks.csv"
    path.write_bytes(csv_of([*ROWS, {**ROWS[0], "ts": ""}]))
    assert "clicks: 1 rows without an event time were left out" in run(SUMS, "-i", f"clicks={path}").stdout


def test_date_and_int8_columns_of_a_table_are_converted(tmp_path: Path, clicks: Path) -> None:
    path = tmp_path / "pages.parquet"
    day = pa.array([0, 1], pa.date32())
    pq.write_table(pa.table({"page": ["/a", "/b"], "day": day, "size": pa.array([1, 2], pa.int8())}), path)
    sql = f"SELECT day(p.day) AS d, size FROM '{clicks}' c JOIN pages p ON c.page = p.page"
    out = run(sql, "--table", f"pages={path}", "-o", "csv").stdout
    assert out == "d,size,_seq,_kept\n1,1,0,1.0\n2,2,1,1.0\n1,1,2,1.0\n2,2,3,1.0\n"


# -- mistakes in files and options -----------------------------------------------------------------------


def test_a_declared_stream_without_an_input_is_refused(clicks: Path) -> None:
    refusal = refused(DECLARED + SUMS)
    assert refusal == (
        "--input: query q1 reads this stream, but no --input reads rows of the stream (got 'clicks')\n"
        "  hint: add --input clicks=FILE"
    )


def test_the_error_for_an_undeclared_stream_suggests_an_input_file() -> None:
    assert refused(SUMS) == (
        "line 1, column 40: there is no such stream (got 'clicks')\n"
        f"  1 | {SUMS}\n"
        "    |                                        ^\n"
        "  hint: --input clicks=FILE reads it from a file of rows"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT page\nFROM clicks\nWHERE amuont > 1",
            "line 3, column 7: there is no such column (got 'amuont')\n  3 | WHERE amuont > 1\n    |       ^\n"
            "  hint: did you mean amount?",
        ),
        (
            "SELECT page FROM clicks;\nDROP TABLE clicks",
            "line 2, column 1: DROP is refused: queries read streams and change nothing\n  2 | DROP TABLE clicks\n"
            "    | ^\n  hint: write a query such as `SELECT x FROM s WHERE x > 0`",
        ),
        (
            "SELECT '漢字', amuont FROM clicks",
            "line 1, column 14: there is no such column (got 'amuont')\n  1 | SELECT '漢字', amuont FROM clicks\n"
            "    |                ^\n  hint: did you mean amount?",
        ),
        (
            f"SELECT {'page, ' * 40}amuont FROM clicks",
            f"line 1, column 248: there is no such column (got 'amuont')\n  1 | …, {'page, ' * 8}amuont FROM clicks\n"
            f"    |  {' ' * 50}^\n  hint: did you mean amount?",
        ),
        (
            "SELECT 'page",
            "line 1, column 8: the closing ' is missing\n  1 | SELECT 'page\n    |        ^",
        ),
    ],
    ids=["column", "statement", "wide", "long", "splitter"],
)
def test_an_sql_error_shows_the_file_the_line_and_the_column(
    tmp_path: Path, clicks: Path, text: str, message: str
) -> None:
    file = tmp_path / "queries.sql"
    file.write_text(text)
    refusal = refused(str(file), "-i", f"clicks={clicks}")
    assert refusal.splitlines() == f"{file}: {message}".splitlines()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("nope.sql", "SQL: there is no such file (got 'nope.sql')"),
        ("my queries.sql", "SQL: there is no such file (got 'my queries.sql')"),
        ("SELECT", "SQL: there is no such file (got 'SELECT')"),
    ],
)
def test_sql_that_is_neither_a_file_nor_a_statement_is_refused(argument: str, message: str) -> None:
    assert refused(argument).startswith(message)


def test_a_run_without_sql_is_refused() -> None:
    assert refused() == (
        'SQL: the command has no SQL to run\n  hint: write a file, SQL in quotes such as "SELECT * FROM s", or - for stdin'
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("clisk.csv", "there is no such file"),
        ("away/clicks.csv", "there is no such folder"),
        ("*.parquet", "no file matches this pattern"),
        ("empty", "this folder has no file of a supported format"),
        ("notes.txt", "the file does not have a supported format"),
    ],
)
def test_an_input_path_that_cannot_be_read_is_refused(clicks: Path, path: str, message: str) -> None:
    (clicks.parent / "empty").mkdir()
    refusal = refused(SUMS, "-i", f"clicks={clicks.parent / path}")
    assert refusal.startswith(f"--input clicks: {message} (got ")


def test_a_file_with_a_similar_name_is_suggested(clicks: Path) -> None:
    refusal = refused(SUMS, "-i", f"clicks={clicks.parent / 'clisk.csv'}")
    assert refusal.endswith(f"\n  hint: did you mean {clicks}?")


def test_an_input_that_no_query_reads_is_refused(clicks: Path) -> None:
    refusal = refused(SUMS, "-i", f"clicks={clicks}", "-i", f"orders={clicks}")
    assert refusal.startswith(
        "--input: no query reads this stream, and no CREATE STREAM declares it (got 'orders')"
    )


# -- answers of a run ------------------------------------------------------------------------------------

TABLE = "window_start,window_end,n,_seq,_kept\n2026-01-01 00:00:00+00:00,2026-01-01 00:01:00+00:00,4,0,1.0\n"
COUNT = "SELECT COUNT(*) AS n FROM clicks [RANGE 1 MINUTE]"


def test_answers_are_printed_as_csv(clicks: Path) -> None:
    assert run(COUNT, "-i", f"clicks={clicks}", "-o", "csv").stdout == TABLE


def test_answers_of_one_query_are_written_to_a_file(tmp_path: Path, clicks: Path) -> None:
    given = (COUNT, "-i", f"clicks={clicks}")
    for name in ("new/n.csv", "n.jsonl", "n.parquet"):
        run(*given, "--out", str(tmp_path / name))
    assert (tmp_path / "new/n.csv").read_text() == TABLE
    assert json.loads((tmp_path / "n.jsonl").read_text())["n"] == 4
    assert pq.read_table(tmp_path / "n.parquet").column("n").to_pylist() == [4]


def test_several_queries_do_not_fit_into_one_csv(tmp_path: Path, clicks: Path) -> None:
    given = (f"{COUNT}; {SUMS}", "-i", f"clicks={clicks}")
    assert refused(*given, "-o", "csv").startswith(
        "--output: CSV cannot hold the answers of several queries (got 'q1, q2')"
    )
    assert refused(*given, "--out", str(tmp_path / "n.csv")).startswith(
        "--out: one file cannot hold the answers of several queries"
    )


def test_warnings_go_to_stderr_if_stdout_holds_the_answers(clicks: Path) -> None:
    late = DECLARED.replace(" - INTERVAL '4 seconds'", "")
    result = run(
        late + COUNT.replace("1 MINUTE", "2 SECONDS"), "-i", f"clicks={clicks}", "-o", "csv", "--train", "1"
    )
    assert "1 tuples came too late" in " ".join(result.stderr.split())
    assert "late" not in result.stdout


def test_explain_shows_measurements_of_every_operator(clicks: Path) -> None:
    sql = "SELECT page FROM clicks WHERE amount > 1.9; SELECT COUNT(*) AS n FROM clicks [RANGE 5 SECONDS]"
    lines = run(sql, "-i", f"clicks={clicks}", "--explain").stdout.splitlines()
    head = next(line.split() for line in lines if line.split()[:2] == ["#", "operator"])
    assert head == ["#", "operator", "feeds", "queries", "tuples", "out", "selectivity", "ns/tuple"]
    measured = {
        words[1]: words[4:7]
        for words in map(str.split, lines)
        if len(words) == len(head) and words[0].isdecimal()
    }
    assert measured["source:clicks"] == ["4", "4", "1"]
    assert measured["select"] == ["4", "3", "0.75"]
    assert measured["panes"] == ["4", "–", "–"]
    assert measured["window"] == ["0", "3", "–"]
