"""An append-only log of numbered frames in files that processes share: one writer, any number of readers.

The folder lies in shared memory where there is some. A log is a row of segment files of fixed size (a larger frame
gets one of its own), each named by the number of its first frame:

    page 0   words: magic, base (first number), capacity; at word 8, alone in its cache line, the commit word
    rest     frames: 64 bytes of header (length, number), the payload, padding up to 64 bytes

The commit word says in one aligned 8-byte store how many frames and bytes of the segment count, and whether the log
goes on in another segment. So frames that are appended together, which lie in one segment, are there together or not
at all. They are written with `pwritev`, not through a mapping: where memory runs out that is an error to handle, and
not a SIGBUS.

A log goes on in the pages of segments that are forgotten: those are there already, while the kernel would have to find
and clear new ones, which takes longer than to write them. A full log takes its oldest segment. One whose readers release
what they have read keeps spares: as many segments as it has filled from one of the last releases to the next, and none
where nothing is left to be released. A reader locks the file of each segment that it
maps; the lock lives as long as the mapping does, or anything that was given out of it. What is locked is not used again:
it is deleted, and is there for those who map it.

Numbered properties:
1. A reader sees the frames 0 … n without gap and each of them whole; a writer that is killed leaves exactly those that
   it has published, and the next writer goes on after them. The exception is a log that was told to `skip_to`.
2. What a reader has been given stays as it is for as long as it holds on to it, also when the frame is forgotten.
3. A forgotten frame is an error, never another frame.
4. The segments, with the spares, take no more than `bytes_max`.
"""

from __future__ import annotations

import errno
import fcntl
import os
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
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
# Of a segment's bytes against the log's: what a segment holds is forgotten together.
SEGMENTS_LEAST = 4
# The first pages of segments that `skip_to` may make, or that are there already when the one before is still to go.
ROLLS = 2 * PAGE
# The last ones that tell how many spares there should be.
RELEASES = 4
PARTS_MAX = 1023  # of one pwritev, beside the frame's header
# Whether a full log refuses a frame or forgets its oldest ones.
KEEP_ALL = 0
KEEP_NONE = 2**63

# Whatever shows its bytes: bytes, a memoryview, an array without gaps, an Arrow buffer.
Part = Any
# The parts of a payload in a row, and the bytes of all.
Frame = tuple[Sequence[Part], int]

WORD = Struct("=Q")
HEADER = Struct("=QQ48x")
DRAFT = "draft"
SPARE = "spare"  # begins the names of files that are forgotten, and are to be used again
LOCK = "writer.lock"


class LogFull(WeirError):
    """There is no room for the frame; nothing was written."""


class LogTaken(WeirError):
    """Another process writes this log."""


@dataclass(eq=False)
class FrameForgotten(WeirError):
    """The frame is no longer in the log; `next` is the first after it that is."""

    next: int = 0


