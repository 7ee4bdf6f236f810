"""Position of a query in the endless replay, and the rows that its next micro-batch may have.

A micro-batch has the rows [start.row + newly missed rows, end.row), so its two offsets determine its rows. The end offset also
holds the options that the micro-batch was planned with: if the micro-batch is repeated after the options have changed, its rows
and event times stay the same. Row k of the replay arrives at time number k − base of the schedule that began at `began_us`. If
the query cannot keep up, rows that are overdue for too long are missed: they are skipped and never sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyspark_weir_feeder.arrivals import Arrivals, Schedule
from pyspark_weir_feeder.options import EventTime, FileFormat


@dataclass(frozen=True)
class Planned:
    """Options that determine the rows of a micro-batch and the rows' event times."""

    arrivals: Arrivals
    event_time: EventTime
    event_rate: float | None
    time_column: str | None
    paths: tuple[str, ...]
    file_format: FileFormat | None
    split: str | None

    @classmethod
    def from_json(cls, planned: Mapping[str, Any]) -> Planned:
        arrivals_fields = dict(planned["arrivals"])
        steps = tuple((float(start), float(rate)) for start, rate in arrivals_fields.pop("steps"))
        arrivals = Arrivals(**arrivals_fields, steps=steps)
        return cls(**(dict(planned) | {"arrivals": arrivals, "paths": tuple(planned["paths"])}))

    def has_files_of(self, other: Planned) -> bool:
        """Return True if `other` reads the same files, in the same format and with the same split."""
        return (self.paths, self.file_format, self.split) == (other.paths, other.file_format, other.split)


@dataclass(frozen=True)
class Offset:
    row: int
    """Number of the next row of the endless replay: all rows before it have been returned or missed."""
    missed: int
    """Number of rows missed since the query began."""
    began_us: int
    """Start of the schedule, in µs since 1970."""
    base: int
    """Number of the row that arrives first in the schedule; 0 unless the options of arrivals were changed since the query began."""
    arrivals: str
    """Fingerprint of the options of arrivals; if it differs, a new schedule begins."""
    replay: str
    """Fingerprint of the files and the split; if it differs, a new replay begins."""
    planned: Planned | None = None
    """Options that the micro-batch up to this offset was planned with; None in offsets of older versions, which lack them."""

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> Offset:
        planned = offset.get("planned")
        return cls(**(dict(offset) | {"planned": planned and Planned.from_json(planned)}))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Bounds:
    rows: int | None
    """Number of rows of the replay; None if it loops."""
    max_rows: int | None
    """Maximum number of rows of a micro-batch."""
    catch_up_s: float | None
    """Age in seconds beyond which overdue rows are missed; None if no rows are missed."""


def advanced(start: Offset, now_us: int, schedule: Schedule, bounds: Bounds) -> Offset:
    """Return the end offset of the micro-batch that begins at `start`, or `start` itself if no row has arrived yet."""
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

    Otherwise a higher rate would make a backlog of rows due at once, and after a lower rate no row would be due for a while.
    """
    return replace(start, began_us=now_us, base=start.row, arrivals=arrivals)


def rows_between(start: Offset, end: Offset) -> range:
    if start.replay != end.replay:
        # If the files or the split have changed, the new replay begins with its first row.
        return range(end.missed, end.row)
    return range(start.row + end.missed - start.missed, end.row)
