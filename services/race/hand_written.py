"""W11 written by hand in numpy for this one workload: a query engine can hardly be faster.

The program relies on keys from 0 to 999 and 0 to 9, on input in the order of event time, and on the eleven queries of W11. It does no
planning, scheduling, measuring or accounting. Answers are lists of column arrays per query.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Batch = Mapping[str, Array]
Answers = dict[str, list[tuple[Array, ...]]]

ThreeColumns = tuple[Array, Array, Array]

SENSORS, REGIONS = 1000, 10
SENSOR_PANE_MS, REGION_PANE_MS = 2000, 1000
# Range and slide of each window query, in milliseconds.
WINDOWS_MS = {
    "A1": (10_000, 2_000),
    "A2": (10_000, 10_000),
    "A3": (5_000, 1_000),
    "A4": (20_000, 5_000),
    "A5": (4_000, 2_000),
}
RUNS_MAX = 4
COLUMNS = ("ts", "sensor", "region", "temp", "humidity", "wind")


class HandWritten:
    """Program that answers the eleven queries of W11 from batches of readings and alerts, in the order of event time."""

    def __init__(self) -> None:
        self.answers: Answers = {
            q: [] for q in ("S1", "S2", "S3", "S4", "A1", "A2", "A3", "A4", "A5", "J1", "J2")
        }
        # Aggregates of each pane (sums, counts, minima and maxima per key), by the number of the pane.
        self.region: defaultdict[int, dict[str, Array]] = defaultdict(dict)
        self.sensor: defaultdict[int, dict[str, Array]] = defaultdict(dict)
        self.next_end: dict[str, int] = {}
        # Columns ts, sensor and temp of each recent batch of readings.
        self.recent_readings: list[ThreeColumns] = []
        # Columns ts, sensor and level of each recent batch of alerts.
        self.recent_alerts: list[ThreeColumns] = []

    def readings(self, batch: Batch) -> None:
        ts, sensor, region, temp, humidity, wind = (batch[name] for name in COLUMNS)
        add = self.answers
        chosen = np.flatnonzero(temp > 30)
        add["S1"].append(tuple(column.take(chosen) for column in (ts, sensor, region, temp, humidity, wind)))
        chosen = np.flatnonzero((humidity < 20) & (wind > 15))
        add["S2"].append((ts.take(chosen), sensor.take(chosen), temp.take(chosen) * 1.8 + 32))
        chosen = np.flatnonzero(region == 3)
        add["S3"].append(tuple(column.take(chosen) for column in (ts, sensor, region, temp, humidity, wind)))
        chosen = np.flatnonzero(wind > 40)
        add["S4"].append((sensor.take(chosen), temp.take(chosen)))
        self._aggregate(ts, sensor, region=region, temp=temp, humidity=humidity, wind=wind)
        self._pairs((ts, sensor, temp), self.recent_alerts, from_readings=True)
        keep(self.recent_readings, (ts, sensor, temp))
        self._expire(int(ts[-1]), self.recent_alerts)

    def alerts(self, batch: Batch) -> None:
        ts, sensor, level = batch["ts"], batch["sensor"], batch["level"]
        self._pairs((ts, sensor, level), self.recent_readings, from_readings=False)
        keep(self.recent_alerts, (ts, sensor, level))
        self._expire(int(ts[-1]), self.recent_readings)

    def _aggregate(
        self, ts: Array, sensor: Array, region: Array, temp: Array, humidity: Array, wind: Array
    ) -> None:
        low, high = int(ts[0]), int(ts[-1])
        for start in range(low // 1000 * 1000, high + 1, 1000):
            a, b = np.searchsorted(ts, (start, start + 1000))
            if a == b:
                continue
            pane, keys, values = self.region[start // REGION_PANE_MS], region[a:b], temp[a:b]
            if not pane:
                pane.update(
                    sum=np.zeros(REGIONS),
                    rows=np.zeros(REGIONS, np.int64),
                    low=np.full(REGIONS, np.inf),
                    high=np.full(REGIONS, -np.inf),
                )
            pane["sum"] += np.bincount(keys, values, REGIONS)
            pane["rows"] += np.bincount(keys, minlength=REGIONS)
            np.minimum.at(pane["low"], keys, humidity[a:b])
            np.maximum.at(pane["high"], keys, humidity[a:b])
            pane, keys = self.sensor[start // SENSOR_PANE_MS], sensor[a:b]
            if not pane:
                pane.update(
                    sum=np.zeros(SENSORS), rows=np.zeros(SENSORS, np.int64), high=np.full(SENSORS, -np.inf)
                )
            pane["sum"] += np.bincount(keys, values, SENSORS)
            pane["rows"] += np.bincount(keys, minlength=SENSORS)
            np.maximum.at(pane["high"], keys, wind[a:b])
        for query, (range_, slide) in WINDOWS_MS.items():
            end = self.next_end.get(query) or (low // slide + 1) * slide
            while end <= high:
                self._close(query, end, range_)
                end += slide
            self.next_end[query] = end
        for panes, pane_ms, reach_ms in (
            (self.region, REGION_PANE_MS, 20_000),
            (self.sensor, SENSOR_PANE_MS, 10_000),
        ):
            for number in [number for number in panes if (number + 1) * pane_ms <= high - reach_ms]:
                del panes[number]

    def _close(self, query: str, end: int, range_: int) -> None:
        by_sensor = query in ("A2", "A5")
        store, pane_ms = (self.sensor, SENSOR_PANE_MS) if by_sensor else (self.region, REGION_PANE_MS)
        panes = [store[n] for n in range((end - range_) // pane_ms, end // pane_ms) if n in store]
        rows = np.sum([pane["rows"] for pane in panes], axis=0)
        groups = np.flatnonzero(rows)
        bounds = np.full(len(groups), end)

        def over(fold: Callable[..., Array], part: str) -> Array:
            return fold([pane[part] for pane in panes], axis=0)[groups]

        value: tuple[Array, ...]
        match query:
            case "A1":
                value = (over(np.sum, "sum") / rows[groups],)
            case "A2":
                value = (over(np.max, "high"),)
            case "A3":
                value = (rows[groups],)
            case "A4":
                value = (over(np.min, "low"), over(np.max, "high"))
            case _:
                value = (over(np.sum, "sum"),)
        self.answers[query].append((bounds, groups, *value))

    def _pairs(self, new: ThreeColumns, stored: Iterable[ThreeColumns], from_readings: bool) -> None:
        ts, sensor, value = new
        for other_ts, other_sensor, other_value in stored:
            if other_ts[-1] < ts[0] - 1000 or other_ts[0] > ts[-1] + 1000:
                continue
            order = np.argsort(other_sensor.astype(np.uint16), kind="stable")
            starts = np.zeros(SENSORS + 1, np.intp)
            np.cumsum(np.bincount(other_sensor, minlength=SENSORS), out=starts[1:])
            first = starts[sensor]
            count = starts[sensor + 1] - first
            mine = np.repeat(np.arange(len(ts)), count)
            theirs = order[np.repeat(first - np.cumsum(count) + count, count) + np.arange(len(mine))]
            gap = np.abs(ts[mine] - other_ts[theirs])
            near = np.flatnonzero(gap <= 1000)
            mine, theirs, gap = mine[near], theirs[near], gap[near]
            left, right = (mine, theirs) if from_readings else (theirs, mine)
            reading = (ts, sensor, value) if from_readings else (other_ts, other_sensor, other_value)
            alert = (other_ts, other_value) if from_readings else (ts, value)
            pairs = (reading[0][left], alert[0][right], reading[1][left], reading[2][left], alert[1][right])
            half = np.flatnonzero(gap <= 500)
            self.answers["J1"].append(tuple(column.take(half) for column in pairs))
            hot = np.flatnonzero((pairs[4] >= 4) & (pairs[3] > 25))
            self.answers["J2"].append(tuple(column.take(hot) for column in pairs))

    def _expire(self, now: int, stored: list[ThreeColumns]) -> None:
        while stored and stored[0][0][-1] < now - 1000:
            stored.pop(0)
        if stored and stored[0][0][0] < now - 3000:
            first = int(np.searchsorted(stored[0][0], now - 1000))
            ts, sensor, value = stored[0]
            stored[0] = (ts[first:], sensor[first:], value[first:])


def keep(stored: list[ThreeColumns], new: ThreeColumns) -> None:
    """Append a batch, and merge all batches if there are more than RUNS_MAX: a join probes few long batches faster than many short ones."""
    stored.append(new)
    if len(stored) > RUNS_MAX:
        ts, sensor, value = (np.concatenate(column) for column in zip(*stored, strict=True))
        stored[:] = [(ts, sensor, value)]
