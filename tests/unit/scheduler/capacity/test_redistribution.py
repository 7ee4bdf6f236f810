"""Redistribution of capacity between classes: DILoS's worked examples, and one test per situation that the paper leaves open."""

from collections.abc import Mapping

import pytest

from scheduler.capacity.redistribution import ClassAccount, lent_shares, reclaim, redistribute

PRIORITIES = {"gold": 6, "silver": 3, "bronze": 1}
ORIGINALS = {"gold": 0.6, "silver": 0.3, "bronze": 0.1}


def account(
    name: str,
    usage: float | None,
    share: float | None = None,
    *,
    load: float | None = None,
    lendable: float = 1.0,
    borrow_limit: float = 1.0,
    min_share: float = 0.0,
) -> ClassAccount:
    """Return the account of class gold, silver or bronze, by default with its original share."""
    original = ORIGINALS[name]
    return ClassAccount(
        name,
        PRIORITIES[name],
        original,
        share=original if share is None else share,
        usage=usage,
        load=load,
        lendable=lendable,
        borrow_limit=borrow_limit,
        min_share=min_share,
    )


def assert_shares(actual: Mapping[str, float], gold: float, silver: float, bronze: float) -> None:
    assert dict(actual) == pytest.approx({"gold": gold, "silver": silver, "bronze": bronze}, abs=1e-12)


def test_spare_capacity_goes_to_the_class_in_need_and_what_remains_to_the_highest_class() -> None:
    moved = redistribute([account("gold", 0.1), account("silver", 0.5), account("bronze", 5.0)])
    # Gold can spare a share of 0.51 and silver 0.135, together 0.645. Bronze gets 0.4, and gold gets the remaining 0.245 back.
    assert_shares(moved, 0.335, 0.165, 0.5)


def test_an_overloaded_lender_gets_back_its_share_and_what_lower_classes_borrowed() -> None:
    back = [account("gold", 7.0, 0.335), account("silver", 0.15 / 0.165, 0.165), account("bronze", 1.0, 0.5)]
    assert_shares(redistribute(back), 0.735, 0.165, 0.1)


def test_if_all_classes_are_overloaded_a_lender_gets_back_its_original_share() -> None:
    back = [account("gold", 7.0, 0.335), account("silver", 9.0, 0.165), account("bronze", 9.0, 0.5)]
    assert_shares(redistribute(back), 0.6, 0.3, 0.1)


def test_no_share_moves_if_all_classes_are_overloaded_at_their_original_shares() -> None:
    overloaded = [account("gold", 1.2), account("silver", 3.0), account("bronze", 50.0)]
    assert_shares(redistribute(overloaded), 0.6, 0.3, 0.1)


def test_no_share_moves_if_no_class_needs_more() -> None:
    assert_shares(
        redistribute([account("gold", 0.1), account("silver", 0.2), account("bronze", 1.0)]), 0.6, 0.3, 0.1
    )


def test_redistribution_returns_classes_in_the_order_of_its_input() -> None:
    accounts = [account("bronze", 5.0), account("gold", 0.1), account("silver", 0.5)]
    assert list(redistribute(accounts)) == ["bronze", "gold", "silver"]


def test_the_higher_class_is_satisfied_first_when_supplies_are_short() -> None:
    # Bronze can spare a share of 0.085. Gold gets the 0.06 that it demands; silver gets only the remaining 0.025.
    moved = redistribute([account("gold", 1.1), account("silver", 2.0), account("bronze", 0.1)])
    assert_shares(moved, 0.66, 0.325, 0.015)


def test_an_owner_is_repaid_with_its_reserve_before_anything_is_lent() -> None:
    # Gold can spare a share of 0.03. Bronze, an owner, demands 0.01 and a reserve of 0.005; both come before silver's demand.
    accounts = [account("gold", 0.9), account("silver", 2.0, 0.36), account("bronze", 1.25, 0.04)]
    assert_shares(redistribute(accounts), 0.57, 0.375, 0.055)


