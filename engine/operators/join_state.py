"""Tuples that one side of a join stores, in columns: new tuples are added at the end, old tuples are dropped at the front.

New tuples are copied into the free room of the arrays. When the room is used up, all tuples that are still needed move
to the front of new arrays, which have as much room again. So a tuple is copied about twice. Texts stay in Arrow arrays.
Two neighbouring arrays are merged when the later array is as long as the earlier array, so that there are few arrays.

    | forgotten | stored, found through the index | stored, not in the index | room |
                ^ head                            ^ indexed                  ^ end
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.data.keys import Codes
from engine.data.schema import DataType, Schema, TypeKind
from engine.data.train import Arrivals, Mask, Places, Train, Values, is_same, joined
from engine.data.watermark_causes import NO_PROGRESS

Times = npt.NDArray[np.int64]

ROOM_MIN = 1024
# Maximum number of stored tuples that are searched without an index: for so few tuples, sorting the probing tuples is faster.
SCANNED_MAX = 16_384
# An index is built once searches without an index have compared SCANS times as many tuples as the index would hold.
SCANS = 4
# Number of tuples that `forget` checks together at first; each further check takes twice as many.
STRIDE = 1024
# Bytes of a tuple's code number, arrival time and kept fraction.
HIDDEN_BYTES = 24
# If memory is scarce, stored tuples move to new arrays only if that frees at least 1/GAIN of the room.
GAIN = 8
NO_END = 2**62
# Maximum number of pairs of tuples with equal keys per train: more would use too much memory and delay all other queries.
PAIRS_MAX = 4_000_000
TOO_MANY_PAIRS = f"too many pairs of equal keys for one train (limit {PAIRS_MAX:,})"
NOWHERE: Places = np.empty(0, np.intp)


class Fixed:
    """Stored values of a column of numbers."""

    def __init__(self, type_: DataType, room: int) -> None:
        self._type = type_
        self.data: npt.NDArray[Any] = np.empty(room, type_.numpy)
        self._valid: Mask | None = None  # Mask of the values that are not NULL; created with the first NULL

    def write(self, values: Values, at: int) -> None:
        self.data[at : at + len(values)] = values.data
        if values.valid is not None and self._valid is None:
            self._valid = np.ones(len(self.data), bool)
        if self._valid is not None:
            self._valid[at : at + len(values)] = True if values.valid is None else values.valid

    def take(self, places: Places) -> Values:
        return Values(
            self._type, self.data.take(places), None if self._valid is None else self._valid.take(places)
        )

    def move(self, places: Places, room: int) -> None:
        """Keep only the values at these positions, in arrays with room for `room` values in total."""
        self.data = moved(self.data, places, room)
        if self._valid is not None:
            self._valid = moved(self._valid, places, room)


class Texts:
    """Stored values of a column of texts."""

    def __init__(self, type_: DataType) -> None:
        self._type = type_
        self._parts: list[Values] = []

    @property
    def bytes(self) -> int:
        return sum([part.data.nbytes for part in self._parts])

    def write(self, values: Values, at: int) -> None:
        parts = self._parts
        parts.append(values)
        while len(parts) > 1 and len(parts[-2]) <= len(parts[-1]):
            parts[-2:] = [joined(parts[-2:])]

    def take(self, places: Places) -> Values:
        parts = self._parts
        if len(parts) == 1:
            return parts[0].take(places)
        chunks = pa.chunked_array([part.data for part in parts], pa.string())
        data = chunks.take(pa.array(places)).combine_chunks()
        if all(part.valid is None for part in parts):
            return Values(self._type, data)
        return Values(self._type, data, np.concatenate([known(part) for part in parts]).take(places))

    def move(self, places: Places, room: int) -> None:
        """Keep only the values at these positions; texts need no room in advance."""
        self._parts = [self.take(places)]


StoredColumn = Fixed | Texts


class StoredTuples:
    """Tuples in the order in which they were added, found by the code numbers of their keys."""

    def __init__(
        self, schema: Schema, time: int, room: int = ROOM_MIN, scanned_max: int = SCANNED_MAX
    ) -> None:
        self._room_min, self._scanned_max = room, scanned_max
        self._columns: list[StoredColumn] = [
            Texts(field.type) if field.type.kind is TypeKind.STRING else Fixed(field.type, room)
            for field in schema.fields
        ]
        times = self._columns[time]
        assert isinstance(times, Fixed)
        self._time = times
        self._texts = [column for column in self._columns if isinstance(column, Texts)]
        numbers = [field.type.numpy for field in schema.fields if field.type.kind is not TypeKind.STRING]
        self._width = sum([np.dtype(number).itemsize + 1 for number in numbers]) + HIDDEN_BYTES
        self._codes: Codes = np.empty(room, np.intp)
        self._arrival = np.empty(room)
        self._kept = np.empty(room)
        self._head = self._end = self._indexed = 0
        self._index = CodeOrder(self._codes[:0], 0)
        self._scanned = 0  # Number of tuples compared in searches since the last index was built
        self.refused = 0  # Number of pairs left out because a train would have had more than PAIRS_MAX pairs
        self._latest = -np.inf  # Latest arrival time of all tuples
        self._floor = NO_PROGRESS
        self._last = NO_PROGRESS  # Largest event time of all tuples
        self._least_kept = 1.0
        self.bytes = 0  # Size of all arrays in bytes, including unused room
        self._measure()

    def __len__(self) -> int:
        return self._end - self._head

    def fits(self, train: Train) -> bool:
        """Return True if the train fits into the free room, so that adding it takes no more memory."""
        return not self._texts and self._end + len(train) <= len(self._codes)

    def prepare(self, train: Train, most: int, extra_bytes: int = 0) -> int:
        """Make room for a train, with at most `most` more bytes; return how many tuples of the train can be added.

        Each tuple takes `extra_bytes` more bytes elsewhere, which count towards `most`.
        """
        texts = 0
        if self._texts:
            texts = sum(
                [column.data.nbytes for column in train.columns if column.type.kind is TypeKind.STRING]
            )
        tuples = len(train) if texts <= most else len(train) * most // texts
        room, free = len(self._codes), len(self._codes) - self._end
        if tuples > free:
            rows = room + max(0, most - texts) // (self._width + extra_bytes)
            # Each move copies all tuples, so a move that frees little room is not worth its time.
            if rows - self._alive().sum() > max(free, room // GAIN):
                self._make_room(tuples, rows)
                free = len(self._codes) - self._end
        return min(tuples, free)

    def codes(self) -> Codes:
        """Return the code number of each tuple's key."""
        return self._codes[self._head : self._end]

    def recode(self, mapped: Codes) -> None:
        """Replace each stored code number by `mapped[code]`, because the keys got new code numbers."""
        self.codes()[:] = mapped[self.codes()]
        self._index, self._indexed = CodeOrder(self._codes[:0], 0), self._head

    def add(self, train: Train, codes: Codes) -> None:
        """Store the tuples of a train."""
        begin, end = self._end, self._end + len(train)
        if end > len(self._codes):
            self._make_room(len(train))
            begin, end = self._end, self._end + len(train)
        for column, values in zip(self._columns, train.columns, strict=True):
            column.write(values, begin)
        self._codes[begin:end] = codes
        self._arrival[begin:end] = train.arrival
        self._kept[begin:end] = train.kept
        self._latest = max(self._latest, latest(train.arrival))
        self._last = max(self._last, int(self._time.data[begin:end].max()))
        self._least_kept = min(self._least_kept, train.kept)
        self._end = end
        if self._texts:
            self._measure()

    def forget(self, before: int) -> None:
        """Drop the oldest tuples, up to the first tuple with an event time of at least `before`.

        Older tuples behind that tuple are dropped when the tuples next move to new arrays.
        """
        self._floor, stride = before, STRIDE
        times = self._time.data
        while self._head < self._end and times[self._head] < before:
            alive = times[self._head : min(self._head + stride, self._end)] >= before
            first = int(alive.argmax())
            self._head += first if alive[first] else len(alive)
            stride *= 2

    def matches(self, codes: Codes, times: Times, low: int, high: int, size: int) -> tuple[Places, Places]:
        """Return, for each pair of a probing tuple and a stored tuple with equal keys, the positions of both.

        The event time of the stored tuple minus that of the probing tuple must be from `low` to `high`.
        """
        near = times <= self._last - low
        if near.all():
            probe, stored = self._equal(codes, size)
        else:
            places = near.nonzero()[0]
            probe, stored = self._equal(codes.take(places), size)
            probe = places.take(probe)
        gap = self._time.data.take(stored)
        gap -= times.take(probe)
        gap -= low
        # Negative gaps are the largest numbers when read as unsigned, so that one comparison checks both limits.
        close = (gap.view(np.uint64) <= high - low).nonzero()[0]
        return probe.take(close), stored.take(close)

    def take(self, places: Places) -> tuple[Values, ...]:
        return tuple([column.take(places) for column in self._columns])

    def arrivals(self, places: Places, own: Arrivals) -> Arrivals:
        """Return, for each pair, the later of the arrival times of its two tuples."""
        if is_same(own) and own[0] >= self._latest:
            return own
        return np.maximum(own, self._arrival.take(places))

    def kept(self, places: Places) -> float:
        """Return the lowest kept fraction of the tuples at these positions."""
        return 1.0 if self._least_kept == 1.0 else float(self._kept.take(places).min())

    def _equal(self, codes: Codes, size: int) -> tuple[Places, Places]:
        """Return, for each pair of a probing tuple and a stored tuple with equal keys, the positions of both."""
        if not len(self):
            return NOWHERE, NOWHERE
        start = max(self._head, self._indexed)
        if len(self) > len(codes) and len(self) <= self._scanned_max:
            return self._scan(self._head, codes, size)
        self._scanned += self._end - start
        if len(self) <= len(codes) or self._scanned > SCANS * len(self):
            if self._end > start:
                self._reindex(size)
            return self._indexed_pairs(codes)
        found = self._indexed_pairs(codes), self._scan(start, codes, size)
        return np.concatenate([found[0][0], found[1][0]]), np.concatenate([found[0][1], found[1][1]])

    def _scan(self, start: int, codes: Codes, size: int) -> tuple[Places, Places]:
        order = CodeOrder(codes, size)
        stored, probe = order.pairs(self._codes[start : self._end])
        self.refused += order.refused
        stored += start
        return probe, stored

    def _indexed_pairs(self, codes: Codes) -> tuple[Places, Places]:
        before = self._index.refused
        probe, stored = self._index.pairs(codes)
        self.refused += self._index.refused - before
        stored += self._indexed - len(self._index)
        return probe, stored

    def _reindex(self, size: int) -> None:
        self._index = CodeOrder(self._codes[self._head : self._end], size)
        self._indexed, self._scanned = self._end, 0
        self._measure()

    def _measure(self) -> None:
        texts = sum([text.bytes for text in self._texts])
        self.bytes = self._width * len(self._codes) + texts + self._index.bytes

    def _alive(self) -> Mask:
        """Return a mask of the stored tuples that are young enough to match later tuples."""
        alive: Mask = self._time.data[self._head : self._end] >= self._floor
        return alive

    def _make_room(self, more: int, most: int = NO_END) -> None:
        """Move the tuples that are still needed to new arrays, with room for `more` further tuples.

        The new arrays have room for at most `most` tuples in total.
        """
        alive = self._alive().nonzero()[0] + self._head
        room = min(most, max(self._room_min, 2 * len(alive) + 4 * more))
        for column in self._columns:
            column.move(alive, room)
        self._codes = moved(self._codes, alive, room)
        self._arrival = moved(self._arrival, alive, room)
        self._kept = moved(self._kept, alive, room)
        self._least_kept = float(self._kept[: len(alive)].min(initial=1.0))
        self._head, self._end = 0, len(alive)
        self._index, self._indexed = CodeOrder(self._codes[:0], 0), 0
        self._measure()


