"""An append-only log of numbered frames in files that processes share: one writer, any number of readers.

The folder is in shared memory if the machine has it. A log consists of segment files of fixed size; a larger frame gets a
larger segment. Each file is named by the number of its first frame:

    page 0   words: magic, base (first number), capacity; at word 8, alone in its cache line, the commit word
    rest     frames: 64 bytes of header (length, number), the payload, padding up to 64 bytes

The commit word is stored with one aligned 8-byte write. It contains the number of published frames and bytes of the segment,
and a flag that the log continues in another segment. Frames that are appended together are in one segment, so they become
visible together or not at all. Frames are written with `pwritev` and not through a mapping: if memory runs out, the writer then
gets an error it can handle instead of SIGBUS.

New segments reuse the files of forgotten segments, since allocating and clearing new pages takes the kernel longer than writing
them. A full log reuses its oldest segment. If readers release frames regularly, the log keeps spare files (files of
forgotten segments): as many as it filled between two of the last releases, and no spare file once everything is released.

A reader locks the file of each segment that it maps. The lock lives as long as the mapping or any view of it. A locked file is
not reused but deleted; readers that have mapped it keep its content.

Numbered properties:
1. A reader sees all frames 0 … n without gaps, each complete. A killed writer leaves exactly the frames it has published, and
   the next writer continues after them. Only `skip_to` leaves a gap.
2. A payload that a reader has received stays unchanged while the reader keeps it, even if the frame is forgotten.
3. Reading a forgotten frame raises an error and never returns another frame.
4. The segments and spare files together take at most `bytes_max`.
"""

from __future__ import annotations

import errno
import fcntl
import os
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any

from actors.log.segment import (
    BASE,
    COMMIT,
    COUNT_MASK,
    COUNT_SHIFT,
    LENGTH_MASK,
    MAGIC,
    PAGE,
    SEALED,
    SUFFIX,
    LogMissing,
    LogSegment,
    SegmentGone,
    pages,
    path_of,
    shared,
)
from actors.log.segment_cache import Kept
from configs.errors import WeirError

ALIGNED = 64
SEGMENT_BYTES = 32 << 20
LOG_BYTES = 1 << 30
# Minimum number of segments in a full log. Frames are deleted by whole segments, so a segment must be a small part of the log.
SEGMENTS_LEAST = 4
# Bytes reserved for the first pages of two more segments, which a full log may need before it deletes its oldest segment.
ROLLS = 2 * PAGE
# Number of recent releases of frames, from which the log derives how many spare files it keeps.
RELEASES = 4
PARTS_MAX = 1023  # Maximum number of parts in one call of pwritev, in addition to the frame's header
# Values of `keep_from`: a full log refuses a new frame (KEEP_ALL), or deletes old frames for it (KEEP_NONE).
KEEP_ALL = 0
KEEP_NONE = 2**63

# An object with the buffer protocol: bytes, a memoryview, a contiguous array, an Arrow buffer.
Part = Any
# Consecutive parts of a payload, and their total size in bytes.
Frame = tuple[Sequence[Part], int]

WORD = Struct("=Q")
HEADER = Struct("=QQ48x")
DRAFT = "draft"
SPARE = "spare"  # Prefix of the names of spare files: files of deleted segments, which the log will reuse
LOCK = "writer.lock"


class LogFull(WeirError):
    """Error for a frame for which there is no room; nothing was written."""


class LogTaken(WeirError):
    """Error for a log that another process is writing."""


@dataclass(eq=False)
class FrameForgotten(WeirError):
    """Error for a frame that was deleted from the log; `next` is the number of the first later frame that still exists."""

    next: int = 0


