"""Fixtures of the unit tests: folders of a run, files that cannot be written, and a terminal."""

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from actors.runtime.run_dirs import RunDirs
from tests.support.terminal import VARIABLES, Terminal


@pytest.fixture
def dirs() -> Iterator[RunDirs]:
    """Return the folders of a system, as if the system were running."""
    with TemporaryDirectory() as base:
        found = RunDirs(Path(base), "s", "n")
        held = found.hold()
        yield found
        os.close(held)


@pytest.fixture
def no_room() -> Callable[[], AbstractContextManager[None]]:
    """Return a context manager in which this process cannot write to files, as if the disk were full."""

    @contextmanager
    def limited() -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Terminal:
    """Return a terminal of 80 columns in a new folder, with WEIR_HOME as the only variable of Weir."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "home"))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return Terminal(monkeypatch, capsys, tmp_path / "home")
