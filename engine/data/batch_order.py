"""Order of rows within a published batch.

A batch is what a producer publishes at once: a micro-batch of Spark with all its partitions, one Arrow Flight upload, or one
message of rows. Its rows are sorted by event time, whatever their order in files and messages. So a row is late only if it is
behind the watermark of earlier batches. The order is part of the stream's log: recovery, copies on other nodes and all
classes that read the stream see the same order. Which rows are late therefore does not depend on
how rows are divided into trains.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.data.schema import StreamSchema
from engine.data.train import Train, merged

LAST = np.iinfo(np.int64).max


def in_time_order(stream: StreamSchema, batch: Sequence[Train]) -> Sequence[Train]:
    """Return a batch's trains with their rows sorted by event time; rows of equal time stay in order, and rows without event time go last.

    The lengths of the trains do not change. A batch that is sorted already is returned unchanged.
    """
    trains = [train for train in batch if len(train)]
    if stream.time is None or not trains:
        return batch
    times = np.concatenate([event_times(train, stream.time) for train in trains])
    if bool((times[1:] >= times[:-1]).all()):
        return batch
    whole = merged(trains).take(np.argsort(times, kind="stable"))
    ends = np.cumsum([len(train) for train in trains]).tolist()
    return [whole.slice(end - len(train), end) for end, train in zip(ends, trains, strict=True)]


def event_times(train: Train, time: int) -> npt.NDArray[np.int64]:
    """Return the event time of each row; rows without event time get the constant LAST, so that they are sorted last."""
    column = train.columns[time]
    data: npt.NDArray[np.int64] = column.data
    return data if column.valid is None else np.where(column.valid, data, LAST)