class SegmentWriter:
    """The only writer of a log. It holds a lock on the folder until it is closed or its process ends.

    When there is no room for a new frame, frames below `keep_from` may be forgotten, the oldest first. `forgetting` is called
    before frames are forgotten.
    """

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        bytes_max: int = LOG_BYTES,
        keep_from: int = KEEP_ALL,
    ) -> None:
        self.folder = folder
        self.bytes_max = bytes_max
        self.segment_bytes = even_part(bytes_max - ROLLS, segment_bytes)
        self.keep_from = keep_from
        self.forgetting: Callable[[], None] = lambda: None
        self._taken = 0  # Bytes of the current segment, including the room that `begin` has reserved
        self._spares: deque[tuple[Path, int]] = deque()  # Spare files, each with its size in bytes
        self._spare_bytes = 0
        self._released = 0  # Number of the first frame that readers have not released
        self._begun = 0  # Number of segments begun since the last release of frames
        # Numbers of segments that were begun between consecutive releases of frames, the oldest first.
        self._filled: deque[int] = deque(maxlen=RELEASES)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = locked(folder / LOCK)
        try:
            self._go_on()
        except BaseException:
            os.close(self._lock)
            raise

    def _go_on(self) -> None:
        """Continue after the existing frames, or create the log."""
        folder = self.folder
        for left_over in (folder / DRAFT, *folder.glob(f"{SPARE}*")):
            left_over.unlink(missing_ok=True)
        found = numbers(folder)
        # First frame number and occupied memory of each segment except the last.
        self._older = [(base, shared(folder, base, PAGE).taken) for base in found[:-1]]
        for base, _ in self._older:
            seal(path_of(folder, base))
        if not found:
            self._create(0, self.segment_bytes)
        self._open(found[-1] if found else 0)
        if self._words[COMMIT] & SEALED:
            # The last segment has the end mark SEALED only if the writer was killed while it replaced this empty segment.
            self._replace(self.segment_bytes)

    @property
    def first(self) -> int:
        return self._older[0][0] if self._older else self._base

    @property
    def next(self) -> int:
        """Number of the next frame."""
        return self._base + self._count

    @property
    def _second(self) -> int:
        """Number of the first frame after the oldest segment."""
        return self._older[1][0] if len(self._older) > 1 else self._base

    @property
    def bytes(self) -> int:
        """Memory that the segments and spare files take, in bytes."""
        return self._older_bytes + self._taken + self._spare_bytes

    def append(self, parts: Sequence[Part], size: int | None = None) -> int:
        """Append a frame with a payload of consecutive parts and return its number; `size` is their total size if known."""
        if size is None:
            size = sum(memoryview(part).nbytes for part in parts)
        return self.append_all([(parts, size)])

    def append_all(self, frames: Sequence[Frame]) -> int:
        """Append frames that become visible together, and return the number of the first frame."""
        number = self.begin(frames)
        self.write(frames)
        return self.publish(frames, number)

    # `append_all` calls `begin`, `write` and `publish` in this order.
    # Only `write` takes long; `forget` and readers may run at the same time.

    def begin(self, frames: Sequence[Frame]) -> int:
        """Make room for frames and return the number of the first frame. Only these frames may be written before `publish`."""
        room = sum(room_of(size) for _, size in frames)
        if pages(PAGE + room) + ROLLS > self.bytes_max:
            raise LogFull(
                f"frames of {room:,} bytes together are too large for this log",
                str(self.folder),
                self.bytes_max,
                "write smaller frames, or make the log larger",
            )
        has_place = self._length + room <= self._capacity and self._count + len(frames) <= COUNT_MASK
        if not (has_place and self._forget_for(max(0, pages(PAGE + self._length + room) - self._taken))):
            self._roll_for(room)
        self._taken = max(self._taken, pages(PAGE + self._length + room))
        return self.next

    def write(self, frames: Sequence[Frame]) -> None:
        offset = PAGE + self._length
        for number, (parts, size) in enumerate(frames, self.next):
            self._write(parts, size, number, offset)
            offset += room_of(size)

    def publish(self, frames: Sequence[Frame], number: int) -> int:
        self._length += sum(room_of(size) for _, size in frames)
        self._count += len(frames)
        self._words[COMMIT] = self._count << COUNT_SHIFT | self._length
        return number

    def forget(self, below: int) -> None:
        """Release all frames before frame `below`. Delete segments that have only released frames, except the current segment."""
        if self._older and self._second <= below:
            self.forgetting()
        if below > self._released:
            self._filled.append(self._begun)
            self._begun, self._released = 0, below
        most = max(self._filled, default=0) if below < self.next else 0
        while self._older and self._second <= below:
            if len(self._spares) < most:
                self._spare_oldest()
            else:
                self._drop_oldest()
        while len(self._spares) > most:
            self._next_spare().unlink()

    def skip_to(self, number: int) -> None:
        """Give the next frame this number. The skipped numbers count as numbers of deleted frames."""
        assert number >= self.next
        if number > self.next:
            self._find_spare(0)
            self._roll(number, 0)

    def close(self) -> None:
        os.close(self._file)
        os.close(self._lock)

    def _roll_for(self, room: int) -> None:
        """Continue in another segment that has room for the frames. Raise LogFull if too few old frames may be deleted."""
        # Room for a whole segment is required; otherwise later frames of the segment would force the log to delete a spare file.
        more = max(pages(PAGE + room), self.segment_bytes) - (0 if self._count else self._taken)
        has_room = self._find_spare(room) or self._forget_for(more)
        if not has_room:
            if self._older or not self._count or self.next > self.keep_from:
                raise LogFull(
                    f"the log has no room for {room:,} more bytes",
                    str(self.folder),
                    self.bytes,
                    f"the maximum size of the log is {self.bytes_max:,} bytes",
                )
            self.forgetting()
        self._roll(self.next, room)
        if not has_room:
            self._drop_oldest()

    def _forget_for(self, more: int) -> bool:
        """Delete spare files, then released segments, until `more` bytes fit. Return False if there is still no room."""
        while self._exceeds(more) and self._spares:
            self._next_spare().unlink()
        if self._exceeds(more) and self._older and self._second <= self.keep_from:
            self.forgetting()
        while self._exceeds(more) and self._older and self._second <= self.keep_from:
            self._drop_oldest()
        return not self._exceeds(more)

    def _exceeds(self, more: int) -> bool:
        return self.bytes + more + ROLLS > self.bytes_max

    def _find_spare(self, room: int) -> bool:
        """Return True if there is a spare file for the frames. If the log is full, turn its oldest released segment into a spare file."""
        if not self._count or PAGE + room > self.segment_bytes:
            return False
        need = pages(PAGE + room)
        while self._spares and self._exceeds(need - self._spares[0][1]):
            self._next_spare().unlink()
        if not self._spares and self._exceeds(self.segment_bytes) and self._older:
            oldest, taken = self._older[0]
            may_go = self._second <= self.keep_from and not self._exceeds(need - taken)
            if may_go and self._is_even(oldest):
                self.forgetting()
                self._spare_oldest()
        return bool(self._spares)

    def _is_even(self, base: int) -> bool:
        """Return True if a segment has the regular size."""
        return path_of(self.folder, base).stat().st_size == self.segment_bytes

    def _spare_oldest(self) -> None:
        base, taken = self._older[0]
        if not self._is_even(base):
            self._drop_oldest()
            return
        self._older.pop(0)
        self._older_bytes -= taken
        spare = self.folder / f"{SPARE}-{base:020d}"
        path_of(self.folder, base).rename(spare)
        self._spares.append((spare, taken))
        self._spare_bytes += taken

    def _next_spare(self) -> Path:
        """Remove the oldest spare file from the list and return its path."""
        spare, taken = self._spares.popleft()
        self._spare_bytes -= taken
        return spare

    def _write(self, parts: Sequence[Part], size: int, number: int, offset: int) -> None:
        header = HEADER.pack(size, number)
        try:
            if len(parts) <= PARTS_MAX:
                written = os.pwritev(self._file, [header, *parts], offset)
                if written == ALIGNED + size:
                    return
            data = memoryview(b"".join([header, *parts]))
            while data:
                written = os.pwrite(self._file, data, offset)
                data, offset = data[written:], offset + written
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM):
                raise
            raise no_memory("the log", self.folder, error) from error

    def _roll(self, base: int, room: int) -> None:
        """Continue in a new segment. The old segment gets its end mark (SEALED) only after the new segment exists."""
        size = max(self.segment_bytes, PAGE + room)
        if not self._count and base == self._base:
            self._replace(size)
            return
        self._create(base, size)
        self._begun += 1
        self._words[COMMIT] |= SEALED
        os.close(self._file)
        if self._count:
            self._older.append((self._base, self._taken))
        else:
            path_of(self.folder, self._base).unlink()
        self._open(base)

    def _replace(self, size: int) -> None:
        """Replace the empty current segment by one of another size. The old segment gets its end mark before its file is renamed."""
        self._words[COMMIT] |= SEALED
        self._create(self._base, size)
        os.close(self._file)
        self._open(self._base)

    def _create(self, base: int, size: int) -> None:
        """Create a segment, in a spare file if there is one. Delete spare files that readers have mapped.

        A reader that has just opened the spare file as the old segment notices the reuse by the lock or by the changed first number.
        The reader then searches for the old segment again.
        """
        while size == self.segment_bytes and self._spares:
            spare = self._next_spare()
            if emptied(spare, base):
                spare.rename(path_of(self.folder, base))
                return
            spare.unlink()
        draft = self.folder / DRAFT
        file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(file, size)
            os.pwrite(file, Struct("=QQQ").pack(MAGIC, base, size - PAGE), 0)
        except OSError as error:
            raise no_memory("the log", self.folder, error) from error
        finally:
            os.close(file)
        draft.rename(path_of(self.folder, base))

    def _open(self, base: int) -> None:
        segment = LogSegment(path_of(self.folder, base), PAGE, write=True)
        self._file, self._words, self._capacity = segment.file, segment.words, segment.capacity
        self._base, self._length, self._count = base, segment.length, segment.next - base
        self._taken = segment.taken
        self._older_bytes = sum(size for _, size in self._older)

    def _drop_oldest(self) -> None:
        base, size = self._older.pop(0)
        self._older_bytes -= size
        path_of(self.folder, base).unlink(missing_ok=True)