def test_an_owner_is_repaid_from_supplies_before_borrowers_give_back() -> None:
    # Silver can spare a share of 0.21. Gold gets the 0.13 that it demands and another 0.07, up to its original share.
    accounts = [account("gold", 1.25, 0.4), account("silver", 0.25, 0.3), account("bronze", 1.0, 0.3)]
    assert_shares(redistribute(accounts), 0.6, 0.1, 0.3)


def test_an_owner_is_repaid_by_the_lowest_borrower_first() -> None:
    # Gold has lent a share of 0.3. Gold demands 0.2 and a reserve of 0.03 back.
    accounts = [account("gold", 5 / 3, 0.3), account("silver", 1.0, 0.4), account("bronze", 1.0, 0.3)]
    assert_shares(redistribute(accounts), 0.53, 0.37, 0.1)


def test_a_lower_owner_is_repaid_by_a_higher_borrower() -> None:
    accounts = [account("gold", 1.0, 0.65), account("silver", 1.0), account("bronze", 9.0, 0.05)]
    assert_shares(redistribute(accounts), 0.6, 0.3, 0.1)


def test_a_higher_class_takes_over_loans_of_a_lower_class_and_never_the_reverse() -> None:
    upward = [account("gold", 1.0, 0.45), account("silver", 2.0), account("bronze", 2.0, 0.25)]
    downward = [account("gold", 1.0, 0.5), account("silver", 2.0, 0.4), account("bronze", 2.0)]
    assert_shares(redistribute(upward), 0.45, 0.45, 0.1)
    assert_shares(redistribute(downward), 0.5, 0.4, 0.1)


def test_classes_of_equal_priority_do_not_take_from_each_other() -> None:
    first = ClassAccount("first", 1, 0.25, 0.25, 2.0)
    second = ClassAccount("second", 1, 0.25, 0.35, 2.0)
    idle = ClassAccount("idle", 1, 0.5, 0.4, 1.0)
    assert redistribute([first, second, idle]) == {"first": 0.25, "second": 0.35, "idle": 0.4}


def test_classes_of_equal_priority_are_satisfied_in_order_of_name() -> None:
    first, second = (ClassAccount(name, 1, 0.25, share=0.25, usage=2.0) for name in ("first", "second"))
    idle = ClassAccount("idle", 2, 0.5, share=0.5, usage=0.375)
    assert redistribute([second, first, idle]) == pytest.approx(
        {"second": 0.2875, "first": 0.5, "idle": 0.2125}
    )


def test_a_class_without_a_report_neither_supplies_nor_demands() -> None:
    moved = redistribute([account("gold", None), account("silver", 2.0), account("bronze", 0.1)])
    assert_shares(moved, 0.6, 0.385, 0.015)


def test_a_class_whose_unused_capacity_is_within_its_reserve_lends_nothing() -> None:
    assert_shares(
        redistribute([account("gold", 0.951), account("silver", 2.0), account("bronze", 1.0)]), 0.6, 0.3, 0.1
    )


def test_a_class_with_a_load_above_its_share_lends_nothing_whatever_its_headroom() -> None:
    eager = [account("silver", 2.0), account("bronze", 1.0)]
    assert_shares(redistribute([account("gold", 0.5, load=0.61), *eager]), 0.6, 0.3, 0.1)
    # Gold has a share of 0.6. With a load of 0.45 and a reserve of 0.03, gold can spare 0.12.
    assert_shares(redistribute([account("gold", 0.5, load=0.45), *eager]), 0.48, 0.42, 0.1)


@pytest.mark.parametrize(
    ("lendable", "min_share", "floor"),
    [(1.0, 0.0, 0.03), (0.25, 0.0, 0.45), (1.0, 0.2, 0.2), (0.9, 0.2, 0.2)],
)
def test_an_idle_class_lends_its_share_down_to_the_minimum_that_its_terms_allow(
    lendable: float, min_share: float, floor: float
) -> None:
    gold = account("gold", 0.0, lendable=lendable, min_share=min_share)
    moved = redistribute([gold, account("silver", 9.0), account("bronze", 1.0)])
    assert_shares(moved, floor, 0.9 - floor, 0.1)


