"""Measurements of a running system for plans: rates of streams, loads of classes, and few calls of the system."""

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
NO_CLASSES = frozenset[str]()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def system() -> InProcess:
    return InProcess().declare(declared("gold", 3.0), declared("silver", 1.0))


@pytest.fixture
def watch(system: InProcess, clock: Clock) -> Watch:
    """Return a watch that polls only when the test calls it."""
    return Watch(system, clock=clock, wall=clock)


@pytest.fixture
def measured(watch: Watch, clock: Clock) -> RunningMeasured:
    """Return measurements without a running thread, so that rows are counted only when the test calls `count`."""
    return RunningMeasured(watch, SETTINGS, clock)


def add_input(system: InProcess, clock: Clock, seconds: float, load: float = 0.2, **rows: int) -> None:
    """Let time pass, add a batch with the given number of rows to each stream in `rows`, and report a load cycle of class gold."""
    clock.now += seconds
    for stream, more in rows.items():
        before = system.counted.get(stream, StreamCounts(0, 0))
        system.counted[stream] = StreamCounts(before.rows + more, before.batches + 1)
    system.cycle("gold", load)


def test_rates_and_loads_cover_the_last_seconds(
    system: InProcess, watch: Watch, clock: Clock, measured: RunningMeasured
) -> None:
    for rows in (1, 1000, 500, 500):
        add_input(system, clock, 2.0, load=0.25, readings=rows)
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


def test_while_no_rows_arrive_the_running_system_is_not_asked_for_counts(
    system: InProcess, watch: Watch, clock: Clock, measured: RunningMeasured
) -> None:
    add_input(system, clock, 1.0, readings=10)
    watch.look()
    measured.count()
    asked, looks = system.counts, system.looks
    for _ in range(100):
        clock.now += 1.0
        measured.count()
    assert (system.counts, system.looks) == (asked, looks)
    add_input(system, clock, 1.0, readings=10)
    measured.count()
    assert system.counts == asked, "the watch has not polled"
    watch.look()
    measured.count()
    measured.count()
    assert system.counts == asked + 1


def test_rates_are_measured_without_waiting_if_no_row_has_come_for_a_long_time(
    system: InProcess, watch: Watch, clock: Clock, measured: RunningMeasured
) -> None:
    add_input(system, clock, 1.0, readings=10)
    watch.look()
    measured.count()
    clock.now += 1000.0
    watch.look()
    asked = system.counts
    assert measured.measured(NO_CLASSES).rates == {"readings": Rate(0.0)}
    assert system.counts == asked + 1


def test_rows_from_long_ago_do_not_count_in_the_present_rate(clock: Clock) -> None:
    """Check a stream that no class reads. The watch sees no report about its rows, so old samples must not be used for its rate."""

    class Coming(InProcess):
        """System with a stream that receives more rows at each call, while time passes."""

        def streams(self, node: str) -> dict[str, StreamCounts]:
            clock.now += LEAST_S / 2
            add_input(self, clock, LEAST_S / 2, unread=100)
            return super().streams(node)

    system = Coming().declare(declared("gold"))
    watch = Watch(system, clock=clock, wall=clock)
    measured = RunningMeasured(watch, SETTINGS, clock)
    watch.look()
    measured.count()
    clock.now += 1000.0
    watch.look()
    assert measured.measured(NO_CLASSES).rates == {"unread": Rate(100 / LEAST_S, LEAST_S)}


def test_measuring_rates_fails_while_the_system_does_not_answer(
    system: InProcess, watch: Watch, clock: Clock, measured: RunningMeasured
) -> None:
    watch.look()
    measured.count()
    system.is_away = True
    watch.look()
    with pytest.raises(SourceAway):
        measured.measured(NO_CLASSES)
    measured.count()
    system.is_away = False
    watch.look()
    assert list(measured.measured(NO_CLASSES).classes) == ["gold", "silver"]


def test_the_thread_that_measures_rates_ends_when_it_is_stopped() -> None:
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