class Reader:
    """Reader of a log that another process may be writing, to be used by one thread.

    `keeps` is the maximum number of finished segments that stay mapped, because the writer may reuse their files.
    """

    def __init__(self, folder: Path, keeps: int = 0) -> None:
        self.folder = folder
        self._kept = Kept(keeps)
        self._tail: LogSegment | None = None  # Last segment of the log, as found when `next` was last read
        self._segment: LogSegment | None = None
        self._number = 0  # Number of the frame at `_offset` in the segment that is being read
        self._offset = 0
        self._bases()

    @property
    def first(self) -> int:
        """Number of the oldest frame in the log."""
        return self._bases()[0]

    @property
    def next(self) -> int:
        while self._tail is None or self._tail.sealed:
            # A segment may be deleted after the folder was listed; then the folder is listed again.
            with suppress(SegmentGone):
                self._tail = shared(self.folder, self._bases()[-1], PAGE)
        return self._tail.next

    def let_go(self) -> None:
        """Unmap all segments that the writer may delete, because a mapped segment occupies memory."""
        self._tail = None
        if self._segment is not None and self._segment.sealed:
            self._segment = None
        self._kept.clear()

    def frames(self, start: int) -> Iterator[tuple[int, memoryview]]:
        """Yield the frames from a number up to the last published frame, as views without copying."""
        while True:
            segment = self._at(start)
            if segment is None:
                return
            # The commit word (number and length of the written frames) is read first, because only counted frames are complete.
            commit = segment.words[COMMIT]
            length = commit & LENGTH_MASK
            while self._number == start and self._offset < length and segment is self._segment:
                place = PAGE + self._offset
                size = segment.words[place >> 3]
                self._offset += room_of(size)
                self._number = start = start + 1
                yield start - 1, segment.view(place + ALIGNED, size)
            if self._number == start and not commit & SEALED:
                self._kept.look_now_and_then()
                return

    def _at(self, number: int) -> LogSegment | None:
        """Move to a frame and return its segment; None if the frame has not been written yet."""
        segment = self._segment
        if segment is None or number < segment.base or (number >= segment.next and segment.sealed):
            segment = self._find(number)
            if segment is None:
                return None
            if self._segment is not None:
                self._kept.leave(self._segment)
            self._segment, self._number, self._offset = segment, segment.base, 0
        elif number < self._number:
            self._number, self._offset = segment.base, 0
        if number > segment.next:
            return None
        while self._number < number:
            size = segment.words[(PAGE + self._offset) >> 3]
            self._offset += room_of(size)
            self._number += 1
        return segment

    def _find(self, number: int) -> LogSegment | None:
        """Return the segment that has or will have the frame; None while an empty segment is being replaced."""
        while True:
            bases = self._bases()
            place = bisect_right(bases, number) - 1
            if place < 0:
                raise forgotten(self.folder, number, bases[0])
            try:
                segment = self._kept.take(self.folder, bases[place]) or shared(self.folder, bases[place])
            except SegmentGone:
                # The segment was deleted after the folder was listed, so the folder is listed again.
                continue
            if number < segment.next or not segment.sealed:
                return segment
            if place + 1 < len(bases):
                raise forgotten(self.folder, number, bases[place + 1])
            if segment.next == segment.base:
                return None
            # The segment got its end mark after the folder was listed, so the next segment exists now.

    def _bases(self) -> list[int]:
        bases = numbers(self.folder)
        if not bases:
            raise LogMissing("the folder contains no log", file=str(self.folder))
        return bases


