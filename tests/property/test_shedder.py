"""The properties listed in loadshed/shedder.py, on random batches. Fairness is compared with an independent computation."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.classes.priority_class import Victim
from loadshed.shedder import Shedder, fair_level, ranks

victims = st.sampled_from(["random", "oldest", "newest", "fair"])
even = st.sampled_from(["oldest", "newest"])
seeds = st.integers(0, 10**6)
keeps = st.floats(0.05, 1) | st.just(1.0)
keys = st.integers(0, 5) | st.sampled_from([-1, -(2**63), 2**63 - 1])
batches = st.lists(st.tuples(keeps, st.lists(keys, max_size=60), st.booleans()), max_size=20)
"""Batches: each has a keep fraction, the arriving keys, and True if a load cycle ends after the batch."""
counts = st.lists(st.integers(1, 50) | st.integers(1, 10**6), min_size=1, max_size=30)

Batches = Sequence[tuple[float, list[int], bool]]


def admitted(victim: Victim, seed: int, arrivals: Batches) -> list[tuple[list[int], int]]:
    """Return, for each batch, the positions of the accepted tuples, and the number of oldest tuples dropped from the queue."""
    shedder, fates = Shedder(victim, np.random.default_rng(seed)), []
    for keep, arrived, cycle_ends in arrivals:
        shedder.keep = keep
        admission = shedder.admit(len(arrived), np.array(arrived, np.int64))
        kept = range(len(arrived)) if admission.kept is None else admission.kept.tolist()
        fates.append((list(kept), admission.evict_oldest))
        if cycle_ends:
            shedder.end_cycle()
    return fates


def level_by_bisection(demands: Sequence[int], keep: float) -> float:
    """Return the limit per key at which all keys together use up the budget. Each key gets its demand, but at most the limit."""
    budget, low, high = keep * sum(demands), 0.0, float(max(demands))
    for _ in range(200):
        middle = (low + high) / 2
        if sum(min(demand, middle) for demand in demands) < budget:
            low = middle
        else:
            high = middle
    return high


@given(victims, seeds, batches)
def test_each_tuple_has_one_decision_and_evictions_never_exceed_arrivals(
    victim: Victim, seed: int, arrivals: Batches
) -> None:
    for (keep, arrived, _), (kept, evicted) in zip(arrivals, admitted(victim, seed, arrivals), strict=True):
        assert kept == sorted(set(kept) & set(range(len(arrived))))
        assert 0 <= evicted <= (len(kept) if victim == "oldest" else 0)
        if keep == 1:
            assert (len(kept), evicted) == (len(arrived), 0)


@given(victims, seeds, batches)
def test_equal_seeds_and_arrivals_drop_the_same_tuples(victim: Victim, seed: int, arrivals: Batches) -> None:
    assert admitted(victim, seed, arrivals) == admitted(victim, seed, arrivals)


@given(even, batches)
def test_victims_newest_and_oldest_keep_the_kept_fraction_to_within_one_tuple(
    victim: Victim, arrivals: Batches
) -> None:
    due = kept = 0.0
    for (keep, arrived, _), (positions, evicted) in zip(arrivals, admitted(victim, 0, arrivals), strict=True):
        due += keep * len(arrived)
        kept += len(positions) - evicted
        assert -1e-6 <= kept - due < 1 + 1e-6


@given(st.floats(0.05, 0.99), st.lists(st.integers(0, 60), max_size=20))
def test_victim_newest_drops_the_same_tuples_however_they_are_cut_into_batches(
    keep: float, sizes: list[int]
) -> None:
    pieces = admitted("newest", 0, [(keep, [0] * size, False) for size in sizes])
    begins = accumulate(sizes, initial=0)
    kept = [begin + place for begin, (places, _) in zip(begins, pieces, strict=False) for place in places]
    assert [(kept, 0)] == admitted("newest", 0, [(keep, [0] * sum(sizes), False)])


@given(batches)
def test_victim_oldest_drops_as_many_tuples_as_victim_newest(arrivals: Batches) -> None:
    newest, oldest = admitted("newest", 0, arrivals), admitted("oldest", 0, arrivals)
    assert [len(kept) for kept, _ in newest] == [len(kept) - evicted for kept, evicted in oldest]


@given(st.sampled_from(["random", "fair"]), seeds, st.floats(0.05, 0.99), st.integers(1, 6))
def test_over_many_tuples_the_kept_fraction_equals_keep(
    victim: Victim, seed: int, keep: float, distinct: int
) -> None:
    rng = random.Random(seed)
    cycles = [(keep, rng.choices(range(distinct), [1, 2, 4, 8, 16, 32][:distinct], k=300), True)] * 20
    kept = sum(len(positions) for positions, _ in admitted(victim, seed, cycles))
    # The tolerance is six standard deviations of independent random decisions on each tuple. A larger difference means unfair shedding.
    assert kept == pytest.approx(keep * 6000, abs=6 * math.sqrt(6000 * keep * (1 - keep)) + 1)


@given(counts, st.floats(0.01, 0.99))
def test_tuples_kept_at_the_fair_level_add_up_to_the_kept_fraction(demands: list[int], keep: float) -> None:
    level = fair_level(np.array(demands), keep)
    assert level == pytest.approx(level_by_bisection(demands, keep), rel=1e-9)
    assert sum(min(demand, level) for demand in demands) == pytest.approx(keep * sum(demands))


@given(
    st.lists(keys, min_size=1, max_size=200), st.floats(0.05, 0.95), seeds, st.randoms(use_true_random=False)
)
def test_victim_fair_drops_no_tuple_of_a_key_below_the_fair_level(
    arrived: list[int], keep: float, seed: int, shuffle: random.Random
) -> None:
    again = shuffle.sample(arrived, len(arrived))
    kept = admitted("fair", seed, [(keep, arrived, True), (keep, again, True)])[1][0]
    demand, granted = Counter(again), Counter(again[position] for position in kept)
    level = level_by_bisection(list(demand.values()), keep)
    assert all(granted[key] == count for key, count in demand.items() if count < level - 1e-6)


@given(st.integers(1, 200), st.integers(1, 200), st.floats(0.05, 0.95), seeds)
def test_victim_fair_keeps_tuples_of_a_new_key_up_to_the_fair_level_of_the_last_load_cycle(
    known: int, new: int, keep: float, seed: int
) -> None:
    kept = admitted("fair", seed, [(keep, [1] * known, True), (keep, [2] * new, False)])[1][0]
    level = keep * known
    assert math.floor(min(new, level)) <= len(kept) <= math.ceil(min(new, level))


@given(st.lists(st.integers(0, 2**15), min_size=1, max_size=100))
def test_the_rank_of_a_list_entry_is_the_number_of_equal_entries_before_it(places: list[int]) -> None:
    before = [places[:number].count(place) for number, place in enumerate(places)]
    assert ranks(np.array(places)).tolist() == before
