"""The capacity core of a node: its commands to lanes and load managers, and its ledger of loans."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

import scheduler.capacity.core
from scheduler.capacity.core import (
    CapacityCommand,
    CapacityCore,
    ClassAsleep,
    ClassesSet,
    HeadroomScaled,
    ReclaimRequested,
    RedistributionDue,
    SharesChanged,
    UsageReported,
)
from scheduler.capacity.redistribution import ClassAccount

ORIGINALS = {"gold": 0.6, "silver": 0.3, "bronze": 0.1}
PRIORITIES = {"gold": 6, "silver": 3, "bronze": 1}
# With these usages, a redistribution moves a share of 0.265 from gold to bronze, and 0.135 from silver to bronze.
BRONZE_IN_NEED = {"gold": 0.1, "silver": 0.5, "bronze": 5.0}
AFTER_BRONZE_IN_NEED = {"gold": 0.335, "silver": 0.165, "bronze": 0.5}


def core(
    shares: Mapping[str, float] = ORIGINALS, lanes: int = 1, scale_headroom: bool = True
) -> CapacityCore:
    accounts = [
        ClassAccount(name, PRIORITIES[name], ORIGINALS[name], share, usage=None)
        for name, share in shares.items()
    ]
    return CapacityCore(accounts, lanes, scale_headroom)


def report(capacity: CapacityCore, usages: Mapping[str, float], at: float = 0.0) -> None:
    """Report the usage of each class after a load cycle. The headroom of each class is its share of the lanes."""
    for name, usage in usages.items():
        load = usage * capacity.shares[name] * capacity.lanes
        assert capacity.handle(UsageReported(name, usage, load), at) == ()


def redistribute(
    capacity: CapacityCore, usages: Mapping[str, float], at: float = 0.0
) -> tuple[CapacityCommand, ...]:
    report(capacity, usages, at)
    return capacity.handle(RedistributionDue(), at)


def factors(commands: Sequence[CapacityCommand]) -> dict[str, tuple[float, float]]:
    return {one.name: (one.factor, one.share) for one in commands if isinstance(one, HeadroomScaled)}


def test_a_redistribution_sends_all_shares_to_the_lanes() -> None:
    changed = redistribute(core(), BRONZE_IN_NEED)[0]
    assert isinstance(changed, SharesChanged)
    assert changed.shares == pytest.approx(AFTER_BRONZE_IN_NEED)
    assert list(changed.shares) == ["gold", "silver", "bronze"]


def test_headrooms_are_scaled_with_the_shares() -> None:
    scaled = factors(redistribute(core(), BRONZE_IN_NEED))
    assert scaled == {
        "gold": pytest.approx((0.335 / 0.6, 0.335)),
        "silver": pytest.approx((0.165 / 0.3, 0.165)),
        "bronze": pytest.approx((0.5 / 0.1, 0.5)),
    }


def test_only_classes_with_a_moved_share_get_a_new_headroom() -> None:
    capacity = core({"gold": 0.6, "silver": 0.2, "bronze": 0.2})
    assert factors(capacity.handle(ReclaimRequested("silver"), 0.0)) == {
        "silver": pytest.approx((1.5, 0.3)),
        "bronze": pytest.approx((0.5, 0.1)),
    }


def test_if_headroom_is_not_scaled_load_managers_receive_only_their_new_share() -> None:
    scaled = factors(redistribute(core(scale_headroom=False), BRONZE_IN_NEED))
    assert scaled == {name: pytest.approx((1.0, share)) for name, share in AFTER_BRONZE_IN_NEED.items()}


def test_no_command_is_sent_if_a_redistribution_moves_no_share() -> None:
    capacity = core()
    assert redistribute(capacity, dict.fromkeys(ORIGINALS, 2.0)) == ()
    assert capacity.shares == ORIGINALS


def test_usage_is_the_mean_of_the_reports_since_the_last_redistribution() -> None:
    capacity = core()
    redistribute(capacity, dict.fromkeys(ORIGINALS, 9.0))
    for around in (-0.1, 0.0, 0.1):
        report(capacity, {name: usage + around for name, usage in BRONZE_IN_NEED.items()})
    capacity.handle(RedistributionDue(), 0.0)
    assert capacity.shares == pytest.approx(AFTER_BRONZE_IN_NEED)


def test_a_class_with_a_load_above_its_share_lends_nothing() -> None:
    # Gold's usage is 0.5, but its load of 1.3 processors exceeds its share of the two lanes (0.6·2 processors).
    capacity = core(lanes=2)
    capacity.handle(UsageReported("gold", 0.5, 1.3), 0.0)
    assert redistribute(capacity, {"silver": 2.0, "bronze": 1.0}) == ()


def test_a_class_without_reports_keeps_its_share() -> None:
    capacity = core()
    redistribute(capacity, {"silver": 0.5, "bronze": 5.0})
    assert capacity.shares == pytest.approx({"gold": 0.6, "silver": 0.165, "bronze": 0.235})


def test_without_any_usage_report_no_share_moves() -> None:
    capacity = core(AFTER_BRONZE_IN_NEED)
    assert capacity.handle(RedistributionDue(), 0.0) == ()


def test_usage_reports_from_before_a_move_of_shares_do_not_count_after_the_move() -> None:
    capacity = core(AFTER_BRONZE_IN_NEED)
    report(capacity, BRONZE_IN_NEED)
    assert capacity.handle(ReclaimRequested("gold"), 0.0) != ()
    assert capacity.handle(RedistributionDue(), 0.0) == ()


def test_usage_reports_stay_valid_after_a_reclaim_that_moves_no_share() -> None:
    capacity = core()
    report(capacity, BRONZE_IN_NEED)
    assert capacity.handle(ReclaimRequested("gold"), 0.0) == ()
    capacity.handle(RedistributionDue(), 0.0)
    assert capacity.shares == pytest.approx(AFTER_BRONZE_IN_NEED)


def test_a_lender_gets_its_share_back_at_once() -> None:
    capacity = core()
    redistribute(capacity, BRONZE_IN_NEED)
    commands = capacity.handle(ReclaimRequested("gold"), 0.0)
    assert capacity.shares == pytest.approx({"gold": 0.6, "silver": 0.165, "bronze": 0.235})
    assert factors(commands) == {
        "gold": pytest.approx((0.6 / 0.335, 0.6)),
        "bronze": pytest.approx((0.235 / 0.5, 0.235)),
    }


def lend(capacity: CapacityCore, times: int = 1) -> float:
    """Redistribute `times` times while gold has little load and bronze much, and return gold's share."""
    for _ in range(times):
        redistribute(capacity, BRONZE_IN_NEED)
    return capacity.shares["gold"]


