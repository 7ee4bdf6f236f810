"""Samples of the tuples that arrived in each stream, from which the selectivity of a condition can be measured.

A `Samples` object copies the first `TUPLES` tuples of each stream that it sees; use a new object for newer samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from engine.data.train import Train, merged

TUPLES = 1000


@dataclass
class Samples:
    _trains: dict[str, list[Train]] = field(init=False, default_factory=dict)
    _room: dict[str, int] = field(init=False, default_factory=dict)

    def add(self, stream: str, train: Train) -> None:
        room = self._room.get(stream, TUPLES)
        if room and len(train):
            # The tuples are copied, because a numpy view would keep the whole batch in memory.
            copied = train.take(np.arange(min(room, len(train))))
            self._trains.setdefault(stream, []).append(Train(copied.columns, copied.arrival))
            self._room[stream] = room - len(copied)

    def by_stream(self) -> Mapping[str, Train]:
        return {stream: merged(trains) for stream, trains in self._trains.items()}
