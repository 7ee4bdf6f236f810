"""Plans FROM and WHERE: filters below joins, keys of joins, limits of the time distance, and the conditions that remain.

A condition of WHERE or of an inner JOIN's ON is placed where it costs least. A condition on one stream becomes a filter
below the join. Conditions on both streams become part of the join:

    compares the times of both sides            limits the join's time distance: b.ts BETWEEN a.ts - … AND a.ts + …
    equates a value of each side                a key of the join
    any other condition                         the join's residual condition, tested for each pair

A join of two streams needs a limit of the time distance, or a window on each side; otherwise all tuples of both streams
would have to be stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from configs.errors import WeirError
from engine.data.schema import TableSchema
from engine.expressions.functions import resolve
from engine.plan.plan import (
    TRUE,
    Cast,
    Column,
    EventTime,
    Expression,
    Filter,
    IntervalJoin,
    LastJoin,
    Plan,
    Project,
    RowWindow,
    TableJoin,
    TimeWindow,
    WindowJoin,
    canonical,
    event_time,
)
from engine.sql.errors import SPLIT_IT, Text
from engine.sql.names import Relation, Scope
from engine.sql.terms.expressions import Expressions, type_or_none
from engine.sql.terms.normal_form import all_of
from engine.sql.time_bounds import Bound, TimeBounds
from engine.sql.windows import RANGE_MAX_US

# Maximum number of items of FROM: each join is an operator, and its plan is compared with the plans of other queries.
ITEMS_MAX = 16


@dataclass(frozen=True)
class Joined:
    """Result of FROM and WHERE: a plan, and the positions of each FROM item's columns in this plan."""

    plan: Plan
    scope: Scope
    offsets: tuple[int | None, ...]  # Position in the plan of the first column of each item of FROM
    time: EventTime | None
    window: TimeWindow | RowWindow | None


@dataclass(frozen=True, eq=False)
class JoinOperand:
    """Operand of the AND in WHERE or ON; `owners` are the items of FROM with columns that the operand uses."""

    node: exp.Expr
    owners: frozenset[int]
    # Index of the LEFT JOIN that has this operand in its ON clause; None for operands of WHERE and of other joins
    outer: int | None = None


@dataclass(frozen=True)
class Item:
    """Relation in FROM, with its join to the relations before it."""

    relation: Relation
    join: exp.Join | None = None

    @property
    def is_table(self) -> bool:
        """True for a lookup table: a static table, or a stream with [LAST BY …]."""
        return isinstance(self.relation.source, TableSchema) or bool(self.relation.last)

    @property
    def place(self) -> exp.Expr:
        """Part of the parsed text to which an error points if it is about the join of this item."""
        return self.join or self.relation.node

    @property
    def is_outer(self) -> bool:
        return self.join is not None and self.join.args.get("side") == "LEFT"


def conjuncts(node: exp.Expr | None) -> Iterable[exp.Expr]:
    """Yield the operands of AND, also those in parentheses."""
    stack = [] if node is None else [node]
    while stack:
        part = stack.pop()
        if isinstance(part, exp.And):
            stack += [part.right, part.left]
        elif isinstance(part, exp.Paren):
            stack.append(part.this)
        else:
            yield part


