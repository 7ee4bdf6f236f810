"""W11 written by hand with Polars, in micro-batches. Panes of windows and the last rows of both join inputs are kept.

The program relies on readings in the order of event time and on these eleven queries. Polars reads its number of threads from
POLARS_MAX_THREADS at its first import, so the caller must set this variable to 1 before the import.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl
from polars import col

from services.race.hand_written import WINDOWS_MS
from services.race.w11_workload import QUERIES, Array, Data, RaceOutcome

WITHIN_MS = 1000


@dataclass
class PolarsPanes:
    """Aggregates by pane and key: one data frame per micro-batch. All data frames are merged when a window closes."""

    key: str
    length_ms: int
    reach_ms: int  # Range of the longest window over the panes, in ms of event time.
    kept: Sequence[pl.Expr]
    combined: Sequence[pl.Expr]
    frames: list[pl.DataFrame] = field(default_factory=list)

    def add(self, readings: pl.DataFrame) -> None:
        pane = (col("ts") // self.length_ms).alias("pane")
        self.frames.append(readings.group_by(pane, self.key).agg(self.kept))

    def combine(self, end: int) -> None:
        """Merge all data frames into one row per pane and key. Drop panes that are too old for a window that ends at `end`."""
        combined = pl.concat(self.frames).group_by("pane", self.key).agg(self.combined)
        self.frames = [combined.filter(col("pane") >= (end - self.reach_ms) // self.length_ms)]


@dataclass
class Window:
    """Window query over panes, with the end of its next window."""

    panes: PolarsPanes
    range_ms: int
    slide_ms: int
    columns: Sequence[pl.Expr]
    next_end: int = 0

    def due(self, first: int, now: int) -> list[int]:
        """Return the ends of all windows that are complete at time `now`."""
        start = self.next_end or (first // self.slide_ms + 1) * self.slide_ms
        ends = list(range(start, now + 1, self.slide_ms))
        self.next_end = ends[-1] + self.slide_ms if ends else start
        return ends

    def close(self, end: int) -> pl.DataFrame:
        panes = self.panes
        first, last = (end - self.range_ms) // panes.length_ms, end // panes.length_ms
        inside = col("pane").is_between(first, last, closed="left")
        groups = panes.frames[0].filter(inside).group_by(panes.key).agg(self.columns)
        return groups.select(pl.lit(end).alias("wend"), pl.all())


class MicroBatches:
    """Program that answers the eleven queries of W11. Each micro-batch has readings, and the alerts up to the last reading's time."""

    def __init__(self) -> None:
        region = PolarsPanes(
            "region",
            1000,
            20_000,
            (
                col("temp").sum().alias("sum"),
                pl.len().alias("rows"),
                col("humidity").min().alias("low"),
                col("humidity").max().alias("high"),
            ),
            (col("sum", "rows").sum(), col("low").min(), col("high").max()),
        )
        sensor = PolarsPanes(
            "sensor",
            2000,
            10_000,
            (col("temp").sum().alias("sum"), col("wind").max().alias("high")),
            (col("sum").sum(), col("high").max()),
        )
        self.panes = (region, sensor)
        self.windows = {
            "A1": Window(region, *WINDOWS_MS["A1"], (col("sum").sum() / col("rows").sum(),)),
            "A2": Window(sensor, *WINDOWS_MS["A2"], (col("high").max(),)),
            "A3": Window(region, *WINDOWS_MS["A3"], (col("rows").sum(),)),
            "A4": Window(region, *WINDOWS_MS["A4"], (col("low").min(), col("high").max())),
            "A5": Window(sensor, *WINDOWS_MS["A5"], (col("sum").sum(),)),
        }
        self.answers: dict[str, list[pl.DataFrame]] = {name: [] for name in QUERIES}
        self.recent_readings: pl.DataFrame | None = None
        self.recent_alerts: pl.DataFrame | None = None

    def process(self, readings: pl.DataFrame, alerts: pl.DataFrame) -> None:
        first, now = readings["ts"][0], readings["ts"][-1]
        self._select(readings)
        for panes in self.panes:
            panes.add(readings)
        self._close(first, now)
        self._join(readings.select("ts", "sensor", "temp"), alerts, first, now)

    def _select(self, readings: pl.DataFrame) -> None:
        add = self.answers
        add["S1"].append(readings.filter(col("temp") > 30))
        calm = readings.filter((col("humidity") < 20) & (col("wind") > 15))
        add["S2"].append(calm.select("ts", "sensor", col("temp") * 1.8 + 32))
        add["S3"].append(readings.filter(col("region") == 3))
        add["S4"].append(readings.filter(col("wind") > 40).select("sensor", "temp"))

    def _close(self, first: int, now: int) -> None:
        due = {name: ends for name, window in self.windows.items() if (ends := window.due(first, now))}
        for panes in self.panes:
            if closing := [ends[0] for name, ends in due.items() if self.windows[name].panes is panes]:
                panes.combine(min(closing))
        for name, ends in due.items():
            self.answers[name] += [self.windows[name].close(end) for end in ends]

    def _join(self, readings: pl.DataFrame, alerts: pl.DataFrame, first: int, now: int) -> None:
        """Join new readings with all known alerts, and new alerts with the readings of earlier micro-batches."""
        known_alerts = since(first - WITHIN_MS, self.recent_alerts, alerts)
        pairs = readings.join(known_alerts, on="sensor")
        if self.recent_readings is not None and len(alerts):
            pairs = pl.concat((pairs, self.recent_readings.join(alerts, on="sensor")))
        gap = (pairs["ts"] - pairs["ts_right"]).abs()
        pairs = pairs.select("ts", "ts_right", "sensor", "temp", "level")
        self.answers["J1"].append(pairs.filter(gap <= 500))
        self.answers["J2"].append(
            pairs.filter((gap <= WITHIN_MS) & (pairs["level"] >= 4) & (pairs["temp"] > 25))
        )
        self.recent_readings = since(now - WITHIN_MS, self.recent_readings, readings)
        self.recent_alerts = since(now - WITHIN_MS, known_alerts)


def since(moment: int, *parts: pl.DataFrame | None) -> pl.DataFrame:
    """Return the rows from time `moment` on; the rows must be in the order of event time."""
    joined = pl.concat([part for part in parts if part is not None])
    return joined.slice(int(joined["ts"].search_sorted(moment)))


def micro_batches(data: Data, train: int) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    readings, alerts = pl.DataFrame(data.readings), pl.DataFrame(data.alerts)
    sent = 0
    for start in range(0, len(readings), train):
        batch = readings.slice(start, train)
        upto = int(alerts["ts"].search_sorted(batch["ts"][-1], side="right"))
        yield batch, alerts.slice(sent, upto - sent)
        sent = upto


def run_polars(data: Data, train: int) -> RaceOutcome:
    """Answer the eleven queries of W11 in micro-batches of `train` readings."""
    program = MicroBatches()
    began, cpu_began = time.perf_counter(), time.process_time()
    for readings, alerts in micro_batches(data, train):
        program.process(readings, alerts)
    elapsed_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    answers = {name: [columns(part) for part in parts] for name, parts in program.answers.items()}
    return RaceOutcome(elapsed_s, cpu_s, len(data.readings), train, answers)


def columns(part: pl.DataFrame) -> tuple[Array, ...]:
    return tuple(column.to_numpy() for column in part)
