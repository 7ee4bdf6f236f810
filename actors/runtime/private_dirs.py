"""Folders of this user alone: another's in their place would see what is written there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from configs.errors import InvalidInput


def make_private(folder: Path) -> None:
    """The folder and those above it that are not there; whoever comes first makes them, and all find them as they should be."""
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for parent in reversed(missing):
        parent.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise InvalidInput(
            "a run folder must be its owner's alone",
            "path",
            str(folder),
            f"remove it, choose another base, or chown it to uid {os.getuid()} and chmod it to 700",
        )
