"""Parts of timestamps and truncation, on int64 microseconds since the epoch.

Floor division makes the results right before 1970 too. Months and years use numpy's calendar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from engine.data.schema import DataType, TypeKind
from engine.expressions.kernels.arithmetic import divided
from engine.expressions.kernels.kernel import Argument, Array, Build, Checked, Kernel, any_or_none, each

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
MONDAY = 4  # days from the epoch, a Thursday, to the first Monday

FIXED = {
    "microsecond": 1,
    "millisecond": MILLISECOND,
    "second": SECOND,
    "minute": MINUTE,
    "hour": HOUR,
    "day": DAY,
}
"""Units of constant length."""
MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1_200, "millennium": 12_000}
"""Units of whole months; years are counted from year 0."""
EPOCH_MONTHS = 1970 * 12


def days(times: Array) -> Array:
    return times // DAY


def months(times: Array) -> Array:
    """Return the whole months since January 1970."""
    return times.view("M8[us]").astype("M8[M]").view(np.int64)


def first_day(month: Array) -> Array:
    """Return the first day of a month as days since the epoch; the month counts from January 1970."""
    return month.view("M8[M]").astype("M8[D]").view(np.int64)


def year(times: Array) -> Array:
    return months(times) // 12 + 1970


def month(times: Array) -> Array:
    return months(times) % 12 + 1


def quarter(times: Array) -> Array:
    return months(times) % 12 // 3 + 1


def day(times: Array) -> Array:
    return days(times) - first_day(months(times)) + 1


def day_of_year(times: Array) -> Array:
    return days(times) - first_day(months(times) // 12 * 12) + 1


def day_of_week(times: Array) -> Array:
    """Return the day of the week; Sunday is 0."""
    return (days(times) + MONDAY) % 7


def hour(times: Array) -> Array:
    return times // HOUR % 24


def minute(times: Array) -> Array:
    return times // MINUTE % 60


def second(times: Array) -> Array:
    return times // SECOND % 60


def epoch(times: Array) -> Array:
    return times / 1e6


def epoch_ms(times: Array) -> Array:
    """Return the time in milliseconds since the epoch, rounded to the nearest, as in DuckDB."""
    return divided(times, MILLISECOND)


def time_of_ms(milliseconds: Array) -> Checked:
    times = milliseconds * MILLISECOND
    return times, None, any_or_none(times // MILLISECOND != milliseconds)


def unit_named(name: str) -> str | None:
    unit = name.strip().lower()
    irregular = {"centuries": "century", "millennia": "millennium", "millenniums": "millennium"}
    unit = irregular.get(unit, unit)
    unit = unit if unit in FIXED or unit in MONTHS or unit == "week" else unit.removesuffix("s")
    return unit if unit in FIXED or unit in MONTHS or unit == "week" else None


def truncation(unit: str) -> Callable[[Array], Array]:
    """Return a function that truncates times to the beginning of the unit; weeks begin on Monday."""
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
    unit, _ = arguments
    reason = "date_trunc does not know the unit"
    if unit.constant and (known := unit_named(unit.value)) is not None:
        apply = truncation(known)
        return Kernel(lambda _, times: apply(times))
    return Kernel(truncate_each, reason)


def truncate_each(units: Any, times: Array) -> Checked:
    """Truncate each time to the unit of its row."""
    shape = (len(units),) if not isinstance(units, str) else np.shape(times)
    names = np.array([name for name, _ in zip(each(units), range(shape[0]), strict=False)], object)
    times = np.broadcast_to(times, shape).copy()
    result, bad = times.copy(), np.zeros(shape, bool)
    for name in set(names.tolist()):
        places = np.flatnonzero(names == name)
        unit = unit_named(name)
        if unit is None:
            bad[places] = True
        else:
            result[places] = truncation(unit)(times[places])
    return result, None, any_or_none(bad)


def build_epoch_ms(arguments: Sequence[Argument], result: DataType) -> Kernel:
    if result.kind is TypeKind.TIMESTAMP:
        return Kernel(time_of_ms, "milliseconds beyond the range of timestamps")
    return Kernel(epoch_ms)


def build_part(function: Callable[[Array], Array], arguments: Sequence[Argument], result: DataType) -> Kernel:
    return Kernel(function)


BUILDERS: dict[str, Build] = {
    **{
        function.__name__: partial(build_part, function)
        for function in (
            year,
            quarter,
            month,
            day,
            day_of_week,
            day_of_year,
            hour,
            minute,
            second,
            epoch,
        )
    },
    "epoch_ms": build_epoch_ms,
    "date_trunc": build_truncation,
}
