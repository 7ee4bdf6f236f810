"""Caches of programs and images that tests need and that take long to build. A cache is a folder outside the checkout.

The name of an entry contains a hash of all that decides the entry's contents, so a changed pin is built next to the old entry. An entry
is built under another name and renamed at the end, so an interrupted build leaves no entry.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

UNFINISHED = "build-"
"""Beginning of the names of folders in which entries are built."""


class BuildError(Exception):
    """Error for a program or image that cannot be built on this machine, with the reason in one line."""


def cache_folder(name: str) -> Path:
    """Return the folder of a cache: `~/.cache/weir/NAME`, or the folder in the variable `WEIR_NAME_CACHE`."""
    named = os.environ.get(f"WEIR_{name.upper()}_CACHE")
    folder = Path(named) if named else Path.home() / ".cache" / "weir" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def hash_of(parts: Iterable[bytes]) -> str:
    """Return the hash that entries have in their names."""
    return hashlib.sha256(b"".join(parts)).hexdigest()[:12]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a lock during which no other process builds in this folder. Remove what interrupted builds have left."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for unfinished in folder.glob(f"{UNFINISHED}*"):
            shutil.rmtree(unfinished)
        yield


@contextmanager
def work_folder(folder: Path) -> Iterator[Path]:
    """Make a folder in which an entry of this folder can be built, and remove the rest of it at the end."""
    with TemporaryDirectory(dir=folder, prefix=UNFINISHED) as name:
        yield Path(name)


def remove_old(entries: Iterable[Path], kept: int) -> None:
    """Remove all but the `kept` entries that were used last. The time of an entry's last use is the time of its last change."""
    newest_first = sorted(entries, key=lambda entry: entry.stat().st_mtime, reverse=True)
    for entry in newest_first[kept:]:
        # An interrupted removal leaves a folder that the next build removes.
        unfinished = entry.with_name(f"{UNFINISHED}{entry.name}")
        entry.rename(unfinished)
        shutil.rmtree(unfinished)


def run_go(folder: Path, settings: Mapping[str, str], *arguments: str) -> str:
    """Run Go in a folder, and return its output. Raise BuildError with the last line of Go's message if it fails."""
    done = subprocess.run(
        ["nice", "go", *arguments],
        cwd=folder,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        reason = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
        raise BuildError(f"go {arguments[0]} failed in {folder.name}: {reason}")
    return done.stdout
