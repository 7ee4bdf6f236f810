"""Expressions compiled into closures over trains.

An expression is compiled once, when its query is planned: names become kernels (`engine/kernels/`), what does not
depend on the row is computed, equal parts are found. What is left per train is a few calls on whole columns.

    value of a part      (data, valid): a numpy array, or an Arrow array of text; valid is None where nothing is NULL
    constants            stay scalars until something needs a column
    equal parts          of one projection are computed once per train
    rows that fail       have NULL for a value, and stand in `Failures` with the reason; the caller drops them

A part that is not needed for a row (a branch of CASE not taken, what follows a FALSE in AND, a TRUE in OR, a value in
COALESCE, the right one in IN) is computed for it all the same, as that is cheaper than picking rows, but it cannot
fail it: failures count only within the `guard`, the rows for which the part is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.kernels import arithmetic, comparison, logic, strings, times
from engine.kernels.casts import build_cast
from engine.kernels.kernel import Argument, Build, Kernel
from engine.plan import Call, Case, Cast, Column, Expression, Literal
from engine.schema import BOOLEAN, STRING, DataType, Kind
from engine.train import Mask, Train, Values

BUILDERS: dict[str, Build] = {
    **arithmetic.BUILDERS,
    **comparison.BUILDERS,
    **strings.BUILDERS,
    **times.BUILDERS,
}


class Failures:
    """The rows of a train that failed, each with the first reason it failed for."""

    __slots__ = ("_counts", "_rows")

    def __init__(self) -> None:
        self._rows: Mask | None = None
        self._counts: dict[str, int] = {}

    def add(self, rows: Mask, reason: str) -> None:
        """Rows that failed; those that had failed before keep their first reason."""
        if self._rows is None:
            self._rows = rows.copy()
            count = int(np.count_nonzero(rows))
        else:
            before = int(np.count_nonzero(self._rows))
            self._rows |= rows
            count = int(np.count_nonzero(self._rows)) - before
        if count:
            self._counts[reason] = self._counts.get(reason, 0) + count

    def rows(self) -> Mask | None:
        """Which rows failed; None if none did."""
        return self._rows

    def counts(self) -> dict[str, int]:
        """How many rows failed for each reason."""
        return dict(self._counts)


Projection = Callable[[Train, Failures], tuple[Values, ...]]
Condition = Callable[[Train, Failures], Mask]


def compile_projection(expressions: Sequence[Expression]) -> Projection:
    """Expressions over one input as a function of trains; the columns have the expressions' types."""
    compiler = Compiler(expressions)
    columns = [(one.type, compiler.compile(one).run) for one in expressions]
    slots, quiet = compiler.slots, not compiler.noisy

    def project(train: Train, failures: Failures) -> tuple[Values, ...]:
        frame = Frame(train, slots)
        if quiet:
            result = tuple([Values(type_, *run(frame)) for type_, run in columns])
        else:
            with np.errstate(all="ignore"):
                result = tuple([Values(type_, *run(frame)) for type_, run in columns])
        for bad, reason in frame.failed:
            failures.add(bad, reason)
        return result

    return project


def compile_condition(condition: Expression) -> Condition:
    """A boolean expression as a function of trains: the rows for which it is true and has not failed."""
    compiler = Compiler([condition])
    run = compiler.compile(condition).run
    slots, quiet = compiler.slots, not compiler.noisy

    def select(train: Train, failures: Failures) -> Mask:
        frame = Frame(train, slots)
        if quiet:
            data, valid = run(frame)
        else:
            with np.errstate(all="ignore"):
                data, valid = run(frame)
        if valid is not None:
            data = data & valid
        for bad, reason in frame.failed:
            failures.add(bad, reason)
            data = data & ~bad
        return cast(Mask, data)

    return select


# --- evaluation -----------------------------------------------------------------------------------------


class Frame:
    """One train under evaluation."""

    __slots__ = ("columns", "failed", "guard", "rows", "shared")

    def __init__(self, train: Train, slots: int) -> None:
        self.columns = train.columns
        self.rows = len(train.arrival)
        self.shared: list[Any] = [None] * slots
        self.guard: Mask | None = None  # the rows for which what is computed now is needed; None for all
        self.failed: list[tuple[Mask, str]] = []

    def fail(self, bad: Mask, reason: str) -> None:
        if self.guard is not None:
            bad = bad & self.guard
        if bad.any():
            self.failed.append((bad, reason))


Computed = tuple[Any, Mask | None]
Run = Callable[[Frame], Computed]


