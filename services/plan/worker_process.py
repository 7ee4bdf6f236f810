"""Child process that computes predictions (`weir plan`) and forecasts, so that the service can answer other requests meanwhile.

Guarantees:
1. The process starts with the first prediction or forecast and has a low scheduling priority. It ends with `stop`, or with its parent.
2. If the process dies, it is started again, at most once per prediction or forecast. It is killed if no result comes in `ANSWER_S`.
3. `stop` does not wait for results: calls in progress and later calls raise SourceAway.
"""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from configs.classes.policies import PolicySettings
from services.watch.source import SourceAway
from sim.admission.planner import plan
from sim.admission.situation import AdmissionPlan, Situation
from sim.forecast.plan_forecast import forecasts
from sim.forecast.policy_forecast import ClassNow
from sim.simulation import alone

# Maximum seconds for a prediction or forecast; even a prediction for thousands of classes takes much less.
ANSWER_S = 60.0
STOP_S = 2.0
NICENESS = 5


Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class WorkFailed:
    """Message of the child process that a prediction or forecast has failed; `why` is the traceback."""

    why: str


class Aside:
    """Child process that computes one prediction or forecast at a time; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._running: tuple[BaseProcess, Connection] | None = None

    def plan(self, situation: Situation) -> AdmissionPlan:
        """Return the result of `sim.admission.planner.plan`; raise SourceAway if the process does not answer."""
        return self._made(plan, situation)

    def forecasts(self, now: ClassNow, policies: Sequence[PolicySettings]) -> Mapping[str, float]:
        """Return the result of `sim.forecast.plan_forecast.forecasts`; raise SourceAway if the process does not answer."""
        return self._made(forecasts, now, tuple(policies), alone)

    def _made(self, make: Callable[..., Answer], *given: Any) -> Answer:
        with self._lock:
            for _ in range(2):
                try:
                    answer = self._asked(make, given)
                    break
                except (EOFError, OSError):
                    self._end()
            else:
                self._check_goes_on()
                raise SourceAway("the planning process has ended twice", hint="try again later")
        if isinstance(answer, WorkFailed):
            raise RuntimeError(f"planning has failed: {answer.why}")
        return answer

    @property
    def pid(self) -> int | None:
        """Process id of the child process; None before the first prediction or forecast and after the end."""
        return None if self._running is None else self._running[0].pid

    def stop(self) -> None:
        """Kill the process, and refuse further predictions and forecasts. Idempotent."""
        # `_ended` is set first: later calls are refused, and a call in progress fails because the child process is killed.
        self._ended.set()
        if (running := self._running) is not None:
            running[0].kill()
        with self._lock:
            self._end()

    def __enter__(self) -> Aside:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _check_goes_on(self) -> None:
        if self._ended.is_set():
            raise SourceAway(
                "the service makes no more plans, because it is stopping",
                hint="try again after the service has restarted",
            )

    def _asked(self, make: Callable[..., Answer], given: tuple[Any, ...]) -> Answer | WorkFailed:
        self._check_goes_on()
        _, pipe = self._running = self._running or started()
        self._check_goes_on()
        pipe.send((make, given))
        if not pipe.poll(ANSWER_S):
            self._end()
            raise SourceAway(
                f"the planning process made no plan within {ANSWER_S:g} s",
                hint="plan fewer documents at a time",
            )
        answer: Answer | WorkFailed = pipe.recv()
        return answer

    def _end(self) -> None:
        if self._running is None:
            return
        (process, pipe), self._running = self._running, None
        pipe.close()
        # The process is killed, because it may still be working on a result that is no longer needed.
        process.kill()
        process.join(STOP_S)


def started() -> tuple[BaseProcess, Connection]:
    # The child is not forked: this process has threads, so a forked child could deadlock.
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), name="plan", daemon=True)
    process.start()
    theirs.close()
    return process, ours


def serve(pipe: Connection) -> None:
    """Answer requests from the pipe until its other end is closed."""
    # Ctrl-C also reaches the child process, but the child ignores it: the parent process ends the child.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    with suppress(EOFError, BrokenPipeError):
        while True:
            make, arguments = pipe.recv()
            answer: Any
            try:
                answer = make(*arguments)
            except Exception:
                answer = WorkFailed(traceback.format_exc())
            pipe.send(answer)
