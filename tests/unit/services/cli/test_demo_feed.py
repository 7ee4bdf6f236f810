"""Errors of `weir demo` if Spark brings no rows: what happened, what to check, and where the logs are."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from configs.documents.spark_streams import StreamsFile
from configs.errors import Away, InvalidInput
from services.cli.demonstration.demo_feed import Feeds, logs_kept
from services.cli.main import exit_code_of
from services.ingest.job import GatewayAddress, IngestJob
from services.ingest.process import IngestProcess
from services.ingest.progress import FeedProgress


class Brings:
    """Process of Spark with feeds that have brought the given numbers of rows."""

    def __init__(self, folder: Path, *progress: FeedProgress) -> None:
        door = GatewayAddress("grpc://127.0.0.1:1", "key")
        streams = {"s": {"columns": {"x": "int64"}, "source": {"format": "weir_feeder"}}}
        self.job = IngestJob(
            StreamsFile.model_validate({"streams": streams}), door, folder, Path("/opt/java")
        )
        self._progress = list(progress)

    def progress(self) -> list[FeedProgress]:
        return self._progress


def feeds(process: Brings) -> Feeds:
    return Feeds(cast(Any, None), "node", cast(IngestProcess, process), ())


def test_feeds_without_rows_end_the_demonstration_with_an_error_that_says_what_to_check(
    tmp_path: Path,
) -> None:
    process = Brings(
        tmp_path,
        FeedProgress("class1", rows=5),
        FeedProgress("class2"),
        FeedProgress("class3", "failed", last_error="no space left"),
    )
    with pytest.raises(Away) as stopped:
        feeds(process).wait_flowing(most_s=0.0)
    problem = stopped.value
    assert (
        problem.title
        == "Spark runs, but has brought no row of class2, class3 after 0 s; class3: no space left"
    )
    for part in ("/opt/java", "processors", str(tmp_path / "spark.log"), str(tmp_path / "spark.out")):
        assert part in problem.hint
    assert exit_code_of(problem) == 3


def test_logs_of_spark_are_kept_after_an_error_because_their_folder_is_temporary(tmp_path: Path) -> None:
    folder, kept = tmp_path / "ingest", tmp_path / "report"
    folder.mkdir()
    kept.mkdir()
    (folder / "spark.out").write_text("out of memory", encoding="utf-8")
    with pytest.raises(InvalidInput) as stopped, logs_kept(folder, kept):
        raise InvalidInput("Spark did not start", hint=f"see {folder}/spark.out")
    assert stopped.value.hint == f"see {kept}/spark.out"
    assert [path.read_text(encoding="utf-8") for path in kept.iterdir()] == ["out of memory"]


def test_no_logs_are_kept_without_an_error(tmp_path: Path) -> None:
    (tmp_path / "spark.out").write_text("fine", encoding="utf-8")
    with logs_kept(tmp_path, tmp_path / "report"):
        pass
    assert not (tmp_path / "report").exists()