def test_an_owner_that_lent_too_much_lends_less_for_a_while() -> None:
    capacity = core()
    first = lend(capacity)
    capacity.handle(ReclaimRequested("gold"), 0.0)
    assert first < lend(capacity) < ORIGINALS["gold"]
    assert lend(capacity, times=20) <= first


def test_an_owner_that_reclaims_repeatedly_lends_less_for_longer() -> None:
    kept = []
    for times in (1, 2, 3):
        capacity = core()
        for _ in range(times):
            lend(capacity)
            capacity.handle(ReclaimRequested("gold"), 0.0)
        kept.append(lend(capacity, times=6))
    assert kept[0] < kept[1] < kept[2]


def test_an_owner_that_falls_asleep_lends_as_if_it_had_never_reclaimed() -> None:
    capacity = core()
    lend(capacity)
    capacity.handle(ReclaimRequested("gold"), 0.0)
    report(capacity, {"silver": 0.5, "bronze": 5.0})
    capacity.handle(ClassAsleep("gold"), 0.0)
    capacity.handle(RedistributionDue(), 0.0)
    never = core()
    report(never, {"silver": 0.5, "bronze": 5.0})
    never.handle(ClassAsleep("gold"), 0.0)
    never.handle(RedistributionDue(), 0.0)
    assert capacity.shares["gold"] <= never.shares["gold"]


