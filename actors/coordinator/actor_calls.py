"""Calls to other actors that do not wait for results, and a check of which actors still answer.

An actor that does not answer is quarantined: it is not called until its ping answers. Then its whole state is sent to it again.
The whole state is also sent to an actor that Ray has restarted, which has a new process.
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
    """State of another actor, as the coordinator last learned it."""

    handle: Any = None
    pid: int | None = None
    quarantined: bool = False
    pinged: bool = False
    """True while a ping has no answer yet."""


@dataclass
class ActorCalls:
    """Calls to other actors. Only the control thread may use the object, but any thread may add to `failures`."""

    post: Callable[[Callable[[], None]], None]
    """Function that runs another function on the control thread."""
    ended: Callable[[str], None]
    """Function called with the name of an actor that Ray will not restart, as after `ray kill`."""
    restarted: Callable[[str], None]
    """Function called with the name of an actor that needs its whole state again."""
    failures: deque[str] = field(init=False, default_factory=lambda: deque(maxlen=FAILURES_KEPT))
    _actors: dict[str, CalledActor] = field(init=False, default_factory=dict)
    _being_set: Counter[str] = field(init=False, default_factory=Counter)
    """Number of calls of `set` for each actor that have not been answered yet."""

    @property
    def waited_for(self) -> tuple[str, ...]:
        return tuple(name for name, actor in self._actors.items() if actor.pid is None)

    @property
    def being_set(self) -> tuple[str, ...]:
        """Return the actors that still lack some of their state: actors with unanswered calls of `set`, and quarantined gateways.

        Quarantined hosts are not included, because gateways keep the input of a quarantined host.
        """
        kept = (name for name in self.quarantined if name.partition("-")[0] == "gateway")
        return tuple({*self._being_set, *kept})

    @property
    def quarantined(self) -> tuple[str, ...]:
        return tuple(name for name, actor in self._actors.items() if actor.quarantined)

    def meet(self, name: str, handle: Any) -> None:
        """Add a new actor; the system is not ready until this actor has answered a ping."""
        actor = self._actors[name] = CalledActor(handle)
        self._ping(name, actor)

    def forget(self, name: str) -> None:
        self._actors.pop(name, None)

    def call(self, name: str, method: str, *arguments: Any) -> Future[Any] | None:
        """Call an actor without waiting for the answer. Return None without a call if the actor is quarantined."""
        actor = self._actors.setdefault(name, CalledActor())
        handle = None if actor.quarantined else self._handle(name, actor)
        if handle is None:
            actor.quarantined = True
            return None
        sent: Future[Any] = getattr(handle, method).remote(*arguments).future()
        sent.add_done_callback(lambda answer: self._answered(name, actor, method, answer))
        return sent

    def set(self, name: str, method: str, *arguments: Any) -> None:
        """Call an actor. Until the actor has answered or the call has failed, `being_set` lists the actor."""
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
        """Process the reply to a call, on a thread of Ray."""
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
