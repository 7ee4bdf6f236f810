"""The poller of mirrors: estimates of change rates and interests, and the poller's core in virtual time, compared with slow computations.

The numbered properties are those of `scheduler.mirrors.change_rates` and `scheduler.mirrors.poller`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.mirrors.change_rates import REMEMBERED, ChangeRates, Interests, fresh_part
from scheduler.mirrors.freshening import perceived_freshness, refreshes
from scheduler.mirrors.poller import BURST_S, RETRY_S, MirrorCore, MirrorStatistics, PollOutcome

# -- estimates of change rates ----------------------------------------------------------------------------------


@given(st.integers(0, REMEMBERED), st.integers(0, 200), st.floats(0.001, 1000))
def test_polls_at_regular_intervals_give_the_estimate_of_cho_and_garcia_molina(
    changed: int, quiet: int, interval: float
) -> None:
    rates, polls = ChangeRates(1), changed + quiet
    for poll in range(polls):
        rates.observe(0, interval, poll < changed)
    if changed:
        expected = -math.log((quiet + 0.5) / (polls + 0.5)) / interval
        assert rates.rates()[0] == pytest.approx(expected, rel=1e-5)
        assert rates.rate(0) == pytest.approx(expected, rel=1e-5)


intervals = st.lists(st.tuples(st.floats(0.1, 10), st.booleans()), min_size=1, max_size=REMEMBERED)


@given(intervals)
def test_the_estimated_change_rate_makes_the_observations_most_likely(
    seen: Sequence[tuple[float, bool]],
) -> None:
    rates = ChangeRates(1)
    for interval, changed in seen:
        rates.observe(0, interval, changed)
    pace = seen[0][0]
    for interval, _ in seen[1:]:
        pace += 0.175 * (interval - pace)

    def likelihood(rate: float) -> float:
        quiet = 0.5 * pace + sum(interval for interval, changed in seen if not changed)
        return sum(math.log1p(-math.exp(-rate * one)) for one, changed in seen if changed) - rate * quiet

    if any(changed for _, changed in seen):
        found = float(rates.rates()[0])
        assert all(likelihood(found) >= likelihood(found * other) - 1e-9 for other in (0.5, 0.99, 1.01, 2))


@pytest.mark.parametrize("changes_an_interval", [0.05, 0.3, 1.0, 2.0])
def test_estimates_of_change_rates_are_right_on_average_at_irregular_intervals(
    changes_an_interval: float,
) -> None:
    rng, trials = np.random.default_rng(4), 200
    rates = ChangeRates(trials)
    for one in range(trials):
        for interval in rng.exponential(1.0, 400):
            rates.observe(one, interval, rng.random() < -math.expm1(-changes_an_interval * interval))
    found = rates.rates() / changes_an_interval
    assert found.mean() == pytest.approx(1.0, abs=0.08)
    assert found.std() < 0.35


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(0.1, 10), st.booleans() | st.none()), max_size=60))
def test_estimates_of_change_rates_do_not_depend_on_how_often_they_are_read(
    seen: Sequence[tuple[int, float, bool | None]],
) -> None:
    """Give two estimators the same polls. The rates of `often` are read at each None, the rates of `once` only at the end."""
    often, once = ChangeRates(5), ChangeRates(5)
    for one, interval, changed in seen:
        if changed is None:
            often.rates()
        else:
            often.observe(one, interval, changed)
            once.observe(one, interval, changed)
    assert often.rates() == pytest.approx(once.rates(), rel=1e-9)


def test_the_estimated_rate_adapts_when_the_real_change_rate_changes() -> None:
    rng, rates = np.random.default_rng(5), ChangeRates(1)
    for rate in (1.0, 0.05):
        for _ in range(1000):
            rates.observe(0, 1.0, rng.random() < -math.expm1(-rate))
        assert rates.rates()[0] == pytest.approx(rate, rel=0.5)


def test_objects_that_were_never_polled_get_the_change_rate_of_polled_objects() -> None:
    rates = ChangeRates(3)
    assert rates.rates() == pytest.approx([1 / 60] * 3)
    rates.observe(0, 10.0, False)
    assert rates.rates() == pytest.approx([0.5 / 15] * 3)


@given(st.floats(1e-6, 50), st.integers(0, 2**32))
def test_the_freshness_formula_equals_the_mean_fresh_part_of_an_interval(x: float, seed: int) -> None:
    # Mean fresh part of an interval between two polls. With x changes per interval, a fraction e^−x of all intervals has no change.
    whole = -math.expm1(-x) / x
    assert math.exp(-x) + -math.expm1(-x) * fresh_part(x) == pytest.approx(whole, rel=1e-6)


def test_interests_follow_recent_uses_and_return_to_the_declared_profile_without_uses() -> None:
    interests = Interests([1, 3], half_life_s=10.0)
    assert interests.weights(0.0) == pytest.approx([0.25, 0.75])
    interests.used(0, 80, 0.0)
    assert interests.weights(0.0) == pytest.approx([0.85, 0.15])
    assert interests.weights(20.0) == pytest.approx([25 / 40, 15 / 40])
    assert interests.weights(1e6) == pytest.approx([0.25, 0.75])


# -- the poller's core, in virtual time ----------------------------------------------------------------------------


class Master:
    """Simulated objects that change at random, with copies of the objects, and with random uses."""

    def __init__(self, rates: npt.ArrayLike, uses: npt.ArrayLike, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.rates, self.uses = np.array(rates), np.array(uses)
        self.changed_at = np.zeros(len(self.rates))
        self.copied_at = np.full(len(self.rates), -1.0)
        self.next = self.rng.exponential(1 / self.rates)

    def until(self, now: float) -> None:
        for one in np.flatnonzero(self.next <= now):
            while self.next[one] <= now:
                self.changed_at[one] = self.next[one]
                self.next[one] += self.rng.exponential(1 / self.rates[one])

    def poll(self, one: int, now: float) -> PollOutcome:
        self.until(now)
        changed = bool(self.changed_at[one] > self.copied_at[one])
        self.copied_at[one] = now
        return PollOutcome.CHANGED if changed else PollOutcome.UNCHANGED

    def is_fresh(self, one: int, now: float) -> bool:
        self.until(now)
        return bool(self.copied_at[one] >= self.changed_at[one])


def polled_for(core: MirrorCore, master: Master, seconds: float, learning_s: float) -> tuple[float, float]:
    """Poll in virtual time. Return the fraction of uses after `learning_s` that found a fresh copy, and the
    number of polls per second.
    """
    now, use_at, fresh, uses = 0.0, 0.0, 0, 0
    while now < seconds:
        while (one := core.due(now)) is not None:
            core.polled(one, now, master.poll(one, now), 1.0, now)
        step = now + max(core.wait_s(now), 1e-4)
        while use_at < step:
            one = int(master.rng.choice(len(master.uses), p=master.uses))
            core.used(one, 1.0, max(use_at, now))
            if use_at > learning_s:
                fresh, uses = fresh + master.is_fresh(one, use_at), uses + 1
            use_at += master.rng.exponential(1 / 20)
        now = step
    return fresh / uses, core.polls / seconds


def test_a_poller_without_prior_knowledge_reaches_nearly_optimal_freshness() -> None:
    count, bandwidth = 40, 10.0
    rng = np.random.default_rng(3)
    rates, uses = rng.gamma(1.0, 0.5, count) + 0.01, 1.0 / np.arange(1, count + 1)
    uses /= uses.sum()
    core = MirrorCore(Interests(np.ones(count), 300.0), count, bandwidth)
    found, polls = polled_for(core, Master(rates, uses, 6), 400.0, 150.0)
    best = perceived_freshness(uses, rates, refreshes(uses, rates, bandwidth).frequencies)
    even = perceived_freshness(uses, rates, np.full(count, bandwidth / count))
    assert polls == pytest.approx(bandwidth, rel=0.02)
    assert even + 0.6 * (best - even) < found <= best + 0.03
    measured = core.statistics(400.0)
    # The core's estimates must agree with the freshness that users saw, although the core does not know when objects change.
    assert measured.perceived_measured == pytest.approx(found, abs=0.05)
    assert measured.perceived_expected == pytest.approx(found, abs=0.06)


@given(st.lists(st.floats(0.001, 3), min_size=1, max_size=50), st.floats(0.5, 100), st.integers(1, 8))
def test_polls_never_exceed_the_bandwidth(steps: Sequence[float], bandwidth: float, count: int) -> None:
    core, now, asked = MirrorCore(Interests(np.ones(count), 60.0), count, bandwidth), 5.0, 0
    for step in steps:
        while (one := core.due(now)) is not None:
            asked += 1
            core.polled(one, now, PollOutcome.CHANGED, 1.0, now)
        assert asked <= bandwidth * (now - 5.0 + BURST_S) + 1
        now += step


def test_all_objects_are_fetched_once_before_any_is_fetched_again() -> None:
    core = MirrorCore(Interests([1, 5, 3], 60.0), 3, 1.0)
    named = [core.due(float(now)) for now in range(3)]
    assert named == [1, 2, 0]  # Objects are polled in the order of falling interest.
    assert core.due(3.0) is None  # No object is returned, because every object is being polled.
    for one in range(3):
        core.polled(one, 0.0, PollOutcome.CHANGED, 1.0, 3.0)
    assert core.statistics(3.0).held == 3


def polls_of_a_rare_object(floor: float, bandwidth: float) -> tuple[int, MirrorStatistics]:
    """Poll one object in much use and one in little use, which change equally often; return the polls of the latter in 300 s."""
    core, now, polls = MirrorCore(Interests([1e6, 1], 60.0), 2, bandwidth, floors=[0.0, floor]), 0.0, 0
    rng = np.random.default_rng(3)
    changed_at, seen_at = [0.0, 0.0], [-1.0, -1.0]
    while now < 600:
        changed_at = [now if rng.random() < 0.02 else at for at in changed_at]
        one = core.due(now)
        if one is not None:
            polls += one == 1 and now > 300
            is_new = changed_at[one] > seen_at[one]
            seen_at[one] = now
            core.polled(one, now, PollOutcome.CHANGED if is_new else PollOutcome.UNCHANGED, 1.0, now)
        now += 0.02
    return polls, core.statistics(now)


def test_object_in_little_use_keeps_its_least_freshness() -> None:
    rarely, starved = polls_of_a_rare_object(0.0, 4.0)
    often, kept = polls_of_a_rare_object(0.5, 4.0)
    # Both objects change once per second. A copy that is fresh half of the time needs a poll every 1.6 s.
    assert rarely < 60
    assert often == pytest.approx(300 / 1.6, rel=0.3)
    assert (starved.floored, kept.floored, kept.floor_part) == (0, 1, 1.0)
    assert 0.4 < kept.needed < 0.9


def test_least_freshness_beyond_the_bandwidth_is_reduced_and_the_needed_bandwidth_is_shown() -> None:
    _, short = polls_of_a_rare_object(0.9, 2.0)
    assert short.floor_part < 0.9
    assert short.below_floor == 1
    assert short.needed == pytest.approx(5.0, rel=0.4)


def test_the_wait_before_a_failing_object_is_polled_again_doubles_each_time() -> None:
    core, now = MirrorCore(Interests([1, 1], 60.0), 2, 10.0), 0.0
    tries: list[float] = []
    while now < 100:
        one = core.due(now)
        if one is not None:
            tries += [now] if one == 0 else []
            core.polled(one, now, PollOutcome.FAILED if one == 0 else PollOutcome.CHANGED, 1.0, now)
        else:
            now += max(0.05, core.wait_s(now))
    waits = np.diff(tries)
    expected = [RETRY_S * 2**n for n in range(6)]
    assert waits == pytest.approx(expected, abs=0.2)
    measured = core.statistics(now)
    assert (measured.failing, measured.failures) == (1, len(tries))
    assert measured.changes > 800


def polled_while_some_fail(good: int, gone: int, bandwidth: float, seconds: float) -> tuple[MirrorCore, int]:
    """Poll objects of which only the first `good` can be fetched; return the core and the number of successful polls."""
    core, now, fetched = MirrorCore(Interests(np.ones(good + gone), 60.0), good + gone, bandwidth), 0.0, 0
    while now < seconds:
        one = core.due(now)
        if one is None:
            now += max(1e-3, core.wait_s(now))
            continue
        fetched += one < good
        core.polled(one, now, PollOutcome.CHANGED if one < good else PollOutcome.FAILED, 1.0, now)
    return core, fetched


def test_failing_objects_leave_most_of_the_bandwidth_to_other_objects() -> None:
    core, fetched = polled_while_some_fail(good=5, gone=2000, bandwidth=5.0, seconds=2000.0)
    # No object is polled a second time before each of the 2,005 objects has been polled once, so the first polls do not count.
    assert fetched > 0.7 * 5.0 * (2000.0 - 2005 / (0.75 * 5.0))
    assert core.statistics(1e9).spent == pytest.approx(5.0 * 2000.0, rel=0.02)


def test_the_whole_bandwidth_is_used_while_any_object_can_be_fetched() -> None:
    core, fetched = polled_while_some_fail(good=1, gone=50, bandwidth=10.0, seconds=300.0)
    assert core.statistics(1e9).spent == pytest.approx(10.0 * 300.0, rel=0.02)
    assert fetched > 0.8 * 10.0 * 300.0


def test_after_its_failures_end_an_object_is_polled_as_often_as_an_equal_object_that_never_failed() -> None:
    core, now = MirrorCore(Interests([1, 1], 60.0), 2, 4.0), 0.0
    polls = [0, 0]
    while now < 400:
        one = core.due(now)
        if one is None:
            now += max(1e-3, core.wait_s(now))
            continue
        polls[one] += now > 300
        core.polled(one, now, PollOutcome.FAILED if one == 0 and now < 100 else PollOutcome.CHANGED, 1.0, now)
    assert core.statistics(now).failing == 0
    assert polls[0] == pytest.approx(polls[1], rel=0.2)


def test_an_object_that_cannot_be_fetched_does_not_count_as_fresh() -> None:
    core, now = MirrorCore(Interests([1, 1], 60.0), 2, 10.0), 0.0
    while now < 20:
        one = core.due(now)
        if one is None:
            now += max(1e-3, core.wait_s(now))
            continue
        core.polled(one, now, PollOutcome.FAILED if one == 0 else PollOutcome.UNCHANGED, 1.0, now)
    assert core.statistics(now).perceived_expected == pytest.approx(0.5, abs=0.02)


def test_polls_stay_within_a_bandwidth_in_bytes_and_large_objects_are_polled_less() -> None:
    core, now, size = MirrorCore(Interests([1, 1], 60.0), 2, 1000.0, by_bytes=True), 0.0, (50.0, 2000.0)
    asked = [0, 0]
    rng = np.random.default_rng(1)
    while now < 300:
        one = core.due(now)
        if one is None:
            now += max(1e-3, core.wait_s(now))
            continue
        asked[one] += 1
        core.polled(
            one, now, PollOutcome.CHANGED if rng.random() < 0.5 else PollOutcome.UNCHANGED, size[one], now
        )
    spent = asked[0] * size[0] + asked[1] * size[1]
    assert spent <= 1000 * (300 + BURST_S) + max(size)
    assert spent > 0.9 * 1000 * 300
    assert asked[0] > 3 * asked[1]
