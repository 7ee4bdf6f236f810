"""Folders of nodes that have ended while their system runs, such as after a worker's container was killed for its memory."""

from __future__ import annotations

import os
from pathlib import Path

from actors.runtime.run_dirs import RunDirs


def test_folder_of_a_node_without_processes_is_removed(tmp_path: Path) -> None:
    old, beside, new = (RunDirs(tmp_path, "s", node) for node in ("old", "beside", "new"))
    held = [beside.hold(), beside.hold_node(), new.hold(), new.hold_node()]
    for file in (old.hold(), old.hold_node()):
        os.close(file)
    (old.streams / "segment").write_bytes(b"x" * 1000)
    assert new.remove_dead_nodes() == [old.folder]
    assert (old.folder.exists(), beside.streams.is_dir(), new.streams.is_dir()) == (False, True, True)
    assert new.remove_dead_nodes() == []
    for file in held:
        os.close(file)


def test_node_whose_processes_have_not_started_yet_is_kept(tmp_path: Path) -> None:
    starting, new = RunDirs(tmp_path, "s", "starting"), RunDirs(tmp_path, "s", "new")
    held = [starting.hold(), new.hold()]
    assert new.remove_dead_nodes() == []
    assert starting.streams.is_dir()
    for file in held:
        os.close(file)
