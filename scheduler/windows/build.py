"""Construction of a PeriodicScheduler from the settings of a schedule."""

from __future__ import annotations

from configs.classes.periodic_schedules import PERIODIC_KINDS, PeriodicSettings
from configs.errors import UnknownName, nearest
from scheduler.windows.tasks import PeriodicScheduler


def build_periodic(settings: PeriodicSettings) -> PeriodicScheduler:
    """Return a scheduler of periodic window results that has no queries yet."""
    if settings.kind not in PERIODIC_KINDS:
        raise UnknownName(
            "no such schedule", "periodic.kind", settings.kind, nearest(settings.kind, PERIODIC_KINDS)
        )
    return PeriodicScheduler(settings)
