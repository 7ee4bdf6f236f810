"""The tuples that each victim rule drops when a class sheds a part of its input."""

from collections import Counter, deque
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

import loadshed.shedder
from configs.classes.priority_class import Victim
from loadshed.shedder import Shedder, fair_level

VICTIMS: list[Victim] = ["random", "oldest", "newest", "fair"]


def shedder(victim: Victim, keep: float = 1.0, seed: int = 1) -> Shedder:
    return Shedder(victim, np.random.default_rng(seed), keep)


def kept_of(one: Shedder, tuples: int) -> list[int]:
    """Return the positions of the accepted tuples in a batch without keys."""
    kept = one.admit(tuples).kept
    return list(range(tuples)) if kept is None else kept.tolist()


def keys_kept(one: Shedder, keys: Sequence[int]) -> list[int]:
    """Return the keys of the tuples that the shedder accepts."""
    kept = one.admit(len(keys), np.array(keys, np.int64)).kept
    return list(keys) if kept is None else [keys[place] for place in kept.tolist()]


@pytest.mark.parametrize("victim", VICTIMS)
def test_nothing_is_dropped_while_keep_is_one(victim: Victim) -> None:
    admission = shedder(victim).admit(5, np.array([1, 1, 2, 2, 3]))
    assert (admission.kept, admission.evict_oldest) == (None, 0)


@pytest.mark.parametrize("victim", ["random", "oldest", "newest"])
def test_no_random_number_is_drawn_while_keep_is_one(victim: Victim) -> None:
    one, asked = shedder(victim), np.random.default_rng(1)
    one.admit(1000)
    assert one.rng.random() == asked.random()


@pytest.mark.parametrize("victim", VICTIMS)
def test_an_empty_batch_changes_nothing(victim: Victim) -> None:
    one = shedder(victim, 0.5)
    assert keys_kept(one, []) == kept_of(one, 0) == []
    one.end_cycle()
    assert keys_kept(one, []) == kept_of(one, 0) == []


def test_victim_newest_drops_arrivals_at_even_distances() -> None:
    assert kept_of(shedder("newest", 0.75), 12) == [0, 1, 2, 4, 5, 6, 8, 9, 10]


def test_victim_oldest_accepts_all_arrivals_and_drops_as_many_old_tuples_from_the_queue() -> None:
    admission = shedder("oldest", 0.75).admit(12)
    assert (admission.kept, admission.evict_oldest) == (None, 3)


@pytest.mark.parametrize("keep", [0.05, 0.3, 0.5, 0.9, 0.99])
def test_victim_newest_drops_at_distances_that_differ_by_at_most_one_tuple(keep: float) -> None:
    kept = kept_of(shedder("newest", keep), 1000)
    dropped = [place for place in range(1000) if place not in kept]
    gaps = {later - earlier for earlier, later in pairwise(dropped)}
    assert max(gaps) - min(gaps) <= 1
    assert abs(len(kept) - 1000 * keep) <= 1


def test_dropping_the_oldest_leaves_the_freshest_in_the_queue() -> None:
    queue: deque[int] = deque()
    oldest = shedder("oldest", 0.25)
    for batch in range(10):
        admission = oldest.admit(4)
        assert admission.kept is None
        queue.extend(range(4 * batch, 4 * batch + 4))
        for _ in range(admission.evict_oldest):
            queue.popleft()
    assert list(queue) == list(range(30, 40))


def test_victim_random_drops_the_same_tuples_for_the_same_seed() -> None:
    kept = [kept_of(shedder("random", 0.5, seed), 100) for seed in (7, 7, 8)]
    assert kept[0] == kept[1] != kept[2]


def test_victim_random_drops_every_position_of_a_batch_equally_often() -> None:
    one = shedder("random", 0.7)
    kept = Counter(place for _ in range(2000) for place in kept_of(one, 10))
    assert all(1300 < kept[place] < 1500 for place in range(10))


def test_victim_fair_drops_like_victim_random_if_tuples_have_no_keys() -> None:
    assert kept_of(shedder("fair", 0.5), 100) == kept_of(shedder("random", 0.5), 100)


