"""The folders of a system that runs, without its processes."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from actors.dirs import RunDirs


@pytest.fixture
def dirs() -> Iterator[RunDirs]:
    with TemporaryDirectory() as base:
        found = RunDirs(Path(base), "s", "n")
        held = found.hold()
        yield found
        os.close(held)
