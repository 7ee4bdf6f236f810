"""A source takes small queued trains as one train, because a call costs the same for few tuples as for many."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.class_.runner import ClassRunner, RunListener
from engine.data.train import Train, counting_dropped, progress, same_arrival, train_from_arrow
from engine.network.network import ClassNetwork
from engine.network.node import QueuedOperator
from engine.sql import SqlCatalog, parse_create_stream, plan_query

SCHEMA = parse_create_stream("CREATE STREAM s (ts int64, x int64, WATERMARK FOR ts AS ts)")


def source() -> QueuedOperator:
    network = ClassNetwork()
    network.add(plan_query("q", "SELECT x FROM s", SqlCatalog.of(streams=[SCHEMA])))
    node = network.source("s")
    assert node is not None
    return node


def train(first: int, size: int, arrival: float = 1.0, kept: float = 1.0) -> Train:
    numbers = np.arange(first, first + size)
    batch = pa.record_batch({"ts": numbers, "x": numbers})
    return train_from_arrow(batch, SCHEMA.schema, arrival, kept)


def taken(node: QueuedOperator, most: int) -> list[Any]:
    """Take trains until the queue is empty. Return the tuples of each train, their arrivals, and the kept fraction of the input."""
    found = []
    while node.queue:
        one = node.dequeue(most)
        found.append((one.columns[1].data.tolist(), one.arrival.tolist(), counting_dropped(one).kept))
    assert node.tuples == 0
    return found


def test_one_source_call_takes_several_small_trains_with_the_arrival_of_each_tuple() -> None:
    node = source()
    for first, arrival in ((0, 1.0), (2, 2.0), (4, 3.0)):
        node.enqueue(train(first, 2, arrival))
    assert taken(node, 100) == [([0, 1, 2, 3, 4, 5], [1, 1, 2, 2, 3, 3], 1.0)]


def test_trains_that_do_not_fit_whole_into_a_source_call_wait_for_the_next_call() -> None:
    node = source()
    for first, size in ((0, 3), (3, 3), (6, 9), (15, 1)):
        node.enqueue(train(first, size))
    assert [len(numbers) for numbers, _, _ in taken(node, 7)] == [6, 7, 3]


def test_trains_with_different_kept_fractions_are_not_taken_together() -> None:
    node = source()
    for first, kept in ((0, 0.5), (1, 0.5), (2, 0.25)):
        node.enqueue(train(first, 1, kept=kept))
    assert taken(node, 100) == [([0, 1], [1, 1], 0.5), ([2], [1], 0.25)]


def test_a_source_takes_a_train_that_only_advances_event_time_in_order_of_arrival() -> None:
    node = source()
    node.enqueue(train(0, 1))
    node.enqueue(progress(7, ()))
    node.enqueue(train(8, 1))
    assert [len(node.dequeue(100)) for _ in range(3)] == [1, 0, 1]


def test_equal_arrivals_of_trains_taken_together_stay_a_single_value() -> None:
    node = source()
    for first in (0, 1):
        node.enqueue(train(first, 1, arrival=5.0))
    assert node.dequeue(100).arrival.strides == same_arrival(5.0, 2).strides


def steps_of(size: int) -> list[tuple[str, int]]:
    """Return how many tuples a join takes in each call, with the name of their stream.

    Six trains of stream s with `size` tuples each are queued, alternating with six trains of stream t with 2 tuples each.
    """
    streams = [SCHEMA, parse_create_stream("CREATE STREAM t (ts int64, x int64, WATERMARK FOR ts AS ts)")]
    sql = "SELECT s.x FROM s JOIN t ON s.x = t.x AND t.ts BETWEEN s.ts - 1 AND s.ts + 1"
    steps: list[tuple[str, int]] = []

    class Taken(RunListener):
        def took(self, stream: str, tuples: int) -> None:
            steps.append((stream, tuples))

    runner = ClassRunner(lambda query, answer: None, train_max=10, listener=Taken())
    runner.add(plan_query("q", sql, SqlCatalog.of(streams=streams)))
    for moment in range(6):
        runner.offer("s", train(size * moment, size, arrival=float(moment)))
        runner.offer("t", train(size * moment, 2, arrival=moment + 0.5))
    clock = itertools.count()
    runner.run(1e9, lambda: float(next(clock)), lambda: 0.0)
    return steps


def test_a_join_takes_first_the_stream_whose_train_became_full_first() -> None:
    assert steps_of(10) == [("s", 10), ("t", 2)] * 6


def test_a_joined_stream_takes_nothing_newer_than_a_full_train_of_its_partner() -> None:
    """Check that stream t gives only tuples that arrived before a train of stream s was full. Two queued batches of s fill one train."""
    assert steps_of(5) == [("s", 10), ("t", 6), ("s", 10), ("t", 4), ("s", 10), ("t", 2)]


@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from([1.0, 0.5, 0.1])), min_size=2, max_size=6),
    st.lists(st.integers(1, 12), max_size=4),
)
def test_kept_fractions_of_queued_trains_account_for_dropped_tuples(
    sizes: list[tuple[int, float]], drops: list[int]
) -> None:
    """Check that the numbers of remaining tuples, divided by the fractions that were kept, add up to the whole input."""
    node = source()
    for size, kept in sizes:
        node.enqueue(train(0, size, kept=kept))
    for most in drops:
        node.drop(min(most, node.tuples - 1))
    offered = sum(len(numbers) / kept for numbers, _, kept in taken(node, 5))
    assert offered == pytest.approx(sum(size / kept for size, kept in sizes))
