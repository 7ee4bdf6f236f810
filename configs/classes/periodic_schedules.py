"""Schedules of periodic window results: when each result is computed, and which results are computed together.

Each schedule has a model of its settings, by which a `scheduler.windows.PeriodicScheduler` runs. A *synopsis*
is a series of pre-aggregated intervals that windows are answered from. A *sub-group* is all queries of one aggregate over
one synopsis that have the same SLIDE (Golab §4.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, get_args

from pydantic import Field, TypeAdapter

from configs.base import BareOff, Settings
from configs.setting_text import checked_text, settings_of_text, text_of

Late = Annotated[Literal["off", "late", "late-pending"], BareOff]
Order = Literal["edf", "hr", "edf-hr"]
ORDERS: tuple[Order, ...] = get_args(Order)


class PeriodicSchedule(Settings):
    """Settings that all schedules have in common."""

    order: Order = "edf"
    """Order of tasks: earliest deadline first (`edf`), most answers for the cost first (`hr`), or Sharaf's hybrid of both
    (`edf-hr`, §3.5.2)."""
    eager: bool = False
    """Run `SLIDE AT MOST` queries early when no other task is waiting, as in Golab's Algorithm 1.

    If false, other classes can borrow the capacity that such early answers would take.
    """


class SharingSchedule(PeriodicSchedule):
    """Settings of the schedules that may run several sub-groups of one aggregate together."""

    late: Late = "off"
    """Sub-groups with different due times that also run together under overload: none (`off`), all late sub-groups (`late`),
    or all late and due sub-groups (`late-pending`) (§4.4)."""


class NoSharing(PeriodicSchedule):
    """Run every task on its own, without sharing work between tasks."""

    kind: Literal["none"] = "none"
    tasks: Literal["sub-group", "query"] = "sub-group"
    """Unit that runs on its own: a sub-group, as in Golab's evaluation, or a single query."""


class Aggressive(SharingSchedule):
    """Run all queries of an aggregate together, at the shortest period among these queries."""

    kind: Literal["aggressive"] = "aggressive"


class Conservative(SharingSchedule):
    """Run each sub-group at its own period; sub-groups that are due at the same time run together."""

    kind: Literal["conservative"] = "conservative"


class Hybrid(SharingSchedule):
    """Shorten a sub-group's period to that of another sub-group if this lowers the total cost. The default schedule."""

    kind: Literal["hybrid"] = "hybrid"
    late: Late = "late-pending"
    meetings: bool = True
    """Choose periods as in the paper, which also counts the savings of sub-groups that run together only sometimes. For
    example, periods of 2 and 3 updates run together at every sixth update.

    Under overload such sub-groups are late by different times and no longer run together. If false, more sub-groups get
    equal periods: runs cost a few percent more without overload, but several times as many windows are answered under
    overload.
    """


PeriodicSettings = Annotated[NoSharing | Aggressive | Conservative | Hybrid, Field(discriminator="kind")]

PeriodicKind = Literal["none", "aggressive", "conservative", "hybrid"]
PERIODIC_KINDS: tuple[PeriodicKind, ...] = get_args(PeriodicKind)


SCHEDULE: TypeAdapter[PeriodicSettings] = TypeAdapter(PeriodicSettings)


# Schedules that are compared by default: every query on its own, a hybrid schedule without `meetings`, and Golab's schedules.
# In Golab's paper, the schedules have the names No-S, AS, CS, C-LP, HS, H-LS and H-LP.
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


def schedule_of(text: str, defaults: PeriodicSchedule = USUAL) -> PeriodicSettings:
    """Return the schedule that a text such as `hybrid:late=off` names; `defaults` has the default values of `order` and `eager`."""
    usual = {"order": defaults.order, "eager": defaults.eager}
    return settings_of_text(
        text, SCHEDULE, kinds=PERIODIC_KINDS, what="schedule", example="hybrid:late=off", usual=usual
    )


def schedule_text(settings: PeriodicSettings, defaults: PeriodicSchedule = USUAL) -> str:
    """Return the schedule as a text that `schedule_of` reads: the kind, and the settings that differ from the default values."""
    usual = type(settings)().model_dump() | {"order": defaults.order, "eager": defaults.eager}
    stated = settings.model_dump(exclude={"kind"})
    differing = {name: str(value).lower() for name, value in stated.items() if value != usual[name]}
    return text_of(settings.kind, differing)


def compared_schedules(
    own: PeriodicSettings, named: Iterable[str] = (), sharing: Iterable[str] = SHARING
) -> dict[str, PeriodicSettings]:
    """Return the schedules to compare, by their texts: the schedules `sharing` and `named`, and the schedule `own` in every order.

    If a schedule does not state `order` or `eager`, the value of `own` applies.
    """
    orders = [own.model_copy(update={"order": order}) for order in (own.order, *ORDERS)]
    schedules = [
        *(schedule_of(text, own) for text in sharing),
        *orders,
        *(schedule_of(text, own) for text in named),
    ]
    return {schedule_text(schedule, own): schedule for schedule in schedules}


ScheduleName = Annotated[str, Field(max_length=200), checked_text(schedule_of, "schedule")]
"""Schedule as a text: its kind, and the settings that differ from the defaults, as in `hybrid:late=off`."""
