"""The ledger of a class and stream, which counts every tuple."""

from dataclasses import fields, replace

import pytest

from loadshed.ledger import TupleLedger

FATES = ["delivered", "shed", "late", "rejected", "failed"]


def test_a_new_ledger_is_empty_and_closes() -> None:
    ledger = TupleLedger()
    assert (ledger.offered, ledger.accounted(), ledger.lost(), ledger.closes(queued=0)) == (0, 0, 0, True)


def test_a_ledger_closes_if_every_offered_tuple_has_a_fate_or_is_queued() -> None:
    ledger = TupleLedger(offered=100, delivered=50, shed=20, late=10, rejected=5, failed=3)
    assert [ledger.closes(queued) for queued in (11, 12, 13)] == [False, True, False]


@pytest.mark.parametrize("fate", FATES)
def test_a_tuple_counted_twice_or_not_at_all_keeps_the_ledger_open(fate: str) -> None:
    ledger = TupleLedger(offered=27, delivered=5, shed=5, late=5, rejected=5, failed=5)
    assert ledger.closes(queued=2)
    assert not replace(ledger, **{fate: 4}).closes(queued=2)
    assert not replace(ledger, **{fate: 6}).closes(queued=2)


@pytest.mark.parametrize("fate", FATES)
def test_tuples_that_were_not_delivered_are_lost(fate: str) -> None:
    ledger = replace(TupleLedger(offered=9), **{fate: 7})
    assert (ledger.accounted(), ledger.lost()) == (7, 0 if fate == "delivered" else 7)


def test_a_sum_of_ledgers_adds_the_counts_of_each_fate() -> None:
    one = TupleLedger(*(10**place for place in range(6)))
    other = TupleLedger(*(2 * 10**place for place in range(6)))
    total = one + other
    assert [getattr(total, one.name) for one in fields(TupleLedger)] == [3 * 10**place for place in range(6)]
    assert (one.offered, other.offered) == (1, 2)


def test_ledgers_that_close_add_up_to_a_ledger_that_closes() -> None:
    readings = TupleLedger(offered=10, delivered=6, shed=1)
    alerts = TupleLedger(offered=20, failed=15)
    assert readings.closes(queued=3)
    assert alerts.closes(queued=5)
    assert sum((readings, alerts), TupleLedger()).closes(queued=8)
