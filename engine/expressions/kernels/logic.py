"""Three-valued logic, and choosing between columns by a mask.

A boolean column is its values and where they are valid (None: everywhere). NULL is unknown: `false AND NULL` is
false, `true OR NULL` is true, and the rest of NULL is NULL.
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
    """AND."""
    (one, one_valid), (other, other_valid) = left, right
    if one_valid is None and other_valid is None:
        return one & other, None
    result = surely(left) & surely(right)
    # Known where both are, and where either is false.
    known = surely_not(left) | surely_not(right) | result
    return result, known


def any_of(left: Booleans, right: Booleans) -> Booleans:
    """OR."""
    (one, one_valid), (other, other_valid) = left, right
    if one_valid is None and other_valid is None:
        return one | other, None
    result = surely(left) | surely(right)
    known = (surely_not(left) & surely_not(right)) | result
    return result, known


def surely(column: Booleans) -> Mask:
    """Where it is true."""
    values, valid = column
    return values if valid is None else values & valid


def surely_not(column: Booleans) -> Mask:
    """Where it is false."""
    values, valid = column
    return ~values if valid is None else valid & ~values


def choose(type_: DataType, mask: Mask, left: Any, right: Any) -> Any:
    """The left value where the mask is set, the right one elsewhere; either may be a constant."""
    if type_.kind is TypeKind.STRING:
        return pc.if_else(pa.array(mask), text(left), text(right))
    return np.where(mask, left, right)


def text(values: Any) -> Any:
    return pa.scalar(values, pa.string()) if isinstance(values, str) else values


def choose_valid(mask: Mask, left: Mask | bool | None, right: Mask | bool | None) -> Mask | None:
    if left is None and right is None:
        return None
    return np.where(mask, True if left is None else left, True if right is None else right)
