"""Outputs of each kind of simulated operator, compared with functions that compute the output from the whole input at once.

The output must not depend on how the input is cut into trains, nor on which side of a join runs first.
"""

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.scenario.scenario import AggregateBox, JoinBox, LookupBox, OperatorModel, ProjectBox, SelectBox
from sim.run.networks import Box, Drift
from sim.run.operator_models import EXPIRE_AT, Effect, build_effect, join_sides, since


def effect(model: OperatorModel | None, evenly: bool = False, seed: int = 1) -> Effect:
    return build_effect(Box("box", "query", 0, 0, model), random.Random(seed), evenly)


def select(selectivity: float) -> SelectBox:
    return SelectBox(kind="select", selectivity=selectivity, tuple_us=1)


def lookup(selectivity: float) -> LookupBox:
    return LookupBox(kind="lookup", selectivity=selectivity, tuple_us=1)


def aggregate(slide_s: float, groups: int = 1, result_us: float = 0) -> AggregateBox:
    return AggregateBox(
        kind="aggregate", range_s=8, slide_s=slide_s, groups=groups, tuple_us=1, result_us=result_us
    )


def cuts(values: Sequence[float], places: Sequence[int]) -> Iterator[list[float]]:
    """Yield the values as trains, which begin at the given positions."""
    edges = sorted({0, len(values), *(place % (len(values) + 1) for place in places)})
    for start, end in itertools.pairwise(edges):
        yield list(values[start:end])


def passed(one: Effect, values: Sequence[float], places: Sequence[int] = ()) -> list[float]:
    return [arrival for train in cuts(values, places) for arrival in one(train)[0]]


# All times are multiples of 1/8 s, which a float stores exactly, so that tests may compare times with ==.
eighths = st.integers(0, 160).map(lambda number: number / 8)
ascending = st.lists(eighths, min_size=1, max_size=60).map(sorted)
places = st.lists(st.integers(0, 60), max_size=12)


# -- operators that process each tuple independently of other tuples ---------------------------------------


@pytest.mark.parametrize("model", [None, ProjectBox(kind="project", tuple_us=1)])
def test_sources_and_projections_pass_every_tuple_at_no_extra_cost(model: OperatorModel | None) -> None:
    assert effect(model)([1.0, 2.0, 2.0]) == ([1.0, 2.0, 2.0], 0.0)


