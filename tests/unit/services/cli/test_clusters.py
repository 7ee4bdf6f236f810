"""Search for a running system on this machine when a command is given no address."""

import os
from pathlib import Path

import pytest

from actors.runtime.run_dirs import Cluster, RunDirs, clusters
from configs.errors import Away, InvalidInput
from services.cli.commands import top
from services.common.weir_home import Home, OwnSystem, held

FIRST, SECOND = Cluster("10.0.0.1:6379", "token"), Cluster("10.0.0.2:6379", None)


def noted(base: Path, system: str, cluster: Cluster) -> int:
    """Record the cluster of a system in its folder. The system counts as alive while the returned file descriptor is open."""
    dirs = RunDirs(base, system, "n1")
    held = dirs.hold()
    dirs.note_cluster(cluster)
    return held


def test_only_running_systems_are_found(tmp_path: Path) -> None:
    held, gone = noted(tmp_path, "one", FIRST), noted(tmp_path, "two", SECOND)
    assert clusters(tmp_path) == {"one": FIRST, "two": SECOND}
    os.close(gone)
    assert clusters(tmp_path) == {"one": FIRST}
    os.close(held)
    assert clusters(tmp_path) == {}


def test_if_only_one_system_runs_its_address_and_authentication_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    monkeypatch.setattr(top, "shared_memory", lambda: tmp_path)
    monkeypatch.delenv(top.AUTH_MODE, raising=False)
    with pytest.raises(InvalidInput, match="WEIR_HOME: no system runs from this folder"):
        top.reachable(None, home)
    running = noted(tmp_path, "one", FIRST)
    assert top.reachable(None, home) == FIRST.address
    assert os.environ[top.AUTH_MODE] == "token"
    other = noted(tmp_path, "two", SECOND)
    with pytest.raises(InvalidInput, match="several systems run on this machine"):
        top.reachable(None, home)
    assert top.reachable(SECOND.address, home) == SECOND.address
    assert top.reachable("elsewhere:1", home) == "elsewhere:1"
    os.close(running)
    os.close(other)


def test_the_system_of_the_home_comes_first_and_systems_of_other_homes_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    monkeypatch.setattr(top, "shared_memory", lambda: tmp_path)
    monkeypatch.setenv(top.AUTH_MODE, "token")
    others = [
        noted(tmp_path, "demo", FIRST),
        noted(tmp_path, "theirs", Cluster("10.0.0.3:6379", "token", str(tmp_path / "theirs"))),
    ]
    assert top.reachable(None, home) == FIRST.address
    with held(home):
        home.note_system(OwnSystem("mine", "10.0.0.4:6379", "token", on_cluster=False))
        assert top.reachable(None, home) == "10.0.0.4:6379"
        home.forget_system()
    assert top.reachable(None, home) == FIRST.address
    for file in others:
        os.close(file)


@pytest.mark.parametrize("left", ["endpoint", "system.json"])
def test_if_the_system_of_a_home_was_killed_no_system_of_another_home_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    home = Home(tmp_path / "home").made()
    monkeypatch.setattr(top, "shared_memory", lambda: tmp_path)
    demo = noted(tmp_path, "demo", FIRST)
    if left == "endpoint":
        home.endpoint.write_text("http://127.0.0.1:1", encoding="utf-8")
    else:
        home.note_system(OwnSystem("mine", "10.0.0.4:6379", "token", on_cluster=False))
    with pytest.raises(Away, match="WEIR_HOME: the system of this home is not running") as raised:
        top.reachable(None, home)
    assert raised.value.hint == "start it with `weir up`"
    assert top.reachable(FIRST.address, home) == FIRST.address
    os.close(demo)


@pytest.mark.parametrize("address", ["auto", "local", "10.0.0.1", "http://10.0.0.1:1", ""])
def test_only_the_address_of_a_ray_cluster_is_accepted(tmp_path: Path, address: str) -> None:
    with pytest.raises(InvalidInput, match="--address: this is not the address of a Ray cluster"):
        top.reachable(address, Home(tmp_path))
