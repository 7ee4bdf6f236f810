"""Compiled terms of expressions, and the frames in which they are evaluated.

A `CompiledTerm` is a constant, or a function from a frame to a column `(data, valid)`; None for `valid` means no NULLs.
A `Frame` is one train during evaluation, with the rows that have failed already.
`folded` replaces a call with only constant arguments by its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from engine.data.schema import DataType, TypeKind
from engine.data.train import Mask, Train


class Frame:
    """One train during evaluation, with shared results and failed rows."""

    __slots__ = ("columns", "failed", "guard", "rows", "shared")

    def __init__(self, train: Train, slots: int) -> None:
        self.columns = train.columns
        self.rows = len(train.arrival)
        self.shared: list[Any] = [None] * slots
        # Mask of the rows that need the part of an expression that is being computed; None if all rows need this part.
        self.guard: Mask | None = None
        self.failed: list[tuple[Mask, str]] = []

    def fail(self, bad: Mask, reason: str) -> None:
        if self.guard is not None:
            bad = bad & self.guard
        if bad.any():
            self.failed.append((bad, reason))


Computed = tuple[Any, Mask | None]
Run = Callable[[Frame], Computed]


class CompiledTerm:
    """Compiled part of an expression: a constant (None means NULL), or a function from a frame to a column."""

    __slots__ = ("constant", "fails", "run", "type", "value")

    def __init__(
        self, type_: DataType, run: Run | None = None, value: Any = None, fails: bool = False
    ) -> None:
        self.type = type_
        self.constant = run is None
        self.value = value
        self.fails = fails  # True if rows may fail while the term is computed
        self.run: Run = run or broadcast(type_, value)

    @property
    def is_null(self) -> bool:
        return self.constant and self.value is None

    def within(self, frame: Frame, needed: Mask) -> Computed:
        """Return the values, and count failures only in the rows that need the values."""
        if not self.fails:
            return self.run(frame)
        outer = frame.guard
        frame.guard = needed if outer is None else outer & needed
        computed = self.run(frame)
        frame.guard = outer
        return computed


def constant_node(type_: DataType, value: Any) -> CompiledTerm:
    """Return a compiled term for a constant, in the form that kernels take: text as str, other values as numpy scalars."""
    if value is None:
        return CompiledTerm(type_)
    return CompiledTerm(type_, value=str(value) if type_.kind is TypeKind.STRING else type_.numpy.type(value))


def blank(type_: DataType) -> Any:
    """Return an arbitrary value of the type, which stands in the data of a column where the value is NULL."""
    return "" if type_.kind is TypeKind.STRING else type_.numpy.type(0)


def broadcast(type_: DataType, value: Any) -> Run:
    """Return a function that makes a column with one constant in all rows."""
    datum = blank(type_) if value is None else value

    def run(frame: Frame) -> Computed:
        valid = np.zeros(frame.rows, bool) if value is None else None
        if type_.kind is TypeKind.STRING:
            return pa.repeat(pa.scalar(datum, pa.string()), frame.rows), valid
        return np.full(frame.rows, datum, type_.numpy), valid

    return run


def failing_node(type_: DataType, reason: str) -> CompiledTerm:
    """Return a compiled term for a constant that cannot be computed; every row that needs the constant fails."""
    null = broadcast(type_, None)

    def run(frame: Frame) -> Computed:
        frame.fail(np.ones(frame.rows, bool), reason)
        return null(frame)

    return CompiledTerm(type_, run, fails=True)


def null_node(type_: DataType, arguments: Sequence[CompiledTerm]) -> CompiledTerm:
    """Return a compiled term that is always NULL; rows in which an argument fails still count as failed."""
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
    """Return the compiled term `node`, or its value as a constant term if all arguments (`parts`) are constants."""
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
