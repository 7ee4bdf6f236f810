"""When periodic window results are computed, and which of them together: one frozen model per schedule, in one union.

`scheduler.periodic.build_periodic` turns a member into the scheduler. A *sub-group* is all queries of one aggregate over one
synopsis that have the same SLIDE (Golab §4.2).
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field, TypeAdapter

from configs.base import Settings
from configs.problems import UnknownName, nearest

Late = Literal["off", "late", "late-pending"]
Order = Literal["edf", "hr", "edf-hr"]


class PeriodicSchedule(Settings):
    """What all schedules have in common."""

    order: Order = "edf"
    """Which task runs next: the earliest deadline, the most answers for its cost, or Sharaf's hybrid of both (§3.5.2)."""
    eager: bool = False
    """Whether `SLIDE AT MOST` queries run before they are due when nothing else is to do, as in Golab's Algorithm 1.

    Off: answers nobody has asked for yet take capacity that other classes could borrow.
    """


class SharingSchedule(PeriodicSchedule):
    """Sub-groups of one aggregate may run together."""

    late: Late = "off"
    """Overload: also those that are due at different times run together, all late ones or all late and due ones (§4.4)."""


class NoSharing(PeriodicSchedule):
    """Nothing runs together."""

    kind: Literal["none"] = "none"
    tasks: Literal["sub-group", "query"] = "sub-group"
    """What runs by itself; in Golab's evaluation sub-groups."""


class Aggressive(SharingSchedule):
    """All queries of an aggregate at the shortest of their periods."""

    kind: Literal["aggressive"] = "aggressive"


class Conservative(SharingSchedule):
    """Each sub-group at its own period, together when they fall due together."""

    kind: Literal["conservative"] = "conservative"


class Hybrid(SharingSchedule):
    """Periods shortened to another's where that makes the whole cheaper. The default."""

    kind: Literal["hybrid"] = "hybrid"
    late: Late = "late-pending"
    meetings: bool = True
    """Whether periods are chosen with those in view that meet now and then, as in the paper (2 and 3 at every sixth update).

    In an overload they miss each other: without counting on it more sub-groups have one period, which costs some percent
    when there is time and answers several times as much when there is not.
    """


PeriodicSettings = Annotated[NoSharing | Aggressive | Conservative | Hybrid, Field(discriminator="kind")]

PeriodicKind = Literal["none", "aggressive", "conservative", "hybrid"]
PERIODIC_KINDS: tuple[PeriodicKind, ...] = get_args(PeriodicKind)


def periodic_of(kind: str, **given: object) -> PeriodicSettings:
    """The settings of a schedule by its name."""
    if kind not in PERIODIC_KINDS:
        raise UnknownName("no such schedule", "periodic.kind", kind, nearest(kind, PERIODIC_KINDS))
    settings: PeriodicSettings = TypeAdapter(PeriodicSettings).validate_python({"kind": kind} | given)
    return settings
