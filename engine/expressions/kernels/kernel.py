"""What a kernel is, and what it is told when it is built.

A kernel is built once per call in a query, when types and constants are known, so that what can be decided then is not
decided per train. It must not write into what it is given: those may be a stream's own columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.data.schema import DataType

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Checked = tuple[Any, Mask | None, Mask | None]


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call: its type, and its value if that is the same for all rows (it is not NULL then)."""

    type: DataType
    constant: bool = False
    value: Any = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function of columns; constants arrive as numpy scalars or as str, at least one argument is an array.

    Without a `reason`, `apply` gives the values. With one it gives (values, nulls, bad): the rows whose value is
    NULL, and the rows that fail for this reason; None where there are none. A row that is NULL on the way in may be
    among the bad, it is not counted. A kernel that is `noisy` makes numpy warn of what it means to do.
    """

    apply: Callable[..., Any]
    reason: str = ""
    noisy: bool = False


Build = Callable[[Sequence[Argument], DataType], Kernel]


def any_or_none(mask: Mask) -> Mask | None:
    return mask if mask.any() else None


def each(column: Any) -> Iterable[Any]:
    """The values one by one; a constant again and again."""
    if isinstance(column, pa.Array):
        return cast(list[Any], column.to_pylist())
    if isinstance(column, np.ndarray):
        return cast(list[Any], column.tolist())
    return repeat(column.item() if isinstance(column, np.generic) else column)


def rows(*columns: Any) -> Iterable[tuple[Any, ...]]:
    """The rows of columns of which at least one is an array."""
    return zip(*map(each, columns), strict=False)


def mask_of(booleans: pa.BooleanArray) -> Mask:
    """An Arrow array without NULLs as a numpy mask."""
    return cast(Mask, booleans.to_numpy(zero_copy_only=False))
