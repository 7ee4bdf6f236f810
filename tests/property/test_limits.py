"""Limits of a class's state, compared with plain Python, and invariants of the limits, however the input is cut into trains:

1. The refused groups follow only from the order of arrival and from the groups that open windows hold.
2. The number of keys never exceeds its limit. The bytes of state exceed their limit by no more than the keys
   and indexes of one train.
3. Every tuple is in a window or counted as refused.
4. When all windows have closed and the queries are removed, nothing is held.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from configs.classes.limits import ClassLimits
from engine.network.row_losses import failed_rows
from tests.unit.engine.class_.test_limits import COUNT, COUNT_TEXTS, JOIN, MEDIAN, ROWS, SKETCHES, Class

RANGE_S = 10  # Range of the COUNT window, in seconds
TRAIN_MAX = 12
# Number of bytes by which keys and join indexes may exceed the limit in these tests, which have few tuples.
SLACK = 60 * 300 + 4 * 16 * 1024
Arrived = tuple[float, int]

keys = st.one_of(st.integers(0, 6), st.sampled_from([0, 60_000, 2**40, -5]), st.integers(0, 10**6))
tuples = st.lists(st.tuples(st.sampled_from([0, 0, 0.25, 1, 4]), keys), max_size=60)
sizes = st.lists(st.integers(1, TRAIN_MAX), min_size=1, max_size=10)


def trains(some: Sequence[tuple[float, int]], sizes: Sequence[int]) -> list[list[Arrived]]:
    """Return the tuples in the order of event time, cut into trains. The sizes of trains are taken from `sizes` in turn."""
    times = np.cumsum([0.0, *(gap for gap, _ in some)])[1:].tolist()
    arrived = list(zip(times, [key for _, key in some], strict=True))
    parts: list[list[Arrived]] = []
    start = 0
    while start < len(arrived):
        size = sizes[len(parts) % len(sizes)]
        parts.append(arrived[start : start + size])
        start += size
    return parts


def admitted(parts: Sequence[Sequence[Arrived]], limit: int) -> list[Arrived]:
    """Return the tuples that are accepted. A new group needs room. A group takes room while an open window has a tuple of the group."""
    held: list[Arrived] = []
    found: list[Arrived] = []
    for part in parts:
        groups = {key for _, key in held}
        for time, key in part:
            if key in groups or len(groups) < limit:
                groups.add(key)
                held.append((time, key))
                found.append((time, key))
        opened = part[-1][0] // RANGE_S * RANGE_S
        held = [one for one in held if one[0] >= opened]
    return found


@given(tuples, sizes, st.integers(1, 8))
def test_new_groups_are_refused_while_open_windows_hold_the_maximum_number_of_groups(
    some: list[tuple[float, int]], sizes: list[int], limit: int
) -> None:
    one, parts = Class([COUNT], ClassLimits(groups=limit)), trains(some, sizes)
    for part in parts:
        one.offer([time for time, _ in part], [key for _, key in part])
        assert one.account.groups <= limit
    one.finish()
    expected = admitted(parts, limit)
    windows = Counter((int(time // RANGE_S + 1) * RANGE_S, key) for time, key in expected)
    assert {(end // 10**6, key): count for _, end, key, count in one.answers} == dict(windows)
    assert sum(failed_rows(one.runner.network.nodes).values()) == len(some) - len(expected)


@given(
    tuples,
    sizes,
    st.lists(st.sampled_from([COUNT, COUNT_TEXTS, MEDIAN, SKETCHES, ROWS, JOIN]), min_size=1, unique=True),
    st.integers(1, 200_000),
    st.integers(1, 20),
)
def test_state_stays_within_its_limits_and_is_freed_when_all_queries_are_removed(
    some: list[tuple[float, int]], sizes: list[int], queries: list[str], state: int, groups: int
) -> None:
    one = Class(queries, ClassLimits(state_bytes=state, groups=groups))
    first = one.account.state  # Bytes of state that a join has before its first tuple
    for part in trains(some, sizes):
        for stream in ("s", "t"):
            one.offer([time for time, _ in part], [key for _, key in part], stream)
            assert one.account.groups <= groups
            assert one.account.state <= max(one.account.state_limit, first) + SLACK
            assert one.account.queued == 0
    one.finish()
    for name in list(one.runner.network.queries):
        one.runner.remove(name)
    assert (one.account.groups, one.account.state, one.account.queued) == (0, 0, 0)


@given(tuples, sizes, st.integers(1, 20_000))
def test_with_limited_state_every_tuple_is_in_a_window_or_counted_as_failed(
    some: list[tuple[float, int]], sizes: list[int], state: int
) -> None:
    one = Class([COUNT], ClassLimits(state_bytes=state))
    for part in trains(some, sizes):
        one.offer([time for time, _ in part], [key for _, key in part])
    one.finish()
    counted = sum(count for _, _, _, count in one.answers)
    assert counted + sum(failed_rows(one.runner.network.nodes).values()) == len(some)
