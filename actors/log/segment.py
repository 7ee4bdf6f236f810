"""An open file of a log, for its writer or for a reader. `actors.log.segment_log` describes the content."""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
import weakref
from pathlib import Path

from configs.errors import WeirError

PAGE = 4096
BLOCK = 512  # what `stat` counts in

MAGIC = int.from_bytes(b"WEIRLOG1", "little")
BASE, COMMIT = 1, 8  # places of words
SEALED = 1 << 63
COUNT_SHIFT = 40
COUNT_MASK = (1 << 23) - 1
LENGTH_MASK = (1 << COUNT_SHIFT) - 1

SUFFIX = ".segment"


class LogMissing(WeirError):
    """There is no log in the folder, or not one of this version."""


class SegmentGone(Exception):
    """What was a segment of that number when the folder was listed is none any more, or another one."""


class LogSegment:
    """One file of a log, its first `mapped` bytes in memory; who only reads has a lock on it meanwhile.

    `file` is closed by who writes to it; of who reads, with the segment. The lock stays with whatever was given out.
    """

    def __init__(self, path: Path, mapped: int | None, write: bool) -> None:
        self.file = os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC)
        if not write:
            weakref.finalize(self, os.close, self.file)
            fcntl.flock(self.file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        found = os.fstat(self.file)
        self.inode = found.st_ino
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if write else 0)
        # The mapping shares the open file, and with it the lock.
        self._pages = mmap.mmap(self.file, mapped or found.st_size, mmap.MAP_SHARED, protection)
        self.words = memoryview(self._pages).cast("Q")
        self._own = sys.getrefcount(self._pages)
        self.look(path)

    def look(self, path: Path) -> None:
        """The file is there now: what it tells of itself."""
        self.path = path
        if self.words[0] != MAGIC:
            raise LogMissing("this is not a segment of a log of this version", file=str(path))
        self.base = self.words[BASE]
        self.capacity = self.words[2]

    def view(self, place: int, size: int) -> memoryview:
        """Each holds on to the mapping by itself."""
        return memoryview(self._pages)[place : place + size]

    @property
    def is_held(self) -> bool:
        """Whether anybody still has something that was given out of it."""
        return sys.getrefcount(self._pages) > self._own

    @property
    def length(self) -> int:
        return self.words[COMMIT] & LENGTH_MASK

    @property
    def next(self) -> int:
        return self.base + ((self.words[COMMIT] >> COUNT_SHIFT) & COUNT_MASK)

    @property
    def sealed(self) -> bool:
        return bool(self.words[COMMIT] & SEALED)

    @property
    def taken(self) -> int:
        """Of memory; what was written and never published is there too."""
        return max(os.fstat(self.file).st_blocks * BLOCK, pages(PAGE + self.length))


def path_of(folder: Path, base: int) -> Path:
    return folder / f"{base:020d}{SUFFIX}"


def shared(folder: Path, base: int, mapped: int | None = None) -> LogSegment:
    """A segment as readers have it, which nobody will write anew as long as they do; SegmentGone if there is none."""
    try:
        segment = LogSegment(path_of(folder, base), mapped, write=False)
    except (FileNotFoundError, BlockingIOError):
        raise SegmentGone from None
    if segment.base != base:
        raise SegmentGone
    return segment


def pages(size: int) -> int:
    """The memory that so many bytes of a file take."""
    return -(-size // PAGE) * PAGE
