"""Calls of other actors without waiting for their results, and a watch over which of these actors answer.

An actor that does not answer is quarantined: it is not called until its ping answers. Everything is sent to it again then, and to an
actor whose process is another one than it was.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ray

from actors.runtime.names import find

FAILURES_KEPT = 100


@dataclass(slots=True)
class CalledActor:
    """Another actor, as far as the coordinator knows it."""

    handle: Any = None
    pid: int | None = None
    quarantined: bool = False
    pinged: bool = False
    """A ping is under way."""


@dataclass
class ActorCalls:
    """Only the control thread uses it, but any thread may add to `failures`."""

    post: Callable[[Callable[[], None]], None]
    """Brings answers back to the control thread."""
    ended: Callable[[str], None]
    """Called with the name of an actor that is gone for good, as after a `ray kill`."""
    restarted: Callable[[str], None]
    """Called with the name of an actor that is to be sent everything again."""
    failures: deque[str] = field(init=False, default_factory=lambda: deque(maxlen=FAILURES_KEPT))
    _actors: dict[str, CalledActor] = field(init=False, default_factory=dict)
    _being_set: Counter[str] = field(init=False, default_factory=Counter)
    """By actor, calls under way that say what it is to have."""

    @property
    def waited_for(self) -> tuple[str, ...]:
        return tuple(name for name, actor in self._actors.items() if actor.pid is None)

    @property
    def being_set(self) -> tuple[str, ...]:
        """Actors that have not yet answered which units or streams they are to have, and gateways that are still to be asked.

        Of hosts nothing is lost meanwhile: gateways keep for their units what they are to read.
        """
        kept = (name for name in self.quarantined if name.partition("-")[0] == "gateway")
        return tuple({*self._being_set, *kept})

    @property
    def quarantined(self) -> tuple[str, ...]:
        return tuple(name for name, actor in self._actors.items() if actor.quarantined)

    def meet(self, name: str, handle: Any) -> None:
        """Wait for an actor that was made."""
        actor = self._actors[name] = CalledActor(handle)
        self._ping(name, actor)

    def forget(self, name: str) -> None:
        self._actors.pop(name, None)

    def call(self, name: str, method: str, *arguments: Any) -> Future[Any] | None:
        """Call an actor without waiting for the answer; None if it is quarantined, and everything is sent to it later."""
        actor = self._actors.setdefault(name, CalledActor())
        handle = None if actor.quarantined else self._handle(name, actor)
        if handle is None:
            actor.quarantined = True
            return None
        sent: Future[Any] = getattr(handle, method).remote(*arguments).future()
        sent.add_done_callback(lambda answer: self._answered(name, actor, method, answer))
        return sent

    def set(self, name: str, method: str, *arguments: Any) -> None:
        """Call an actor, which counts as `being_set` until it has answered or the call has failed."""
        sent = self.call(name, method, *arguments)
        if sent is not None:
            self._being_set[name] += 1
            sent.add_done_callback(lambda _: self.post(partial(self._was_set, name)))

    def ping_all(self) -> None:
        for name, actor in list(self._actors.items()):
            self._ping(name, actor)

    def _ping(self, name: str, actor: CalledActor) -> None:
        if actor.pinged:
            return
        handle = self._handle(name, actor)
        if handle is None:
            self._end(name)
            return
        actor.pinged = True
        sent = handle.ping.remote().future()
        sent.add_done_callback(lambda answer: self.post(partial(self._pinged, name, actor, answer)))

    def _pinged(self, name: str, actor: CalledActor, answer: Future[int]) -> None:
        actor.pinged = False
        if self._actors.get(name) is not actor:
            return
        problem = answer.exception()
        if problem is not None:
            self._quarantine(name, actor, f"ping: {problem!r}")
            if isinstance(problem, ray.exceptions.ActorDiedError):
                self._end(name)
            return
        pid, before, was_quarantined = answer.result(), actor.pid, actor.quarantined
        actor.pid, actor.quarantined = pid, False
        if was_quarantined or before not in (None, pid):
            self.restarted(name)

    def _end(self, name: str) -> None:
        del self._actors[name]
        self.ended(name)

    def _was_set(self, name: str) -> None:
        self._being_set[name] -= 1
        if not self._being_set[name]:
            del self._being_set[name]

    def _answered(self, name: str, actor: CalledActor, method: str, answer: Future[Any]) -> None:
        """Runs in a thread of Ray's."""
        problem = answer.exception()
        if problem is not None:
            self.post(partial(self._failed, name, actor, method, problem))

    def _failed(self, name: str, actor: CalledActor, method: str, problem: BaseException) -> None:
        if isinstance(problem, ray.exceptions.RayActorError):
            self._quarantine(name, actor, f"{method}: {problem!r}")
        else:
            self.failures.append(f"{name}.{method}: {problem}")

    def _quarantine(self, name: str, actor: CalledActor, why: str) -> None:
        if not actor.quarantined:
            actor.quarantined = True
            self.failures.append(f"{name} does not answer: {why}")

    def _handle(self, name: str, actor: CalledActor) -> Any:
        if actor.handle is None:
            try:
                actor.handle = find(name)
            except ValueError:
                return None
        return actor.handle
