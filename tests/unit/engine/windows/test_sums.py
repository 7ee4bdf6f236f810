"""Sums of integers: exact if they fit into an int64, and NULL otherwise."""

from collections.abc import Sequence

import numpy as np
import pytest

from engine.data.schema import FLOAT64, INT64, TIMESTAMP
from engine.data.train import Train, Values, values_to_arrow
from engine.plan.aggregations import Aggregation
from engine.plan.plan import Aggregate
from engine.windows.pane_aggregates import answered, measures_of
from engine.windows.panes import PaneStore, merged_panes

LARGEST = 2**63 - 1


def over_panes(function: Aggregation, panes: Sequence[Sequence[int]]) -> object:
    aggregate = Aggregate(function, 1, INT64 if function is Aggregation.SUM else FLOAT64)
    store = PaneStore(1, 0, (), ())
    store.measures |= measures_of(aggregate) | {("rows", None)}
    for number, values in enumerate(panes):
        columns = (
            Values(TIMESTAMP, np.full(len(values), number, np.int64)),
            Values(INT64, np.array(values, np.int64)),
        )
        store.add(Train(columns, np.zeros(len(values))))
    groups = np.array([0])
    rows = np.array([sum(map(len, panes))])
    whole = merged_panes(store.youngest(0, len(panes)), store.measures)
    return values_to_arrow(answered(aggregate, whole, groups, rows)).to_pylist()[0]


@pytest.mark.parametrize(
    ("panes", "total"),
    [
        ([[1, 2], [3]], 6),
        ([[-1], [-(2**40)]], -(2**40) - 1),
        ([[LARGEST], [1, -1]], LARGEST),
        ([[LARGEST, LARGEST], [-LARGEST]], LARGEST),
        ([[-LARGEST - 1]], -LARGEST - 1),
        ([[LARGEST], [1]], None),
        ([[-LARGEST, -2]], None),
    ],
)
def test_a_sum_is_exact_or_null(panes: list[list[int]], total: int | None) -> None:
    assert over_panes(Aggregation.SUM, panes) == total


def test_a_mean_is_right_although_the_sum_overflows() -> None:
    assert over_panes(Aggregation.AVG, [[LARGEST, LARGEST], [LARGEST]]) == pytest.approx(float(LARGEST))
