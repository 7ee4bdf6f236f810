"""Position of a query in the endless replay, and the rows that the query's next micro-batch may have.

The two offsets of a micro-batch determine its rows: from `start.row`, plus the rows that were missed since, up to `end.row - 1`.
The end offset also contains the options with which the micro-batch was planned. So a repeated micro-batch has the same rows
and event times, even if the options have changed. Row k of the replay arrives at time number k − base of the schedule that began at
`began_us`. If the query cannot keep up, rows that have waited for too long are missed: they are skipped and never sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyspark_weir_feeder.arrivals import Schedule
from pyspark_weir_feeder.options import Planned


@dataclass(frozen=True)
class Offset:
    row: int
    """Number of the next row of the endless replay. All rows before this row have been returned or missed."""
    missed: int
    """Number of rows missed since the query began."""
    began_us: int
    """Start of the schedule, in µs since 1970."""
    base: int
    """Number of the row that arrives first in the schedule; 0 until the options of arrivals are changed."""
    arrivals: str
    """Fingerprint of the options of arrivals. A new schedule begins if the fingerprint differs."""
    replay: str
    """Fingerprint of the files and the split. A new replay begins if the fingerprint differs."""
    planned: Planned | None = None
    """Options with which the micro-batch that ends at this offset was planned; None in offsets that older versions have written."""

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> Offset:
        planned = offset.get("planned")
        return cls(**(dict(offset) | {"planned": planned and Planned.from_json(planned)}))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Bounds:
    rows: int | None
    """Number of rows of the replay; None if the replay is endless."""
    max_rows: int | None
    """Maximum number of rows of a micro-batch."""
    catch_up_s: float | None
    """Seconds after its arrival time at which a row that is not sent yet is missed; None if no rows are missed."""


def advanced(start: Offset, now_us: int, schedule: Schedule, bounds: Bounds) -> Offset:
    """Return the end offset of the micro-batch that begins at `start`. The end is `start` itself if no row has arrived yet."""
    last = due(start, now_us, schedule, bounds)
    first = start.row
    if bounds.catch_up_s is not None:
        first = max(first, due(start, now_us - round(bounds.catch_up_s * 1e6), schedule, bounds))
    end = last if bounds.max_rows is None else min(last, first + bounds.max_rows)
    if end <= start.row:
        return start
    return replace(start, row=end, missed=start.missed + first - start.row)


def due(start: Offset, now_us: int, schedule: Schedule, bounds: Bounds) -> int:
    """Return the number of the first row that has not arrived yet."""
    row = start.base + schedule.due((now_us - start.began_us) / 1e6)
    return row if bounds.rows is None else min(row, bounds.rows)


def rescheduled(start: Offset, now_us: int, arrivals: str) -> Offset:
    """Return `start` with a new schedule of arrivals, which begins now with the next row.

    If the old schedule's beginning stayed, a higher rate would make many rows due at once, and a lower rate would delay the next row.
    """
    return replace(start, began_us=now_us, base=start.row, arrivals=arrivals)


def rows_between(start: Offset, end: Offset) -> range:
    if start.replay != end.replay:
        # If the files or the split have changed, the micro-batch begins with the first row of the new replay.
        return range(end.missed, end.row)
    return range(start.row + end.missed - start.missed, end.row)
