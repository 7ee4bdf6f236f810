"""Weighted round robin between classes, one situation per test. A round lasts 10 s, so a share of 0.6 gives a quota of 6 s."""

import inspect
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import pytest

from scheduler.turns.round_robin import (
    ClassLeft,
    ClassReady,
    Grant,
    HostsSet,
    SharesSet,
    SliceEnded,
    TurnRoundRobin,
)

SHARES = {"gold": 0.5, "silver": 0.25, "bronze": 0.25}


def round_robin(shares: Mapping[str, float] = SHARES, lanes: int = 1, ready: str = "") -> TurnRoundRobin:
    """Return a round robin in which the classes in `ready` have input. As many of these classes run as there are lanes."""
    turns = TurnRoundRobin(shares, round_s=10.0, lanes=lanes)
    for name in ready.split():
        turns.handle(ClassReady(name), 0.0)
    return turns


def ended(
    turns: TurnRoundRobin, name: str, used_s: float, backlog: bool = True, lane: int = 0
) -> tuple[Grant, ...]:
    return turns.handle(SliceEnded(name, lane, used_s, backlog), 0.0)


def test_the_first_class_with_input_runs_at_once() -> None:
    turns = round_robin()
    assert turns.handle(ClassReady("silver"), 0.0) == (Grant("silver", 0, 2.5),)


def test_backlogged_classes_take_turns_in_order_each_for_its_quota() -> None:
    turns = round_robin(ready="gold silver bronze")
    assert ended(turns, "gold", 5.0) == (Grant("silver", 0, 2.5),)
    assert ended(turns, "silver", 2.5) == (Grant("bronze", 0, 2.5),)
    assert ended(turns, "bronze", 2.5) == (Grant("gold", 0, 5.0),)
    assert turns.rounds == 2


def test_a_class_without_input_is_passed_over() -> None:
    turns = round_robin(ready="gold bronze")
    assert ended(turns, "gold", 5.0) == (Grant("bronze", 0, 2.5),)
    assert ended(turns, "bronze", 2.5, backlog=False) == (Grant("gold", 0, 5.0),)


def test_a_class_that_runs_out_of_input_hands_over_at_once() -> None:
    turns = round_robin(ready="gold silver")
    assert ended(turns, "gold", 0.5, backlog=False) == (Grant("silver", 0, 2.5),)


def test_a_lane_stays_free_only_while_no_class_has_input() -> None:
    turns = round_robin(ready="gold")
    assert ended(turns, "gold", 1.0, backlog=False) == ()
    assert turns.handle(ClassReady("bronze"), 0.0) == (Grant("bronze", 0, 2.5),)


def test_input_during_a_slice_or_a_wait_gives_no_second_turn() -> None:
    turns = round_robin(ready="gold gold silver silver")
    assert ended(turns, "gold", 5.0, backlog=False) == (Grant("silver", 0, 2.5),)
    assert ended(turns, "silver", 2.5, backlog=False) == ()


def test_an_overrun_is_deducted_from_the_next_quota() -> None:
    turns = round_robin(ready="gold silver")
    ended(turns, "gold", 6.5)
    assert ended(turns, "silver", 2.5) == (Grant("gold", 0, 5.0 - 1.5),)


def test_a_class_in_debt_sits_out_rounds_until_the_debt_is_paid() -> None:
    turns = round_robin(ready="silver bronze")
    ended(turns, "silver", 2.5 + 6.0)
    assert ended(turns, "bronze", 2.5) == (Grant("bronze", 0, 2.5),)
    assert ended(turns, "bronze", 2.5) == (Grant("bronze", 0, 2.5),)
    assert ended(turns, "bronze", 2.5) == (Grant("silver", 0, 3 * 2.5 - 6.0),)


def test_a_class_with_a_debt_of_exactly_its_quota_sits_out_one_round() -> None:
    turns = round_robin(ready="silver bronze")
    ended(turns, "silver", 2.5 + 2.5)
    assert ended(turns, "bronze", 2.5) == (Grant("bronze", 0, 2.5),)
    assert ended(turns, "bronze", 2.5) == (Grant("silver", 0, 2.5),)


