"""Compiles expressions into closures over trains.

An expression is compiled once, when its query is planned: functions become kernels (`engine/expressions/kernels/`), constant
parts are computed, and equal parts are found. Per train, only a few calls on whole columns remain.

    value of an expression  (data, valid): a numpy array, or an Arrow array of text; None for `valid` means no NULLs
    constants               remain scalars until a kernel needs a column
    equal parts             are computed once per train and projection
    functions               are in `strict_functions.py` if they are NULL where an argument is, else in `lenient_functions.py`
    rows that fail          get the value NULL, and are listed in `RowFailures` with the reason; the caller drops them

Some parts are not needed for each row: branches of CASE not taken, and operands after a FALSE in AND, a TRUE in OR, a
value in COALESCE or a match in IN. Such parts are computed for all rows, because that is cheaper than selecting rows. A part
cannot fail rows that do not need it: the mask `guard` marks the rows that need the part, and failures count only in these rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from engine.data.schema import BOOLEAN, DataType
from engine.data.train import Mask, Train, Values
from engine.expressions.frames import (
    CompiledTerm,
    Computed,
    Frame,
    column_node,
    constant_node,
    folded,
    null_node,
)
from engine.expressions.kernels import arithmetic, comparison, logic, strings, times
from engine.expressions.kernels.casts import build_cast
from engine.expressions.kernels.kernel import Argument, Build, Kernel
from engine.expressions.lenient_functions import (
    case,
    coalesce,
    concat,
    conjunction,
    disjunction,
    null_test,
    nullif,
)
from engine.expressions.strict_functions import binary, checked, gathering, plain
from engine.plan.plan import Call, Case, Cast, Column, Expression, Literal

BUILDERS: dict[str, Build] = {
    **arithmetic.BUILDERS,
    **comparison.BUILDERS,
    **strings.BUILDERS,
    **times.BUILDERS,
}


class RowFailures:
    """Rows of a train that failed; each row is counted with the reason of its first failure."""

    __slots__ = ("counts", "rows")

    def __init__(self) -> None:
        self.rows: Mask | None = None
        """Mask of the failed rows; None if no row failed."""
        self.counts: dict[str, int] = {}
        """Number of failed rows by reason."""

    def add(self, rows: Mask, reason: str) -> None:
        """Add failed rows; a row that failed before keeps its first reason."""
        if self.rows is not None:
            rows = rows & ~self.rows
        count = int(np.count_nonzero(rows))
        if count:
            self.counts[reason] = self.counts.get(reason, 0) + count
        self.rows = rows if self.rows is None else self.rows | rows


Projection = Callable[[Train, RowFailures], tuple[Values, ...]]
Condition = Callable[[Train, RowFailures], Mask]


def compile_projection(expressions: Sequence[Expression]) -> Projection:
    """Compile expressions over one input into a function of trains that returns one column per expression."""
    compiler = Compiler(expressions)
    columns = [(expression.type, compiler.compile(expression).run) for expression in expressions]
    slots, quiet = compiler.slots, not compiler.noisy

    def project(train: Train, failures: RowFailures) -> tuple[Values, ...]:
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
    """Compile a boolean expression into a function of trains that returns a mask: the rows where the expression is true and did not fail."""
    compiler = Compiler([condition])
    run = compiler.compile(condition).run
    slots, quiet = compiler.slots, not compiler.noisy

    def select(train: Train, failures: RowFailures) -> Mask:
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


class Compiler:
    """Compiler for the expressions of one projection."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self.slots = 0
        self.noisy = False
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._uses: Counter[int] = Counter()
        self._nodes: dict[int, CompiledTerm] = {}
        self._known: dict[int, tuple[Expression, int]] = {}
        self._uses.update(map(self._number, expressions))

    def _number(self, expression: Expression) -> int:
        """Return the number of an expression, and count the uses of the expression and of its parts; equal expressions have one number."""
        known = self._known.get(id(expression))
        if known is not None:
            return known[1]
        parts: list[int] = []
        key: tuple[Any, ...]
        # The key uses repr, because 0.0 == −0.0 and True == 1 in Python, but CASTs of these values to text differ.
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
        # The expression is kept alive: after it was freed, another expression could get the same id.
        self._known[id(expression)] = expression, number
        return number

    def compile(self, expression: Expression) -> CompiledTerm:
        number = self._number(expression)
        node = self._nodes.get(number)
        if node is None:
            node = self._compiled(expression)
            if self._uses[number] > 1 and not isinstance(expression, Column):
                node = self._share(node)
            self._nodes[number] = node
        return node

    def _share(self, node: CompiledTerm) -> CompiledTerm:
        """Return a compiled term that computes the expression once per train, and uses this result wherever the expression occurs."""
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

            return CompiledTerm(node.type, once)

        def once_with_failures(frame: Frame) -> Computed:
            result: tuple[Computed, list[tuple[Mask, str]]] | None = frame.shared[slot]
            if result is None:
                # Uses of a shared expression may need different rows, so failures are first collected for all rows.
                guard, failed = frame.guard, frame.failed
                frame.guard, frame.failed = None, []
                result = frame.shared[slot] = run(frame), frame.failed
                frame.guard, frame.failed = guard, failed
            for bad, reason in result[1]:
                frame.fail(bad, reason)
            return result[0]

        return CompiledTerm(node.type, once_with_failures, fails=True)

    def _compiled(self, expression: Expression) -> CompiledTerm:
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
                return self._call(function, type_, [self.compile(operand) for operand in arguments])

    def _cast(self, node: CompiledTerm, type_: DataType, try_: bool = False) -> CompiledTerm:
        if node.type == type_:
            return node
        return self._strict(type_, [node], lambda arguments, _: build_cast(arguments[0].type, type_), try_)

    def _call(self, function: str, type_: DataType, nodes: list[CompiledTerm]) -> CompiledTerm:
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

    def _in(self, value: CompiledTerm, items: list[CompiledTerm]) -> CompiledTerm:
        value = self._share(value)
        constants = [item.value for item in items if item.constant and not item.is_null]
        tests = [item for item in items if item.is_null][:1]
        if constants:
            tests.append(
                self._strict(BOOLEAN, [value], lambda *_: comparison.build_membership(value.type, constants))
            )
        tests += [
            self._strict(BOOLEAN, [value, item], BUILDERS["equal"]) for item in items if not item.constant
        ]
        return disjunction([CompiledTerm(BOOLEAN) if test.is_null else test for test in tests])

    def _extreme(self, type_: DataType, nodes: list[CompiledTerm], greatest: bool) -> CompiledTerm:
        nodes = [node for node in nodes if not node.is_null]
        if not nodes:
            return CompiledTerm(type_)
        name = "greater" if greatest else "less"
        before = BUILDERS[name]([Argument(type_), Argument(type_)], BOOLEAN).apply

        def run(frame: Frame) -> Computed:
            data, valid = nodes[0].run(frame)
            for node in nodes[1:]:
                other, other_valid = node.run(frame)
                other_first = before(other, data)
                # A value is always chosen over NULL, whichever of the two comes first.
                if other_valid is not None:
                    other_first &= other_valid
                if valid is not None:
                    other_first |= ~valid
                data = logic.choose(type_, other_first, other, data)
                valid = None if valid is None or other_valid is None else valid | other_valid
            return data, valid

        return folded(CompiledTerm(type_, run, fails=any(node.fails for node in nodes)), nodes)

    def _strict(
        self, type_: DataType, nodes: Sequence[CompiledTerm], build: Build, try_: bool = False
    ) -> CompiledTerm:
        """Return a call of a function that is NULL where any argument is NULL."""
        if any(node.is_null for node in nodes):
            return null_node(type_, nodes)
        constant = all(node.constant for node in nodes)
        # Kernels need a column: if all arguments are constants, the first argument becomes a column of one row.
        # `folded` then turns the result, a column of one row, into a constant again.
        arguments = [
            Argument(node.type, node.constant and not (constant and place == 0), node.value)
            for place, node in enumerate(nodes)
        ]
        kernel = build(arguments, type_)
        self.noisy = self.noisy or (kernel.noisy and not constant)
        gather = gathering(nodes, arguments)
        if kernel.reason:
            node = CompiledTerm(
                type_,
                checked(gather, kernel, try_),
                fails=not try_ or any(node_in.fails for node_in in nodes),
            )
        else:
            run = binary(nodes, kernel) if len(nodes) == 2 and not constant else plain(gather, kernel)
            node = CompiledTerm(type_, run, fails=any(node_in.fails for node_in in nodes))
        return folded(node, nodes)
