"""What is asked of the running system, and how a system on Ray is asked."""

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
from scheduler.capacity.core import ShareMove
from scheduler.tuning import Compared

if TYPE_CHECKING:
    from actors.dispatcher.dispatcher_actor import DispatcherStatus
    from actors.system import System

# Nobody waits longer for an answer by the service; who does not answer may be beginning anew, which takes two seconds.
ANSWER_S = 5.0
LOG = logging.getLogger(__name__)
# Ray's exceptions by name: their own texts are about Ray's insides.
REASONS: Mapping[str, str] = {
    "GetTimeoutError": f"it has not answered within {ANSWER_S:g} s",
    "ActorUnavailableError": "a process of it is being started again",
    "ActorDiedError": "a process of it has ended",
    "ActorUnschedulableError": "a process of it cannot be started",
    "LocalRayletDiedError": "Ray has ended on this machine",
}


class SourceAway(errors.Away):
    """Who should answer is not there now; ask again."""


@dataclass(frozen=True, slots=True)
class StreamCounts:
    """What has come in on a stream so far."""

    rows: int
    batches: int


@dataclass(frozen=True, slots=True)
class Inflow:
    """Of a node's gateway."""

    pid: int
    streams: Sequence[Mapping[str, Any]]
    """Those that come in here, as `actors.gateway.streams` tells of them, and of each its `dead` rows by reason."""


class WatchSource(Protocol):
    """Every call may raise Away."""

    @property
    def name(self) -> str: ...

    def look(self, seen: Number | None) -> StatusMoment | None:
        """Status and lending at one moment; None if nothing has changed since the look with this number."""

    def has_ended(self) -> bool:
        """Return True if the system is known to have ended; False while that cannot be found out."""

    def decisions(self, class_name: str, last: int) -> Decisions:
        """The last decisions about a class."""

    def plan(self, class_name: str) -> list[PlanLine]:
        """The operators of a class with what was measured of them, in its first unit."""

    def moves(self, last: int) -> tuple[list[ShareMove], float]:
        """The last moves of shares on all nodes, oldest first; and what makes their times seconds since 1970."""

    def endpoint(self, node: str) -> str | None:
        """Where the node is reached over the network; None if it is not."""

    def streams(self, node: str) -> dict[str, StreamCounts]:
        """What has come in at the node, by names of streams in small letters."""


class RunningSystem:
    """A Source, and `services.tuning.tuner.Comparing`; called by several threads."""

    def __init__(self, system: System) -> None:
        self._system = system
        # Asking for it by name costs as much as a call of it.
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
            # Ray's store has no type of its own for a head that does not answer.
            LOG.debug("the store cannot be read: %r", problem)
            return False

    def decisions(self, class_name: str, last: int) -> Decisions:
        answer: Decisions = self._ask("decisions", class_name, last)
        return answer

    def plan(self, class_name: str) -> list[PlanLine]:
        answer: list[PlanLine] = self._ask("plan", class_name)
        return answer

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
        """How the node's lanes are used."""
        status: DispatcherStatus = answer(lambda: self._system.dispatcher(node).status.remote())
        return status

    def inflow(self, node: str) -> Inflow:
        """What comes in at the node."""
        pid = answer(lambda: self._system.gateway(node).ping.remote())
        return Inflow(pid, [stream for stream in self._gateway(node)["streams"] if stream["origin"] is None])

    def streams(self, node: str) -> dict[str, StreamCounts]:
        return {
            stream["stream"].lower(): StreamCounts(stream["accepted_rows"], stream["accepted_batches"])
            for stream in self._gateway(node)["streams"]
            if stream["origin"] is None  # it comes in here, and not at another node
        }

    def _gateway(self, node: str) -> dict[str, Any]:
        status: dict[str, Any] = answer(lambda: self._system.gateway(node).status.remote())
        return status

    def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            return answer(lambda: getattr(self._known_coordinator(), method).remote(*arguments))
        except SourceAway:
            self._coordinator = None
            raise

    def _known_coordinator(self) -> Any:
        if self._coordinator is None:
            self._coordinator = self._system.coordinator
        return self._coordinator


def answer(call: Any) -> Any:
    """Of an actor that may not be there, or not answer in time."""
    # The catalog's commands need not wait for Ray to be imported.
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
    """Say why an actor has not answered, without Ray's own words."""
    LOG.debug("an actor has not answered: %r", problem)
    reason = problem.title if isinstance(problem, errors.Away) else REASONS.get(type(problem).__name__, "")
    hint = "ask again in a few seconds"
    return SourceAway("the running system does not answer", hint=f"{hint}; {reason}" if reason else hint)