def test_unused_quota_is_not_saved() -> None:
    turns = round_robin(ready="gold silver")
    ended(turns, "gold", 1.0, backlog=True)
    assert ended(turns, "silver", 2.5) == (Grant("gold", 0, 5.0),)


def test_a_class_saves_no_quota_in_rounds_without_input() -> None:
    turns = round_robin(ready="gold")
    for _ in range(5):
        ended(turns, "gold", 5.0)
    turns.handle(ClassReady("silver"), 0.0)
    assert ended(turns, "gold", 5.0) == (Grant("silver", 0, 2.5),)


def test_rounds_without_input_pay_off_a_debt() -> None:
    turns = round_robin(ready="gold silver")
    ended(turns, "gold", 5.0)
    ended(turns, "silver", 2.5 + 6.0, backlog=False)
    for _ in range(3):
        ended(turns, "gold", 5.0)
    turns.handle(ClassReady("silver"), 0.0)
    assert ended(turns, "gold", 5.0) == (Grant("silver", 0, 2.5),)


def test_a_class_in_debt_runs_when_no_other_class_waits() -> None:
    turns = round_robin(ready="silver")
    assert ended(turns, "silver", 2.5 + 2501.0) == (Grant("silver", 0, 1.5),)
    assert turns.rounds == 1 + 1001


def test_when_all_classes_are_in_debt_the_first_to_recover_runs() -> None:
    turns = round_robin(ready="gold silver")
    ended(turns, "gold", 5.0 + 1000.0)
    assert ended(turns, "silver", 2.5 + 10.0) == (Grant("silver", 0, 2.5),)
    assert turns.rounds == 1 + 5


def test_a_class_with_almost_no_share_still_gets_a_turn() -> None:
    turns = round_robin({"gold": 1.0, "none": 0.0}, ready="gold none")
    (grant,) = ended(turns, "gold", 10.0)
    assert grant.name == "none"
    assert 0 < grant.quota_s < 0.001


# -- shares and classes that change while slices run ------------------------------------------------


def test_new_shares_count_from_the_next_turn() -> None:
    turns = round_robin(ready="gold silver")
    turns.handle(SharesSet({"gold": 0.25, "silver": 0.75, "bronze": 0.0}), 0.0)
    assert ended(turns, "gold", 5.0) == (Grant("silver", 0, 7.5),)
    assert ended(turns, "silver", 7.5) == (Grant("gold", 0, 2.5),)


def test_new_shares_do_not_forgive_debts() -> None:
    turns = round_robin(ready="silver bronze")
    ended(turns, "silver", 2.5 + 4.0)
    turns.handle(SharesSet({"gold": 0.0, "silver": 0.75, "bronze": 0.25}), 0.0)
    assert ended(turns, "bronze", 2.5) == (Grant("silver", 0, 7.5 - 4.0),)


def test_a_share_that_shrinks_during_a_slice_causes_no_debt() -> None:
    turns = round_robin(ready="gold silver")
    turns.handle(SharesSet({"gold": 0.1, "silver": 0.65, "bronze": 0.25}), 0.0)
    assert ended(turns, "gold", 5.0) == (Grant("silver", 0, 6.5),)
    assert ended(turns, "silver", 6.5) == (Grant("gold", 0, 1.0),)


def test_a_waiting_class_keeps_its_turn_when_shares_change() -> None:
    turns = round_robin(ready="gold silver bronze")
    turns.handle(SharesSet({"bronze": 0.25, "silver": 0.25, "gold": 0.5}), 0.0)
    assert ended(turns, "gold", 5.0) == (Grant("bronze", 0, 2.5),)
    assert ended(turns, "bronze", 2.5) == (Grant("silver", 0, 2.5),)
    assert turns.rounds == 1


