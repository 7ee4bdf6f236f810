"""`make setup` prepares a checkout only once, but prepares a moved checkout again."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.support.checkout import ROOT

# Stand-in for the script that installs 2 GB of packages. Like pip, it writes the command `weir`. Each run adds a line to `runs`.
INSTALL = """\
mkdir -p .venv/bin
printf '#!%s/.venv/bin/python\\n' "$(pwd -P)" > .venv/bin/weir
echo ran >> runs
"""


def checkout(folder: Path) -> Path:
    (folder / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", folder)
    (folder / ".ci" / "setup").write_text(INSTALL, encoding="utf-8")
    for name in ("pyproject.toml", "requirements.txt", "requirements-dev.txt"):
        (folder / name).touch()
        os.utime(folder / name, (0, 0))
    os.utime(folder / ".ci" / "setup", (0, 0))
    return folder


def runs_after_setup(folder: Path) -> int:
    done = subprocess.run(
        ["make", "--no-print-directory", "setup"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout == "setup: .venv is ready\n"
    return len((folder / "runs").read_text("utf-8").splitlines())


def test_a_checkout_is_set_up_once_and_again_only_after_a_move(tmp_path: Path) -> None:
    first = checkout(tmp_path / "first place")
    assert [runs_after_setup(first) for _ in range(2)] == [1, 1]
    second = first.rename(tmp_path / "second place")
    assert [runs_after_setup(second) for _ in range(2)] == [2, 2]
    assert (second / ".venv" / "bin" / "weir").read_text("utf-8") == f"#!{second}/.venv/bin/python\n"
    linked = tmp_path / "link"
    linked.symlink_to(second)
    assert runs_after_setup(linked) == 2
