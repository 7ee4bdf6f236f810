"""Status of mirrors over REST, for mirrors that really poll: administrators see everything, tenants only their freshness."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from configs.documents.declarations import MirrorDeclaration, documents_of
from configs.errors import NotAllowed, UnknownName
from services.cli.main import app
from services.client import Client
from services.mirror.mirror_definition import read_mirror
from services.mirror.mirror_threads import Mirrors
from tests.support.mirrors import Told, mirror, seen
from tests.support.object_server import Store, object_store
from tests.support.served import Served, served

SEEN_BY_TENANTS = {"name", "state", "objects", "held", "failing", "perceived_freshness"}
TENANT = "{kind: Tenant, name: acme, priority_class: gold}"


@dataclass
class Polled:
    served: Served
    mirrors: Mirrors
    store: Store

    def client(self, *scopes: str) -> Client:
        return Client(self.served.url, self.served.key(*scopes))


@pytest.fixture
def polled(tmp_path: Path) -> Iterator[Polled]:
    """Serve a mirror that polls, a mirror with a broken store, and a mirror that has not started."""
    with ExitStack() as stack:
        store = stack.enter_context(object_store(a={"price": 1}))
        found = stack.enter_context(served(tmp_path / "home"))
        mirrors = stack.enter_context(Mirrors(Told()))
        origin = f"FROM HTTP '{store.url}{{key}}' BANDWIDTH 50 PER SECOND"
        documents = [
            mirror(rest=f"{origin} KEYS ('a', 'garbage')"),
            mirror(rest=f"{origin} KEYS FROM URL '{store.url}broken'", name="broken"),
            mirror(rest=f"{origin} KEYS ('a')", name="soon"),
        ]
        found.catalog.apply([*documents_of(TENANT), *documents], "test")
        found.service.snapshot.refresh()
        for document in documents[:2]:
            assert isinstance(document.declaration, MirrorDeclaration)
            mirrors.begin(read_mirror(document.declaration))
        found.service.mirrors = mirrors.progress
        seen(
            mirrors,
            "prices",
            lambda progress: progress.statistics.failing == 1 and progress.statistics.held == 1,
        )
        seen(mirrors, "broken", lambda progress: progress.state == "waiting")
        yield Polled(found, mirrors, store)


def test_administrators_see_figures_and_problems_of_mirrors(polled: Polled) -> None:
    with polled.client("admin") as weir:
        statuses = {status["name"]: status for status in weir.live.mirrors()}
        prices = weir.live.mirror_status("prices")
    assert {name: status["state"] for name, status in statuses.items()} == {
        "prices": "running",
        "broken": "waiting",
        "soon": "starting",
    }
    assert (prices["objects"], prices["held"], prices["failing"]) == (2, 1, 1)
    assert (prices["bandwidth"], prices["unit"]) == (50.0, "polls")
    assert prices["polls"] >= prices["changes"] + prices["failures"] >= 2
    assert prices["bytes"] > 0
    assert list(prices["problems"]) == ["the object is not JSON: b'<html>'"]
    assert prices["last_problem"]["told"] == "garbage: the object is not JSON: b'<html>'"
    assert "500 Internal Server Error" in statuses["broken"]["last_problem"]["told"]
    assert statuses["soon"] | SOON == statuses["soon"]


SOON: dict[str, Any] = {"objects": 0, "polls": 0, "problems": {}, "last_problem": None}


def test_tenants_see_freshness_of_mirrors_but_not_their_stores(polled: Polled) -> None:
    with polled.client("tenant:acme") as weir:
        statuses = weir.live.mirrors()
        assert [status["name"] for status in statuses] == ["prices", "broken", "soon"]
        assert {key for status in statuses for key in status} == SEEN_BY_TENANTS
        assert weir.live.mirror_status("prices").keys() == SEEN_BY_TENANTS
        with pytest.raises(UnknownName, match="there is no Mirror of this name"):
            weir.live.mirror_status("another")
        with pytest.raises(NotAllowed):
            weir.get("Mirror", "prices")
    with polled.client("ingest:prices") as feeder, pytest.raises(NotAllowed):
        feeder.live.mirrors()


def test_status_of_mirrors_without_a_system_answers_503(polled: Polled) -> None:
    polled.served.service.mirrors = None
    headers = {"Authorization": f"Bearer {polled.served.key('admin')}"}
    answer = httpx.get(f"{polled.served.url}/v1/mirroring", headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:weir:problem:not-running")


def test_weir_describe_shows_the_status_of_a_mirror(polled: Polled) -> None:
    environ = {"WEIR_ENDPOINT": polled.served.url, "WEIR_API_KEY": polled.served.key("admin")}
    result = CliRunner().invoke(app, ["describe", "mirror", "broken", "-o", "yaml"], env=environ)
    assert result.exit_code == 0, result.output
    assert "state: waiting" in result.output
    assert "500 Internal Server Error" in result.output
    result = CliRunner().invoke(app, ["get", "mirrors"], env=environ | {"COLUMNS": "200"})
    assert "CREATE MIRROR broken (item string" in result.output
