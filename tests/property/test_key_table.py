"""Positions in the table of `loadshed.key_table`, compared with a dictionary: equal keys have the same position,
different keys never do.
"""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loadshed.key_table import LOOKS, SPREAD, KeyTable

keys = st.integers(0, 30) | st.integers(-(2**63), 2**63 - 1)
batches = st.lists(st.lists(keys, max_size=40), max_size=6)


def places(table: KeyTable, batch: Sequence[int]) -> list[int]:
    return [int(place) for place in table.place(np.array(batch, np.int64))]


@given(batches, st.integers(1, 30))
def test_each_key_has_its_own_place_in_the_table_until_the_table_is_full(
    arrived: list[list[int]], most: int
) -> None:
    table, known = KeyTable(most), dict[int, int]()
    for batch in arrived:
        for key, place in zip(batch, places(table, batch), strict=True):
            if place < table.places:
                assert known.setdefault(key, place) == place
                assert table.keys[place] == key
            else:
                assert key not in known
        assert len(set(known.values())) == len(known) <= most
        assert len(known) == most or known.keys() >= set(batch)


@given(batches, st.lists(keys, max_size=40))
def test_a_cleared_table_behaves_like_a_new_table(arrived: list[list[int]], batch: list[int]) -> None:
    used = KeyTable(30)
    for one in arrived:
        places(used, one)
    used.clear()
    assert places(used, batch) == places(KeyTable(30), batch)


def test_a_key_gets_no_place_in_the_table_if_the_few_slots_for_its_hash_are_taken() -> None:
    table, backwards = KeyTable(1000), pow(int(SPREAD), -1, 1 << 64)
    crafted = [(number * backwards) % (1 << 64) for number in range(1000)]
    colliding = [key - (1 << 64) if key >= 1 << 63 else key for key in crafted]
    assert len(set(places(table, colliding)) - {table.places}) == LOOKS
    assert places(table, colliding).count(table.places) == 1000 - LOOKS
