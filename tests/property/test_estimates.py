"""Estimates of counts and sums as they would be without shedding, and the standard errors of these estimates.

1. Estimates are right on average, and vary as much as their standard errors say.
2. Estimates follow Horvitz and Thompson: a group's sum is Σ x/k with variance Σ x²(1 − k)/k², where k is the
   kept fraction of a tuple.
3. Without shedding, an estimate equals the count or the sum, with an error of 0, whatever the values.
4. The way the input is cut into trains makes no difference.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.sql import plan_query
from tests.support.query_grammar import HALF_SECOND_US
from tests.support.query_runs import CATALOG, Row, Run

ESTIMATES = (
    "SCALED(COUNT(*)) AS n, SCALED_ERROR(COUNT(*)) AS dn, SCALED(COUNT(x)) AS c, SCALED_ERROR(COUNT(x)) AS dc,"
    " SCALED(SUM(x)) AS s, SCALED_ERROR(SUM(x)) AS ds"
)
WINDOWED = f"SELECT k, {ESTIMATES} FROM t [RANGE {{}} SECONDS SLIDE 2 SECONDS] GROUP BY k"
LAST_ROWS = f"SELECT k, {ESTIMATES} FROM t [ROWS 4 SLIDE 3] GROUP BY k"

# Tuple of a stream: time in half seconds, group, value, kept fraction.
Shed = tuple[int, int, float | None, float]
Estimate = tuple[float | None, ...]


def row(some: Shed) -> Row:
    return {"ts": some[0] * HALF_SECOND_US, "id": 0, "k": some[1], "g": "a", "x": some[2], "n": 1}


def ran(
    sql: str, some: Sequence[Shed], sizes: Sequence[int] = (), train_max: int = 10_000
) -> list[tuple[Any, ...]]:
    """Offer the tuples in trains of these sizes, and return the query's answers. A train ends early where the kept fraction changes."""
    run, left = Run([plan_query("q", sql, CATALOG)], train_max), iter(sizes)
    for kept, group in itertools.groupby(some, lambda one: one[3]):
        members = [row(one) for one in group]
        while members:
            size = next(left, len(members))
            run.offer("t", members[:size], kept)
            members = members[size:]
        run.step(3)
    run.finish()
    return run.rows("q")


# -- estimates over many random trials ----------------------------------------------------------------------

TRIALS, PEOPLE = 400, 600


@pytest.mark.parametrize("kept", [(0.5, 0.5), (0.2, 0.7), (0.1, 1.0)])
def test_scaled_aggregates_are_right_on_average_and_vary_by_their_standard_errors(
    kept: tuple[float, float],
) -> None:
    chance = np.random.default_rng(20)
    groups, values = chance.integers(0, 2, PEOPLE), chance.normal(3.0, 5.0, PEOPLE)
    # Every window samples the same population. `kept` has the kept fractions of the first and the second half of each window.
    some: list[Shed] = []
    for trial in range(TRIALS):
        for half in (0, 1):
            ours = np.arange(half, PEOPLE, 2)
            ours = ours[chance.random(len(ours)) < kept[half]]
            some += [(4 * trial + 2 * half, int(groups[one]), float(values[one]), kept[half]) for one in ours]
    found = ran(WINDOWED.format(2), some)
    for group in (0, 1):
        mine = np.array([one[3:] for one in found if one[2] == group])
        assert len(mine) == TRIALS
        people, total = int((groups == group).sum()), float(values[groups == group].sum())
        for place, truth in ((0, people), (2, people), (4, total)):
            off, said = mine[:, place] - truth, math.sqrt((mine[:, place + 1] ** 2).mean())
            assert abs(off.mean()) < 4 * off.std() / math.sqrt(TRIALS)
            # The standard deviation of 400 trials has a relative error of 1/√800 = 0.035. The tolerance is three times this error.
            assert off.std() == pytest.approx(said, rel=0.106)


# -- estimates compared with the formulas of Horvitz and Thompson -------------------------------------------


def estimates(some: Sequence[Shed]) -> dict[int, Estimate]:
    """Return the estimates in an answer, by group."""
    groups: dict[int, list[Shed]] = defaultdict(list)
    for one in some:
        groups[one[1]].append(one)
    return {key: estimate(members) for key, members in groups.items()}


def estimate(members: Sequence[Shed]) -> Estimate:
    known = [(x, kept) for _, _, x, kept in members if x is not None]
    counts = (spread([(1.0, one[3]) for one in members]), spread([(1.0, kept) for _, kept in known]))
    return (*counts[0], *counts[1], *(spread(known) if known else (None, None)))


def spread(values: Sequence[tuple[float, float]]) -> tuple[float, float]:
    variance = math.fsum(x * x * (1 - kept) / kept**2 for x, kept in values)
    return math.fsum(x / kept for x, kept in values), math.sqrt(variance)