# --- the victim rule `fair` -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "keep", "level"),
    [
        ([10, 10, 10], 0.5, 5.0),
        ([1, 1, 98], 0.5, 48.0),
        ([2, 4, 94], 0.03, 1.0),
        ([7], 0.5, 3.5),
        ([3, 5], 1.0, 5.0),
        ([3, 5], 0.0, 0.0),
        ([], 0.5, float("inf")),
    ],
)
def test_the_fair_level_is_the_most_tuples_that_any_key_may_keep(
    counts: list[int], keep: float, level: float
) -> None:
    assert fair_level(np.array(counts), keep) == pytest.approx(level)


def kept_by_key(one: Shedder, keys: Sequence[int], cycles: int) -> Counter[int]:
    """Return how many tuples of each key are accepted. The first cycle does not count, because the shedder only learns keys in it."""
    kept: Counter[int] = Counter()
    for number in range(cycles + 1):
        admitted = keys_kept(one, keys)
        one.end_cycle()
        if number:
            kept.update(admitted)
    return kept


BUSY, CALM, QUIET, NEW = 1, 2, 3, 4


def test_only_the_busy_key_that_causes_an_overload_loses_tuples() -> None:
    kept = kept_by_key(shedder("fair", 0.5), [BUSY] * 90 + [CALM] * 5 + [QUIET] * 5, cycles=100)
    assert (kept[CALM], kept[QUIET]) == (500, 500)
    assert 3800 < kept[BUSY] < 4200  # In each cycle, 40 of the 90 tuples of the busy key are accepted.


def test_keys_with_equal_demand_are_dropped_equally() -> None:
    kept = kept_by_key(shedder("fair", 0.3), [1, 2, 3, 4] * 25, cycles=200)
    assert all(1350 < kept[key] < 1650 for key in (1, 2, 3, 4))


def test_a_quiet_key_that_was_absent_in_the_last_cycle_is_not_dropped() -> None:
    one = shedder("fair", 0.5)
    keys_kept(one, [BUSY] * 100)
    one.end_cycle()
    assert keys_kept(one, [BUSY] * 50 + [QUIET] * 10).count(QUIET) == 10


@pytest.mark.parametrize("batches", [1, 4])
def test_victim_fair_keeps_no_more_tuples_of_a_new_key_than_the_fair_level(batches: int) -> None:
    one = shedder("fair", 0.25)
    keys_kept(one, [BUSY] * 100 + [CALM] * 100)
    one.end_cycle()
    assert sum(len(keys_kept(one, [NEW] * (80 // batches))) for _ in range(batches)) == 25


def test_victim_fair_drops_keys_that_occur_once_at_the_average_rate() -> None:
    one = shedder("fair", 0.3)
    kept = 0
    for number in range(20):
        kept += len(keys_kept(one, range(500 * number, 500 * number + 500)))
        one.end_cycle()
    assert 2800 < kept < 3200


def test_victim_fair_no_longer_drops_a_key_that_became_quiet() -> None:
    one = shedder("fair", 0.5)
    for busy, quiet in ((1, 2), (2, 1)):
        keys_kept(one, [busy] * 100 + [quiet] * 10)
        one.end_cycle()
    assert keys_kept(one, [1] * 10) == [1] * 10


def test_setting_keep_to_1_ends_all_drops_at_once() -> None:
    one = shedder("fair", 0.1)
    keys_kept(one, [1] * 100)
    one.end_cycle()
    one.keep = 1.0
    assert keys_kept(one, [1] * 100) == [1] * 100


def test_after_a_cycle_without_input_keys_are_dropped_at_the_average_rate() -> None:
    one = shedder("fair", 0.5)
    keys_kept(one, [1] * 100)
    one.end_cycle()
    one.end_cycle()
    assert 400 < len(keys_kept(one, [1] * 1000)) < 600


def test_with_more_keys_than_victim_fair_can_count_all_keys_are_kept_equally_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loadshed.shedder, "KEYS_COUNTED", 10)
    kept = kept_by_key(shedder("fair", 0.5), range(40), cycles=200)
    assert all(70 < kept[key] < 130 for key in range(40))


def test_a_busy_key_that_is_not_counted_is_kept_at_the_average_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loadshed.shedder, "KEYS_COUNTED", 10)
    kept = kept_by_key(shedder("fair", 0.5), [*range(10), *[99] * 90], cycles=100)
    assert 4200 < kept.pop(99) < 4800
    assert 400 < kept.total() < 600
