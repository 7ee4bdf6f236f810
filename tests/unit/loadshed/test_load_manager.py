"""The load manager of a class: its commands at the end of a load cycle, and the explanations of its decisions."""

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
    """Return the load manager of a class with an original share of one half."""
    gold = LoadManager("gold", settings or LoadSettings(), TARGET_S, share, 0.5, max_drop)
    gold.control = control or gold.control
    return gold


def cycle(load: float, response: float = 0.1, queued_work_s: float = 0.0) -> CycleEnded:
    """Return a load cycle with an offered load in processors, and a response time that is given as a fraction of the delay target."""
    readings = InputCycle("readings", 150, load / 1000)
    return CycleEnded(
        CYCLE_S, (readings,), (OutputCycle("q", TARGET_S, 1, response * TARGET_S),), queued_work_s
    )


# --- the headroom that the manager learns ---------------------------------------------------------


@pytest.mark.parametrize(
    ("lanes", "start", "headroom"), [(1, 1.0, 0.4), (1, 0.5, 0.2), (2, 1.0, 0.8), (4, 1.0, 1.0)]
)
def test_the_first_headroom_is_a_fraction_of_the_share_and_at_most_one_lane(
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
def test_a_move_of_shares_keeps_headroom_within_its_bounds(factor: float, headroom: float) -> None:
    gold = manager()
    gold.handle(HeadroomScaled("gold", factor, 0.5, 0.5), 1.0)
    assert gold.control == Control(headroom)


# --- commands at the end of a load cycle ----------------------------------------------------------


def test_a_class_within_its_share_reports_usage_and_changes_nothing() -> None:
    assert manager().handle(cycle(0.2), 1.0) == (ReportUsage(0.4, 0.2),)


def test_usage_counts_the_offered_load_including_what_was_shed() -> None:
    gold = manager(Control(0.5, 0.2))
    assert gold.handle(cycle(2.0), 1.0)[0] == ReportUsage(4.0, 2.0)


def usage_of(gold: LoadManager, seen: CycleEnded) -> float:
    (usage,) = [one.usage for one in gold.handle(seen, 1.0) if isinstance(one, ReportUsage)]
    return usage


def test_usage_is_relative_to_the_capacity_measured_while_a_queue_stood() -> None:
    gold = manager(Control(0.5))
    seen = replace(cycle(0.3, queued_work_s=0.02), worked_s=0.2 * CYCLE_S)
    assert [usage_of(gold, seen) for _ in range(5)] == pytest.approx([0.6, 0.6, 0.6, 1.5, 1.5])


@pytest.mark.parametrize(("ran_dry", "usage"), [(False, 1.5), (True, 0.6)])
def test_a_queue_shortened_by_shedding_does_not_show_more_capacity(ran_dry: bool, usage: float) -> None:
    gold = manager(Control(0.5))
    full = replace(cycle(0.3, queued_work_s=0.02), worked_s=0.2 * CYCLE_S)
    short = replace(full, queued_work_s=0.005, ran_dry=ran_dry)
    seen = [full] * FULL_CYCLES + [short]
    assert [usage_of(gold, one) for one in seen][-2:] == pytest.approx([1.5, usage])


def test_a_load_cycle_in_which_the_class_got_no_turn_is_not_taken_for_zero_capacity() -> None:
    gold = manager(Control(0.5))
    full = cycle(0.3, queued_work_s=0.02)
    had = [replace(full, worked_s=part * CYCLE_S) for part in (0.4, 0.0)]
    assert [usage_of(gold, one) for one in had * 2] == pytest.approx([0.6, 0.6, 0.6, 1.5])
    silver = manager(Control(0.5))
    assert [usage_of(silver, had[1]) for _ in range(5)] == pytest.approx([0.6] * 5)


def test_capacity_is_not_estimated_from_a_queue_that_stood_for_only_two_load_cycles() -> None:
    """Check that a class within its share drops nothing. In two load cycles, a class may get too few turns to measure its capacity."""
    gold = manager(Control(0.5))
    burst = replace(cycle(0.4, queued_work_s=0.06), worked_s=0.2 * CYCLE_S)
    dry = replace(burst, queued_work_s=0.0, ran_dry=True)
    assert [usage_of(gold, one) for one in (burst, burst, dry, burst)] == pytest.approx([0.8] * 4)
    assert gold.control.keep == 1.0


def test_an_overloaded_class_sheds_the_part_of_its_load_above_its_headroom() -> None:
    commands = manager().handle(cycle(0.625, response=2.0, queued_work_s=0.05), 1.0)
    assert commands == (ReportUsage(1.25, 0.625), SetKeep(0.8))


def test_a_class_that_already_sheds_lowers_keep_by_the_excess_of_its_admitted_load() -> None:
    gold = manager(Control(0.5, 0.5))
    commands = gold.handle(cycle(1.25, response=2.0, queued_work_s=0.05), 1.0)
    assert commands == (ReportUsage(2.5, 1.25), SetKeep(0.4))


def test_the_queue_is_limited_to_what_can_be_processed_in_time() -> None:
    gold = manager(Control(0.5, 0.5))
    _, set_keep, trim = gold.handle(cycle(1.0, queued_work_s=0.15), 1.0)
    # The queue may hold 0.105 s of work: 0.7 of the delay target of 0.3 s, times the headroom of 0.5.
    # In the next cycle, 0.15 s of work arrive, and a fifth is accepted: 0.5·(0.15 + 0.7·0.3) − 0.15 = 0.03 s.
    assert isinstance(set_keep, SetKeep)
    assert set_keep.keep == pytest.approx(0.2)
    assert isinstance(trim, TrimQueue)
    assert trim.part == pytest.approx(1 - 0.105 / 0.15)


def test_an_idle_class_stops_shedding() -> None:
    gold = manager(Control(0.5, 0.3))
    idle = CycleEnded(CYCLE_S, (InputCycle("readings", 0, 0.001),), (), 0.0)
    assert gold.handle(idle, 1.0) == (ReportUsage(0.0, 0.0), SetKeep(1.0))


@pytest.mark.parametrize(("own", "general", "keep"), [(0.3, 0.95, 0.7), (0.95, 0.3, 0.7), (0.0, 0.95, 1.0)])
def test_no_more_is_dropped_than_the_class_and_the_settings_allow(
    own: float, general: float, keep: float
) -> None:
    gold = manager(max_drop=own, settings=LoadSettings(max_drop=general))
    gold.handle(cycle(100.0, response=9.0, queued_work_s=9.0), 1.0)
    assert gold.control.keep == keep


# --- reclaims of lent shares ----------------------------------------------------------------------

OVERLOADED = cycle(0.5, response=2.0, queued_work_s=0.1)


def test_an_overloaded_lender_reclaims_its_share_and_holds_its_drop_rate() -> None:
    gold = manager(Control(0.2, 0.9), share=0.2)
    assert gold.handle(OVERLOADED, 1.0) == (ReportUsage(2.5, 0.5), RequestReclaim())
    assert gold.control == Control(0.2, 0.9, AlomaBranch.HOLD, 1)


def test_a_lender_that_does_not_get_its_share_sheds_and_keeps_asking() -> None:
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


def test_a_lender_that_got_its_share_back_stops_asking() -> None:
    gold = manager(Control(0.2), share=0.2)
    gold.handle(OVERLOADED, 1.0)
    gold.handle(HeadroomScaled("gold", 2.5, 0.5, 0.5), 1.0)
    assert gold.handle(cycle(0.5, response=0.9, queued_work_s=0.05), 1.15) == (ReportUsage(1.0, 0.5),)


def test_a_lender_overloaded_again_reclaims_and_holds_its_drop_rate_again() -> None:
    gold = manager(Control(0.2), share=0.2)
    branches = []
    for seen in (OVERLOADED, OVERLOADED, cycle(0.1), OVERLOADED):
        gold.handle(seen, 1.0)
        branches.append(gold.control.branch)
    assert [branch is AlomaBranch.HOLD for branch in branches] == [True, False, False, True]


@pytest.mark.parametrize("share", [0.5, 0.7])
def test_a_class_that_lends_nothing_does_not_ask_for_capacity(share: float) -> None:
    commands = manager(Control(0.2), share=share).handle(OVERLOADED, 1.0)
    assert RequestReclaim() not in commands


@pytest.mark.parametrize(
    ("seen", "asks"),
    [
        (cycle(0.1, response=1.1), True),  # Late answers show an overload, even if the load is low.
        (cycle(0.3), True),  # A load far above headroom and share shows an overload.
        # A load slightly above headroom shows an overload only together with a long queue.
        (cycle(0.205, queued_work_s=0.02), True),
        (cycle(0.205, queued_work_s=0.005), False),  # A queue of 5 ms may be noise of one load cycle.
        (cycle(0.1, queued_work_s=0.02), False),
    ],
)
def test_a_lender_asks_for_its_share_back_if_answers_are_late_or_load_is_high(
    seen: CycleEnded, asks: bool
) -> None:
    commands = manager(Control(0.2), share=0.2).handle(seen, 1.0)
    assert (RequestReclaim() in commands) == asks


# --- explanations of decisions --------------------------------------------------------------------


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
            "; drop 30% of the queue, which would be answered late",
        ),
        (
            manager(max_drop=0.3),
            [cycle(2.0, 2.0, 0.15)],
            "load 2 above headroom 0.5, response 200% of target (critical), 150 ms of work queued "
            "→ overloaded; drop 0.0% → 30.0%; no more may be dropped; drop 30% of the queue, which would be answered late",
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
            "→ it keeps up nevertheless; headroom 0.5 → 0.517",
        ),
        (
            manager(WITHIN_SHARE),
            [cycle(1.2, 0.1, 0.05), cycle(1.2, 0.5, 0.05), cycle(1.2, 0.4, 0.04)],
            "load 0.6 above headroom 0.522, response 40% of target (accumulating), 40 ms of work queued "
            "→ its delay is falling nevertheless; headroom 0.522 → 0.543; drop 50.0% → 49.5%",
        ),
        (
            manager(WITHIN_SHARE),
            [cycle(0.8, 0.9), cycle(0.6, 1.2, 0.05)],
            "load 0.375 within headroom 0.5, response 120% of target (critical), 50 ms of work queued "
            "→ it falls behind nevertheless; headroom 0.5 → 0.476; drop 37.5% → 38.1%",
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
            "; drop 38% of the queue, which would be answered late",
        ),
        (
            manager(),
            [cycle(0.4, 0.9, 0.17)],
            "load 0.4 within headroom 0.5, response 90% of target (normal), 170 ms of work queued "
            "→ let in no more than the queue allows; drop 0.0% → 83.3%"
            "; drop 38% of the queue, which would be answered late",
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
def test_the_sentence_about_a_decision_has_the_figures_and_the_result_of_the_decision(
    gold: LoadManager, seen: list[CycleEnded], sentence: str
) -> None:
    for one in seen:
        gold.handle(one, 12.3)
    assert gold.explanations[-1].sentence() == f"12.30 s gold: {sentence}"


def test_every_decision_is_explained_and_the_last_thousand_are_kept() -> None:
    gold = manager()
    for second in range(EXPLANATIONS_KEPT + 5):
        is_calm = second % 2
        gold.handle(cycle(0.1 if is_calm else 1.25, response=0.1 if is_calm else 2.0), float(second))
    assert [one.at for one in gold.explanations] == [
        float(second) for second in range(5, EXPLANATIONS_KEPT + 5)
    ]


def test_repeated_decisions_that_change_nothing_are_recorded_as_one() -> None:
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


def test_queued_work_that_would_be_late_after_a_share_shrank_is_dropped() -> None:
    gold = LoadManager("gold", LoadSettings(), target_s=0.4, share=0.6, original_share=0.3)
    in_time = CycleEnded(0.15, (InputCycle("s", 100, 1e-3),), (), queued_work_s=0.6 * 0.4 * 0.8)
    assert not [one for one in gold.handle(in_time, 0.15) if isinstance(one, TrimQueue)]
    gold.handle(HeadroomScaled("gold", 0.5, 0.3, 0.3), 0.2)
    (trim,) = [one for one in gold.handle(in_time, 0.3) if isinstance(one, TrimQueue)]
    allowed = LoadSettings().queue_fraction * 0.4 * gold.control.headroom
    assert (1 - trim.part) * in_time.queued_work_s == pytest.approx(allowed)
    assert "of the queue, which would be answered late" in gold.explanations[-1].sentence()


def test_no_larger_part_of_a_queue_is_dropped_than_of_the_input() -> None:
    gold = LoadManager("gold", LoadSettings(), 0.4, 0.6, 0.6, max_drop=0.1)
    full = CycleEnded(0.15, (InputCycle("s", 100, 1e-3),), (), queued_work_s=50.0)
    assert TrimQueue(0.1) in gold.handle(full, 0.15)


@pytest.mark.parametrize("max_drop", [0.1, 0.5])
def test_tuples_dropped_from_the_queue_count_towards_max_drop(max_drop: float) -> None:
    """Offer four times the capacity for a minute, and count all tuples that are dropped from the queue."""
    gold = manager(max_drop=max_drop)
    offered_s = dropped_s = queued_s = 0.0
    for number in range(1, 401):
        came_s, kept = 2.0 * CYCLE_S, gold.control.keep
        offered_s += came_s
        dropped_s += (1 - kept) * came_s
        queued_s = max(0.0, queued_s + kept * came_s - 0.5 * CYCLE_S)
        for command in gold.handle(cycle(2.0, response=3.0, queued_work_s=queued_s), number * CYCLE_S):
            if isinstance(command, TrimQueue):
                dropped_s += command.part * queued_s
                queued_s *= 1 - command.part
    assert dropped_s / offered_s == pytest.approx(max_drop, abs=0.01)


def test_the_queue_limit_follows_the_capacity_measured_with_a_full_queue() -> None:
    kept = []
    for worked_s in (None, 0.5 * CYCLE_S, 0.25 * CYCLE_S):
        gold = manager(Control(0.5, 1.0))
        seen = replace(cycle(0.6, queued_work_s=0.08), worked_s=worked_s)
        for at in range(1, 6):
            gold.handle(seen, at * CYCLE_S)
        kept.append(gold.control.keep)
    assert kept[0] == pytest.approx(kept[1])
    assert kept[2] < kept[1]


def test_capacity_is_not_estimated_if_the_queue_emptied_between_two_bursts() -> None:
    gold = manager(Control(0.5, 1.0))
    burst = replace(cycle(0.45, queued_work_s=0.06), worked_s=0.25 * CYCLE_S, ran_dry=True)
    for at in range(1, 20):
        gold.handle(burst, at * CYCLE_S)
    assert gold.control.keep == 1.0


def test_an_owner_asks_for_its_share_back_before_a_burst_makes_the_owner_lose_data() -> None:
    gold = LoadManager("gold", LoadSettings(), target_s=0.3, share=0.4, original_share=0.6)
    burst = CycleEnded(CYCLE_S, (InputCycle("s", 55, 1e-3),), (), queued_work_s=0.125)
    commands = gold.handle(burst, CYCLE_S)
    assert RequestReclaim() in commands
    assert gold.control.keep == 1.0


def test_capacity_is_not_estimated_without_a_queue() -> None:
    gold = manager(Control(0.5, 1.0))
    for at in range(1, 20):
        gold.handle(replace(cycle(0.1, queued_work_s=0.0), worked_s=0.1 * CYCLE_S), at * CYCLE_S)
    gold.handle(replace(cycle(0.6, queued_work_s=0.0), worked_s=0.1 * CYCLE_S), 3.0)
    assert gold.control.keep == 1.0


# --- age of queued tuples
# ------------------------------------------------------------------------------------------


def waiting(oldest_s: float) -> CycleEnded:
    """Return a load cycle of an overloaded class, with the age of its oldest queued tuple."""
    readings = InputCycle("readings", 150, 2.0 / 1000, oldest_s)
    return CycleEnded(CYCLE_S, (readings,), (OutputCycle("q", TARGET_S, 1, TARGET_S),), 10.0)


def test_tuples_older_than_the_maximum_age_are_dropped_even_beyond_max_drop() -> None:
    gold = LoadManager("gold", LoadSettings(), TARGET_S, 0.5, 0.5, max_drop=0.0, max_age_s=2.0)
    young, old = gold.handle(waiting(2.0), 0.0), gold.handle(waiting(2.5), 0.15)
    assert [one for one in young if isinstance(one, DropOlder)] == []
    assert [one for one in old if isinstance(one, DropOlder)] == [DropOlder(2.0)]
    assert gold.control.keep == 1.0
    assert gold.explanations[-1].words().endswith("drop tuples that are too old: the oldest has waited 2.5 s")


# --- input that is held back ------------------------------------------------------------------------


def holding(declared: PriorityClass, share: float = 0.5) -> LoadManager:
    return load_manager(declared, LoadSettings(), share, 0.5, 1)


def rooms(commands: Sequence[LoadCommand]) -> list[Mapping[str, int]]:
    return [one.rooms for one in commands if isinstance(one, HoldBack)]


@pytest.mark.parametrize(
    ("terms", "target_ms", "room"),
    [
        # A tuple costs 0.02 ms. The queue has room for the tuples that half a processor processes in ten delay targets, or in one second if
        # that is longer.
        ({"max_drop": 0.05}, 300, 75_000),
        ({"max_drop": 0.94}, 300, 75_000),
        ({"max_drop": 0.0}, 20, 25_000),
        ({"max_drop": 0.95}, 300, None),
        ({"max_drop": 0.05, "max_age_ms": 2000}, 300, None),
    ],
)
def test_a_class_that_holds_back_input_has_queue_room_for_ten_delay_targets_of_work(
    terms: dict[str, Any], target_ms: float, room: int | None
) -> None:
    gold = holding(PriorityClass(name="gold", priority=1, delay_target_ms=target_ms, **terms))
    gold.control = Control(0.5)
    commands = gold.handle(CycleEnded(CYCLE_S, (InputCycle("s", 3000, 2e-5),), (), 0.0), 0.0)
    assert rooms(commands) == ([] if room is None else [{"s": room}])


def test_the_queue_room_of_a_lossless_class_is_divided_among_streams_with_input() -> None:
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


def test_the_usage_of_a_class_that_holds_back_input_includes_its_full_queue() -> None:
    """Check that the work of the full queue counts as load. A class that holds back input reads no more than it can process."""
    found = {}
    for held_back in (False, True):
        gold = holding(PriorityClass(name="gold", priority=1, delay_target_ms=300, max_drop=0))
        gold.control = Control(0.5)
        full = CycleEnded(CYCLE_S, (InputCycle("s", 3750, 2e-5, 3.0),), (), 1.5, 0.075, held_back=held_back)
        (usage,) = (one for one in gold.handle(full, 0.0) if isinstance(one, ReportUsage))
        found[held_back] = usage
        sentence = "input that does not fit into the queue waits at the producers"
        assert (sentence in gold.explanations[-1].words()) is held_back
    assert found == {False: ReportUsage(1.0, 0.5), True: ReportUsage(2.0, 0.5)}


def test_a_class_without_a_maximum_age_drops_nothing_for_its_age() -> None:
    gold = LoadManager("gold", LoadSettings(), TARGET_S, 0.5, 0.5, max_drop=0.0)
    assert not any(isinstance(one, DropOlder) for one in gold.handle(waiting(432.0), 0.0))
