"""S, C̄ and T of operator networks, and the chain policy's slopes, against figures worked out by hand."""

from collections.abc import Sequence

import pytest

from scheduler.operators.network import Estimate, Network, NetworkEstimates, PathSegment, ScheduledOperator
from scheduler.operators.policies.chain import chain_slopes


def estimates(*cost_and_selectivity: tuple[float, float]) -> tuple[Estimate, ...]:
    return tuple(Estimate(cost, selectivity) for cost, selectivity in cost_and_selectivity)


def assert_segments(actual: Sequence[PathSegment], *expected: tuple[float, float, float]) -> None:
    found = [(one.selectivity, one.cost_s, one.ideal_s) for one in actual]
    assert found == [pytest.approx(one) for one in expected]


CHAIN = Network(
    (ScheduledOperator("a", (1,), source=True), ScheduledOperator("b", (2,)), ScheduledOperator("c"))
)


def test_a_chain_multiplies_selectivities_and_adds_costs_of_what_is_left() -> None:
    segments = CHAIN.segments(estimates((1, 0.5), (4, 0.2), (10, 2)))
    # C̄ of a: 1 + 0.5·4 + 0.5·0.2·10; T is 1 + 4 + 10 wherever the tuple stands.
    assert_segments(segments, (0.2, 4.0, 15), (0.4, 6.0, 15), (2.0, 10.0, 15))


def test_in_a_chain_answers_per_ideal_are_s_over_t_and_s_over_t_squared() -> None:
    first = CHAIN.segments(estimates((1, 0.5), (4, 0.2), (10, 2)))[0]
    assert first.answers_per_ideal == pytest.approx(0.2 / 15)
    assert first.answers_per_ideal_sq == pytest.approx(0.2 / 15**2)


def test_an_operator_that_keeps_nothing_costs_only_itself() -> None:
    segments = CHAIN.segments(estimates((1, 0.0), (4, 0.2), (10, 2)))
    assert_segments(segments, (0.0, 1.0, 15), (0.4, 6.0, 15), (2.0, 10.0, 15))


JOIN = Network(
    (
        ScheduledOperator("left", (2,), source=True),
        ScheduledOperator("right", (3,), source=True),
        ScheduledOperator("join: left", (4,), partner=3),
        ScheduledOperator("join: right", (4,), partner=2),
        ScheduledOperator("common"),
    )
)
JOIN_ESTIMATES = estimates((1, 0.5), (2, 0.25), (3, 4.0), (3, 2.0), (5, 1.0))


def test_the_ideal_cost_of_a_joined_tuple_counts_both_sides_and_the_join_twice() -> None:
    assert JOIN.ideal_costs(JOIN_ESTIMATES) == {4: 1 + 2 + 2 * 3 + 5}


def test_each_side_of_a_join_has_its_own_selectivity_and_cost() -> None:
    # A tuple from the left makes 0.5·4 pairs, one from the right 0.25·2; every pair costs 5 more.
    left, right = (2.0, 1 + 0.5 * (3 + 4 * 5), 14), (0.5, 2 + 0.25 * (3 + 2 * 5), 14)
    assert_segments(JOIN.segments(JOIN_ESTIMATES), left, right, (4, 23, 14), (2, 13, 14), (1, 5, 14))


def test_the_sides_of_a_join_that_answers_itself_have_one_ideal_cost() -> None:
    network = Network(
        (
            ScheduledOperator("stream", (1, 2), source=True),
            ScheduledOperator("join: left", partner=2),
            ScheduledOperator("join: right", partner=1),
        )
    )
    segments = network.segments(estimates((1, 0.5), (3, 2.0), (4, 1.0)))
    assert_segments(segments, (0.5 * (2 + 1), 1 + 0.5 * (3 + 4), 8), (2, 3, 8), (1, 4, 8))


SHARED = Network(
    (ScheduledOperator("shared", (1, 2), source=True), ScheduledOperator("cheap"), ScheduledOperator("dear"))
)


def test_a_shared_operator_sums_up_the_queries_below_it() -> None:
    segments = SHARED.segments(estimates((1, 0.5), (3, 0.4), (9, 0.1)))
    # Its own cost counts once, S of both queries is added, T is that of the query that answers first.
    assert_segments(segments, (0.5 * (0.4 + 0.1), 1 + 0.5 * (3 + 9), 4), (0.4, 3, 4), (0.1, 9, 10))


