"""Refresh frequencies of mirrored objects, compared with the condition for an optimum, a slow search, and other allocations.

The numbered properties are those of `scheduler.mirrors.freshening`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.papers.partitions import marginals
from scheduler.mirrors.freshening import freshness, perceived_freshness, refreshes

positive = st.floats(1e-6, 1e6)
Object = tuple[float, float, float]  # Mirrored object: its interest, its change rate, its size
objects = st.lists(
    st.tuples(st.just(0.0) | positive, st.just(0.0) | positive, st.floats(1e-3, 1e6)), min_size=1, max_size=8
)
bandwidths = st.floats(1e-6, 1e9)


def columns(some: list[Object]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    p, rate, size = zip(*some, strict=True)
    return np.array(p), np.array(rate), np.array(size)


@given(objects, bandwidths)
def test_all_bandwidth_goes_to_objects_that_change_and_are_used(some: list[Object], bandwidth: float) -> None:
    p, rate, size = columns(some)
    found = refreshes(p, rate, bandwidth, size)
    worthy = (p > 0) & (rate > 0)
    assert np.isfinite(found.frequencies).all()
    assert (found.frequencies >= 0).all()
    assert (found.frequencies[~worthy] == 0).all()
    used = float(np.sum(found.frequencies * size))
    assert used == pytest.approx(bandwidth if worthy.any() else 0.0, rel=1e-9)


@given(objects, bandwidths)
def test_every_refreshed_object_has_the_same_marginal_worth_of_bandwidth(
    some: list[Object], bandwidth: float
) -> None:
    p, rate, size = columns(some)
    found = refreshes(p, rate, bandwidth, size)
    worth = marginals(p, rate, found.frequencies, size)
    assert worth[found.frequencies > 0] == pytest.approx(found.marginal, rel=1e-8)
    assert (worth <= found.marginal * (1 + 1e-8)).all()


@given(objects, bandwidths, st.integers(0, 2**32))
def test_no_other_allocation_of_bandwidth_has_a_higher_perceived_freshness(
    some: list[Object], bandwidth: float, seed: int
) -> None:
    p, rate, size = columns(some)
    found = refreshes(p, rate, bandwidth, size).frequencies
    best = perceived_freshness(p, rate, found)
    assert 0 <= best <= 1 + 1e-12
    chance = np.random.default_rng(seed)
    for power in (1, 1, 1, 8, 8, 8):
        parts = (1 - chance.random(len(some))) ** power
        other = parts / parts.sum() * bandwidth / size
        near = found + 0.01 * chance.random() * (other - found)
        for one in (other, near):
            assert perceived_freshness(p, rate, one) <= best + 1e-9


# Objects that could use more than the drawn bandwidth, so that additional bandwidth has a measurable worth.
moderate = st.tuples(st.floats(0.1, 10), st.floats(0.1, 3), st.floats(0.5, 2))


@given(st.lists(moderate, min_size=1, max_size=4), st.floats(2, 100))
def test_refresh_frequencies_equal_those_found_by_slow_bisection(
    some: list[Object], bandwidth: float
) -> None:
    p, rate, size = columns(some)
    found, oracle = refreshes(p, rate, bandwidth, size).frequencies, np.array(bisected(some, bandwidth))
    # Frequencies are not compared if an object is hardly worth a refresh, because differences of worth are then below float precision.
    flat = oracle < rate / 25
    assert found[~flat] == pytest.approx(oracle[~flat], rel=1e-6, abs=1e-6 * bandwidth)
    assert (found[flat] < rate[flat] / 20).all()


def bisected(some: list[Object], bandwidth: float) -> list[float]:
    """Return the optimal frequencies, found by nested bisection on the derivative of the freshness (footnote 7 of Carney's thesis)."""

    def slope(f: float, rate: float) -> float:
        x = rate / f
        return (1 - math.exp(-x)) / rate - math.exp(-x) / f

    def frequency(one: Object, worth: float) -> float:
        interest, rate, size = one
        low, high = 1e-9, 1e9
        for _ in range(64):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if interest / size * slope(middle, rate) > worth else (low, middle)
        return low

    low, high = 1e-18, 1e6
    for _ in range(64):
        worth = math.sqrt(low * high)
        used = sum(one[2] * frequency(one, worth) for one in some)
        low, high = (worth, high) if used > bandwidth else (low, worth)
    return [frequency(one, low) for one in some]


@given(objects, bandwidths, st.floats(1, 100))
def test_more_bandwidth_refreshes_no_object_less_often(
    some: list[Object], bandwidth: float, times: float
) -> None:
    p, rate, size = columns(some)
    less, more = (refreshes(p, rate, one, size).frequencies for one in (bandwidth, times * bandwidth))
    assert (more >= less * (1 - 1e-8)).all()


@given(
    st.lists(st.tuples(*[st.floats(0, 1e300)] * 2, st.floats(1e-300, 1e300)), min_size=1, max_size=5),
    st.floats(0, 1e300),
)
def test_refresh_frequencies_are_valid_for_extreme_interests_change_rates_and_sizes(
    some: list[Object], bandwidth: float
) -> None:
    p, rate, size = columns(some)
    found = refreshes(p, rate, bandwidth, size)
    assert not np.isnan(found.frequencies).any()
    assert (found.frequencies >= 0).all()
    fresh = freshness(found.frequencies, rate)
    assert ((fresh >= 0) & (fresh <= 1)).all()
    assert (fresh[rate == 0] == 1).all()


@given(st.integers(1, 200), st.floats(0.001, 10))
def test_equal_objects_get_equal_frequencies_however_small_the_bandwidth(
    count: int, bandwidth: float
) -> None:
    found = refreshes(np.ones(count), np.full(count, 5.0), bandwidth)
    assert found.frequencies == pytest.approx(bandwidth / count, rel=1e-9)
