"""Computes by how much event time must advance until a new plan of a query can replace the running plan.

New operators miss all tuples that were read before them; L is the latest event time of these tuples. An output of a part
of a plan is *complete* if no tuple up to L could have contributed to it. That holds for outputs later than L by at least

    a window of time             its range plus its slide
    a join                       the largest distance in time between its two sides
    other parts                  0

plus the same distance of its inputs. A part that is also in the running plan already has its state, so its distance is 0.
Progress of event time reaches a part later than it reaches the source, but by no more than this distance. So after twice the
distance, each answer of the old plan is also an answer of the new plan, and comes at the same time.

1. Some plans have state that does not expire with event time, so they cannot be exchanged: windows of rows, last rows by key, and
   windows with SLIDE AT MOST, which have ends that depend on all earlier tuples.
"""

from __future__ import annotations

from collections.abc import Set

from engine.plan.plan import (
    Apart,
    Filter,
    IntervalJoin,
    LastJoin,
    Numbered,
    Plan,
    Project,
    QueryOutput,
    RowWindow,
    Scan,
    TableJoin,
    Union,
    WindowAggregate,
    WindowJoin,
)

ROWS = "a window of rows depends on the number of rows before it"


class Unbounded(Exception):
    """Error for a plan that can never be exchanged; its text says why."""


def wait_us(plan: Plan, running: Set[Plan]) -> int:
    """Return by how many µs event time must advance before the exchange.

    `running` has the plans with running operators; these operators have their state already.
    """
    return 2 * late_us(plan, running)


def late_us(plan: Plan, running: Set[Plan]) -> int:
    """Return the µs of event time after which no output depends on a tuple that the plan has missed; at least 1 for plans with state."""
    if plan in running:
        return 0
    match plan:
        case Scan() | Apart() | QueryOutput():
            return 0
        case Filter(below) | Project(below) | TableJoin(input=below):
            return late_us(below, running)
        case Union(inputs):
            return max(1, *(late_us(input_, running) for input_ in inputs))
        case Numbered():
            raise Unbounded(ROWS)
        case WindowAggregate(below, window):
            if isinstance(window, RowWindow):
                raise Unbounded(ROWS)
            if window.at_most:
                raise Unbounded(
                    "the query has a window with SLIDE AT MOST, and the end of each window depends on earlier ends"
                )
            return late_us(below, running) + window.range_us + window.slide_us
        case IntervalJoin():
            return _sides(plan, running) + max(1, abs(plan.low_us), abs(plan.high_us))
        case WindowJoin():
            windows = plan.left_window, plan.right_window
            return _sides(plan, running) + max(one.range_us + one.slide_us for one in windows)
        case LastJoin():
            raise Unbounded("the query uses LAST BY, and the last row of a key may be as old as the stream")


def _sides(plan: IntervalJoin | WindowJoin, running: Set[Plan]) -> int:
    return max(late_us(plan.left, running), late_us(plan.right, running))
