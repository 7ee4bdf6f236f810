"""Segments that a reader of a log has left, mapped for when their files are segments again (`actors.log.segment_log`).

To map a file's pages and to let go of them again takes longer than to read them, so who reads a log that goes on in its own
pages keeps them mapped. A file that is kept is not locked: its writer may do with it what it likes.

1. What is locked is the segment that is read, and whatever somebody still holds something of.
2. A file that is deleted is let go of, at the next look at it.
3. No more than `most` segments are kept.
"""

from __future__ import annotations

import fcntl
import os
from collections import deque
from pathlib import Path

from actors.log.segment import LogSegment, SegmentGone, path_of

# To look at all of them takes some ten calls of the system.
LOOK_TIMES = 32


class Kept:
    """Of one reader."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._held: deque[LogSegment] = deque()  # left, and still locked for who holds something of them
        self._free: dict[int, LogSegment] = {}  # by inode
        self._times = 0

    def __bool__(self) -> bool:
        return bool(self._held or self._free)

    def leave(self, segment: LogSegment) -> None:
        """Nothing more will be read of it, until it is taken again."""
        if self.most:
            self._held.append(segment)

    def take(self, folder: Path, base: int) -> LogSegment | None:
        """The segment of that number, locked, if its file is among those kept; SegmentGone if there is none any more."""
        if not self:
            return None
        self.look()
        path = path_of(folder, base)
        try:
            segment = self._free.pop(os.stat(path).st_ino, None)
        except FileNotFoundError:
            raise SegmentGone from None
        if segment is None:
            return None
        try:
            fcntl.flock(segment.file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SegmentGone from None
        segment.look(path)
        if segment.base != base:
            raise SegmentGone
        return segment

    def look_now_and_then(self) -> None:
        """Where little comes, the next segment is far away."""
        self._times += 1
        if self and not self._times % LOOK_TIMES:
            self.look()

    def look(self) -> None:
        """Unlock what nobody holds anything of any more, and let go of files that are deleted.

        Whoever holds something of a segment holds its lock as well, also when it is forgotten here.
        """
        for _ in range(len(self._held)):
            segment = self._held.popleft()
            if segment.is_held:
                self._held.append(segment)
            else:
                fcntl.flock(segment.file, fcntl.LOCK_UN)
                self._free[segment.inode] = segment
        for inode, segment in list(self._free.items()):
            if not os.fstat(segment.file).st_nlink:
                del self._free[inode]
        while len(self._free) > self.most:
            del self._free[next(iter(self._free))]
        while len(self._held) > self.most:
            self._held.popleft()

    def clear(self) -> None:
        self._held.clear()
        self._free.clear()