@pytest.mark.parametrize("selectivity", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("evenly", [False, True])
def test_a_filter_keeps_the_expected_part_of_tuples_in_their_order(selectivity: float, evenly: bool) -> None:
    values = [float(number) for number in range(20_000)]
    kept = passed(effect(select(selectivity), evenly), values, range(0, 20_000, 7))
    assert kept == sorted(set(kept))
    assert len(kept) / 20_000 == pytest.approx(selectivity, abs=0 if evenly else 0.015)


def test_a_random_filter_keeps_a_tuple_independently_of_the_tuple_before() -> None:
    kept = passed(effect(select(0.3)), [float(number) for number in range(50_000)])
    neighbours_kept = sum(here + 1 == there for here, there in itertools.pairwise(kept)) / len(kept)
    assert neighbours_kept == pytest.approx(0.3, abs=0.015)


@given(st.floats(0, 4), st.integers(1, 60), places)
def test_with_even_choice_the_number_of_outputs_is_always_the_expected_number_rounded(
    selectivity: float, tuples: int, where: list[int]
) -> None:
    values = [float(number) for number in range(tuples)]
    out = Counter(passed(effect(lookup(selectivity), evenly=True), values, where))
    for number in range(tuples):
        so_far = sum(count for value, count in out.items() if value <= number)
        assert abs(so_far - selectivity * (number + 1)) <= 0.5 + 1e-9


def test_a_filter_with_even_choice_and_selectivity_a_third_keeps_the_second_of_three() -> None:
    assert effect(select(0.33), evenly=True)([1.0, 2.0, 3.0]) == ([2.0], 0.0)


def test_a_lookup_with_several_matches_repeats_a_tuple_in_place() -> None:
    values = [float(number) for number in range(20_000)]
    out = passed(effect(lookup(2.25)), values, range(0, 20_000, 11))
    assert out == sorted(out)
    counts = Counter(out)
    assert set(counts) == set(values)
    assert set(counts.values()) == {2, 3}
    assert len(out) / 20_000 == pytest.approx(2.25, abs=0.015)


def test_a_lookup_with_a_whole_number_of_matches_repeats_exactly_that_often() -> None:
    assert effect(lookup(3))([1.0, 2.0]) == ([1.0] * 3 + [2.0] * 3, 0.0)


# -- aggregates over windows -------------------------------------------------------------------------------


def test_the_first_tuple_at_or_after_the_end_of_a_slide_closes_its_window() -> None:
    one = effect(aggregate(slide_s=2))
    assert one([0.5, 1.0, 1.875]) == ([], 0.0)
    assert one([2.0, 3.0, 3.5]) == ([2.0], 0.0)
    assert one([4.25, 5.0, 6.125]) == ([4.25, 6.125], 0.0)


def test_a_window_has_one_result_per_group_and_each_result_takes_time() -> None:
    out, extra_s = effect(aggregate(slide_s=2, groups=3, result_us=50))([1.0, 2.0, 4.5])
    assert out == [2.0] * 3 + [4.5] * 3
    assert extra_s == pytest.approx(6 * 50e-6)


def test_slides_without_a_tuple_have_no_result() -> None:
    assert effect(aggregate(slide_s=1, groups=2))([0.5, 9.25, 9.5]) == ([9.25, 9.25], 0.0)


def test_windows_end_at_whole_slides_whatever_the_first_tuple() -> None:
    assert effect(aggregate(slide_s=2))([7.0, 7.5, 8.0, 9.875, 10.0]) == ([8.0, 10.0], 0.0)


def test_a_tuple_older_than_a_clock_jump_closes_no_window() -> None:
    one = effect(aggregate(slide_s=1))
    assert one([5.5, 6.0]) == ([6.0], 0.0)
    assert one([2.0, 3.0, 6.5, 7.0]) == ([7.0], 0.0)


@given(ascending, places, st.sampled_from([0.25, 1.0, 1.5, 4.0]), st.integers(1, 3))
def test_a_tuple_closes_a_window_if_it_belongs_to_a_later_slide_than_the_tuple_before(
    values: list[float], where: list[int], slide_s: float, groups: int
) -> None:
    slide = [math.floor(value / slide_s) for value in values]
    closing = [value for place, value in enumerate(values) if place and slide[place] > slide[place - 1]]
    expected = [value for value in closing for _ in range(groups)]
    assert passed(effect(aggregate(slide_s, groups)), values, where) == expected


# -- data with a distribution that drifts ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "kept"),
    [
        (0.0, [pytest.approx(500, abs=60), pytest.approx(160, abs=50), 0]),
        (0.5, [1000, 1000, pytest.approx(500, abs=60)]),
        (1.0, [pytest.approx(500, abs=60), pytest.approx(840, abs=50), 1000]),
    ],
)
def test_the_part_of_drifting_data_that_a_filter_keeps_depends_on_the_value_range_of_the_filter(
    place: float, kept: list[object]
) -> None:
    # The filters pass values of [0, 50], [25, 75] and [50, 100]. The mean of the values is 50 at 0 s, 55 at 5 s and 75 at 25 s.
    drift = Drift(std=5.0, seconds=100.0, place=place)
    model = SelectBox(kind="select", selectivity=0.5, tuple_us=1)
    chosen = build_effect(Box("select", "query", 0, 0, model, drift=drift), random.Random(1), False)
    assert [len(chosen([at] * 1000)[0]) for at in (0.0, 5.0, 25.0)] == kept


# -- joins of two streams ----------------------------------------------------------------------------------


def sides(
    window_s: float, selectivity: float = 1.0, match_us: float = 0, evenly: bool = False, seed: int = 1
) -> tuple[Effect, Effect]:
    model = JoinBox(kind="join", window_s=window_s, selectivity=selectivity, tuple_us=1, match_us=match_us)
    box = Box("join", "query", 0, 0, model)
    return join_sides(box, box, random.Random(seed), evenly)


def pairs(left: Sequence[float], right: Sequence[float], window_s: float) -> list[float]:
    """Return the arrival times of all pairs of tuples within the window, found by comparing each left tuple with each right tuple."""
    return sorted(max(one, other) for one in left for other in right if abs(one - other) <= window_s)


@given(
    ascending,
    ascending,
    places,
    places,
    st.lists(st.booleans(), min_size=26, max_size=26),
    st.sampled_from([0.125, 0.5, 1.0, 5.0]),
    st.booleans(),
)
def test_a_join_finds_every_pair_within_the_window_once_in_any_order_of_turns(
    left: list[float],
    right: list[float],
    left_cuts: list[int],
    right_cuts: list[int],
    turns: list[bool],
    window_s: float,
    evenly: bool,
) -> None:
    trains = {True: list(cuts(left, left_cuts)), False: list(cuts(right, right_cuts))}
    on_left, on_right = sides(window_s, evenly=evenly)
    found: list[float] = []
    for turn in turns + [True] * 13 + [False] * 13:
        if trains[turn]:
            found += (on_left if turn else on_right)(trains[turn].pop(0))[0]
    assert not trains[True]
    assert not trains[False]
    assert sorted(found) == pairs(left, right, window_s)