class Node:
    """A compiled part: a constant (None is NULL), or what gives a column of a frame."""

    __slots__ = ("constant", "fails", "run", "type", "value")

    def __init__(
        self, type_: DataType, run: Run | None = None, value: Any = None, fails: bool = False
    ) -> None:
        self.type = type_
        self.constant = run is None
        self.value = value
        self.fails = fails  # whether it may fail rows
        self.run: Run = run or broadcast(type_, value)

    @property
    def is_null(self) -> bool:
        return self.constant and self.value is None

    def within(self, frame: Frame, needed: Mask) -> Computed:
        """Its values, where only some rows need them."""
        if not self.fails:
            return self.run(frame)
        outer = frame.guard
        frame.guard = needed if outer is None else outer & needed
        computed = self.run(frame)
        frame.guard = outer
        return computed


def constant_node(type_: DataType, value: Any) -> Node:
    """A constant, held as kernels want it: text as str, everything else as a numpy scalar."""
    if value is None:
        return Node(type_)
    return Node(type_, value=str(value) if type_.kind is Kind.STRING else type_.numpy.type(value))


def blank(type_: DataType) -> Any:
    """Some value, to stand under a NULL."""
    return "" if type_.kind is Kind.STRING else type_.numpy.type(0)


def broadcast(type_: DataType, value: Any) -> Run:
    """A constant as a column."""
    datum = blank(type_) if value is None else value

    def run(frame: Frame) -> Computed:
        valid = np.zeros(frame.rows, bool) if value is None else None
        return full(type_, datum, frame.rows), valid

    return run


def full(type_: DataType, datum: Any, rows: int) -> Any:
    if type_.kind is Kind.STRING:
        return pa.repeat(pa.scalar(datum, pa.string()), rows)
    return np.full(rows, datum, type_.numpy)


def failing_node(type_: DataType, reason: str) -> Node:
    """A constant that cannot be computed: it fails every row that needs it."""
    null = broadcast(type_, None)

    def run(frame: Frame) -> Computed:
        frame.fail(np.ones(frame.rows, bool), reason)
        return null(frame)

    return Node(type_, run, fails=True)


def null_node(type_: DataType, arguments: Sequence[Node]) -> Node:
    """What is NULL whatever the arguments are; these may still fail rows."""
    failing = [node for node in arguments if node.fails]
    if not failing:
        return Node(type_)
    null = broadcast(type_, None)

    def run(frame: Frame) -> Computed:
        for node in failing:
            node.run(frame)
        return null(frame)

    return Node(type_, run, fails=True)


def column_node(place: int, type_: DataType) -> Node:
    def run(frame: Frame) -> Computed:
        column = frame.columns[place]
        return column.data, column.valid

    return Node(type_, run)


# --- compilation ----------------------------------------------------------------------------------------