def frames_left(reader: Reader, start: int) -> Iterator[tuple[int, memoryview]]:
    """Yield the frames from a number on, and skip deleted frames."""
    while True:
        try:
            yield from reader.frames(start)
            return
        except FrameForgotten as lost:
            start = lost.next


def forgotten(folder: Path, number: int, following: int) -> FrameForgotten:
    hint = f"continue at frame {following}"
    return FrameForgotten("the frame is no longer in the log", str(folder), number, hint, next=following)


def no_memory(what: str, folder: Path, error: OSError) -> LogFull:
    return LogFull(f"the machine has no memory left for {what}", str(folder), hint=str(error))


def numbers(folder: Path) -> list[int]:
    """Return the first frame number of each segment of a log, in order."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(int(name.removesuffix(SUFFIX)) for name in names if name.endswith(SUFFIX))


def emptied(path: Path, base: int) -> bool:
    """Turn a spare file into an empty segment that begins at frame `base`; return False if a reader has the file mapped."""
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The first frame number is written before the commit word: a killed writer must not leave an empty segment with the old number.
        os.pwrite(file, WORD.pack(base), WORD.size * BASE)
        os.pwrite(file, WORD.pack(0), WORD.size * COMMIT)
    except OSError:
        return False
    finally:
        # Closing the file is not enough to unlock it if a child process has inherited the open file.
        fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)
    return True


def seal(path: Path) -> None:
    """Set the end mark of a segment that another segment follows, in case a killed writer has not set it."""
    segment = LogSegment(path, PAGE, write=True)
    segment.words[COMMIT] |= SEALED
    os.close(segment.file)


def locked(path: Path) -> int:
    """Open and lock a log's lock file. Raise LogTaken if another process holds the lock. The lock ends with the process."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise LogTaken("another process writes this log", file=str(path.parent)) from None
    return file


def even_part(whole: int, most: int) -> int:
    """Return the size of segments, about `most` bytes or less, that fill a log of `whole` bytes nearly without remainder."""
    count = max(SEGMENTS_LEAST, -(-whole // most))
    return max(2 * PAGE, whole // count // PAGE * PAGE)


def room_of(size: int) -> int:
    """Return the bytes that a frame with a payload of `size` bytes takes in a segment."""
    return ALIGNED + -(-size // ALIGNED) * ALIGNED
