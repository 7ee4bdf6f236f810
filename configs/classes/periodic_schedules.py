"""When periodic window results are computed, and which of them together: one frozen model per schedule, in one union.

`scheduler.windows.build_periodic` turns a member into the scheduler. A *sub-group* is all queries of one aggregate over one
synopsis that have the same SLIDE (Golab §4.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, TypeAdapter

from configs.base import BareOff, Settings
from configs.errors import InvalidInput, UnknownName, nearest
from configs.setting_text import in_a_file, settings_of_text

Late = Annotated[Literal["off", "late", "late-pending"], BareOff]
Order = Literal["edf", "hr", "edf-hr"]
ORDERS: tuple[Order, ...] = get_args(Order)


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


SCHEDULE: TypeAdapter[PeriodicSettings] = TypeAdapter(PeriodicSettings)


def periodic_of(kind: str, **given: object) -> PeriodicSettings:
    """The settings of a schedule by its name."""
    if kind not in PERIODIC_KINDS:
        raise UnknownName("no such schedule", "periodic.kind", kind, nearest(kind, PERIODIC_KINDS))
    return SCHEDULE.validate_python({"kind": kind} | given)


# -- schedules as texts --------------------------------------------------------------------------------------

# What is compared: Golab's schedules (No-S, AS, CS, C-LP, HS, H-LS, H-LP), one that does not count on meetings, and none at all.
SHARING = (
    "none:tasks=query",
    "none",
    "aggressive",
    "conservative",
    "conservative:late=late-pending",
    "hybrid:late=off",
    "hybrid:late=late",
    "hybrid",
    "hybrid:late=off,meetings=false",
)
USUAL = PeriodicSchedule()


def schedule_of(text: str, beside: PeriodicSchedule = USUAL) -> PeriodicSettings:
    """What a text says: `conservative`, `hybrid:late=off`. Order and eagerness that it does not name are those of `beside`."""
    usual = {"order": beside.order, "eager": beside.eager}
    return settings_of_text(
        text, SCHEDULE, kinds=PERIODIC_KINDS, what="schedule", example="hybrid:late=off", usual=usual
    )


def schedule_text(settings: PeriodicSettings, beside: PeriodicSchedule = USUAL) -> str:
    """What `schedule_of` reads, of settings that are not the usual ones, or those of `beside`."""
    shared = {"order": beside.order, "eager": beside.eager}
    usual = type(settings)().model_dump() | shared
    settings_given = {
        name: value for name, value in settings.model_dump(exclude={"kind"}).items() if value != usual[name]
    }
    words = ",".join(f"{name}={str(value).lower()}" for name, value in settings_given.items())
    return f"{settings.kind}:{words}" if words else settings.kind


def compared_schedules(
    own: PeriodicSettings, named: Iterable[str] = (), sharing: Iterable[str] = SHARING
) -> dict[str, PeriodicSettings]:
    """Every schedule, in the order and as eager as `own`; it in every order; and those that are named."""
    orders = [own.model_copy(update={"order": order}) for order in (own.order, *ORDERS)]
    schedules = [
        *(schedule_of(text, own) for text in sharing),
        *orders,
        *(schedule_of(text, own) for text in named),
    ]
    return {schedule_text(schedule, own): schedule for schedule in schedules}


def checked_schedule_name(name: str) -> str:
    try:
        schedule_of(name)
    except InvalidInput as problem:
        raise in_a_file(problem, "schedule") from None
    return name


ScheduleName = Annotated[str, Field(max_length=200), AfterValidator(checked_schedule_name)]
"""A schedule as a text, with settings that are not the usual ones: `hybrid:late=off`."""
