"""Comparison operators, and membership in a list of constants.

NaN equals itself and is greater than every number, unlike in IEEE 754, where every comparison with NaN is false. This rule
costs no extra time for <, <= and = with a constant, and one negation for the other operators with a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.data.schema import DataType, TypeKind
from engine.expressions.kernels.kernel import Argument, Array, Build, Kernel, Mask, mask_of

MIRRORED = {
    "equal": "equal",
    "not_equal": "not_equal",
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}
"""Operator that gives the same result as the named operator if its two operands are exchanged."""

LIST_SHORT = 6
"""Maximum number of constants for which comparing with each constant is faster than a sorted search."""


def build_comparison(name: str) -> Build:
    def build(arguments: Sequence[Argument], result: DataType) -> Kernel:
        left, right = arguments
        kind = left.type.kind
        if kind is TypeKind.STRING:
            return Kernel(strings(name, left, right))
        if not left.type.is_float:
            return Kernel(getattr(np, name))
        if right.constant:
            against = AGAINST_NAN[name] if np.isnan(right.value) else AGAINST_NUMBER[name]
            return Kernel(against)
        if left.constant:
            mirrored = MIRRORED[name]
            against = AGAINST_NAN[mirrored] if np.isnan(left.value) else AGAINST_NUMBER[mirrored]
            return Kernel(lambda value, values: against(values, value))
        return Kernel(FLOATS[name])

    return build


def strings(name: str, left: Argument, right: Argument) -> Callable[[Any, Any], Mask]:
    compare = getattr(pc, name)
    if right.constant:
        value = pa.scalar(right.value, pa.string())
        return lambda texts, _: mask_of(compare(texts, value))
    if left.constant:
        value = pa.scalar(left.value, pa.string())
        return lambda _, texts: mask_of(compare(value, texts))
    return lambda texts, others: mask_of(compare(texts, others))


def above(values: Array, value: Any) -> Mask:
    mask: Mask = np.less_equal(values, value)
    return np.logical_not(mask, mask)


def not_below(values: Array, value: Any) -> Mask:
    mask: Mask = np.less(values, value)
    return np.logical_not(mask, mask)


AGAINST_NUMBER: dict[str, Callable[[Array, Any], Mask]] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": above,
    "greater_equal": not_below,
}
AGAINST_NAN: dict[str, Callable[[Array, Any], Mask]] = {
    "equal": lambda values, _: np.isnan(values),
    "not_equal": lambda values, _: ~np.isnan(values),
    "less": lambda values, _: ~np.isnan(values),
    "less_equal": lambda values, _: np.ones(values.shape, bool),
    "greater": lambda values, _: np.zeros(values.shape, bool),
    "greater_equal": lambda values, _: np.isnan(values),
}


def equal_floats(left: Array, right: Array) -> Mask:
    mask = np.equal(left, right)
    nan = np.isnan(left)
    if nan.any():
        mask |= nan & np.isnan(right)
    return mask


def less_floats(left: Array, right: Array) -> Mask:
    mask = np.less(left, right)
    nan = np.isnan(right)
    if nan.any():
        mask |= nan & np.equal(left, left)
    return mask


FLOATS: dict[str, Callable[[Array, Array], Mask]] = {
    "equal": equal_floats,
    "not_equal": lambda left, right: ~equal_floats(left, right),
    "less": less_floats,
    "less_equal": lambda left, right: ~less_floats(right, left),
    "greater": lambda left, right: less_floats(right, left),
    "greater_equal": lambda left, right: ~less_floats(left, right),
}


def build_membership(type_: DataType, values: Sequence[Any]) -> Kernel:
    """Return a kernel that is true where a value is among the constants, none of which is NULL."""
    if type_.kind is TypeKind.STRING:
        wanted = pa.array(values, pa.string())
        return Kernel(lambda texts: mask_of(pc.is_in(texts, value_set=wanted)))
    nan = type_.is_float and any(np.isnan(value) for value in values)
    numbers = np.unique(np.array([value for value in values if not (nan and np.isnan(value))], type_.numpy))
    if len(numbers) <= LIST_SHORT:
        found = one_of_few(list(numbers))
    else:

        def found(values: Array) -> Mask:
            places = np.searchsorted(numbers, values)
            # A value above all constants gets a position past the end of `numbers`, so it is compared with the first constant.
            places[places == len(numbers)] = 0
            mask: Mask = numbers[places] == values
            return mask

    return Kernel((lambda column: found(column) | np.isnan(column)) if nan else found)


def one_of_few(numbers: list[Any]) -> Callable[[Array], Mask]:
    if not numbers:
        return lambda values: np.zeros(values.shape, bool)
    first, *others = numbers

    def found(values: Array) -> Mask:
        mask: Mask = values == first
        for other in others:
            mask |= values == other
        return mask

    return found


BUILDERS: dict[str, Build] = {name: build_comparison(name) for name in MIRRORED}
