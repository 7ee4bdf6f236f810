"""The service of `weir up` before a system runs: its endpoint file, its administrator's key, and the lock of its home."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from configs.documents.declarations import Ref, documents_of
from configs.errors import InvalidInput
from configs.service.service_settings import ServiceSettings
from services.catalog.catalog import Catalog
from services.cli.commands.up import up
from services.cli.main import main
from services.cli.upkeep.up_service import served
from services.common.weir_home import Home, held
from services.watch.watch import Watch
from tests.support.watched import InProcess, declared

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


def test_a_running_service_writes_its_endpoint_and_its_admin_key(home: Home, catalog: Catalog) -> None:
    with served(catalog, home, FREE, "ops") as service:
        shown = service.told()
        assert shown == {
            "api": home.endpoint.read_text(encoding="utf-8"),
            "console": f"{shown['api']}/console/",
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


def test_the_admin_key_is_kept_until_it_is_revoked(home: Home, catalog: Catalog) -> None:
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


def test_a_start_without_the_admin_key_file_is_refused_if_two_admin_keys_are_already_live(
    home: Home, catalog: Catalog
) -> None:
    for _ in range(2):
        with served(catalog, home, FREE, "ops"):
            home.admin_key.unlink()
    with (
        pytest.raises(InvalidInput, match="the principal already has 2 live keys") as raised,
        served(catalog, home, FREE, "ops"),
    ):
        pass
    assert raised.value.hint.startswith("revoke a key with `weir keys revoke`, or write an existing key to ")
    assert not home.endpoint.exists()


def test_a_service_that_ends_keeps_the_endpoint_file_that_a_later_service_wrote(
    home: Home, catalog: Catalog
) -> None:
    with served(catalog, home, FREE, "ops"):
        home.endpoint.write_text("http://127.0.0.1:1", encoding="utf-8")
    assert home.endpoint.read_text(encoding="utf-8") == "http://127.0.0.1:1"


def test_a_start_creates_the_home_folder_if_the_folder_does_not_exist(
    tmp_path: Path, catalog: Catalog
) -> None:
    elsewhere = Home(tmp_path / "not" / "there")
    with served(catalog, elsewhere, FREE, "ops"):
        assert status(elsewhere, "/v1/tenants") == 200


def test_an_admin_key_that_cannot_be_written_is_revoked(home: Home, catalog: Catalog) -> None:
    home.admin_key.mkdir()
    for _ in range(3):
        with pytest.raises(InvalidInput, match="cannot be written"), served(catalog, home, FREE, "ops"):
            pass
    assert [one.revoked_at is None for one in catalog.keys.all()] == [False] * 3
    assert sorted(one.name for one in home.folder.iterdir() if one.name.startswith("admin")) == ["admin.key"]


def test_only_one_weir_up_runs_from_a_home(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEIR_HOME", str(home.folder))
    monkeypatch.setattr(sys, "argv", ["weir", "up", "--api-port", "0", "--folder", str(a_file(tmp_path))])
    with held(home):
        home.endpoint.write_text("http://127.0.0.1:1", encoding="utf-8")
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        printed = capfd.readouterr().err
        assert f"WEIR_HOME: another `weir up` runs from this folder (got '{home.folder}')" in printed
        assert "stop that `weir up`, or set WEIR_HOME to another folder" in printed
        assert home.endpoint.read_text(encoding="utf-8") == "http://127.0.0.1:1"
        assert stat.S_IMODE(home.lock.stat().st_mode) == 0o600
    # `weir up` ends before it starts a system, because --folder names a file.
    with pytest.raises(InvalidInput, match="--folder"):
        up(files=[], api_port=0, folder=a_file(tmp_path))
    assert not home.endpoint.exists()


def test_the_home_of_a_killed_service_can_be_used_again(home: Home) -> None:
    program = "import sys; from pathlib import Path; from services.common.weir_home import Home, held\n"
    program += "with held(Home(Path(sys.argv[1]))): print('held', flush=True); sys.stdin.read()"
    arguments = [sys.executable, "-c", program, str(home.folder)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(InvalidInput, match="another `weir up` runs from this folder"), held(home):
            pass
        other.kill()
        other.wait()
    assert home.lock.exists()
    with held(home):
        pass


def a_file(folder: Path) -> Path:
    """Create a file at a path where a folder is needed."""
    found = folder / "file"
    found.touch()
    return found


def test_nothing_is_declared_if_the_port_is_taken(
    home: Home, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "documents.yaml"
    file.write_text("{kind: Tenant, name: acme, priority_class: gold}", encoding="utf-8")
    before = catalog.all()
    monkeypatch.setenv("WEIR_HOME", str(home.folder))
    with served(catalog, Home(tmp_path / "other"), FREE, "ops") as other:
        port = int(str(other.told()["api"]).rpartition(":")[2])
        with pytest.raises(InvalidInput, match="the service cannot listen at this address"):
            up(files=[file], api_port=port, folder=tmp_path / "run")
    assert catalog.all() == before


def test_a_hidden_secret_in_a_file_keeps_the_stored_secret(
    home: Home, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = "{kind: Session, conf: {spark.some.secret: %s}}"
    catalog.apply(documents_of(session % "hunter2"), "ops")
    file = tmp_path / "documents.yaml"
    file.write_text(session % '"(hidden)"', encoding="utf-8")
    monkeypatch.setenv("WEIR_HOME", str(home.folder))
    with pytest.raises(InvalidInput, match="--folder"):
        up(files=[file], api_port=0, folder=a_file(tmp_path))
    assert (
        catalog.get(Ref("Session", "spark")).declaration == documents_of(session % "hunter2")[0].declaration
    )


def test_a_service_that_is_ready_shows_all_running_classes(home: Home, catalog: Catalog) -> None:
    system = InProcess()
    with served(catalog, home, FREE, "ops") as found, Watch(system, every_s=3600.0) as watch:
        found._service.watch = watch
        assert watch.view().classes == {}
        system.declare(declared("gold"))
        found.is_ready()
        assert list(watch.view(max_age_s=3600.0).classes) == ["gold"]
