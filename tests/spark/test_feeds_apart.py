"""A feed that fails, changes or ends does not affect other feeds of the same Spark session."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from configs.documents.spark_streams import StreamsFile
from configs.yaml_loading import parse_model
from services.ingest.java import find_java
from services.ingest.job import GatewayAddress, IngestJob
from services.ingest.process import IngestProcess
from services.ingest.progress import FeedProgress
from services.ingest.spark_supervisor import Brings
from tests.spark.gateways import RealGateway, opened
from tests.support.waiting import eventually

pytestmark = pytest.mark.spark

RATE = {"format": "rate", "options": {"rowsPerSecond": 50}, "sql": "SELECT value AS id FROM source"}
BROKEN = {"format": "json", "options": {"path": "/nowhere/at/all"}, "schema": "id BIGINT"}


@pytest.fixture
def gateway() -> Iterator[RealGateway]:
    with opened() as found:
        for name in ("good", "other", "third"):
            found.declare(f"CREATE STREAM {name} (id int64)")
        yield found


def job(gateway: RealGateway, folder: Path, sources: Mapping[str, Mapping[str, Any]]) -> IngestJob:
    streams = {name: {"columns": {"id": "int64"}, "source": source} for name, source in sources.items()}
    file = parse_model(StreamsFile, {"streams": streams})
    return IngestJob(
        file, GatewayAddress(gateway.endpoint, gateway.key), folder, find_java(None, os.environ).home
    )


def seen(ingest: IngestProcess, name: str) -> FeedProgress:
    return {feed.feed: feed for feed in ingest.progress()}[name]


def batches_done(ingest: IngestProcess, name: str, more: int) -> None:
    """Wait until a feed has completed `more` micro-batches."""
    batch = seen(ingest, name).batch
    first = -1 if batch is None else batch
    eventually(lambda: (seen(ingest, name).batch or 0) >= first + more, f"{more} more batches of {name}")


def test_feed_with_a_missing_path_fails_alone_and_is_retried(gateway: RealGateway, tmp_path: Path) -> None:
    missing = tmp_path / "later"
    broken = BROKEN | {"options": {"path": str(missing)}}
    with IngestProcess(job(gateway, tmp_path / "ingest", {"other": broken, "good": RATE})) as ingest:
        batches_done(ingest, "good", 3)
        eventually(lambda: seen(ingest, "other").restarts >= 2, "two more tries")
        good = seen(ingest, "good")
        assert (good.state, good.restarts, good.last_error) == ("running", 0, None)
        failed = eventually(
            lambda: (feed := seen(ingest, "other")).next_try_s is not None and feed,
            "the wait for the next try",
        )
        assert isinstance(failed, FeedProgress)
        assert failed.last_error == f"Path does not exist: {missing}"
        assert failed.next_try_s is not None
        assert 0.0 <= failed.next_try_s <= 30.0
        missing.mkdir()
        (missing / "rows").write_text('{"id": 7}\n', encoding="utf-8")
        eventually(lambda: gateway.rows("other") == [{"id": 7}], "the row that is there now")
        assert seen(ingest, "good").run == good.run


def test_adding_changing_or_removing_a_feed_does_not_interrupt_other_feeds(
    gateway: RealGateway, tmp_path: Path
) -> None:
    folder = tmp_path / "ingest"
    with IngestProcess(job(gateway, folder, {"good": RATE})) as ingest:
        batches_done(ingest, "good", 2)
        before, process = seen(ingest, "good"), ingest.pid
        other = RATE | {"options": {"rowsPerSecond": 5}}
        ingest.change(job(gateway, folder, {"good": RATE, "other": other, "third": BROKEN}))
        eventually(lambda: len(gateway.rows("other")) >= 5, "rows of the feed that was added")
        first = seen(ingest, "other").run
        ingest.change(job(gateway, folder, {"good": RATE, "other": other | {"trigger_ms": 200}}))
        eventually(
            lambda: seen(ingest, "other").run not in (first, None), "another run of the feed that was changed"
        )
        assert [feed.feed for feed in ingest.progress()] == ["good", "other"]
        ingest.change(job(gateway, folder, {"good": RATE}))
        batches_done(ingest, "good", 2)
        after = seen(ingest, "good")
        assert [feed.feed for feed in ingest.progress()] == ["good"]
        assert (after.run, after.restarts, after.last_error) == (before.run, 0, None)
        assert ingest.pid == process
    numbers = [row["id"] for row in gateway.rows("good")]
    assert numbers == list(range(len(numbers)))
    others = [row["id"] for row in gateway.rows("other")]
    assert others == list(range(len(others)))


def test_connector_that_cannot_be_downloaded_fails_only_its_feed(
    gateway: RealGateway, tmp_path: Path
) -> None:
    kafka = {
        "format": "kafka",
        "options": {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"},
        "sql": "SELECT 1L AS id FROM source",
    }
    session = {
        "conf": {
            "spark.jars.ivy": str(tmp_path / "ivy"),
            "spark.jars.ivySettings": str(empty_repository(tmp_path)),
        }
    }
    brings = Brings(GatewayAddress(gateway.endpoint, gateway.key), tmp_path / "ingest")

    def state(name: str) -> FeedProgress:
        return {feed.feed: feed for feed in brings.progress()}[name]

    def bring(**sources: Mapping[str, Any]) -> None:
        streams = {name: {"columns": {"id": "int64"}, "source": source} for name, source in sources.items()}
        brings.bring(parse_model(StreamsFile, {"session": session, "streams": streams}))

    try:
        bring(good=RATE)
        eventually(lambda: (state("good").batch or 0) >= 2, "micro-batches")
        run = state("good").run
        bring(good=RATE, other=kafka)
        eventually(lambda: state("other").state == "failed", "the failure of the connector")
        assert "spark-sql-kafka" in (state("other").last_error or "")
        batch = state("good").batch or 0
        eventually(lambda: (state("good").batch or 0) >= batch + 2, "more micro-batches")
        assert (state("good").run, state("good").restarts) == (run, 0)
        bring(good=RATE)
        assert [feed.feed for feed in brings.progress()] == ["good"]
        assert state("good").run == run
    finally:
        brings.stop()


def empty_repository(folder: Path) -> Path:
    """Write settings of Ivy with a single, empty repository, and return the path of the settings."""
    (folder / "empty").mkdir()
    settings = folder / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="none"/><resolvers><filesystem name="none">'
        f'<artifact pattern="{folder}/empty/[artifact].[ext]"/></filesystem></resolvers></ivysettings>',
        encoding="utf-8",
    )
    return settings