def test_a_pair_exactly_as_far_apart_as_the_window_matches_and_has_the_later_arrival() -> None:
    on_left, on_right = sides(window_s=1)
    assert on_left([1.0, 4.0]) == ([], 0.0)
    assert on_right([2.0, 2.125, 3.0]) == ([2.0, 4.0], 0.0)


def test_the_wait_of_a_pair_for_its_partner_is_no_slowdown() -> None:
    # For a tuple that does not wait, the left side of the join takes 2 s, and the right side 3 s.
    model = JoinBox(kind="join", window_s=100, selectivity=1, tuple_us=1)
    box = Box("join", "query", 0, 0, model)
    left, right = join_sides(box, box, random.Random(1), False, (2.0, 3.0))
    left([10.0])
    pairs, _ = right([10.0, 11.0, 50.0])
    # The first right tuple waits for no earlier tuple.
    # The second right tuple arrives 1 s later, while the left side still processes the left tuple.
    # The third right tuple arrives after the left side has finished the left tuple.
    assert [(float(one), since(one)) for one in pairs] == [(10.0, 10.0), (11.0, 10.0), (50.0, 48.0)]
    pairs, _ = left([90.0])
    assert [since(one) for one in pairs] == [87.0, 87.0, 87.0]
    assert since(4.0) == 4.0


def test_every_pair_of_a_join_costs_time() -> None:
    on_left, on_right = sides(window_s=1, match_us=30)
    assert on_left([1.0, 1.5]) == ([], 0.0)
    out, extra_s = on_right([1.25, 9.0])
    assert sorted(out) == [1.25, 1.5]
    assert extra_s == pytest.approx(2 * 30e-6)


def test_a_join_forgets_only_tuples_that_no_later_tuple_can_match() -> None:
    on_left, on_right = sides(window_s=0.5)
    left = [number / 64 for number in range(4 * EXPIRE_AT)]
    right = [number / 8 + 0.001 for number in range(EXPIRE_AT // 2)]
    # At first the right side is far behind the left side; then it catches up.
    found = passed(on_left, left, range(0, len(left), 100))
    found += passed(on_right, right, range(0, len(right), 10))
    assert sorted(found) == pairs(left, right, 0.5)


@pytest.mark.parametrize("evenly", [False, True])
@pytest.mark.parametrize("selectivity", [0.004, 0.3])
def test_the_part_of_pairs_that_a_join_emits_equals_its_selectivity(selectivity: float, evenly: bool) -> None:
    rng = random.Random(3)
    left, right = (sorted(rng.uniform(0, 40) for _ in range(2_000)) for _ in range(2))
    on_left, on_right = sides(0.5, selectivity, evenly=evenly)
    found = 0
    for start in range(0, 40, 2):
        for one, values in ((on_left, left), (on_right, right)):
            train = [value for value in values if start <= value < start + 2]
            found += len(one(train)[0])
    expected = selectivity * len(pairs(left, right, 0.5))
    assert found == pytest.approx(expected, abs=1.5 if evenly else 4 * expected**0.5)


def test_a_tuple_finds_each_partner_at_most_once() -> None:
    on_left, on_right = sides(window_s=4, selectivity=0.75)
    later = [10 + number / 8 for number in range(16)]
    on_left(later)
    # Each of the sixteen later tuples meets the single earlier tuple at most once.
    counts = Counter(on_right([9.0])[0])
    assert sum(counts.values()) == 12
    assert set(counts.values()) == {1}


def test_a_join_finds_all_pairs_after_the_clock_has_jumped_back() -> None:
    on_left, on_right = sides(window_s=0.5)
    before, after = [100.0 + n / 8 for n in range(40)], [90.0 + n / 8 for n in range(40)]
    found = passed(on_left, before + after, range(0, 80, 3))
    found += passed(on_right, before + after, range(0, 80, 5))
    assert sorted(found) == pairs(before + after, before + after, 0.5)


def test_a_join_is_refused_where_an_operator_with_one_input_is_expected() -> None:
    with pytest.raises(AssertionError, match="share their windows"):
        effect(JoinBox(kind="join", window_s=1, selectivity=1, tuple_us=1))
