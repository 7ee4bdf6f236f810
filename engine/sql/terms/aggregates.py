"""Aggregate functions: their names, what they take and what they give.

COUNT(*) COUNT(x) COUNT(DISTINCT x)    int64
COUNT_IF(condition)                    int64
BOOL_OR BOOL_AND(condition)            boolean
SUM(x)                                 int64 of integers, float64 of floats, a wide decimal of decimals
AVG STDDEV VARIANCE MEDIAN(x), PERCENTILE(x, p)    float64
MIN MAX FIRST LAST(x)                  the type of x
TOP(x, k)                              text: the k most frequent values
APPROX_COUNT_DISTINCT(x)               int64
APPROX_QUANTILE(x, q)                  float64
APPROX_TOP_K(x, k)                     text, as TOP
SCALED(COUNT(…)) SCALED(SUM(…))        float64: what it would be without load shedding
SCALED_ERROR(…) of the same            float64: the standard error of that
"""

from __future__ import annotations

from engine.data.schema import DECIMAL_DIGITS_MAX, FLOAT64, INT64, STRING, DataType, Kind, decimal
from engine.plan.plan import Aggregation

SCALED, SCALED_ERROR = "scaled", "scaled_error"
SCALINGS = (SCALED, SCALED_ERROR)
AGGREGATES = {
    "count": Aggregation.COUNT,
    "sum": Aggregation.SUM,
    "avg": Aggregation.AVG,
    "mean": Aggregation.AVG,
    "min": Aggregation.MIN,
    "max": Aggregation.MAX,
    "stddev": Aggregation.STDDEV,
    "stddev_samp": Aggregation.STDDEV,
    "variance": Aggregation.VARIANCE,
    "var": Aggregation.VARIANCE,
    "var_samp": Aggregation.VARIANCE,
    "median": Aggregation.MEDIAN,
    "percentile": Aggregation.PERCENTILE,
    "quantile_cont": Aggregation.PERCENTILE,
    "first": Aggregation.FIRST,
    "last": Aggregation.LAST,
    "top": Aggregation.TOP,
    "count_if": Aggregation.COUNT,
    "countif": Aggregation.COUNT,
    "bool_or": Aggregation.MAX,
    "bool_and": Aggregation.MIN,
    "approx_count_distinct": Aggregation.APPROX_COUNT_DISTINCT,
    "approx_quantile": Aggregation.APPROX_QUANTILE,
    "approx_top_k": Aggregation.APPROX_TOP,
}
OF_CONDITIONS = ("count_if", "countif", "bool_or", "bool_and")
SCALABLE = (Aggregation.COUNT_ALL, Aggregation.COUNT, Aggregation.SUM)
COUNTS = (
    Aggregation.COUNT_ALL,
    Aggregation.COUNT,
    Aggregation.COUNT_DISTINCT,
    Aggregation.APPROX_COUNT_DISTINCT,
)
TOPS = (Aggregation.TOP, Aggregation.APPROX_TOP)
QUANTILES = (Aggregation.PERCENTILE, Aggregation.APPROX_QUANTILE)
AS_THEY_ARE = (Aggregation.MIN, Aggregation.MAX, Aggregation.FIRST, Aggregation.LAST)
# How many values of each group an answer may name; of a sketch fewer, for it knows 768.
TOP_MAX = {Aggregation.TOP: 1_000, Aggregation.APPROX_TOP: 100}
EXAMPLES = {
    Aggregation.PERCENTILE: "PERCENTILE(x, 0.95)",
    Aggregation.TOP: "TOP(x, 10)",
    Aggregation.APPROX_QUANTILE: "APPROX_QUANTILE(x, 0.95)",
    Aggregation.APPROX_TOP: "APPROX_TOP_K(x, 10)",
}


def argument_type(function: Aggregation, given: DataType, scaled: bool) -> DataType | None:
    """What the aggregate takes for an argument of this type; None if there is nothing."""
    if function in COUNTS or function in AS_THEY_ARE or function in TOPS:
        return given
    if not given.is_numeric:
        return None
    # A sum of decimals is a decimal; the rest reckons in floats, which do not know a decimal's scale.
    if given.kind is Kind.DECIMAL and (scaled or function is not Aggregation.SUM):
        return FLOAT64
    return given


def result_type(function: Aggregation, argument: DataType | None, scaled: bool) -> DataType:
    if scaled:
        return FLOAT64
    if function in COUNTS or argument is None:
        return INT64
    if function in AS_THEY_ARE:
        return argument
    if function in TOPS:
        return STRING
    if function is Aggregation.SUM and argument.is_integer:
        return INT64
    if function is Aggregation.SUM and argument.kind is Kind.DECIMAL:
        return decimal(DECIMAL_DIGITS_MAX, argument.scale)
    return FLOAT64
