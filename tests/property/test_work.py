"""What a tuple is believed to take, from one load cycle to the next."""

from hypothesis import given
from hypothesis import strategies as st

from engine.class_.work_calibration import JUMP, SteadyWork

works = st.floats(1e-9, 1e-3)


@given(works, st.lists(st.floats(0.8, 1.25), min_size=1, max_size=50))
def test_work_that_flickers_by_a_quarter_moves_by_less_than_a_tenth_a_cycle(
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
def test_work_that_is_another_is_told_at_once_and_any_is_found_in_the_end(first: float, then: float) -> None:
    steady = SteadyWork()
    steady.observe("s", first)
    told = steady.observe("s", then)
    assert told == then or (1 / JUMP <= then / first <= JUMP and told != then) or first == then
    for _ in range(60):
        told = steady.observe("s", then)
    assert abs(told / then - 1) < 1e-3


@given(works, works)
def test_streams_and_queries_before_have_no_say(first: float, then: float) -> None:
    steady = SteadyWork()
    steady.observe("s", first)
    assert steady.observe("t", then) == then
    steady.forget()
    assert steady.observe("s", then) == then
