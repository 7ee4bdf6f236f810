"""The operator network of a class: plans joined up, equal parts built once, queries added and removed.

A node is an operator with its queue. Nodes are found again by what they compute (the plan node itself, or for panes
input, keys and pane length), so equal sub-plans of any two queries are one node. A window join is two nodes, one a
side. A node lives as long as a query uses it; removing a query disturbs nobody else's state.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from configs.problems import InvalidInput, nearest
from engine.expressions import Failures, compile_condition
from engine.operators.join import JoinSideOperator, JoinState, Residual
from engine.operators.protocol import Operator
from engine.operators.rows import RowWindowOperator
from engine.operators.select import SelectOperator, plain_columns
from engine.operators.source import SourceOperator
from engine.operators.table import TableJoinOperator
from engine.operators.union import UnionInputOperator, UnionState
from engine.operators.windows import PaneOperator, WindowOperator
from engine.panes import PaneStore
from engine.plan import (
    TRUE,
    EventTime,
    Expression,
    Filter,
    IntervalJoin,
    Plan,
    Project,
    Query,
    QueryOutput,
    RowWindow,
    Scan,
    TableJoin,
    TimeWindow,
    Union,
    WindowAggregate,
    WindowJoin,
    event_time,
)
from engine.pruning import pruned
from engine.schema import Field, Schema, StreamSchema
from engine.train import Mask, Train


@dataclass(eq=False)
class Node:
    """One box with its queue."""

    key: Hashable
    name: str
    operator: Operator
    downstream: list[Node] = field(default_factory=list)
    upstream: list[Node] = field(default_factory=list)
    queue: deque[Train] = field(default_factory=deque)
    tuples: int = 0  # queued
    users: set[str] = field(default_factory=set)  # queries that need it
    outputs: set[str] = field(default_factory=set)  # queries whose answers it gives
    partner: Node | None = None
    source: bool = False
    progressive: bool = False  # whether progress without tuples matters to it

    def enqueue(self, train: Train) -> bool:
        """Queue a train; whether the node had nothing before."""
        was_empty = not self.queue
        if not len(train) and self.queue and not len(self.queue[-1]):
            self.queue[-1] = train  # later progress makes earlier progress stale
        else:
            self.queue.append(train)
            self.tuples += len(train)
        return was_empty

    def wants(self, time: int) -> bool:
        """Whether progress of event time to `time`, without tuples, matters to it or to those behind it."""
        if self.progressive:
            return self.operator.wants(time)
        return any(below.wants(time) for below in self.downstream)

    def dequeue(self, most: int) -> Train:
        """The next train, cut to `most` tuples."""
        train = self.queue.popleft()
        if len(train) > most:
            self.queue.appendleft(train.slice(most, len(train)))
            train = train.slice(0, most)
        self.tuples -= len(train)
        return train


class ClassNetwork:
    """All nodes of a class, in an order in which every node comes after those that feed it."""

    def __init__(self, tables: Mapping[str, Train] | None = None) -> None:
        self.nodes: list[Node] = []
        self._tables = {name.lower(): table for name, table in (tables or {}).items()}
        self.queries: dict[str, Query] = {}
        self.version = 0
        self._found: dict[Hashable, tuple[Node, ...]] = {}
        self._stores: dict[Hashable, list[tuple[PaneStore, Node]]] = {}
        self._sources: dict[str, Node] = {}

    def add(self, *queries: Query) -> None:
        """Add queries; those added together choose pane lengths that serve them all."""
        for query in queries:
            if query.name in self.queries:
                raise InvalidInput(
                    "the class has a query of this name", "query", query.name, "choose another name"
                )
        plans: dict[str, Plan] = {}
        known = dict(self.queries)
        for query in queries:
            plans[query.name] = inlined(query.plan, known)
            known[query.name] = query
            self._check_tables(plans[query.name])
        # Nothing has been built so far: a query that is refused leaves no trace.
        self.queries = known
        self._common_panes = common_panes(plans.values())
        for name, plan in plans.items():
            for node in self._build(plan, name):
                node.outputs.add(name)
        self.version += 1

    def remove(self, name: str) -> None:
        """Remove a query and what only it needed."""
        if self.queries.pop(name, None) is None:
            raise InvalidInput(
                "the class has no query of this name", "query", name, "see the list of queries"
            )
        for node in self.nodes:
            node.users.discard(name)
            node.outputs.discard(name)
        gone = [node for node in self.nodes if not node.users]
        for node in gone:
            if isinstance(node.operator, WindowOperator):
                node.operator.close()
        self.nodes = [node for node in self.nodes if node.users]
        for node in self.nodes:
            node.downstream = [below for below in node.downstream if below.users]
        # Only what goes is looked up: hashing the plans of all that stays would take a second for 10,000 queries.
        for plan in [plan for plan, nodes in self._found.items() if not nodes[0].users]:
            del self._found[plan]
        for key in [key for key, stores in self._stores.items() if not all(node.users for _, node in stores)]:
            self._stores[key] = [one for one in self._stores[key] if one[1].users]
            if not self._stores[key]:
                del self._stores[key]
        self._sources = {name: node for name, node in self._sources.items() if node.users}
        self.version += 1

    def source(self, stream: str) -> Node | None:
        """Where a stream enters; None if no query reads it."""
        return self._sources.get(stream.lower())

    # --- building ------------------------------------------------------------------------------------

    def _build(self, plan: Plan, user: str) -> tuple[Node, ...]:
        """The nodes that give the plan's output, built or found; a join has two."""
        nodes = self._found.get(plan)
        if nodes is None:
            nodes = self._found[plan] = tuple(self._made(plan, user))
        for node in nodes:
            used_by(node, user)
        return nodes

    def _made(self, plan: Plan, user: str) -> Iterator[Node]:
        match plan:
            case Scan(stream):
                yield self._source(stream)
            case Project(Filter(below, condition), expressions):
                yield self._fed(Node(plan, "select", SelectOperator(condition, expressions)), below, user)
            case Project(below, expressions):
                yield self._fed(Node(plan, "project", SelectOperator(None, expressions)), below, user)
            case Filter(below, condition):
                yield self._fed(Node(plan, "filter", SelectOperator(condition, None)), below, user)
            case WindowAggregate(below, TimeWindow() as window):
                yield self._windows(plan, below, window, user)
            case WindowAggregate(below, RowWindow() as window):
                time = event_time(below)
                place = None if time is None else time.place
                rows = RowWindowOperator(window, plan.keys, plan.aggregates, below.schema, plan.schema, place)
                yield self._fed(Node(plan, "rows", rows), below, user)
            case IntervalJoin():
                yield from self._interval_join(plan, user)
            case WindowJoin():
                yield from self._window_join(plan, user)
            case TableJoin():
                yield self._table_join(plan, user)
            case Union(inputs):
                state = UnionState(len(inputs))
                for place, below in enumerate(inputs):
                    operator = UnionInputOperator(state, place)
                    yield self._fed(Node((plan, place), "union", operator, progressive=True), below, user)
            case QueryOutput():
                raise AssertionError("queries over queries are inlined before they are built")

    def _check_tables(self, plan: Plan) -> None:
        for one in walk(plan):
            if isinstance(one, TableJoin) and one.table.name.lower() not in self._tables:
                hint = nearest(one.table.name, self._tables)
                raise InvalidInput("the table has not been loaded", "table", one.table.name, hint)

    def _source(self, stream: StreamSchema) -> Node:
        lateness = stream.lateness_us // stream.time_unit_us
        node = Node(
            ("source", stream), f"source:{stream.name}", SourceOperator(stream.time, lateness), source=True
        )
        self.nodes.append(node)
        self._sources[stream.name.lower()] = node
        return node

    def _fed(self, node: Node, below: Plan, user: str) -> Node:
        """A new node behind the ones that give its input."""
        feeders = self._build(below, user)
        self.nodes.append(node)
        for feeder in feeders:
            join_up(feeder, node)
        return node

    def _windows(self, plan: WindowAggregate, below: Plan, window: TimeWindow, user: str) -> Node:
        time = time_of(below)
        range_, slide = window.range_us // time.unit_us, window.slide_us // time.unit_us
        store, panes = self._panes(plan, below, math.gcd(range_, slide), time, user)
        # One reader a window: a query may have several, and a window outlive the query that built it.
        reader = f"{window} {plan.aggregates} {plan.schema}"
        operator = WindowOperator(store, reader, range_, slide, plan.aggregates, plan.schema)
        node = Node(plan, "window", operator, progressive=True)
        self.nodes.append(node)
        join_up(panes, node)
        return node

    def _panes(
        self, plan: WindowAggregate, below: Plan, pane: int, time: EventTime, user: str
    ) -> tuple[PaneStore, Node]:
        """A store whose panes make up the window, or a new one."""
        key = (below, plan.keys)
        for store, node in self._stores.get(key, ()):
            if pane % store.pane == 0:
                return store, node
        length = math.gcd(pane, self._common_panes.get(key, 0) // time.unit_us)
        types = [below.schema.fields[place].type for place in plan.keys]
        store = PaneStore(length, time.place, plan.keys, types, lateness_us(below) // time.unit_us)
        node = Node(("panes", key, length), "panes", PaneOperator(store), progressive=True)
        self._fed(node, below, user)
        self._stores.setdefault(key, []).append((store, node))
        return store, node

    def _interval_join(self, plan: IntervalJoin, user: str) -> Iterator[Node]:
        unit = time_of(plan.left).unit_us
        return self._sides(plan, plan.low_us // unit, plan.high_us // unit, condition_of(plan.residual), user)

    def _window_join(self, plan: WindowJoin, user: str) -> Iterator[Node]:
        """Pairs within the ranges of each other, of which some common window's end still sees both."""
        left, right = time_of(plan.left), time_of(plan.right)
        slide = math.lcm(plan.left_window.slide_us, plan.right_window.slide_us) // left.unit_us
        ranges = plan.left_window.range_us // left.unit_us, plan.right_window.range_us // left.unit_us
        places = left.place, len(plan.left.schema) + right.place
        condition = condition_of(plan.residual)

        def together(pairs: Train) -> Mask:
            first, second = (pairs.columns[place].data for place in places)
            end = (np.maximum(first, second) // slide + 1) * slide
            seen: Mask = (end - ranges[0] <= first) & (end - ranges[1] <= second)
            return seen if condition is None else seen & condition(pairs)

        return self._sides(plan, -ranges[1], ranges[0], together, user)

    def _sides(
        self, plan: IntervalJoin | WindowJoin, low: int, high: int, test: Residual | None, user: str
    ) -> Iterator[Node]:
        """Both sides of a join of streams."""
        state = JoinState(
            (plan.left.schema, plan.right.schema),
            (plan.left_keys, plan.right_keys),
            (time_of(plan.left).place, time_of(plan.right).place),
            low,
            high,
        )
        inputs = [picked(plan.left), picked(plan.right)]
        left, right = (
            Node((plan, side), f"join.{name}", JoinSideOperator(state, side, test, columns), progressive=True)
            for side, (name, (_, columns)) in enumerate(zip(("left", "right"), inputs, strict=True))
        )
        left.partner, right.partner = right, left
        yield self._fed(left, inputs[0][0], user)
        yield self._fed(right, inputs[1][0], user)

    def _table_join(self, plan: TableJoin, user: str) -> Node:
        operator = TableJoinOperator(
            self._tables[plan.table.name.lower()],
            plan.table.schema,
            plan.keys,
            plan.table_keys,
            condition_of(plan.residual),
            plan.outer,
            plan.schema,
        )
        return self._fed(Node(plan, f"table:{plan.table.name}", operator), plan.input, user)


def inlined(plan: Plan, queries: Mapping[str, Query]) -> Plan:
    """The plan with every query it reads in place of that query's name, and without names for people."""
    if isinstance(plan, QueryOutput):
        return inlined(queries[plan.query].plan, queries)
    changed: dict[str, Any] = {
        name: inlined(below, queries)
        for name in ("input", "left", "right")
        if (below := getattr(plan, name, None)) is not None
    }
    if isinstance(plan, Union):
        changed["inputs"] = tuple(inlined(below, queries) for below in plan.inputs)
    if isinstance(plan, Project):
        changed["schema"] = unnamed(plan.schema)
    return pruned(replace(plan, **changed) if changed else plan)


def unnamed(schema: Schema) -> Schema:
    """Two queries that differ in their columns' names alone are one."""
    return Schema(tuple(Field(f"c{place}", one.type) for place, one in enumerate(schema.fields)))


def join_up(above: Node, below: Node) -> None:
    above.downstream.append(below)
    below.upstream.append(above)


def used_by(node: Node, user: str) -> None:
    """The query needs the node and all that feeds it."""
    stack = [node]
    while stack:
        one = stack.pop()
        if user not in one.users:
            one.users.add(user)
            stack.extend(one.upstream)


def picked(plan: Plan) -> tuple[Plan, tuple[int, ...] | None]:
    """A projection that only picks columns as what it picks from and which; it needs no operator of its own."""
    if isinstance(plan, Project) and not isinstance(plan.input, Filter):
        places = plain_columns(plan.expressions)
        if places is not None:
            return plan.input, places
    return plan, None


def condition_of(expression: Expression) -> Residual | None:
    """A join's residual condition over pairs; a pair for which it fails is no pair."""
    if expression == TRUE:
        return None
    condition = compile_condition(expression)

    def holds(pairs: Train) -> Mask:
        failures = Failures()
        mask = condition(pairs, failures)
        failed = failures.rows()
        return mask if failed is None else mask & ~failed

    return holds


def common_panes(plans: Iterable[Plan]) -> dict[Hashable, int]:
    """For windows over equal input and keys among the plans, the longest pane that all are made of."""
    lengths: dict[Hashable, int] = {}
    for whole in plans:
        for plan in walk(whole):
            if isinstance(plan, WindowAggregate) and isinstance(plan.window, TimeWindow):
                key = (plan.input, plan.keys)
                pane = math.gcd(plan.window.range_us, plan.window.slide_us)
                lengths[key] = math.gcd(lengths.get(key, 0), pane)
    return lengths


def walk(plan: Plan) -> Iterator[Plan]:
    """The plan and all plans below it."""
    yield plan
    for name in ("input", "left", "right"):
        below = getattr(plan, name, None)
        if below is not None:
            yield from walk(below)
    for below in getattr(plan, "inputs", ()):
        yield from walk(below)


def time_of(plan: Plan) -> EventTime:
    """The event time of a plan that the planner has seen to have one."""
    time = event_time(plan)
    assert time is not None, f"{type(plan).__name__} has no event time"
    return time


def lateness_us(plan: Plan) -> int:
    """How far behind the latest tuple the plan's event time is complete."""
    return max((one.stream.lateness_us for one in walk(plan) if isinstance(one, Scan)), default=0)
