"""The numbered properties of `engine.data.sketches`, compared with exact answers over all values."""

import copy
import itertools
import math
import pickle
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.data.keys import from_python
from engine.data.schema import BOOLEAN, FLOAT64, INT64, STRING, DataType
from engine.data.sketches import (
    COUNTERS,
    QUANTILE_ERROR,
    SKETCHES,
    DistinctSketches,
    FrequentSketches,
    QuantileSketches,
    distinct_counts,
    growth_max,
    most_frequent,
    quantiles,
)

GROUPS = np.arange(3)
# Number of different values: few enough for an exact sketch, or more values than a sketch can distinguish.
spreads = st.sampled_from([5, 300, 2_000, 50_000])
seeds = st.integers(0, 2**32)


def values_of(seed: int, spread: int, type_: DataType) -> list[Any]:
    """Return up to 4,000 values, a few of which occur often."""
    chance = random.Random(seed)
    places = [min(int(chance.paretovariate(0.7)), spread) for _ in range(chance.choice([1, 40, 4_000]))]
    if type_ == STRING:
        return ["" if place == 2 else f"v{place}" for place in places]
    if type_ == FLOAT64:
        odd = {1: -0.0, 2: 0.0, 3: math.nan, 4: math.inf, 5: -math.inf, 6: -1e300, 7: 1e-310}
        return [odd.get(place, place * 0.37 - 20) for place in places]
    return [place == 1 for place in places] if type_ == BOOLEAN else [place - 3 for place in places]


types = st.sampled_from([INT64, FLOAT64, STRING, BOOLEAN])


def sketched(
    kind: type[Any], values: Sequence[Any], type_: DataType, panes: int, seed: int, copied: bool = False
) -> list[Any]:
    """Return one sketch per pane. The values are added to three groups in turn, in trains of random length."""
    chance, found = random.Random(seed), []
    for start, stop in itertools.pairwise(len(values) * pane // panes for pane in range(panes + 1)):
        sketches, at = kind(), start
        while at < stop:
            size = min(stop - at, chance.choice([1, 7, 100, 5_000]))
            before = sketches.bytes
            column = from_python(values[at : at + size], type_)
            sketches.add(np.arange(at, at + size) % 3, column)
            name = next(name for name, one in SKETCHES.items() if one is kind)
            assert sketches.bytes - before <= growth_max(name, column)
            if copied:
                sketches = chance.choice([copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])(
                    sketches
                )
            at += size
        found.append(sketches)
    return found


def merged(parts: Sequence[Any]) -> Any:
    """Return the sketches of several panes as one object, as the windows over these panes use it."""
    whole = type(parts[0])()
    for part in parts:
        whole.merge(part)
    return whole


@settings(max_examples=40)
@given(seeds, seeds, spreads, types, st.integers(1, 6))
def test_distinct_counts_depend_on_values_alone_within_five_standard_errors(
    seed: int, cut: int, spread: int, type_: DataType, panes: int
) -> None:
    values = values_of(seed, spread, type_)
    parts = sketched(DistinctSketches, values, type_, panes, cut)
    found = distinct_counts(merged(parts), GROUPS).tolist()
    groups = [values[one::3] for one in range(3)]
    other = [values[one::3] for one in range(3)]
    for one in other:
        random.Random(cut).shuffle(one)
    longest = max(map(len, other))
    shuffled = [one[place % len(one)] if one else None for place in range(longest) for one in other]
    if None not in shuffled:
        (again,) = sketched(DistinctSketches, shuffled, type_, 1, seed, copied=True)
        assert distinct_counts(again, GROUPS).tolist() == found
    for group, count in zip(groups, found, strict=True):
        exact = len({"NaN" if one != one else one for one in group})
        assert abs(count - exact) <= (0 if exact < 380 else 5 * 1.04 / 64 * exact)


@settings(max_examples=40)
@given(seeds, seeds, spreads, st.sampled_from([INT64, FLOAT64]), st.integers(1, 6), st.floats(0, 1))
def test_quantiles_depend_on_values_alone_within_one_percent(
    seed: int, cut: int, spread: int, type_: DataType, panes: int, part: float
) -> None:
    values = values_of(seed, spread, type_)
    parts = sketched(QuantileSketches, values, type_, panes, cut, copied=True)
    found, known = quantiles(merged(parts), GROUPS, part)
    (whole,) = sketched(QuantileSketches, values, type_, 1, seed)
    assert np.array_equal(found, quantiles(whole, GROUPS, part)[0], equal_nan=True)
    for group in range(3):
        exact = np.sort(np.array(values[group::3], float))
        assert known[group] == (len(exact) > 0)
        if len(exact):
            wanted = exact[math.floor(part * (len(exact) - 1))]
            near = math.isclose(found[group], wanted, rel_tol=QUANTILE_ERROR * 1.0001 / 0.99, abs_tol=3e-308)
            assert near or (math.isnan(wanted) and math.isnan(found[group]))


@settings(max_examples=40)
@given(seeds, seeds, spreads, types, st.integers(1, 6), st.integers(1, 20))
def test_counts_of_the_most_frequent_values_are_exact_for_few_values_and_close_for_many(
    seed: int, cut: int, spread: int, type_: DataType, panes: int, most: int
) -> None:
    values = values_of(seed, spread, type_)
    parts = sketched(FrequentSketches, values, type_, panes, cut)
    found = most_frequent(merged(parts), GROUPS, most)
    again = sketched(FrequentSketches, values, type_, panes, seed, copied=True)
    assert most_frequent(merged(again), GROUPS, most) == found
    for group, listed in enumerate(found):
        exact = Counter(str(0.0 if one == 0 and type_ == FLOAT64 else one) for one in values[group::3])
        counts = [(text, int(count)) for text, _, count in (one.rpartition(":") for one in (listed or "").split(", "))] if listed else []  # fmt: skip
        off = 3.5 / 1024 * exact.total() if len(exact) > COUNTERS else 0
        assert len(counts) == min(most, len(exact)) or off
        assert all(abs(count - exact[text]) <= off for text, count in counts)
        least = min((count for _, count in counts), default=0)
        missing = {text: count for text, count in exact.items() if text not in dict(counts)}
        assert all(count <= least + 2 * off for count in missing.values())


def test_sketches_stay_with_their_groups_when_the_numbers_of_the_groups_change() -> None:
    for name, kind in SKETCHES.items():
        sketches = kind()
        sketches.add(np.array([1, 4, 4]), from_python([3, 5, 5], INT64))
        mapped = np.array([-1, 0, 0, 0, 1])
        sketches.recoded(mapped)
        match sketches:
            case DistinctSketches():
                assert distinct_counts(sketches, np.arange(2)).tolist() == [1, 1], name
            case FrequentSketches():
                assert most_frequent(sketches, np.arange(2), 2) == ["3:1", "5:2"], name
            case QuantileSketches():
                assert quantiles(sketches, np.arange(2), 1.0)[0] == pytest.approx([3, 5], rel=0.01), name


def test_sketches_of_texts_accept_all_unicode_characters() -> None:
    sketches = FrequentSketches()
    sketches.add(np.zeros(3, np.intp), from_python(["ß:,", "", "ß:,"], STRING))
    assert most_frequent(sketches, np.array([0]), 5) == ["ß:,:2, :1"]
    distinct = DistinctSketches()
    distinct.add(np.zeros(2, np.intp), from_python(["", "0"], STRING))
    assert distinct_counts(distinct, np.array([0])).tolist() == [2]
