"""Properties 1 to 4 of `loadshed.steadiness`, checked by counting the answers of each interval."""

import math
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadshed.steadiness import OutputSteadiness

# Answers that leave together: their number, and the time in sixteenths of a second, which floats represent exactly.
answers = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 200)), max_size=40)


def steadiness_of(answered: list[tuple[int, float]], since: float, interval_s: float) -> OutputSteadiness:
    steadiness = OutputSteadiness(since, interval_s)
    for count, left in answered:
        steadiness.answered(count, left)
    return steadiness


@given(answers, st.integers(0, 3), st.sampled_from([0.25, 1.0, 2.0]), st.integers(200, 240))
def test_unevenness_is_the_deviation_of_the_counts_of_whole_intervals_divided_by_their_mean(
    answered: list[tuple[int, int]], since: int, interval_s: float, end: int
) -> None:
    left = [(count, since + at / 16) for count, at in sorted(answered, key=lambda answer: answer[1])]
    now = since + end / 16
    counts = [
        sum(count for count, at in left if int((at - since) // interval_s) == place)
        for place in range(int((now - since) // interval_s))
    ]
    expected = pstdev(counts) / fmean(counts) if sum(counts) else 0.0
    assert steadiness_of(left, since, interval_s).unevenness(now) == pytest.approx(expected, abs=1e-9)


@given(answers)
def test_answers_that_leave_before_earlier_answers_count_in_the_interval_of_the_earlier_answers(
    answered: list[tuple[int, int]],
) -> None:
    jumped, latest = [], 0.0
    for count, at in answered:
        latest = max(latest, at / 16)
        jumped.append((count, latest))
    steadiness = steadiness_of([(count, at / 16) for count, at in answered], 0.0, 1.0)
    assert steadiness.unevenness(20.0) == steadiness_of(jumped, 0.0, 1.0).unevenness(20.0)


@pytest.mark.parametrize(
    ("answered", "unevenness"),
    [
        ([(3, second + 0.5) for second in range(10)], 0.0),
        # All 30 answers leave in one of ten seconds, so the counts deviate three times their mean.
        ([(30, 4.5)], 3.0),
        ([(6, second + 0.5) for second in range(0, 10, 2)], 1.0),
        ([], 0.0),
    ],
)
def test_steady_answers_have_unevenness_0_and_bursts_have_more(
    answered: list[tuple[int, float]], unevenness: float
) -> None:
    assert math.isclose(steadiness_of(answered, 0.0, 1.0).unevenness(10.9), unevenness)
