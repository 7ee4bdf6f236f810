"""Plans and forecasts are made in a process of their own, so that who makes them can answer others meanwhile.

Guarantees:
1. The process is started with the first plan or forecast, gives way to others, and ends with `stop` or with the process that
   started it.
2. One that dies is started again, for the same plan once; one that does not answer in `ANSWER_S` is killed.
3. `stop` waits for no plan: who waits for one is told that there will be none, as is whoever asks afterwards.
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
from types import TracebackType
from typing import Any, TypeVar

from configs.classes.policies import PolicySettings
from services.watch.source import SourceAway
from sim.admission.planner import plan
from sim.admission.situation import AdmissionPlan, Situation
from sim.forecast.plan_forecast import forecasts
from sim.forecast.policy_forecast import ClassNow
from sim.simulation import alone

# Far longer than a plan for thousands of classes takes.
ANSWER_S = 60.0
STOP_S = 2.0
NICENESS = 5


Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class WorkFailed:
    """What was asked for could not be made."""

    why: str


class Aside:
    """One process, which makes one plan at a time; may be called by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._running: tuple[BaseProcess, Connection] | None = None

    def plan(self, situation: Situation) -> AdmissionPlan:
        """As `sim.admission.planner.plan`; Away if there is no answer."""
        return self._made(plan, situation)

    def forecasts(self, now: ClassNow, policies: Sequence[PolicySettings]) -> Mapping[str, float]:
        """As `sim.forecast.plan_forecast.forecasts`; Away if there is no answer."""
        return self._made(forecasts, now, tuple(policies), alone)

    def _made(self, make: Callable[..., Answer], *given: Any) -> Answer:
        with self._lock:
            try:
                answer = self._asked(make, given)
            except (EOFError, OSError):
                self._end()
                answer = self._asked_again(make, given)
        if isinstance(answer, WorkFailed):
            raise RuntimeError(f"the plan has failed: {answer.why}")
        return answer

    @property
    def pid(self) -> int | None:
        """Of the process; None before the first plan, and after the end."""
        return None if self._running is None else self._running[0].pid

    def stop(self) -> None:
        """Idempotent."""
        # A plan that is begun now sees that it is over, or is seen here.
        self._ended.set()
        if (running := self._running) is not None:
            running[0].kill()
        with self._lock:
            self._end()

    def __enter__(self) -> Aside:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _asked_again(self, make: Callable[..., Answer], given: tuple[Any, ...]) -> Answer | WorkFailed:
        try:
            return self._asked(make, given)
        except (EOFError, OSError):
            self._end()
            self._check_goes_on()
            raise SourceAway("the process that plans does not stay alive", hint="ask again later") from None

    def _check_goes_on(self) -> None:
        if self._ended.is_set():
            raise SourceAway("no more plans are made", hint="the service ends")

    def _asked(self, make: Callable[..., Answer], given: tuple[Any, ...]) -> Answer | WorkFailed:
        self._check_goes_on()
        _, pipe = self._running = self._running or started()
        self._check_goes_on()
        pipe.send((make, given))
        if not pipe.poll(ANSWER_S):
            self._end()
            raise SourceAway(f"no plan within {ANSWER_S:g} s", hint="plan for fewer documents at a time")
        answer: Answer | WorkFailed = pipe.recv()
        return answer

    def _end(self) -> None:
        if self._running is None:
            return
        (process, pipe), self._running = self._running, None
        pipe.close()
        # It may be in the middle of a plan that nobody waits for.
        process.kill()
        process.join(STOP_S)


def started() -> tuple[BaseProcess, Connection]:
    # Not a fork: this process has threads.
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), name="plan", daemon=True)
    process.start()
    theirs.close()
    return process, ours


def serve(pipe: Connection) -> None:
    """Until the other end of the pipe is closed."""
    # Ctrl-C is for the starter, who ends this process in its turn.
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