def test_no_class_borrows_beyond_its_limit_and_the_next_class_gets_the_rest() -> None:
    accounts = [account("gold", 0.0), account("silver", 9.0, borrow_limit=0.2), account("bronze", 9.0)]
    assert_shares(redistribute(accounts), 0.03, 0.5, 0.47)


def test_surplus_goes_to_the_highest_class_below_its_original_share() -> None:
    # Bronze gives back a share of 0.195. Gold gets the 0.15 that it has lent; silver gets the remaining 0.045.
    accounts = [account("gold", 1.0, 0.45), account("silver", 1.0, 0.25), account("bronze", 1 / 3, 0.3)]
    assert_shares(redistribute(accounts), 0.6, 0.295, 0.105)


@pytest.mark.parametrize("usage", [float("inf"), float("nan")])
def test_a_report_that_is_not_finite_keeps_the_shares_valid(usage: float) -> None:
    moved = redistribute([account("gold", 0.1), account("silver", usage), account("bronze", 1.0)])
    assert all(0 < share < 1 for share in moved.values())
    assert sum(moved.values()) == pytest.approx(1.0)


def test_reclaim_returns_the_whole_original_share_at_once() -> None:
    accounts = [account("gold", None, 0.2), account("silver", None, 0.5), account("bronze", None, 0.3)]
    assert_shares(reclaim(accounts, "gold"), 0.6, 0.3, 0.1)


def test_reclaim_by_a_lower_class_takes_from_a_higher_borrower() -> None:
    accounts = [account("gold", 1.0, 0.68), account("silver", 1.0, 0.3), account("bronze", 9.0, 0.02)]
    assert_shares(reclaim(accounts, "bronze"), 0.6, 0.3, 0.1)


def test_reclaim_takes_from_the_lowest_borrower_first() -> None:
    lender = ClassAccount("lender", 5, 0.5, share=0.25, usage=None)
    higher = ClassAccount("higher", 2, 0.125, share=0.25, usage=None)
    lower = ClassAccount("lower", 1, 0.125, share=0.375, usage=None)
    owner = ClassAccount("owner", 1, 0.25, share=0.125, usage=None)
    expected = {"lender": 0.25, "higher": 0.25, "lower": 0.25, "owner": 0.25}
    assert reclaim([lender, higher, lower, owner], "owner") == expected


def test_reclaim_leaves_the_shares_of_other_lenders_unchanged() -> None:
    accounts = [account("gold", 9.0, 0.4), account("silver", 0.1, 0.1), account("bronze", 9.0, 0.5)]
    assert_shares(reclaim(accounts, "gold"), 0.6, 0.1, 0.3)


def test_reclaim_at_or_above_the_original_share_changes_nothing() -> None:
    accounts = [account("gold", 9.0), account("silver", 0.1, 0.2), account("bronze", 9.0, 0.2)]
    assert_shares(reclaim(accounts, "gold"), 0.6, 0.2, 0.2)
    assert_shares(reclaim(accounts, "bronze"), 0.6, 0.2, 0.2)


def test_loans_assign_the_share_that_each_lender_lacks_to_the_borrowers_that_have_it() -> None:
    originals = {"a": 0.5, "b": 0.25, "c": 0.125, "d": 0.125}
    loans = lent_shares(originals, {"a": 0.25, "b": 0.1875, "c": 0.25, "d": 0.3125})
    assert loans == [("a", "c", 0.125), ("a", "d", 0.125), ("b", "d", 0.0625)]


def test_while_all_shares_are_original_there_are_no_loans() -> None:
    assert lent_shares(ORIGINALS, {**ORIGINALS, "gold": 0.6 + 1e-15}) == []
