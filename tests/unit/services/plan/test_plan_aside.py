"""Plans that are made in a process of their own: the same ones, also after it was killed, and nothing of it is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from configs.classes.live_class import LiveSettings
from configs.classes.priority_class import PriorityClass
from services.plan.worker_process import Aside
from services.watch.source import SourceAway
from sim.admission.planner import plan
from sim.admission.situation import ClassLoad, InputLoad, Situation

NEW = ClassLoad(
    PriorityClass(name="new", priority=1, delay_target_ms=300), (InputLoad(1e6, 2e-7, 1e-4, batch_s=0.1),)
)
SITUATION = Situation(1, LiveSettings(), (), (NEW,))


@pytest.fixture
def aside() -> Iterator[Aside]:
    with Aside() as found:
        yield found


def test_a_plan_is_the_same_whoever_makes_it(aside: Aside) -> None:
    assert aside.pid is None
    assert aside.plan(SITUATION) == plan(SITUATION)
    assert aside.pid not in (None, os.getpid())


def test_a_process_that_was_killed_is_started_again(aside: Aside) -> None:
    expected = aside.plan(SITUATION)
    killed = aside.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    assert aside.plan(SITUATION) == expected
    assert aside.pid not in (None, killed)


def test_a_plan_that_fails_is_told_and_the_next_is_made(aside: Aside) -> None:
    broken = Situation(0, LiveSettings(), (), (NEW,))
    with pytest.raises(RuntimeError, match="lanes"):
        aside.plan(broken)
    assert aside.plan(SITUATION) == plan(SITUATION)


def test_after_the_end_there_is_no_process(aside: Aside) -> None:
    aside.plan(SITUATION)
    pid = aside.pid
    aside.stop()
    assert aside.pid is None
    assert not Path(f"/proc/{pid}").exists()
    aside.stop()


def test_the_end_does_not_wait_for_a_plan(aside: Aside) -> None:
    aside.plan(SITUATION)
    pid = aside.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # its plan takes for ever
    with ThreadPoolExecutor(1) as others:
        waiting = others.submit(aside.plan, SITUATION)
        aside.stop()
        with pytest.raises(SourceAway, match="no more plans are made"):
            waiting.result()
    assert aside.pid is None
    assert not Path(f"/proc/{pid}").exists()


def test_after_the_end_no_process_is_started(aside: Aside) -> None:
    aside.stop()
    with pytest.raises(SourceAway, match="no more plans are made"):
        aside.plan(SITUATION)
    assert aside.pid is None
