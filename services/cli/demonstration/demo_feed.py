"""The demonstration's input: W11's rows in one file, and Spark feeds that replay them, one a class, at the scenario's rates.

A feed begins before the scenario does, slowly, while Spark's queries warm up: the first micro-batches take seconds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from configs.classes.live_class import LiveClass
from configs.documents.spark_streams import StreamsFile
from configs.scenario import w11
from configs.scenario.arrivals import StepArrivals
from configs.yaml_loading import parse_model
from services.ingest.process import IngestProcess
from services.ingest.progress import FeedProgress
from services.race import w11_workload as workload

if TYPE_CHECKING:
    from actors.system import System

# One lap of the input, in event time, and readings in a second of it. As many come in a second of the clock in one class, or
# some times as many: event time goes by about as fast as the clock does.
PERIOD_S, READINGS_PER_S = 20, 20_000
# Until micro-batches take as long as they will; rows come at a part of the scenario's first rate.
LEAD_S = 12.0
LEAD_PART = 0.2
# Spark plans the next micro-batch when the last is done, but not before.
TRIGGER_MS = 50
# Rows that are later than that are missed: two micro-batches may be made up for, a pause of the JVM is not to be a flood.
CATCH_UP_S = 0.3
FLOWING_S = 60.0
LOOK_S = 0.1
# Two threads: what one feed's Python does, another's Spark need not wait for. A JVM of two minutes is quicker without code
# that takes minutes to pay for its making.
SESSION = {
    "master": "local[2]",
    "conf": {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"},
}
# Spark takes all that is left of the machine; queries get theirs at once.
NICENESS = 5
# Which of the rows of the file each stream of a class takes.
TAKES = {
    "readings": {"where": "level IS NULL", "columns": ("ts", "sensor", "region", "temp", "humidity", "wind")},
    "alerts": {"where": "level IS NOT NULL", "columns": ("ts", "sensor", "level")},
}


def inputs() -> dict[str, pa.Table]:
    """Readings and alerts of one lap."""
    data = workload.generated(PERIOD_S, READINGS_PER_S)
    return {"readings": data.readings, "alerts": data.alerts}


def write_rows(tables: Mapping[str, pa.Table], path: Path) -> None:
    """All of them in one file, in the order of their event times; a row has what its stream has."""
    merged = pa.concat_tables(tables.values(), promote_options="default").sort_by("ts")
    pq.write_table(merged, path)


def streams_file(
    classes: Sequence[LiveClass], plan: Mapping[str, StepArrivals], seconds: float, rows: Path
) -> StreamsFile:
    """A feed of its class's name for each class."""
    streams: dict[str, Any] = {}
    feeds: dict[str, Any] = {}
    for class_ in classes:
        names = w11.names(f"{class_.name}_")
        streams |= {name: {"sql": sql} for name, sql in zip(names.values(), class_.streams, strict=True)}
        feeds[class_.name] = {
            "source": {
                "format": "weir_feeder",
                "options": {
                    "path": str(rows),
                    "timeColumn": "ts",
                    "arrivals": "steps",
                    "steps": feeder_steps(plan[class_.name], seconds),
                    "catchUpSeconds": CATCH_UP_S,
                },
                "trigger_ms": TRIGGER_MS,
            },
            "streams": {name: TAKES[kind] for kind, name in names.items()},
        }
    return parse_model(StreamsFile, {"session": SESSION, "streams": streams, "feeds": feeds})


def feeder_steps(plan: StepArrivals, seconds: float) -> str:
    """As the feeder takes them: slowly at first, then the plan, then nothing."""
    steps = [(0.0, LEAD_PART * plan.steps[0].rate)]
    steps += [(LEAD_S + step.at_s, step.rate) for step in plan.steps if step.at_s < seconds]
    return ",".join(f"{at_s:.3f}:{rate:.3f}" for at_s, rate in [*steps, (LEAD_S + seconds, 0.0)])


def fed(plan: StepArrivals, seconds: float) -> float:
    """Rows that a feed has when it is over."""
    return LEAD_PART * plan.steps[0].rate * LEAD_S + planned(plan, seconds)


def planned(plan: StepArrivals, seconds: float) -> float:
    """Tuples that the plan asks for in so many seconds."""
    ends = [*(step.at_s for step in plan.steps[1:]), seconds]
    return sum(
        step.rate * max(0.0, min(end, seconds) - step.at_s)
        for step, end in zip(plan.steps, ends, strict=True)
    )


@dataclass(frozen=True, slots=True)
class FeedTotals:
    """Tuples by class, since the feeds began."""

    accepted: Mapping[str, int]
    """By the gateway."""
    missed: Mapping[str, int]
    """That the feeds left out because it was too late for them."""
    replayed: Mapping[str, int]
    """Either of the two, as far as Spark has told."""


class Feeds:
    """Spark's feeds of the classes, as they come in at the gateway of a node."""

    def __init__(
        self, system: System, node: str, process: IngestProcess, classes: Sequence[LiveClass]
    ) -> None:
        self._system, self._node, self._process = system, node, process
        self._streams = {class_.name: set(w11.names(f"{class_.name}_").values()) for class_ in classes}

    def all(self) -> list[FeedProgress]:
        return self._process.progress()

    def progress(self) -> dict[str, FeedProgress]:
        return {feed.feed: feed for feed in self.all()}

    def offered(self) -> FeedTotals:
        accepted = self._system.accepted_rows(self._node)
        offsets = {name: feed.offsets[0] for name, feed in self.progress().items() if feed.offsets}
        return FeedTotals(
            {name: sum(accepted[stream] for stream in streams) for name, streams in self._streams.items()},
            {name: offsets[name]["missed"] if name in offsets else 0 for name in self._streams},
            {name: offsets[name]["row"] if name in offsets else 0 for name in self._streams},
        )

    def wait_flowing(self) -> float:
        """Until rows of all feeds are coming in; when the scenario begins, by the monotonic clock."""
        until = time.monotonic() + FLOWING_S
        while waiting := [name for name, feed in self.progress().items() if feed.rows == 0]:
            if time.monotonic() > until:
                why = [feed.last_error for feed in self._process.progress() if feed.last_error]
                raise TimeoutError(f"no rows of {', '.join(waiting)} after {FLOWING_S:g} s: {why}")
            time.sleep(LOOK_S)
        since: float = max(feed.offsets[0]["began_us"] for feed in self._process.progress()) / 1e6
        return time.monotonic() - (time.time() - since) + LEAD_S