# -- classes that sleep, come, go and change -------------------------------------------------------------


def test_a_sleeping_class_lends_like_a_class_without_load() -> None:
    capacity = core()
    report(capacity, {"gold": 3.0})
    assert capacity.handle(ClassAsleep("gold"), 0.0) == ()
    redistribute(capacity, {"silver": 1.0, "bronze": 9.0})
    assert capacity.shares == pytest.approx({"gold": 0.03, "silver": 0.3, "bronze": 0.67})
    redistribute(capacity, {"silver": 2.0, "bronze": 0.0})
    assert capacity.shares == pytest.approx({"gold": 0.395, "silver": 0.6, "bronze": 0.005})
    assert capacity.moves[-1].usage["gold"] == 0.0


@pytest.mark.parametrize("event", [UsageReported("gold", 2.0, 1.2), ReclaimRequested("gold")])
def test_a_class_is_awake_after_its_first_message(event: UsageReported | ReclaimRequested) -> None:
    capacity = core()
    capacity.handle(ClassAsleep("gold"), 0.0)
    capacity.handle(event, 0.0)
    assert redistribute(capacity, {"silver": 9.0, "bronze": 9.0}) == ()


@pytest.mark.parametrize("event", [UsageReported, ReclaimRequested, ClassAsleep])
def test_messages_of_unknown_classes_are_counted_and_change_nothing(event: type) -> None:
    capacity = core()
    before = capacity.state()
    message = UsageReported("gone", 2.0, 0.3) if event is UsageReported else event("gone")
    assert capacity.handle(message, 5.0) == ()
    assert (capacity.ignored, len(capacity.moves)) == (1, 0)
    assert capacity.state() == before | {"ignored": 1}


def terms(**priorities: float) -> ClassesSet:
    return ClassesSet([ClassAccount(name, p, 0.0, 0.0, None) for name, p in priorities.items()])


def test_a_new_class_starts_with_its_original_share_and_the_shares_of_other_classes_are_scaled() -> None:
    capacity = core()
    shares, *scaled = capacity.handle(terms(gold=6, silver=3, bronze=1, copper=10), 0.0)
    assert isinstance(shares, SharesChanged)
    assert shares.shares == {"copper": 0.5, "gold": 0.3, "silver": 0.15, "bronze": 0.05}
    assert list(shares.shares) == ["copper", "gold", "silver", "bronze"]
    assert scaled == [
        HeadroomScaled("gold", 0.5, 0.3, 0.3),
        HeadroomScaled("silver", 0.5, 0.15, 0.15),
        HeadroomScaled("bronze", 0.5, 0.05, 0.05),
    ]


def test_the_loans_of_a_removed_class_end_and_other_loans_stay() -> None:
    capacity = core(AFTER_BRONZE_IN_NEED)
    capacity.handle(terms(silver=3, bronze=1), 0.0)
    assert capacity.shares == pytest.approx({"silver": 0.75 - 0.135, "bronze": 0.25 + 0.135})


def test_a_loan_shrinks_with_the_original_share_of_its_lender() -> None:
    capacity = core(AFTER_BRONZE_IN_NEED)
    capacity.handle(terms(gold=6, silver=3, bronze=1, copper=10), 0.0)
    assert capacity.shares == pytest.approx({"copper": 0.5, "gold": 0.1675, "silver": 0.0825, "bronze": 0.25})


def test_loans_shrink_to_the_limits_of_changed_terms() -> None:
    capacity = core(AFTER_BRONZE_IN_NEED)
    kept, limited = (
        replace(capacity.accounts[0], lendable=0.25),
        replace(capacity.accounts[2], borrow_limit=0.2),
    )
    capacity.handle(ClassesSet([kept, capacity.accounts[1], limited]), 0.0)
    assert capacity.shares == pytest.approx({"gold": 0.45, "silver": 0.25, "bronze": 0.3})


