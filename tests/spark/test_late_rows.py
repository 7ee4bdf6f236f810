"""The rows of a micro-batch of a real Spark arrive in the order of event time. Feeds report when their source has no more rows."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from configs.documents.spark_streams import StreamsFile
from configs.yaml_loading import parse_model
from services.ingest.java import find_java
from services.ingest.job import GatewayAddress, IngestJob
from services.ingest.process import IngestProcess
from tests.spark.gateways import RealGateway, opened
from tests.support.waiting import eventually

pytestmark = pytest.mark.spark

FILES, ROWS = 20, 10


def write_files(folder: Path) -> None:
    """Write files in the order of event time. Each file is smaller than the file before, because Spark lists the largest file first."""
    folder.mkdir()
    for number in range(FILES):
        times = range(number * ROWS, (number + 1) * ROWS)
        lines = [json.dumps({"at": at, "text": "x" * (FILES - number)}) for at in times]
        path = folder / f"{number:04}.json"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        os.utime(path, (number, number))


def stream(folder: Path, path: str) -> dict[str, Any]:
    source = {
        "format": "json",
        "options": {"path": str(folder)},
        "schema": "at BIGINT, text STRING",
        "path": path,
    }
    return {"columns": {"at": "int64", "text": "string"}, "time": "at", "source": source}


def has_all(gateway: RealGateway, name: str) -> bool:
    return len(gateway.rows(name)) == FILES * ROWS


def test_rows_of_many_files_in_a_micro_batch_arrive_in_event_time_order(
    tmp_path: Path,
) -> None:
    write_files(tmp_path / "in")
    streams = {path: stream(tmp_path / "in", path) for path in ("driver", "executor")}
    file = parse_model(StreamsFile, {"streams": streams, "session": {"master": "local[2]"}})
    with opened() as gateway:
        for path in streams:
            gateway.declare(f"CREATE STREAM {path} (at int64, text string, WATERMARK FOR at AS at)")
        door = GatewayAddress(gateway.endpoint, gateway.key)
        job = IngestJob(file, door, tmp_path / "ingest", find_java(None, os.environ).home)
        with IngestProcess(job) as ingest:
            for path in streams:
                eventually(partial(has_all, gateway, path), f"the {path}'s rows")
                assert [row["at"] for row in gateway.rows(path)] == list(range(FILES * ROWS))
            eventually(lambda: all(feed.caught_up_at for feed in ingest.progress()), "both are caught up")
            seen = [feed.caught_up_at or 0.0 for feed in ingest.progress()]
            eventually(
                lambda: all(
                    (feed.caught_up_at or 0.0) > at for feed, at in zip(ingest.progress(), seen, strict=True)
                ),
                "both are still caught up",
            )
