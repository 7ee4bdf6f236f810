"""What each victim rule drops when a part of the input has to go."""

import random
from collections import Counter, deque
from itertools import pairwise

import pytest

import loadshed.shedder
from loadshed.shedder import Admission, Shedder, Victim, fair_level

VICTIMS: list[Victim] = ["random", "oldest", "newest", "fair"]


def shedder(victim: Victim, keep: float = 1.0, seed: int = 1) -> Shedder:
    return Shedder(victim, random.Random(seed), keep)


@pytest.mark.parametrize("victim", VICTIMS)
def test_nothing_is_dropped_while_all_is_to_be_kept(victim: Victim) -> None:
    admission = shedder(victim).admit(5, keys=list("aabbc"))
    assert (list(admission.kept), admission.evict_oldest) == ([0, 1, 2, 3, 4], 0)


@pytest.mark.parametrize("victim", VICTIMS)
def test_an_empty_batch_is_nothing(victim: Victim) -> None:
    assert shedder(victim, 0.5).admit(0, keys=[]) == Admission([])


def test_the_newest_go_one_by_one_at_even_distances() -> None:
    assert shedder("newest", 0.75).admit(12) == Admission([0, 1, 2, 4, 5, 6, 8, 9, 10])


def test_the_oldest_go_as_many_as_the_newest_would_and_all_arrivals_come_in() -> None:
    assert shedder("oldest", 0.75).admit(12) == Admission(list(range(12)), evict_oldest=3)


def test_even_drops_are_the_same_however_the_tuples_are_batched() -> None:
    whole, pieces = shedder("newest", 0.7), shedder("newest", 0.7)
    kept, start = [], 0
    for size in (1, 4, 2, 7, 30, 6):
        kept += [start + position for position in pieces.admit(size).kept]
        start += size
    assert kept == whole.admit(50).kept


@pytest.mark.parametrize("keep", [0.05, 0.3, 0.5, 0.9, 0.99])
def test_even_drops_are_never_further_apart_than_need_be(keep: float) -> None:
    kept = set(shedder("newest", keep).admit(1000).kept)
    dropped = [position for position in range(1000) if position not in kept]
    gaps = {later - earlier for earlier, later in pairwise(dropped)}
    assert max(gaps) - min(gaps) <= 1
    assert abs(len(kept) - 1000 * keep) <= 1


def test_what_remains_of_a_queue_that_drops_its_oldest_is_the_freshest() -> None:
    queue: deque[int] = deque()
    oldest = shedder("oldest", 0.25)
    for batch in range(10):
        admission = oldest.admit(4)
        queue.extend(4 * batch + position for position in admission.kept)
        for _ in range(admission.evict_oldest):
            queue.popleft()
    assert list(queue) == list(range(30, 40))


def test_by_chance_the_same_seed_drops_the_same_tuples_and_another_seed_others() -> None:
    kept = [shedder("random", 0.5, seed).admit(100).kept for seed in (7, 7, 8)]
    assert kept[0] == kept[1] != kept[2]


def test_by_chance_every_position_is_dropped_as_often_as_any_other() -> None:
    one = shedder("random", 0.7)
    kept = Counter(position for _ in range(2000) for position in one.admit(10).kept)
    assert all(1300 < kept[position] < 1500 for position in range(10))


def test_without_keys_fair_is_random() -> None:
    assert shedder("fair", 0.5).admit(100) == shedder("random", 0.5).admit(100)


# --- fair -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "keep", "level"),
    [
        ([10, 10, 10], 0.5, 5.0),
        ([1, 1, 98], 0.5, 48.0),
        ([2, 4, 94], 0.03, 1.0),
        ([7], 0.5, 3.5),
        ([3, 5], 1.0, 5.0),
        ([3, 5], 0.0, 0.0),
    ],
)
def test_the_level_shares_what_is_kept_between_keys(counts: list[int], keep: float, level: float) -> None:
    assert fair_level(counts, keep) == pytest.approx(level)


def kept_by_key(one: Shedder, keys: list[str], cycles: int) -> Counter[str]:
    """How many tuples of each key come in, over the cycles after the first, in which the keys are only counted."""
    kept: Counter[str] = Counter()
    for number in range(cycles + 1):
        admission = one.admit(len(keys), keys)
        one.end_cycle()
        if number:
            kept.update(keys[position] for position in admission.kept)
    return kept


def test_a_busy_key_pays_for_the_overload_it_makes() -> None:
    kept = kept_by_key(shedder("fair", 0.5), ["busy"] * 90 + ["calm"] * 5 + ["quiet"] * 5, cycles=100)
    assert (kept["calm"], kept["quiet"]) == (500, 500)
    assert 3800 < kept["busy"] < 4200  # 40 of 90 a cycle


def test_keys_with_equal_demand_are_dropped_alike() -> None:
    kept = kept_by_key(shedder("fair", 0.3), ["a", "b", "c", "d"] * 25, cycles=200)
    assert all(1350 < kept[key] < 1650 for key in "abcd")


def test_a_quiet_key_that_the_last_cycle_did_not_see_is_not_dropped() -> None:
    one = shedder("fair", 0.5)
    one.admit(100, ["busy"] * 100)
    one.end_cycle()
    keys = ["busy"] * 50 + ["quiet"] * 10
    kept = one.admit(60, keys).kept
    assert Counter(keys[position] for position in kept)["quiet"] == 10


def test_a_new_key_gets_no_more_than_the_level() -> None:
    one = shedder("fair", 0.25)
    one.admit(200, ["a"] * 100 + ["b"] * 100)
    one.end_cycle()
    assert len(one.admit(80, ["new"] * 80).kept) == 25


def test_keys_that_never_come_twice_are_dropped_like_the_average() -> None:
    one = shedder("fair", 0.3)
    kept = 0
    for number in range(20):
        kept += len(one.admit(500, [f"{number}/{tuple_}" for tuple_ in range(500)]).kept)
        one.end_cycle()
    assert 2800 < kept < 3200


def test_a_key_that_has_become_quiet_is_not_held_to_what_it_was() -> None:
    one = shedder("fair", 0.5)
    for busy, quiet in (("a", "b"), ("b", "a")):
        one.admit(110, [busy] * 100 + [quiet] * 10)
        one.end_cycle()
    assert one.admit(10, ["a"] * 10).kept == list(range(10))


def test_once_all_is_to_be_kept_again_the_chances_of_the_last_cycle_count_no_more() -> None:
    one = shedder("fair", 0.1)
    one.admit(100, ["a"] * 100)
    one.end_cycle()
    one.keep = 1.0
    assert one.admit(100, ["a"] * 100).kept == list(range(100))


def test_more_keys_than_are_counted_are_still_kept_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loadshed.shedder, "KEYS_COUNTED", 10)
    kept = kept_by_key(shedder("fair", 0.5), [f"k{number}" for number in range(40)], cycles=200)
    assert all(70 < kept[f"k{number}"] < 130 for number in range(40))


def test_a_busy_key_beyond_those_that_are_counted_is_kept_like_the_average(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loadshed.shedder, "KEYS_COUNTED", 10)
    kept = kept_by_key(
        shedder("fair", 0.5), [f"k{number}" for number in range(10)] + ["busy"] * 90, cycles=100
    )
    assert 4200 < kept.pop("busy") < 4800
    assert 400 < kept.total() < 600
