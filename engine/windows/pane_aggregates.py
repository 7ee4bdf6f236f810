"""Computes the value of an aggregate for each group of a pane, and names the measures that it needs.

The input is one pane, into which `engine.windows.window_schedule` has combined all panes that a window covers.

The rules are those of SQL: NULL arguments do not count. Without values, an aggregate is NULL and a count is 0. Sums of
integers are int64, and NULL if they do not fit. Medians and percentiles interpolate between neighbours. FIRST and LAST
use the order of event time, then of arrival. The planner has cast decimals to float64 for means and quantiles.
Approximate aggregates use sketches (`engine.data.sketches`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from engine.data.keys import Codes, from_python
from engine.data.schema import TypeKind
from engine.data.sketches import SKETCHES, distinct_counts, most_frequent, quantiles
from engine.data.train import Values
from engine.plan.aggregations import Aggregation
from engine.plan.plan import Aggregate
from engine.windows.panes import (
    Array,
    Measure,
    Pane,
    approximate_sum,
    extreme,
    root_of_squares,
    whole_sum,
)

# For each aggregate: the number of values minus the divisor, and True for a standard deviation (a square root).
MOMENTS = {
    Aggregation.STDDEV: (1, True),
    Aggregation.VARIANCE: (1, False),
    Aggregation.STDDEV_POP: (0, True),
    Aggregation.VARIANCE_POP: (0, False),
}
SKETCHED = {
    Aggregation.APPROX_COUNT_DISTINCT: "distinct",
    Aggregation.APPROX_QUANTILE: "quantile",
    Aggregation.APPROX_TOP: "frequent",
}


def measures_of(aggregate: Aggregate) -> set[Measure]:
    """Return the figures of each group, such as a count or a sum, that panes must hold for the aggregate."""
    place = aggregate.argument
    function = aggregate.function
    if aggregate.scaled:
        counts = {("count", place)} if function is Aggregation.SUM else set()
        return {estimate_of(aggregate), *counts, *([norm_of(aggregate)] if aggregate.error else ())}
    if function is Aggregation.COUNT_ALL:
        return {("rows", None)}
    if function is Aggregation.COUNT:
        return {("count", place)}
    if function in (Aggregation.SUM, Aggregation.AVG):
        return {("sum", place), ("count", place)}
    if function in (Aggregation.MIN, Aggregation.MAX) and aggregate.type.kind is not TypeKind.STRING:
        return {(function.value, place), ("count", place)}
    if function in SKETCHED:
        return {(SKETCHED[function], place)}
    return {("moments", place)} if function in MOMENTS else {("values", place)}


def estimate_of(aggregate: Aggregate) -> Measure:
    """Return the figure of a pane that holds a scaled aggregate, or its standard error."""
    of = {Aggregation.COUNT_ALL: "rows", Aggregation.COUNT: "count", Aggregation.SUM: "sum"}
    return f"{'error' if aggregate.error else 'scaled'} {of[aggregate.function]}", aggregate.argument


def norm_of(aggregate: Aggregate) -> Measure:
    """Return the figure of a pane from which the standard error of a scaled aggregate is computed.

    Each value x counts for e tuples before shedding. For a sum, the figure is √(Σ x²·e); for a count, it is Σ e.
    """
    if aggregate.function is Aggregation.SUM:
        return "norm", aggregate.argument
    return estimate_of(replace(aggregate, error=False))


def answered(aggregate: Aggregate, pane: Pane, groups: Codes, rows: Codes, each: float = 1.0) -> Values:
    """Return the aggregate's value for each group.

    If tuples were dropped, scaled aggregates count each tuple of the pane `each` times.
    """
    place, function, type_ = aggregate.argument, aggregate.function, aggregate.type
    if aggregate.scaled:
        return estimated(aggregate, pane, groups, each)
    if function is Aggregation.COUNT_ALL:
        return Values(type_, rows[groups].astype(np.int64, copy=False))
    if function in SKETCHED:
        return of_sketches(aggregate, pane, groups)
    if ("values", place) in measures_of(aggregate):
        return of_values(aggregate, pane, groups)
    if function in MOMENTS:
        return of_moments(aggregate, pane, groups)
    count = measured(pane, ("count", place), groups, 0)
    if function is Aggregation.COUNT:
        return Values(type_, count.astype(np.int64, copy=False))
    valid = None if count.all() else count > 0
    if function in (Aggregation.MIN, Aggregation.MAX):
        lowest = function is Aggregation.MIN
        data = measured(pane, (function.value, place), groups, extreme(type_, largest=lowest))
        return Values(type_, data.astype(type_.numpy, copy=False), valid)
    total = measured(pane, ("sum", place), groups, 0)
    if total.ndim == 2:
        if function is Aggregation.SUM:
            sums, fits = whole_sum(total)
            known = fits if valid is None else valid & fits
            return Values(type_, sums, None if known.all() else known)
        total = approximate_sum(total)
    if function is Aggregation.AVG:
        return Values(type_, total / np.maximum(count, 1), valid)
    return Values(type_, total.astype(type_.numpy, copy=False), valid)


def estimated(aggregate: Aggregate, pane: Pane, groups: Codes, each: float) -> Values:
    """Return an estimate of a count or sum without shedding, or the standard error of such an estimate.

    Each tuple has a value x and stands for e·f tuples before shedding, where f is `each`. The square of the error is a sum
    over the tuples: Σ x²·f·e·(f·e − 1) = f²·Σ x²·e·(e − 1) + f·(f − 1)·Σ x²·e.
    """
    data = measured(pane, estimate_of(aggregate), groups, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        if data.ndim == 2:
            data = approximate_sum(data)
        if each > 1.0:
            data = data * each
            if aggregate.error:
                norm = measured(pane, norm_of(aggregate), groups, 0.0)
                norm = norm if aggregate.function is Aggregation.SUM else np.sqrt(norm)
                data = root_of_squares(data, norm * np.sqrt(each * (each - 1)))
    if aggregate.function is not Aggregation.SUM:
        return Values(aggregate.type, data)
    count = measured(pane, ("count", aggregate.argument), groups, 0)
    return Values(aggregate.type, data, None if count.all() else count > 0)


def measured(pane: Pane, measure: Measure, groups: Codes, neutral: Any) -> Array:
    """Return a figure of each group, such as its sum; groups that the pane does not have yet get the value `neutral`."""
    state = pane.measures.get(measure)
    if state is None:
        return np.full(len(groups), neutral)
    if groups[-1] < state.shape[-1]:
        return state[..., groups]
    found = np.full((*state.shape[:-1], len(groups)), neutral, state.dtype)
    known = groups < state.shape[-1]
    found[..., known] = state[..., groups[known]]
    return found


def of_moments(aggregate: Aggregate, pane: Pane, groups: Codes) -> Values:
    if ("moments", aggregate.argument) not in pane.measures:
        return Values(aggregate.type, np.zeros(len(groups)), np.zeros(len(groups), bool))
    count, _, spread = measured(pane, ("moments", aggregate.argument), groups, 0.0)
    fewer, is_root = MOMENTS[aggregate.function]
    variance = spread / np.maximum(count - fewer, 1)
    data = np.sqrt(variance) if is_root else variance
    valid = count > fewer
    return Values(aggregate.type, data, None if valid.all() else valid)


def of_sketches(aggregate: Aggregate, pane: Pane, groups: Codes) -> Values:
    """Return an approximate aggregate of each group from the sketches of its values."""
    measure = SKETCHED[aggregate.function], aggregate.argument
    sketches: Any = pane.sketches.get(measure) or SKETCHES[measure[0]]()
    type_ = aggregate.type
    if aggregate.function is Aggregation.APPROX_COUNT_DISTINCT:
        return Values(type_, distinct_counts(sketches, groups))
    if aggregate.function is Aggregation.APPROX_TOP:
        return from_python(most_frequent(sketches, groups, int(aggregate.parameter)), type_)
    data, known = quantiles(sketches, groups, aggregate.parameter)
    return Values(type_, data, None if known.all() else known)


def of_values(aggregate: Aggregate, pane: Pane, groups: Codes) -> Values:
    """Return, for each group, an aggregate that needs all values of the group."""
    chunks = pane.values.get(("values", aggregate.argument), [])
    answer = ANSWERS[aggregate.function]
    if not chunks:
        return from_python([answer([], aggregate) for _ in groups], aggregate.type)
    codes = np.concatenate([codes for codes, _, _ in chunks])
    times = np.concatenate([times for _, _, times in chunks])
    values = np.concatenate(
        [np.array(data.to_pylist(), object) if isinstance(data, pa.Array) else data for _, data, _ in chunks]
    )
    # The sort is stable, so that values with equal times stay in the order of arrival.
    order = np.lexsort((times, codes))
    codes, values = codes[order], values[order]
    starts, ends = np.searchsorted(codes, groups, "left"), np.searchsorted(codes, groups, "right")
    return from_python(
        [answer(values[start:end].tolist(), aggregate) for start, end in zip(starts, ends, strict=True)],
        aggregate.type,
    )


def percentile(values: list[Any], part: float) -> float | None:
    return float(np.quantile(np.array(values, float), part)) if values else None


def count_distinct(values: list[Any], _: Aggregate) -> int:
    # A NaN differs from itself in Python, but all NaNs are one value in SQL.
    return len({"NaN" if value != value else value for value in values})


def top(values: list[Any], aggregate: Aggregate) -> str | None:
    """Return the most frequent values as a text; equally frequent values are in the order of the values."""
    if not values:
        return None
    ranked = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{value}:{count}" for value, count in ranked[: int(aggregate.parameter)])


ANSWERS: dict[Aggregation, Callable[[list[Any], Aggregate], Any]] = {
    Aggregation.COUNT_DISTINCT: count_distinct,
    Aggregation.MEDIAN: lambda values, aggregate: percentile(values, 0.5),
    Aggregation.PERCENTILE: lambda values, aggregate: percentile(values, aggregate.parameter),
    Aggregation.FIRST: lambda values, aggregate: values[0] if values else None,
    Aggregation.LAST: lambda values, aggregate: values[-1] if values else None,
    Aggregation.MIN: lambda values, aggregate: min(values, default=None),
    Aggregation.MAX: lambda values, aggregate: max(values, default=None),
    Aggregation.TOP: top,
}
