"""Several inputs as one.

in: tuples of one input                 out: the same tuples; progress is the least of all inputs'
"""

from __future__ import annotations

from typing import Any

from engine.train import NO_PROGRESS, Train


class UnionState:
    """How far each input has come."""

    def __init__(self, inputs: int) -> None:
        self.watermarks = [NO_PROGRESS] * inputs


class UnionInputOperator:
    """One input of a union."""

    def __init__(self, state: UnionState, place: int) -> None:
        self._state, self._place = state, place

    def process(self, train: Train) -> Train | None:
        watermarks = self._state.watermarks
        watermarks[self._place] = max(watermarks[self._place], train.watermark)
        return Train(train.columns, train.arrival, train.kept, min(watermarks))

    def wants(self, time: int) -> bool:
        return True

    def snapshot(self) -> Any:
        return self._state.watermarks[self._place]

    def restore(self, state: Any) -> None:
        self._state.watermarks[self._place] = state