class SegmentWriter:
    """The one process that appends; it holds a lock on the folder until it closes or dies.

    Frames below `keep_from` may be forgotten, the oldest first, when there is no room for a new one. Before any are,
    `forgetting` is called.
    """

    def __init__(
        self,
        folder: Path,
        *,
        first: int = 0,
        segment_bytes: int = SEGMENT_BYTES,
        bytes_max: int = LOG_BYTES,
        keep_from: int = KEEP_ALL,
    ) -> None:
        self.folder = folder
        self.bytes_max = bytes_max
        self.segment_bytes = even_part(bytes_max - ROLLS, segment_bytes)
        self.keep_from = keep_from
        self.forgetting: Callable[[], None] = lambda: None
        self._taken = 0  # by the segment that is written to, with what `begin` has made room for
        self._spares: deque[tuple[Path, int]] = deque()  # and the memory that each takes
        self._spare_bytes = 0
        self._released = 0  # below this
        self._begun = 0  # segments, since then
        self._filled: deque[int] = deque(maxlen=RELEASES)  # before that, from one release to the next
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = locked(folder / LOCK)
        try:
            self._go_on(first)
        except BaseException:
            os.close(self._lock)
            raise

    def _go_on(self, first: int) -> None:
        """After what there is, or with the first number."""
        folder = self.folder
        for left_over in (folder / DRAFT, *folder.glob(f"{SPARE}*")):
            left_over.unlink(missing_ok=True)
        found = numbers(folder)
        # Of each segment but the last: its first number and the memory that it takes.
        self._older = [(base, shared(folder, base, PAGE).taken) for base in found[:-1]]
        for base, _ in self._older:
            seal(path_of(folder, base))
        if not found:
            self._create(first, self.segment_bytes)
        self._open(found[-1] if found else first)
        if self._words[COMMIT] & SEALED:
            # Empty, and about to make way for a larger one when its writer was killed.
            self._replace(self.segment_bytes)

    @property
    def first(self) -> int:
        return self._older[0][0] if self._older else self._base

    @property
    def next(self) -> int:
        """The number that the next frame will get."""
        return self._base + self._count

    @property
    def _second(self) -> int:
        """The first number after the oldest segment."""
        return self._older[1][0] if len(self._older) > 1 else self._base

    @property
    def bytes(self) -> int:
        """What the segments and the spares take."""
        return self._older_bytes + self._taken + self._spare_bytes

    def append(self, parts: Sequence[Part], size: int | None = None) -> int:
        """The number of the new frame, whose payload is the parts in a row; `size` spares counting their bytes."""
        if size is None:
            size = sum(memoryview(part).nbytes for part in parts)
        return self.append_all([(parts, size)])

    def append_all(self, frames: Sequence[Frame]) -> int:
        """The number of the first of frames that all become visible at once."""
        number = self.begin(frames)
        self.write(frames)
        return self.publish(frames, number)

    # The three steps of it, of which only `write` takes long: it may run beside `forget` and what only reads.

    def begin(self, frames: Sequence[Frame]) -> int:
        """Make room; nothing else may be appended before `publish`, or until this is called again."""
        room = sum(room_of(size) for _, size in frames)
        if pages(PAGE + room) + ROLLS > self.bytes_max:
            raise LogFull(
                f"no log of this size takes {room:,} bytes at once", str(self.folder), self.bytes_max
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
        """The segments that hold frames below the number only; never the one that is written to."""
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
            self._drop_spare()

    def skip_to(self, number: int) -> None:
        """The next frame gets the number; those between are as if forgotten."""
        assert number >= self.next
        if number > self.next:
            self._find_spare(0)
            self._roll(number, 0)

    def close(self) -> None:
        os.close(self._file)
        os.close(self._lock)

    def _roll_for(self, room: int) -> None:
        """Go on in a segment that has room for the frames; LogFull if not enough may be forgotten for it."""
        # A segment that has room for its beginning alone would cost a spare later.
        more = max(pages(PAGE + room), self.segment_bytes) - (0 if self._count else self._taken)
        has_room = self._find_spare(room) or self._forget_for(more)
        if not has_room:
            if self._older or not self._count or self.next > self.keep_from:
                what = f"{room:,} bytes more do not fit"
                raise LogFull(
                    what, str(self.folder), self.bytes, f"a log has {self.bytes_max:,} bytes at most"
                )
            self.forgetting()
        self._roll(self.next, room)
        if not has_room:
            self._drop_oldest()

    def _forget_for(self, more: int) -> bool:
        """Whether there is room for so much more, now or without spares and those of the oldest segments that may go."""
        while self._exceeds(more) and self._spares:
            self._drop_spare()
        if self._exceeds(more) and self._older and self._second <= self.keep_from:
            self.forgetting()
        while self._exceeds(more) and self._older and self._second <= self.keep_from:
            self._drop_oldest()
        return not self._exceeds(more)

    def _exceeds(self, more: int) -> bool:
        return self.bytes + more + ROLLS > self.bytes_max

    def _find_spare(self, room: int) -> bool:
        """Whether there is a spare for the frames; a full log makes one of its oldest segment, if that may go."""
        if not self._count or PAGE + room > self.segment_bytes:
            return False
        need = pages(PAGE + room)
        while self._spares and self._exceeds(need - self._spares[0][1]):
            self._drop_spare()
        if not self._spares and self._exceeds(self.segment_bytes) and self._older:
            oldest, taken = self._older[0]
            may_go = self._second <= self.keep_from and not self._exceeds(need - taken)
            if may_go and self._is_even(oldest):
                self.forgetting()
                self._spare_oldest()
        return bool(self._spares)

    def _is_even(self, base: int) -> bool:
        """Whether the segment is of the size that most have."""
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

    def _drop_spare(self) -> None:
        self._next_spare().unlink()

    def _next_spare(self) -> Path:
        """It is a spare no more."""
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
            write_all(self._file, b"".join([header, *parts]), offset)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM):
                raise
            raise LogFull("memory for the log has run out", str(self.folder), hint=str(error)) from error

    def _roll(self, base: int, room: int) -> None:
        """Go on in a new segment; the old one is sealed once there is something to go on to."""
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
        """An empty segment by one of another size; sealed first, as nobody could do so afterwards."""
        self._words[COMMIT] |= SEALED
        self._create(self._base, size)
        os.close(self._file)
        self._open(self._base)

    def _create(self, base: int, size: int) -> None:
        """In the pages of a spare, unless somebody has it mapped, and it is gone.

        A reader that has opened it, and has yet to lock it, finds it locked, or of another base than it looked for.
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
            raise LogFull("memory for the log has run out", str(self.folder), hint=str(error)) from error
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
    """Reads a log that another process may be writing; for one thread.

    It keeps so many segments mapped that it has left, and that may be written to again.
    """

    def __init__(self, folder: Path, keeps: int = 0) -> None:
        self.folder = folder
        self._kept = Kept(keeps)
        self._tail: LogSegment | None = None  # the last one there is, as far as that was asked for
        self._segment: LogSegment | None = None
        self._number = 0  # the frame at the offset in the segment
        self._offset = 0
        self._bases()

    @property
    def first(self) -> int:
        """The oldest number that is still there."""
        return self._bases()[0]

    @property
    def next(self) -> int:
        return self._go_on().next

    def let_go(self) -> None:
        """Of what may be forgotten: as long as somebody maps it, it takes memory."""
        self._tail = None
        if self._segment is not None and self._segment.sealed:
            self._segment = None
        self._kept.clear()

    def frames(self, start: int) -> Iterator[tuple[int, memoryview]]:
        """The frames from this number up to the last one published, without copying them."""
        while True:
            segment = self._at(start)
            if segment is None:
                return
            # The word is read before the frames, so that what it covers is there.
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
        """The segment with the frame, the place set to it; None if it is yet to be written."""
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
        """The segment where the frame is or will be; None while an empty one is being replaced."""
        while True:
            bases = self._bases()
            place = bisect_right(bases, number) - 1
            if place < 0:
                raise forgotten(self.folder, number, bases[0])
            try:
                segment = self._kept.take(self.folder, bases[place]) or shared(self.folder, bases[place])
            except SegmentGone:
                continue  # forgotten since; look again
            if number < segment.next or not segment.sealed:
                return segment
            if place + 1 < len(bases):
                raise forgotten(self.folder, number, bases[place + 1])
            if segment.next == segment.base:
                return None
            # Sealed since the folder was listed: the next segment is there now.

    def _go_on(self) -> LogSegment:
        while self._tail is None or self._tail.sealed:
            self._tail = self._last()
        return self._tail

    def _last(self) -> LogSegment:
        while True:
            try:
                return shared(self.folder, self._bases()[-1], PAGE)
            except SegmentGone:
                continue  # forgotten since; look again

    def _bases(self) -> list[int]:
        bases = numbers(self.folder)
        if not bases:
            raise LogMissing("there is no log here", file=str(self.folder))
        return bases


def frames_left(reader: Reader, start: int) -> Iterator[tuple[int, memoryview]]:
    """The frames from this number on, without those that are forgotten."""
    while True:
        try:
            yield from reader.frames(start)
            return
        except FrameForgotten as lost:
            start = lost.next


def forgotten(folder: Path, number: int, following: int) -> FrameForgotten:
    hint = f"the next one is {following}"
    return FrameForgotten("the frame is no longer in the log", str(folder), number, hint, next=following)


def numbers(folder: Path) -> list[int]:
    """The first numbers of a log's segments, in order."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(int(name.removesuffix(SUFFIX)) for name in names if name.endswith(SUFFIX))


def emptied(path: Path, base: int) -> bool:
    """Make a segment one without frames and of another base, unless somebody has it mapped."""
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The base first: if this process is killed in between, nobody may take it for the old one, without its frames.
        os.pwrite(file, WORD.pack(base), WORD.size * BASE)
        os.pwrite(file, WORD.pack(0), WORD.size * COMMIT)
    except OSError:
        return False
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)  # also for who may have inherited the open file
        os.close(file)
    return True


def seal(path: Path) -> None:
    """A writer may have been killed between making the next segment and saying so."""
    segment = LogSegment(path, PAGE, write=True)
    segment.words[COMMIT] |= SEALED
    os.close(segment.file)


def locked(path: Path) -> int:
    """An open file with the lock on it; the lock goes when the process does."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise LogTaken("another process writes this log", file=str(path.parent)) from None
    return file


def even_part(whole: int, most: int) -> int:
    """What a log of so many bytes is divided into without rest, or nearly so."""
    count = max(SEGMENTS_LEAST, -(-whole // most))
    return max(2 * PAGE, whole // count // PAGE * PAGE)


def room_of(size: int) -> int:
    """What a frame with so large a payload takes."""
    return ALIGNED + -(-size // ALIGNED) * ALIGNED


def write_all(file: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written
