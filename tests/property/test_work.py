"""The estimated processor time per tuple of a stream follows the measured time from load cycle to load cycle."""

from hypothesis import given
from hypothesis import strategies as st

from engine.class_.work_calibration import JUMP, SteadyWork

works = st.floats(1e-9, 1e-3)


@given(works, st.lists(st.floats(0.8, 1.25), min_size=1, max_size=50))
def test_if_work_per_tuple_varies_by_a_quarter_the_estimate_moves_less_than_a_tenth_per_cycle(
    work_s: float, flickers: list[float]
) -> None:
    steady = SteadyWork()
    before = steady.observe("s", work_s)
    for flicker in flickers:
        after = steady.observe("s", flicker * work_s)
        assert 0.91 < after / before < 1.11
        assert 0.79 < after / work_s < 1.26
        before = after


@given(works, works)
def test_the_work_estimate_follows_a_large_change_at_once_and_a_small_change_gradually(
    first: float, then: float
) -> None:
    steady = SteadyWork()
    steady.observe("s", first)
    estimate = steady.observe("s", then)
    assert estimate == then or (1 / JUMP <= then / first <= JUMP and estimate != then) or first == then
    for _ in range(60):
        estimate = steady.observe("s", then)
    assert abs(estimate / then - 1) < 1e-3


@given(works, works)
def test_the_work_estimate_of_a_stream_ignores_other_streams_and_restarts_once_forgotten(
    first: float, then: float
) -> None:
    steady = SteadyWork()
    steady.observe("s", first)
    assert steady.observe("t", then) == then
    steady.forget()
    assert steady.observe("s", then) == then