def test_a_shared_operator_divides_each_querys_answers_by_its_own_ideal_cost() -> None:
    shared = SHARED.segments(estimates((1, 0.5), (3, 0.4), (9, 0.1)))[0]
    assert shared.answers_per_ideal == pytest.approx(0.2 / 4 + 0.05 / 10)
    assert shared.answers_per_ideal_sq == pytest.approx(0.2 / 16 + 0.05 / 100)


def test_two_ways_to_one_root_are_one_query() -> None:
    network = Network(
        (
            ScheduledOperator("a", (1, 2), source=True),
            ScheduledOperator("b", (3,)),
            ScheduledOperator("c", (3,)),
            ScheduledOperator("d"),
        )
    )
    segment = network.segments(estimates((1, 1.0), (2, 0.5), (4, 0.25), (8, 1.0)))[0]
    assert (segment.selectivity, segment.cost_s) == (0.75, 1 + 2 + 4 + 0.75 * 8)
    assert (segment.ideal_s, segment.answers_per_ideal) == (15, 0.75 / 15)


def test_roots_sources_and_paths_follow_from_the_edges() -> None:
    assert (JOIN.roots, JOIN.sources) == ((4,), (0, 1))
    assert JOIN.depth_first_paths() == [(0, 2, 4), (1, 3, 4)]
    assert SHARED.depth_first_paths() == [(0, 1), (0, 2)]


def test_an_edge_against_the_order_is_refused() -> None:
    with pytest.raises(AssertionError, match="edge 1 → 0 is not topological"):
        Network((ScheduledOperator("a"), ScheduledOperator("b", (0,))))


def slopes(network: Network, *cost_and_selectivity: tuple[float, float]) -> list[float]:
    return chain_slopes(NetworkEstimates(network, estimates(*cost_and_selectivity)))


def test_operators_of_one_envelope_segment_have_one_slope() -> None:
    # Chart (0, 1) (1, 0.9) (2, 0.2) (6, 0): b releases more than a, so both go with the slope from start to
    # behind b, (1 − 0.2)/2; c stands alone with 0.2/4. C's cost is 4 because only 0.2 of its 20 is expected.
    assert slopes(CHAIN, (1, 0.9), (1 / 0.9, 2 / 9), (20, 1)) == pytest.approx([0.4, 0.4, 0.05])


def test_falling_slopes_leave_every_operator_its_own_segment() -> None:
    # Chart (0, 1) (1, 0.5) (2, 0.25) (4, 0).
    assert slopes(CHAIN, (1, 0.5), (2, 0.5), (8, 1)) == pytest.approx([0.5, 0.25, 0.125])


def test_an_operator_that_makes_more_is_carried_by_what_follows() -> None:
    # Chart (0, 1) (1, 2) (3, 0): nothing is released before the second operator is done.
    network = Network((ScheduledOperator("a", (1,), source=True), ScheduledOperator("b")))
    assert slopes(network, (1, 2.0), (1, 0.5)) == pytest.approx([1 / 3, 1 / 3])


def test_the_size_of_tuples_counts_in_the_chart() -> None:
    # Chart (0, 1) (1, 0.5·0.2) (2, 0): the projection halves the tuples and makes them smaller.
    network = Network((ScheduledOperator("a", (1,), source=True, size_out=0.2), ScheduledOperator("b")))
    assert slopes(network, (1, 0.5), (2, 1)) == pytest.approx([0.9, 0.1])


def test_a_shared_operator_takes_the_best_slope_of_its_paths_in_whatever_order_they_come() -> None:
    # Paths: (0, 1) (1, 0.5) (3, 0) and (0, 1) (1, 0.5) (1.5, 0), whose envelope is one segment of slope 1/1.5.
    assert slopes(SHARED, (1, 0.5), (4, 1), (1, 1)) == pytest.approx([1 / 1.5, 0.25, 1 / 1.5])
    assert slopes(SHARED, (1, 0.5), (1, 1), (4, 1)) == pytest.approx([1 / 1.5, 1 / 1.5, 0.25])
