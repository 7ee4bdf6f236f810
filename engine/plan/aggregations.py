"""Aggregate functions: their names, what they take and what they give. What is made of a window's tuples for each stands in
`engine.windows.pane_aggregates`.

SCALED(COUNT(…)) and SCALED(SUM(…)) are float64: what it would be without load shedding; SCALED_ERROR(…) of the same is the standard
error of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from engine.data.schema import DECIMAL_DIGITS_MAX, FLOAT64, INT64, STRING, DataType, TypeKind, decimal


class Aggregation(StrEnum):
    """An aggregate function."""

    COUNT_ALL = "count(*)"
    COUNT = "count"
    COUNT_DISTINCT = "count distinct"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    STDDEV = "stddev"  # of a sample
    VARIANCE = "variance"  # of a sample
    STDDEV_POP = "stddev_pop"  # of all there is
    VARIANCE_POP = "var_pop"
    MEDIAN = "median"
    PERCENTILE = "percentile"  # continuous, at `parameter`
    FIRST = "first"  # by event time, then arrival
    LAST = "last"
    TOP = "top"  # the `parameter` most frequent values, as text "value:count, …"
    APPROX_COUNT_DISTINCT = "approx_count_distinct"  # these by sketches: engine.data.sketches
    APPROX_QUANTILE = "approx_quantile"
    APPROX_TOP = "approx_top_k"


class Takes(Enum):
    ANYTHING = auto()
    NUMBERS = auto()
    CONDITIONS = auto()


class Gives(Enum):
    COUNT = auto()
    SUM = auto()
    """int64 of integers, float64 of floats, a wide decimal of decimals."""
    FLOAT = auto()
    TEXT = auto()
    ARGUMENT = auto()
    """The type of its argument."""


@dataclass(frozen=True, slots=True)
class AggregateSignature:
    """Names, argument and result of an aggregate function."""

    function: Aggregation
    names: str
    """In small letters with blanks between them; messages list the first one."""
    takes: Takes
    gives: Gives
    example: str = ""
    """For a function with a second argument, which is a constant."""
    parameter_max: int = 0
    """The second argument is a whole number from 1 up to this; if this is 0, it is a part from 0 to 1."""


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
    # Of a sketch fewer, for it knows 768.
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
"""The signature of each function that is not for conditions alone."""
SCALED, SCALED_ERROR = "scaled", "scaled_error"
SCALINGS = (SCALED, SCALED_ERROR)
SCALABLE = (Aggregation.COUNT_ALL, Aggregation.COUNT, Aggregation.SUM)
LISTED = sorted(
    name.upper() for name in (*(one.names.split()[0] for one in SIGNATURES if one.names), *SCALINGS)
)
"""What messages list: of several names for the same the first."""


def argument_type(function: Aggregation, given: DataType, scaled: bool) -> DataType | None:
    """Return the type of argument that the aggregate takes of one of type `given`; None if it takes none."""
    if GENERAL[function].takes is Takes.ANYTHING:
        return given
    if not given.is_numeric:
        return None
    # A sum of decimals is a decimal; the rest reckons in floats, which do not know a decimal's scale.
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
