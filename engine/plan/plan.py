"""Logical plan of a query: a typed and normalised description of its result, independent of the operators that compute it.

Its parts are immutable and compare by value. Queries, or parts of queries, with the same result have equal plans, and the
operator network builds them once. A part refers to columns of its input by position; names, which are for users, occur
only in `Project` and in a plan's `schema`. Every expression has a type, and all implicit casts are explicit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from engine.data.schema import BOOLEAN, INT64, DataType, Field, Schema, StreamSchema, TableSchema
from engine.plan.aggregations import Aggregation

# --- nodes of expressions -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """Constant; `value` is stored as in a train (decimals scaled, timestamps in µs), or None for NULL."""

    value: bool | int | float | str | None
    type: DataType


@dataclass(frozen=True, slots=True)
class Column:
    """Reference to a column of the input, by the column's position."""

    place: int
    type: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """Scalar function or operator, named as in `engine.expressions.functions`; arguments have the types of its signature."""

    function: str
    arguments: tuple[Expression, ...]
    type: DataType


@dataclass(frozen=True, slots=True)
class Cast:
    """Change of type; a value that does not fit into the type fails its row, or becomes NULL if `try_` is true."""

    argument: Expression
    type: DataType
    try_: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """Value of the first branch with a true condition; `otherwise` if no condition is true."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression
    type: DataType


Expression = Literal | Column | Call | Cast | Case

TRUE = Literal(True, BOOLEAN)


def parts_of(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all expressions inside, at any depth."""
    stack = [expression]
    while stack:
        part = stack.pop()
        yield part
        match part:
            case Cast(argument):
                stack.append(argument)
            case Call(_, arguments):
                stack += arguments
            case Case(branches, otherwise):
                stack += (operand for branch in branches for operand in branch)
                stack.append(otherwise)


def columns_in(expression: Expression) -> set[Column]:
    """Return the columns that an expression uses."""
    return {part for part in parts_of(expression) if isinstance(part, Column)}


def canonical(columns: Iterable[Expression | Field]) -> Schema:
    """Return a schema with neutral names for columns of these types, so that equal plans do not differ by column names."""
    return Schema(tuple(Field(f"c{place}", column.type) for place, column in enumerate(columns)))


# --- descriptions of windows and aggregates -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Window of time [end − range, end) in microseconds, for every end that is a multiple of the slide since the epoch.

    If `at_most` is true, `engine.windows.window_schedule` chooses the ends, which are at most one slide apart.
    """

    range_us: int
    slide_us: int
    at_most: bool = False


@dataclass(frozen=True, slots=True)
class RowWindow:
    """Window of the last `rows` tuples, which ends after every `slide` tuples; the plan `Numbered` counts the tuples."""

    rows: int
    slide: int


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Aggregate over a group's tuples in a window."""

    function: Aggregation
    argument: int | None  # Position of a column of the input; None for count(*)
    type: DataType
    parameter: float = 0.0
    scaled: bool = False  # True for counts and sums divided by the kept fraction
    error: bool = False  # True for the standard error of the scaled count or sum


# --- nodes of plans -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scan:
    """Plan that reads the tuples of a stream."""

    stream: StreamSchema

    @property
    def schema(self) -> Schema:
        return self.stream.schema


@dataclass(frozen=True)
class Apart:
    """Plan that passes on its input under the name of one query, so that no other query shares the operators that read this plan."""

    input: Plan
    owner: str

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Filter:
    """Plan that keeps the tuples for which the condition is true."""

    input: Plan
    condition: Expression

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Numbered:
    """Plan that adds a column with the number of each tuple, in the order of arrival.

    All plans between this plan and a window of rows use the new column as event time. A filter before the window removes
    tuples from the window, but does not change which numbers the window spans.
    """

    input: Plan

    @property
    def schema(self) -> Schema:
        return canonical([*self.input.schema.fields, Field("number", INT64)])


@dataclass(frozen=True)
class Project:
    """Plan that computes new columns from the columns of its input."""

    input: Plan
    expressions: tuple[Expression, ...]
    schema: Schema
    # Position of the output column with the event time; None if the output has no event time
    time: int | None = None


@dataclass(frozen=True)
class WindowAggregate:
    """Plan that emits one row per window and group: window_start, window_end (time windows only), keys, aggregates."""

    input: Plan
    window: TimeWindow | RowWindow
    keys: tuple[int, ...]
    aggregates: tuple[Aggregate, ...]
    schema: Schema
    # Position of the column that orders tuples for FIRST and LAST in a window of rows; None for the order of arrival
    clock: int | None = None


@dataclass(frozen=True)
class IntervalJoin:
    """Join of pairs with equal keys, for which right.time − left.time is from low to high and the residual condition is true.

    The output has the columns of the left input, then the columns of the right input.
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
    """Join of pairs with equal keys that are in the windows of both inputs at the same time (as in the language CQL)."""

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
    """Join of each tuple with the rows of a static table that have equal keys; `outer` keeps tuples without a match."""

    input: Plan
    table: TableSchema
    keys: tuple[int, ...]
    table_keys: tuple[int, ...]
    residual: Expression
    outer: bool
    schema: Schema


@dataclass(frozen=True)
class LastJoin:
    """Join of each left tuple with the last right row that has the same key; `outer` keeps tuples without a match."""

    left: Plan
    right: Plan
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    residual: Expression
    outer: bool
    schema: Schema


@dataclass(frozen=True)
class Union:
    """Plan that passes on the tuples of all inputs; their columns have equal types."""

    inputs: tuple[Plan, ...]
    schema: Schema


@dataclass(frozen=True)
class QueryOutput:
    """Plan that reads the output of another query of the class as a stream."""

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
    """Position of the column with the event time, and the column's unit in microseconds (1000 for int64 milliseconds)."""

    place: int
    unit_us: int


def event_time(plan: Plan) -> EventTime | None:
    """Return the event time of a plan's output, which windows and joins above the plan use; None if it has no event time."""
    return next(iter(event_times(plan)), None)


def event_times(plan: Plan) -> tuple[EventTime, ...]:
    """Return all event-time columns of a plan's output, the preferred column first.

    The output of a join has the event times of both sides. The event time of a window's result is window_end, its
    second column.
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


def time_of(plan: Plan) -> EventTime:
    """Return the event time of a plan; the planner has checked that the plan has one."""
    time = event_time(plan)
    assert time is not None, f"{type(plan).__name__} has no event time"
    return time


def _column(plan: Plan, time: EventTime) -> Column:
    return Column(time.place, plan.schema.fields[time.place].type)


@dataclass(frozen=True)
class Query:
    """Planned query: its name, its text and its plan; `scaled` is True if the query uses SCALED or SCALED_ERROR."""

    name: str
    sql: str
    plan: Plan
    scaled: bool = field(default=False, compare=False)


def inputs(plan: Plan) -> Iterator[Plan]:
    """Yield the plans that a plan reads directly: none for a stream, two for a join."""
    for name in ("input", "left", "right"):
        below = getattr(plan, name, None)
        if below is not None:
            yield below
    yield from getattr(plan, "inputs", ())


def walk(plan: Plan) -> Iterator[Plan]:
    """Yield a plan and all its parts; each part comes before its inputs, and the left input of a join before the right input."""
    stack = [plan]
    while stack:
        node = stack.pop()
        yield node
        stack += [*inputs(node)][::-1]
