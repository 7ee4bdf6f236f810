"""Creation of folders that only this user can access. In a folder of another user, that user could read the files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from configs.errors import InvalidInput


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents with mode 700; raise InvalidInput if another user owns or may access it."""
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for parent in reversed(missing):
        parent.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise InvalidInput(
            "a run folder must belong to this user and be accessible to no other user",
            "path",
            str(folder),
            f"remove the folder, choose another parent folder, or chown the folder to uid {os.getuid()} and chmod it to 700",
        )
