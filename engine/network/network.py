"""Operator network of a class: connects query plans, builds equal parts once, adds and removes queries.

Each operator has a queue and a key. The key is what the operator computes: the part of the plan, or for panes the input, the
group keys and the pane length. So equal parts of two plans become one operator. A join of streams is two operators, one per side.
An operator lives as long as a query uses it; removing a query leaves the state of all other queries unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from configs.classes.limits import ClassLimits
from configs.classes.plans import PlanSettings
from configs.classes.window_settings import WindowSettings
from configs.errors import InvalidInput, nearest
from engine.data.held_state import StateAccount
from engine.data.schema import StreamSchema
from engine.data.train import Mask, Train
from engine.data.watermark_causes import NO_PROGRESS, Meeting
from engine.expressions.compiler import Condition, RowFailures, compile_condition
from engine.network.node import QueuedOperator, join_up, used_by
from engine.operators.join import JoinSideOperator, JoinState
from engine.operators.join_state import TOO_MANY_PAIRS
from engine.operators.last import LastRowsOperator, LookUp, LookUpOperator
from engine.operators.protocol import Operator
from engine.operators.rows import NumberOperator, RowWindowOperator
from engine.operators.select import SelectOperator, plain_columns
from engine.operators.source import SourceOperator
from engine.operators.table import TableJoinOperator
from engine.operators.union import UnionInputOperator
from engine.operators.windows import PaneOperator, PeriodicWindowOperator, WindowOperator
from engine.plan.plan import (
    TRUE,
    Apart,
    EventTime,
    Expression,
    Filter,
    IntervalJoin,
    LastJoin,
    Numbered,
    Plan,
    Project,
    Query,
    QueryOutput,
    Scan,
    TableJoin,
    TimeWindow,
    Union,
    WindowAggregate,
    WindowJoin,
    time_of,
    walk,
)
from engine.plan.plan_references import check_lookups
from engine.plan.plan_rewrites import arranged
from engine.windows.panes import PaneStore
from engine.windows.window_schedule import WindowSchedule

# Prefix of the names of second plans among the users of an operator; no query's name begins with this prefix.
TWIN = "~"
# Input of panes and the positions of its group keys.
PaneKey = tuple[Plan, tuple[int, ...]]


class ClassNetwork:
    """All operators of a class, in an order in which every operator comes after the operators that feed it."""

    def __init__(self, tables: Mapping[str, Train] | None = None, limits: ClassLimits | None = None) -> None:
        self.account = StateAccount(ClassLimits() if limits is None else limits)
        self.nodes: list[QueuedOperator] = []
        self._tables = {name.lower(): table for name, table in (tables or {}).items()}
        self.queries: dict[str, Query] = {}
        # Number of changes that make a new scheduler necessary: removed operators, and changed slacks of windows.
        self.removals = 0
        self._found: dict[Hashable, tuple[QueuedOperator, ...]] = {}
        self.stores: dict[PaneKey, list[tuple[PaneStore, WindowSchedule, QueuedOperator]]] = {}
        """Panes of time windows, with the operators that fill these panes, by input and group keys."""
        self._windows_as = WindowSettings()
        self.plan = PlanSettings()  # Plan settings of queries that are added later
        self._planned_as: dict[str, PlanSettings] = {}
        # Operators that emit the answers of a query's second plan, by query.
        self._twins: dict[str, tuple[QueuedOperator, ...]] = {}
        self._beside: list[QueuedOperator] = []  # Operators that only second plans use
        self._sources: dict[str, QueuedOperator] = {}
        self._pane_lengths: dict[Hashable, int] = {}
        self.lookups: list[QueuedOperator] = []
        """Operators of lookups (joins with [LAST BY …]) that take the tuples that look up rows."""

    @property
    def pane_lengths(self) -> Mapping[Hashable, int]:
        """Length of the panes of each time window; the lengths depend on the order in which queries were added."""
        return dict(self._pane_lengths)

    def expect(self, pane_lengths: Mapping[Hashable, int]) -> None:
        """Use these pane lengths, which come from another network, for windows that are added later."""
        self._pane_lengths.update(pane_lengths)

    @property
    def windows(self) -> WindowSettings:
        """Settings that decide when windows with SLIDE AT MOST are answered."""
        return self._windows_as

    @windows.setter
    def windows(self, settings: WindowSettings) -> None:
        self._windows_as = settings
        self.removals += 1
        for stores in self.stores.values():
            for _, schedule, _ in stores:
                schedule.set(settings)

    def add(self, *queries: Query) -> list[tuple[str, QueuedOperator]]:
        """Add queries, and return the operators that emit the answers of each query.

        Pane lengths are chosen to fit all queries that are added together.
        """
        most = self.account.limits.queries
        if len(self.queries) + len(queries) > most:
            hint = "remove queries that are not needed, or raise the class's limit"
            raise InvalidInput(
                f"the class can have at most {most:,} queries", "query", queries[-1].name, hint
            )
        plans: dict[str, Plan] = {}
        known = dict(self.queries)
        for query in queries:
            plans[query.name] = arranged(query.plan, known, self.plan, query.name)
            known[query.name] = query
            self._check_tables(plans[query.name])
            check_lookups(plans[query.name], {})
        # All checks are done before this point, so that a refused query changes nothing in the network.
        self.queries = known
        self._planned_as.update((query.name, self.plan) for query in queries)
        self._common_panes = common_panes(plans.values())
        found = [(name, node) for name, plan in plans.items() for node in self._build(plan, name)]
        for name, node in found:
            node.outputs.add(name)
        return found

    def remove(self, name: str) -> None:
        """Remove a query, and all operators that only this query used."""
        del self.queries[name], self._planned_as[name]
        for node in self.nodes:
            node.users.discard(name)
            node.outputs.discard(name)
        self._sweep()

    def _sweep(self) -> None:
        """Drop the operators that no query uses any more."""
        gone = [node for node in self.nodes if not node.users]
        for node in gone:
            if isinstance(node.operator, WindowOperator):
                node.operator.close()
            node.holding.release()
            node.leave_lots()
        self.nodes = [node for node in self.nodes if node.users]
        self.lookups = [node for node in self.lookups if node.users]
        for node in self.nodes:
            node.downstream = [below for below in node.downstream if below.users]
        # Only plans of dropped operators are looked up, because hashing all plans would take a second for 10,000 queries.
        for plan in [plan for plan, nodes in self._found.items() if not nodes[0].users]:
            del self._found[plan]
            self._pane_lengths.pop(plan, None)
        for key in [
            key for key, stores in self.stores.items() if not all(store[-1].users for store in stores)
        ]:
            self.stores[key] = [store for store in self.stores[key] if store[-1].users]
            if not self.stores[key]:
                del self.stores[key]
        self._sources = {name: node for name, node in self._sources.items() if node.users}
        self.removals += 1

    def planned_as(self, name: str) -> PlanSettings:
        """Return the settings by which a query's running plan was chosen."""
        return self._planned_as[name]

    def arranged(self, name: str, plan: PlanSettings) -> Plan:
        """Return the plan that the query has, or would have, under these settings."""
        return arranged(self.queries[name].plan, self.queries, plan, name)

    def add_twins(self, *names: str) -> None:
        """Build a second plan for each of these queries, by the class's plan settings; the answers of these plans are not used yet."""
        plans = {name: self.arranged(name, self.plan) for name in names}
        self._common_panes = common_panes(plans.values())
        for name, plan in plans.items():
            self._twins[name] = self._build(plan, TWIN + name)
        self._find_beside()

    def drop_twins(self) -> None:
        """Remove the second plans of all queries; the queries keep their running plans."""
        if not self._twins:
            return
        users = {TWIN + name for name in self._twins}
        self._twins.clear()
        self._beside = []
        for node in self.nodes:
            node.users -= users
        self._sweep()

    def exchange(self, name: str) -> list[QueuedOperator]:
        """Replace the query's plan by its second plan; return the operators that emit the query's answers from now on."""
        nodes, twin = self._twins.pop(name), TWIN + name
        for node in self.nodes:
            node.users.discard(name)
            node.outputs.discard(name)
            if twin in node.users:
                node.users.discard(twin)
                node.users.add(name)
        for node in nodes:
            node.outputs.add(name)
        self._planned_as[name] = self.plan
        self._find_beside()
        self._sweep()
        return list(nodes)

    def has_bounded_windows(self) -> bool:
        """Return True if at least one window of the network has SLIDE AT MOST."""
        return any(isinstance(node.operator, PeriodicWindowOperator) for node in self.nodes)

    def have_twins_refused(self) -> bool:
        """Return True if a second plan has refused tuples for lack of room, so that its answers would be wrong."""
        return any(node.holding.refused or node.failed[TOO_MANY_PAIRS] for node in self._beside)

    def _find_beside(self) -> None:
        users = {TWIN + name for name in self._twins}
        self._beside = [node for node in self.nodes if node.users <= users]

    def source(self, stream: str) -> QueuedOperator | None:
        """Return the source operator of a stream; None if no query reads the stream."""
        return self._sources.get(stream.lower())

    # --- building and connecting operators -----------------------------------------------------------

    def _build(self, plan: Plan, user: str) -> tuple[QueuedOperator, ...]:
        """Return the operators that emit the plan's output, and build missing operators; a join of streams has two such operators."""
        if isinstance(plan, Apart):
            return self._build(plan.input, user)
        nodes = self._found.get(plan)
        if nodes is None:
            nodes = self._found[plan] = tuple(self._made(plan, user))
        for node in nodes:
            used_by(node, user)
        return nodes

    def _made(self, plan: Plan, user: str) -> Iterator[QueuedOperator]:
        match plan:
            case Scan(stream):
                yield self._source(stream)
            case Project(Filter(below, condition), expressions):
                yield self._fed(plan, "select", SelectOperator(condition, expressions), below, user)
            case Project(below, expressions):
                yield self._fed(plan, "project", SelectOperator(None, expressions), below, user)
            case Filter(below, condition):
                yield self._fed(plan, "filter", SelectOperator(condition, None), below, user)
            case WindowAggregate(_, TimeWindow() as window):
                yield self._windows(plan, window, user)
            case WindowAggregate():
                yield self._row_windows(plan, user)
            case Numbered(below):
                yield self._fed(plan, "number", NumberOperator(), below, user)
            case IntervalJoin():
                unit, test = time_of(plan.left).unit_us, condition_of(plan.residual)
                yield from self._sides(plan, plan.low_us // unit, plan.high_us // unit, test, user)
            case WindowJoin():
                yield from self._window_join(plan, user)
            case TableJoin():
                table = self._tables[plan.table.name.lower()]
                operator = TableJoinOperator(plan, table, condition_of(plan.residual))
                yield self._fed(plan, f"table:{plan.table.name}", operator, plan.input, user)
            case LastJoin():
                yield from self._last_join(plan, user)
            case Union(inputs):
                state = Meeting([0] * len(inputs))
                for place, below in enumerate(inputs):
                    yield self._fed((plan, place), "union", UnionInputOperator(state, place), below, user)
            case QueryOutput():
                raise AssertionError("a query that reads another query must be inlined before it is built")

    def _check_tables(self, plan: Plan) -> None:
        for one in walk(plan):
            if isinstance(one, TableJoin) and one.table.name.lower() not in self._tables:
                hint = nearest(one.table.name, self._tables)
                raise InvalidInput("the table has not been loaded", "table", one.table.name, hint)

    def _source(self, stream: StreamSchema) -> QueuedOperator:
        lateness = stream.lateness_us // stream.time_unit_us
        operator = SourceOperator(stream.time, lateness)
        node = QueuedOperator(
            ("source", stream),
            f"source:{stream.name}",
            operator,
            source=True,
            stream=stream.name.lower(),
        )
        self._place(node)
        self._sources[stream.name.lower()] = node
        return node

    def _place(self, node: QueuedOperator) -> None:
        node.holding.enter(self.account)
        self.nodes.append(node)

    def _fed(self, key: Hashable, name: str, operator: Operator, below: Plan, user: str) -> QueuedOperator:
        """Add a new operator that reads the output of the plan `below`; build the operators of `below` if they are missing."""
        feeders = self._build(below, user)
        node = QueuedOperator(key, name, operator)
        self._place(node)
        for feeder in feeders:
            join_up(feeder, node)
        return node

    def _windows(self, plan: WindowAggregate, window: TimeWindow, user: str) -> QueuedOperator:
        time = time_of(plan.input)
        store, schedule, panes = self._panes(plan, window, time, user)
        kind = PeriodicWindowOperator if window.at_most else WindowOperator
        operator = kind(store, schedule, plan, time.unit_us, taken_upto(panes))
        node = QueuedOperator(plan, "window:at most" if window.at_most else "window", operator)
        self._place(node)
        join_up(panes, node)
        return node

    def _row_windows(self, plan: WindowAggregate, user: str) -> QueuedOperator:
        numbered = next(node for node in walk(plan.input) if isinstance(node, Numbered))
        numbers = self._build(numbered, user)[0].operator
        assert isinstance(numbers, NumberOperator)
        return self._fed(plan, "rows", RowWindowOperator(plan, numbers.total), plan.input, user)

    def _panes(
        self, plan: WindowAggregate, window: TimeWindow, time: EventTime, user: str
    ) -> tuple[PaneStore, WindowSchedule, QueuedOperator]:
        """Return a store of panes from which the window can be combined: an existing store that fits, otherwise a new store."""
        below, key = plan.input, (plan.input, plan.keys)
        range_, slide = window.range_us // time.unit_us, window.slide_us // time.unit_us
        pane = math.gcd(range_, slide)
        fitting = [one for one in self.stores.get(key, ()) if is_made_of(window, range_, slide, one[0].pane)]
        longest = max((store.pane for store, _, _ in fitting), default=0)
        length = longest or math.gcd(pane, self._common_panes.get(key, 0) // time.unit_us)
        length = self._pane_lengths.setdefault(plan, length)
        for store, schedule, node in fitting:
            if store.pane == length:
                return store, schedule, node
        types = [below.schema.fields[place].type for place in plan.keys]
        store = PaneStore(length, time.place, plan.keys, types)
        node = self._fed(("panes", key, length), "panes", PaneOperator(store), below, user)
        schedule = WindowSchedule(store, self._windows_as)
        self.stores.setdefault(key, []).append((store, schedule, node))
        return store, schedule, node

    def _window_join(self, plan: WindowJoin, user: str) -> Sequence[QueuedOperator]:
        """Build a join of two windowed streams: two tuples are a pair if, at some window end, each is in the window of its side."""
        left, right = time_of(plan.left), time_of(plan.right)
        slide = math.lcm(plan.left_window.slide_us, plan.right_window.slide_us) // left.unit_us
        ranges = plan.left_window.range_us // left.unit_us, plan.right_window.range_us // left.unit_us
        places = left.place, len(plan.left.schema) + right.place
        condition = condition_of(plan.residual)

        def together(pairs: Train, failures: RowFailures) -> Mask:
            first, second = (pairs.columns[place].data for place in places)
            end = (np.maximum(first, second) // slide + 1) * slide
            seen: Mask = (end - ranges[0] <= first) & (end - ranges[1] <= second)
            if condition is not None:
                # The condition is computed only for pairs within the windows, so that no other pair can fail.
                chosen = np.flatnonzero(seen)
                seen[chosen] = condition(pairs.take(chosen), failures)
            return seen

        return self._sides(plan, -ranges[1], ranges[0], together, user)

    def _sides(
        self, plan: IntervalJoin | WindowJoin, low: int, high: int, test: Condition | None, user: str
    ) -> Sequence[QueuedOperator]:
        """Build the operators of both sides of a join of streams."""
        state = JoinState(plan, low, high)
        (left, left_columns), (right, right_columns) = picked(plan.left), picked(plan.right)
        one = JoinSideOperator(state, 0, test, left_columns)
        other = JoinSideOperator(state, 1, test, right_columns)
        return partners(
            self._fed((plan, 0), "join.left", one, left, user),
            self._fed((plan, 1), "join.right", other, right, user),
        )

    def _last_join(self, plan: LastJoin, user: str) -> Sequence[QueuedOperator]:
        state = LookUp(plan, condition_of(plan.residual))
        lookup = self._fed((plan, 0), "lookup", LookUpOperator(state), plan.left, user)
        self.lookups.append(lookup)
        return partners(lookup, self._fed((plan, 1), "last", LastRowsOperator(state), plan.right, user))


def taken_upto(panes: QueuedOperator) -> int:
    """Return the event time before which the sources of these panes have passed on tuples already; NO_PROGRESS without tuples."""
    time, stack = NO_PROGRESS, [panes]
    while stack:
        above = stack.pop()
        stack += above.upstream
        if isinstance(above.operator, SourceOperator) and above.operator.latest is not None:
            time = max(time, above.operator.latest + 1)
    return time


def partners(one: QueuedOperator, other: QueuedOperator) -> Sequence[QueuedOperator]:
    """Make two operators the two sides of a join, and return both."""
    one.partner, other.partner = other, one
    return one, other


def is_made_of(window: TimeWindow, range_: int, slide: int, pane: int) -> bool:
    """Return True if the window can be combined from panes of the length `pane`.

    A window with SLIDE AT MOST may slide by any number of panes, as long as a pane is no longer than SLIDE.
    """
    return range_ % pane == 0 and (slide >= pane if window.at_most else slide % pane == 0)


def picked(plan: Plan) -> tuple[Plan, tuple[int, ...] | None]:
    """Return the input of a projection that only picks columns, and their positions; such a projection needs no operator.

    Return any other plan unchanged, with None for the positions.
    """
    if isinstance(plan, Project) and not isinstance(plan.input, Filter):
        places = plain_columns(plan.expressions)
        if places is not None:
            return plan.input, places
    return plan, None


def condition_of(expression: Expression) -> Condition | None:
    """Return the compiled residual condition, which a join tests on each pair; None if the condition is always true."""
    return None if expression == TRUE else compile_condition(expression)


def common_panes(plans: Iterable[Plan]) -> dict[Hashable, int]:
    """Return, for each input and its group keys, the longest pane length that fits all windows over that input and these keys."""
    lengths: dict[Hashable, int] = {}
    for whole in plans:
        for plan in walk(whole):
            if isinstance(plan, WindowAggregate) and isinstance(plan.window, TimeWindow):
                key = (plan.input, plan.keys)
                pane = math.gcd(plan.window.range_us, plan.window.slide_us)
                lengths[key] = math.gcd(lengths.get(key, 0), pane)
    return lengths
