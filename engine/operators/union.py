"""UNION ALL: merges several inputs into one stream, with one operator for each input.

Each operator emits the tuples of its input unchanged. The watermark of the output is the lowest watermark of all inputs.
"""

from __future__ import annotations

from typing import Any

from engine.data.train import Train
from engine.data.watermark_causes import Meeting
from engine.operators.protocol import Progressive


class UnionInputOperator(Progressive):
    """Operator of one input of a union: passes on the input's tuples, and the lowest watermark of all inputs."""

    def __init__(self, inputs: Meeting, place: int) -> None:
        self._inputs, self._place = inputs, place

    def process(self, train: Train) -> Train | None:
        watermark, causes = self._inputs.hear(self._place, train.watermark, train.causes)
        return Train(train.columns, train.arrival, train.kept, watermark, causes, late=train.late)

    def snapshot(self) -> Any:
        return self._inputs.snapshot(self._place)

    def restore(self, state: Any) -> None:
        self._inputs.restore(self._place, state)