class CodeOrder:
    """Index of tuples: their order by the code number of the key, and the position at which each code number begins."""

    def __init__(self, codes: Codes, size: int) -> None:
        self._order = narrow(codes, size).argsort(kind="stable")
        # The last count is 0; `pairs` uses this count for keys that are newer than the index.
        self._count = np.bincount(codes, minlength=size + 1)
        self._first = self._count.cumsum() - self._count
        self.bytes = self._order.nbytes + self._count.nbytes + self._first.nbytes
        # Number of pairs that were left out since the index was built, because a train had more than PAIRS_MAX pairs.
        self.refused = 0

    def __len__(self) -> int:
        return len(self._order)

    def pairs(self, codes: Codes) -> tuple[Places, Places]:
        """Return, for at most PAIRS_MAX pairs of a probing tuple and an indexed tuple with equal keys, the positions of both."""
        count = self._count.take(codes, mode="clip")
        probes = count.astype(bool).nonzero()[0]
        count, first = count.take(probes), self._first.take(codes.take(probes))
        if int(count.sum()) > PAIRS_MAX:
            fitting = int(np.searchsorted(count.cumsum(), PAIRS_MAX, "right"))
            self.refused += int(count[fitting:].sum())
            probes, count, first = probes[:fitting], count[:fitting], first[:fitting]
        probe = probes.repeat(count)
        # Positions in `_order` of the indexed tuples that match each probing tuple.
        within = (first - count.cumsum() + count).repeat(count)
        within += np.arange(len(within))
        return probe, self._order.take(within)


def narrow(codes: Codes, size: int) -> npt.NDArray[Any]:
    """Return the code numbers in 16 bits if possible: numpy's stable sort of 16 bits is a fast radix sort."""
    return codes.astype(np.uint16) if size <= 1 << 16 else codes


def moved(data: npt.NDArray[Any], places: Places, room: int) -> npt.NDArray[Any]:
    """Return an array with room for `room` elements, which begins with copies of the elements at `places`."""
    longer = np.empty(room, data.dtype)
    data.take(places, out=longer[: len(places)], mode="clip")
    return longer


def latest(arrival: Arrivals) -> float:
    return float(arrival[0]) if is_same(arrival) else float(arrival.max())


def known(part: Values) -> Mask:
    return np.ones(len(part), bool) if part.valid is None else part.valid
