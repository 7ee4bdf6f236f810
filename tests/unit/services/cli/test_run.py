"""`weir run` over a user's files: answers, window schedules, failed rows, and mistakes with their place."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from configs.errors import WeirError
from services.cli.main import app

SQL = """
CREATE STREAM readings (ts timestamp, sensor int32, temp float64, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND);
CREATE QUERY hot AS SELECT sensor, temp FROM readings WHERE temp > 30;
CREATE QUERY mean AS
  SELECT window_end, sensor, AVG(temp) AS mean, COUNT(*) AS n FROM readings [RANGE 2 SECONDS] GROUP BY sensor;
"""


@pytest.fixture
def readings(tmp_path: Path) -> Path:
    path = tmp_path / "readings.parquet"
    # The fifth row is late, because it is three seconds older than the fourth row.
    seconds = np.array([0, 1, 1, 3, 0, 5])
    table = pa.table(
        {
            "ts": pa.array(seconds * 1_000_000, pa.timestamp("us", tz="UTC")),
            "sensor": pa.array([1, 1, 2, 1, 2, 2], pa.int32()),
            "temp": [20.0, 40.0, 31.0, None, 99.0, 10.0],
        }
    )
    pq.write_table(table, path)
    return path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["run", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def written(folder: Path, text: str) -> str:
    path = folder / "queries.sql"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_answers_come_as_json_lines_with_sequence_numbers_and_kept_fractions(
    tmp_path: Path, readings: Path
) -> None:
    lines = run(
        written(tmp_path, SQL), "-i", f"readings={readings}", "-o", "json", "--train", "1"
    ).splitlines()
    answers = [json.loads(line) for line in lines]
    hot = [
        (one["sensor"], one["temp"], one["_seq"], one["_kept"]) for one in answers if one["query"] == "hot"
    ]
    mean = [
        (one["window_end"][17:19], one["sensor"], one["mean"], one["n"])
        for one in answers
        if one["query"] == "mean"
    ]
    assert hot == [(1, 40.0, 0, 1.0), (2, 31.0, 1, 1.0)]
    assert mean == [("02", 1, 30.0, 2), ("02", 2, 31.0, 1), ("04", 1, None, 1), ("06", 2, 10.0, 1)]


EARLY = (
    SQL
    + """
CREATE QUERY early AS SELECT MAX(temp) AS most FROM readings [RANGE 300 SECONDS SLIDE AT MOST 3 SECONDS];
CREATE QUERY often AS SELECT COUNT(*) AS n FROM readings [RANGE 200 SECONDS SLIDE AT MOST 2 SECONDS];
"""
)


@pytest.mark.parametrize(
    ("schedule", "ends"), [("none", ["03", "06", "09"]), ("hybrid", ["02", "04", "06", "08"])]
)
def test_windows_with_slide_at_most_follow_the_chosen_schedule(
    tmp_path: Path, readings: Path, schedule: str, ends: list[str]
) -> None:
    lines = run(
        written(tmp_path, EARLY), "-i", f"readings={readings}", "-o", "json", "--windows", schedule
    ).splitlines()
    early = [one for one in map(json.loads, lines) if one["query"] == "early"]
    assert [one["window_end"][17:19] for one in early][: len(ends)] == ends


def test_an_unknown_schedule_is_refused(tmp_path: Path, readings: Path) -> None:
    with pytest.raises(WeirError, match="schedule"):
        run(written(tmp_path, EARLY), "-i", f"readings={readings}", "--windows", "lazy")


def test_a_run_ends_with_its_measurements_and_the_rows_it_left_out(tmp_path: Path, readings: Path) -> None:
    printed = run(written(tmp_path, SQL), "-i", f"readings={readings}", "--explain")
    assert "operator network" in printed
    assert "source:readings" in printed
    assert "source:readings: 1 tuples came too late for their windows and were left out" in printed


def test_answers_are_written_as_parquet(tmp_path: Path, readings: Path) -> None:
    run(written(tmp_path, SQL), "-i", f"readings={readings}", "--out", str(tmp_path / "out"))
    assert pq.read_table(tmp_path / "out/hot.parquet").column_names == ["sensor", "temp", "_seq", "_kept"]


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (SQL.replace("AVG(temp)", "AVG(tmp)"), [], "queries.sql: line 5, column 34"),
        (SQL.replace("FROM readings WHERE", "FROM reading WHERE"), [], "did you mean readings?"),
        ("CREATE STREAM s (a int64)", [], "there is no query in the SQL"),
        (SQL, ["-i", "readings"], "the value must be NAME=FILE"),
        (SQL, ["-i", "redings=x.parquet"], "did you mean readings?"),
        (SQL, ["-i", "readings=missing.parquet"], "there is no such file (got 'missing.parquet')"),
        (SQL, ["-i", "readings=notes.txt"], "the file does not have a supported format"),
    ],
)
def test_a_mistake_in_sql_or_options_is_reported_before_a_query_runs(
    tmp_path: Path, readings: Path, text: str, arguments: list[str], message: str
) -> None:
    given = ["run", written(tmp_path, text), *(arguments or ["-i", f"readings={readings}"])]
    result = CliRunner().invoke(app, given)
    assert isinstance(result.exception, WeirError)
    assert message in str(result.exception)


def test_a_failed_row_is_counted_and_the_other_rows_are_answered(tmp_path: Path) -> None:
    data = tmp_path / "s.parquet"
    pq.write_table(pa.table({"a": pa.array([1, 2**63 - 1, 3])}), data)
    text = "CREATE STREAM s (a int64); CREATE QUERY next AS SELECT a + 1 AS b FROM s"
    printed = run(written(tmp_path, text), "-i", f"s={data}")
    assert "next: 2 rows" in printed
    assert "1 tuples failed" in printed
