"""Aggregate functions: names, argument types and result types. `engine.windows.pane_aggregates` computes them.

SCALED(COUNT(…)) and SCALED(SUM(…)) are float64: an estimate of the count or sum without load shedding. SCALED_ERROR(…) is the
standard error of that estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from engine.data.schema import DECIMAL_DIGITS_MAX, FLOAT64, INT64, STRING, DataType, TypeKind, decimal


class Aggregation(StrEnum):
    """Aggregate function of SQL; several names in SQL can mean the same function."""

    COUNT_ALL = "count(*)"
    COUNT = "count"
    COUNT_DISTINCT = "count distinct"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    STDDEV = "stddev"  # Standard deviation of a sample (divided by n - 1)
    VARIANCE = "variance"  # Variance of a sample (divided by n - 1)
    STDDEV_POP = "stddev_pop"  # Standard deviation of the whole population (divided by n)
    VARIANCE_POP = "var_pop"
    MEDIAN = "median"
    PERCENTILE = "percentile"  # Percentile at the fraction `parameter`, interpolated between two values
    FIRST = "first"  # First value in the order of event time, then of arrival
    LAST = "last"
    TOP = "top"  # The most frequent values, as a text "value:count, …"; `parameter` is the number of values
    # The approximate functions use sketches (engine.data.sketches).
    APPROX_COUNT_DISTINCT = "approx_count_distinct"
    APPROX_QUANTILE = "approx_quantile"
    APPROX_TOP = "approx_top_k"


class Takes(Enum):
    ANYTHING = auto()
    NUMBERS = auto()
    CONDITIONS = auto()


class Gives(Enum):
    COUNT = auto()
    SUM = auto()
    """Int64 for integers, float64 for floats, a decimal of 18 digits for decimals."""
    FLOAT = auto()
    TEXT = auto()
    ARGUMENT = auto()
    """Result with the type of the argument."""


@dataclass(frozen=True, slots=True)
class AggregateSignature:
    """Names, argument type and result type of an aggregate function."""

    function: Aggregation
    names: str
    """SQL names in lower case, separated by blanks; messages list only the first name."""
    takes: Takes
    gives: Gives
    example: str = ""
    """Example call, for a function with a second argument; that argument is a constant."""
    parameter_max: int = 0
    """Maximum of the second argument, a whole number from 1; if this is 0, the argument is a fraction from 0 to 1."""


SIGNATURES = (
    AggregateSignature(Aggregation.COUNT_ALL, "", Takes.ANYTHING, Gives.COUNT),
    AggregateSignature(Aggregation.COUNT, "count", Takes.ANYTHING, Gives.COUNT),
    AggregateSignature(Aggregation.COUNT, "count_if countif", Takes.CONDITIONS, Gives.COUNT),
    AggregateSignature(Aggregation.COUNT_DISTINCT, "", Takes.ANYTHING, Gives.COUNT),
    AggregateSignature(Aggregation.SUM, "sum", Takes.NUMBERS, Gives.SUM),
    AggregateSignature(Aggregation.AVG, "avg mean", Takes.NUMBERS, Gives.FLOAT),
    AggregateSignature(Aggregation.MIN, "min", Takes.ANYTHING, Gives.ARGUMENT),
    AggregateSignature(Aggregation.MIN, "bool_and", Takes.CONDITIONS, Gives.ARGUMENT),
    AggregateSignature(Aggregation.MAX, "max", Takes.ANYTHING, Gives.ARGUMENT),
    AggregateSignature(Aggregation.MAX, "bool_or", Takes.CONDITIONS, Gives.ARGUMENT),
    AggregateSignature(Aggregation.STDDEV, "stddev stddev_samp", Takes.NUMBERS, Gives.FLOAT),
    AggregateSignature(Aggregation.VARIANCE, "variance var var_samp", Takes.NUMBERS, Gives.FLOAT),
    AggregateSignature(Aggregation.STDDEV_POP, "stddev_pop", Takes.NUMBERS, Gives.FLOAT),
    AggregateSignature(Aggregation.VARIANCE_POP, "var_pop", Takes.NUMBERS, Gives.FLOAT),
    AggregateSignature(Aggregation.MEDIAN, "median", Takes.NUMBERS, Gives.FLOAT),
    AggregateSignature(
        Aggregation.PERCENTILE, "percentile quantile_cont", Takes.NUMBERS, Gives.FLOAT, "PERCENTILE(x, 0.95)"
    ),
    AggregateSignature(Aggregation.FIRST, "first", Takes.ANYTHING, Gives.ARGUMENT),
    AggregateSignature(Aggregation.LAST, "last", Takes.ANYTHING, Gives.ARGUMENT),
    AggregateSignature(Aggregation.TOP, "top", Takes.ANYTHING, Gives.TEXT, "TOP(x, 10)", parameter_max=1_000),
    AggregateSignature(
        Aggregation.APPROX_COUNT_DISTINCT, "approx_count_distinct", Takes.ANYTHING, Gives.COUNT
    ),
    AggregateSignature(
        Aggregation.APPROX_QUANTILE,
        "approx_quantile",
        Takes.NUMBERS,
        Gives.FLOAT,
        "APPROX_QUANTILE(x, 0.95)",
    ),
    # The maximum k of APPROX_TOP_K is lower than that of TOP, because a sketch holds only 768 values.
    AggregateSignature(
        Aggregation.APPROX_TOP,
        "approx_top_k",
        Takes.ANYTHING,
        Gives.TEXT,
        "APPROX_TOP_K(x, 10)",
        parameter_max=100,
    ),
)
AGGREGATES = {name: signature for signature in SIGNATURES for name in signature.names.split()}
GENERAL = {signature.function: signature for signature in reversed(SIGNATURES)}
"""First signature of each function: the general signature, not the signature for conditions."""
SCALED, SCALED_ERROR = "scaled", "scaled_error"
SCALINGS = (SCALED, SCALED_ERROR)
SCALABLE = (Aggregation.COUNT_ALL, Aggregation.COUNT, Aggregation.SUM)
LISTED = sorted(
    name.upper() for name in (*(one.names.split()[0] for one in SIGNATURES if one.names), *SCALINGS)
)
"""Aggregates that messages list: the first name of each signature."""


def argument_type(function: Aggregation, given: DataType, scaled: bool) -> DataType | None:
    """Return the type to which an argument of type `given` is cast; None if the aggregate does not take that type."""
    if GENERAL[function].takes is Takes.ANYTHING:
        return given
    if not given.is_numeric:
        return None
    # Only SUM computes in decimals; the other functions compute in floats, which have no scale.
    if given.kind is TypeKind.DECIMAL and (scaled or function is not Aggregation.SUM):
        return FLOAT64
    return given


def result_type(function: Aggregation, argument: DataType | None, scaled: bool) -> DataType:
    if scaled:
        return FLOAT64
    match GENERAL[function].gives:
        case Gives.COUNT:
            return INT64
        case Gives.TEXT:
            return STRING
        case Gives.ARGUMENT if argument is not None:
            return argument
        case Gives.SUM if argument is not None and argument.is_integer:
            return INT64
        case Gives.SUM if argument is not None and argument.kind is TypeKind.DECIMAL:
            return decimal(DECIMAL_DIGITS_MAX, argument.scale)
    return FLOAT64
