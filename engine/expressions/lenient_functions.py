"""Functions that may return a value although an argument is NULL: AND, OR, IS NULL, COALESCE, NULLIF, CASE, CONCAT.

Some rows do not need all operands. An operand cannot fail a row that does not need it (`CompiledTerm.within`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from engine.data.schema import BOOLEAN, STRING, DataType
from engine.data.train import Mask
from engine.expressions.frames import CompiledTerm, Computed, Frame, blank, constant_node
from engine.expressions.kernels import logic


def conjunction(nodes: Sequence[CompiledTerm]) -> CompiledTerm:
    return connected(nodes, False, logic.all_of, logic.surely_not)


def disjunction(nodes: Sequence[CompiledTerm]) -> CompiledTerm:
    return connected(nodes, True, logic.any_of, logic.surely)


def connected(
    nodes: Sequence[CompiledTerm],
    decisive: bool,
    combine: Callable[[logic.Booleans, logic.Booleans], logic.Booleans],
    decided: Callable[[logic.Booleans], Mask],
) -> CompiledTerm:
    """Return a compiled term for AND or OR; `decisive` is the operand that decides the result: false for AND, true for OR.

    If an operand decides the result of a row, the row does not need the later operands.
    """
    needed: list[CompiledTerm] = []
    for node in nodes:
        needed.append(node)
        if node.constant and not node.is_null and node.value == decisive:
            if not any(one.fails for one in needed):
                return node
            break
    unknown = any(node.is_null for node in needed)
    # Constant operands are left out, except for a constant that decides the result: false in AND, true in OR.
    columns = [node for node in needed if not node.constant or node.value == decisive]
    if not columns:
        return CompiledTerm(BOOLEAN) if unknown else constant_node(BOOLEAN, not decisive)
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

    return CompiledTerm(BOOLEAN, run, fails=any(node.fails for node in columns))


NULL: Any = (np.False_, np.False_)
"""Value NULL in the form of a boolean column, to combine with another boolean column."""


def null_test(node: CompiledTerm, wanted: bool) -> CompiledTerm:
    """Return a compiled term for IS NULL if `wanted` is true, otherwise for IS NOT NULL."""
    if node.constant:
        return constant_node(BOOLEAN, node.is_null == wanted)

    def run(frame: Frame) -> Computed:
        _, valid = node.run(frame)
        if valid is None:
            return np.full(frame.rows, not wanted), None
        return ~valid if wanted else valid, None

    return CompiledTerm(BOOLEAN, run, fails=node.fails)


def coalesce(type_: DataType, nodes: Sequence[CompiledTerm]) -> CompiledTerm:
    needed: list[CompiledTerm] = []
    for node in nodes:
        if not node.is_null:
            needed.append(node)
            if node.constant:
                break
    if len(needed) < 2:
        return needed[0] if needed else CompiledTerm(type_)
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

    return CompiledTerm(type_, run, fails=any(node.fails for node in needed))


def branch(node: CompiledTerm, frame: Frame, needed: Mask) -> tuple[Any, Mask | bool | None]:
    """Return the data and mask of an operand that only some rows need, for `logic.choose`; a constant remains a scalar."""
    if not node.constant:
        return node.within(frame, needed)
    return (blank(node.type), False) if node.value is None else (node.value, None)


def nullif(first: CompiledTerm, same: CompiledTerm) -> CompiledTerm:
    if same.constant:
        return CompiledTerm(first.type) if same.value else first

    def run(frame: Frame) -> Computed:
        data, valid = first.run(frame)
        differs = ~logic.surely(same.run(frame))
        return data, differs if valid is None else valid & differs

    return CompiledTerm(first.type, run, fails=first.fails or same.fails)


def case(
    type_: DataType, pairs: Sequence[tuple[CompiledTerm, CompiledTerm]], otherwise: CompiledTerm
) -> CompiledTerm:
    """Return a compiled term for CASE: the value of the first branch with a true condition."""
    branches: list[tuple[CompiledTerm, CompiledTerm]] = []
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
        assert not isinstance(valid, bool)  # The mask `valid` is a bool only if all branches are constants
        return data, valid

    parts = [otherwise, *(part for pair in branches for part in pair)]
    return CompiledTerm(type_, run, fails=any(part.fails for part in parts))


def concat(nodes: Sequence[CompiledTerm]) -> CompiledTerm:
    """Return a compiled term that joins the texts of all operands except NULLs."""
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

    return CompiledTerm(STRING, run, fails=any(node.fails for node in parts))
