"""A log compared with a dictionary of what should be in it, through every operation on it.

Tests properties 1 to 4 of `actors.log.segment_log`, and that an existing reader sees what a new reader sees.
Readers and the writer interrupt each other between any two lines, and writers are killed between any two
lines.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from types import FrameType
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from actors.log import segment, segment_cache, segment_log
from actors.log.segment_log import KEEP_NONE, FrameForgotten, LogFull, Reader, SegmentWriter
from actors.runtime.run_dirs import shared_memory

pytestmark = pytest.mark.slow

BYTES_MAX = 128 << 10
SEGMENT_BYTES = 16 << 10
# Greatest number of lines of code that may be executed by a read, or by an append that begins a new segment.
LINES_MAX = 90
MANY = 1_000_000
# Bytes of a frame. Each segment has room for two frames of this size.
FRAME = 4_000
LOG_CODE = {one.__file__ for one in (segment_cache, segment, segment_log)}

lines = st.integers(0, LINES_MAX)
sizes = st.one_of(st.integers(0, 9_000), st.integers(0, 14_000))


@contextmanager
def at_line(line: int, do: Callable[[], object], function: str | None = None) -> Iterator[list[int]]:
    """Call `do` within the `with` block, after the log's code (or only its function `function`) has executed `line` lines.

    Yield a list with a single item, the number of lines that are still to execute before the call.
    """
    left = [line]

    def traced(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in LOG_CODE:
            return None
        if event == "line" and function in (None, frame.f_code.co_name):
            left[0] -= 1
            if left[0] == -1:
                do()
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        yield left
    finally:
        sys.settrace(before)


def in_another_thread(do: Callable[[], object]) -> None:
    """Run `do` in another thread, which counts its executed lines separately."""
    with ThreadPoolExecutor(1) as another:
        another.submit(do).result()


def in_another_process(do: Callable[[], object]) -> None:
    """Run `do` in a child process, which may end itself, or run until the log is full."""
    child = os.fork()
    if not child:
        code = 1
        try:
            do()
            code = 0
        except LogFull:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def die() -> None:
    os._exit(0)


def memory_of(folder: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in folder.iterdir())


def payload_of(number: int, size: int) -> bytes:
    return (b"%d " % number * (size // 2 + 1))[:size]


class LogMachine(RuleBasedStateMachine):
    """Log with its readers, the frames that were appended, and the number of the first frame that must still be in the log."""

    readers = Bundle("readers")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(dir=shared_memory()))
        self.keep_from = KEEP_NONE
        self.appended: dict[int, bytes] = {}
        self.next = 0
        self.kept = 0  # Number of the first frame that must still be in the log
        self.held: list[tuple[memoryview, bytes]] = []
        self.reading: Iterator[tuple[int, memoryview]] = iter(())
        self.log = self.opened()

    def opened(self) -> SegmentWriter:
        return SegmentWriter(
            self.folder, segment_bytes=SEGMENT_BYTES, bytes_max=BYTES_MAX, keep_from=self.keep_from
        )

    # -- actions of the writer

    @rule(
        size=st.one_of(st.integers(0, 300), st.integers(0, 40_000)),
        parts=st.integers(1, 5),
        times=st.integers(1, 20),
    )
    def append(self, size: int, parts: int, times: int) -> None:
        for _ in range(times):
            piece = payload_of(self.next, size // parts)
            try:
                number = self.log.append([piece] * parts)
                assert number == self.next
                self.appended[number] = piece * parts
                self.next += 1
            except LogFull:
                pass
            self.may_lose(self.keep_from)

    @rule(sizes=st.lists(st.one_of(st.integers(0, 300), st.integers(0, 20_000)), max_size=8))
    def append_together(self, sizes: list[int]) -> None:
        payloads = [payload_of(self.next + place, size) for place, size in enumerate(sizes)]
        try:
            assert self.log.append_all([([one], len(one)) for one in payloads]) == self.next
            self.appended |= dict(enumerate(payloads, self.next))
            self.next += len(payloads)
        except LogFull:
            pass
        self.may_lose(self.keep_from)

    @rule(size=st.integers(3_000, 9_000))
    def fill_the_log_twice(self, size: int) -> None:
        self.append(size, 1, 2 * BYTES_MAX // size)

    @rule(back=st.integers(0, 30))
    def forget(self, back: int) -> None:
        below = max(0, self.next - back)
        self.log.forget(below)
        self.may_lose(below)

    @rule(reader=readers, size=st.integers(2_000, 9_000), behind=st.integers(1, 6), most=st.integers(0, 8))
    def append_while_a_reader_releases(self, reader: Reader, size: int, behind: int, most: int) -> None:
        """Append and read in turn, while the reader holds some of the payloads that it has read."""
        for _ in range(24):
            self.append(size, 1, 2)
            self.read(reader, behind)
            self.hold(reader, behind, 2)
            del self.held[: max(0, len(self.held) - most)]
            self.forget(behind)

    def may_lose(self, below: int) -> None:
        """Check that the log has dropped only frames with numbers less than `below`."""
        lost = [number for number in self.appended if self.kept <= number < self.log.first]
        assert all(number < below for number in lost)
        self.kept = max(self.kept, self.log.first)

    @rule(ahead=st.integers(0, 5))
    def skip(self, ahead: int) -> None:
        self.next += ahead
        self.log.skip_to(self.next)
        self.may_lose(self.keep_from)

    @rule(back=st.one_of(st.none(), st.integers(0, 40)))
    def keep(self, back: int | None) -> None:
        self.keep_from = self.log.keep_from = KEEP_NONE if back is None else max(0, self.next - back)

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = self.opened()

    @rule(line=lines, size=sizes, times=st.integers(0, 8))
    def be_killed_while_appending(self, line: int, size: int, times: int) -> None:
        """Kill a writer before line `line` of an append, after it appended `times` whole frames."""

        def append_and_die() -> None:
            log = self.opened()
            for _ in range(times):
                log.append([payload_of(log.next, size)])
            with at_line(line, die):
                log.append([payload_of(log.next, size)])

        self.log.close()
        in_another_process(append_and_die)
        assert memory_of(self.folder) <= BYTES_MAX
        self.log = self.opened()
        following = self.log.next
        assert self.next <= following <= self.next + times + 1
        assert following >= self.next + times or self.keep_from < self.next + times
        self.appended |= {number: payload_of(number, size) for number in range(self.next, following)}
        self.next = following
        self.may_lose(self.keep_from)

    # -- actions of the readers

    @rule(target=readers, keeps=st.sampled_from((0, 2, 20)))
    def reader(self, keeps: int) -> Reader:
        return Reader(self.folder, keeps)

    @rule(reader=readers, back=st.integers(0, 60))
    def read(self, reader: Reader, back: int) -> None:
        start = max(0, self.next - back)
        found = dict(self.frames_left(reader, start))
        expected = {number: payload for number, payload in self.appended.items() if number >= start}
        assert found.items() <= expected.items()
        assert {number for number in expected if number >= self.kept} <= found.keys()
        assert reader.next == self.next

    def frames_left(self, reader: Reader, start: int) -> Iterator[tuple[int, bytes]]:
        while True:
            try:
                for number, payload in reader.frames(start):
                    yield number, bytes(payload)
                    start = number + 1
                return
            except FrameForgotten:
                # The frame was never appended, or it is older than the first stored frame.
                start += 1

    @rule(reader=readers, back=st.integers(0, 60), skipped=st.integers(0, 3))
    def hold(self, reader: Reader, back: int, skipped: int) -> None:
        """Read frames and keep some of their payloads in memory."""
        try:
            for place, (number, payload) in enumerate(reader.frames(max(0, self.next - back))):
                if place % (1 + skipped) == 0:
                    self.held.append((payload, self.appended[number]))
        except FrameForgotten:
            pass

    @rule(reader=readers, back=st.integers(0, 60))
    def begin_reading(self, reader: Reader, back: int) -> None:
        self.reading = reader.frames(max(0, self.next - back))

    @rule(times=st.integers(1, 5))
    def continue_reading(self, times: int) -> None:
        try:
            for _, (number, payload) in zip(range(times), self.reading, strict=False):
                self.held.append((payload, self.appended[number]))
        except FrameForgotten:
            pass

    @rule(most=st.integers(0, 10))
    def let_go(self, most: int) -> None:
        self.reading = iter(())
        del self.held[most:]

    @rule(reader=readers)
    def let_reader_go(self, reader: Reader) -> None:
        reader.let_go()

    # -- a writer and a reader that interrupt each other

    @rule(reader=readers, line=lines, size=sizes, back=st.integers(0, 60))
    def append_while_a_reader_comes(self, reader: Reader, line: int, size: int, back: int) -> None:
        """Let a reader read before line `line` of an append, check that each frame is whole, and keep the payloads."""
        found: list[tuple[int, memoryview, bytes]] = []

        def come() -> None:
            assert memory_of(self.folder) <= BYTES_MAX
            try:
                for one in (reader, Reader(self.folder)):
                    for number, payload in one.frames(max(0, self.next - back)):
                        found.append((number, payload, bytes(payload)))
            except FrameForgotten:
                pass

        with at_line(line, come):
            self.append(size, 1, 1)
        for number, payload, seen in found:
            assert seen == self.appended[number]
            self.held.append((payload, seen))

    @rule(reader=readers | st.none(), line=lines, size=sizes, times=st.integers(1, 20))
    def read_while_the_writer_appends(self, reader: Reader | None, line: int, size: int, times: int) -> None:
        self.read_while(reader, line, lambda: self.append(size, 1, times))

    @rule(reader=readers | st.none(), line=lines, killed=lines, size=sizes, times=st.integers(0, 8))
    def read_while_the_writer_is_killed(
        self, reader: Reader | None, line: int, killed: int, size: int, times: int
    ) -> None:
        self.read_while(reader, line, lambda: self.be_killed_while_appending(killed, size, times))

    def read_while(self, reader: Reader | None, line: int, do: Callable[[], object]) -> None:
        """Read from the first stored frame, and run `do` before line `line` of the read. Without `reader`, use a new reader."""
        start = self.kept
        before = {number: payload for number, payload in self.appended.items() if number >= start}
        with at_line(line, lambda: in_another_thread(do)):
            found = dict(self.frames_left(reader or Reader(self.folder), start))
        assert found.items() <= self.appended.items()
        assert {number for number in before if number >= self.kept} <= found.keys()

    @precondition(lambda self: self.log.first > 0 and 0 in self.appended)
    @rule()
    def a_new_reader_cannot_read_forgotten_frames(self) -> None:
        with pytest.raises(FrameForgotten):
            next(Reader(self.folder).frames(self.log.first - 1))

    @invariant()
    def the_log_knows_its_bounds(self) -> None:
        assert self.log.next == self.next
        assert memory_of(self.folder) <= self.log.bytes <= BYTES_MAX

    @invariant()
    def held_payloads_stay_unchanged(self) -> None:
        for payload, expected in self.held:
            assert payload == expected

    def teardown(self) -> None:
        self.log.close()
        shutil.rmtree(self.folder)


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=9, stateful_step_count=40, deadline=None)


KILLS_APART = 6


@contextmanager
def full_log() -> Iterator[Path]:
    """Yield the folder of a full log, in which the next frame begins another segment."""
    with TemporaryDirectory(dir=shared_memory()) as name:
        fill(Path(name), BYTES_MAX // FRAME)
        yield Path(name)


def fill(folder: Path, frames: int, killed_at: int = MANY) -> int:
    """Append frames, and return how many lines of code the log has executed to empty a segment.

    The writer is killed after `killed_at` of these lines, unless the log executes fewer.
    """
    log = SegmentWriter(folder, segment_bytes=SEGMENT_BYTES, bytes_max=BYTES_MAX, keep_from=KEEP_NONE)
    with at_line(killed_at, die, "emptied") as left:
        for _ in range(frames):
            log.append([payload_of(log.next, FRAME)])
    log.close()
    return killed_at - left[0]


def read_some(reader: Reader, start: int) -> None:
    """Read three frames, unless the log has forgotten them, and check that each frame has the payload that was appended."""
    try:
        found = list(islice(reader.frames(start), 3))
    except FrameForgotten:
        return
    assert len(found) == 3
    assert [bytes(payload) for _, payload in found] == [payload_of(number, FRAME) for number, _ in found]


def test_a_reader_reads_correctly_although_the_log_wraps_around_at_any_moment() -> None:
    for line in count():
        with full_log() as folder, at_line(line, partial(fill, folder, 3)) as left:
            reader = Reader(folder)
            read_some(reader, reader.first)
        if left[0] >= 0:
            break
    assert line > 60


def test_a_reader_can_open_a_segment_whose_writer_was_killed_while_emptying_it() -> None:
    with full_log() as folder:
        emptying = fill(folder, 1)
    for line, killed_at in ((at, one) for at in count() for one in places(at, emptying)):
        with full_log() as folder:
            reader, start = Reader(folder), Reader(folder).first
            with at_line(line, killed(folder, 1, killed_at), "__init__") as left:
                read_some(reader, start)
            read_some(reader, start)
        if left[0] >= 0:
            break
    assert (emptying > 5, line > 10) == (True, True)


def test_a_new_reader_finds_the_end_of_a_log_whose_writer_was_killed_while_emptying_a_segment() -> None:
    with full_log() as folder:
        emptying, segments = fill(folder, 1), len(list(folder.glob("*.segment")))
    for line, killed_at in ((at, one) for at in count() for one in places(at, emptying)):
        with full_log() as folder:
            going_round = killed(folder, 2 * segments, (segments - 1) * emptying + killed_at)
            with at_line(line, going_round, "__init__") as left:
                reader = Reader(folder)
                assert reader.next > 0
            fill(folder, 1)
            assert reader.next == Reader(folder).next
        if left[0] >= 0:
            break
    assert line > 10


def places(line: int, emptying: int) -> range:
    """Return the lines at which the writer is killed: every sixth line, because all lines would take too long.

    The first of these lines depends on the reader's line, so that all lines are tested in some combination.
    """
    return range(line % KILLS_APART, emptying, KILLS_APART)


def killed(folder: Path, frames: int, killed_at: int) -> Callable[[], None]:
    return partial(in_another_thread, partial(in_another_process, partial(fill, folder, frames, killed_at)))
