"""An open and mapped segment file of a log. The format is described in `actors.log.segment_log`."""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
import weakref
from pathlib import Path

from configs.errors import WeirError

PAGE = 4096
BLOCK = 512  # Size in bytes of the blocks in which `stat` counts the memory of a file

MAGIC = int.from_bytes(b"WEIRLOG1", "little")
# Indices of two words in a segment's first page: the first frame number, and the number and bytes of published frames.
BASE, COMMIT = 1, 8
SEALED = 1 << 63
COUNT_SHIFT = 40
COUNT_MASK = (1 << 23) - 1
LENGTH_MASK = (1 << COUNT_SHIFT) - 1

SUFFIX = ".segment"


class LogMissing(WeirError):
    """Error for a folder that has no log, or a log of another version."""


class SegmentGone(Exception):
    """Error for a segment file that was deleted or reused after the folder was listed."""


class LogSegment:
    """One segment file of a log, with its first `mapped` bytes mapped into memory.

    A reader holds a shared lock on the file while the mapping, or any view of it, exists. The writer closes `file` itself; for a
    reader, `file` is closed together with the segment.
    """

    def __init__(self, path: Path, mapped: int | None, write: bool) -> None:
        self.file = os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC)
        if not write:
            weakref.finalize(self, os.close, self.file)
            fcntl.flock(self.file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        found = os.fstat(self.file)
        self.inode = found.st_ino
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if write else 0)
        # The mapping keeps the file open, so the lock on the file lasts as long as the mapping.
        self._pages = mmap.mmap(self.file, mapped or found.st_size, mmap.MAP_SHARED, protection)
        self.words = memoryview(self._pages).cast("Q")
        self._own = sys.getrefcount(self._pages)
        self.look(path)

    def look(self, path: Path) -> None:
        """Store the present path of the segment's file, and read the header of the segment."""
        self.path = path
        if self.words[0] != MAGIC:
            raise LogMissing("the file is not a log segment of this version", file=str(path))
        self.base = self.words[BASE]
        self.capacity = self.words[2]

    def view(self, place: int, size: int) -> memoryview:
        """Return bytes of the segment without copying. Each view keeps the mapping alive."""
        return memoryview(self._pages)[place : place + size]

    @property
    def is_held(self) -> bool:
        """Return True while any view of the segment exists."""
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
        """Return the bytes of memory that the file takes, including frames that were written but not published."""
        return max(os.fstat(self.file).st_blocks * BLOCK, pages(PAGE + self.length))


def path_of(folder: Path, base: int) -> Path:
    return folder / f"{base:020d}{SUFFIX}"


def shared(folder: Path, base: int, mapped: int | None = None) -> LogSegment:
    """Open a segment with a shared lock, so that the writer does not reuse its file. Raise SegmentGone if the file is gone."""
    try:
        segment = LogSegment(path_of(folder, base), mapped, write=False)
    except (FileNotFoundError, BlockingIOError):
        raise SegmentGone from None
    if segment.base != base:
        raise SegmentGone
    return segment


def pages(size: int) -> int:
    """Return `size` rounded up to whole pages."""
    return -(-size // PAGE) * PAGE
