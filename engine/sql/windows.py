"""Windows: from [RANGE …], [ROWS …], TUMBLE and HOP to lengths that were checked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqlglot import exp

from engine.plan.plan import RowWindow, TimeWindow
from engine.sql.dialect import UNITS_US, BracketWindow, FunctionWindow
from engine.sql.errors import Text
from engine.sql.terms.literals import interval_us

RANGE_MAX_US = 366 * 86_400_000_000  # a year: beyond, state would hardly be bounded
ROWS_MAX = 10_000_000
# Each slide has its pane; a window is put together from as many.
PANES_MAX = 100_000


def window_of(text: Text, node: exp.Expr) -> TimeWindow | RowWindow:
    """The window that is written here."""
    if isinstance(node, FunctionWindow):
        slide, size = node.expressions[0], node.expressions[-1]
        return _time_window(text, _Length(size, "the size"), _Length(slide, "the slide"))
    assert isinstance(node, BracketWindow)
    size, slide = node.args["size"], node.args.get("slide") or node.args["size"]
    at_most = bool(node.args.get("at_most"))
    if node.args["kind"] == "ROWS":
        if at_most:
            hint = "[ROWS 100 SLIDE 10], or [RANGE 10 SECONDS SLIDE AT MOST 2 SECONDS]"
            raise text.error(
                node, "a window of rows slides by a number of rows, not by at most one", hint=hint
            )
        window = RowWindow(_rows(text, size), _rows(text, slide))
        if window.slide > window.rows:
            what = f"SLIDE is more than the window's {window.rows:,} rows: those between two windows would be left out"
            raise text.error(slide, what, window.slide, f"make SLIDE {window.rows} or less")
        return window
    return _time_window(text, _Length(size, "RANGE"), _Length(slide, "SLIDE"), at_most)


@dataclass(frozen=True, slots=True)
class _Length:
    """Where a length of time stands, and what it is called there."""

    node: exp.Expr
    name: str

    def us(self, text: Text) -> int:
        length = interval_us(text, self.node)
        if length is None:
            what, hint = (
                f"{self.name} of a window is a constant with a unit",
                "[RANGE 10 SECONDS SLIDE 2 SECONDS]",
            )
            raise text.error(self.node, what, text.of(self.node) or None, hint)
        given = told(length)
        if length <= 0:
            hint = "[RANGE 10 SECONDS SLIDE 2 SECONDS]"
            raise text.error(self.node, f"{self.name} of a window must be more than 0", given, hint)
        if length > RANGE_MAX_US:
            hint = "take a shorter window, and a query over its results"
            raise text.error(self.node, "a window is at most 366 days long", given, hint)
        return length


def _time_window(text: Text, size: _Length, slide: _Length, at_most: bool = False) -> TimeWindow:
    range_us, slide_us = size.us(text), slide.us(text)
    longest, given = told(range_us), told(slide_us)
    if slide_us > range_us:
        what = f"{slide.name} is longer than {size.name}, {longest}: what is between two windows would be left out"
        hint = "HOP takes the slide first, then the size"
        if slide.name == "SLIDE":
            hint = f"make SLIDE {longest} or less"
        raise text.error(slide.node, what, given, hint)
    if range_us // slide_us > PANES_MAX:
        what = f"{size.name} is more than {PANES_MAX:,} times {slide.name}"
        least_us = 1000 * math.ceil(range_us / PANES_MAX / 1000)
        raise text.error(slide.node, what, given, f"make {slide.name} {told(least_us)} or more")
    pane_us = math.gcd(range_us, slide_us)
    if at_most and range_us // pane_us > PANES_MAX:
        what = f"the longest pane that RANGE and SLIDE are made of lies {range_us // pane_us:,} times in the window"
        hint = f"take a SLIDE that divides {longest}; {PANES_MAX:,} times is the most"
        raise text.error(slide.node, what, given, hint)
    return TimeWindow(range_us, slide_us, at_most)


def told(length_us: int) -> str:
    """A length as it may be written, in the longest unit of which it is a whole number."""
    fitting = [one for one in UNITS_US if not length_us % UNITS_US[one]]
    unit = fitting[-1] if length_us else "SECOND"
    count = length_us // UNITS_US[unit]
    return f"{count} {unit}" + ("" if count == 1 else "S")


def check_unit(text: Text, node: exp.Expr, window: TimeWindow, unit_us: int) -> None:
    """The event time may count milliseconds; then so does the window."""
    for told, length_us in (("RANGE", window.range_us), ("SLIDE", window.slide_us)):
        if length_us % unit_us:
            what = f"{told} is not a whole number of the {unit_us:,} µs that the event time counts"
            raise text.error(node, what, f"{length_us} microseconds", "take milliseconds")


def _rows(text: Text, node: exp.Expr) -> int:
    if not (isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal()):
        raise text.error(
            node,
            "the length of this window is a constant number of rows",
            text.of(node) or None,
            "[ROWS 100 SLIDE 10]",
        )
    if not (len(node.name) < 9 and 0 < int(node.name) <= ROWS_MAX):
        raise text.error(node, f"a window has 1 to {ROWS_MAX:,} rows", node.name, "[ROWS 100 SLIDE 10]")
    return int(node.name)
