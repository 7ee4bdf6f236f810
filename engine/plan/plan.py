"""The logical plan of a query: what it computes, typed and normalised, nothing of how.

Nodes are frozen and compare by value, so two queries (or parts of them) that compute the same are equal, and the
operator network builds them once. A node refers to columns of its input by place; names are for people and stand
only in `Project` and in a plan's `schema`. Every expression knows its type; implicit casts have been made explicit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.data.schema import BOOLEAN, INT64, DataType, Field, Schema, StreamSchema, TableSchema
from engine.plan.aggregations import Aggregation

# --- expressions ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; `value` is held as in a train (decimal scaled, timestamp in µs), or None for NULL."""

    value: bool | int | float | str | None
    type: DataType


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the input, by place."""

    place: int
    type: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function or operator by its name in `engine.expressions.functions`; arguments have the types it wants."""

    function: str
    arguments: tuple[Expression, ...]
    type: DataType


@dataclass(frozen=True, slots=True)
class Cast:
    """A change of type; a value that does not fit fails its row (`try_`: becomes NULL)."""

    argument: Expression
    type: DataType
    try_: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition is true; without any, `otherwise`."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression
    type: DataType


Expression = Literal | Column | Call | Cast | Case

TRUE = Literal(True, BOOLEAN)

# --- windows and aggregates -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """[end − range, end) for every end that is a multiple of slide from the epoch; microseconds.

    With `at_most` for ends of the engine's choice (`engine.windows.window_schedule`), never further than slide from one to the next.
    """

    range_us: int
    slide_us: int
    at_most: bool = False


@dataclass(frozen=True, slots=True)
class RowWindow:
    """The last `rows` tuples, after every `slide` tuples, by the numbers of `Numbered`."""

    rows: int
    slide: int


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate over a group's tuples in a window."""

    function: Aggregation
    argument: int | None  # a column of the input; None for count(*)
    type: DataType
    parameter: float = 0.0
    scaled: bool = False  # counts and sums scaled up by the kept fraction
    error: bool = False  # not that, but its standard error


# --- nodes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scan:
    """The tuples of a stream."""

    stream: StreamSchema

    @property
    def schema(self) -> Schema:
        return self.stream.schema


@dataclass(frozen=True)
class Apart:
    """The tuples, for one query alone: nothing over them is shared with another's."""

    input: Plan
    owner: str

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Filter:
    """The tuples for which the condition is true."""

    input: Plan
    condition: Expression

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Numbered:
    """The tuples, with their number in the order of arrival as one more column.

    That column is the event time of all above, up to a window of rows: what stands between leaves tuples out of the
    window, and moves it no further.
    """

    input: Plan

    @property
    def schema(self) -> Schema:
        types = (*(one.type for one in self.input.schema.fields), INT64)
        return Schema(tuple(Field(f"c{place}", one) for place, one in enumerate(types)))


@dataclass(frozen=True)
class Project:
    """New columns from old."""

    input: Plan
    expressions: tuple[Expression, ...]
    schema: Schema
    time: int | None = None  # which output column carries the event time on, if any


@dataclass(frozen=True)
class WindowAggregate:
    """Per window and group: columns window_start, window_end (time windows only), keys, aggregates."""

    input: Plan
    window: TimeWindow | RowWindow
    keys: tuple[int, ...]
    aggregates: tuple[Aggregate, ...]
    schema: Schema
    clock: int | None = None  # of a window of rows: the column that FIRST and LAST go by, before arrival


@dataclass(frozen=True)
class IntervalJoin:
    """Pairs with equal keys and right.time − left.time in [low, high], and the residual condition on both's columns.

    Columns are the left's, then the right's.
    """

    left: Plan
    right: Plan
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    low_us: int
    high_us: int
    residual: Expression
    schema: Schema


@dataclass(frozen=True)
class WindowJoin:
    """Pairs with equal keys that are together in some window of both inputs (CQL windows on both sides)."""

    left: Plan
    right: Plan
    left_window: TimeWindow
    right_window: TimeWindow
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    residual: Expression
    schema: Schema


@dataclass(frozen=True)
class TableJoin:
    """Each tuple with the rows of a static table whose keys are equal; `outer` keeps tuples without any."""

    input: Plan
    table: TableSchema
    keys: tuple[int, ...]
    table_keys: tuple[int, ...]
    residual: Expression
    outer: bool
    schema: Schema


@dataclass(frozen=True)
class LastJoin:
    """Each tuple of the left with the last row of equal key of the right; `outer` keeps tuples without one."""

    left: Plan
    right: Plan
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    residual: Expression
    outer: bool
    schema: Schema


@dataclass(frozen=True)
class Union:
    """The tuples of all inputs, whose columns have equal types."""

    inputs: tuple[Plan, ...]
    schema: Schema


@dataclass(frozen=True)
class QueryOutput:
    """The output of another query of the class, read as a stream."""

    query: str
    schema: Schema
    time: int | None = None
    time_unit_us: int = 1


Plan = (
    Scan
    | Apart
    | Filter
    | Numbered
    | Project
    | WindowAggregate
    | IntervalJoin
    | WindowJoin
    | TableJoin
    | LastJoin
    | Union
    | QueryOutput
)


@dataclass(frozen=True, slots=True)
class EventTime:
    """The column that holds the event time, and its unit in microseconds (1000 for int64 milliseconds)."""

    place: int
    unit_us: int


def event_time(plan: Plan) -> EventTime | None:
    """The event time of a plan's output: what windows over it and joins with it go by."""
    return next(iter(event_times(plan)), None)


def event_times(plan: Plan) -> tuple[EventTime, ...]:
    """All columns of a plan's output that may serve as its event time, the preferred one first.

    A join's output has the times of both sides. A window's result happens at the window's end, its second column.
    """
    match plan:
        case Scan(stream=source) | (QueryOutput() as source):
            return () if source.time is None else (EventTime(source.time, source.time_unit_us),)
        case Apart() | Filter() | TableJoin():
            return event_times(plan.input)
        case LastJoin():
            return event_times(plan.left)
        case Numbered():
            return (EventTime(len(plan.input.schema), 1),)
        case Project(time=place):
            kept = () if place is None else event_times(plan.input)
            carried = [one for one in kept if plan.expressions[place or 0] == _column(plan.input, one)]
            return tuple(EventTime(place or 0, one.unit_us) for one in carried)
        case WindowAggregate():
            timed = isinstance(plan.window, TimeWindow) and event_time(plan.input)
            return (EventTime(1, timed.unit_us),) if timed else ()
        case IntervalJoin() | WindowJoin():
            width = len(plan.left.schema)
            right = (EventTime(time_.place + width, time_.unit_us) for time_ in event_times(plan.right))
            return (*event_times(plan.left), *right)
        case Union():
            first, *rest = (event_times(input_) for input_ in plan.inputs)
            return tuple(time for time in first if all(time in others for others in rest))


def _column(plan: Plan, time: EventTime) -> Column:
    return Column(time.place, plan.schema.fields[time.place].type)


@dataclass(frozen=True)
class Query:
    """A planned query: its text as given and what it computes."""

    name: str
    sql: str
    plan: Plan
    scaled: bool = field(default=False, compare=False)


def inputs(plan: Plan) -> Iterator[Plan]:
    """The plans right below."""
    for name in ("input", "left", "right"):
        below = getattr(plan, name, None)
        if below is not None:
            yield below
    yield from getattr(plan, "inputs", ())
