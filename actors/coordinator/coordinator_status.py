"""What the coordinator tells those who watch the system."""

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
    """When this was so, by the clock of the coordinator's node."""
    system: SystemStatus
    waited_for: tuple[str, ...]
    """Actors that have not answered since they were made."""
    quarantined: tuple[str, ...]
    """Actors that do not answer any more."""
    failures: tuple[str, ...]
    """The last calls that failed."""
    reports_lost: int
    being_set: tuple[str, ...] = ()
    """Actors that have not yet answered which units or streams they are to have."""


@dataclass(frozen=True, slots=True)
class StatusMoment:
    """Status and lending at one moment."""

    number: Number
    """Another one for another life of the coordinator, or for anything that has changed."""
    status: CoordinatorStatus
    lending: Mapping[str, Mapping[str, float]]
    """lender → borrower → processor-seconds."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """The last ones about a class, oldest first."""

    units: Mapping[str, Explanations]
    """Of each unit's load manager."""
    moves: tuple[ShareMove, ...]
    """Of its shares."""
    epoch_s: float
    """To be added to the times of moves for seconds since 1970."""
    tuned: tuple[TuningDecision, ...] = ()
    """Of its policy, if it tunes itself; at times as of moves."""
