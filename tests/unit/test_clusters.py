"""Which systems somebody finds on this machine, without being told of one."""

import os
from pathlib import Path

import pytest

from actors.dirs import Cluster, RunDirs, clusters
from configs.problems import InvalidInput
from services.cli import top

FIRST, SECOND = Cluster("10.0.0.1:6379", "token"), Cluster("10.0.0.2:6379", None)


def noted(base: Path, system: str, cluster: Cluster) -> int:
    """A system that is alive as long as what is returned is open."""
    dirs = RunDirs(base, system, "n1")
    held = dirs.hold()
    dirs.note_cluster(cluster)
    return held


def test_only_systems_that_are_alive_are_found(tmp_path: Path) -> None:
    held, gone = noted(tmp_path, "one", FIRST), noted(tmp_path, "two", SECOND)
    assert clusters(tmp_path) == {"one": FIRST, "two": SECOND}
    os.close(gone)
    assert clusters(tmp_path) == {"one": FIRST}
    os.close(held)
    assert clusters(tmp_path) == {}


def test_the_only_system_is_found_with_what_its_cluster_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top, "shared_memory", lambda: tmp_path)
    monkeypatch.delenv(top.AUTH_MODE, raising=False)
    with pytest.raises(InvalidInput, match="no system runs on this machine"):
        top.reachable(None)
    held = noted(tmp_path, "one", FIRST)
    assert top.reachable(None) == FIRST.address
    assert os.environ[top.AUTH_MODE] == "token"
    other = noted(tmp_path, "two", SECOND)
    with pytest.raises(InvalidInput, match="several systems run on this machine"):
        top.reachable(None)
    assert top.reachable(SECOND.address) == SECOND.address
    assert top.reachable("elsewhere:1") == "elsewhere:1"
    os.close(held)
    os.close(other)
