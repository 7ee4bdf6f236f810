"""Feeds over REST and on the command line: administrators see everything, tenants see neither sources nor errors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from configs.documents.declarations import documents_of
from configs.errors import NotAllowed, UnknownName
from loadshed.ledger import TupleLedger
from services.api.service import NO_PROCESS
from services.cli.commands.apply import description
from services.cli.main import app
from services.client import Client
from services.ingest.progress import FeedProgress, problems_of
from tests.support.metered import Metered, metering, stream
from tests.support.served import Served, served
from tests.support.watched import declared

DOCUMENTS = """
{kind: Stream, name: Readings, columns: {ts: timestamp, sensor: int32, temp: float64}, time: ts,
 source: {format: json, options: {path: /data/in}, schema: "ts TIMESTAMP, sensor INT, temp DOUBLE"}}
---
{kind: Stream, name: broken, columns: {v: int64}, source: {format: json, options: {path: /nowhere}, schema: v BIGINT}}
---
{kind: Stream, name: hot, columns: {v: int64}}
---
{kind: Feed, name: sensors, source: {format: rate, sql: SELECT value AS v FROM source}, streams: {hot: {}}}
---
{kind: Stream, name: pushed, columns: {v: int64}}
---
{kind: Tenant, name: gold, priority_class: gold}
---
{kind: Tenant, name: other, priority_class: gold}
"""
UNREJECTED: dict[str, object] = {"rejected": 0, "rejected_now": 0.0, "last_reason": None, "reasons": {}}
ERROR_AT = 1_800_000_000.0
FEEDS = [
    FeedProgress(
        "Readings", "running", 500, 99.6, 7, 150.0, 20.0, batch_at=ERROR_AT + 60, event_time=ERROR_AT
    ),
    FeedProgress(
        "broken",
        "failed",
        restarts=3,
        last_error="Path does not exist: /nowhere",
        last_error_at=ERROR_AT,
        next_try_s=4.400000000023283,
    ),
]
FOR_TENANTS = {
    "name",
    "state",
    "rows_per_s",
    "rows",
    "lag",
    "behind_s",
    "batch_at",
    "restarts",
    "next_try_s",
    "streams",
}


@dataclass
class Fed:
    served: Served
    system: Metered
    keys: dict[str, str] = field(default_factory=dict)

    def client(self, *scopes: str) -> Client:
        return Client(self.served.url, self.served.key(*scopes))

    def weir(self, *arguments: str, scope: str = "admin") -> tuple[int, str]:
        if scope not in self.keys:
            self.keys[scope] = self.served.key(scope)
        environ = {"WEIR_ENDPOINT": self.served.url, "WEIR_API_KEY": self.keys[scope], "COLUMNS": "80"}
        result = CliRunner().invoke(app, arguments, env=environ)
        return result.exit_code, result.output or str(result.exception)


@pytest.fixture
def fed(tmp_path: Path) -> Iterator[Fed]:
    """Serve a running feed, a failed feed, a feed without a report, and a stream without a feed."""
    with ExitStack() as stack:
        found = stack.enter_context(served(tmp_path / "home"))
        found.catalog.apply(documents_of(DOCUMENTS), "test")
        found.service.snapshot.refresh()
        system = Metered(inflows=[stream("Readings", 480), stream("pushed", 12)])
        system.declare(declared("gold"))
        system.cycle("gold", 0.2, (TupleLedger(offered=200, delivered=150, late=50), 0))
        metered = stack.enter_context(metering(system))
        metered.told()
        found.service.watch, found.service.nodes = metered.watch, metered.nodes
        found.service.brought = lambda: FEEDS
        yield Fed(found, system)


def test_administrators_see_states_figures_and_errors_of_feeds(fed: Fed) -> None:
    with fed.client("admin") as weir:
        readings, broken, sensors = weir.live.feed_statuses()
        assert weir.live.feed_status("broken") == broken
    assert 0.0 <= readings.pop("behind_s") <= max(0.0, time.time() - ERROR_AT) + 60
    assert readings == {
        "name": "Readings",
        "format": "json",
        "state": "running",
        "rows_per_s": 99.6,
        "rows": 500,
        "lag": 20.0,
        "batch_at": "2027-01-15T08:01:00Z",
        "batch_ms": 150.0,
        "restarts": 0,
        "next_try_s": None,
        "last_error": None,
        "last_error_at": None,
        "streams": [UNREJECTED | {"name": "Readings", "rows": 480, "offered": 200, "late": 50}],
    }
    expected = {
        "state": "failed",
        "restarts": 3,
        "next_try_s": 4.4,
        "last_error": "Path does not exist: /nowhere",
        "last_error_at": "2027-01-15T08:00:00Z",
    }
    assert broken | expected == broken
    assert (sensors["state"], [stream["name"] for stream in sensors["streams"]]) == ("starting", ["hot"])


def test_streams_without_a_feed_are_listed_separately(fed: Fed) -> None:
    headers = {"Authorization": f"Bearer {fed.served.key('admin')}"}
    feeding = httpx.get(f"{fed.served.url}/v1/feeding", headers=headers).json()
    assert feeding["pushed"] == [UNREJECTED | {"name": "pushed", "rows": 12, "offered": 0, "late": 0}]


def test_tenants_see_states_of_feeds_without_sources_and_errors(fed: Fed) -> None:
    with fed.client("tenant:gold") as weir:
        statuses = weir.live.feed_statuses()
        assert [status["name"] for status in statuses] == ["Readings", "broken", "sensors"]
        assert {key for status in statuses for key in status} == FOR_TENANTS
        assert weir.live.feed_status("Readings")["streams"][0]["late"] == 50
        with pytest.raises(UnknownName, match="there is no Feed of this name"):
            weir.live.feed_status("pushed")
    with fed.client("tenant:other") as weir:
        assert weir.live.feed_status("Readings")["streams"] == [
            UNREJECTED | {"name": "Readings", "rows": 480, "offered": 0, "late": 0}
        ]
    with fed.client("ingest:hot") as feeder, pytest.raises(NotAllowed):
        feeder.live.feed_statuses()


def test_feeds_without_a_reporting_process_are_shown_as_stopped(fed: Fed) -> None:
    service = fed.served.service
    service.brought = None
    assert [(feed.feed, feed.state, feed.last_error) for feed in service.feeds()] == [
        (name, "stopped", NO_PROCESS) for name in ("Readings", "broken", "sensors")
    ]
    service.told_feeds.tell(FEEDS[:1], time.monotonic())
    assert [(feed.feed, feed.state) for feed in service.feeds()] == [
        ("Readings", "running"),
        ("broken", "starting"),
        ("sensors", "starting"),
    ]


def test_feeds_that_do_not_run_are_listed_as_problems() -> None:
    stopped = replace(FEEDS[0], state="stopped")
    assert problems_of([*FEEDS, stopped, replace(stopped, state="starting")]) == [
        "feed broken does not run: Path does not exist: /nowhere",
        "feed Readings does not run: no process runs it",
    ]


def test_get_feeds_shows_states_and_the_last_error(fed: Fed) -> None:
    code, output = fed.weir("get", "feeds")
    lines = [" ".join(line.split()) for line in output.splitlines() if line.strip()]
    behind = lines[2].split()[-5:-3]
    assert (code, lines) == (
        0,
        [
            "feed source state rows/s lag behind late rejected restarts",
            lines[1],
            f"Readings json running 100 20 {' '.join(behind)} 25.0% 0 0",
            "broken json failed 0 – – – – 3",
            "sensors rate starting 0 – – – – 0",
            "broken: error at 08:00:00Z: Path does not exist: /nowhere; next try in 4 s",
        ],
    )
    code, output = fed.weir("get", "feed", "broken", scope="tenant:gold")
    assert code == 0
    assert "broken – failed 0 – – – – 3" in " ".join(output.split())
    assert fed.weir("get", "feeds", "-o", "yaml")[1].startswith("kind: Feed\nname: sensors\n")


def test_wide_get_feeds_shows_figures_and_the_last_error_without_json(fed: Fed) -> None:
    code, output = fed.weir("get", "feeds", "-o", "wide")
    head, _, readings, broken, sensors = (line.rstrip() for line in output.splitlines())
    assert (code, "{" in output) == (0, False)
    names = "feed source state rows/s lag behind late rejected restarts rows batch ms last batch streams last error"
    assert " ".join(head.split()) == names
    assert readings.split()[-5:-1] == ["500", "150", "08:01:00Z", "Readings"]
    error = "broken 08:00:00Z: Path does not exist: /nowhere; next try in 4 s"
    assert " ".join(broken.split()).endswith(error)
    assert sensors.split()[-2:] == ["hot", "–"]
    assert "hot" in fed.weir("get", "feeds", "-o", "wide", scope="tenant:gold")[1]


def test_figures_of_a_feed_are_rounded(fed: Fed) -> None:
    with fed.client("admin") as weir:
        assert weir.live.feed_status("broken")["next_try_s"] == 4.4
        behind_s = weir.live.feed_status("Readings")["behind_s"]
    assert behind_s == round(behind_s, 1)
    assert "next_try_s: 4.4 " in " ".join(fed.weir("describe", "feed", "broken")[1].split())


def test_description_rounds_measurements_but_not_declared_values() -> None:
    document = {
        "max_drop": 0.123456789,
        "status": {"lag": 4.400000000023283, "streams": [{"rate": 12345.678}]},
    }
    fields = description("Feed f", document).fields
    assert fields == {"max_drop": 0.123456789, "status": {"lag": "4.4", "streams": [{"rate": "12,346"}]}}


def test_describe_feed_shows_its_declaration_and_status(fed: Fed) -> None:
    code, output = fed.weir("describe", "feed", "broken", "-o", "yaml")
    assert code == 0
    assert "kind: Stream\nname: broken\n" in output
    assert "last_error: 'Path does not exist: /nowhere'" in output
    code, output = fed.weir("describe", "feed", "sensors")
    assert code == 0
    assert "status: name: sensors state: starting" in " ".join(output.split())
    code, output = fed.weir("describe", "feed", "sensors", "-o", "yaml", scope="tenant:gold")
    assert (code, output.splitlines()[:3]) == (0, ["status:", "  name: sensors", "  state: starting"])
    for arguments in (("describe", "feed", "pushed"), ("get", "feed", "pushed")):
        code, output = fed.weir(*arguments)
        assert code != 0
        assert "there is no Feed of this name" in output


def test_get_feeds_without_a_service_says_that_states_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("WEIR_ENDPOINT", raising=False)
    file = tmp_path / "documents.yaml"
    file.write_text(DOCUMENTS, encoding="utf-8")
    assert CliRunner().invoke(app, ["apply", "-f", str(file)]).exit_code == 0
    output = CliRunner().invoke(app, ["get", "feeds"]).stdout
    assert "sensors rate – – – – – –" in " ".join(output.split())
    assert (
        "states are not known: the address of the Weir service is not known; set WEIR_ENDPOINT, or start a service here with `weir up`"
        in (" ".join(output.split()))
    )
