"""Status and decisions that the coordinator reports to users and monitoring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actors.coordinator.control_plane import SystemStatus
from actors.messages.unit_messages import Explanations
from scheduler.capacity.core import ShareMove
from scheduler.tuning import TuningDecision

Number = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class CoordinatorStatus:
    pid: int
    at: float
    """Time of the status, by the monotonic clock of the coordinator's node."""
    system: SystemStatus
    waited_for: tuple[str, ...]
    """Actors that have not answered since they were created."""
    quarantined: tuple[str, ...]
    """Actors that have stopped answering."""
    failures: tuple[str, ...]
    """Descriptions of the last calls that failed."""
    reports_lost: int
    being_set: tuple[str, ...] = ()
    """Actors that have not yet confirmed the units or streams that were sent to them."""


@dataclass(frozen=True, slots=True)
class StatusMoment:
    """Status of the system, and processor-seconds lent between classes, at one moment."""

    number: Number
    """Identifier of the status, which differs after any change and after a restart of the coordinator."""
    status: CoordinatorStatus
    lending: Mapping[str, Mapping[str, float]]
    """Processor-seconds that classes have lent: lender → borrower → seconds."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """The last decisions about a class, oldest first."""

    units: Mapping[str, Explanations]
    """Decisions of each unit's load manager."""
    moves: tuple[ShareMove, ...]
    """Moves of the class's shares."""
    epoch_s: float
    """Seconds to add to the times of `moves` and `tuned` to get seconds since 1970."""
    tuned: tuple[TuningDecision, ...] = ()
    """Decisions about the class's policy, if the class tunes itself."""
