"""A log against a dictionary of what should be in it, through everything that can be done to it.

Properties 1, 3 and 4 of `actors.segments`; also that a reader which was there before sees what a new one sees.
"""

import shutil
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from actors.segments import FrameForgotten, LogFull, Reader, Writer

BYTES_MAX = 128 << 10
SEGMENT_BYTES = 16 << 10


class LogMachine(RuleBasedStateMachine):
    """What `append` has numbered, and from where on nothing may be missing."""

    readers = Bundle("readers")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp())
        self.keep_from = 0
        self.appended: dict[int, bytes] = {}
        self.next = 0
        self.kept = 0  # everything from here on that was appended is there
        self.log = self.opened()

    def opened(self) -> Writer:
        return Writer(self.folder, segment_bytes=SEGMENT_BYTES, bytes_max=BYTES_MAX, keep_from=self.keep_from)

    @rule(
        size=st.one_of(st.integers(0, 300), st.integers(0, 40_000)),
        parts=st.integers(1, 5),
        times=st.integers(1, 20),
    )
    def append(self, size: int, parts: int, times: int) -> None:
        for _ in range(times):
            piece = bytes([self.next % 251]) * (size // parts)
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
        payloads = [bytes([(self.next + place) % 251]) * size for place, size in enumerate(sizes)]
        try:
            assert self.log.append_all([([one], len(one)) for one in payloads]) == self.next
            self.appended |= dict(enumerate(payloads, self.next))
            self.next += len(payloads)
        except LogFull:
            pass
        self.may_lose(self.keep_from)

    @rule(back=st.integers(0, 30))
    def forget(self, back: int) -> None:
        below = max(0, self.next - back)
        self.log.forget(below)
        self.may_lose(below)

    def may_lose(self, below: int) -> None:
        """Nothing has gone but what may go."""
        lost = [number for number in self.appended if self.kept <= number < self.log.first]
        assert all(number < below for number in lost)
        self.kept = max(self.kept, self.log.first)

    @rule(ahead=st.integers(0, 5))
    def skip(self, ahead: int) -> None:
        self.next += ahead
        self.log.skip_to(self.next)

    @rule(back=st.integers(0, 40))
    def keep(self, back: int) -> None:
        self.keep_from = self.log.keep_from = max(0, self.next - back)

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = self.opened()

    @rule(target=readers)
    def reader(self) -> Reader:
        return Reader(self.folder)

    @rule(reader=readers, back=st.integers(0, 60))
    def read(self, reader: Reader, back: int) -> None:
        start = max(0, self.next - back)
        found: dict[int, bytes] = {}
        following = start
        while True:
            try:
                for number, payload in reader.frames(following):
                    found[number] = bytes(payload)
                    following = number + 1
                break
            except FrameForgotten:
                # A gap, or the beginning: what is not there was never appended, or may be forgotten.
                following += 1
        expected = {number: payload for number, payload in self.appended.items() if number >= start}
        assert found.items() <= expected.items()
        assert {number for number in expected if number >= self.kept} <= found.keys()
        assert reader.next == self.next

    @precondition(lambda self: self.log.first > 0 and 0 in self.appended)
    @rule()
    def what_is_forgotten_is_an_error_for_a_new_reader(self) -> None:
        with pytest.raises(FrameForgotten):
            next(Reader(self.folder).frames(self.log.first - 1))

    @invariant()
    def the_log_knows_its_bounds(self) -> None:
        assert self.log.next == self.next
        assert self.log.bytes <= BYTES_MAX

    def teardown(self) -> None:
        self.log.close()
        shutil.rmtree(self.folder)


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
