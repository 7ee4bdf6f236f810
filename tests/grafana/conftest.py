"""Fixtures: one Grafana for all tests, a separate organisation in Grafana for each test, and recorded metrics of the demonstration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.grafana.programs import build_missing
from tests.grafana.provisioned import write_provisioning
from tests.grafana.recording import Recording, recorded
from tests.grafana.server import Organisation, RealServer, started
from tests.support.build_cache import BuildError
from tests.support.terminal import VARIABLES, Terminal


@pytest.fixture(scope="session")
def provisioning(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the files that Grafana loads when it starts."""
    folder = tmp_path_factory.mktemp("provisioning")
    write_provisioning(folder)
    return folder


@pytest.fixture(scope="session")
def server(provisioning: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    try:
        build_missing()
    except BuildError as problem:
        pytest.exit(f"grafana: {problem}", returncode=1)
    with started(tmp_path_factory.mktemp("grafana"), provisioning) as found:
        yield found


@pytest.fixture
def organisation(server: RealServer) -> Organisation:
    return server.organisation()


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    with recorded(tmp_path_factory.mktemp("recording")) as found:
        yield found


@pytest.fixture
def weir(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Terminal:
    """Return a terminal in a new folder, without any variable of Weir."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "home"))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return Terminal(monkeypatch, capsys, tmp_path / "home")
