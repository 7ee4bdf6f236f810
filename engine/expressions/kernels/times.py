"""Parts and truncation of timestamps, which are int64 microseconds since the epoch.

Floor division also gives correct results for times before 1970. Months and years use numpy's calendar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from engine.data.schema import DataType, TypeKind
from engine.expressions.kernels.arithmetic import divided
from engine.expressions.kernels.kernel import Argument, Array, Build, Checked, Kernel, always, any_or_none

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
MONDAY = 4  # Days from the epoch, which was a Thursday, to the first Monday

FIXED = {
    "microsecond": 1,
    "millisecond": MILLISECOND,
    "second": SECOND,
    "minute": MINUTE,
    "hour": HOUR,
    "day": DAY,
}
"""Length in microseconds of each time unit that has a constant length."""
MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1_200, "millennium": 12_000}
"""Number of months of each longer time unit; decades, centuries and millennia begin at multiples of their length from year 0."""
EPOCH_MONTHS = 1970 * 12


def days(times: Array) -> Array:
    return times // DAY


def months(times: Array) -> Array:
    """Return the whole months since January 1970."""
    return times.view("M8[us]").astype("M8[M]").view(np.int64)


def first_day(month: Array) -> Array:
    """Return the first day of a month as days since the epoch; the month counts from January 1970."""
    return month.view("M8[M]").astype("M8[D]").view(np.int64)


def epoch_ms(times: Array) -> Array:
    """Return the time in milliseconds since the epoch, rounded to the nearest, as in DuckDB."""
    return divided(times, MILLISECOND)


def time_of_ms(milliseconds: Array) -> Checked:
    times = milliseconds * MILLISECOND
    return times, None, any_or_none(times // MILLISECOND != milliseconds)


def truncation(unit: str) -> Callable[[Array], Array]:
    """Return a function that truncates times to the beginning of a unit, such as a day; weeks begin on Monday."""
    if unit == "week":
        return lambda times: ((days(times) - MONDAY) // 7 * 7 + MONDAY) * DAY
    if unit in FIXED:
        length = FIXED[unit]
        return lambda times: times // length * length
    count = MONTHS[unit]

    def truncated(times: Array) -> Array:
        whole = (months(times) + EPOCH_MONTHS) // count * count - EPOCH_MONTHS
        return first_day(whole) * DAY

    return truncated


def build_truncation(arguments: Sequence[Argument], result: DataType) -> Kernel:
    """Return a kernel that truncates times to a constant unit; the planner accepts no other units."""
    unit, moment = arguments
    truncated = truncation(str(unit.value))
    # If both arguments are constants, only the first argument becomes a column, so the time is a scalar.
    if moment.constant:
        return Kernel(lambda _, time: truncated(np.array([time])))
    return Kernel(lambda _, times: truncated(times))


def build_epoch_ms(arguments: Sequence[Argument], result: DataType) -> Kernel:
    if result.kind is TypeKind.TIMESTAMP:
        return Kernel(time_of_ms, "milliseconds beyond the range of timestamps")
    return Kernel(epoch_ms)


PARTS: dict[str, Callable[[Array], Array]] = {
    "year": lambda times: months(times) // 12 + 1970,
    "quarter": lambda times: months(times) % 12 // 3 + 1,
    "month": lambda times: months(times) % 12 + 1,
    "day": lambda times: days(times) - first_day(months(times)) + 1,
    "day_of_week": lambda times: (days(times) + MONDAY) % 7,
    "day_of_year": lambda times: days(times) - first_day(months(times) // 12 * 12) + 1,
    "hour": lambda times: times // HOUR % 24,
    "minute": lambda times: times // MINUTE % 60,
    "second": lambda times: times // SECOND % 60,
}
"""Functions for the whole-number parts of a timestamp; weeks begin on Sunday, which is day 0."""
BUILDERS: dict[str, Build] = {
    **{name: always(Kernel(function)) for name, function in PARTS.items()},
    "epoch": always(Kernel(lambda times: times / 1e6)),
    "epoch_ms": build_epoch_ms,
    "date_trunc": build_truncation,
}
