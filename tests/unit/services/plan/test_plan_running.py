"""What is measured of a running system for plans: by the watch that looks at it anyway, and by as few calls as will do."""

from __future__ import annotations

import threading

import pytest

from configs.classes.live_class import LiveSettings
from services.plan.live_measurement import LEAST_S, OVER_S, RunningMeasured
from services.plan.measurement import ClassMeasured, Rate, SystemMeasurement
from services.watch.source import SourceAway, StreamCounts
from services.watch.watch import Watch
from tests.support.clock import Clock
from tests.support.watched import InProcess, declared

SETTINGS = LiveSettings(lanes=3)
HUNG_S = 60.0
NOBODYS = frozenset[str]()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def system() -> InProcess:
    return InProcess().declare(declared("gold", 3.0), declared("silver", 1.0))


@pytest.fixture
def watch(system: InProcess, clock: Clock) -> Watch:
    """It looks when the test says so."""
    return Watch(system, clock=clock, wall=clock)


@pytest.fixture
def measured(watch: Watch, clock: Clock) -> RunningMeasured:
    """Its thread is not started: it counts when the test says so."""
    return RunningMeasured(watch, SETTINGS, clock)


def comes(system: InProcess, clock: Clock, seconds: float, load: float = 0.2, **rows: int) -> None:
    """Input, a batch of each stream, and what the class that reads some of it reports."""
    clock.now += seconds
    for stream, more in rows.items():
        before = system.counted.get(stream, StreamCounts(0, 0))
        system.counted[stream] = StreamCounts(before.rows + more, before.batches + 1)
    system.cycle("gold", load)


def test_rates_and_loads_are_of_the_last_seconds(
    system: InProcess, watch: Watch, clock: Clock, measured: RunningMeasured
) -> None:
    for rows in (1, 1000, 500, 500):
        comes(system, clock, 2.0, load=0.25, readings=rows)
        watch.look()
        measured.count()
    found = measured.measured(frozenset({"gold"}))
    lines = system.plan("gold")
    assert found == SystemMeasurement(
        lanes=1,
        nodes=1,
        settings=SETTINGS,
        rates={"readings": Rate(2000 / OVER_S, 2.0)},
        classes={"gold": ClassMeasured(0.25, lines), "silver": ClassMeasured(0.0, system.plan("silver"))},
    )


def test_a_system_in_which_nothing_happens_is_not_asked(
    system: InProcess, watch: Watch, clock: Clock, measured: RunningMeasured
) -> None:
    comes(system, clock, 1.0, readings=10)
    watch.look()
    measured.count()
    asked, looks = system.counts, system.looks
    for _ in range(100):
        clock.now += 1.0
        measured.count()
    assert (system.counts, system.looks) == (asked, looks)
    comes(system, clock, 1.0, readings=10)
    measured.count()
    assert system.counts == asked, "it has not been looked at"
    watch.look()
    measured.count()
    measured.count()
    assert system.counts == asked + 1


def test_where_nothing_has_come_for_long_a_plan_waits_for_nothing(
    system: InProcess, watch: Watch, clock: Clock, measured: RunningMeasured
) -> None:
    comes(system, clock, 1.0, readings=10)
    watch.look()
    measured.count()
    clock.now += 1000.0
    watch.look()
    asked = system.counts
    assert measured.measured(NOBODYS).rates == {"readings": Rate(0.0)}
    assert system.counts == asked + 1


def test_what_came_long_ago_says_nothing_of_what_comes_now(
    clock: Clock,
) -> None:
    """Of a stream that nobody reads no class tells anything."""

    class Coming(InProcess):
        """Whoever asks is told of more each time, some time later."""

        def streams(self, node: str) -> dict[str, StreamCounts]:
            clock.now += LEAST_S / 2
            comes(self, clock, LEAST_S / 2, unread=100)
            return super().streams(node)

    system = Coming().declare(declared("gold"))
    watch = Watch(system, clock=clock, wall=clock)
    measured = RunningMeasured(watch, SETTINGS, clock)
    watch.look()
    measured.count()
    clock.now += 1000.0
    watch.look()
    assert measured.measured(NOBODYS).rates == {"unread": Rate(100 / LEAST_S, LEAST_S)}


def test_a_system_that_does_not_answer_is_away(
    system: InProcess, watch: Watch, clock: Clock, measured: RunningMeasured
) -> None:
    watch.look()
    measured.count()
    system.is_away = True
    watch.look()
    with pytest.raises(SourceAway):
        measured.measured(NOBODYS)
    measured.count()
    system.is_away = False
    watch.look()
    assert list(measured.measured(NOBODYS).classes) == ["gold", "silver"]


def test_it_counts_by_itself_until_it_is_stopped() -> None:
    asked = threading.Event()

    class Heard(InProcess):
        def streams(self, node: str) -> dict[str, StreamCounts]:
            asked.set()
            return super().streams(node)

    system = Heard().declare(declared("gold"))
    with Watch(system) as watch, RunningMeasured(watch, SETTINGS) as running:
        assert asked.wait(HUNG_S)
    running.stop()
    assert "plan" not in [one.name for one in threading.enumerate()]
