"""Answers one-time queries from the panes that the windows of running queries keep in memory.

A one-time query is answered once, from rows that the class has already taken. It reads one stream, and has one window of time.
`answered_once` searches panes with a filter, a grouping and measures that fit the query. It combines these panes, and
computes HAVING and SELECT from the result. Nothing in the class changes: no row is taken, and no query is added.

The answer covers [start, end). The end is the end of the pane that contains the watermark, and the start is one RANGE before.
If the panes before a later time have been dropped, or never held all rows, the answer starts at that time and says so.

Numbered properties (`tests/property/test_one_time.py`):
1. The answer is the same as from the rows with an event time in [start, end) that the class has taken, and that were not late.
2. A query with the filter, grouping, aggregates and RANGE of a running window of time is not refused, if event time
   has reached a complete pane.
3. The work is bounded by PANES_MAX, WORK_MAX and GROUPS_MAX; a query that needs more work is refused.

Panes of a finer grouping are combined into the groups of the query. A condition on group keys selects groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from configs.errors import InvalidInput
from engine.data.keys import Codes, KeyIndex
from engine.data.schema import StreamSchema
from engine.data.train import Train, Values, empty_train, same_arrival, train_to_arrow
from engine.expressions.compiler import Compiler, RowFailures, compile_condition
from engine.network.network import TWIN, ClassNetwork
from engine.network.node import QueuedOperator
from engine.operators.select import SelectOperator
from engine.operators.source import SourceOperator
from engine.operators.windows import rows_of
from engine.plan.partition_check import key_places
from engine.plan.plan import (
    Aggregate,
    Apart,
    Call,
    Column,
    Expression,
    Filter,
    Plan,
    Project,
    Query,
    QueryOutput,
    Scan,
    TimeWindow,
    WindowAggregate,
    columns_in,
    time_of,
)
from engine.sql.terms.normal_form import all_of, mapped
from engine.sql.windows import told
from engine.windows.coarser_groups import can_combine, combined_groups
from engine.windows.pane_aggregates import answered, measures_of
from engine.windows.panes import Measure, Pane, PaneStore, merged_panes
from engine.windows.window_schedule import KeptSpan, WindowSchedule

# Maximum number of panes that an answer may combine, which takes about 30 ms.
PANES_MAX = 5_000
# Maximum work of combining panes, which takes up to about 50 ms: the bytes of arrays, and the work of values, sketches and groups.
WORK_MAX = 64_000_000
# Work for each listed value, for each byte of a sketch, and for each group of the panes, which must be decoded.
VALUE_WORK, SKETCH_WORK, GROUP_WORK = 100, 5, 500
# Maximum number of groups in an answer.
GROUPS_MAX = 10_000
# Maximum number of pane sets that an error lists.
LISTED_MAX = 3

ROWS: Measure = ("rows", None)


@dataclass(frozen=True, slots=True)
class CoveredTime:
    """Event time from `start_us` to before `end_us`, in microseconds since 1970, and the watermark of the stream."""

    start_us: int
    end_us: int
    watermark_us: int


@dataclass(frozen=True, slots=True)
class OneTimeAnswer:
    """Answer of one unit to a one-time query, with the event time that the answer covers."""

    rows: pa.RecordBatch
    columns: tuple[tuple[str, str], ...]
    """Name and type of each column."""
    stream: str
    range_us: int
    """RANGE of the query."""
    covers: CoveredTime | None = None
    """Event time that the answer covers; None if the class has not read a row of the stream yet."""
    tuples: int = 0
    """Number of tuples from which the answer was computed."""
    kept: float = 1.0
    """Fraction of the tuples of the covered time that were neither shed nor late."""

    @property
    def is_short(self) -> bool:
        """True if the answer covers less than the RANGE of the query."""
        return self.covers is not None and self.covers.end_us - self.covers.start_us < self.range_us


@dataclass(frozen=True, slots=True)
class StreamRows:
    """Rows of one stream that meet some conditions, with columns that are computed from the columns of the stream."""

    stream: StreamSchema
    conditions: frozenset[Expression]
    columns: tuple[Expression, ...]
    fallible: frozenset[Expression] = frozenset()
    """Columns whose computation may fail; a row in which one of these computations fails is left out."""


@dataclass(frozen=True)
class OneTimeQuery:
    """Parts of a planned one-time query."""

    rows: StreamRows
    window: WindowAggregate
    above: tuple[Filter | Project, ...]
    """Parts of the plan above the window, from the window upwards."""
    range_us: int

    @property
    def unit_us(self) -> int:
        """Unit of the stream's event time, in microseconds."""
        return time_of(self.window.input).unit_us

    @property
    def range(self) -> int:
        """RANGE in units of the stream's event time."""
        return self.range_us // self.unit_us

    @property
    def keys(self) -> tuple[Expression, ...]:
        return tuple(self.rows.columns[place] for place in self.window.keys)


