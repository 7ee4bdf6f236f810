"""How far a query is in the endless replay, and how far it may go now.

A micro-batch is the rows [start.row + what was newly missed, end.row), so its two offsets say which rows it has. The
second also holds the options that it was planned with: a micro-batch that is repeated after the options were changed has
the rows and event times that it had. Row k of the replay arrives with arrival k − base of the schedule that began at `began_us`; what has fallen behind
too far is missed, not sent later: its arrivals are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyspark_weir_feeder.arrivals import Arrivals, Schedule
from pyspark_weir_feeder.options import EventTime, FileFormat


@dataclass(frozen=True)
class Planned:
    """The options that fix the rows of a micro-batch and their event times."""

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
        """Return True if both read the same files in the same way."""
        return (self.paths, self.file_format, self.split) == (other.paths, other.file_format, other.split)


@dataclass(frozen=True)
class Offset:
    row: int
    """Of the endless replay; the rows before it have been given out or missed."""
    missed: int
    """Rows missed since the query began."""
    began_us: int
    """When the schedule began, in µs since 1970."""
    base: int
    """The row whose arrival is the schedule's first: not 0 if the rate was changed since the query began."""
    arrivals: str
    """The fingerprint of the schedule."""
    replay: str
    """The fingerprint of the rows."""
    planned: Planned | None = None
    """The options that the micro-batch up to here was planned with; None in offsets from before they were kept."""

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> Offset:
        planned = offset.get("planned")
        return cls(**(dict(offset) | {"planned": planned and Planned.from_json(planned)}))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Bounds:
    rows: int | None
    """Rows there are, None in a loop."""
    max_rows: int | None
    """Rows a micro-batch may have."""
    catch_up_s: float | None
    """What has fallen behind more is missed."""


def advanced(start: Offset, now_us: int, schedule: Schedule, bounds: Bounds) -> Offset:
    """Where the micro-batch from `start` on ends; `start` itself if nothing is due."""
    last = due(start, now_us, schedule, bounds)
    first = start.row
    if bounds.catch_up_s is not None:
        first = max(first, due(start, now_us - round(bounds.catch_up_s * 1e6), schedule, bounds))
    end = last if bounds.max_rows is None else min(last, first + bounds.max_rows)
    if end <= start.row:
        return start
    return replace(start, row=end, missed=start.missed + first - start.row)


def due(start: Offset, now_us: int, schedule: Schedule, bounds: Bounds) -> int:
    """The row that arrives next."""
    row = start.base + schedule.due((now_us - start.began_us) / 1e6)
    return row if bounds.rows is None else min(row, bounds.rows)


def rescheduled(start: Offset, now_us: int, arrivals: str) -> Offset:
    """Other arrivals begin now, with the next row: neither does what they would have brought before pile up, nor do
    they wait until they get there."""
    return replace(start, began_us=now_us, base=start.row, arrivals=arrivals)


def rows_between(start: Offset, end: Offset) -> range:
    if start.replay != end.replay:
        # Other rows, which begin with their first.
        return range(end.missed, end.row)
    return range(start.row + end.missed - start.missed, end.row)
