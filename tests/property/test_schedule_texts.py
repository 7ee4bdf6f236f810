"""Schedules of periodic queries as texts: reading a schedule's text gives the same schedule, and no two compared schedules are equal."""

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
def test_a_schedule_is_read_back_from_its_text(one: PeriodicSettings, preset: PeriodicSettings) -> None:
    assert schedule_of(schedule_text(one)) == one
    assert schedule_of(schedule_text(one, preset), preset) == one


@given(schedules)
def test_no_two_compared_schedules_are_equal(own: PeriodicSettings) -> None:
    compared = compared_schedules(own)
    assert len(set(map(str, compared.values()))) == len(compared)
    assert own in compared.values()
    assert {one.eager for one in compared.values()} == {own.eager}
