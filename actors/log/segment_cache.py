"""Cache of mapped log segments that a reader has finished: segments in reused files then need no new mapping.

Mapping and unmapping the pages of a file takes longer than reading them. The writer reuses the files of forgotten segments,
so a reader keeps the files of segments it has finished mapped. It does not lock them, so that the writer can reuse them.

1. Only two kinds of segments are locked: the segment being read, and segments of which views still exist.
2. A deleted file is unmapped at the next check.
3. At most `most` segments are kept.
"""

from __future__ import annotations

import fcntl
import os
from collections import deque
from pathlib import Path

from actors.log.segment import LogSegment, SegmentGone, path_of

# Number of polls between two checks of all cached segments. Checks are rare because one takes some ten system calls.
LOOK_TIMES = 32


class Kept:
    """Cache of the segments that one reader has finished."""

    def __init__(self, most: int) -> None:
        self.most = most
        # Finished segments that are still locked, because views of the segments exist.
        self._held: deque[LogSegment] = deque()
        self._free: dict[int, LogSegment] = {}  # Finished segments that are not locked, by inode
        self._times = 0

    def __bool__(self) -> bool:
        return bool(self._held or self._free)

    def leave(self, segment: LogSegment) -> None:
        """Put a segment that has been read into the cache."""
        if self.most:
            self._held.append(segment)

    def take(self, folder: Path, base: int) -> LogSegment | None:
        """Lock and return the segment that begins at frame `base`; None if it is not cached. Raise SegmentGone if it is deleted."""
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
        """Call `look` at every LOOK_TIMES-th call of this method, so that cached segments are unlocked even if the log rarely needs a new one."""
        self._times += 1
        if self and not self._times % LOOK_TIMES:
            self.look()

    def look(self) -> None:
        """Unlock segments of which no view exists any more, and unmap deleted files.

        A view keeps the lock of its segment even after the segment has been removed from this cache.
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
