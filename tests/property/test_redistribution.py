"""The numbered properties of `scheduler.capacity.redistribution`, computed here from its inputs and outputs alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.capacity.redistribution import ClassAccount, lent_shares, reclaim, redistribute

NEAR = 1e-9


@dataclass(frozen=True)
class Case:
    """Class when shares are redistributed: its declared terms, its present share, and its offered load."""

    name: str
    priority: int
    original: float
    share: float
    floor: float
    ceiling: float  # Highest share that the class may have: its original share plus its borrow limit
    wants: float | None  # Share that could process the offered load; None if no load is reported
    needs: float  # Share that the class needs for itself, which exceeds `wants` if the class's headroom exceeds its share
    account: ClassAccount

    @property
    def supply(self) -> float:
        """Share that the class can spare beyond its need and a reserve of 5% of its original share, without falling below its floor."""
        if self.wants is None:
            return 0.0
        return max(0.0, min(self.share - self.needs - 0.05 * self.original, self.share - self.floor))

    @property
    def wanted(self) -> float:
        """Share that satisfies the class, as far as its borrow limit allows."""
        return 0.0 if self.wants is None else min(self.wants, self.ceiling)

    @property
    def demands(self) -> bool:
        return self.wanted > self.share


fractions = st.floats(0, 1)
some_fraction = st.one_of(st.just(0.0), st.just(1.0), fractions)


@st.composite
def classes(draw: st.DrawFn, reports: bool = True) -> list[Case]:
    """Draw up to six classes with shares that sum to 1, each at or above its floor."""
    priorities = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    originals = [priority / sum(priorities) for priority in priorities]
    lendable = [draw(some_fraction) for _ in priorities]
    least = [draw(some_fraction) * original for original in originals]
    floors = [max(m, (1 - b) * p0, 0.05 * p0) for m, b, p0 in zip(least, lendable, originals, strict=True)]
    if draw(st.booleans()):
        shares = originals
    else:
        weights = [draw(st.integers(0, 5)) for _ in priorities]
        weights[draw(st.integers(0, len(weights) - 1))] += 1
        spare = (1 - sum(floors)) / sum(weights)
        shares = [floor + weight * spare for floor, weight in zip(floors, weights, strict=True)]
    return [
        draw(
            cases(
                ClassAccount(
                    name=f"class{number}",
                    priority=priority,
                    original=originals[number],
                    share=shares[number],
                    usage=None,
                    lendable=lendable[number],
                    borrow_limit=draw(some_fraction),
                    min_share=least[number],
                ),
                floors[number],
                reports,
            )
        )
        for number, priority in enumerate(priorities)
    ]


@st.composite
def cases(draw: st.DrawFn, account: ClassAccount, floor: float, reports: bool) -> Case:
    """Draw the reported load of a class, from zero to three times the lanes, or no report."""
    wants = needs = None
    if reports and draw(st.integers(0, 5)):
        wants = draw(st.one_of(st.sampled_from([0.0, account.share, account.original]), st.floats(0, 3)))
        needs = draw(st.sampled_from([None, wants, wants * 1.5]))
        account = replace(account, usage=wants / account.share, load=needs)
    return Case(
        account.name,
        int(account.priority),
        account.original,
        account.share,
        floor,
        account.original + account.borrow_limit,
        wants,
        max(wants or 0.0, needs or 0.0),
        account,
    )


def accounts_of(drawn: Sequence[Case]) -> list[ClassAccount]:
    return [one.account for one in drawn]


@given(classes())
def test_a_class_gets_its_demand_or_at_least_its_original_share(drawn: list[Case]) -> None:
    after = redistribute(accounts_of(drawn))
    for one in drawn:
        assert after[one.name] >= min(one.wanted, one.original) - NEAR


def unsatisfied(drawn: Sequence[Case], after: Mapping[str, float]) -> list[Case]:
    return [one for one in drawn if one.demands and after[one.name] < one.wanted - NEAR]


@given(classes())
def test_lower_classes_borrow_nothing_while_a_class_is_unsatisfied(
    drawn: list[Case],
) -> None:
    after = redistribute(accounts_of(drawn))
    for short in unsatisfied(drawn, after):
        lower = [one for one in drawn if one.priority < short.priority]
        assert all(after[one.name] <= one.original + NEAR for one in lower)


@given(classes())
def test_a_class_gets_no_more_than_the_larger_of_its_demand_and_its_original_share(drawn: list[Case]) -> None:
    after = redistribute(accounts_of(drawn))
    assert all(after[one.name] <= max(one.share, one.wanted, one.original) + NEAR for one in drawn)


@given(classes())
def test_surplus_goes_to_the_highest_classes_below_their_original_share(drawn: list[Case]) -> None:
    after = redistribute(accounts_of(drawn))
    for one in drawn:
        if not one.demands and after[one.name] > one.share - one.supply + NEAR:
            assert unsatisfied(drawn, after) == []
            higher = [other for other in drawn if other.priority > one.priority]
            assert all(after[other.name] >= other.original - NEAR for other in higher)


@given(classes())
def test_the_sum_of_shares_does_not_change(drawn: list[Case]) -> None:
    assert sum(redistribute(accounts_of(drawn)).values()) == pytest.approx(1.0, abs=NEAR)


@given(classes())
def test_no_class_lends_more_of_its_share_than_its_lendable_fraction_and_minimum_allow(
    drawn: list[Case],
) -> None:
    after = redistribute(accounts_of(drawn))
    assert all(after[one.name] >= one.floor - NEAR for one in drawn)


@given(classes())
def test_the_demand_of_other_classes_takes_no_class_below_its_original_share(drawn: list[Case]) -> None:
    after = redistribute(accounts_of(drawn))
    for one in drawn:
        assert after[one.name] >= min(one.original, one.share - one.supply) - NEAR


@given(classes())
def test_borrowed_shares_are_taken_away_only_for_an_owner_in_need_or_a_higher_class(
    drawn: list[Case],
) -> None:
    after = redistribute(accounts_of(drawn))
    for one in drawn:
        if after[one.name] < one.share - one.supply - NEAR:
            takers = [other for other in drawn if other.demands and after[other.name] > other.share]
            assert any(other.share < other.original or other.priority > one.priority for other in takers)


@given(classes())
def test_under_constant_load_the_second_redistribution_changes_nothing(drawn: list[Case]) -> None:
    after = redistribute(accounts_of(drawn))
    again = [
        replace(
            one.account,
            share=after[one.name],
            usage=None if one.wants is None else one.wants / after[one.name],
        )
        for one in drawn
    ]
    assert redistribute(again) == pytest.approx(after, abs=NEAR)


@given(classes(), st.randoms(use_true_random=False))
def test_redistribution_gives_the_same_shares_for_any_order_of_the_classes(
    drawn: list[Case], chance: Random
) -> None:
    shuffled = accounts_of(drawn)
    chance.shuffle(shuffled)
    assert redistribute(shuffled) == pytest.approx(redistribute(accounts_of(drawn)), abs=NEAR)


@given(classes(reports=False), st.data())
def test_reclaim_gives_the_owner_its_whole_original_share_at_once(
    drawn: list[Case], data: st.DataObject
) -> None:
    owner = data.draw(st.sampled_from(drawn))
    after = reclaim(accounts_of(drawn), owner.name)
    assert after[owner.name] == pytest.approx(max(owner.share, owner.original), abs=NEAR)
    assert sum(after.values()) == pytest.approx(1.0, abs=NEAR)


@given(classes(reports=False), st.data())
def test_reclaim_takes_only_borrowed_shares_and_from_the_lowest_class_first(
    drawn: list[Case], data: st.DataObject
) -> None:
    owner = data.draw(st.sampled_from(drawn))
    after = reclaim(accounts_of(drawn), owner.name)
    others = [one for one in drawn if one is not owner]
    gave = [one for one in others if after[one.name] < one.share - NEAR]
    assert all(after[one.name] <= one.share for one in others)
    assert all(after[one.name] >= one.original - NEAR for one in gave)
    for giver in gave:
        lower = [one for one in others if one.priority < giver.priority]
        assert all(after[one.name] <= one.original + NEAR for one in lower)


@given(classes(reports=False))
def test_loans_account_for_every_share_lent_and_borrowed(drawn: list[Case]) -> None:
    loans = lent_shares({one.name: one.original for one in drawn}, {one.name: one.share for one in drawn})
    for one in drawn:
        lends = sum(share for lender, _, share in loans if lender == one.name)
        borrows = sum(share for _, borrower, share in loans if borrower == one.name)
        assert lends == pytest.approx(max(0.0, one.original - one.share), abs=NEAR)
        assert borrows == pytest.approx(max(0.0, one.share - one.original), abs=NEAR)
    assert all(share > 0 for _, _, share in loans)