def test_a_new_class_takes_part_from_the_next_round() -> None:
    turns = round_robin(ready="gold silver")
    turns.handle(SharesSet({**SHARES, "copper": 0.5}), 0.0)
    assert turns.handle(ClassReady("copper"), 0.0) == ()
    assert ended(turns, "gold", 5.0) == (Grant("silver", 0, 2.5),)
    assert ended(turns, "silver", 2.5, backlog=False) == (Grant("gold", 0, 5.0),)
    assert ended(turns, "gold", 5.0) == (Grant("copper", 0, 5.0),)


def test_a_class_that_left_gives_back_its_lane_and_gets_no_turn() -> None:
    turns = round_robin(ready="gold silver bronze")
    turns.handle(SharesSet({"silver": 0.25}), 0.0)
    assert ended(turns, "gold", 5.0) == (Grant("silver", 0, 2.5),)
    assert ended(turns, "silver", 2.5, backlog=False) == ()
    assert turns.handle(ClassReady("bronze"), 0.0) == ()


def test_a_class_that_returns_during_its_slice_keeps_its_lane() -> None:
    turns = round_robin(lanes=2, ready="gold")
    turns.handle(SharesSet({"silver": 0.25}), 0.0)
    turns.handle(SharesSet(SHARES), 0.0)
    assert turns.handle(ClassReady("gold"), 0.0) == ()
    assert ended(turns, "gold", 10.0 + 4.0) == (Grant("gold", 0, 10.0 - 4.0),)


# -- turns on several lanes ---------------------------------------------------------------------------


def test_quotas_are_shares_of_all_lanes() -> None:
    turns = round_robin(lanes=2)
    grants = [turns.handle(ClassReady(name), 0.0) for name in SHARES]
    assert grants == [(Grant("gold", 0, 10.0),), (Grant("silver", 1, 5.0),), ()]
    assert ended(turns, "silver", 5.0, lane=1) == (Grant("bronze", 1, 5.0),)


def test_a_class_runs_on_one_lane_however_many_are_free() -> None:
    turns = round_robin(lanes=3, ready="gold")
    assert turns.handle(ClassReady("gold"), 0.0) == ()
    assert ended(turns, "gold", 15.0) == (Grant("gold", 0, 15.0),)


def test_the_lowest_free_lane_is_granted_first() -> None:
    turns = round_robin(lanes=3, ready="gold silver bronze")
    ended(turns, "bronze", 1.0, backlog=False, lane=2)
    ended(turns, "gold", 1.0, backlog=False, lane=0)
    assert turns.handle(ClassReady("bronze"), 0.0) == (Grant("bronze", 0, 7.5),)
    assert turns.handle(ClassReady("gold"), 0.0) == (Grant("gold", 2, 15.0),)


def test_a_class_whose_slice_outlasts_the_round_keeps_its_next_turn() -> None:
    turns = round_robin(lanes=2, ready="gold silver bronze")
    ended(turns, "silver", 5.0, lane=1)
    assert ended(turns, "bronze", 5.0, lane=1) == (Grant("silver", 1, 5.0),)
    assert ended(turns, "gold", 10.0, lane=0) == (Grant("gold", 0, 10.0),)
    assert turns.rounds == 2


def test_rounds_during_a_slice_pay_for_its_overrun_even_if_shares_are_set() -> None:
    turns = round_robin(lanes=2, ready="gold silver bronze")
    for _ in range(5):
        assert ended(turns, "silver", 5.0, lane=1) == (Grant("bronze", 1, 5.0),)
        assert ended(turns, "bronze", 5.0, lane=1) == (Grant("silver", 1, 5.0),)
    turns.handle(SharesSet(SHARES), 0.0)
    assert ended(turns, "gold", 6 * 10.0 - 5.0, lane=0) == (Grant("gold", 0, 5.0),)


# -- several classes in one host ----------------------------------------------------------------------


def left(turns: TurnRoundRobin, name: str) -> tuple[Grant, ...]:
    return turns.handle(ClassLeft(name), 0.0)


