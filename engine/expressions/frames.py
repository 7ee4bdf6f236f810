"""What an expression's parts are compiled into: nodes, evaluated over frames.

Frame      one train under evaluation, with the rows that have failed so far
Node       a constant, or what gives a column of a frame: `(data, valid)`, where valid is None if nothing is NULL
folded     a function of constants as the constant it is
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from engine.data.schema import DataType, TypeKind
from engine.data.train import Mask, Train


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


class CompiledTerm:
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


def constant_node(type_: DataType, value: Any) -> CompiledTerm:
    """A constant, held as kernels want it: text as str, everything else as a numpy scalar."""
    if value is None:
        return CompiledTerm(type_)
    return CompiledTerm(type_, value=str(value) if type_.kind is TypeKind.STRING else type_.numpy.type(value))


def blank(type_: DataType) -> Any:
    """Some value, to stand under a NULL."""
    return "" if type_.kind is TypeKind.STRING else type_.numpy.type(0)


def broadcast(type_: DataType, value: Any) -> Run:
    """A constant as a column."""
    datum = blank(type_) if value is None else value

    def run(frame: Frame) -> Computed:
        valid = np.zeros(frame.rows, bool) if value is None else None
        return full(type_, datum, frame.rows), valid

    return run


def full(type_: DataType, datum: Any, rows: int) -> Any:
    if type_.kind is TypeKind.STRING:
        return pa.repeat(pa.scalar(datum, pa.string()), rows)
    return np.full(rows, datum, type_.numpy)


def failing_node(type_: DataType, reason: str) -> CompiledTerm:
    """A constant that cannot be computed: it fails every row that needs it."""
    null = broadcast(type_, None)

    def run(frame: Frame) -> Computed:
        frame.fail(np.ones(frame.rows, bool), reason)
        return null(frame)

    return CompiledTerm(type_, run, fails=True)


def null_node(type_: DataType, arguments: Sequence[CompiledTerm]) -> CompiledTerm:
    """What is NULL whatever the arguments are; these may still fail rows."""
    failing = [node for node in arguments if node.fails]
    if not failing:
        return CompiledTerm(type_)
    null = broadcast(type_, None)

    def run(frame: Frame) -> Computed:
        for node in failing:
            node.run(frame)
        return null(frame)

    return CompiledTerm(type_, run, fails=True)


def column_node(place: int, type_: DataType) -> CompiledTerm:
    def run(frame: Frame) -> Computed:
        column = frame.columns[place]
        return column.data, column.valid

    return CompiledTerm(type_, run)


ONE_ROW = Train((), np.zeros(1))


def folded(node: CompiledTerm, parts: Sequence[CompiledTerm]) -> CompiledTerm:
    """A function of constants as the constant it is."""
    if not all(part.constant for part in parts):
        return node
    frame = Frame(ONE_ROW, 0)
    with np.errstate(all="ignore"):
        data, valid = node.run(frame)
    if frame.failed:
        return failing_node(node.type, frame.failed[0][1])
    if valid is not None and not valid[0]:
        return CompiledTerm(node.type)
    return constant_node(node.type, data[0].as_py() if node.type.kind is TypeKind.STRING else data[0])