def test_shards_of_a_class_divide_its_entitlement_and_have_its_priority() -> None:
    shards = [ClassAccount(f"gold/{n}", 6, 0.0, 0.0, None, entitlement=2.0) for n in range(3)]
    capacity = core()
    capacity.handle(ClassesSet([*shards, ClassAccount("silver", 4, 0.0, 0.0, None)]), 0.0)
    assert capacity.shares == {"gold/0": 0.2, "gold/1": 0.2, "gold/2": 0.2, "silver": 0.4}


def test_setting_the_same_classes_again_changes_nothing() -> None:
    capacity = core(AFTER_BRONZE_IN_NEED)
    assert capacity.handle(terms(bronze=1, gold=6, silver=3), 0.0) == ()
    assert capacity.shares == pytest.approx(AFTER_BRONZE_IN_NEED)


def test_after_all_classes_are_removed_a_new_class_gets_the_whole_capacity() -> None:
    capacity = core()
    assert capacity.handle(ClassesSet([]), 0.0) == (SharesChanged({}),)
    assert capacity.handle(RedistributionDue(), 1.0) == ()
    assert capacity.handle(terms(gold=2), 2.0) == (SharesChanged({"gold": 1.0}),)


def test_a_class_that_was_removed_returns_as_a_new_class() -> None:
    capacity = core()
    capacity.handle(ClassAsleep("gold"), 0.0)
    capacity.handle(terms(silver=3, bronze=1), 0.0)
    capacity.handle(terms(gold=6, silver=3, bronze=1), 0.0)
    assert redistribute(capacity, {"silver": 9.0, "bronze": 9.0}) == ()


# -- the saved state of the core -------------------------------------------------------------------------


def test_a_core_restored_from_its_state_decides_as_before() -> None:
    capacity = core(lanes=2)
    redistribute(capacity, BRONZE_IN_NEED, at=10.0)
    capacity.handle(ClassAsleep("silver"), 11.0)
    capacity.handle(UsageReported("gone", 1.0, 1.0), 11.0)
    report(capacity, {"gold": 4.0, "bronze": 0.5}, at=12.0)
    again = CapacityCore.restored(json.loads(json.dumps(capacity.state())))
    assert again.state() == capacity.state()
    assert again.handle(RedistributionDue(), 13.0) == capacity.handle(RedistributionDue(), 13.0) != ()
    assert again.lending(20.0) == capacity.lending(20.0)
    assert (again.shares, again.ignored) == (capacity.shares, 1)


# -- the ledger of loans -------------------------------------------------------------------------------


def assert_lent(capacity: CapacityCore, at: float, expected: dict[str, dict[str, float]]) -> None:
    table = capacity.lending(at)
    assert {lender: dict(borrowers) for lender, borrowers in table.items()} == {
        lender: pytest.approx(borrowers) for lender, borrowers in expected.items()
    }


def test_while_all_shares_are_original_the_ledger_shows_no_lent_capacity() -> None:
    capacity = core()
    redistribute(capacity, dict.fromkeys(ORIGINALS, 2.0))
    assert_lent(capacity, 100.0, {})


def test_lent_capacity_adds_up_in_processor_seconds() -> None:
    capacity = core(lanes=2)
    redistribute(capacity, BRONZE_IN_NEED, at=10.0)
    lent = {"gold": {"bronze": 0.265 * 2 * 4}, "silver": {"bronze": 0.135 * 2 * 4}}
    assert_lent(capacity, 14.0, lent)
    assert_lent(capacity, 14.0, lent)


def test_returned_loans_stay_in_the_ledger() -> None:
    capacity = core()
    redistribute(capacity, BRONZE_IN_NEED, at=10.0)
    capacity.handle(ReclaimRequested("gold"), 20.0)
    assert_lent(capacity, 30.0, {"gold": {"bronze": 0.265 * 10}, "silver": {"bronze": 0.135 * 20}})