def one_host(*names: str, lanes: int = 2, ready: str = "") -> TurnRoundRobin:
    """Return a round robin in which the named classes run in one host."""
    turns = round_robin(lanes=lanes)
    turns.handle(HostsSet(dict.fromkeys(names, "host")), 0.0)
    for name in ready.split():
        turns.handle(ClassReady(name), 0.0)
    return turns


def test_classes_of_one_host_run_one_after_another_even_with_free_lanes() -> None:
    turns = one_host("gold", "silver", ready="gold silver")
    assert ended(turns, "gold", 10.0) == (Grant("silver", 0, 5.0),)
    assert ended(turns, "silver", 5.0) == (Grant("gold", 0, 10.0),)


def test_a_class_with_a_busy_host_lets_the_next_class_go_first() -> None:
    turns = one_host("gold", "silver", ready="gold silver")
    assert turns.handle(ClassReady("bronze"), 0.0) == (Grant("bronze", 1, 5.0),)
    assert ended(turns, "gold", 10.0, backlog=False) == (Grant("silver", 0, 5.0),)
    assert turns.rounds == 1


@pytest.mark.parametrize(("rounds", "quotas"), [(1, 2), (2, 3), (3, 3)])
def test_a_class_held_up_by_its_host_makes_up_for_at_most_two_rounds(rounds: int, quotas: int) -> None:
    turns = one_host("gold", "silver", ready="gold silver bronze")
    for _ in range(rounds):
        assert ended(turns, "bronze", 5.0, lane=1) == (Grant("bronze", 1, 5.0),)
    assert ended(turns, "gold", 10.0, backlog=False) == (Grant("silver", 0, quotas * 5.0),)


def test_no_new_round_begins_while_only_a_class_with_a_busy_host_waits() -> None:
    turns = one_host("gold", "silver", lanes=3, ready="gold silver bronze")
    assert ended(turns, "bronze", 1.0, backlog=False, lane=1) == ()
    assert turns.rounds == 1


def test_a_class_held_up_by_its_host_runs_before_turns_of_a_later_round() -> None:
    turns = one_host("gold", "silver", ready="gold silver bronze")
    ended(turns, "bronze", 5.0, lane=1)
    # Gold comes first in each round, but silver still has to run in the first round.
    assert ended(turns, "gold", 10.0) == (Grant("silver", 0, 10.0),)


def test_a_change_of_the_hosts_of_classes_applies_from_the_next_turn() -> None:
    turns = one_host("gold", "silver", ready="gold silver")
    assert turns.handle(HostsSet({"silver": "other", "bronze": "host"}), 0.0) == (Grant("silver", 1, 5.0),)
    assert turns.handle(ClassReady("bronze"), 0.0) == ()
    ended(turns, "silver", 5.0, backlog=False, lane=1)
    assert ended(turns, "gold", 10.0, backlog=False) == (Grant("bronze", 0, 5.0),)


def test_the_slice_of_a_class_whose_host_dies_ends_and_counts_as_fully_used() -> None:
    turns = round_robin(ready="gold silver")
    assert left(turns, "gold") == (Grant("silver", 0, 2.5),)
    turns.handle(ClassReady("gold"), 0.0)
    assert ended(turns, "silver", 2.5) == (Grant("gold", 0, 5.0),)
    assert turns.rounds == 2


def test_a_class_whose_host_died_gets_no_turn_until_it_is_ready_again() -> None:
    turns = round_robin(ready="gold silver bronze")
    assert left(turns, "silver") == ()
    assert ended(turns, "gold", 5.0) == (Grant("bronze", 0, 2.5),)
    turns.handle(ClassReady("silver"), 0.0)
    assert ended(turns, "bronze", 2.5, backlog=False) == (Grant("gold", 0, 5.0),)
    assert ended(turns, "gold", 5.0) == (Grant("silver", 0, 2.5),)


def test_a_class_still_has_its_debt_after_its_host_died_and_returned() -> None:
    turns = round_robin(ready="gold silver")
    ended(turns, "gold", 6.5)
    left(turns, "gold")
    turns.handle(ClassReady("gold"), 0.0)
    assert ended(turns, "silver", 2.5) == (Grant("gold", 0, 5.0 - 1.5),)


