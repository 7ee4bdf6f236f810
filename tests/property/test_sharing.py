"""Properties 1 and 2 of `scheduler.operators.segment_trees`, compared with all parts of small networks and with Sharaf's thesis."""

from collections.abc import Iterator
from itertools import chain, combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.operators.network import Estimate, Network, NetworkEstimates, ScheduledOperator
from scheduler.operators.segment_trees import whole_tree

numbers = st.one_of(st.sampled_from([0.25, 0.5, 1.0, 2.0]), st.floats(0.01, 10))


@st.composite
def shared_networks(draw: st.DrawFn) -> NetworkEstimates:
    """Draw up to nine operators that form a tree: each operator but the first gets its input from an earlier operator."""
    size = draw(st.integers(1, 9))
    above = [draw(st.integers(0, number - 1)) for number in range(1, size)]
    below = [
        tuple(number for number, one in enumerate(above, 1) if one == operator) for operator in range(size)
    ]
    network = Network(
        tuple(ScheduledOperator(str(number), below[number], not number) for number in range(size))
    )
    return NetworkEstimates(network, tuple(Estimate(draw(numbers), draw(numbers)) for _ in range(size)))


Part = tuple[frozenset[int], float, float]
"""Operators of a part of a tree, the gain of the part, and its cost per entering tuple."""


def parts(believed: NetworkEstimates, start: int) -> Iterator[Part]:
    """Yield all parts that begin with an operator and lead to at least one answer, with gain and cost per entering tuple."""
    own, below = believed.estimates[start], believed.network.operators[start].downstream
    if not below:
        yield frozenset({start}), own.selectivity, own.cost_s
        return
    choices = [[None, *parts(believed, one)] for one in below]
    for choice in product(*choices):
        chosen = [one for one in choice if one is not None]
        if chosen:
            yield (
                frozenset({start}).union(*(one[0] for one in chosen)),
                own.selectivity * sum(one[1] for one in chosen),
                own.cost_s + own.selectivity * sum(one[2] for one in chosen),
            )


@settings(max_examples=60)
@given(shared_networks())
def test_the_operators_chosen_to_run_with_a_shared_operator_have_the_highest_gain_per_cost(
    believed: NetworkEstimates,
) -> None:
    trees = believed.trees("selectivity")
    for number in range(len(trees)):
        every = {members: gain / cost for members, gain, cost in parts(believed, number)}
        assert trees[number].ratio == pytest.approx(max(every.values()))
        assert every[frozenset(whole_tree(number, trees))] == pytest.approx(trees[number].ratio)


@given(shared_networks())
def test_every_operator_chosen_to_run_with_a_shared_operator_has_at_least_the_gain_per_cost_of_the_choice(
    believed: NetworkEstimates,
) -> None:
    trees = believed.trees("selectivity")
    for number, tree in enumerate(trees):
        for member in whole_tree(number, trees):
            assert trees[member].ratio >= tree.ratio * (1 - 1e-9)
        for outside, _ in tree.left:
            assert trees[outside].ratio <= tree.ratio * (1 + 1e-9)


# -- the order in which Sharaf's thesis adds segments ----------------------------------------------------------


def of_subset(cost_s: float, segments: list[tuple[float, float]]) -> float:
    """Return the priority that segments behind a shared operator have together. Each segment is a pair (gain, cost)."""
    return sum(gain for gain, _ in segments) / (cost_s + sum(cost for _, cost in segments))


def by_the_thesis(cost_s: float, segments: list[tuple[float, float]]) -> float:
    """Return the joint priority of segments, added by falling priority until one does not raise it, as in Sharaf's thesis."""
    ordered = sorted(segments, key=lambda one: -of_subset(cost_s, [one]))
    taken, best = [ordered[0]], of_subset(cost_s, ordered[:1])
    for one in ordered[1:]:
        if of_subset(cost_s, [*taken, one]) <= best:
            break
        taken.append(one)
        best = of_subset(cost_s, taken)
    return best


def by_trees(cost_s: float, segments: list[tuple[float, float]]) -> float:
    below = tuple(range(1, len(segments) + 1))
    network = Network(
        (ScheduledOperator("shared", below, True), *(ScheduledOperator(str(one)) for one in below))
    )
    estimates = (Estimate(cost_s, 1.0), *(Estimate(cost, gain) for gain, cost in segments))
    return NetworkEstimates(network, estimates).trees("selectivity")[0].ratio


@given(numbers, st.lists(st.tuples(numbers, numbers), min_size=1, max_size=7))
def test_operators_chosen_to_run_with_a_shared_operator_gain_at_least_as_much_per_cost_as_in_the_thesis(
    cost_s: float, segments: list[tuple[float, float]]
) -> None:
    subsets = chain.from_iterable(combinations(segments, size) for size in range(1, len(segments) + 1))
    best = max(of_subset(cost_s, list(one)) for one in subsets)
    assert by_trees(cost_s, segments) == pytest.approx(best)
    assert by_the_thesis(cost_s, segments) <= best * (1 + 1e-9)


def test_a_cheap_segment_that_the_thesis_misses_is_chosen_to_run_with_a_shared_operator() -> None:
    segments = [(10.0, 10.0), (3.0, 4.0), (0.3, 0.1)]
    assert by_the_thesis(1.0, segments) == pytest.approx(10 / 11)
    assert by_trees(1.0, segments) == pytest.approx(10.3 / 11.1)
