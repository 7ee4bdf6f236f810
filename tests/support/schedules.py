"""Settings of schedules of periodic queries, for tests."""

from configs.classes.periodic_schedules import SCHEDULE, PeriodicSettings


def periodic_of(kind: str, **given: object) -> PeriodicSettings:
    """Return the settings of a schedule by its kind."""
    return SCHEDULE.validate_python({"kind": kind} | given)