@dataclass(frozen=True)
class PaneSet:
    """Panes of one store, with the rows that the panes aggregate and the keys by which these rows are grouped."""

    rows: StreamRows
    keys: tuple[Expression, ...]
    store: PaneStore
    schedule: WindowSchedule
    node: QueuedOperator

    def __str__(self) -> str:
        """Return a description for users, such as `sensors keeps AVG(temp) by sensor for 10 SECONDS`."""
        windows = [below.key for below in self.node.downstream if isinstance(below.key, WindowAggregate)]
        aggregates = dict.fromkeys(aggregate for window in windows for aggregate in window.aggregates)
        ranges = [window.window.range_us for window in windows if isinstance(window.window, TimeWindow)]
        texts = [self._text(aggregate) for aggregate in aggregates] or ["the groups"]
        by = f" by {', '.join(map(self._name, self.keys))}" if self.keys else ""
        some = " of the rows that meet its condition" if self.rows.conditions else ""
        users = sorted({user.removeprefix(TWIN) for user in self.node.users})
        return f"{', '.join(users)} keeps {', '.join(texts)}{by}{some} for {told(max(ranges, default=0))}"

    def _text(self, aggregate: Aggregate) -> str:
        if aggregate.argument is None:
            return "COUNT(*)"
        name, _, distinct = aggregate.function.value.upper().partition(" ")
        argument = self._name(self.rows.columns[aggregate.argument])
        return f"{name}({distinct} {argument})".replace("( ", "(")

    def _name(self, expression: Expression) -> str:
        if isinstance(expression, Column):
            return self.rows.stream.schema.fields[expression.place].name
        return "an expression"


