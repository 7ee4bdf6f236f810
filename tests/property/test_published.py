"""Published batches with an id, compared with a list of what should have been published, through repeats,
full logs and kills.

Tests property 5 of `actors.gateway.streams`, and property 2 for batches of several frames.
"""

import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors.gateway.producer_dedup import LastBatches
from actors.gateway.streams import Streams
from actors.log.segment_log import Reader
from actors.log.train_format import BatchId, batch_id, batch_of, mark_of
from actors.messages.gateway_messages import Accepted, RefusedBatch
from actors.runtime.run_dirs import RunDirs

SQL = "CREATE STREAM s (v int64)"
BYTES_MAX = 64 << 10
SEGMENT_BYTES = 8 << 10
MOST_ROWS = 1_500


class PublishMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.base = Path(mkdtemp())
        self.dirs = RunDirs(self.base, "s", "n")
        self.held = self.dirs.hold()
        # Batch id and row value of each frame, by the number of the frame. Each frame has a single row.
        self.published: dict[int, tuple[BatchId | None, int]] = {}
        self.last: dict[str, int] = {}
        self.rows = self.value = 0
        self.streams = self.opened()
        self.streams.declare(SQL)

    def opened(self) -> Streams:
        return Streams(self.dirs, lambda: 1.0, bytes_max=BYTES_MAX, segment_bytes=SEGMENT_BYTES)

    @rule(
        producer=st.sampled_from(["a", "b", None]),
        ahead=st.integers(-2, 2),
        sizes=st.lists(st.integers(0, 60) | st.integers(0, MOST_ROWS), max_size=5),
    )
    def publish(self, producer: str | None, ahead: int, sizes: list[int]) -> None:
        number = max(0, self.last.get(producer or "", -1) + ahead)
        part_of = None if producer is None else BatchId(mark_of(producer), number)
        self.value += 1
        batches = [pa.RecordBatch.from_arrays([np.full(size, self.value)], names=["v"]) for size in sizes]
        stream = self.streams.find("s")
        following = stream.log.next
        answer = self.streams.publish(stream, [stream.train(batch) for batch in batches], part_of)
        if producer is not None and number <= self.last.get(producer, -1):
            assert answer == Accepted(following, again=True)
        elif isinstance(answer, Accepted):
            assert answer == Accepted(following)
            self.published |= dict.fromkeys(range(following, following + len(sizes)), (part_of, self.value))
            self.rows += sum(sizes)
            if producer is not None:
                self.last[producer] = number
        else:
            assert isinstance(answer, RefusedBatch)
            assert (answer.retry_after_s is None) == (sum(sizes) * 8 + len(sizes) * 128 > BYTES_MAX // 4)
            assert stream.log.next == following

    @rule(lossless=st.booleans())
    def read(self, lossless: bool) -> None:
        self.streams.forget_reader("r")
        self.streams.keep_for("r", ["s"], lossless)

    @rule(back=st.integers(0, 5))
    def release(self, back: int) -> None:
        self.streams.release_for("r", {"s": max(0, self.streams.find("s").log.next - back)})

    @rule()
    def stop(self) -> None:
        self.streams.close()
        self.streams = self.opened()

    @rule()
    def kill(self) -> None:
        """Close the log's files without the usual shutdown, as a killed process does."""
        self.streams.find("s").log.close()
        self.streams = self.opened()

    @invariant()
    def every_frame_is_in_the_log_once(self) -> None:
        stream = self.streams.find("s")
        log = Reader(stream.folder)
        found = {}
        for number, payload in log.frames(log.first):
            values = batch_of(payload).columns[0].data
            found[number] = (batch_id(payload), set(values.tolist()))
        following = range(log.first, self.streams.find("s").log.next)
        assert list(found) == list(following)
        for number, (part_of, values) in found.items():
            expected, value = self.published[number]
            assert (part_of, values - {value}) == (expected, set())
        assert stream.rows == self.rows
        assert {name: stream.producers.of(mark_of(name)) for name in self.last} == self.last

    def teardown(self) -> None:
        self.streams.close()
        os.close(self.held)
        shutil.rmtree(self.base)


TestPublish = PublishMachine.TestCase
TestPublish.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 9)), max_size=60),
)
def test_the_last_batch_number_is_remembered_for_a_bounded_number_of_recent_producers(
    most: int, noted: list[tuple[int, int]]
) -> None:
    last = LastBatches(most=most)
    order: list[int] = []
    numbers: dict[int, int] = {}
    for producer, number in noted:
        mark = mark_of(str(producer))
        assert last.has(BatchId(mark, number)) == (producer in order[-most:] and number <= numbers[producer])
        if producer not in order[-most:]:
            numbers[producer] = number
        numbers[producer] = max(numbers[producer], number)
        order = [one for one in order if one != producer] + [producer]
        last.note(BatchId(mark, number))
        last = LastBatches(last.record(), most)
    assert len(last) == min(most, len(order))
    assert {one: last.of(mark_of(str(one))) for one in order[-most:]} == {
        one: numbers[one] for one in order[-most:]
    }
