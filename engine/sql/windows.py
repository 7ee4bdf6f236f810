"""Reads windows from [RANGE …], [ROWS …], TUMBLE and HOP, and checks their lengths."""

from __future__ import annotations

import math

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
        return _time_window(text, size, slide, ("the size", "the slide"))
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
    return _time_window(text, size, slide, ("RANGE", "SLIDE"), at_most)


def _length_us(text: Text, node: exp.Expr, name: str) -> int:
    """Return a length of time of a window clause in microseconds; messages about an invalid length use `name`."""
    length = interval_us(text, node)
    if length is None:
        what = f"{name} of a window must be a constant with a unit of time"
        raise text.error(node, what, text.of(node) or None, WINDOW_EXAMPLE)
    given = told(length)
    if length <= 0:
        raise text.error(node, f"{name} of a window must be more than 0", given, WINDOW_EXAMPLE)
    if length > RANGE_MAX_US:
        hint = "use a shorter window, and a second query over its results"
        raise text.error(node, "a window can be at most 366 days long", given, hint)
    return length


def _time_window(
    text: Text, size: exp.Expr, slide: exp.Expr, names: tuple[str, str], at_most: bool = False
) -> TimeWindow:
    size_name, slide_name = names
    range_us, slide_us = _length_us(text, size, size_name), _length_us(text, slide, slide_name)
    longest, given = told(range_us), told(slide_us)
    if slide_us > range_us:
        what = f"{slide_name} is longer than {size_name} ({longest}), so rows between two windows would be left out"
        hint = "give HOP the slide first, then the size"
        if slide_name == "SLIDE":
            hint = f"make SLIDE {longest} or less"
        raise text.error(slide, what, given, hint)
    if range_us // slide_us > PANES_MAX:
        what = f"{size_name} is more than {PANES_MAX:,} times {slide_name}"
        least_us = 1000 * math.ceil(range_us / PANES_MAX / 1000)
        raise text.error(slide, what, given, f"make {slide_name} {told(least_us)} or more")
    pane_us = math.gcd(range_us, slide_us)
    if at_most and range_us // pane_us > PANES_MAX:
        what = f"RANGE is {range_us // pane_us:,} times the greatest common divisor of RANGE and SLIDE; {PANES_MAX:,} is the maximum"
        raise text.error(slide, what, given, f"use a SLIDE that divides {longest}")
    return TimeWindow(range_us, slide_us, at_most)


def told(length_us: int) -> str:
    """Return a length as SQL writes it, in the longest unit that divides it."""
    fitting = [one for one in UNITS_US if not length_us % UNITS_US[one]]
    unit = fitting[-1] if length_us else "SECOND"
    count = length_us // UNITS_US[unit]
    return f"{count} {unit}" + ("" if count == 1 else "S")


def check_unit(text: Text, node: exp.Expr, window: TimeWindow, unit_us: int) -> None:
    """Raise an error if RANGE or SLIDE is no multiple of the unit of the event time, which may be a millisecond."""
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
