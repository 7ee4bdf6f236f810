"""Selectivity S, expected cost C̄ and time T of segments, and slopes of the policy `chain`, compared with calculations by hand."""

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


def test_a_chain_multiplies_selectivities_and_adds_expected_costs() -> None:
    segments = CHAIN.segments(estimates((1, 0.5), (4, 0.2), (10, 2)))
    # The expected cost C̄ of operator a is 1 + 0.5·4 + 0.5·0.2·10. The processing time T is 1 + 4 + 10 for every operator.
    assert_segments(segments, (0.2, 4.0, 15), (0.4, 6.0, 15), (2.0, 10.0, 15))


def test_a_chain_of_operators_has_the_ratios_s_over_t_and_s_over_t_squared() -> None:
    first = CHAIN.segments(estimates((1, 0.5), (4, 0.2), (10, 2)))[0]
    assert first.answers_per_ideal == pytest.approx(0.2 / 15)
    assert first.answers_per_ideal_sq == pytest.approx(0.2 / 15**2)


def test_the_expected_cost_of_an_operator_without_output_is_only_its_own() -> None:
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


def test_the_ideal_cost_of_a_joined_pair_includes_both_sides_and_two_join_calls() -> None:
    assert JOIN.ideal_costs(JOIN_ESTIMATES) == {4: 1 + 2 + 2 * 3 + 5}


def test_each_side_of_a_join_has_its_own_selectivity_and_cost() -> None:
    # A tuple of the left stream makes 0.5·4 pairs on average, a tuple of the right stream 0.25·2. The last operator takes 5 per pair.
    left, right = (2.0, 1 + 0.5 * (3 + 4 * 5), 14), (0.5, 2 + 0.25 * (3 + 2 * 5), 14)
    assert_segments(JOIN.segments(JOIN_ESTIMATES), left, right, (4, 23, 14), (2, 13, 14), (1, 5, 14))


def test_both_sides_of_a_join_at_a_root_have_the_same_ideal_cost() -> None:
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


def test_a_shared_operator_has_the_sum_of_selectivities_and_costs_of_its_queries() -> None:
    segments = SHARED.segments(estimates((1, 0.5), (3, 0.4), (9, 0.1)))
    # For two queries, the cost of the shared operator counts once, and the selectivities add up. T is the smaller T of the two queries.
    assert_segments(segments, (0.5 * (0.4 + 0.1), 1 + 0.5 * (3 + 9), 4), (0.4, 3, 4), (0.1, 9, 10))


def test_a_shared_operator_divides_each_querys_answers_by_its_ideal_cost() -> None:
    shared = SHARED.segments(estimates((1, 0.5), (3, 0.4), (9, 0.1)))[0]
    assert shared.answers_per_ideal == pytest.approx(0.2 / 4 + 0.05 / 10)
    assert shared.answers_per_ideal_sq == pytest.approx(0.2 / 16 + 0.05 / 100)


def test_an_operator_with_two_paths_to_one_root_has_one_ideal_time() -> None:
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


def test_an_edge_to_an_earlier_operator_is_refused() -> None:
    with pytest.raises(AssertionError, match="edge 1 → 0 is not topological"):
        Network((ScheduledOperator("a"), ScheduledOperator("b", (0,))))


def slopes(network: Network, *cost_and_selectivity: tuple[float, float]) -> list[float]:
    return chain_slopes(NetworkEstimates(network, estimates(*cost_and_selectivity)))


def test_operators_in_one_segment_of_the_envelope_of_the_progress_chart_have_the_same_slope() -> None:
    # After 0, 1, 2 and 6 time units of processing, a tuple takes 1, 0.9, 0.2 and 0 units of memory.
    # Operator b releases memory faster than a, so a and b both have their joint slope: 0.8 of the memory in 2 time units.
    # Operator c has the slope 0.2/4: c takes 20 per tuple, and 0.2 of the tuples reach c.
    assert slopes(CHAIN, (1, 0.9), (1 / 0.9, 2 / 9), (20, 1)) == pytest.approx([0.4, 0.4, 0.05])


def test_if_slopes_of_the_progress_chart_fall_along_a_chain_each_operator_has_its_own_slope() -> None:
    # After 0, 1, 2 and 4 time units of processing, a tuple takes 1, 0.5, 0.25 and 0 units of memory.
    assert slopes(CHAIN, (1, 0.5), (2, 0.5), (8, 1)) == pytest.approx([0.5, 0.25, 0.125])


def test_an_operator_that_multiplies_tuples_gets_the_slope_of_the_operators_after_it() -> None:
    # After 0, 1 and 3 time units, a tuple takes 1, 2 and 0 units of memory. Only the second operator releases memory.
    network = Network((ScheduledOperator("a", (1,), source=True), ScheduledOperator("b")))
    assert slopes(network, (1, 2.0), (1, 0.5)) == pytest.approx([1 / 3, 1 / 3])


def test_the_slope_of_an_operator_counts_smaller_tuples_as_released_memory() -> None:
    # The first operator halves the number of tuples and reduces the size of a tuple to 0.2.
    network = Network((ScheduledOperator("a", (1,), source=True, size_out=0.2), ScheduledOperator("b")))
    assert slopes(network, (1, 0.5), (2, 1)) == pytest.approx([0.9, 0.1])


def test_a_shared_operator_takes_the_best_slope_of_its_paths_in_any_order() -> None:
    # The shared operator halves the memory in 1 time unit. The next operator releases the other half in 2 or in 0.5 time units.
    # If the next operator needs 0.5 time units, it releases memory faster, so both operators have their joint slope, 1/1.5.
    assert slopes(SHARED, (1, 0.5), (4, 1), (1, 1)) == pytest.approx([1 / 1.5, 0.25, 1 / 1.5])
    assert slopes(SHARED, (1, 0.5), (1, 1), (4, 1)) == pytest.approx([1 / 1.5, 1 / 1.5, 0.25])
