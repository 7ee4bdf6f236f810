"""A restarted class repeats the steps that it has committed, and notices if the answers differ from the committed answers."""

import numpy as np

from engine.class_.commit_replay import MISMATCHES_KEPT, Mismatches
from tests.property.test_hosted import Host, drawn


def test_if_a_restart_finds_many_mismatches_the_first_are_listed_and_the_rest_are_counted() -> None:
    found = Mismatches()
    assert not found
    for number in range(MISMATCHES_KEPT):
        found.add(f"number {number}")
    assert list(found) == [f"number {number}" for number in range(MISMATCHES_KEPT)]
    for _ in range(1234):
        found.add("one more")
    assert list(found)[MISMATCHES_KEPT:] == ["and 1,234 more"]
    assert found


def test_if_many_batches_are_lost_at_a_restart_some_are_listed_and_all_are_counted() -> None:
    given = drawn(3, 3 * MISMATCHES_KEPT)
    host = Host(given, np.random.default_rng(3))
    host.begin()
    host.read(len(given.order))
    while host.hosted.has_input():
        host.work(100_000)
    for stream, batches in given.batches.items():
        given.forgotten[stream] = len(batches)
    host.crash()
    while host.hosted.has_input():
        host.work(100_000)
    mismatches_listed = list(host.hosted.replay.mismatches)
    assert mismatches_listed[0].endswith("is not kept any more")
    assert len(mismatches_listed) == MISMATCHES_KEPT + 1
    for stream, batches in given.batches.items():
        ledger = host.hosted.input.ledger(stream)
        assert (ledger.offered, ledger.failed) == (sum(map(len, batches)),) * 2
