"""Options of the feeder, which are parsed from the options that Spark passes.

Names are camelCase, and case is ignored. The error for a wrong name or value suggests the most similar valid name or value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar, get_args

from pyspark_weir_feeder.arrivals import Arrivals, Kind
from pyspark_weir_feeder.conditions import parse_split
from pyspark_weir_feeder.problems import InvalidOption, nearest

FileFormat = Literal["parquet", "arrow", "csv", "json"]
EventTime = Literal["file", "clock"]

NAMES = (
    "path", "fileFormat", "columns", "split", "timeColumn", "eventTime", "eventRate", "arrivals", "rate",
    "onSeconds", "offSeconds", "alpha", "steps", "seed", "loop", "maxRowsPerTrigger", "catchUpSeconds",
)  # fmt: skip
OF_KIND: dict[Kind, tuple[str, ...]] = {
    "constant": ("rate",),
    "poisson": ("rate",),
    "bursts": ("rate", "onSeconds", "offSeconds", "alpha"),
    "steps": ("steps",),
}
RATE_MAX = 1e9
"""Maximum rate in rows per second. At higher rates, the arrival times of different rows are equal some days after the start."""

Choice = TypeVar("Choice", bound=str)


@dataclass(frozen=True)
class Planned:
    """Options that determine the rows of a micro-batch and the rows' event times."""

    arrivals: Arrivals
    event_time: EventTime
    event_rate: float | None
    """Rows per second of event time; None if event times are those of the files or the arrival times."""
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
class Options(Planned):
    """All options of the feeder."""

    columns: tuple[str, ...]
    """Columns to read; empty for all columns."""
    loop: bool
    max_rows: int | None
    catch_up_s: float | None

    def planned(self, time_column: str | None) -> Planned:
        """Return the options that determine rows and event times, with `time_column` as the event-time column."""
        values = {field.name: getattr(self, field.name) for field in fields(Planned)}
        return Planned(**(values | {"time_column": time_column}))


def read_options(options: Mapping[str, str]) -> Options:
    values = OptionTexts(options)
    kind: Kind = values.choice("arrivals", get_args(Kind)) or "constant"
    event_time: EventTime = values.choice("eventTime", get_args(EventTime)) or "file"
    event_rate = values.number("eventRate", above=0)
    if event_rate is not None and event_time == "clock":
        raise InvalidOption(
            "eventRate",
            "this option cannot be combined with eventTime=clock; leave out eventRate or eventTime",
        )
    split = values.text("split")
    if split is not None:
        parse_split(split)
    return Options(
        paths=values.listed("path", required=True),
        file_format=values.choice("fileFormat", get_args(FileFormat)),
        columns=values.listed("columns"),
        split=split,
        time_column=values.text("timeColumn"),
        event_time=event_time,
        event_rate=event_rate,
        arrivals=read_arrivals(values, kind),
        loop=values.choice("loop", ("true", "false")) != "false",
        max_rows=values.whole("maxRowsPerTrigger", least=1),
        catch_up_s=values.number("catchUpSeconds", least=0),
    )


def read_arrivals(given: OptionTexts, kind: Kind) -> Arrivals:
    for name in sorted({name for names in OF_KIND.values() for name in names} - {*OF_KIND[kind]}):
        if given.text(name) is not None:
            kinds = " or ".join(other for other, names in OF_KIND.items() if name in names)
            raise InvalidOption(name, f"this option is for arrivals={kinds}, not for arrivals={kind}")
    seed = given.whole("seed", least=0)
    is_bursts = kind == "bursts"
    return Arrivals(
        kind=kind,
        seed=1 if seed is None else seed,
        rate=given.number("rate", above=0, most=RATE_MAX, required=kind != "steps") or 0.0,
        on_s=given.number("onSeconds", above=0, required=is_bursts) or 0.0,
        off_s=given.number("offSeconds", above=0, required=is_bursts) or 0.0,
        alpha=(given.number("alpha", above=1, most=10) or 1.5) if is_bursts else 0.0,
        steps=read_steps(given) if kind == "steps" else (),
    )


def read_steps(given: OptionTexts) -> tuple[tuple[float, float], ...]:
    """Parse the option steps: `0:1000,10:5000` is a rate of 1,000 from second 0 on, and a rate of 5,000 from second 10 on."""
    steps = []
    for step in given.listed("steps", required=True):
        start, _, rate = step.partition(":")
        steps.append((as_number("steps", start, least=0), as_number("steps", rate, least=0, most=RATE_MAX)))
    if steps[0][0] != 0:
        raise InvalidOption(
            "steps", "the steps must begin at second 0, as in 0:0,10:5000", given.text("steps")
        )
    if any(later[0] <= earlier[0] for earlier, later in itertools.pairwise(steps)):
        raise InvalidOption("steps", "the steps must be in ascending order of seconds", given.text("steps"))
    return tuple(steps)


class OptionTexts:
    """Options with their values as text. Case is ignored in the names of options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        names_by_lower = {name.lower(): name for name in NAMES}
        self._given: dict[str, str] = {}
        for name, value in options.items():
            if name.lower() not in names_by_lower:
                raise InvalidOption(name, f"there is no such option; {nearest(name, NAMES)}")
            self._given[names_by_lower[name.lower()]] = value.strip()

    def text(self, name: str, required: bool = False) -> str | None:
        value = self._given.get(name)
        if value == "":
            raise InvalidOption(name, "the value is empty; leave the option out to use its default")
        if value is None and required:
            raise InvalidOption(name, "this required option is missing")
        return value

    def listed(self, name: str, required: bool = False) -> tuple[str, ...]:
        text = self.text(name, required)
        parts = tuple(part.strip() for part in text.split(",")) if text else ()
        if not all(parts):
            raise InvalidOption(name, "the list has an empty item", text)
        return parts

    def choice(self, name: str, choices: tuple[Choice, ...]) -> Choice | None:
        text = self.text(name)
        if text is None:
            return None
        for choice in choices:
            if choice == text.lower():
                return choice
        raise InvalidOption(name, f"the value is not valid; {nearest(text, choices)}", text)

    def number(self, name: str, *, required: bool = False, **limits: float) -> float | None:
        text = self.text(name, required)
        return None if text is None else as_number(name, text, **limits)

    def whole(self, name: str, least: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise InvalidOption(name, f"the value must be a whole number, at least {least}", text)
        return int(text)


def as_number(
    name: str, text: str, *, least: float = -math.inf, above: float = -math.inf, most: float = math.inf
) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidOption(name, "the value must be a number", text)
    if number < least:
        raise InvalidOption(name, f"the value must be at least {least:g}", text)
    if number <= above:
        raise InvalidOption(name, f"the value must be above {above:g}", text)
    if number > most:
        raise InvalidOption(name, f"the value must be at most {most:g}", text)
    return number
