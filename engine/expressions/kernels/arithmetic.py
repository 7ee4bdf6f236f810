"""Arithmetic on numbers: ints and decimals are checked for overflow, floats follow IEEE 754.

A decimal is stored as an int64: the value times 10^scale. Numpy reports no integer overflow, so every operation that can
overflow is followed by a check: of the signs for a sum, of the largest and smallest factors for a product. The check is
cheap when there is no overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from engine.data.schema import DECIMAL_DIGITS_MAX, DataType, TypeKind
from engine.expressions.kernels.kernel import (
    Argument,
    Array,
    Build,
    Checked,
    Kernel,
    Mask,
    always,
    any_or_none,
)

LIMITS_INT32 = (-(2**31), 2**31 - 1)
LIMITS_INT64 = (-(2**63), 2**63 - 1)

# --- ints and decimals ----------------------------------------------------------------------------------


def limits(type_: DataType) -> tuple[int, int]:
    """Return the smallest and largest stored value of an integer or decimal type."""
    if type_.kind is TypeKind.DECIMAL:
        most = 10**type_.precision - 1
        return -most, most
    return LIMITS_INT32 if type_.kind is TypeKind.INT32 else LIMITS_INT64


def outside(values: Array, low: int, high: int) -> Mask | None:
    """Return the mask of values below `low` or above `high`; None if there are no such values."""
    if not values.size or (values.min() >= low and values.max() <= high):
        return None
    mask: Mask = (values < low) | (values > high)
    return mask


def either(one: Mask | None, other: Mask | None) -> Mask | None:
    if one is None or other is None:
        return other if one is None else one
    return one | other


def add_integers(left: Array, right: Array) -> Checked:
    total = left + right
    # A sum overflowed if its sign differs from the signs of both operands.
    signs = left ^ total
    signs &= right ^ total
    return total, None, (signs < 0 if signs.size and signs.min() < 0 else None)


def subtract_integers(left: Array, right: Array) -> Checked:
    difference = np.subtract(left, right)
    signs = left ^ right
    signs &= left ^ difference
    return difference, None, (signs < 0 if signs.size and signs.min() < 0 else None)


def add_constant(left: Array, right: Array) -> Checked:
    """Add a constant; the sum has overflowed if it decreased with a positive constant, or increased with a negative constant."""
    total = left + right
    wrong = np.less(total, left) if right >= 0 else np.greater(total, left)
    return total, None, any_or_none(wrong)


def subtract_constant(left: Array, right: Array) -> Checked:
    difference = np.subtract(left, right)
    wrong = np.greater(difference, left) if right >= 0 else np.less(difference, left)
    return difference, None, any_or_none(wrong)


# Functions that add (1) or subtract (-1) integers: one for a constant second operand, and one for a column.
SUMS = {1: (add_constant, add_integers), -1: (subtract_constant, subtract_integers)}


def add_decimals(sign: int, limit: tuple[int, int], left: Array, right: Array) -> Checked:
    # The sum of two numbers of 18 digits fits into int64.
    total = left + right if sign > 0 else left - right
    return total, None, outside(total, *limit)


def multiply_integers(left: Array, right: Array) -> Checked:
    product = np.multiply(left, right)
    low, high = LIMITS_INT64 if product.dtype == np.int64 else LIMITS_INT32
    if not product.size or extreme(left) * extreme(right) <= high:
        return product, None, None
    if product.dtype == np.int32:
        return product, None, outside(np.multiply(left, right, dtype=np.int64), low, high)
    # Far from 2^63, a product of floats is exact enough to find an overflow; near 2^63, Python integers decide.
    size = np.abs(np.multiply(left, right, dtype=np.float64))
    bad = size > 2.0**63 * 1.000001
    for place in np.flatnonzero((size > 2.0**63 * 0.999999) & ~bad):
        exact = int(np.broadcast_to(left, size.shape)[place]) * int(np.broadcast_to(right, size.shape)[place])
        bad[place] = not low <= exact <= high
    return product, None, any_or_none(bad)


def extreme(values: Any) -> int:
    """Return the largest absolute value as a Python integer, since the absolute value of −2^63 does not fit into int64."""
    if not isinstance(values, np.ndarray):
        return abs(int(values))
    return max(int(values.max()), -int(values.min()))


def multiply_decimals(limit: tuple[int, int], left: Array, right: Array) -> Checked:
    product, _, bad = multiply_integers(left, right)
    return product, None, either(bad, outside(product, *limit))


def zeros(divisor: Array, dividend: Array) -> Mask | None:
    """Return the mask of rows where the divisor is 0; None without such rows. Divisor and dividend may be constants."""
    mask = np.equal(divisor, 0)
    return np.broadcast_to(mask, np.broadcast_shapes(mask.shape, dividend.shape)) if mask.any() else None


def remainder(left: Array, right: Array, low: int | None) -> tuple[Array, Array, Mask | None, Mask | None]:
    """Return the remainder with the sign of the dividend, the divisor, and two masks.

    The masks have the rows where the divisor is 0, and the rows where the quotient overflows. In these rows, the returned divisor is 1.
    """
    nulls = zeros(right, left)
    divisor = right if nulls is None else np.where(nulls, right.dtype.type(1), right)
    bad = None if low is None else any_or_none((divisor == -1) & (left == low))
    if bad is not None:
        divisor = np.where(bad, divisor.dtype.type(1), divisor)
    return np.fmod(left, divisor), divisor, nulls, bad


def integer_modulo(low: int | None, left: Array, right: Array) -> Checked:
    rest, _, nulls, bad = remainder(left, right, low)
    return rest, nulls, bad


def integer_divide(low: int | None, left: Array, right: Array) -> Checked:
    rest, divisor, nulls, bad = remainder(left, right, low)
    return (left - rest) // divisor, nulls, bad


def divided(values: Array, unit: int) -> Array:
    """Divide integers by a power of ten; halves are rounded away from zero."""
    if unit == 1:
        return values
    quotient: Array = values // unit
    rest = values - quotient * unit
    nearest: Array = quotient + (rest >= unit // 2 + (values < 0))
    return nearest


# --- floats ---------------------------------------------------------------------------------------------


def rounded(values: Array) -> Array:
    """Round to the nearest whole number, halves away from zero; numpy.round rounds halves to even."""
    whole: Array = np.trunc(values)
    nearest: Array = whole + np.copysign(np.abs(values - whole) >= 0.5, values)
    return nearest


def divide_floats(left: Array, right: Array) -> Checked:
    return np.divide(left, right), zeros(right, left), None


def modulo_floats(left: Array, right: Array) -> Checked:
    return np.fmod(left, right), zeros(right, left), None


def square_root(values: Array) -> Checked:
    return np.sqrt(values), None, any_or_none(values < 0)


def logarithm(function: Callable[[Array], Array], values: Array) -> Checked:
    return function(values), None, any_or_none(values <= 0)


def logarithm_to_base(base: Array, values: Array) -> Checked:
    bad = np.asarray((values <= 0) | (base <= 0) | (base == 1))
    return np.log10(values) / np.log10(base), None, any_or_none(bad)


def power(base: Array, exponent: Array) -> Checked:
    result = np.power(base, exponent)
    root_of_infinity = np.isneginf(base) & np.equal(exponent, 0.5)
    if root_of_infinity.any():
        # For the exponent 0.5, numpy computes the square root of −∞, which is NaN, although the power is infinite.
        result = np.where(root_of_infinity, np.inf, result)
    return result, None, any_or_none(np.asarray((base == 0) & (exponent < 0)))


# --- builders: choose one of the functions above for a call -----------------------------------------------


def overflow(what: str, type_: DataType) -> str:
    return f"{what} overflows {type_}"


def build_sum(sign: int, arguments: Sequence[Argument], result: DataType) -> Kernel:
    """Return a kernel for an addition if `sign` is 1, or for a subtraction if `sign` is -1."""
    plain: Callable[..., Any] = np.add if sign > 0 else np.subtract
    reason = overflow("addition" if sign > 0 else "subtraction", result)
    if result.is_float:
        return Kernel(plain, noisy=True)
    if result.kind is not TypeKind.DECIMAL:
        constant, variable = SUMS[sign]
        return Kernel(constant if arguments[1].constant else variable, reason)
    if result.precision < DECIMAL_DIGITS_MAX:
        return Kernel(plain)  # No sum can overflow: the result type has one digit more than the operands
    return Kernel(partial(add_decimals, sign, limits(result)), reason)


def build_multiply(arguments: Sequence[Argument], result: DataType) -> Kernel:
    reason = overflow("multiplication", result)
    if result.is_float:
        return Kernel(np.multiply, noisy=True)
    if result.kind is not TypeKind.DECIMAL:
        return Kernel(multiply_integers, reason)
    if sum(argument.type.precision for argument in arguments) <= DECIMAL_DIGITS_MAX:
        return Kernel(np.multiply)
    return Kernel(partial(multiply_decimals, limits(result)), reason)


def build_divide(arguments: Sequence[Argument], result: DataType) -> Kernel:
    if arguments[1].constant and arguments[1].value != 0:
        return Kernel(np.divide, noisy=True)
    return Kernel(divide_floats, "division by zero", noisy=True)


def build_modulo(arguments: Sequence[Argument], result: DataType) -> Kernel:
    right = arguments[1]
    if right.constant and right.value not in (0, -1):
        return Kernel(np.fmod, noisy=True)
    if result.is_float:
        return Kernel(modulo_floats, "division by zero", noisy=True)
    low = limits(result)[0] if result.is_integer else None
    return Kernel(partial(integer_modulo, low), overflow("modulo", result))


def build_integer_divide(arguments: Sequence[Argument], result: DataType) -> Kernel:
    right = arguments[1]
    if right.constant and right.value not in (0, -1):
        return Kernel(lambda left, right: (left - np.fmod(left, right)) // right)
    return Kernel(partial(integer_divide, limits(result)[0]), overflow("division", result))


def unless_least(
    function: Callable[[Array], Array], what: str, arguments: Sequence[Argument], result: DataType
) -> Kernel:
    """Return a kernel for negation or the absolute value, which overflow only for the smallest integer of a type."""
    if not result.is_integer:
        return Kernel(function)
    least = limits(result)[0]
    return Kernel(
        lambda values: (function(values), None, any_or_none(values == least)), overflow(what, result)
    )


def build_whole(
    floats: Callable[[Array], Array],
    decimals: Callable[[Array, int], Array],
    arguments: Sequence[Argument],
    result: DataType,
) -> Kernel:
    """Return a kernel for FLOOR or CEIL.

    The kernel calls `floats(values)` for floats, and `decimals(values, unit)` for decimals, with the stored value of 1 as `unit`.
    """
    unit = 10 ** arguments[0].type.scale
    return Kernel(floats if result.is_float else lambda values: decimals(values, unit))


def build_round(arguments: Sequence[Argument], result: DataType) -> Kernel:
    type_ = arguments[0].type
    if len(arguments) == 1:
        if type_.is_float:
            return Kernel(rounded, noisy=True)
        if type_.kind is TypeKind.DECIMAL:
            return Kernel(partial(divided, unit=10**type_.scale))
        return Kernel(lambda values: values)
    if type_.is_float:
        return Kernel(round_floats, noisy=True)
    return Kernel(
        partial(round_integers, type_.scale if type_.kind is TypeKind.DECIMAL else 0, limits(result)),
        overflow("round", result),
    )


def round_floats(values: Array, digits: Array) -> Array:
    """Round to `digits` digits after the point, as DuckDB does; a negative number of digits counts before the point."""
    unit = np.power(10.0, np.abs(np.asarray(digits, np.float64)))
    fine = rounded(values * unit) / unit
    coarse = rounded(values / unit) * unit
    fine = np.where(np.isfinite(fine), fine, values)
    coarse = np.where(np.isfinite(coarse), coarse, np.where(np.isfinite(values), 0.0, values))
    dtype = getattr(values, "dtype", np.float64)
    return np.where(np.greater_equal(digits, 0), fine, coarse).astype(dtype)


def round_integers(scale: int, limit: tuple[int, int], values: Array, digits: Array) -> Checked:
    """Round decimals, stored with `scale` digits after the point, to `digits` digits after the point; the scale stays `scale`."""
    shape = np.broadcast_shapes(np.shape(values), np.shape(digits))
    values, digits = np.broadcast_to(values, shape), np.broadcast_to(digits, shape)
    result, bad = values.copy(), np.zeros(shape, bool)
    for wanted in np.unique(digits).tolist():
        if wanted >= scale:
            continue
        places = np.flatnonzero(digits == wanted)
        if scale - wanted > DECIMAL_DIGITS_MAX:
            # The unit 10^19 is beyond int64. Values of at least 5·10^18 would round up to 10^19, and so overflow.
            # Values below 5·10^18 become 0.
            up = np.abs(values[places].astype(np.float64)) >= 5e18 if scale - wanted == 19 else False
            result[places], bad[places] = 0, up
            continue
        unit = 10 ** (scale - wanted)
        quotient = divided(values[places].astype(np.int64), unit)
        fits = (quotient <= limit[1] // unit) & (quotient >= -(limit[1] // unit))
        result[places] = np.where(fits, quotient, 0) * unit
        bad[places] = ~fits
    return result, None, any_or_none(bad)


def build_logarithm(arguments: Sequence[Argument], result: DataType) -> Kernel:
    if len(arguments) == 2:
        return Kernel(logarithm_to_base, "logarithm of a number not above zero", noisy=True)
    return Kernel(partial(logarithm, np.log10), "logarithm of a number not above zero", noisy=True)


BUILDERS: dict[str, Build] = {
    "add": partial(build_sum, 1),
    "subtract": partial(build_sum, -1),
    "multiply": build_multiply,
    "divide": build_divide,
    "integer_divide": build_integer_divide,
    "modulo": build_modulo,
    "negate": partial(unless_least, np.negative, "negation"),
    "abs": partial(unless_least, np.abs, "abs"),
    # The sign of NaN is 0.
    "sign": always(Kernel(lambda values: (values > 0).astype(np.int32) - (values < 0))),
    "floor": partial(build_whole, np.floor, lambda values, unit: values // unit),
    "ceil": partial(build_whole, np.ceil, lambda values, unit: -(-values // unit)),
    "round": build_round,
    "sqrt": always(Kernel(square_root, "square root of a negative number", noisy=True)),
    "exp": always(Kernel(np.exp, noisy=True)),
    "ln": always(Kernel(partial(logarithm, np.log), "logarithm of a number not above zero", noisy=True)),
    "log2": always(Kernel(partial(logarithm, np.log2), "logarithm of a number not above zero", noisy=True)),
    "log10": build_logarithm,
    "power": always(Kernel(power, "zero to a negative power", noisy=True)),
}
