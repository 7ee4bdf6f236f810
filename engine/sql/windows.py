"""Reads windows from [RANGE …], [ROWS …], TUMBLE and HOP, and checks their lengths."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqlglot import exp

from engine.plan.plan import RowWindow, TimeWindow
from engine.sql.dialect import UNITS_US, WINDOW_EXAMPLE, BracketWindow, FunctionWindow
from engine.sql.errors import Text
from engine.sql.terms.literals import interval_us

# Longest window: one year. The state of a longer window would grow practically without limit.
RANGE_MAX_US = 366 * 86_400_000_000
ROWS_MAX = 10_000_000
# Maximum number of panes per window: each slide begins a new pane, and a window combines all panes that it covers.
PANES_MAX = 100_000


def window_of(text: Text, node: exp.Expr) -> TimeWindow | RowWindow:
    """Return the window of a parsed window clause; raise a PlanningError if its lengths are invalid."""
    if isinstance(node, FunctionWindow):
        slide, size = node.expressions[0], node.expressions[-1]
        return _time_window(text, _Length(size, "the size"), _Length(slide, "the slide"))
    assert isinstance(node, BracketWindow)
    size, slide = node.args["size"], node.args.get("slide") or node.args["size"]
    at_most = bool(node.args.get("at_most"))
    if node.args["kind"] == "ROWS":
        if at_most:
            hint = "[ROWS 100 SLIDE 10], or [RANGE 10 SECONDS SLIDE AT MOST 2 SECONDS]"
            raise text.error(node, "a window of rows cannot use SLIDE AT MOST", hint=hint)
        window = RowWindow(_rows(text, size), _rows(text, slide))
        if window.slide > window.rows:
            what = f"SLIDE is longer than the window's {window.rows:,} rows, so rows between two windows would be left out"
            raise text.error(slide, what, window.slide, f"make SLIDE {window.rows} or less")
        return window
    return _time_window(text, _Length(size, "RANGE"), _Length(slide, "SLIDE"), at_most)


@dataclass(frozen=True, slots=True)
class _Length:
    """Length of time in a window clause, with its name for messages."""

    node: exp.Expr
    name: str

    def us(self, text: Text) -> int:
        length = interval_us(text, self.node)
        if length is None:
            what = f"{self.name} of a window must be a constant with a unit of time"
            raise text.error(self.node, what, text.of(self.node) or None, WINDOW_EXAMPLE)
        given = told(length)
        if length <= 0:
            what = f"{self.name} of a window must be more than 0"
            raise text.error(self.node, what, given, WINDOW_EXAMPLE)
        if length > RANGE_MAX_US:
            hint = "use a shorter window, and a second query over its results"
            raise text.error(self.node, "a window can be at most 366 days long", given, hint)
        return length


def _time_window(text: Text, size: _Length, slide: _Length, at_most: bool = False) -> TimeWindow:
    range_us, slide_us = size.us(text), slide.us(text)
    longest, given = told(range_us), told(slide_us)
    if slide_us > range_us:
        what = f"{slide.name} is longer than {size.name} ({longest}), so rows between two windows would be left out"
        hint = "give HOP the slide first, then the size"
        if slide.name == "SLIDE":
            hint = f"make SLIDE {longest} or less"
        raise text.error(slide.node, what, given, hint)
    if range_us // slide_us > PANES_MAX:
        what = f"{size.name} is more than {PANES_MAX:,} times {slide.name}"
        least_us = 1000 * math.ceil(range_us / PANES_MAX / 1000)
        raise text.error(slide.node, what, given, f"make {slide.name} {told(least_us)} or more")
    pane_us = math.gcd(range_us, slide_us)
    if at_most and range_us // pane_us > PANES_MAX:
        what = f"RANGE is {range_us // pane_us:,} times the greatest common divisor of RANGE and SLIDE; {PANES_MAX:,} is the maximum"
        hint = f"use a SLIDE that divides {longest}"
        raise text.error(slide.node, what, given, hint)
    return TimeWindow(range_us, slide_us, at_most)


def told(length_us: int) -> str:
    """Return a length as SQL writes it, in the longest unit that divides it."""
    fitting = [one for one in UNITS_US if not length_us % UNITS_US[one]]
    unit = fitting[-1] if length_us else "SECOND"
    count = length_us // UNITS_US[unit]
    return f"{count} {unit}" + ("" if count == 1 else "S")


def check_unit(text: Text, node: exp.Expr, window: TimeWindow, unit_us: int) -> None:
    """Raise an error for a window with a length that is no multiple of the unit of the event time, which may be milliseconds."""
    for told, length_us in (("RANGE", window.range_us), ("SLIDE", window.slide_us)):
        if length_us % unit_us:
            what = f"{told} is not a multiple of {unit_us:,} µs, the unit of the event time"
            raise text.error(node, what, f"{length_us} microseconds", "use whole milliseconds")


def _rows(text: Text, node: exp.Expr) -> int:
    if not (isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal()):
        what = "the length of this window must be a constant number of rows"
        raise text.error(node, what, text.of(node) or None, "[ROWS 100 SLIDE 10]")
    if not (len(node.name) < 9 and 0 < int(node.name) <= ROWS_MAX):
        raise text.error(node, f"a window must have 1 to {ROWS_MAX:,} rows", node.name, "[ROWS 100 SLIDE 10]")
    return int(node.name)
