"""Filter and projection in one operator: for each tuple that satisfies the condition, the values of the expressions.

A tuple for which an expression fails (an overflow, an impossible cast) is left out and counted with its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from engine.data.train import LateRows, Train, taken
from engine.expressions.compiler import RowFailures, compile_condition, compile_projection
from engine.operators.protocol import Stateless
from engine.plan.plan import Column, Expression


class SelectOperator(Stateless):
    """Operator for `SELECT expressions WHERE condition`, either of which may be absent."""

    def __init__(self, condition: Expression | None, expressions: Sequence[Expression] | None) -> None:
        self._condition = None if condition is None else compile_condition(condition)
        self._places = plain_columns(expressions)
        computes = expressions is not None and self._places is None
        self._project = compile_projection(expressions) if computes and expressions is not None else None
        self.failed: Counter[str] = Counter()

    def process(self, train: Train) -> Train | None:
        late = None if train.late is None else self._late(train.late)
        if not len(train):
            return Train((), train.arrival, train.kept, train.watermark, train.causes, late=late)
        out = self._selected(train)
        out.late = late
        return out

    def _selected(self, train: Train) -> Train:
        failures = RowFailures()
        if self._places is not None:
            train = (
                train.with_columns(tuple(train.columns[place] for place in self._places))
                if self._condition is None
                else self._filtered(train, failures, self._places)
            )
        elif self._condition is not None:
            train = self._filtered(train, failures, range(len(train.columns)))
        if self._project is not None and len(train):
            failed = RowFailures()
            train = train.with_columns(self._project(train, failed))
            rows = failed.rows
            if rows is not None:
                train = train.take(np.flatnonzero(~rows))
            self.failed.update(failed.counts)
        if failures.counts:
            self.failed.update(failures.counts)
        return train

    def _late(self, late: LateRows) -> LateRows | None:
        """Return the late rows that satisfy the condition, or None.

        A late row for which an expression fails is left out, but not counted as failed.
        """
        if self._condition is not None:
            failures = RowFailures()
            mask, failed = self._condition(late.as_train(), failures), failures.rows
            late = late.take(np.flatnonzero(mask if failed is None else mask & ~failed))
        if not len(late):
            return None  # Without rows, the projection of the columns cannot be computed
        if self._places is not None:
            return replace(late, columns=tuple(late.columns[place] for place in self._places))
        if self._project is None:
            return late
        failures = RowFailures()
        late, failed = replace(late, columns=self._project(late.as_train(), failures)), failures.rows
        return late if failed is None else late.take(np.flatnonzero(~failed))

    def _filtered(self, train: Train, failures: RowFailures, places: Sequence[int]) -> Train:
        """Return the tuples for which the condition is true, with only the columns at the positions `places`."""
        assert self._condition is not None
        mask = self._condition(train, failures)
        rows = failures.rows
        chosen = (mask if rows is None else mask & ~rows).nonzero()[0]
        if len(chosen) == len(train):
            return train.with_columns(tuple(train.columns[place] for place in places))
        columns = tuple(train.columns[place].take(chosen) for place in places)
        return Train(columns, taken(train.arrival, chosen), train.kept, train.watermark, train.causes)


def plain_columns(expressions: Sequence[Expression] | None) -> tuple[int, ...] | None:
    """Return the positions of the columns that a projection picks; None if the projection computes a value."""
    if expressions is None or not all(isinstance(expression, Column) for expression in expressions):
        return None
    return tuple(expression.place for expression in expressions if isinstance(expression, Column))