def test_when_a_host_dies_its_other_classes_wait_no_longer() -> None:
    turns = one_host("gold", "silver", ready="gold silver")
    assert left(turns, "gold") == (Grant("silver", 0, 5.0),)
    assert left(turns, "silver") == left(turns, "bronze") == left(turns, "nobody") == ()


def test_when_a_held_up_class_leaves_the_next_class_of_its_host_gets_the_turn() -> None:
    turns = one_host("silver", "bronze", "copper", lanes=1)
    turns.handle(SharesSet({**SHARES, "copper": 0.5}), 0.0)
    for name in ("silver", "bronze", "copper", "gold"):
        turns.handle(ClassReady(name), 0.0)
    turns.handle(HostsSet({"silver": "host", "bronze": "host", "copper": "host"}), 0.0)
    left(turns, "bronze")
    assert ended(turns, "silver", 2.5, backlog=False) == (Grant("copper", 0, 5.0),)


def test_a_slice_that_has_ended_cannot_end_again() -> None:
    turns = round_robin(ready="gold silver")
    left(turns, "gold")
    assert ended(turns, "gold", 5.0) == ended(turns, "silver", 2.5, lane=3) == ()
    assert ended(turns, "silver", 2.5, backlog=False) == ()
    assert turns.handle(ClassReady("bronze"), 0.0) == (Grant("bronze", 0, 2.5),)


# -- the cost of a turn -------------------------------------------------------------------------------


def instructions_of(act: Callable[[], object]) -> int:
    """Return the number of bytecode instructions that the round robin executes during `act`."""
    instructions = 0

    def count(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        nonlocal instructions
        # Only the round robin's own code counts: a garbage collection may run unrelated hooks at any moment.
        frame.f_trace_opcodes = frame.f_code.co_filename == inspect.getfile(TurnRoundRobin)
        instructions += event == "opcode" and frame.f_trace_opcodes
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        act()
    finally:
        sys.settrace(before)
    return instructions


def instructions_of_turns(idle: int = 0, in_debt: int = 0, kept_by_host: int = 2) -> int:
    """Count the bytecode instructions of twenty turns of gold, silver and the classes that share a host, on two lanes.

    The arguments say how many classes are idle, how many are in debt, and how many share a host.
    """
    kept, debtors = (
        [f"kept{number}" for number in range(kept_by_host)],
        [f"d{number}" for number in range(in_debt)],
    )
    others = dict.fromkeys([f"idle{number}" for number in range(idle)] + debtors, 0.1)
    turns = TurnRoundRobin(others | {"gold": 0.5, "silver": 0.25} | dict.fromkeys(kept, 0.1), 10.0, lanes=2)
    turns.handle(HostsSet(dict.fromkeys(kept, "host")), 0.0)
    for name in debtors:
        turns.handle(ClassReady(name), 0.0)
        ended(turns, name, 1e6, backlog=False)
    granted = [
        grant for name in ("gold", "silver", *kept, *debtors) for grant in turns.handle(ClassReady(name), 0.0)
    ]

    def twenty_turns() -> None:
        for _ in range(20):
            one = granted.pop(0)
            granted.extend(ended(turns, one.name, one.quota_s, lane=one.lane))

    twenty_turns()
    return instructions_of(twenty_turns)


def test_a_turn_executes_no_more_instructions_if_there_are_2000_idle_classes() -> None:
    assert instructions_of_turns(idle=0) == instructions_of_turns(idle=2000) > 0


def test_classes_in_debt_make_a_turn_no_more_expensive() -> None:
    assert instructions_of_turns(in_debt=0) == instructions_of_turns(in_debt=2000)


def test_classes_held_up_by_their_host_make_a_turn_hardly_more_expensive() -> None:
    assert instructions_of_turns(kept_by_host=2000) < 1.5 * instructions_of_turns(kept_by_host=20)
