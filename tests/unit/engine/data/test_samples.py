"""Samples of arriving tuples, from which the selectivities of conditions are measured."""

from __future__ import annotations

import numpy as np

from engine.data.samples import TUPLES, Samples
from engine.data.schema import FLOAT64
from engine.data.train import Train, Values, same_arrival


def train(*values: float) -> Train:
    return Train((Values(FLOAT64, np.array(values)),), same_arrival(0.0, len(values)))


def test_samples_are_copies_of_the_first_tuples_of_each_stream() -> None:
    samples, long = Samples(), train(*range(10 * TUPLES))
    samples.add("a", train(7.0, 8.0))
    samples.add("a", long)
    samples.add("a", train(9.0))
    samples.add("b", train())
    samples.add("b", train(1.0))
    long.columns[0].data[:] = -1.0
    found = {stream: one.columns[0].data.tolist() for stream, one in samples.by_stream().items()}
    assert found == {"a": [7.0, 8.0, *range(TUPLES - 2)], "b": [1.0]}
