"""Windows: from [RANGE …], [ROWS …], TUMBLE and HOP to lengths that were checked."""

from __future__ import annotations

import math

from sqlglot import exp

from engine.plan import RowWindow, TimeWindow
from engine.sql.dialect import BracketWindow, FunctionWindow
from engine.sql.errors import Text
from engine.sql.literals import interval_us

RANGE_MAX_US = 366 * 86_400_000_000  # a year: beyond, state would hardly be bounded
ROWS_MAX = 10_000_000
# Each slide has its pane; a window is put together from as many.
PANES_MAX = 100_000


def window_of(text: Text, node: exp.Expr) -> TimeWindow | RowWindow:
    """The window that is written here."""
    if isinstance(node, FunctionWindow):
        lengths = [_length(text, one) for one in node.expressions]
        return _time_window(text, node, lengths[-1], lengths[0])
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
            raise text.error(
                node, "the window slides further than it is long", hint="rows between would be left out"
            )
        return window
    return _time_window(text, node, _length(text, size), _length(text, slide), at_most)


def _time_window(
    text: Text, node: exp.Expr, range_us: int, slide_us: int, at_most: bool = False
) -> TimeWindow:
    if slide_us > range_us:
        hint = "what is between two windows would be left out; make SLIDE at most RANGE"
        if isinstance(node, FunctionWindow):
            hint = "HOP takes the slide first, then the size"
        raise text.error(node, "the window slides further than it is long", hint=hint)
    if range_us // slide_us > PANES_MAX:
        raise text.error(node, f"the window is more than {PANES_MAX:,} times its slide", hint="slide further")
    pane_us = math.gcd(range_us, slide_us)
    if at_most and range_us // pane_us > PANES_MAX:
        what = f"the longest pane that RANGE and SLIDE are made of lies {range_us // pane_us:,} times in the window"
        raise text.error(node, what, hint="take a SLIDE that divides RANGE")
    return TimeWindow(range_us, slide_us, at_most)


def check_unit(text: Text, node: exp.Expr, window: TimeWindow, unit_us: int) -> None:
    """The event time may count milliseconds; then so does the window."""
    for told, length_us in (("RANGE", window.range_us), ("SLIDE", window.slide_us)):
        if length_us % unit_us:
            what = f"{told} is not a whole number of the {unit_us:,} µs that the event time counts"
            raise text.error(node, what, f"{length_us} microseconds", "take milliseconds")


def _length(text: Text, node: exp.Expr) -> int:
    length = interval_us(text, node)
    if length is None:
        raise text.error(
            node,
            "the length of a window is a constant with a unit",
            text.of(node) or None,
            "[RANGE 10 SECONDS]",
        )
    if length <= 0:
        raise text.error(node, "the length of a window is more than 0")
    if length > RANGE_MAX_US:
        raise text.error(node, "a window is at most 366 days long")
    return length


def _rows(text: Text, node: exp.Expr) -> int:
    if not (isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal()):
        raise text.error(
            node,
            "the length of this window is a constant number of rows",
            text.of(node) or None,
            "[ROWS 100 SLIDE 10]",
        )
    if not (len(node.name) < 9 and 0 < int(node.name) <= ROWS_MAX):
        raise text.error(node, f"a window has 1 to {ROWS_MAX:,} rows", node.name)
    return int(node.name)