@dataclass(frozen=True)
class FittingPanes:
    """Panes that can answer a one-time query, and the query's aggregates over the columns of these panes."""

    panes: PaneSet
    aggregates: tuple[Aggregate, ...]
    measures: frozenset[Measure]
    span: KeptSpan
    key_condition: Expression | None
    """Condition on the keys of the panes; None if all groups count."""

    @property
    def store(self) -> PaneStore:
        return self.panes.store

    def covered(self, watermark: int, range_: int) -> tuple[int, int]:
        """Return the start and end of the event times that an answer covers; both are bounds of panes."""
        pane = self.store.pane
        end = (watermark // pane + 1) * pane
        return max(end - range_, -(-self.span.since // pane) * pane), end


def answered_once(query: Query, network: ClassNetwork, partition_key: str | None = None) -> OneTimeAnswer:
    """Answer a one-time query from the panes of the network; raise InvalidInput if no panes can answer the query.

    Call this only at a settle point. `partition_key` is the column by which the class is split into shards, or None.
    """
    question = one_time_query(query, network.queries)
    if partition_key is not None:
        check_partition(query, network.queries, partition_key)
    kept = [panes for panes in pane_sets(network) if panes.rows.stream == question.rows.stream]
    fits = fitting_panes(question, kept)
    source = network.source(question.rows.stream.name)
    assert source is not None
    assert isinstance(source.operator, SourceOperator)
    watermark = source.operator.watermark
    if watermark is None:
        return answer_of(question, query, empty_train(query.plan.schema))
    unit_us, fit = question.unit_us, earliest(fits, watermark, question.range)
    start, end = fit.covered(watermark, question.range)
    if start >= end:
        title = "the panes that can answer this query have only begun, so no pane is complete yet"
        raise InvalidInput(title, hint="ask again when event time has passed the end of the first pane")
    panes = combinable_panes(fit, start, end)
    out, tuples = window_rows(question, fit, panes, start, end)
    return replace(
        answer_of(question, query, selected(out, question.above, query)),
        covers=CoveredTime(start * unit_us, end * unit_us, watermark * unit_us),
        tuples=tuples,
        kept=out.kept,
    )


def answer_of(question: OneTimeQuery, query: Query, rows: Train) -> OneTimeAnswer:
    schema = query.plan.schema
    columns = tuple((field.name, str(field.type)) for field in schema.fields)
    return OneTimeAnswer(train_to_arrow(rows, schema), columns, question.rows.stream.name, question.range_us)


# --- reading the query and the panes --------------------------------------------------------------------


def one_time_query(query: Query, queries: Mapping[str, Query]) -> OneTimeQuery:
    """Return the parts of a one-time query; raise InvalidInput if panes cannot answer such a query."""
    above: list[Filter | Project] = []
    plan = query.plan
    while isinstance(plan, Filter | Project):
        above.append(plan)
        plan = plan.input
    if not isinstance(plan, WindowAggregate):
        hint = "SELECT AVG(x) FROM stream [RANGE 10 MINUTES]; use a continuous query for single rows, joins and unions"
        raise InvalidInput("a one-time query must aggregate the rows of one window", hint=hint)
    if not isinstance(plan.window, TimeWindow):
        hint = "[RANGE 10 MINUTES]"
        raise InvalidInput("a one-time query needs a window of time, not a window of rows", hint=hint)
    rows = stream_rows(plan.input, queries)
    if rows is None:
        hint = "read one stream, or a query that only selects from one stream"
        raise InvalidInput(
            "a one-time query cannot read a join, a union, or the answers of windows", hint=hint
        )
    return OneTimeQuery(rows, plan, tuple(reversed(above)), plan.window.range_us)


def stream_rows(plan: Plan, queries: Mapping[str, Query]) -> StreamRows | None:
    """Return the rows that a plan reads; None if the plan does more than select rows of one stream and compute columns."""
    match plan:
        case Scan(stream):
            columns = [Column(place, field.type) for place, field in enumerate(stream.schema.fields)]
            return StreamRows(stream, frozenset(), tuple(columns))
        case QueryOutput(query):
            plans = {name.lower(): running.plan for name, running in queries.items()}
            return stream_rows(plans[query.lower()], queries)
        case Apart(below):
            return stream_rows(below, queries)
        case Filter(below, condition):
            rows = stream_rows(below, queries)
            if rows is None:
                return None
            meant = mapped(condition, dict(enumerate(rows.columns)))
            return replace(rows, conditions=rows.conditions | set(operands(meant)))
        case Project(below, expressions):
            rows = stream_rows(below, queries)
            if rows is None:
                return None
            columns_below = dict(enumerate(rows.columns))
            computed = tuple(mapped(expression, columns_below) for expression in expressions)
            return replace(rows, columns=computed, fallible=rows.fallible | set(filter(may_fail, computed)))
    return None


def operands(condition: Expression) -> Sequence[Expression]:
    """Return the conditions that AND connects."""
    if isinstance(condition, Call) and condition.function == "and":
        return condition.arguments
    return (condition,)


@lru_cache(4096)
def may_fail(expression: Expression) -> bool:
    return not isinstance(expression, Column) and Compiler([expression]).compile(expression).fails


def pane_sets(network: ClassNetwork) -> Iterator[PaneSet]:
    """Yield the panes of the network that aggregate rows of one stream."""
    for (below, keys), stores in network.stores.items():
        rows = stream_rows(below, network.queries)
        if rows is not None:
            for store, schedule, node in stores:
                yield PaneSet(rows, tuple(rows.columns[place] for place in keys), store, schedule, node)


def check_partition(query: Query, queries: Mapping[str, Query], key: str) -> None:
    """Raise InvalidInput if the answers of several shards would have to be combined."""
    outputs: dict[str, frozenset[int]] = {}
    for name, running in queries.items():
        outputs[name.lower()] = key_places(running, key, outputs)
    try:
        key_places(query, key, outputs)
    except InvalidInput as problem:
        raise replace(problem, field="") from None


# --- choosing the panes -----------------------------------------------------------------------------------


def fitting_panes(question: OneTimeQuery, kept: Sequence[PaneSet]) -> list[FittingPanes]:
    """Return the panes that can answer the query; raise InvalidInput if there are none."""
    stream, length = question.rows.stream.name, told(question.range_us)
    remedy = f"add a continuous query with this SELECT and a window of at least {length}"
    if not kept:
        raise InvalidInput(f"no running query aggregates stream {stream} in windows of time", hint=remedy)
    fits = [fit for panes in kept if (fit := fitting(question, panes)) is not None]
    if not fits:
        listed = "; ".join(map(str, kept[:LISTED_MAX])) + ("; …" if len(kept) > LISTED_MAX else "")
        title = (
            "no running query keeps panes with the condition, the grouping and the aggregates of this query"
        )
        raise InvalidInput(title, hint=f"{listed}. To get this answer, {remedy}")
    longest = max(fit.span.length for fit in fits)
    if longest < question.range:
        most = told(longest * question.unit_us)
        title = f"the running queries keep only {most} of stream {stream} for such a query"
        raise InvalidInput(title, value=length, hint=f"ask for [RANGE {most}], or {remedy}")
    long = [fit for fit in fits if fit.span.length >= question.range]
    even = [fit for fit in long if question.range % fit.store.pane == 0]
    if not even:
        raise uneven(question.range, question.unit_us, long)
    return even


def earliest(fits: Iterable[FittingPanes], watermark: int, range_: int) -> FittingPanes:
    """Return the panes that cover most of the RANGE before the watermark; of several such panes, those with the least work."""
    return min(
        fits, key=lambda fit: (fit.covered(watermark, range_)[0], -fit.store.pane, len(fit.panes.keys))
    )


def uneven(range_: int, unit_us: int, fits: Iterable[FittingPanes]) -> InvalidInput:
    """Return the error for a RANGE that is not a whole number of panes; its hint has the nearest possible lengths."""
    pane = min(fit.store.pane for fit in fits)
    lengths = [length for length in (range_ // pane * pane, (range_ // pane + 1) * pane) if length]
    hint = " or ".join(f"[RANGE {told(length * unit_us)}]" for length in lengths)
    title = f"RANGE is not a multiple of {told(pane * unit_us)}, the length of the panes that are kept"
    return InvalidInput(title, value=told(range_ * unit_us), hint=f"ask for {hint}")


def fitting(question: OneTimeQuery, panes: PaneSet) -> FittingPanes | None:
    """Return how the panes answer the query; None if condition, grouping or aggregates do not fit."""
    rows, held = question.rows, panes.rows
    more = rows.conditions - held.conditions
    if held.conditions - rows.conditions or held.fallible != rows.fallible:
        return None
    if not set(question.keys) <= set(panes.keys):
        return None
    condition = None
    if more:
        places = {
            key.place: Column(place, key.type)
            for place, key in enumerate(panes.keys)
            if isinstance(key, Column)
        }
        condition = all_of(more)
        if any(column.place not in places for column in columns_in(condition)):
            return None
        condition = mapped(condition, places)
    aggregates = []
    for aggregate in question.window.aggregates:
        argument = None if aggregate.argument is None else rows.columns[aggregate.argument]
        if argument is not None and argument not in held.columns:
            return None
        place = None if argument is None else held.columns.index(argument)
        aggregates.append(replace(aggregate, argument=place))
    measures = frozenset({ROWS}.union(*map(measures_of, aggregates)))
    if len(question.keys) < len(panes.keys) and not all(map(can_combine, measures)):
        return None
    span = panes.schedule.kept(measures)
    return None if span is None else FittingPanes(panes, tuple(aggregates), measures, span, condition)


def combinable_panes(fit: FittingPanes, start: int, end: int) -> list[Pane]:
    """Return the panes from `start` to `end`; raise InvalidInput if they are too many or too large to be combined at once."""
    hint, first, last = (
        "ask for a shorter RANGE, or add a continuous query",
        start // fit.store.pane,
        end // fit.store.pane,
    )
    if last - first > PANES_MAX:
        title = f"a one-time query can combine at most {PANES_MAX:,} panes"
        raise InvalidInput(title, value=last - first, hint=hint)
    panes = fit.store.youngest(first, last)
    groups = len(fit.store.index) if fit.store.has_keys else 0
    if (
        GROUP_WORK * groups + sum(work_of(pane, measure) for pane in panes for measure in fit.measures)
        > WORK_MAX
    ):
        raise InvalidInput("the panes of this query are larger than a one-time query can combine", hint=hint)
    return panes


def work_of(pane: Pane, measure: Measure) -> int:
    state, sketches = pane.measures.get(measure), pane.sketches.get(measure)
    listed = sum(len(codes) for codes, _, _ in pane.values.get(measure, ()))
    arrays = 0 if state is None else state.nbytes
    return arrays + VALUE_WORK * listed + (0 if sketches is None else SKETCH_WORK * sketches.bytes)


# --- computing the answer ---------------------------------------------------------------------------------


def window_rows(
    question: OneTimeQuery, fit: FittingPanes, panes: Sequence[Pane], start: int, end: int
) -> tuple[Train, int]:
    """Return the output of the query's window with one row per group, and the number of tuples in these groups."""
    store, schema = fit.store, question.window.schema
    whole = merged_panes(panes, fit.measures)
    rows = rows_of(whole, len(store.index))
    groups: Codes = np.flatnonzero(rows)
    keys = store.index.decoded(groups) if store.has_keys else ()
    if fit.key_condition is not None:
        met = compile_condition(fit.key_condition)(Train(keys, same_arrival(0.0, len(groups))), RowFailures())
        groups, keys = groups[met], tuple(key.take(np.flatnonzero(met)) for key in keys)
    tuples = int(rows[groups].sum())
    keys = tuple(keys[fit.panes.keys.index(key)] for key in question.keys)
    if len(question.keys) < len(fit.panes.keys):
        codes, keys = numbered_groups(keys, len(groups))
        whole = combined_groups(whole, groups, codes)
        rows = rows_of(whole, int(codes.max(initial=-1)) + 1)
        groups = np.flatnonzero(rows)
    if not question.keys:
        groups, rows = np.zeros(1, np.intp), np.array([tuples])
    if len(groups) > GROUPS_MAX:
        hint = "add a condition, or group by fewer columns"
        title = f"a one-time query can have at most {GROUPS_MAX:,} groups"
        raise InvalidInput(title, value=len(groups), hint=hint)
    missing = store.missed(start, end)
    offered = whole.offered + missing.rows
    kept = whole.tuples / offered if offered else 1.0
    if not len(groups):
        return replace(empty_train(schema), kept=kept), 0
    each = 1 + missing.dropped / whole.offered if whole.offered else 1.0
    bounds = [
        Values(field.type, np.full(len(groups), bound, np.int64))
        for field, bound in zip(schema.fields, (start, end), strict=False)
    ]
    results = [answered(aggregate, whole, groups, rows, each) for aggregate in fit.aggregates]
    return Train((*bounds, *keys, *results), same_arrival(0.0, len(groups)), kept), tuples


def numbered_groups(keys: Sequence[Values], groups: int) -> tuple[Codes, tuple[Values, ...]]:
    """Return the number of the new group of each old group, and the keys of each new group."""
    if not keys:
        return np.zeros(groups, np.intp), ()
    codes = KeyIndex([key.type for key in keys]).codes(keys)
    _, first, numbers = np.unique(codes, return_index=True, return_inverse=True)
    return numbers.ravel(), tuple(key.take(first) for key in keys)


def selected(window: Train, above: Iterable[Filter | Project], query: Query) -> Train:
    """Return the rows of the query's answer: HAVING and SELECT, applied to the output of the window."""
    rows = window
    for part in above:
        if not len(rows):
            break
        condition, expressions = (
            (part.condition, None) if isinstance(part, Filter) else (None, part.expressions)
        )
        operator = SelectOperator(condition, expressions)
        rows = operator.process(rows) or empty_train(part.schema)
        if operator.failed:
            raise InvalidInput(f"an expression of SELECT or HAVING failed: {next(iter(operator.failed))}")
    return rows if len(rows) else empty_train(query.plan.schema)
