"""The schedule of periodic queries in the simulator and the live schedule (`engine.windows.window_schedule`)
give the same answers.

While nothing is late, both answer a window with SLIDE AT MOST at the same ends: an update of a synopsis
corresponds to a pane that event time has passed. So the findings of `weir sim` and `python -m bench.papers`
about schedules apply to the live schedule. Where something is late, they differ on purpose: the live schedule
answers every end, the simulator skips ends.
"""

from collections.abc import Collection
from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from configs.classes.periodic_schedules import Late, PeriodicKind
from configs.classes.window_settings import WindowSettings
from engine.windows.panes import Measure, PaneStore
from engine.windows.window_schedule import COSTS, WindowSchedule
from scheduler.windows import PeriodicQuery, PeriodicScheduler
from tests.support.schedules import periodic_of

PANES = 60
KINDS: tuple[PeriodicKind, ...] = ("none", "aggressive", "conservative", "hybrid")
LATE: tuple[Late, ...] = ("off", "late", "late-pending")


@dataclass(frozen=True)
class Window:
    """Window with a length and a slide in panes."""

    window: int
    slide: int
    at_most: bool
    measures: Collection[Measure] = ()

    def is_due(self, end: int) -> bool:
        return end % self.slide == 0


@st.composite
def windows(draw: st.DrawFn) -> list[Window]:
    slides = st.integers(1, 12)
    some = draw(st.lists(st.tuples(st.integers(1, 40), slides, st.booleans()), min_size=1, max_size=6))
    return [Window(max(length, slide), slide, at_most) for length, slide, at_most in some]


def live_ends(some: list[Window], kind: PeriodicKind, late: Late) -> set[tuple[str, int]]:
    """Return the windows with SLIDE AT MOST that are answered, with their ends. The schedule advances by one pane at a time."""
    store = cast(PaneStore, SimpleNamespace(panes=dict.fromkeys(range(PANES))))
    schedule = WindowSchedule(store, WindowSettings(schedule=kind, late=late))
    for number, window in enumerate(some):
        schedule.join(str(number), window)
    flexible = [str(number) for number, window in enumerate(some) if window.at_most]
    return {
        (name, end)
        for reached in range(PANES + 1)
        for name in flexible
        for end in schedule.ends(name, reached)
    }


def simulated_ends(some: list[Window], kind: PeriodicKind, late: Late) -> set[tuple[str, int]]:
    settings = periodic_of(kind, **({} if kind == "none" else {"late": late}), eager=False)
    scheduler = PeriodicScheduler(settings)
    scheduler.open("panes", 1.0)
    for number, window in enumerate(some):
        query = PeriodicQuery(str(number), "panes", "group", window.window, window.slide, window.at_most)
        scheduler.add(query, COSTS)
    ends = set()
    for reached in range(1, PANES + 1):
        scheduler.updated("panes", float(reached))
        while (task := scheduler.pick(float(reached))) is not None:
            ends |= {(name, task.number) for part in task.parts for name in part.queries}
            scheduler.done(task, float(reached))
    return {(name, end) for name, end in ends if some[int(name)].at_most}


@given(windows(), st.sampled_from(KINDS), st.sampled_from(LATE))
def test_windows_are_answered_at_the_same_ends_live_and_simulated(
    some: list[Window], kind: PeriodicKind, late: Late
) -> None:
    assert live_ends(some, kind, late) == simulated_ends(some, kind, late)
