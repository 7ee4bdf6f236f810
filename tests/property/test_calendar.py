"""A calendar, compared with a set: the calendar returns each item once, when the item is due."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.operators.policies.calendar import Calendar

times = st.one_of(st.integers(-20, 60).map(float), st.floats(-50, 1e4, allow_nan=False))
puts = st.tuples(st.just("put"), times)
looks = st.tuples(st.just("due"), times)


@given(
    st.lists(st.one_of(puts, puts, looks), max_size=60), st.sampled_from([0.5, 1.0, 7.0]), st.integers(1, 9)
)
def test_calendar_returns_each_due_item_once(steps: list[tuple[str, float]], day_s: float, days: int) -> None:
    calendar, waiting = Calendar(day_s, days), set[tuple[float, int]]()
    for number, (what, at) in enumerate(steps):
        if what == "put":
            calendar.put(at, number)
            waiting.add((at, number))
        else:
            found = calendar.due(at)
            assert sorted(found) == sorted(one for one in waiting if one[0] <= at)
            waiting -= set(found)
        assert len(calendar) == len(waiting)
