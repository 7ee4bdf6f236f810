"""How far event time must go on until a query that was planned anew knows all that the running one knows.

The new operators see no tuple that was taken in before them. All of these happened up to some event time L. An output of a
node is *whole* if no tuple up to L could have had a part in it, which it is when it happens later than L by

    a window of time             its range and slide
    a join                       as far as it reaches from one side to the other
    what passes tuples on        nothing

and all that its inputs were late by. What stood in the running plan already has its state, and is whole from the beginning.
Progress of event time reaches a node later than the source, by no more than the same joins and windows, so twice as much
event time past L suffices: from then on each answer of the old plan is one of the new plan, and comes at the same settle point.

1. What is not bounded by event time cannot be waited for: windows of rows, last rows by key, and windows with SLIDE AT MOST,
   whose ends go by all that came before.
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

ROWS = "a window of rows goes by how many came before"


class Unbounded(Exception):
    """No event time suffices; says why."""


def wait_us(plan: Plan, running: Set[Plan]) -> int:
    """By how much event time must pass L; 0 if there is nothing to wait for. `running` is what has its state already."""
    return 2 * late_us(plan, running)


def late_us(plan: Plan, running: Set[Plan]) -> int:
    """By how much outputs must be later than L to be whole; at least 1 with any state."""
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
                raise Unbounded("a window with SLIDE AT MOST goes by the ends that it had before")
            return late_us(below, running) + window.range_us + window.slide_us
        case IntervalJoin():
            return _sides(plan, running) + max(1, abs(plan.low_us), abs(plan.high_us))
        case WindowJoin():
            windows = plan.left_window, plan.right_window
            return _sides(plan, running) + max(one.range_us + one.slide_us for one in windows)
        case LastJoin():
            raise Unbounded("the last row by key may be as old as the stream")


def _sides(plan: IntervalJoin | WindowJoin, running: Set[Plan]) -> int:
    return max(late_us(plan.left, running), late_us(plan.right, running))
