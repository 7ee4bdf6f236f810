"""Three-valued logic, and choosing between columns by a mask.

A boolean column has values, and a mask of the rows that are not NULL (None if no row is NULL). `false AND NULL` is false,
`true OR NULL` is true, and any other combination with NULL is NULL.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.data.schema import DataType, TypeKind
from engine.expressions.kernels.kernel import Mask

Booleans = tuple[Mask, Mask | None]


def all_of(left: Booleans, right: Booleans) -> Booleans:
    """Return the AND of two boolean columns."""
    (one, one_valid), (other, other_valid) = left, right
    if one_valid is None and other_valid is None:
        return one & other, None
    result = surely(left) & surely(right)
    # The result of AND is known where both operands are true, and where either operand is false.
    known = surely_not(left) | surely_not(right) | result
    return result, known


def any_of(left: Booleans, right: Booleans) -> Booleans:
    """Return the OR of two boolean columns."""
    (one, one_valid), (other, other_valid) = left, right
    if one_valid is None and other_valid is None:
        return one | other, None
    result = surely(left) | surely(right)
    known = (surely_not(left) & surely_not(right)) | result
    return result, known


def surely(column: Booleans) -> Mask:
    """Return the mask of rows where the column is true, not NULL."""
    values, valid = column
    return values if valid is None else values & valid


def surely_not(column: Booleans) -> Mask:
    """Return the mask of rows where the column is false, not NULL."""
    values, valid = column
    return ~values if valid is None else valid & ~values


def choose(type_: DataType, mask: Mask, left: Any, right: Any) -> Any:
    """Return the left value where the mask is set, and the right value elsewhere; both values may be constants."""
    if type_.kind is TypeKind.STRING:
        return pc.if_else(pa.array(mask), text(left), text(right))
    return np.where(mask, left, right)


def text(values: Any) -> Any:
    return pa.scalar(values, pa.string()) if isinstance(values, str) else values


def choose_valid(mask: Mask, left: Mask | bool | None, right: Mask | bool | None) -> Mask | None:
    if left is None and right is None:
        return None
    return np.where(mask, True if left is None else left, True if right is None else right)
