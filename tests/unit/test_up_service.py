"""The service of `weir up` before anything runs: its files, its key, and what it says of itself."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from configs.problems import InvalidInput
from configs.service import ServiceSettings
from services.catalog.catalog import Catalog
from services.catalog.home import Home
from services.cli.up_service import served

FREE = ServiceSettings(port=0)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def catalog(home: Home) -> Iterator[Catalog]:
    found = Catalog(home)
    yield found
    found.close()


def status(home: Home, path: str) -> int:
    url = home.endpoint.read_text(encoding="utf-8")
    key = home.admin_key.read_text(encoding="utf-8").strip()
    return httpx.get(url + path, headers={"Authorization": f"Bearer {key}"}).status_code


def test_files_tell_where_it_is_and_what_opens_it_while_it_runs(home: Home, catalog: Catalog) -> None:
    with served(catalog, home, FREE, "ops") as service:
        told = service.told()
        assert told == {
            "api": home.endpoint.read_text(encoding="utf-8"),
            "console": f"{told['api']}/console/",
            "admin_key": str(home.admin_key),
        }
        assert (status(home, "/v1/tenants"), status(home, "/readyz"), status(home, "/v1/system")) == (
            200,
            503,
            503,
        )
        service.is_ready()
        assert status(home, "/readyz") == 200
    assert (home.endpoint.exists(), stat.S_IMODE(home.admin_key.stat().st_mode)) == (False, 0o600)
    (key,) = catalog.keys.all()
    assert (key.principal, key.scopes) == ("admin", ("admin",))


def test_key_is_kept_until_it_is_nobodys_any_more(home: Home, catalog: Catalog) -> None:
    keys = []
    for _ in range(2):
        with served(catalog, home, FREE, "ops"):
            keys.append(home.admin_key.read_text(encoding="utf-8"))
    (made,) = catalog.keys.all()
    catalog.keys.revoke(made.id, "ops")
    with served(catalog, home, FREE, "ops"):
        keys.append(home.admin_key.read_text(encoding="utf-8"))
        assert status(home, "/v1/tenants") == 200
    assert keys[0] == keys[1] != keys[2]


def test_key_that_is_lost_again_and_again_is_not_made_again_and_again(home: Home, catalog: Catalog) -> None:
    for _ in range(2):
        with served(catalog, home, FREE, "ops"):
            home.admin_key.unlink()
    with (
        pytest.raises(InvalidInput, match="has 2 live keys already") as told,
        served(catalog, home, FREE, "ops"),
    ):
        pass
    assert told.value.hint.startswith("revoke one with `weir keys revoke`, or put the key of one into ")
    assert not home.endpoint.exists()


def test_endpoint_of_another_that_came_after_is_left_alone(home: Home, catalog: Catalog) -> None:
    with served(catalog, home, FREE, "ops"):
        home.endpoint.write_text("http://127.0.0.1:1", encoding="utf-8")
    assert home.endpoint.read_text(encoding="utf-8") == "http://127.0.0.1:1"
