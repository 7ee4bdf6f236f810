"""Interface of kernels: functions over columns, built from the types and constants of a call.

A kernel is built once for each call in a query. Types and constants are known then, so choices that depend on them are
not repeated for each train. A kernel must not write into its arguments, which may be a stream's own columns.
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
    """Argument of a call: its type, and its value if it is a constant; the constant is never NULL."""

    type: DataType
    constant: bool = False
    value: Any = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """Function of columns; at least one argument is an array, and constants are numpy scalars or str.

    Without a `reason`, `apply` returns the values. With a `reason`, `apply` returns (values, nulls, bad): `nulls` masks the
    rows with value NULL, and `bad` the rows that fail for this reason; None means no rows. `bad` may include rows with a
    NULL argument, which are not counted. A `noisy` kernel causes numpy warnings on purpose, which the caller suppresses.
    """

    apply: Callable[..., Any]
    reason: str = ""
    noisy: bool = False


Build = Callable[[Sequence[Argument], DataType], Kernel]


def always(kernel: Kernel) -> Build:
    """Return a builder that returns this kernel for all types and constants."""
    return lambda arguments, result: kernel


def any_or_none(mask: Mask) -> Mask | None:
    return mask if mask.any() else None


def each(column: Any) -> Iterable[Any]:
    """Return an iterable of a column's values; for a constant, an endless repetition of its value."""
    if isinstance(column, pa.Array):
        return cast(list[Any], column.to_pylist())
    if isinstance(column, np.ndarray):
        return cast(list[Any], column.tolist())
    return repeat(column.item() if isinstance(column, np.generic) else column)


def rows(*columns: Any) -> Iterable[tuple[Any, ...]]:
    """Return an iterable of rows; at least one column is an array, and a constant is repeated for each row."""
    return zip(*map(each, columns), strict=False)


def mask_of(booleans: pa.BooleanArray) -> Mask:
    """Return an Arrow boolean array without NULLs as a numpy mask."""
    return cast(Mask, booleans.to_numpy(zero_copy_only=False))
