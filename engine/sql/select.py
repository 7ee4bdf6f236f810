"""Turns the tree of a query into its plan: SELECT, GROUP BY, HAVING, DISTINCT, UNION ALL, subqueries.

`joins.py` plans FROM and WHERE. `group_by.py` plans keys and aggregates as a WindowAggregate, with a projection below if
keys or arguments are computed. HAVING becomes a filter above the WindowAggregate. SELECT becomes a projection on top of
the plan, unless this projection would change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from sqlglot import exp

from configs.errors import nearest
from engine.data.schema import StreamSchema, TableSchema
from engine.plan.aggregations import Aggregation
from engine.plan.plan import (
    Column,
    EventTime,
    Expression,
    Numbered,
    Plan,
    QueryOutput,
    RowWindow,
    Scan,
    TimeWindow,
    event_time,
    event_times,
    walk,
)
from engine.sql.catalog import SqlCatalog
from engine.sql.dialect import FunctionWindow, LastRow, Source
from engine.sql.errors import SPLIT_IT, Text
from engine.sql.group_by import Grouped, WantedAggregate, is_aggregate, is_bound, windowed
from engine.sql.joins import Item, Joined, Joiner, filtered
from engine.sql.names import Named, Relation, columns_of, time_among
from engine.sql.output import (
    SelectItem,
    default_name,
    named_columns,
    projected,
    with_bounds,
)
from engine.sql.terms.expressions import IMPURE, Expressions, not_supported
from engine.sql.terms.foreign_constructs import is_known, unknown_function
from engine.sql.terms.normal_form import mapped, size
from engine.sql.unions import branches_of, united
from engine.sql.windows import check_unit, window_of

COLUMNS_MAX = 1_000
# Maximum number of parts of a plan: a query in WITH may be used twice, so plans can double with each level.
PARTS_MAX = 200
# Maximum size of a subquery's expressions that are copied to each use; larger expressions are computed once.
INLINE_MAX = 100

CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "distinct", "with_"}
ORDERED = (Aggregation.FIRST, Aggregation.LAST)
NO_SUCH_STREAM = "there is no such stream"
NO_WINDOW = "an aggregate over a stream needs a window, because a stream never ends"


@dataclass(frozen=True)
class Selects:
    """Planner for the queries of one text over a catalog."""

    text: Text
    catalog: SqlCatalog
    known: Mapping[str, Relation]  # Queries of WITH, by name in lower case

    def relation(self, node: exp.Expr) -> Relation:
        """Return the relation that a query produces."""
        with_ = node.args.get("with_")
        if with_ is not None:
            return self._with(with_)._query(node)
        return self._query(node)

    def _with(self, with_: exp.Expr) -> Selects:
        if with_.args.get("recursive"):
            raise self.text.error(with_, "WITH RECURSIVE is not supported")
        planner = self
        for expression in with_.expressions:
            relation = planner.relation(expression.this)
            planner = replace(planner, known={**planner.known, expression.alias.lower(): relation})
        return planner

    def _query(self, node: exp.Expr) -> Relation:
        match node:
            case exp.Select():
                return self._limited(node, self._select(node))
            case exp.Union():
                branches = list(branches_of(self.text, node))
                relations = [self.relation(branch) for branch in branches]
                return self._limited(node, united(self.text, branches, relations))
            case exp.Subquery():
                return self.relation(node.this)
            case exp.Except() | exp.Intersect():
                name = node.key.upper()
                what = f"{name} would keep both streams for ever"
                raise self.text.error(
                    node.expression, what, hint="use UNION ALL, or a join with a bound on time"
                )
        raise self.text.error(
            node, "a query must begin with SELECT", self.text.of(node) or None, "SELECT … FROM stream …"
        )

    def _limited(self, node: exp.Expr, relation: Relation) -> Relation:
        parts = sum(1 for _ in islice(walk(relation.plan), PARTS_MAX + 1))
        if len(relation.columns) > COLUMNS_MAX or parts > PARTS_MAX:
            raise self.text.error(node, "the query has too many parts", hint=SPLIT_IT)
        return relation

    def _select(self, node: exp.Select) -> Relation:
        for clause, value in node.args.items():
            if value and clause not in CLAUSES:
                raise self.text.error(node, f"{clause.strip('_').upper()} is not supported")
        joined = self._from(node)
        items = list(self._items(node, joined))
        having, group = node.args.get("having"), node.args.get("group")
        self._check_select(node, items)
        aggregates = [aggregate for item in items for aggregate in find_aggregates(item.node)]
        aggregates += find_aggregates(having) if having else []
        if aggregates or group or having or node.args.get("distinct"):
            return self._aggregated(node, joined, items, aggregates)
        if joined.window is not None:
            self._check_calls(items)
            bound = next((part for item in items for part in item.node.walk() if is_bound(part)), None)
            what = "the query has a window, but no aggregate"
            raise self.text.error(
                bound or source_of(node), what, hint="remove the window, or add an aggregate such as COUNT(*)"
            )
        read = Expressions(joined.scope, joined.offsets, "SELECT")
        values = [item.star or read.value(item.node) for item in items]
        columns = named_columns(self.text, items, values)
        return self._inlined(joined.plan, columns, time_among(joined.plan, columns))

    def _check_select(self, node: exp.Select, items: Sequence[SelectItem]) -> None:
        for item in items:
            misplaced = item.node.find(exp.Window, exp.Subquery)
            if misplaced is not None:
                raise not_supported(self.text, misplaced, "SELECT")
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise self.text.error(
                distinct, "DISTINCT ON is not supported", hint="use FIRST(x) or LAST(x), with GROUP BY"
            )

    def _check_calls(self, items: Sequence[SelectItem]) -> None:
        """Raise an error for an unknown function in a query with a window, where the user probably meant an aggregate."""
        for item in items:
            for node in item.node.find_all(exp.Anonymous, exp.WithinGroup):
                if isinstance(node, exp.WithinGroup):
                    raise not_supported(self.text, node, "SELECT")
                if not is_known(name := str(node.name).lower()) and name not in IMPURE:
                    raise self.text.error(node, *unknown_function(name, aggregates=True))

    def _inlined(self, plan: Plan, columns: tuple[Named, ...], time: EventTime | None) -> Relation:
        """Return a relation with these expressions as columns; if the expressions are large, a projection computes them."""
        relation, most = Relation(plan, columns, time=time), INLINE_MAX + len(columns)
        inlined = sum(size(column.expression, most) for column in columns) <= most
        return relation if inlined else computed(relation)

    def _items(self, node: exp.Select, joined: Joined) -> Iterator[SelectItem]:
        for place, expression in enumerate(node.expressions):
            star = expression.this if isinstance(expression, exp.Column) else expression
            if isinstance(star, exp.Star):
                owner = joined.scope.owner(expression) if isinstance(expression, exp.Column) else None
                for column in joined.scope.all(owner):
                    value = Expressions(joined.scope, joined.offsets, "SELECT").visible(expression, column)
                    yield SelectItem(column.column.name, False, expression, value)
            elif isinstance(expression, exp.Alias):
                yield SelectItem(expression.alias, True, expression.this)
            else:
                yield SelectItem(default_name(expression, place), False, expression)
        if not node.expressions:
            raise self.text.error(node, "SELECT lists no columns", hint="SELECT *")

    def _from(self, node: exp.Select) -> Joined:
        from_ = node.args.get("from_")
        if from_ is None:
            raise self.text.error(
                node,
                "a continuous query must read a stream, but this query has no FROM",
                hint="SELECT … FROM stream",
            )
        items = [Item(self._source(from_.this))]
        items += [Item(self._source(join.this), join) for join in node.args.get("joins") or ()]
        where = node.args.get("where")
        return Joiner(self.text, items, where.this if where else None).joined()

    def _source(self, node: exp.Expr) -> Relation:
        if not isinstance(node, Source):
            raise self.text.error(
                node, "FROM supports only streams, tables and subqueries", self.text.of(node)
            )
        alias, this = node.args.get("alias"), node.this
        if isinstance(this, exp.Identifier):
            relation = self._named(this)
            name = alias.name if alias else this.name
        else:
            relation = self.relation(this)
            name = alias.name if alias else ""
        relation = replace(relation, alias=name, node=node)
        window = node.args.get("window")
        if window is None:
            return relation
        if isinstance(relation.source, TableSchema):
            raise self.text.error(window, "a table cannot have a window", name, "remove the window")
        return (
            self._last(relation, window) if isinstance(window, LastRow) else self._windowed(relation, window)
        )

    def _named(self, name: exp.Identifier) -> Relation:
        named: Relation | StreamSchema | TableSchema | QueryOutput | None = self.known.get(name.name.lower())
        named = named or self.catalog.find(name.name)
        match named:
            case Relation():
                return named
            case StreamSchema():
                return read_from(Scan(named))
            case QueryOutput():
                return read_from(named)
            case TableSchema():
                return Relation(named, columns_of(named.schema))
        names = [*self.catalog.names(), *self.known]
        raise self.text.error(name, NO_SUCH_STREAM, name.name, nearest(name.name, names))

    def _last(self, relation: Relation, node: LastRow) -> Relation:
        """Return the relation of a stream with [LAST BY key], which the other items of FROM use as a lookup table."""
        keys = {
            column.name.lower(): column.expression.place
            for column in relation.columns
            if isinstance(column.expression, Column)
        }
        for name in node.expressions:
            if name.name.lower() not in keys:
                raise self.text.error(name, "there is no such column", name.name, nearest(name.name, keys))
        return replace(
            relation,
            last=tuple(dict.fromkeys(keys[expression.name.lower()] for expression in node.expressions)),
        )

    def _windowed(self, relation: Relation, node: exp.Expr) -> Relation:
        window = window_of(self.text, node)
        time = relation.time
        if isinstance(node, FunctionWindow):
            time = self._chosen_time(relation, node)
        if time is None and not isinstance(window, RowWindow):
            hint = "declare a WATERMARK on the stream and select its time column in subqueries, or use [ROWS 100]"
            raise self.text.error(
                node,
                "a window with RANGE needs event time, but this stream or subquery has none",
                relation.alias or None,
                hint,
            )
        if isinstance(window, TimeWindow) and time is not None:
            check_unit(self.text, node, window, time.unit_us)
        if isinstance(window, RowWindow):
            relation = numbered(relation)
        return replace(relation, window=window, time=time)

    def _chosen_time(self, relation: Relation, node: FunctionWindow) -> EventTime:
        """Return the event time in the column that TUMBLE or HOP names; raise an error for other columns."""
        column = node.args["time"]
        times = {time.place: time for time in event_times(relation.plan)}
        candidates = {
            output.name.lower(): times[output.expression.place]
            for output in relation.columns
            if isinstance(output.expression, Column) and output.expression.place in times
        }
        if isinstance(column, exp.Column) and column.name.lower() in candidates:
            return candidates[column.name.lower()]
        hint = (
            f"write {min(candidates)}, the event time"
            if candidates
            else "declare a WATERMARK on the stream, which has no event time"
        )
        raise self.text.error(
            column, "a window must use the event time of its stream", self.text.of(column), hint
        )

    def _aggregated(
        self, node: exp.Select, joined: Joined, items: list[SelectItem], aggregates: Sequence[exp.Expr]
    ) -> Relation:
        distinct = node.args.get("distinct")
        self._check_window(node, joined, aggregates)
        window, plan = joined.window, joined.plan
        assert window is not None
        below = Expressions(joined.scope, joined.offsets, "SELECT")
        timed = joined.time is not None and not isinstance(window, RowWindow)
        bound = plan.schema.fields[joined.time.place].type if joined.time and timed else None
        if distinct:
            if aggregates or node.args.get("group"):
                hint = "leave DISTINCT out: groups are distinct already"
                raise self.text.error(
                    node, "DISTINCT cannot be combined with aggregates or GROUP BY", hint=hint
                )
            keys = [
                item.star or below.value(item.node) for item in items if not names_bound(item.node, joined)
            ]
        else:
            keys = self._keys(node, joined, items)
        keys = list(dict.fromkeys(keys))
        having = node.args.get("having")
        roots = [item.node for item in items] + ([having] if having else [])
        read = Grouped(below, keys, bound, roots, "SELECT")
        values = [self._result(read, item) for item in items]
        condition = self._having(read, having, items) if having else None
        time = joined.time if timed else event_time(plan)
        clock = None if timed else clock_of(joined, read.wanted)
        aggregate, places = windowed(
            plan, window, time=time, keys=keys, wanted=list(read.wanted), clock=clock
        )
        columns = named_columns(self.text, items, [mapped(value, places) for value in values])
        if bound is not None:
            columns = with_bounds(aggregate, columns)
        above = aggregate if condition is None else filtered(aggregate, [mapped(condition, places)])
        return self._inlined(above, columns, time_among(above, columns))

    def _check_window(self, node: exp.Select, joined: Joined, aggregates: Sequence[exp.Expr]) -> None:
        if joined.window is not None:
            return
        distinct, name = node.args.get("distinct"), source_of(node)
        source = (
            joined.scope.relations[0].alias if isinstance(name.this, exp.Identifier) else "(SELECT …) AS x"
        )
        hint = f"FROM {source} [RANGE 10 SECONDS]"
        if len(joined.scope.relations) > 1:
            hint = (
                "give the joined result a window: FROM (SELECT … FROM a JOIN b ON …) AS x [RANGE 10 SECONDS]"
            )
        if distinct:
            what = "DISTINCT over a stream without a window would keep every row for ever"
            raise self.text.error(node, what, hint=hint)
        if not aggregates:
            group = node.args.get("group") or node.args["having"]
            what = (
                "HAVING filters aggregates, but the query has no window and no aggregates"
                if node.args.get("having")
                else NO_WINDOW
            )
            raise self.text.error(group, what, hint=hint)
        inside = aggregates[0].find(exp.Distinct)
        what = "COUNT(DISTINCT …) over a stream without a window would keep every value for ever"
        raise self.text.error(aggregates[0], what if inside else NO_WINDOW, hint=hint)

    def _keys(self, node: exp.Select, joined: Joined, items: list[SelectItem]) -> list[Expression]:
        group = node.args.get("group")
        if group is None:
            return []
        for part, value in group.args.items():
            if value and part not in ("expressions", "all"):
                raise self.text.error(
                    group, f"GROUP BY {part.upper()} is not supported", hint="list the columns"
                )
        read = Expressions(joined.scope, joined.offsets, "GROUP BY")
        if group.args.get("all"):
            return [
                item.star or read.value(item.node)
                for item in items
                if not find_aggregates(item.node) and not names_bound(item.node, joined)
            ]
        keys = [self._key(read, expression, joined, items) for expression in group.expressions]
        return [key for key in keys if key is not None]

    def _key(
        self, read: Expressions, node: exp.Expr, joined: Joined, items: list[SelectItem]
    ) -> Expression | None:
        """Return a key of GROUP BY: a column, an expression, or the number or alias of an item of SELECT."""
        item = None
        if isinstance(node, exp.Literal) and not node.is_string:
            if not (node.name.isdecimal() and len(node.name) < 5 and 1 <= int(node.name) <= len(items)):
                hint = f"use a number from 1 to {len(items)}"
                raise self.text.error(
                    node,
                    "GROUP BY has a number that is not the position of a column of SELECT",
                    node.name,
                    hint,
                )
            item = items[int(node.name) - 1]
        elif isinstance(node, exp.Column) and not node.table and joined.scope.find(node) is None:
            aliases = {one.name.lower(): one for one in reversed(items) if one.given}
            item = aliases.get(node.name.lower())
        if item is not None:
            if item.star is not None:
                return item.star
            if find_aggregates(item.node):
                raise self.text.error(node, "GROUP BY cannot use an aggregate", self.text.of(node))
            node = item.node
        if names_bound(node, joined):
            if not all(map(is_bound, node.find_all(exp.Column))):
                hint = "group by the other columns alone: each window already has its own groups"
                what = "a key of GROUP BY cannot combine window bounds with other columns"
                raise self.text.error(node, what, self.text.of(node), hint)
            return None
        return read.value(node)

    def _result(self, read: Grouped, item: SelectItem) -> Expression:
        if item.star is None:
            return read.value(item.node)
        key = read.key_column(item.star)
        if key is None:
            hint = f"add {item.name} to GROUP BY, or list the columns you need"
            raise self.text.error(
                item.node, "this column is neither in GROUP BY nor inside an aggregate", item.name, hint
            )
        return key

    def _having(self, read: Grouped, having: exp.Expr, items: list[SelectItem]) -> Expression:
        read.where = "HAVING"
        read.aliases = {item.name.lower(): item.node for item in items if item.given}
        return read.condition(having.this)


def read_from(plan: Plan) -> Relation:
    return Relation(plan, columns_of(plan.schema), time=event_time(plan))


def computed(relation: Relation) -> Relation:
    """Return the relation with a new plan: a projection that computes all columns of the relation."""
    plan = projected(relation.plan, [column.expression for column in relation.columns], relation.time)
    columns = tuple(
        Named(column.name, computed_column.expression)
        for column, computed_column in zip(relation.columns, columns_of(plan.schema), strict=True)
    )
    return replace(relation, source=plan, columns=columns, time=event_time(plan))


def numbered(relation: Relation) -> Relation:
    """Return the relation with numbered tuples; tuples with a failing expression get no number."""
    if not all(isinstance(column.expression, Column) for column in relation.columns):
        relation = computed(relation)
    return replace(relation, source=Numbered(relation.plan))


def clock_of(joined: Joined, wanted: Iterable[WantedAggregate]) -> Column | None:
    """Return the column that orders tuples for FIRST and LAST in a window of rows; None if no aggregate needs an order."""
    if joined.time is None or not any(one.aggregate.function in ORDERED for one in wanted):
        return None
    return Column(joined.time.place, joined.plan.schema.fields[joined.time.place].type)


def names_bound(node: exp.Expr, joined: Joined) -> bool:
    """Return True if an expression of SELECT or GROUP BY uses window_start or window_end of the query's own window."""
    timed = isinstance(joined.window, TimeWindow)
    bounds = (column for column in node.find_all(exp.Column) if is_bound(column))
    return any(timed or joined.scope.find(bound) is None for bound in bounds)


def find_aggregates(node: exp.Expr) -> list[exp.Expr]:
    return [part for part in node.walk() if is_aggregate(part)]


def source_of(node: exp.Select) -> exp.Expr:
    source: exp.Expr = node.args["from_"].this
    return source
