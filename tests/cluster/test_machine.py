"""The isolated machine of a node does not change the machine that runs the tests, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.api import wait_until_none
from tests.cluster.control_plane import process
from tests.cluster.machine import LINK, command_line, group_folders, machine

pytestmark = [pytest.mark.node, pytest.mark.usefixtures("node_tools")]

SETTING = Path("/proc/sys/kernel/panic")


def mounts() -> set[str]:
    return {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}


def test_ended_machine_leaves_no_process_mount_network_or_cgroup(tmp_path: Path) -> None:
    before = mounts()
    with machine(tmp_path) as made, process([*made.entry, "sleep", "3600"], tmp_path / "sleep.log"):
        wait_until_none(lambda: [] if "sleep 3600" in made.processes().values() else ["sleep"])
        made.run("mkdir", "/run/inside")
        made.run("mount", "-t", "tmpfs", "tmpfs", "/run/inside")
        inside, processes = made.mounts(), made.processes()
        folders = group_folders(made.group)
        for folder in folders:
            (folder / "inner").mkdir()
        assert Path("/sys/class/net", LINK).exists()
        assert all(folder.is_dir() for folder in folders)

    assert "/run/inside" in inside
    assert mounts() == before
    assert "sleep 3600" in processes.values()
    assert {pid: command_line(pid) for pid in processes} == dict.fromkeys(processes, "")
    assert [folder for folder in folders if folder.exists()] == []
    assert not Path("/sys/class/net", LINK).exists()


def test_kernel_setting_changed_in_a_machine_stays_unchanged_outside(tmp_path: Path) -> None:
    value = SETTING.read_text()
    with machine(tmp_path) as made:
        assert made.run("cat", SETTING) == value
        made.run("sh", "-c", f"echo 10{value.strip()} >{SETTING}")
        assert made.run("cat", SETTING) == f"10{value}"
        assert SETTING.read_text() == value
