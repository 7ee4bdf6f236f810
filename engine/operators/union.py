"""Several inputs as one.

in: tuples of one input                 out: the same tuples; progress is the least of all inputs'
"""

from __future__ import annotations

from typing import Any

from engine.data.train import Train
from engine.data.watermark_causes import Meeting


class UnionInputOperator:
    """One input of a union."""

    def __init__(self, inputs: Meeting, place: int) -> None:
        self._inputs, self._place = inputs, place

    def process(self, train: Train) -> Train | None:
        watermark, causes = self._inputs.hear(self._place, train.watermark, train.causes)
        return Train(train.columns, train.arrival, train.kept, watermark, causes, late=train.late)

    def wants(self, time: int) -> bool:
        return True

    def snapshot(self) -> Any:
        return self._inputs.snapshot(self._place)

    def restore(self, state: Any) -> None:
        self._inputs.restore(self._place, state)
