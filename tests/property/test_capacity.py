"""Invariants of the capacity core: shares, headrooms and ledger stay consistent after any events, and the core can be restored."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.capacity.core import (
    CapacityCore,
    CapacityEvent,
    ClassAsleep,
    ClassesSet,
    HeadroomScaled,
    ReclaimRequested,
    RedistributionDue,
    UsageReported,
)
from scheduler.capacity.redistribution import ClassAccount, entitled

NEAR = 1e-9

names = st.sampled_from("abcdef")
fractions = st.sampled_from([0.0, 0.25, 1.0]) | st.floats(0, 1)
terms = st.builds(
    ClassAccount,
    name=names,
    priority=st.integers(1, 6),
    original=st.just(0.0),
    share=st.just(0.0),
    usage=st.none(),
    lendable=fractions,
    borrow_limit=fractions,
    min_share=st.sampled_from([0.0, 0.0, 0.01, 0.1]),
)
classes = st.lists(terms, max_size=6, unique_by=lambda account: account.name)
events = st.one_of(
    st.builds(UsageReported, names, st.floats(0, 5), st.floats(0, 3)),
    st.builds(ClassAsleep, names),
    st.builds(ReclaimRequested, names),
    st.just(RedistributionDue()),
    st.just(RedistributionDue()),
    st.builds(ClassesSet, classes),
)
histories = st.lists(st.tuples(events, st.floats(0, 3)), max_size=30)

History = Sequence[tuple[CapacityEvent, float]]


def core(accounts: Sequence[ClassAccount]) -> CapacityCore:
    return CapacityCore(entitled(accounts), lanes=2)


@given(classes, histories)
def test_shares_sum_to_one_and_headrooms_are_scaled_with_shares_after_any_events(
    accounts: list[ClassAccount], history: History
) -> None:
    capacity, now = core(accounts), 0.0
    for event, later in history:
        before, now = capacity.shares, now + later
        commands = capacity.handle(event, now)
        shares = capacity.shares
        assert sum(shares.values()) == pytest.approx(1.0 if shares else 0.0, abs=NEAR)
        for one in capacity.accounts:
            assert one.share >= min(one.floor, one.original, before.get(one.name, 1.0)) - NEAR
        scaled = {one.name: one for one in commands if isinstance(one, HeadroomScaled)}
        for name in shares.keys() & before.keys():
            factor = scaled[name].factor if name in scaled else 1.0
            assert before[name] * factor == pytest.approx(shares[name], abs=NEAR)
            assert name not in scaled or scaled[name].share == shares[name]
        if isinstance(event, ClassesSet):
            new = [one for one in capacity.accounts if one.name not in before]
            assert all(one.share == one.original for one in new)


@given(classes, histories, st.integers(0, 30))
def test_a_restored_core_decides_like_one_that_never_stopped(
    accounts: list[ClassAccount], history: History, after: int
) -> None:
    original_core, now = core(accounts), 0.0
    restored_core = original_core
    for number, (event, later) in enumerate(history):
        now += later
        if number == after:
            restored_core = CapacityCore.restored(json.loads(json.dumps(original_core.state())))
        answer = original_core.handle(event, now)
        if number >= after:
            assert restored_core.handle(event, now) == answer
    assert restored_core.state() == original_core.state()


@given(classes, histories)
def test_the_loan_ledger_equals_the_sum_of_shares_above_original_shares(
    accounts: list[ClassAccount], history: History
) -> None:
    capacity, now = core(accounts), 0.0
    capacity.lending(now)
    borrowed: dict[str, float] = {}
    for event, later in history:
        for one in capacity.accounts:
            above = max(0.0, one.share - one.original)
            borrowed[one.name] = borrowed.get(one.name, 0.0) + 2 * above * later
        now += later
        capacity.handle(event, now)
    found: dict[str, float] = {}
    for borrowers in capacity.lending(now).values():
        for borrower, seconds in borrowers.items():
            found[borrower] = found.get(borrower, 0.0) + seconds
    for name, seconds in borrowed.items():
        assert found.get(name, 0.0) == pytest.approx(seconds, abs=1e-6)
