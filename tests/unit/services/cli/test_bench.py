"""`weir bench`: workload W11 over files, other engines over the same files for comparison, and wrong options."""

import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from configs.errors import InvalidInput, UnknownName
from services.cli.main import app
from services.race import w11_workload
from services.race.race import CONTESTANTS, SPAWN, Contestant, contestants
from services.race.w11_workload import peak_rss_mb


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with 25 seconds of input for W11, in the generator's format but with fewer tuples."""
    seconds, rate = 25, 40
    rng = np.random.default_rng(1)
    ts = 1_700_000_000_000 + np.arange(seconds * rate) * 1000 // rate
    sensor = rng.integers(0, 10, len(ts)).astype(np.int32)
    columns = {name: rng.uniform(0, 50, len(ts)) for name in ("temp", "humidity", "wind")}
    readings = pa.table({"ts": ts, "sensor": sensor, "region": sensor % 10, **columns})
    level = rng.integers(1, 6, len(ts[::4])).astype(np.int32)
    pq.write_table(readings, tmp_path / "readings.parquet")
    pq.write_table(
        pa.table({"ts": ts[::4], "sensor": sensor[::4], "level": level}), tmp_path / "alerts.parquet"
    )
    (tmp_path / "meta.json").write_text(json.dumps({"readings": {"last_ts": int(ts[-1])}}))
    return tmp_path


def bench(folder: Path, *arguments: str, columns: int = 200) -> Result:
    given = ["bench", "w11", "--data", str(folder), *arguments]
    return CliRunner().invoke(app, given, catch_exceptions=False, env={"COLUMNS": str(columns)})


def reported(folder: Path, *arguments: str) -> dict[str, Any]:
    result = bench(folder, "-o", "json", *arguments)
    assert result.exit_code == 0, result.output
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def test_answers_do_not_depend_on_the_length_of_trains(folder: Path) -> None:
    one, other = (reported(folder, "--train", train) for train in ("7", "1000"))
    assert one["queries"] == other["queries"]
    assert all(query["rows"] for query in one["queries"].values())


@pytest.mark.slow
def test_every_compared_engine_of_the_benchmark_gives_the_answers_of_weir(folder: Path) -> None:
    alone = reported(folder, "--train", "100")
    report = reported(folder, "--train", "100", "--beside", ", ".join(CONTESTANTS))
    assert {key: type(value) for key, value in report.items()} == {
        key: type(value) for key, value in alone.items()
    }
    assert alone["contestants"] == {}
    assert report["queries"] == alone["queries"]
    assert list(report["contestants"]) == list(CONTESTANTS)
    for one in report["contestants"].values():
        assert one["equal"]
        assert one["right"] is None
        assert one["ratio"] == report["readings_per_s"] / one["readings_per_s"]


@pytest.mark.parametrize("train", [7, 100, 1000])
def test_polars_gives_the_same_answers_for_micro_batches_of_any_length(folder: Path, train: int) -> None:
    data = w11_workload.read(folder)
    polars = w11_workload.report(CONTESTANTS["polars"].run(data, train), data)
    assert polars["queries"] == w11_workload.report(w11_workload.run_engine(data, 100), data)["queries"]


def test_answers_are_compared_with_the_oracle_file_if_it_exists(folder: Path) -> None:
    oracle = folder / "oracle.json"
    oracle.write_text(json.dumps({"queries": reported(folder)["queries"]}))
    assert all(query["right"] for query in reported(folder)["queries"].values())
    oracle.write_text(json.dumps({"queries": {"S1": {"rows": 0, "checksum": "00"}}}))
    result = bench(folder, "--beside", "hand", "-o", "json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["queries"]["S1"]["right"] is False
    assert report["contestants"]["hand"]["equal"]
    assert report["contestants"]["hand"]["right"] is False


def test_both_tables_of_the_benchmark_fit_into_eighty_columns(folder: Path) -> None:
    result = bench(folder, "--beside", "hand", columns=80)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    begin = [line.split()[0] for line in lines if line.strip()]
    assert all(begin.count(name) == 1 for name in (*w11_workload.QUERIES, "engine", "hand"))
    assert "…" not in result.stdout


@pytest.mark.parametrize("names", ["duckdbb", "hand,", "", "hand,spark"])
def test_an_unknown_engine_to_compare_is_refused_before_the_benchmark_runs(folder: Path, names: str) -> None:
    result = CliRunner().invoke(app, ["bench", "w11", "--data", str(folder / "nothing"), "--beside", names])
    assert isinstance(result.exception, UnknownName)
    assert "--beside: there is no contestant of this name" in str(result.exception)


def test_a_missing_contestant_package_is_an_error_that_says_what_to_install() -> None:
    known = {"other": Contestant("", w11_workload.run_by_hand, "no_such_package")}
    with pytest.raises(InvalidInput, match=r"needs the package no_such_package(.|\n)*pip install"):
        contestants("other", known)


def test_peak_memory_of_a_child_process_leaves_out_its_parent() -> None:
    held = np.ones(50_000_000)
    with ProcessPoolExecutor(1, SPAWN) as process:
        assert 1 < process.submit(peak_rss_mb).result() < held.nbytes / 2**20
