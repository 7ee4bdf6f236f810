"""MavStream's policies on the examples of its thesis: capacities of paths, and how paths are cut into segments and pruned."""

import pytest

from configs.classes.policies import policy_of
from scheduler.operators.network import Estimate, Network, NetworkEstimates, ScheduledOperator
from scheduler.operators.policies import NONE, build_policy
from scheduler.operators.policies.paths import (
    cut,
    cut_once,
    highest_path_capacity,
    release_capacity,
    service_s,
    whole_segments,
)


def believed(*given: tuple[tuple[int, ...], float, float, float]) -> NetworkEstimates:
    """Return a network with estimates. Each argument describes an operator: downstream operators, cost, selectivity and output size."""
    fed = {below for downstream, *_ in given for below in downstream}
    operators = tuple(
        ScheduledOperator(f"O{place + 1}", downstream, place not in fed, size)
        for place, (downstream, _, _, size) in enumerate(given)
    )
    return NetworkEstimates(Network(operators), tuple(Estimate(cost, kept) for _, cost, kept, _ in given))


def test_the_capacity_of_a_path_is_the_inverse_of_the_time_per_tuple() -> None:
    # The three operators process 4, 2 and 1 tuples per second. Half of the tuples reach the second operator, an eighth the third.
    chain = believed(((1,), 0.25, 0.5, 1), ((2,), 0.5, 0.25, 1), ((), 1.0, 1.0, 1))
    assert service_s(chain, (0, 1, 2)) == 0.25 + 0.5 * 0.5 + 0.125 * 1.0
    assert highest_path_capacity(chain, range(3)) == [1 / 0.625] * 3


def test_a_segment_releases_the_memory_of_the_tuples_it_processes() -> None:
    # The segment processes 2 tuples of size 8 per second. An eighth of the tuples passes the segment, with size 6.
    chain = believed(((1,), 1.0, 1.0, 8), ((2,), 0.25, 0.5, 8), ((3,), 0.5, 0.25, 6), ((), 1.0, 1.0, 1))
    assert release_capacity(chain, (8, (1, 2))) == 2 * (8 - 6 / 8)


# In Figure 4.2a of MavStream's thesis, a projection and a selection before a join form one segment.
def test_an_operator_that_releases_more_memory_than_its_predecessor_joins_the_predecessors_segment() -> None:
    project, select, join = ((1,), 1.0, 1.0, 0.8), ((2,), 1.0, 0.5, 0.8), ((), 10.0, 1.0, 1.0)
    assert cut(believed(project, select, join), (0, 1, 2)) == [(1.0, (0, 1)), (0.8, (2,))]


def test_operators_with_falling_release_rates_are_separate_segments() -> None:
    falling = believed(((1,), 1.0, 0.25, 1), ((2,), 1.0, 0.5, 1), ((), 10.0, 1.0, 1))
    assert [path for _, path in cut(falling, (0, 1, 2))] == [(0,), (1,), (2,)]


@pytest.mark.parametrize(
    ("gamma", "segments"),
    [(0.9, [(0,), (1, 2, 3)]), (0.7, [(0, 1), (2, 3)]), (0.4, [(0, 1, 2), (3,)]), (0.01, [(0, 1, 2, 3)])],
)
def test_a_simplified_path_has_at_most_two_segments(gamma: float, segments: list[tuple[int, ...]]) -> None:
    # Per second of processing, the operators release 1, 0.8, 0.4 and 0.1 of the memory of a tuple.
    path = believed(((1,), 0.5, 0.5, 1), ((2,), 0.625, 0.5, 1), ((3,), 1.25, 0.5, 1), ((), 10.0, 1.0, 1))
    assert [found for _, found in cut_once(path, (0, 1, 2, 3), gamma)] == segments


def test_a_path_segment_contained_in_another_segment_is_dropped() -> None:
    segments = [(1.0, (0, 1)), (1.0, (0, 1, 2)), (1.0, (3,)), (0.5, (1, 2)), (1.0, (2, 4))]
    assert whole_segments(segments) == [(1.0, (0, 1, 2)), (1.0, (2, 4)), (1.0, (3,))]


def drained(kind: str, network: NetworkEstimates) -> list[int]:
    policy, picks = build_policy(policy_of(kind), network), list[int]()
    for operator in range(len(network.estimates)):
        policy.ready(operator, 0.0)
    while (operator := policy.pick(0.0)) != NONE:
        picks.append(operator)
        policy.idle(operator)
    return picks


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        ("path", [2, 3, 0, 1]),  # The two paths process 1/3 and 1/2 tuples per second.
        ("segment", [0, 2, 3, 1]),  # The segments release 0.9, 1/2 and 1/20 units of memory per second.
    ],
)
def test_operators_of_a_path_or_segment_run_in_order_from_source_to_end(kind: str, order: list[int]) -> None:
    two = believed(((1,), 1.0, 0.1, 1), ((), 20.0, 1.0, 1), ((3,), 1.5, 1.0, 1), ((), 0.5, 1.0, 1))
    assert drained(kind, two) == order


def test_path_and_segment_policies_pick_operators_without_cost() -> None:
    free = believed(((1, 2), 0.0, 1.0, 1), ((), 0.0, 1.0, 1), ((3,), 0.0, 2.0, 1), ((), 1.0, 1.0, 1))
    for kind in ("path", "segment", "simplified-segment"):
        assert sorted(drained(kind, free)) == [0, 1, 2, 3]
