"""Parts and means that stay within their bounds although floating-point sums do not.

A sum of ones and tenths minus the same sum of tenths may be a little more than the number of ones, so a mean of ones may come
out as 1.0000000000000016. Where a figure is declared to lie between 0 and 1, such a value is refused at the API's edge.

Properties (`tests/property/test_ratios.py`):
1. `ratio` lies within [0, 1], and is the exact quotient to rounding wherever that lies within these bounds.
2. `mean` lies between the least and the greatest of its values.
3. Without anything to divide by, both return what the caller names.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul


def ratio(part: float, whole: float, empty: float = 0.0) -> float:
    """Return `part / whole` within [0, 1], or `empty` if the whole is not positive."""
    return min(1.0, max(0.0, part / whole)) if whole > 0 else empty


def mean(values: Sequence[float], weights: Sequence[float] | None = None, empty: float = 0.0) -> float:
    """Return the mean of the values, weighted if there are weights, or `empty` if nothing has a weight."""
    total = len(values) if weights is None else sum(weights)
    if not values or total <= 0:
        return empty
    summed = sum(values) if weights is None else sum(map(mul, values, weights))
    return min(max(summed / total, min(values)), max(values))
