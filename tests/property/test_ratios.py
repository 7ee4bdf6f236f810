"""The properties of `scheduler/ratios.py`, compared with exact fractions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.ratios import mean, ratio

VALUES = st.floats(0, 1) | st.sampled_from([0.0, 0.1, 1 / 3, 1 - 2**-53, 1.0])
WEIGHTS = st.floats(1e-3, 1e3) | st.sampled_from([1e-3, 0.1, 1 / 3, 1.0, 1e3])


@given(st.lists(st.tuples(VALUES, WEIGHTS), min_size=1, max_size=200))
def test_a_mean_is_exact_up_to_rounding_and_within_the_range_of_its_values(
    pairs: list[tuple[float, float]],
) -> None:
    values, weights = [value for value, _ in pairs], [weight for _, weight in pairs]
    exact = sum(Fraction(value) * Fraction(weight) for value, weight in pairs) / sum(map(Fraction, weights))
    assert min(values) <= mean(values, weights) <= max(values)
    assert mean(values, weights) == pytest.approx(float(exact), rel=1e-12, abs=1e-300)
    unweighted = float(sum(map(Fraction, values)) / len(values))
    assert min(values) <= mean(values) <= max(values)
    assert mean(values) == pytest.approx(unweighted, rel=1e-12, abs=1e-300)


@given(st.lists(VALUES, max_size=100), st.integers(1, 1000))
def test_the_ratio_stays_between_0_and_1_despite_rounding_errors_of_sums(
    before: list[float], ones: int
) -> None:
    old = sum(before)
    new = old
    for _ in range(ones):
        new += 1.0
    assert 0 <= ratio(new - old, ones) <= 1
    assert ratio(new - old, ones) == pytest.approx(1.0)


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_a_ratio_is_the_quotient_clamped_between_0_and_1(part: int, whole: int) -> None:
    assert ratio(part, whole) == min(1.0, float(Fraction(part, whole)))
    assert ratio(-part, whole) == 0.0


def test_division_by_zero_returns_the_callers_default() -> None:
    assert (ratio(0, 0), ratio(3, 0, 1.0), mean([]), mean([], empty=1.0)) == (0.0, 1.0, 0.0, 1.0)
    assert (mean([0.5], [0.0], 1.0), mean([0.25, 0.75], [0.0, 2.0])) == (1.0, 0.75)
