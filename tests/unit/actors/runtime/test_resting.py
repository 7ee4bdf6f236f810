"""The main thread of an idle actor rests, and continues as soon as there is work."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from actors.runtime import idle_throttle
from actors.runtime.idle_throttle import Rest

FOR_EVER_S = 1e6
MOMENT_S = 1e-3
DEADLINE_S = 60.0


@pytest.fixture(autouse=True)
def _alarm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def set_times(patch: pytest.MonkeyPatch, rest_s: float, quiet_looks: int) -> None:
    patch.setattr(idle_throttle, "REST_S", rest_s)
    patch.setattr(idle_throttle, "LOOK_S", MOMENT_S)
    patch.setattr(idle_throttle, "QUIET_LOOKS", quiet_looks)


def test_a_resting_thread_wakes_when_work_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that `end` interrupts a rest; otherwise the rest, and this test, would last practically for ever."""
    asked, ended = threading.Event(), threading.Event()

    def is_idle() -> bool:
        asked.set()
        return True

    set_times(monkeypatch, rest_s=FOR_EVER_S, quiet_looks=0)
    rest = Rest(is_idle)

    def work_comes() -> None:
        assert asked.wait(DEADLINE_S)
        while not ended.wait(MOMENT_S):
            rest.end()

    thread = threading.Thread(target=work_comes)
    thread.start()
    assert asked.wait(DEADLINE_S)
    # This line is reached only because the signal handler, which runs in this thread, has returned.
    ended.set()
    thread.join(DEADLINE_S)


def test_a_thread_rests_only_after_several_idle_checks_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    done = threading.Event()

    def is_idle() -> bool:
        found.append(len(found) % 3 != 2)
        if len(found) == 9:
            done.set()
        return found[-1]

    # Two idle checks in a row must not yet start a rest, because that rest would last practically for ever.
    set_times(monkeypatch, rest_s=FOR_EVER_S, quiet_looks=2)
    Rest(is_idle)
    assert done.wait(DEADLINE_S)
    assert found[:9] == [True, True, False] * 3


def test_a_resting_thread_checks_for_work_repeatedly(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    done = threading.Event()

    def is_idle() -> bool:
        nonlocal looks
        looks += 1
        if looks == 5:
            done.set()
        return True

    set_times(monkeypatch, rest_s=MOMENT_S, quiet_looks=0)
    Rest(is_idle)
    assert done.wait(DEADLINE_S)