def test_a_clock_that_jumps_back_removes_nothing_from_the_ledger() -> None:
    capacity = core()
    redistribute(capacity, BRONZE_IN_NEED, at=100.0)
    capacity.lending(104.0)
    assert_lent(capacity, 40.0, {"gold": {"bronze": 0.265 * 4}, "silver": {"bronze": 0.135 * 4}})
    assert_lent(capacity, 43.0, {"gold": {"bronze": 0.265 * 7}, "silver": {"bronze": 0.135 * 7}})


def test_loans_from_before_the_start_count_from_the_start() -> None:
    capacity = core(AFTER_BRONZE_IN_NEED)
    capacity.handle(RedistributionDue(), 10.0)
    assert_lent(capacity, 14.0, {"gold": {"bronze": 0.265 * 4}, "silver": {"bronze": 0.135 * 4}})


def test_a_clock_that_jumps_forward_counts_as_ten_redistribution_cycles_at_most() -> None:
    capacity = core()
    redistribute(capacity, BRONZE_IN_NEED, at=100.0)
    assert_lent(capacity, 1e9, {"gold": {"bronze": 0.265 * 15}, "silver": {"bronze": 0.135 * 15}})
    assert_lent(capacity, 1e9 + 2, {"gold": {"bronze": 0.265 * 17}, "silver": {"bronze": 0.135 * 17}})


def test_loans_of_removed_classes_stay_in_the_ledger() -> None:
    capacity = core()
    redistribute(capacity, BRONZE_IN_NEED, at=10.0)
    capacity.handle(terms(silver=3, bronze=1), 14.0)
    assert_lent(capacity, 16.0, {"gold": {"bronze": 0.265 * 4}, "silver": {"bronze": 0.135 * 6}})


def test_a_long_ledger_adds_up_all_removed_classes_under_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler.capacity.core, "LEDGER_PAIRS_MAX", 1)
    capacity = core()
    redistribute(capacity, BRONZE_IN_NEED, at=10.0)
    capacity.handle(terms(bronze=1, copper=1), 14.0)
    assert_lent(capacity, 16.0, {"(gone)": {"bronze": (0.265 + 0.135) * 4}})


# -- the record of moves of shares ---------------------------------------------------------------------


def test_every_move_of_shares_is_recorded_with_the_usage_that_caused_it() -> None:
    capacity = core()
    redistribute(capacity, {"silver": 0.5, "bronze": 5.0}, at=7.0)
    (move,) = capacity.moves
    assert (move.at, move.reason, move.before) == (7.0, "redistribution", ORIGINALS)
    assert (move.after, move.usage) == (capacity.shares, {"gold": None, "silver": 0.5, "bronze": 5.0})


def test_a_move_of_shares_is_described_by_the_shares_before_and_after() -> None:
    capacity = core()
    redistribute(capacity, {"silver": 0.5, "bronze": 5.0})
    capacity.handle(ReclaimRequested("silver"), 1.0)
    capacity.handle(ReclaimRequested("silver"), 2.0)
    assert [move.sentence() for move in capacity.moves] == [
        "redistribution: silver 0.300 → 0.165, bronze 0.100 → 0.235",
        "reclaim by silver: silver 0.165 → 0.300, bronze 0.235 → 0.100",
        "reclaim by silver: nothing moved",
    ]


def test_classes_that_come_and_go_are_recorded() -> None:
    capacity = core()
    capacity.handle(terms(gold=6, silver=3, copper=3), 1.0)
    expected = "classes set: copper joins with 0.250, gold 0.600 → 0.500, silver 0.300 → 0.250, bronze leaves"
    assert capacity.moves[-1].sentence() == expected


def test_only_the_latest_1000_moves_of_shares_are_kept() -> None:
    capacity = core()
    for second in range(1005):
        capacity.handle(RedistributionDue(), float(second))
    assert [capacity.moves[0].at, capacity.moves[-1].at, len(capacity.moves)] == [5.0, 1004.0, 1000]
