"""Refresh frequencies of mirrored objects: the example of five objects in Carney's thesis, and extreme values."""

from __future__ import annotations

import numpy as np
import pytest

from bench.papers.partitions import marginals
from scheduler.mirrors.freshening import freshness, perceived_freshness, refreshes

CHANGES = [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("interests", "printed"),
    [
        ([1, 1, 1, 1, 1], [1.15, 1.36, 1.35, 1.14, 0.00]),
        ([1, 2, 3, 4, 5], [0.33, 0.67, 1.00, 1.33, 1.67]),
        # The frequency of the first object is 1.6857. Carney's thesis prints 1.68.
        ([5, 4, 3, 2, 1], [1.68, 1.83, 1.49, 0.00, 0.00]),
    ],
)
def test_five_objects_are_refreshed_as_in_the_thesis(interests: list[float], printed: list[float]) -> None:
    found = refreshes(interests, CHANGES, 5.0).frequencies
    assert found == pytest.approx(printed, abs=0.006)


def test_bandwidth_has_the_same_marginal_worth_for_a_million_objects_of_any_size() -> None:
    """Check a million objects. The largest example of Carney's thesis (Table 2.3) has half as many. Sizes are as in its Figure 2.11."""
    count, rng = 1_000_000, np.random.default_rng(1)
    changes, sizes = rng.gamma(1.0, 2.0, count), 1.0 + rng.pareto(1.1, count)
    interests = 1.0 / np.arange(1, count + 1)
    for size in (np.ones(count), sizes):
        found = refreshes(interests, changes, 0.5 * float(size.sum()), size)
        assert float(found.frequencies @ size) == pytest.approx(0.5 * float(size.sum()), rel=1e-9)
        is_refreshed = found.frequencies > 0
        worth = marginals(interests, changes, found.frequencies, size)
        assert worth[is_refreshed].max() / worth[is_refreshed].min() - 1 < 1e-6
        assert 0 < (~is_refreshed).sum() < count
        assert worth[~is_refreshed].max() <= found.marginal * (1 + 1e-6)


def test_if_interests_equal_change_rates_refresh_frequencies_are_proportional_to_the_change_rates() -> None:
    assert refreshes(CHANGES, CHANGES, 5.0).frequencies == pytest.approx(
        [one / 3 for one in CHANGES], rel=1e-9
    )


def test_an_object_that_changes_rarely_and_is_used_often_comes_first() -> None:
    """Check that the second object gets no bandwidth: it is used half as often and changes five times as often as the first."""
    assert refreshes([2, 1], [1, 5], 0.5).frequencies == pytest.approx([0.5, 0.0])


def test_a_large_object_costs_bandwidth_by_its_size() -> None:
    found = refreshes([1, 1], [1, 1], 3.0, [1, 4]).frequencies
    assert found @ [1, 4] == pytest.approx(3.0)
    assert found[0] > found[1]


def test_nothing_is_refreshed_without_bandwidth_change_or_interest() -> None:
    for interests, changes, bandwidth in (
        ([1, 1], [1, 2], 0.0),
        ([0, 0], [1, 2], 5.0),
        ([1, 1], [0, 0], 5.0),
    ):
        found = refreshes(interests, changes, bandwidth)
        assert (found.frequencies.tolist(), found.marginal) == ([0.0, 0.0], 0.0)


def test_freshness_is_right_for_extreme_ratios_of_refreshes_to_changes() -> None:
    # The first object is never refreshed, and the second never changes. The others change 0.5 times and a billion times per refresh.
    found = freshness([0, 0, 2, 1], [3, 0, 1, 1e9])
    assert found == pytest.approx([0, 1, (1 - np.exp(-0.5)) / 0.5, 1e-9])


def test_perceived_freshness_is_weighted_by_interest() -> None:
    assert perceived_freshness([3, 1], [0, 1], [0, 0]) == 0.75
    assert perceived_freshness([0, 0], [1, 1], [1, 1]) == 1.0
