"""How mirrors fare, by REST: to administrators all of it, to tenants how fresh they are, of mirrors that really poll."""

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
    """A mirror that polls, one whose store is broken, and one that is about to begin."""
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
        for one in documents[:2]:
            assert isinstance(one.declaration, MirrorDeclaration)
            mirrors.begin(read_mirror(one.declaration))
        found.service.mirrors = mirrors.progress
        seen(mirrors, "prices", lambda it: it.statistics.failing == 1 and it.statistics.held == 1)
        seen(mirrors, "broken", lambda it: it.state == "waiting")
        yield Polled(found, mirrors, store)


def test_administrators_are_told_how_mirrors_fare_and_what_is_wrong(polled: Polled) -> None:
    with polled.client("admin") as weir:
        told = {one["name"]: one for one in weir.live.mirrors()}
        prices = weir.live.mirror_status("prices")
    assert {name: one["state"] for name, one in told.items()} == {
        "prices": "running",
        "broken": "waiting",
        "soon": "starting",
    }
    assert (prices["objects"], prices["held"], prices["failing"]) == (2, 1, 1)
    assert (prices["bandwidth"], prices["unit"]) == (50.0, "polls")
    assert prices["polls"] >= prices["changes"] + prices["failures"] >= 2
    assert prices["bytes"] > 0
    assert list(prices["problems"]) == ["not JSON: b'<html>'"]
    assert prices["last_problem"]["told"] == "garbage: not JSON: b'<html>'"
    assert "500 Internal Server Error" in told["broken"]["last_problem"]["told"]
    assert told["soon"] | SOON == told["soon"]


SOON: dict[str, Any] = {"objects": 0, "polls": 0, "problems": {}, "last_problem": None}


def test_tenants_are_told_how_fresh_mirrors_are_and_nothing_of_their_stores(polled: Polled) -> None:
    with polled.client("tenant:acme") as weir:
        told = weir.live.mirrors()
        assert [one["name"] for one in told] == ["prices", "broken", "soon"]
        assert {key for one in told for key in one} == SEEN_BY_TENANTS
        assert weir.live.mirror_status("prices").keys() == SEEN_BY_TENANTS
        with pytest.raises(UnknownName, match="no such Mirror"):
            weir.live.mirror_status("another")
        with pytest.raises(NotAllowed):
            weir.get("Mirror", "prices")
    with polled.client("ingest:prices") as feeder, pytest.raises(NotAllowed):
        feeder.live.mirrors()


def test_where_nothing_runs_that_is_told(polled: Polled) -> None:
    polled.served.service.mirrors = None
    headers = {"Authorization": f"Bearer {polled.served.key('admin')}"}
    answer = httpx.get(f"{polled.served.url}/v1/mirroring", headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:weir:problem:not-running")


def test_what_is_described_of_a_mirror_tells_how_it_fares(polled: Polled) -> None:
    environ = {"WEIR_ENDPOINT": polled.served.url, "WEIR_API_KEY": polled.served.key("admin")}
    result = CliRunner().invoke(app, ["describe", "mirror", "broken", "-o", "yaml"], env=environ)
    assert result.exit_code == 0, result.output
    assert "state: waiting" in result.output
    assert "500 Internal Server Error" in result.output
    result = CliRunner().invoke(app, ["get", "mirrors"], env=environ | {"COLUMNS": "200"})
    assert "CREATE MIRROR broken (item string" in result.output
