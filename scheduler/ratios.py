"""Ratios and means that stay within their bounds in spite of floating-point rounding.

Because of rounding, a mean of ones may be computed as 1.0000000000000016. The API declares such figures to lie between 0 and 1
and would reject this value.

Properties (`tests/property/test_ratios.py`):
1. `ratio` lies within [0, 1], and equals the quotient, except for rounding, if that lies within these bounds.
2. `mean` lies between the smallest and the largest of its values.
3. If the divisor is 0, both return the value of `empty`.
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
