"""The load manager of a class: what it commands at the end of a load cycle, and how it explains itself."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from configs.classes.load_manager import LoadSettings
from configs.classes.priority_class import PriorityClass
from loadshed.aloma import LEAST_HEADROOM, AlomaBranch, Control
from loadshed.build import load_manager
from loadshed.cycle import CycleEnded, InputCycle, OutputCycle
from loadshed.manager import (
    EXPLANATIONS_KEPT,
    FULL_CYCLES,
    LEAST_ROOM,
    DropOlder,
    HoldBack,
    LoadCommand,
    LoadManager,
    ReportUsage,
    RequestReclaim,
    SetKeep,
    TrimQueue,
)
from scheduler.capacity.core import HeadroomScaled

CYCLE_S = 0.15
TARGET_S = 0.3


def manager(
    control: Control | None = None,
    share: float = 0.5,
    max_drop: float = 0.95,
    settings: LoadSettings | None = None,
) -> LoadManager:
    """Of a class whose original share is a half."""
    gold = LoadManager("gold", settings or LoadSettings(), TARGET_S, share, 0.5, max_drop)
    gold.control = control or gold.control
    return gold


def cycle(load: float, response: float = 0.1, queued_work_s: float = 0.0) -> CycleEnded:
    """A cycle in which so much load was offered; the response is a part of the target."""
    readings = InputCycle("readings", 150, load / 1000)
    return CycleEnded(
        CYCLE_S, (readings,), (OutputCycle("q", TARGET_S, 1, response * TARGET_S),), queued_work_s
    )


# --- headroom -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lanes", "start", "headroom"), [(1, 1.0, 0.4), (1, 0.5, 0.2), (2, 1.0, 0.8), (4, 1.0, 1.0)]
)
def test_the_first_headroom_is_a_part_of_the_share_of_all_lanes_but_at_most_one_lane(
    lanes: int, start: float, headroom: float
) -> None:
    gold = LoadManager("gold", LoadSettings(headroom_start=start), TARGET_S, 0.4, 0.4, lanes=lanes)
    assert gold.control == Control(headroom)


def test_headroom_follows_a_move_of_shares_at_once() -> None:
    gold = manager(Control(0.4, 0.7, AlomaBranch.EASE, 3))
    assert gold.handle(HeadroomScaled("gold", 1.5, 0.75, 0.6), 1.0) == ()
    assert gold.control == Control(0.4 * 1.5, 0.7, AlomaBranch.EASE, 3)
    assert (gold.share, gold.original_share) == (0.75, 0.6)


@pytest.mark.parametrize(("factor", "headroom"), [(100.0, 1.0), (0.0, LEAST_HEADROOM)])
def test_a_move_of_shares_cannot_take_headroom_out_of_its_bounds(factor: float, headroom: float) -> None:
    gold = manager()
    gold.handle(HeadroomScaled("gold", factor, 0.5, 0.5), 1.0)
    assert gold.control == Control(headroom)


# --- commands -------------------------------------------------------------------------------------


def test_a_class_in_order_reports_its_usage_and_changes_nothing() -> None:
    assert manager().handle(cycle(0.2), 1.0) == (ReportUsage(0.4, 0.2),)


def test_usage_is_the_load_offered_and_not_what_shedding_left_of_it() -> None:
    gold = manager(Control(0.5, 0.2))
    assert gold.handle(cycle(2.0), 1.0)[0] == ReportUsage(4.0, 2.0)


def usage_of(gold: LoadManager, seen: CycleEnded) -> float:
    (usage,) = [one.usage for one in gold.handle(seen, 1.0) if isinstance(one, ReportUsage)]
    return usage


def test_usage_goes_by_what_the_class_really_had_while_its_queue_stood() -> None:
    gold = manager(Control(0.5))
    seen = replace(cycle(0.3, queued_work_s=0.02), worked_s=0.2 * CYCLE_S)
    assert [usage_of(gold, seen) for _ in range(5)] == pytest.approx([0.6, 0.6, 0.6, 1.5, 1.5])


@pytest.mark.parametrize(("ran_dry", "usage"), [(False, 1.5), (True, 0.6)])
def test_a_queue_that_shedding_has_made_short_is_no_news_of_more_capacity(
    ran_dry: bool, usage: float
) -> None:
    gold = manager(Control(0.5))
    full = replace(cycle(0.3, queued_work_s=0.02), worked_s=0.2 * CYCLE_S)
    short = replace(full, queued_work_s=0.005, ran_dry=ran_dry)
    seen = [full] * FULL_CYCLES + [short]
    assert [usage_of(gold, one) for one in seen][-2:] == pytest.approx([1.5, usage])


def test_a_cycle_in_which_no_turn_came_is_no_capacity_of_nothing() -> None:
    gold = manager(Control(0.5))
    full = cycle(0.3, queued_work_s=0.02)
    had = [replace(full, worked_s=part * CYCLE_S) for part in (0.4, 0.0)]
    assert [usage_of(gold, one) for one in had * 2] == pytest.approx([0.6, 0.6, 0.6, 1.5])
    silver = manager(Control(0.5))
    assert [usage_of(silver, had[1]) for _ in range(5)] == pytest.approx([0.6] * 5)


def test_a_queue_of_two_bursts_is_no_measure_of_what_a_class_can_have() -> None:
    """Two cycles may bring few turns; what it is entitled to is not dropped for that."""
    gold = manager(Control(0.5))
    burst = replace(cycle(0.4, queued_work_s=0.06), worked_s=0.2 * CYCLE_S)
    dry = replace(burst, queued_work_s=0.0, ran_dry=True)
    assert [usage_of(gold, one) for one in (burst, burst, dry, burst)] == pytest.approx([0.8] * 4)
    assert gold.control.keep == 1.0


def test_an_overloaded_class_sheds_the_part_above_its_headroom() -> None:
    told = manager().handle(cycle(0.625, response=2.0, queued_work_s=0.05), 1.0)
    assert told == (ReportUsage(1.25, 0.625), SetKeep(0.8))


def test_the_drop_rate_moves_by_the_load_that_was_admitted() -> None:
    gold = manager(Control(0.5, 0.5))
    told = gold.handle(cycle(1.25, response=2.0, queued_work_s=0.05), 1.0)
    assert told == (ReportUsage(2.5, 1.25), SetKeep(0.4))


def test_a_queue_is_kept_to_what_can_be_worked_off_in_time_whatever_the_table_says() -> None:
    gold = manager(Control(0.5, 0.5))
    _, told, trim = gold.handle(cycle(1.0, queued_work_s=0.15), 1.0)
    # Of the queue itself 0.7·0.3·0.5 = 0.105 s may stay. 0.5·(0.15 + 0.7·0.3) − 0.15 = 0.03 s of work may come, a fifth of the 0.15 s that would.
    assert isinstance(told, SetKeep)
    assert told.keep == pytest.approx(0.2)
    assert isinstance(trim, TrimQueue)
    assert trim.part == pytest.approx(1 - 0.105 / 0.15)


def test_an_idle_class_sheds_no_more() -> None:
    gold = manager(Control(0.5, 0.3))
    idle = CycleEnded(CYCLE_S, (InputCycle("readings", 0, 0.001),), (), 0.0)
    assert gold.handle(idle, 1.0) == (ReportUsage(0.0, 0.0), SetKeep(1.0))


@pytest.mark.parametrize(
    ("own", "everybodys", "keep"), [(0.3, 0.95, 0.7), (0.95, 0.3, 0.7), (0.0, 0.95, 1.0)]
)
def test_no_more_is_dropped_than_the_class_and_the_settings_allow(
    own: float, everybodys: float, keep: float
) -> None:
    gold = manager(max_drop=own, settings=LoadSettings(max_drop=everybodys))
    gold.handle(cycle(100.0, response=9.0, queued_work_s=9.0), 1.0)
    assert gold.control.keep == keep


# --- reclaim --------------------------------------------------------------------------------------

OVERLOADED = cycle(0.5, response=2.0, queued_work_s=0.1)


def test_a_lender_that_becomes_overloaded_asks_for_its_share_and_holds_its_drop_rate() -> None:
    gold = manager(Control(0.2, 0.9), share=0.2)
    assert gold.handle(OVERLOADED, 1.0) == (ReportUsage(2.5, 0.5), RequestReclaim())
    assert gold.control == Control(0.2, 0.9, AlomaBranch.HOLD, 1)


def test_a_lender_whose_share_does_not_come_sheds_by_the_table_and_goes_on_asking() -> None:
    gold = manager(Control(0.2, 0.9), share=0.2)
    gold.handle(OVERLOADED, 1.0)
    usage, shed, asked = gold.handle(OVERLOADED, 1.15)
    assert (usage, asked, gold.control.branch) == (
        ReportUsage(2.5, 0.5),
        RequestReclaim(),
        AlomaBranch.DROP_MORE,
    )
    assert isinstance(shed, SetKeep)
    assert shed.keep < 0.4


def test_a_lender_whose_share_came_asks_no_more() -> None:
    gold = manager(Control(0.2), share=0.2)
    gold.handle(OVERLOADED, 1.0)
    gold.handle(HeadroomScaled("gold", 2.5, 0.5, 0.5), 1.0)
    assert gold.handle(cycle(0.5, response=0.9, queued_work_s=0.05), 1.15) == (ReportUsage(1.0, 0.5),)


def test_a_lender_that_becomes_overloaded_again_holds_again() -> None:
    gold = manager(Control(0.2), share=0.2)
    branches = []
    for seen in (OVERLOADED, OVERLOADED, cycle(0.1), OVERLOADED):
        gold.handle(seen, 1.0)
        branches.append(gold.control.branch)
    assert [branch is AlomaBranch.HOLD for branch in branches] == [True, False, False, True]


@pytest.mark.parametrize("share", [0.5, 0.7])
def test_a_class_that_lends_nothing_does_not_ask_for_capacity(share: float) -> None:
    told = manager(Control(0.2), share=share).handle(OVERLOADED, 1.0)
    assert RequestReclaim() not in told


@pytest.mark.parametrize(
    ("seen", "asks"),
    [
        (cycle(0.1, response=1.1), True),  # late answers are enough
        (cycle(0.3), True),  # so is load far above headroom and share
        (
            cycle(0.205, queued_work_s=0.02),
            True,
        ),  # and load a little above headroom with a queue that shows it
        (cycle(0.205, queued_work_s=0.005), False),  # one noisy cycle leaves no such queue
        (cycle(0.1, queued_work_s=0.02), False),
    ],
)
def test_overload_of_a_lender_is_late_answers_or_load_beyond_doubt_or_load_with_a_queue(
    seen: CycleEnded, asks: bool
) -> None:
    told = manager(Control(0.2), share=0.2).handle(seen, 1.0)
    assert (RequestReclaim() in told) == asks


# --- explanations ---------------------------------------------------------------------------------


WITHIN_SHARE = Control(0.5, 0.5)
LENDING = Control(0.2, 0.9)


@pytest.mark.parametrize(
    ("gold", "seen", "sentence"),
    [
        (
            manager(),
            [cycle(0.2)],
            "load 0.2 within headroom 0.5, response 10% of target (normal), 0 ms of work queued → nothing to change",
        ),
        (
            manager(),
            [CycleEnded(CYCLE_S, (), (), 0.0)],
            "load 0 within headroom 0.5, no response, 0 ms of work queued → nothing to change",
        ),
        (
            manager(WITHIN_SHARE),
            [cycle(0.8, 0.2), cycle(0.8, 1.03, 0.05)],
            "load 0.5 within headroom 0.5, response 103% of target (over target), 50 ms of work queued "
            "→ nothing to change; drop stays at 37.5%",
        ),
        (
            manager(),
            [cycle(0.625, 2.0, 0.05)],
            "load 0.625 above headroom 0.5, response 200% of target (critical), 50 ms of work queued "
            "→ overloaded; drop 0.0% → 20.0%",
        ),
        (
            manager(),
            [cycle(2.0, 2.0, 0.15)],
            "load 2 above headroom 0.5, response 200% of target (critical), 150 ms of work queued "
            "→ overloaded; let in no more than the queue allows; drop 0.0% → 90.0%"
            "; drop 30% of the queue, which would be late",
        ),
        (
            manager(max_drop=0.3),
            [cycle(2.0, 2.0, 0.15)],
            "load 2 above headroom 0.5, response 200% of target (critical), 150 ms of work queued "
            "→ overloaded; drop 0.0% → 30.0%; no more may be dropped; drop 30% of the queue, which would be late",
        ),
        (
            manager(max_drop=0.0),
            [cycle(2.0, 2.0, 0.15)],
            "load 2 above headroom 0.5, response 200% of target (critical), 150 ms of work queued "
            "→ overloaded; no more may be dropped",
        ),
        (
            manager(),
            [cycle(0.55, 0.2)],
            "load 0.55 above headroom 0.5, response 20% of target (normal), 0 ms of work queued "
            "→ it keeps up all the same; headroom 0.5 → 0.517",
        ),
        (
            manager(WITHIN_SHARE),
            [cycle(1.2, 0.1, 0.05), cycle(1.2, 0.5, 0.05), cycle(1.2, 0.4, 0.04)],
            "load 0.6 above headroom 0.522, response 40% of target (accumulating), 40 ms of work queued "
            "→ its delay is falling all the same; headroom 0.522 → 0.543; drop 50.0% → 49.5%",
        ),
        (
            manager(WITHIN_SHARE),
            [cycle(0.8, 0.9), cycle(0.6, 1.2, 0.05)],
            "load 0.375 within headroom 0.5, response 120% of target (critical), 50 ms of work queued "
            "→ it falls behind all the same; headroom 0.5 → 0.476; drop 37.5% → 38.1%",
        ),
        (
            manager(WITHIN_SHARE),
            [cycle(0.8, 0.2)],
            "load 0.4 within headroom 0.5, response 20% of target (normal), 0 ms of work queued "
            "→ there is room; drop 50.0% → 37.5%",
        ),
        (
            manager(WITHIN_SHARE),
            [cycle(0.9, 0.7, 0.17)],
            "load 0.45 within headroom 0.5, response 70% of target (normal), 170 ms of work queued "
            "→ there is room; let in no more than the queue allows; drop 50.0% → 92.6%"
            "; drop 38% of the queue, which would be late",
        ),
        (
            manager(),
            [cycle(0.4, 0.9, 0.17)],
            "load 0.4 within headroom 0.5, response 90% of target (normal), 170 ms of work queued "
            "→ let in no more than the queue allows; drop 0.0% → 83.3%"
            "; drop 38% of the queue, which would be late",
        ),
        (
            manager(LENDING, share=0.2),
            [OVERLOADED],
            "load 0.45 above headroom 0.2, response 200% of target (critical), 100 ms of work queued "
            "→ overloaded below its original share; ask for the capacity back and drop no more meanwhile; "
            "drop stays at 10.0%",
        ),
        (
            manager(LENDING, share=0.2),
            [OVERLOADED, OVERLOADED],
            "load 0.45 above headroom 0.2, response 200% of target (critical), 100 ms of work queued "
            "→ overloaded; let in no more than the queue allows; drop 10.0% → 95.0%; no more may be dropped",
        ),
    ],
)
def test_a_decision_explains_itself(gold: LoadManager, seen: list[CycleEnded], sentence: str) -> None:
    for one in seen:
        gold.handle(one, 12.3)
    assert gold.explanations[-1].sentence() == f"12.30 s gold: {sentence}"


def test_every_decision_is_explained_and_the_last_thousand_kept() -> None:
    gold = manager()
    for second in range(EXPLANATIONS_KEPT + 5):
        is_calm = second % 2
        gold.handle(cycle(0.1 if is_calm else 1.25, response=0.1 if is_calm else 2.0), float(second))
    assert [one.at for one in gold.explanations] == [
        float(second) for second in range(5, EXPLANATIONS_KEPT + 5)
    ]


def test_decisions_that_change_nothing_are_kept_as_one_so_that_the_last_overload_stays_visible() -> None:
    gold = manager()
    gold.handle(cycle(1.25, response=2.0), 0.0)
    for second in range(1, 5 * EXPLANATIONS_KEPT):
        gold.handle(cycle(0.1), float(second))
    first, *_, last = gold.explanations
    assert (first.at, first.after.branch) == (0.0, AlomaBranch.DROP_MORE)
    assert last.at == 5 * EXPLANATIONS_KEPT - 1
    assert last.sentence().endswith(f"(and {last.repeated:,} more like it since {last.since:.2f} s)")
    assert sum(1 + one.repeated for one in gold.explanations) == 5 * EXPLANATIONS_KEPT
    assert len(gold.explanations) < 100


def test_what_was_let_in_for_a_larger_share_and_would_be_late_is_dropped_from_the_queue() -> None:
    gold = LoadManager("gold", LoadSettings(), target_s=0.4, share=0.6, original_share=0.3)
    in_time = CycleEnded(0.15, (InputCycle("s", 100, 1e-3),), (), queued_work_s=0.6 * 0.4 * 0.8)
    assert not [one for one in gold.handle(in_time, 0.15) if isinstance(one, TrimQueue)]
    gold.handle(HeadroomScaled("gold", 0.5, 0.3, 0.3), 0.2)
    (trim,) = [one for one in gold.handle(in_time, 0.3) if isinstance(one, TrimQueue)]
    allowed = LoadSettings().queue_fraction * 0.4 * gold.control.headroom
    assert (1 - trim.part) * in_time.queued_work_s == pytest.approx(allowed)
    assert "of the queue, which would be late" in gold.explanations[-1].sentence()


def test_no_more_of_a_queue_is_dropped_than_of_the_input_may_be() -> None:
    gold = LoadManager("gold", LoadSettings(), 0.4, 0.6, 0.6, max_drop=0.1)
    full = CycleEnded(0.15, (InputCycle("s", 100, 1e-3),), (), queued_work_s=50.0)
    assert TrimQueue(0.1) in gold.handle(full, 0.15)


@pytest.mark.parametrize("max_drop", [0.1, 0.5])
def test_what_is_dropped_from_the_queue_counts_for_the_highest_drop(max_drop: float) -> None:
    """Of a class that is offered four times what it can do for a minute, and whose queue is trimmed again and again."""
    gold = manager(max_drop=max_drop)
    offered_s = dropped_s = queued_s = 0.0
    for number in range(1, 401):
        came_s, kept = 2.0 * CYCLE_S, gold.control.keep
        offered_s += came_s
        dropped_s += (1 - kept) * came_s
        queued_s = max(0.0, queued_s + kept * came_s - 0.5 * CYCLE_S)
        for told in gold.handle(cycle(2.0, response=3.0, queued_work_s=queued_s), number * CYCLE_S):
            if isinstance(told, TrimQueue):
                dropped_s += told.part * queued_s
                queued_s *= 1 - told.part
    assert dropped_s / offered_s == pytest.approx(max_drop, abs=0.01)


def test_what_may_queue_goes_by_what_a_full_queue_was_really_worked_off_with() -> None:
    told = []
    for worked_s in (None, 0.5 * CYCLE_S, 0.25 * CYCLE_S):
        gold = manager(Control(0.5, 1.0))
        seen = replace(cycle(0.6, queued_work_s=0.08), worked_s=worked_s)
        for at in range(1, 6):
            gold.handle(seen, at * CYCLE_S)
        told.append(gold.control.keep)
    assert told[0] == pytest.approx(told[1])
    assert told[2] < told[1]


def test_a_class_that_ran_dry_between_two_bursts_has_shown_no_capacity() -> None:
    gold = manager(Control(0.5, 1.0))
    burst = replace(cycle(0.45, queued_work_s=0.06), worked_s=0.25 * CYCLE_S, ran_dry=True)
    for at in range(1, 20):
        gold.handle(burst, at * CYCLE_S)
    assert gold.control.keep == 1.0


def test_an_owner_asks_for_its_share_back_before_a_burst_costs_it_data() -> None:
    gold = LoadManager("gold", LoadSettings(), target_s=0.3, share=0.4, original_share=0.6)
    burst = CycleEnded(CYCLE_S, (InputCycle("s", 55, 1e-3),), (), queued_work_s=0.125)
    commands = gold.handle(burst, CYCLE_S)
    assert RequestReclaim() in commands
    assert gold.control.keep == 1.0


def test_a_class_without_a_queue_has_had_no_chance_to_show_its_capacity() -> None:
    gold = manager(Control(0.5, 1.0))
    for at in range(1, 20):
        gold.handle(replace(cycle(0.1, queued_work_s=0.0), worked_s=0.1 * CYCLE_S), at * CYCLE_S)
    gold.handle(replace(cycle(0.6, queued_work_s=0.0), worked_s=0.1 * CYCLE_S), 3.0)
    assert gold.control.keep == 1.0


# --- age ------------------------------------------------------------------------------------------


def waiting(oldest_s: float) -> CycleEnded:
    """Return a cycle of an overloaded class with an oldest queued tuple of this age."""
    readings = InputCycle("readings", 150, 2.0 / 1000, oldest_s)
    return CycleEnded(CYCLE_S, (readings,), (OutputCycle("q", TARGET_S, 1, TARGET_S),), 10.0)


def test_what_is_older_than_the_class_allows_is_dropped_beyond_its_highest_drop() -> None:
    gold = LoadManager("gold", LoadSettings(), TARGET_S, 0.5, 0.5, max_drop=0.0, max_age_s=2.0)
    young, old = gold.handle(waiting(2.0), 0.0), gold.handle(waiting(2.5), 0.15)
    assert [one for one in young if isinstance(one, DropOlder)] == []
    assert [one for one in old if isinstance(one, DropOlder)] == [DropOlder(2.0)]
    assert gold.control.keep == 1.0
    assert gold.explanations[-1].words().endswith("drop what is too old: the oldest has waited 2.5 s")


# --- input that is held back ------------------------------------------------------------------------


def holding(declared: PriorityClass, share: float = 0.5) -> LoadManager:
    return load_manager(declared, LoadSettings(), share, 0.5, 1)


def rooms(commands: Sequence[LoadCommand]) -> list[Mapping[str, int]]:
    return [one.rooms for one in commands if isinstance(one, HoldBack)]


@pytest.mark.parametrize(
    ("terms", "target_ms", "room"),
    [
        # Half of a processor at 0.02 ms a tuple, for ten targets and at least a second.
        ({"max_drop": 0.05}, 300, 75_000),
        ({"max_drop": 0.94}, 300, 75_000),
        ({"max_drop": 0.0}, 20, 25_000),
        ({"max_drop": 0.95}, 300, None),
        ({"max_drop": 0.05, "max_age_ms": 2000}, 300, None),
    ],
)
def test_a_class_that_keeps_rows_lets_in_what_it_works_off_in_ten_targets(
    terms: dict[str, Any], target_ms: float, room: int | None
) -> None:
    gold = holding(PriorityClass(name="gold", priority=1, delay_target_ms=target_ms, **terms))
    gold.control = Control(0.5)
    commands = gold.handle(CycleEnded(CYCLE_S, (InputCycle("s", 3000, 2e-5),), (), 0.0), 0.0)
    assert rooms(commands) == ([] if room is None else [{"s": room}])


def test_streams_with_input_share_the_room_and_none_has_less_than_a_train() -> None:
    gold = holding(PriorityClass(name="gold", priority=1, delay_target_ms=300, max_drop=0))
    gold.control = Control(0.5)
    inputs = InputCycle("often", 3000, 1e-5), InputCycle("rarely", 1, 1e-2), InputCycle("never", 0, 1e-5)
    third, unread = InputCycle("never", 10, 1e-5), InputCycle("unread", 10, 0.0)
    first = gold.handle(CycleEnded(CYCLE_S, inputs, (), 0.0), 0.0)
    same = gold.handle(CycleEnded(CYCLE_S, inputs, (), 0.0), 0.15)
    more = gold.handle(CycleEnded(CYCLE_S, (*inputs[:2], third, unread), (), 0.0), 0.3)
    assert rooms(first) == [{"often": 75_000, "rarely": LEAST_ROOM, "never": 75_000}]
    assert rooms(same) == []
    assert rooms(more) == [{"often": 50_000, "rarely": LEAST_ROOM, "never": 50_000}]


def test_a_class_that_is_held_back_wants_its_full_queue_worked_off_too() -> None:
    """It reads no faster than it works: by what it reads alone it would want no more than it has."""
    found = {}
    for held_back in (False, True):
        gold = holding(PriorityClass(name="gold", priority=1, delay_target_ms=300, max_drop=0))
        gold.control = Control(0.5)
        full = CycleEnded(CYCLE_S, (InputCycle("s", 3750, 2e-5, 3.0),), (), 1.5, 0.075, held_back=held_back)
        (usage,) = (one for one in gold.handle(full, 0.0) if isinstance(one, ReportUsage))
        found[held_back] = usage
        sentence = "hold back at the producers what does not fit into its queue"
        assert (sentence in gold.explanations[-1].words()) is held_back
    assert found == {False: ReportUsage(1.0, 0.5), True: ReportUsage(2.0, 0.5)}


def test_a_class_without_an_age_drops_nothing_for_its_age() -> None:
    gold = LoadManager("gold", LoadSettings(), TARGET_S, 0.5, 0.5, max_drop=0.0)
    assert not any(isinstance(one, DropOlder) for one in gold.handle(waiting(432.0), 0.0))
