"""A self-tuning class switches its policy only for a good reason, and never switches back and forth, for any forecasts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from loadshed.records import KINDS
from scheduler.tuning import (
    BARRED,
    PAST_KEPT,
    PAUSE,
    PAUSE_MAX,
    Compared,
    SwitchPolicy,
    TuningCore,
    TuningDecision,
)

POLICIES = ("hr", "fcfs", "bsd:clusters=12", "chain")
values = st.one_of(st.sampled_from([0.0, 1.0, 1.05, 1.2, 2.0]), st.floats(0, 100))
forecasts = st.dictionaries(st.sampled_from(POLICIES), values)
impossible = st.one_of(st.just(()), st.lists(st.sampled_from(POLICIES), max_size=3, unique=True).map(tuple))
comparisons = st.lists(st.builds(Compared, st.none() | values, forecasts, impossible), max_size=80)
# Forecasts in which the two policies look far better by turns: the worst case for a class that must not switch back and forth.
flapping = st.integers(1, 400).map(
    lambda count: [
        Compared(1.0, {"hr": 1.0 + place // 3 % 2, "fcfs": 2.0 - place // 3 % 2}) for place in range(count)
    ]
)


def core(gain: float = 0.1, steady: int = 3) -> TuningCore:
    return TuningCore("c", "response", gain, steady, "hr")


def decided(one: TuningCore, events: Sequence[Compared]) -> list[TuningDecision]:
    for place, event in enumerate(events):
        commands = one.handle(event, float(place))
        last = one.explanations[-1]
        assert commands == ((SwitchPolicy(one.policy),) if last.after != last.policy else ())
        assert last.words()
    return list(one.explanations)


@given(comparisons, st.integers(1, 5), st.sampled_from([0.05, 0.1, 0.5]))
def test_a_class_switches_only_to_a_policy_clearly_better_in_every_recent_comparison(
    events: list[Compared], steady: int, gain: float
) -> None:
    decisions = decided(core(gain, steady), events)
    for place, one in enumerate(decisions):
        if one.branch != "switch":
            continue
        for before in decisions[place - steady + 1 : place + 1]:
            assert before.policy == one.policy
            assert before.forecasts[one.after] <= (1 - gain) * before.forecasts[one.policy] + 1e-9
    moves = ("switch", "go back", "give up")
    assert all((one.after == one.policy) == (one.branch not in moves) for one in decisions)


@given(
    st.lists(st.fixed_dictionaries({name: st.floats(0.5, 100) for name in POLICIES}), max_size=60),
    st.integers(1, 4),
)
def test_a_class_switches_only_to_a_policy_clearly_better_on_average_over_past_comparisons(
    given_forecasts: list[dict[str, float]], steady: int
) -> None:
    decisions = decided(core(steady=steady), [Compared(None, one) for one in given_forecasts])
    for place, one in enumerate(decisions):
        if one.branch != "switch":
            continue
        counts = [PAST_KEPT ** (place - earlier) for earlier in range(place + 1)]
        whole = {
            name: sum(count * each[name] for count, each in zip(counts, given_forecasts, strict=False))
            for name in (one.policy, one.after)
        }
        assert whole[one.after] <= 0.9 * whole[one.policy] * (1 + 1e-9)


def test_a_small_advantage_in_a_quiet_time_causes_no_switch() -> None:
    busy, quiet = {"hr": 30.0, "chain": 36.0}, {"hr": 1.5, "chain": 1.0}
    one = core()
    decisions = decided(one, ([Compared(None, busy)] * 5 + [Compared(None, quiet)] * 5) * 5)
    assert {each.after for each in decisions} == {"hr"}
    # If the quiet time lasts, the class switches to the policy that is better in quiet times.
    decided(one, [Compared(None, quiet)] * 10)
    assert one.policy == "chain"
    # Under load, the forecasts of the two policies differ more than in quiet times, so the class soon returns to `hr` when the load returns.
    decided(one, [Compared(None, busy)] * 7)
    assert one.policy == "hr"


@settings(max_examples=200)
@given(comparisons | flapping, st.integers(1, 5))
def test_switches_are_few_however_forecasts_and_measurements_jump(
    events: list[Compared], steady: int
) -> None:
    one, switches = core(steady=steady), 0
    for place, event in enumerate(events):
        switches += len(one.handle(event, float(place)))
    count = max(len(events), 1)
    assert switches <= len(POLICIES) + 2 * math.log2(count) + 2 * count / PAUSE_MAX + 2


@given(
    st.fixed_dictionaries({name: st.floats(1, 10) for name in POLICIES}),
    st.floats(0, 0.02),
    st.lists(st.floats(-1, 1), min_size=60, max_size=60),
)
def test_with_constant_and_true_forecasts_there_is_at_most_one_switch(
    truth: dict[str, float], noise: float, chances: list[float]
) -> None:
    one, switches = core(), 0
    for place, chance in enumerate(chances):
        measured = truth[one.policy] * (1 + noise * chance)
        switches += len(one.handle(Compared(measured, truth), float(place)))
    assert switches == (min(truth.values()) <= 0.9 * truth["hr"])
    assert truth[one.policy] <= min(truth.values()) / 0.9


@given(st.floats(1.2, 10), st.integers(1, 4))
def test_a_disappointing_policy_is_left_and_not_tried_again_for_a_while(worse: float, steady: int) -> None:
    one, policies = core(steady=steady), []
    forecast = {"hr": 1.0, "fcfs": 0.5}
    for place in range(300):
        one.handle(Compared(worse if one.policy == "fcfs" else 1.0, forecast), float(place))
        policies.append(one.policy)
    letters = "".join("-" if policy == "hr" else "f" for policy in policies)
    stays = [len(stay) for stay in letters.split("-") if stay]
    absent = [len(gap) for gap in letters.strip("-").split("f") if gap]
    assert set(stays[:-1]) == {steady}
    assert min(absent) >= BARRED
    assert absent == sorted(absent)
    assert len(stays) <= 5


@given(st.integers(1, 4))
def test_after_an_impossible_switch_the_old_policy_stays_and_the_new_is_not_tried_for_a_while(
    steady: int,
) -> None:
    one, forecast, tries = (
        core(steady=steady),
        {"hr": 10.0, "fcfs": 2.0, "chain": 1.0, "lsf": 8.0},
        list[int](),
    )
    cannot = ("fcfs", "chain")
    for place in range(300):
        given_up = cannot if one.policy in cannot else ()
        commands = one.handle(Compared(10.0, forecast, given_up), float(place))
        last = one.explanations[-1]
        if one.policy in cannot:
            tries.append(place)
        elif given_up:
            assert (last.branch, commands) == ("give up", (SwitchPolicy(last.after),))
            assert last.after not in cannot
    # After a switch to an impossible policy, the core switches back at the next comparison, and avoids this policy for a while.
    assert len(tries) <= 5
    assert all(later - earlier > BARRED for earlier, later in itertools.pairwise(tries))
    assert one.policy == "lsf"


def test_a_switch_is_not_undone_by_a_report_in_which_old_and_new_policy_are_impossible() -> None:
    one = core(steady=1)
    one.handle(Compared(10.0, {"hr": 10.0, "fcfs": 2.0}), 0.0)
    one.handle(Compared(2.0, {"hr": 10.0, "fcfs": 2.0}, ("hr", "fcfs")), 1.0)
    assert one.policy == "fcfs"
    one.handle(Compared(2.0, {"hr": 10.0, "fcfs": 2.0}, ("chain",)), 2.0)
    assert one.policy == "fcfs"


def test_load_growing_after_a_switch_does_not_count_against_the_new_policy() -> None:
    one = core()
    for place in range(3):
        one.handle(Compared(10.0, {"hr": 10.0, "fcfs": 5.0}), float(place))
    assert one.policy == "fcfs"
    # The measured value has tripled. The value would also have tripled with the previous policy, so the switch stays.
    for place in range(3, 40):
        one.handle(Compared(15.0, {"hr": 30.0, "fcfs": 15.0}), float(place))
    assert one.policy == "fcfs"


def test_after_a_switch_of_policy_the_next_switch_is_not_considered_for_a_while() -> None:
    one, pauses = core(steady=1), []
    better = {"hr": "fcfs", "fcfs": "hr"}
    for place in range(150):
        policy = one.policy
        if one.handle(Compared(None, {policy: 2.0, better[policy]: 1.0}), float(place)):
            pauses.append(place)
    assert [later - earlier for earlier, later in itertools.pairwise(pauses)] == [
        PAUSE,
        2 * PAUSE,
        4 * PAUSE,
        8 * PAUSE,
        PAUSE_MAX,
    ]


def test_a_recorded_comparison_of_policies_is_readable_without_a_list_of_impossible_policies() -> None:
    recorded = ["Compared", 2.0, [["hr", 1.0]]]
    assert KINDS["tuning"].event.decode(recorded) == Compared(2.0, {"hr": 1.0})


@given(comparisons, st.integers(0, 80))
def test_a_core_restored_from_its_state_decides_as_if_never_stopped(events: list[Compared], at: int) -> None:
    kind, one = KINDS["tuning"], core()
    decided(one, events[:at])
    again = kind.core_of(kind.settings_of(one))
    assert isinstance(again, TuningCore)
    rest = events[at:]
    assert [again.handle(event, 0.0) for event in rest] == [one.handle(event, 0.0) for event in rest]
    assert again.memory == one.memory
