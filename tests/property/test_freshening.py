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


# Objects with a least freshness. Objects without interest occur as well.
floored = st.tuples(
    st.just(0.0) | st.floats(0.1, 10),
    st.floats(0.1, 3),
    st.floats(0.5, 2),
    st.just(0.0) | st.floats(0.05, 0.95),
)
Floored = tuple[float, float, float, float]


def bisected_floor(rate: float, floor: float) -> float:
    """Return the frequency at which an object has its least freshness, found by bisection on the freshness."""
    if floor == 0:
        return 0.0
    low, high = 1e-9, 1e9
    for _ in range(100):
        middle = math.sqrt(low * high)
        fresh = (1 - math.exp(-rate / middle)) / (rate / middle)
        low, high = (middle, high) if fresh < floor else (low, middle)
    return high


def floors_and_bandwidth(some: list[Floored], extra: float) -> tuple[np.ndarray, float]:
    """Return the least frequencies, and a bandwidth that is larger than these frequencies need by the factor `extra`."""
    least = np.array([bisected_floor(rate, floor) for _, rate, _, floor in some])
    needed = float(sum(one[2] * frequency for one, frequency in zip(some, least, strict=True)))
    return least, max(needed * extra, 1.0)


@given(st.lists(floored, min_size=1, max_size=6), st.floats(1.01, 5))
def test_every_object_has_its_least_freshness_and_the_rest_of_the_bandwidth_goes_where_it_is_worth_most(
    some: list[Floored], extra: float
) -> None:
    p, rate, size, floor = (np.array(column) for column in zip(*some, strict=True))
    least, bandwidth = floors_and_bandwidth(some, extra)
    found = refreshes(p, rate, bandwidth, size, floor)
    assert (freshness(found.frequencies, rate) >= floor * (1 - 1e-9)).all()
    assert found.part == 1.0
    assert found.needed == pytest.approx(float(np.sum(size * least)), rel=1e-6)
    worthy = p > 0
    used = float(np.sum(found.frequencies * size))
    assert used == pytest.approx(bandwidth if worthy.any() else found.needed, rel=1e-9)
    assert found.frequencies[~worthy] == pytest.approx(least[~worthy], rel=1e-6)
    worth = marginals(p, rate, found.frequencies, size)
    above = found.frequencies > least * (1 + 1e-6) + 1e-12
    assert worth[above] == pytest.approx(found.marginal, rel=1e-5)
    assert (worth[~above] <= found.marginal * (1 + 1e-5)).all()


@given(st.lists(floored, min_size=2, max_size=4), st.floats(1.01, 3), st.integers(0, 2**32))
def test_no_allocation_that_keeps_the_least_freshnesses_has_a_higher_perceived_freshness(
    some: list[Floored], extra: float, seed: int
) -> None:
    p, rate, size, floor = (np.array(column) for column in zip(*some, strict=True))
    least, bandwidth = floors_and_bandwidth(some, extra)
    found = refreshes(p, rate, bandwidth, size, floor).frequencies
    best = perceived_freshness(p, rate, found)
    chance = np.random.default_rng(seed)
    left = bandwidth - float(np.sum(size * least))
    for power in (1, 1, 8, 8):
        parts = (1 - chance.random(len(some))) ** power
        other = least + parts / parts.sum() * left / size
        for one in (other, found + 0.01 * (other - found)):
            assert perceived_freshness(p, rate, one) <= best + 1e-9


@given(st.lists(floored, min_size=1, max_size=4), st.floats(1.01, 3))
def test_frequencies_with_least_freshnesses_equal_those_found_by_slow_bisection(
    some: list[Floored], extra: float
) -> None:
    least, bandwidth = floors_and_bandwidth(some, extra)
    p, rate, size, floor = (np.array(column) for column in zip(*some, strict=True))
    if not (p > 0).any():
        return
    found = refreshes(p, rate, bandwidth, size, floor).frequencies
    low, high = 1e-18, 1e6
    for _ in range(100):
        # At the optimum, one worth of bandwidth decides about all objects above their least frequencies.
        worth = math.sqrt(low * high)
        wanted = np.array([frequency_at(worth, one) for one in some])
        used = float(np.sum(size * np.maximum(wanted, least)))
        low, high = (worth, high) if used > bandwidth else (low, worth)
    oracle = np.maximum([frequency_at(low, one) for one in some], least)
    # Frequencies are not compared if an object is hardly worth a refresh, because differences of worth are then below float precision.
    flat = oracle < rate / 25
    assert found[~flat] == pytest.approx(oracle[~flat], rel=1e-5, abs=1e-6 * bandwidth)


def frequency_at(worth: float, one: Floored) -> float:
    """Return the frequency at which more bandwidth for the object is worth exactly `worth`; 0 if bandwidth is always worth less."""
    interest, rate, size, _ = one
    if interest == 0:
        return 0.0
    low, high = 1e-9, 1e9
    for _ in range(80):
        middle = math.sqrt(low * high)
        x = rate / middle
        slope = (1 - math.exp(-x)) / rate - math.exp(-x) / middle
        low, high = (middle, high) if interest / size * slope > worth else (low, middle)
    return low


@given(st.lists(floored, min_size=1, max_size=6), st.floats(0.01, 0.99))
def test_least_freshnesses_are_reduced_by_the_same_part_if_the_bandwidth_does_not_suffice(
    some: list[Floored], part: float
) -> None:
    p, rate, size, floor = (np.array(column) for column in zip(*some, strict=True))
    reduced = [(*one[:3], part * one[3]) for one in some]
    least = np.array([bisected_floor(rate, floor) for _, rate, _, floor in reduced])
    bandwidth = float(np.sum(size * least))
    if not bandwidth:
        return
    found = refreshes(p, rate, bandwidth, size, floor)
    assert found.part == pytest.approx(part, rel=1e-6)
    assert found.frequencies == pytest.approx(least, rel=1e-5)
    assert float(np.sum(size * found.frequencies)) == pytest.approx(bandwidth, rel=1e-9)
    assert found.needed > bandwidth


@given(st.lists(floored, min_size=1, max_size=6), st.floats(0.05, 10), st.floats(1, 10))
def test_more_bandwidth_refreshes_no_object_with_a_least_freshness_less_often(
    some: list[Floored], bandwidth: float, times: float
) -> None:
    p, rate, size, floor = (np.array(column) for column in zip(*some, strict=True))
    less, more = (refreshes(p, rate, one, size, floor).frequencies for one in (bandwidth, times * bandwidth))
    assert (more >= less * (1 - 1e-6)).all()
