"""Some of the tuples that have come in of each stream: how much a condition lets through can be found out from them.

Copies, no more than `TUPLES` a stream, of what came first: whoever asks from time to time sees each time others.
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
            # A slice would keep all of the batch.
            copied = train.take(np.arange(min(room, len(train))))
            self._trains.setdefault(stream, []).append(Train(copied.columns, copied.arrival))
            self._room[stream] = room - len(copied)

    def by_stream(self) -> Mapping[str, Train]:
        return {stream: merged(trains) for stream, trains in self._trains.items()}
