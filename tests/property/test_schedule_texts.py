"""Schedules of periodic queries as texts: what one was written from it is read back to, and what is compared differs."""

from hypothesis import given
from hypothesis import strategies as st

from configs.classes.periodic_schedules import (
    ORDERS,
    Aggressive,
    Conservative,
    Hybrid,
    NoSharing,
    PeriodicSettings,
    compared_schedules,
    schedule_of,
    schedule_text,
)

LATE = st.sampled_from(["off", "late", "late-pending"])
SHARED = {"order": st.sampled_from(ORDERS), "eager": st.booleans()}
schedules: st.SearchStrategy[PeriodicSettings] = st.one_of(
    st.builds(NoSharing, tasks=st.sampled_from(["sub-group", "query"]), **SHARED),
    st.builds(Aggressive, late=LATE, **SHARED),
    st.builds(Conservative, late=LATE, **SHARED),
    st.builds(Hybrid, late=LATE, meetings=st.booleans(), **SHARED),
)


@given(schedules, schedules)
def test_a_text_is_read_back_to_what_it_was_written_from(
    one: PeriodicSettings, beside: PeriodicSettings
) -> None:
    assert schedule_of(schedule_text(one)) == one
    assert schedule_of(schedule_text(one, beside), beside) == one


@given(schedules)
def test_no_two_of_those_that_are_compared_are_the_same(own: PeriodicSettings) -> None:
    compared = compared_schedules(own)
    assert len(set(map(str, compared.values()))) == len(compared)
    assert own in compared.values()
    assert {one.eager for one in compared.values()} == {own.eager}