@dataclass
class Joiner:
    """Planner of one FROM clause with its WHERE."""

    text: Text
    items: Sequence[Item]
    where: exp.Expr | None
    conditions: list[JoinOperand] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scope = Scope(self.text, [item.relation for item in self.items])
        self._check_aliases()
        self._collect()

    def joined(self) -> Joined:
        streams = [owner for owner, item in enumerate(self.items) if not item.is_table]
        tables = [owner for owner, item in enumerate(self.items) if item.is_table]
        self._check_kinds(streams)
        offsets: list[int | None] = [None] * len(self.items)
        first = streams[0]
        relation = self.items[first].relation
        window: TimeWindow | RowWindow | None
        if len(streams) == 1:
            plan, window, time, offsets[first] = self._side(first), relation.window, relation.time, 0
        else:
            plan, time = self._streams(first, streams[1], offsets)
            window = None
        for table in tables:
            plan = self._table(plan, table, offsets)
        rest = Expressions(self.scope, offsets, "WHERE")
        plan = filtered(plan, [rest.condition(condition.node) for condition in self.conditions])
        return Joined(plan, self.scope, tuple(offsets), time, window)

    def _collect(self) -> None:
        for owner, item in enumerate(self.items):
            if item.join is None:
                continue
            for name in item.join.args.get("using") or ():
                self._use(owner, name)
            for node in conjuncts(item.join.args.get("on")):
                self.conditions.append(self._condition(node, owner if item.is_outer else None))
        self.conditions += [self._condition(node, None) for node in conjuncts(self.where)]

    def _condition(self, node: exp.Expr, outer: int | None) -> JoinOperand:
        owners = set()
        for column in node.find_all(exp.Column):
            relation = self.scope.find(column)
            if relation is not None:
                owners.add(relation.owner)
        return JoinOperand(node, frozenset(owners), outer)

    def _use(self, owner: int, name: exp.Identifier) -> None:
        """Apply USING (k): column k of an item of FROM must equal column k of an earlier item, and the query sees only one column k."""
        earlier = [
            one
            for one in self.scope.all()
            if one.owner < owner and one.column.name.lower() == name.name.lower()
        ]
        sides = [exp.Column(this=name.copy(), table=exp.to_identifier(self.items[owner].relation.alias))]
        for one in earlier[:1]:
            alias = self.items[one.owner].relation.alias
            sides.insert(0, exp.Column(this=name.copy(), table=exp.to_identifier(alias)))
        if len(sides) < 2 or self.scope.find(sides[1]) is None:
            raise self.text.error(name, "both sides of a join with USING must have this column", name.name)
        self.scope.hidden.add((owner, name.name.lower()))
        equal = exp.EQ(this=sides[0], expression=sides[1])
        self.conditions.append(self._condition(equal, owner if self.items[owner].is_outer else None))

    def _take(self, wanted: Iterable[JoinOperand]) -> list[JoinOperand]:
        taken = dict.fromkeys(wanted)
        self.conditions = [condition for condition in self.conditions if condition not in taken]
        return list(taken)

    def _check_aliases(self) -> None:
        if len(self.items) > ITEMS_MAX:
            node, what = self.items[ITEMS_MAX].relation.node, f"FROM can have at most {ITEMS_MAX} items"
            raise self.text.error(node, what, len(self.items), SPLIT_IT)
        aliases: set[str] = set()
        for item in self.items:
            alias = item.relation.alias.lower()
            if alias and alias in aliases:
                hint = f"{alias} AS a JOIN {alias} AS b"
                raise self.text.error(item.relation.node, "two items of FROM have the same name", alias, hint)
            aliases.add(alias)

    def _check_kinds(self, streams: Sequence[int]) -> None:
        if not streams:
            node = self.items[0].relation.node
            name = self.items[0].relation.alias
            hint = f"SELECT … FROM stream JOIN {name} ON …"
            what = "a continuous query must read a stream, but FROM has only tables"
            raise self.text.error(node, what, name, hint)
        if len(streams) > 2:
            node = self.items[streams[2]].relation.node
            hint = "FROM (SELECT … FROM a JOIN b ON …) AS x JOIN c ON …"
            raise self.text.error(node, "a query can join at most two streams", hint=hint)
        for item in self.items:
            if item.is_outer and not item.is_table:
                what = "LEFT JOIN with a stream is not supported, because a match may still come"
                raise self.text.error(item.relation.node, what, hint="use JOIN, or LEFT JOIN with a table")
        if self.items[0].is_table and any(item.is_outer for item in self.items):
            node = self.items[0].relation.node
            raise self.text.error(
                node, "the left side of LEFT JOIN must be a stream", hint="FROM stream LEFT JOIN table"
            )

    def _side(self, owner: int) -> Plan:
        """Return the plan of a stream, filtered by the conditions that use only this stream."""
        mine = self._take(
            condition
            for condition in self.conditions
            if condition.outer is None and condition.owners <= {owner}
        )
        offsets = [0 if place == owner else None for place in range(len(self.items))]
        read = Expressions(self.scope, offsets, "WHERE")
        return filtered(self.items[owner].relation.plan, [read.condition(item.node) for item in mine])

    def _streams(self, one: int, other: int, offsets: list[int | None]) -> tuple[Plan, EventTime | None]:
        windows = [self.items[owner].relation.window for owner in (one, other)]
        bound = self._bound(one, other, windows)
        pairs = self._equalities({one}, {other})
        left, right = (self._timed_side(owner) for owner in (one, other))
        # The sides of a join are put in a fixed order, so that plans do not differ by the order in FROM.
        swapped = repr(right) < repr(left)
        sides = [(one, left), (other, right)]
        if swapped:
            sides, bound = sides[::-1], bound.mirrored()
            windows, pairs = windows[::-1], [(b, a) for a, b in pairs]
        (left_owner, left), (right_owner, right) = sides
        pairs = sorted(dict.fromkeys(pairs), key=repr)
        left, left_keys = with_columns(left, [a for a, _ in pairs])
        right, right_keys = with_columns(right, [b for _, b in pairs])
        offsets[left_owner], offsets[right_owner] = 0, len(left.schema)
        read = Expressions(self.scope, offsets, "the join's condition")
        both = self._take(
            c for c in self.conditions if c.outer is None and len(c.owners) == 2 and c.owners <= {one, other}
        )
        residual = all_of([read.condition(condition.node) for condition in both])
        schema = canonical([*left.schema.fields, *right.schema.fields])
        plan: Plan
        if bound.low_us is not None and bound.high_us is not None:
            plan = IntervalJoin(
                left=left,
                right=right,
                left_keys=left_keys,
                right_keys=right_keys,
                low_us=bound.low_us,
                high_us=bound.high_us,
                residual=residual,
                schema=schema,
            )
        else:
            left_window, right_window = windows
            assert isinstance(left_window, TimeWindow)
            assert isinstance(right_window, TimeWindow)
            plan = WindowJoin(
                left=left,
                right=right,
                left_window=left_window,
                right_window=right_window,
                left_keys=left_keys,
                right_keys=right_keys,
                residual=residual,
                schema=schema,
            )
        time = self.items[one].relation.time
        start = offsets[one]
        assert start is not None
        return plan, None if time is None else EventTime(time.place + start, time.unit_us)

    def _timed_side(self, owner: int) -> Plan:
        """Return the plan of one side of a join, with the event time of the side's relation."""
        relation, plan = self.items[owner].relation, self._side(owner)
        if relation.time is None or relation.time == event_time(plan):
            return plan
        columns = [Column(place, field.type) for place, field in enumerate(plan.schema.fields)]
        return Project(plan, tuple(columns), canonical(columns), relation.time.place)

    def _bound(self, one: int, other: int, windows: Sequence[TimeWindow | RowWindow | None]) -> Bound:
        """Return the limits that the conditions set for the time distance time(other) − time(one).

        There are no limits if both sides have windows, because the windows limit the distance.
        """
        relations = [self.items[owner].relation for owner in (one, other)]
        for relation in relations:
            if isinstance(relation.window, RowWindow):
                what = "a join cannot use a window of rows"
                raise self.text.error(relation.node, what, hint="[RANGE 10 SECONDS]")
            if relation.window is not None and relation.window.at_most:
                hint = "[RANGE 10 SECONDS], or [RANGE 10 SECONDS SLIDE 2 SECONDS]"
                raise self.text.error(relation.node, "a join cannot use SLIDE AT MOST", hint=hint)
            if relation.time is None:
                hint = "declare a WATERMARK on the stream and select its time column in subqueries"
                what = "a join of streams needs event time, but this stream or subquery has none"
                raise self.text.error(relation.node, what, relation.alias, hint)
        types = [
            (relation.time.unit_us, relation.schema.fields[relation.time.place].type)
            for relation in relations
            if relation.time is not None
        ]
        if types[0] != types[1]:
            names = " and ".join(str(type_) for _, type_ in types)
            raise self.text.error(
                relations[1].node, "the event times of the two joined streams have different types", names
            )
        if all(windows):
            return Bound()
        if any(windows):
            bare = relations[0] if windows[0] is None else relations[1]
            what = "one side of the join has a window and the other side has none"
            raise self.text.error(bare.node, what, bare.alias, f"{bare.alias} [RANGE 10 SECONDS]")
        bounds = TimeBounds(self.text, self.scope, one, other)
        bound, used = Bound(), []
        for condition in self.conditions:
            limits = bounds.of(condition.node) if condition.owners == {one, other} else None
            if limits is not None:
                bound = bound.and_(limits)
                used.append(condition)
        self._take(used)
        self._check_bound(bound, one, other)
        return bound

    def _check_bound(self, bound: Bound, one: int, other: int) -> None:
        node = self.items[other].place
        a, b = (self._time_name(owner) for owner in (one, other))
        hint = f"add AND {b} BETWEEN {a} - INTERVAL '1 minute' AND {a} + INTERVAL '1 minute', or give both sides a window"
        if bound.low_us is None and bound.high_us is None:
            what = "a join of two streams without a bound on time would keep both streams for ever"
            raise self.text.error(node, what, hint=hint)
        if bound.low_us is None or bound.high_us is None:
            what = "the join bounds time in one direction only, so one stream would be kept for ever"
            raise self.text.error(node, what, hint=hint)
        if bound.low_us > bound.high_us:
            raise self.text.error(node, "no pair of rows can satisfy the bounds on time")
        if max(-bound.low_us, bound.high_us) > RANGE_MAX_US:
            raise self.text.error(node, "the bound on time of a join can be at most 366 days")

    def _time_name(self, owner: int) -> str:
        relation = self.items[owner].relation
        assert relation.time is not None
        names = [
            column.name
            for column in relation.columns
            if isinstance(column.expression, Column) and column.expression.place == relation.time.place
        ]
        return ".".join(filter(None, (relation.alias, *names[:1])))

    def _equalities(
        self,
        left: set[int],
        right: set[int],
        offsets: Sequence[int | None] | None = None,
        outer: int | None = None,
    ) -> list[tuple[Expression, Expression]]:
        """Remove the conditions `left value = right value`, and return each as two expressions: over the left and over the right columns."""
        pairs = []
        used = []
        for condition in self.conditions:
            node = condition.node
            if not isinstance(node, exp.EQ) or condition.outer != outer:
                continue
            owners = [self._condition(operand, None).owners for operand in (node.left, node.right)]
            if not all(owners):
                continue
            sides = [node.left, node.right]
            if owners[0] <= right and owners[1] <= left:
                sides.reverse()
            elif not (owners[0] <= left and owners[1] <= right):
                continue
            pairs.append(self._pair(sides, left, right, offsets))
            used.append(condition)
        self._take(used)
        return pairs

    def _pair(
        self, sides: Sequence[exp.Expr], left: set[int], right: set[int], offsets: Sequence[int | None] | None
    ) -> tuple[Expression, Expression]:
        own = [0 if owner in left | right else None for owner in range(len(self.items))]
        over_left = [
            (offsets[owner] if offsets else 0) if owner in left else None for owner in range(len(self.items))
        ]
        readers = [
            Expressions(self.scope, over_left, "the join's condition"),
            Expressions(self.scope, own, "the join's condition"),
        ]
        values = [reader.value(node) for reader, node in zip(readers, sides, strict=True)]
        try:
            types = resolve("equal", [type_or_none(side) for side in values]).arguments
        except WeirError as problem:
            parent = sides[0].parent or sides[0]
            raise self.text.error(parent, problem.title, self.text.of(parent), problem.hint) from None
        a, b = (
            reader.fitted(node, value, type_)
            for reader, node, value, type_ in zip(readers, sides, values, types, strict=True)
        )
        return a, b

    def _table(self, plan: Plan, owner: int, offsets: list[int | None]) -> Plan:
        item = self.items[owner]
        table = item.relation.source
        here = {place for place, offset in enumerate(offsets) if offset is not None}
        outer = owner if item.is_outer else None
        pairs = [
            self._table_key(item, key, value)
            for key, value in self._equalities(here, {owner}, offsets, outer)
        ]
        if not pairs:
            what = "a join with a table needs a key"
            raise self.text.error(item.place, what, hint="ON stream.k = table.k")
        pairs = sorted(dict.fromkeys(pairs), key=repr)
        if {column.place for _, column in pairs} != set(item.relation.last) and item.relation.last:
            what = "a join with [LAST BY …] must compare all columns of that key and no others"
            raise self.text.error(item.place, what, hint="ON stream.k = other.k for [LAST BY k]")
        plan, keys = with_columns(plan, [key for key, _ in pairs])
        offsets[owner] = len(plan.schema)
        reachable = here | {owner}
        rest = self._take(
            condition
            for condition in self.conditions
            if condition.owners <= reachable
            and (condition.outer == owner if item.is_outer else condition.outer is None)
        )
        read = Expressions(self.scope, offsets, "the join's condition")
        residual = all_of([read.condition(one.node) for one in rest])
        schema = canonical([*plan.schema.fields, *table.schema.fields])
        table_keys = tuple(column.place for _, column in pairs)
        if not isinstance(table, TableSchema):
            if event_time(plan) is None or event_time(table) is None:
                what = "a join with [LAST BY …] needs event time on both sides, but one side has none"
                hint = "declare a WATERMARK on both streams and select their time columns in subqueries"
                raise self.text.error(item.place, what, hint=hint)
            return LastJoin(
                left=plan,
                right=table,
                left_keys=keys,
                right_keys=table_keys,
                residual=residual,
                outer=item.is_outer,
                schema=schema,
            )
        return TableJoin(
            input=plan,
            table=table,
            keys=keys,
            table_keys=table_keys,
            residual=residual,
            outer=item.is_outer,
            schema=schema,
        )

    def _table_key(self, item: Item, key: Expression, value: Expression) -> tuple[Expression, Column]:
        if isinstance(value, Column):
            return key, value
        # If the stream's key is int64 and the table's key is int32, a value beyond int32 becomes NULL and matches no row.
        column = value.argument if isinstance(value, Cast) else None
        if isinstance(column, Column) and column.type.is_integer and value.type.is_integer:
            return Cast(key, column.type, try_=True), column
        what = "the join compares a key column of the table with a value of another type"
        raise self.text.error(item.place, what)


def filtered(plan: Plan, conditions: Sequence[Expression]) -> Plan:
    """Return the plan filtered by all conditions; a filter on a filter becomes one filter."""
    if isinstance(plan, Filter):
        conditions, plan = [plan.condition, *conditions], plan.input
    condition = all_of(conditions)
    return plan if condition == TRUE else Filter(plan, condition)


def with_columns(plan: Plan, wanted: Sequence[Expression]) -> tuple[Plan, tuple[int, ...]]:
    """Return the plan with a column for each wanted expression, and the positions of these columns.

    A projection adds a column for each expression that is not a column of the plan already.
    """
    added = [fromkey for fromkey in dict.fromkeys(wanted) if not isinstance(fromkey, Column)]
    width = len(plan.schema)
    if added:
        kept = [Column(place, item.type) for place, item in enumerate(plan.schema.fields)]
        time = event_time(plan)
        columns = (*kept, *added)
        plan = Project(plan, columns, canonical(columns), None if time is None else time.place)
    places = [item.place if isinstance(item, Column) else width + added.index(item) for item in wanted]
    return plan, tuple(places)