def near(found: Sequence[Any], wanted: Sequence[Any]) -> bool:
    return len(found) == len(wanted) and all(
        (one is None and other is None)
        or (one is not None and other is not None and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9))
        for one, other in zip(found, wanted, strict=True)
    )


shed = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.integers(0, 2),
        st.one_of(st.none(), st.integers(-40, 40).map(lambda tenth: tenth / 10)),
        st.sampled_from([1.0, 0.5, 0.3]),
    ),
    min_size=1,
    max_size=30,
).map(lambda some: sorted(some, key=lambda one: one[0]))
sizes = st.lists(st.integers(1, 5), max_size=12)


@given(shed, sizes, st.integers(1, 9), st.sampled_from([2, 4]))
def test_scaled_aggregates_of_time_windows_equal_the_formula_however_the_input_is_cut(
    some: list[Shed], cuts: list[int], train_max: int, range_: int
) -> None:
    found = {
        (one[1] // HALF_SECOND_US, one[2]): one[3:]
        for one in ran(WINDOWED.format(range_), some, cuts, train_max)
    }
    wanted = {
        (end, group): one
        for end in range(4, 40, 4)
        for group, one in estimates([one for one in some if end - 2 * range_ <= one[0] < end]).items()
    }
    assert found.keys() == wanted.keys()
    assert [one for one in wanted if not near(found[one], wanted[one])] == []


@given(shed, sizes, st.integers(1, 9))
def test_scaled_aggregates_of_row_windows_equal_the_formula_however_the_input_is_cut(
    some: list[Shed], cuts: list[int], train_max: int
) -> None:
    found = ran(LAST_ROWS, some, cuts, train_max)
    wanted = [
        (group, *one)
        for end in range(3, len(some) + 1, 3)
        for group, one in sorted(estimates(some[max(0, end - 4) : end]).items())
    ]
    assert len(found) == len(wanted)
    assert all(near(one, other) for one, other in zip(found, wanted, strict=True))


# -- estimates of extreme values ----------------------------------------------------------------------------


@pytest.mark.parametrize("x", [1.5, math.inf, math.nan, 1e308])
def test_without_shedding_an_estimate_is_exact_and_its_error_is_zero(x: float) -> None:
    (found,) = ran(WINDOWED.format(2), [(0, 1, x, 1.0), (1, 1, 2.0, 1.0)])
    assert repr(found[3:]) == repr((2.0, 0.0, 2.0, 0.0, x + 2.0, 0.0))


def test_scaled_sums_of_integers_too_large_for_floats_are_exact_without_shedding() -> None:
    run = Run([plan_query("q", "SELECT SCALED(SUM(n)) AS s, SUM(n) AS n FROM t [RANGE 2 SECONDS]", CATALOG)])
    run.offer("t", [{**row((0, 1, 1.0, 1.0)), "n": n} for n in (2**62, 1, -(2**62))])
    run.finish()
    assert run.rows("q")[0][2:] == (1.0, 1)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ([1e200, 1e200], 2e200),
        ([1e-200, 1e-200], 2e-200),
        ([0.0, 0.0], 0.0),
        ([math.inf, 1.0], math.inf),
        ([math.inf, math.nan], math.nan),
        ([math.nan, 1.0], math.nan),
    ],
)
@pytest.mark.parametrize("size", [1, 2])
def test_the_error_of_a_scaled_sum_is_right_although_squares_of_its_values_overflow(
    values: list[float], error: float, size: int
) -> None:
    (found,) = ran(WINDOWED.format(2), [(0, 1, x, 0.5) for x in values], [size] * 2)
    assert found[-1] == pytest.approx(error, nan_ok=True, rel=1e-12)


def test_if_all_values_are_null_the_scaled_sum_is_null_and_the_scaled_count_is_zero() -> None:
    assert [one[5:] for one in ran(WINDOWED.format(2), [(0, 1, None, 0.5)])] == [(0.0, 0.0, None, None)]


def test_having_can_select_groups_by_the_error_of_a_scaled_count() -> None:
    having = (
        "SELECT k, SCALED(COUNT(*)) AS n FROM t [RANGE 2 SECONDS] GROUP BY k"
        " HAVING SCALED_ERROR(COUNT(*)) < 0.5 * SCALED(COUNT(*))"
    )
    found = ran(having, [(0, 1, 1.0, 0.5)] + [(0, 2, 1.0, 0.5)] * 9)
    assert [one[2:] for one in found] == [(2, 18.0)]


def test_a_filter_clause_applies_to_scaled_aggregates() -> None:
    sql = "SELECT SCALED(COUNT(*)) FILTER (WHERE x > 1) AS n, SCALED_ERROR(SUM(x)) FILTER (WHERE x > 1) AS d FROM t [RANGE 2 SECONDS]"
    found = ran(sql, [(0, 1, 1.0, 0.5), (0, 1, 3.0, 0.5), (1, 1, 4.0, 0.5)])
    assert [one[2:] for one in found] == [(4.0, pytest.approx(math.sqrt(50)))]
