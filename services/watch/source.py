"""Interface through which the service polls the running system, and its implementation for a system on Ray."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from actors.coordinator.coordinator_status import Decisions, Number, StatusMoment
from actors.host.tuning_sample import UnitNow
from configs import errors
from configs.classes.objectives import Objective
from engine.class_.explain import PlanLine
from engine.network.one_time import OneTimeAnswer
from scheduler.capacity.core import ShareMove
from scheduler.tuning import Compared

if TYPE_CHECKING:
    from actors.dispatcher.dispatcher_actor import DispatcherStatus
    from actors.system import System

# Maximum seconds that the service waits for a process to answer. The process may be restarting, which takes two seconds.
ANSWER_S = 5.0
LOG = logging.getLogger(__name__)
# Messages for Ray's exceptions by name, because the exceptions' own texts describe Ray's internals.
REASONS: Mapping[str, str] = {
    "GetTimeoutError": f"it has not answered within {ANSWER_S:g} s",
    "ActorUnavailableError": "one of its processes is being restarted",
    "ActorDiedError": "one of its processes has ended",
    "ActorUnschedulableError": "one of its processes cannot be started",
    "LocalRayletDiedError": "Ray has ended on this machine",
}


class SourceAway(errors.Away):
    """Error for a part of the running system that does not answer now; a later call may succeed."""


@dataclass(frozen=True, slots=True)
class StreamCounts:
    """Number of rows and batches of a stream that a node has accepted."""

    rows: int
    batches: int


@dataclass(frozen=True, slots=True)
class Inflow:
    """Status of a node's gateway."""

    pid: int
    streams: Sequence[Mapping[str, Any]]
    """Status of each stream that arrives at this node, in the format of `actors.gateway.streams`, with `dead` rows by reason."""


class WatchSource(Protocol):
    """Interface through which the service polls a running system; every call may raise SourceAway."""

    @property
    def name(self) -> str: ...

    def look(self, seen: Number | None) -> StatusMoment | None:
        """Return the state of the system and its loans at one moment; None if nothing has changed since the poll with the number `seen`."""

    def has_ended(self) -> bool:
        """Return True if the system is known to have ended, and False if it runs or if nothing is known."""

    def decisions(self, class_name: str, last: int) -> Decisions:
        """Return the `last` latest decisions about a class."""

    def plan(self, class_name: str) -> list[PlanLine]:
        """Return the operators of a class with their measured costs and selectivities, from its first unit."""

    def answer_once(self, class_name: str, sql: str) -> dict[str, OneTimeAnswer]:
        """Return the answer of each unit of a class to a one-time query."""

    def moves(self, last: int) -> tuple[list[ShareMove], float]:
        """Return the last moves of shares on all nodes, oldest first, and the number to add to their times to get seconds since 1970."""

    def endpoint(self, node: str) -> str | None:
        """Return the network address of the node's gateway, or None if the node has no gateway."""

    def streams(self, node: str) -> dict[str, StreamCounts]:
        """Return the rows and batches accepted at the node, by stream name in lower case."""


class RunningSystem:
    """System on Ray. It implements WatchSource and `services.tuning.tuner.Comparing`, and may be called from several threads."""

    def __init__(self, system: System) -> None:
        self._system = system
        # The handle is cached, because looking up the coordinator's handle by name costs as much as a call.
        self._coordinator: Any = None

    @property
    def name(self) -> str:
        return self._system.name

    def look(self, seen: Number | None) -> StatusMoment | None:
        answer: StatusMoment | None = self._ask("look", seen)
        return answer

    def has_ended(self) -> bool:
        try:
            return self._system.has_ended()
        except Exception as problem:
            # Every exception is caught, because Ray has no specific exception for a head node that does not answer.
            LOG.debug("the store cannot be read: %r", problem)
            return False

    def decisions(self, class_name: str, last: int) -> Decisions:
        answer: Decisions = self._ask("decisions", class_name, last)
        return answer

    def plan(self, class_name: str) -> list[PlanLine]:
        answer: list[PlanLine] = self._ask("plan", class_name)
        return answer

    def answer_once(self, class_name: str, sql: str) -> dict[str, OneTimeAnswer]:
        answers: dict[str, OneTimeAnswer] = self._ask("answer_once", class_name, sql)
        return answers

    def noticed(self, class_name: str) -> UnitNow | None:
        answer: UnitNow | None = self._ask("noticed", class_name)
        return answer

    def compared(self, class_name: str, objective: Objective, event: Compared) -> None:
        self._ask("compared", class_name, objective, event)

    def moves(self, last: int) -> tuple[list[ShareMove], float]:
        answer: tuple[list[ShareMove], float] = self._ask("last_moves", last)
        return answer

    def endpoint(self, node: str) -> str | None:
        answer: str | None = self._gateway(node)["endpoint"]
        return answer

    def turns(self, node: str) -> DispatcherStatus:
        """Return the status of the node's dispatcher, with the use of its lanes."""
        status: DispatcherStatus = answer(lambda: self._system.dispatcher(node).status.remote())
        return status

    def inflow(self, node: str) -> Inflow:
        """Return the status of the node's gateway."""
        pid = answer(lambda: self._system.gateway(node).ping.remote())
        return Inflow(pid, [stream for stream in self._gateway(node)["streams"] if stream["origin"] is None])

    def streams(self, node: str) -> dict[str, StreamCounts]:
        return {
            stream["stream"].lower(): StreamCounts(stream["accepted_rows"], stream["accepted_batches"])
            for stream in self._gateway(node)["streams"]
            if stream["origin"]
            is None  # A stream with an origin is left out, because it arrives at another node and is only copied to this node.
        }

    def _gateway(self, node: str) -> dict[str, Any]:
        status: dict[str, Any] = answer(lambda: self._system.gateway(node).status.remote())
        return status

    def _ask(self, method: str, *arguments: Any) -> Any:
        def call() -> Any:
            self._coordinator = self._coordinator or self._system.coordinator
            return getattr(self._coordinator, method).remote(*arguments)

        try:
            return answer(call)
        except SourceAway:
            self._coordinator = None
            raise


def answer(call: Any) -> Any:
    """Return the result of a call to an actor; raise SourceAway if the actor does not exist, or does not answer in time."""
    # Ray is imported here, because commands that only use the catalog must not wait for this import.
    import ray
    from ray.exceptions import RayError, RayTaskError

    from actors.runtime.names import NoSuchActor

    try:
        return ray.get(call(), timeout=ANSWER_S)
    except RayTaskError as problem:
        cause = problem.cause
        if isinstance(cause, RayError | TimeoutError | NoSuchActor):
            raise away(cause) from None
        raise cause from None
    except (RayError, NoSuchActor) as problem:
        raise away(problem) from None


def away(problem: Exception) -> SourceAway:
    """Return the error for an actor that has not answered, without Ray's own text."""
    LOG.debug("an actor has not answered: %r", problem)
    reason = problem.title if isinstance(problem, errors.Away) else REASONS.get(type(problem).__name__, "")
    hint = "try again in a few seconds"
    return SourceAway("the running system does not answer", hint=f"{hint}; {reason}" if reason else hint)
