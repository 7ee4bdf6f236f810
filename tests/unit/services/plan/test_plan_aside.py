"""Plans made in a worker process: results are right, a killed process is replaced, and no process is left at the end."""

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


def test_the_worker_process_makes_the_same_admission_plan_as_the_calling_process(aside: Aside) -> None:
    assert aside.pid is None
    assert aside.plan(SITUATION) == plan(SITUATION)
    assert aside.pid not in (None, os.getpid())


def test_a_killed_worker_process_is_replaced(aside: Aside) -> None:
    expected = aside.plan(SITUATION)
    killed = aside.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    assert aside.plan(SITUATION) == expected
    assert aside.pid not in (None, killed)


def test_an_error_in_an_admission_plan_is_raised_and_the_next_plan_is_made(aside: Aside) -> None:
    broken = Situation(0, LiveSettings(), (), (NEW,))
    with pytest.raises(RuntimeError, match="lanes"):
        aside.plan(broken)
    assert aside.plan(SITUATION) == plan(SITUATION)


def test_stopping_the_planner_ends_its_worker_process(aside: Aside) -> None:
    aside.plan(SITUATION)
    pid = aside.pid
    aside.stop()
    assert aside.pid is None
    assert not Path(f"/proc/{pid}").exists()
    aside.stop()


def test_stopping_the_planner_does_not_wait_for_an_unfinished_plan(aside: Aside) -> None:
    aside.plan(SITUATION)
    pid = aside.pid
    assert pid is not None
    # After SIGSTOP, the worker process never finishes its plan.
    os.kill(pid, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as others:
        waiting = others.submit(aside.plan, SITUATION)
        aside.stop()
        with pytest.raises(SourceAway, match="the service makes no more plans, because it is stopping"):
            waiting.result()
    assert aside.pid is None
    assert not Path(f"/proc/{pid}").exists()


def test_a_stopped_planner_starts_no_worker_process(aside: Aside) -> None:
    aside.stop()
    with pytest.raises(SourceAway, match="the service makes no more plans, because it is stopping"):
        aside.plan(SITUATION)
    assert aside.pid is None