class Compiler:
    """Compiles the expressions of one projection."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self.slots = 0
        self.noisy = False
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._uses: Counter[int] = Counter()
        self._nodes: dict[int, Node] = {}
        self._known: dict[int, tuple[Expression, int]] = {}
        self._uses.update(map(self._number, expressions))

    def _number(self, expression: Expression) -> int:
        """The same number for equal expressions; counts where each is used."""
        known = self._known.get(id(expression))
        if known is not None:
            return known[1]
        parts: list[int] = []
        key: tuple[Any, ...]
        # Expressions do not tell 0.0 from −0.0 nor True from 1, which CAST to text does.
        match expression:
            case Literal(value, type_):
                key = ("literal", type_, repr(value))
            case Column(place, type_):
                key = ("column", type_, place)
            case Call(function, arguments, type_):
                parts = list(map(self._number, arguments))
                key = ("call", type_, function, *parts)
            case Cast(argument, type_, try_):
                parts = [self._number(argument)]
                key = ("cast", type_, try_, *parts)
            case Case(branches, otherwise, type_):
                parts = [self._number(part) for branch in branches for part in branch]
                parts.append(self._number(otherwise))
                key = ("case", type_, *parts)
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self._uses.update(parts)
        number = self._numbers[key]
        # With the expression, lest it goes and another takes its id.
        self._known[id(expression)] = expression, number
        return number

    def compile(self, expression: Expression) -> Node:
        number = self._number(expression)
        node = self._nodes.get(number)
        if node is None:
            node = self._compiled(expression)
            if self._uses[number] > 1 and not isinstance(expression, Column):
                node = self._share(node)
            self._nodes[number] = node
        return node

    def _share(self, node: Node) -> Node:
        """A part that is computed once per train and used more than once."""
        if node.constant:
            return node
        slot, run = self.slots, node.run
        self.slots += 1
        if not node.fails:

            def once(frame: Frame) -> Computed:
                computed: Computed | None = frame.shared[slot]
                if computed is None:
                    computed = frame.shared[slot] = run(frame)
                return computed

            return Node(node.type, once)

        def once_with_failures(frame: Frame) -> Computed:
            found = frame.shared[slot]
            if found is None:
                # Each use has its own guard, so its failures are first found without any.
                guard, failed = frame.guard, frame.failed
                frame.guard, frame.failed = None, []
                found = frame.shared[slot] = run(frame), frame.failed
                frame.guard, frame.failed = guard, failed
            for bad, reason in found[1]:
                frame.fail(bad, reason)
            return found[0]  # type: ignore[no-any-return]

        return Node(node.type, once_with_failures, fails=True)

    def _compiled(self, expression: Expression) -> Node:
        match expression:
            case Literal(value, type_):
                return constant_node(type_, value)
            case Column(place, type_):
                return column_node(place, type_)
            case Cast(argument, type_, try_):
                return self._cast(self.compile(argument), type_, try_)
            case Case(branches, otherwise, type_):
                pairs = [(self.compile(condition), self.compile(value)) for condition, value in branches]
                return case(type_, pairs, self.compile(otherwise))
            case Call(function, arguments, type_):
                return self._call(function, type_, [self.compile(one) for one in arguments])

    def _cast(self, node: Node, type_: DataType, try_: bool = False) -> Node:
        if node.type == type_:
            return node
        return self._strict(type_, [node], lambda arguments, _: build_cast(arguments[0].type, type_), try_)

    def _call(self, function: str, type_: DataType, nodes: list[Node]) -> Node:
        match function:
            case "and":
                return conjunction(nodes)
            case "or":
                return disjunction(nodes)
            case "not":
                return self._strict(type_, nodes, lambda *_: Kernel(np.logical_not))
            case "is_null" | "is_not_null":
                return null_test(nodes[0], function == "is_null")
            case "coalesce":
                return coalesce(type_, nodes)
            case "nullif":
                first = self._share(nodes[0])
                same = self._cast(first, nodes[1].type)
                return nullif(first, self._strict(BOOLEAN, [same, nodes[1]], BUILDERS["equal"]))
            case "in":
                return self._in(nodes[0], nodes[1:])
            case "greatest" | "least":
                return self._extreme(type_, nodes, function == "greatest")
            case "concat":
                return concat(nodes)
        return self._strict(type_, nodes, BUILDERS[function])

    def _in(self, value: Node, items: list[Node]) -> Node:
        value = self._share(value)
        constants = [item.value for item in items if item.constant and not item.is_null]
        found = [item for item in items if item.is_null][:1]
        if constants:
            found.append(
                self._strict(BOOLEAN, [value], lambda *_: comparison.build_membership(value.type, constants))
            )
        found += [
            self._strict(BOOLEAN, [value, item], BUILDERS["equal"]) for item in items if not item.constant
        ]
        return disjunction([Node(BOOLEAN) if one.is_null else one for one in found])

    def _extreme(self, type_: DataType, nodes: list[Node], greatest: bool) -> Node:
        nodes = [node for node in nodes if not node.is_null]
        if not nodes:
            return Node(type_)
        name = "greater" if greatest else "less"
        before = BUILDERS[name]([Argument(type_), Argument(type_)], BOOLEAN).apply

        def run(frame: Frame) -> Computed:
            data, valid = nodes[0].run(frame)
            for node in nodes[1:]:
                other, other_valid = node.run(frame)
                other_first = before(other, data)
                # A NULL never comes first, and everything comes before it.
                if other_valid is not None:
                    other_first &= other_valid
                if valid is not None:
                    other_first |= ~valid
                data = logic.choose(type_, other_first, other, data)
                valid = None if valid is None or other_valid is None else valid | other_valid
            return data, valid

        return folded(Node(type_, run, fails=any(node.fails for node in nodes)), nodes)

    def _strict(self, type_: DataType, nodes: Sequence[Node], build: Build, try_: bool = False) -> Node:
        """A function that is NULL where any argument is."""
        if any(node.is_null for node in nodes):
            return null_node(type_, nodes)
        constant = all(node.constant for node in nodes)
        # Kernels want a column: of constants, the first is made one, and the result is taken back out.
        arguments = [
            Argument(node.type, node.constant and not (constant and place == 0), node.value)
            for place, node in enumerate(nodes)
        ]
        kernel = build(arguments, type_)
        self.noisy = self.noisy or (kernel.noisy and not constant)
        gather = gathering(nodes, arguments)
        if kernel.reason:
            node = Node(
                type_, checked(gather, kernel, try_), fails=not try_ or any(one.fails for one in nodes)
            )
        else:
            run = binary(nodes, kernel) if len(nodes) == 2 and not constant else plain(gather, kernel)
            node = Node(type_, run, fails=any(one.fails for one in nodes))
        return folded(node, nodes)


# --- functions that are NULL where an argument is -----------------------------------------------------------

Gather = Callable[[Frame], tuple[list[Any], Mask | None]]


def gathering(nodes: Sequence[Node], arguments: Sequence[Argument]) -> Gather:
    """The arguments of a kernel, constants as they are, and where all are valid."""
    if len(nodes) == 1:
        run = nodes[0].run

        def gather_one(frame: Frame) -> tuple[list[Any], Mask | None]:
            data, valid = run(frame)
            return [data], valid

        return gather_one
    columns = [(place, node.run) for place, node in enumerate(nodes) if not arguments[place].constant]
    values = [argument.value for argument in arguments]

    def gather(frame: Frame) -> tuple[list[Any], Mask | None]:
        gathered, valid = values.copy(), None
        for place, run in columns:
            gathered[place], other = run(frame)
            if other is not None:
                valid = other if valid is None else valid & other
        return gathered, valid

    return gather


def plain(gather: Gather, kernel: Kernel) -> Run:
    apply = kernel.apply

    def run(frame: Frame) -> Computed:
        arguments, valid = gather(frame)
        return apply(*arguments), valid

    return run


def binary(nodes: Sequence[Node], kernel: Kernel) -> Run:
    """The commonest shape, with nothing in its way."""
    apply = kernel.apply
    left, right = nodes
    left_run, right_run, left_value, right_value = left.run, right.run, left.value, right.value

    def with_constant(frame: Frame) -> Computed:
        data, valid = left_run(frame)
        return apply(data, right_value), valid

    def of_constant(frame: Frame) -> Computed:
        data, valid = right_run(frame)
        return apply(left_value, data), valid

    def of_columns(frame: Frame) -> Computed:
        data, valid = left_run(frame)
        other, other_valid = right_run(frame)
        if other_valid is not None:
            valid = other_valid if valid is None else valid & other_valid
        return apply(data, other), valid

    return with_constant if right.constant else of_constant if left.constant else of_columns


def checked(gather: Gather, kernel: Kernel, try_: bool) -> Run:
    apply, reason = kernel.apply, kernel.reason

    def run(frame: Frame) -> Computed:
        arguments, valid = gather(frame)
        data, nulls, bad = apply(*arguments)
        if bad is not None:
            if not try_:
                frame.fail(bad if valid is None else bad & valid, reason)
            nulls = bad if nulls is None else nulls | bad
        if nulls is not None:
            valid = ~nulls if valid is None else valid & ~nulls
        return data, valid

    return run


ONE_ROW = Train((), np.zeros(1))


def folded(node: Node, parts: Sequence[Node]) -> Node:
    """A function of constants as the constant it is."""
    if not all(part.constant for part in parts):
        return node
    frame = Frame(ONE_ROW, 0)
    with np.errstate(all="ignore"):
        data, valid = node.run(frame)
    if frame.failed:
        return failing_node(node.type, frame.failed[0][1])
    if valid is not None and not valid[0]:
        return Node(node.type)
    return constant_node(node.type, data[0].as_py() if node.type.kind is Kind.STRING else data[0])


# --- functions with their own way with NULL -----------------------------------------------------------------


def conjunction(nodes: Sequence[Node]) -> Node:
    return connected(nodes, False, logic.all_of, logic.surely_not)


def disjunction(nodes: Sequence[Node]) -> Node:
    return connected(nodes, True, logic.any_of, logic.surely)


def connected(
    nodes: Sequence[Node],
    decisive: bool,
    combine: Callable[[logic.Booleans, logic.Booleans], logic.Booleans],
    decided: Callable[[logic.Booleans], Mask],
) -> Node:
    """AND or OR; where one has the decisive value, those after it are not needed."""
    needed: list[Node] = []
    for node in nodes:
        needed.append(node)
        if node.constant and not node.is_null and node.value == decisive:
            if not any(one.fails for one in needed):
                return node
            break
    unknown = any(node.is_null for node in needed)
    # A constant is neutral here, but for a decisive one at the end.
    columns = [node for node in needed if not node.constant or node.value == decisive]
    if not columns:
        return Node(BOOLEAN) if unknown else constant_node(BOOLEAN, not decisive)
    if len(columns) == 1 and not unknown:
        return columns[0]
    first, *others = columns

    def run(frame: Frame) -> Computed:
        column = first.run(frame)
        for other in others:
            if other.fails:
                column = combine(column, other.within(frame, ~decided(column)))
            else:
                column = combine(column, other.run(frame))
        return combine(column, NULL) if unknown else column

    return Node(BOOLEAN, run, fails=any(node.fails for node in columns))


NULL: Any = (np.False_, np.False_)
"""A NULL beside a boolean column."""


def null_test(node: Node, wanted: bool) -> Node:
    """IS NULL, IS NOT NULL."""
    if node.constant:
        return constant_node(BOOLEAN, node.is_null == wanted)

    def run(frame: Frame) -> Computed:
        _, valid = node.run(frame)
        if valid is None:
            return np.full(frame.rows, not wanted), None
        return ~valid if wanted else valid, None

    return Node(BOOLEAN, run, fails=node.fails)


def coalesce(type_: DataType, nodes: Sequence[Node]) -> Node:
    needed: list[Node] = []
    for node in nodes:
        if not node.is_null:
            needed.append(node)
            if node.constant:
                break
    if len(needed) < 2:
        return needed[0] if needed else Node(type_)
    first, *others = needed

    def run(frame: Frame) -> Computed:
        data, valid = first.run(frame)
        for node in others:
            if valid is None:
                break
            other, other_valid = branch(node, frame, ~valid)
            data = logic.choose(type_, valid, data, other)
            valid = logic.choose_valid(valid, None, other_valid)
        return data, valid

    return Node(type_, run, fails=any(node.fails for node in needed))


def branch(node: Node, frame: Frame, needed: Mask) -> tuple[Any, Mask | bool | None]:
    """A part that some rows need, for `logic.choose`: a constant stays one."""
    if not node.constant:
        return node.within(frame, needed)
    return (blank(node.type), False) if node.value is None else (node.value, None)


def nullif(first: Node, same: Node) -> Node:
    if same.constant:
        return Node(first.type) if same.value else first

    def run(frame: Frame) -> Computed:
        data, valid = first.run(frame)
        differs = ~logic.surely(same.run(frame))
        return data, differs if valid is None else valid & differs

    return Node(first.type, run, fails=first.fails or same.fails)


def case(type_: DataType, pairs: Sequence[tuple[Node, Node]], otherwise: Node) -> Node:
    """The value of the first branch whose condition is true."""
    branches: list[tuple[Node, Node]] = []
    for condition, value in pairs:
        if not condition.constant:
            branches.append((condition, value))
        elif condition.value:
            otherwise = value
            break
    if not branches:
        return otherwise

    def run(frame: Frame) -> Computed:
        chosen: list[tuple[Mask, Any, Mask | bool | None]] = []
        undecided: Mask | None = None
        for condition, value in branches:
            if undecided is None:
                taken = logic.surely(condition.run(frame))
                undecided = ~taken
            else:
                taken = logic.surely(condition.within(frame, undecided)) & undecided
                undecided = undecided & ~taken
            chosen.append((taken, *branch(value, frame, taken)))
        assert undecided is not None
        data, valid = branch(otherwise, frame, undecided)
        for taken, other, other_valid in reversed(chosen):
            data = logic.choose(type_, taken, other, data)
            valid = logic.choose_valid(taken, other_valid, valid)
        return data, valid  # type: ignore[return-value]

    parts = [otherwise, *(part for pair in branches for part in pair)]
    return Node(type_, run, fails=any(part.fails for part in parts))


def concat(nodes: Sequence[Node]) -> Node:
    """Text after text, NULLs passed over."""
    parts = [node for node in nodes if not node.is_null]
    if all(node.constant for node in parts):
        return constant_node(STRING, "".join(node.value for node in parts))

    def run(frame: Frame) -> Computed:
        texts: list[Any] = []
        for node in parts:
            if node.constant:
                texts.append(node.value)
                continue
            data, valid = node.run(frame)
            texts.append(data if valid is None else logic.choose(STRING, valid, data, ""))
        return pc.binary_join_element_wise(*texts, ""), None

    return Node(STRING, run, fails=any(node.fails for node in parts))
