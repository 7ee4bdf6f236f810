"""Properties 1 to 3 of `loadshed.staleness`, checked by counting the seconds at which an output was stale."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadshed.staleness import KEPT, OutputStaleness

seconds = st.integers(0, 60)
answers = st.lists(st.tuples(st.lists(seconds, max_size=3), seconds), max_size=40)


def stale_seconds(answered: list[tuple[list[int], int]], since: int) -> int:
    return len(
        {
            second
            for arrivals, left in answered
            if arrivals
            for second in range(max(min(arrivals), since), left)
        }
    )


@given(answers, seconds)
def test_an_output_is_stale_while_input_that_leads_to_an_answer_waits(
    answered: list[tuple[list[int], int]], since: int
) -> None:
    staleness = OutputStaleness(since)
    for arrivals, left in answered:
        staleness.served(arrivals, left)
    assert staleness.stale_s == stale_seconds(answered, since)
    assert staleness.share(since + 100) == stale_seconds(answered, since) / 100


@given(answers, st.randoms())
def test_staleness_does_not_depend_on_the_order_or_repetition_of_answers(
    answered: list[tuple[list[int], int]], rng: random.Random
) -> None:
    one, other = OutputStaleness(0), OutputStaleness(0)
    for arrivals, left in answered:
        one.served(arrivals, left)
    for arrivals, left in rng.sample(answered, len(answered)) + answered:
        other.served(arrivals, left)
    assert one.stale_s == other.stale_s


def test_the_part_of_a_long_wait_from_before_the_kept_history_adds_no_staleness() -> None:
    staleness, rounds = OutputStaleness(0.0), 3 * KEPT
    for second in range(rounds):
        staleness.served([float(second)], second + 0.5)
    assert staleness.share(rounds) == pytest.approx(0.5)
    staleness.served([0.0], float(rounds))
    assert staleness.stale_s == pytest.approx((rounds - KEPT) * 0.5 + KEPT, abs=1)


def test_staleness_is_zero_at_the_start_of_the_measurement() -> None:
    assert OutputStaleness(5.0).share(5.0) == OutputStaleness(5.0).share(4.0) == 0.0
