"""The demonstration's input: the rows of workload W11 in one file, and a Spark feed per class that replays them.

Feeds begin before the scenario, at a low rate, because Spark's first micro-batches take seconds. Then feeds have the scenario's rates.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from configs.classes.live_class import LiveClass
from configs.documents.spark_streams import StreamsFile
from configs.errors import Away, WeirError
from configs.scenario import w11
from configs.scenario.arrivals import StepArrivals
from configs.yaml_loading import parse_model
from services.ingest.job import LOG, OUTPUT, IngestJob
from services.ingest.process import IngestProcess
from services.ingest.progress import FeedProgress
from services.race import w11_workload as workload

if TYPE_CHECKING:
    from actors.system import System

# PERIOD_S is the length of the input in event time; a feed repeats the input again and again.
# READINGS_PER_S is the number of readings per second of event time. A class gets about as many readings per second, or a few times more.
PERIOD_S, READINGS_PER_S = 20, 20_000
# LEAD_S is the length of the warm-up in seconds, after which Spark's micro-batches take their usual time.
# LEAD_PART is the rate of rows in the warm-up, as a fraction of the first rate of the scenario.
LEAD_S = 12.0
LEAD_PART = 0.2
# Least time between the starts of micro-batches; Spark also waits until the last micro-batch has ended.
TRIGGER_MS = 50
# Delay in seconds beyond which a feed skips overdue rows. So the feed sends no burst of old rows after a long pause of Spark.
CATCH_UP_S = 0.3
# Maximum seconds until each feed has brought a row. Spark's first micro-batches take some ten seconds on busy processors.
FLOWING_S = 60.0
LOOK_S = 0.1
# Two threads let Spark work for one feed while another feed waits for its Python process.
# The second compiler tier is off, because in a JVM that lives for two minutes it would cost more time than it saves.
SESSION = {
    "master": "local[2]",
    "conf": {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"},
}
# Niceness (low scheduling priority) of Spark's processes, so that queries do not wait for Spark, which needs much processor time.
NICENESS = 5
# Rows (`where`) and columns of the file that each stream of a class reads.
TAKES = {
    "readings": {"where": "level IS NULL", "columns": ("ts", "sensor", "region", "temp", "humidity", "wind")},
    "alerts": {"where": "level IS NOT NULL", "columns": ("ts", "sensor", "level")},
}


def inputs() -> dict[str, pa.Table]:
    """Return the readings and alerts that a feed repeats."""
    data = workload.generated(PERIOD_S, READINGS_PER_S)
    return {"readings": data.readings, "alerts": data.alerts}


def write_rows(tables: Mapping[str, pa.Table], path: Path) -> None:
    """Write all tables to one file, in the order of event time; columns that a table does not have are NULL."""
    merged = pa.concat_tables(tables.values(), promote_options="default").sort_by("ts")
    pq.write_table(merged, path)


def streams_file(
    classes: Sequence[LiveClass], plan: Mapping[str, StepArrivals], seconds: float, rows: Path
) -> StreamsFile:
    """Return a configuration for Spark with one feed per class, named after the class."""
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
    """Return the option `steps` of a feed's source: the low rate of the warm-up, then the rates of the scenario, then a rate of 0."""
    steps = [(0.0, LEAD_PART * plan.steps[0].rate)]
    steps += [(LEAD_S + step.at_s, step.rate) for step in plan.steps if step.at_s < seconds]
    return ",".join(f"{at_s:.3f}:{rate:.3f}" for at_s, rate in [*steps, (LEAD_S + seconds, 0.0)])


def fed(plan: StepArrivals, seconds: float) -> float:
    """Return the number of rows that a feed delivers in the warm-up and the whole scenario together."""
    return LEAD_PART * plan.steps[0].rate * LEAD_S + planned(plan, seconds)


def planned(plan: StepArrivals, seconds: float) -> float:
    """Return the number of tuples that should arrive in the first `seconds`, given the rates over time in `plan`."""
    ends = [*(step.at_s for step in plan.steps[1:]), seconds]
    return sum(
        step.rate * max(0.0, min(end, seconds) - step.at_s)
        for step, end in zip(plan.steps, ends, strict=True)
    )


@dataclass(frozen=True, slots=True)
class FeedTotals:
    """Numbers of accepted and skipped tuples by class, since the feeds began."""

    accepted: Mapping[str, int]
    """Tuples that the gateway accepted."""
    missed: Mapping[str, int]
    """Tuples that the feeds skipped because they were too late."""
    replayed: Mapping[str, int]
    """Tuples that were sent or skipped, as last reported by Spark."""


def no_rows(waiting: Sequence[FeedProgress], job: IngestJob, after_s: float) -> Away:
    """Return the error that Spark has brought no rows of some feeds, with everything that a user can check."""
    why = "".join(f"; {feed.feed}: {feed.last_error}" for feed in waiting if feed.last_error)
    names = ", ".join(feed.feed for feed in waiting)
    load, processors = os.getloadavg()[0], os.cpu_count()
    return Away(
        f"Spark runs, but has brought no row of {names} after {after_s:g} s{why}",
        hint=f"end other programs if no processor is free (load {load:.1f} on {processors} processors); check that Spark supports the"
        f" Java in {job.java_home}, or set JAVA_HOME; see {job.folder / OUTPUT} and {job.folder / LOG}",
    )


@contextmanager
def logs_kept(folder: Path, kept: Path) -> Iterator[None]:
    """If an error of Weir ends the `with` block, copy Spark's logs from its temporary folder to the folder `kept`, and name the copies in the error."""
    try:
        yield
    except WeirError as problem:
        for name in (OUTPUT, LOG):
            if (folder / name).is_file():
                shutil.copy(folder / name, kept / name)
        problem.hint = problem.hint.replace(str(folder), str(kept))
        raise


class Feeds:
    """Spark feeds of the classes, with their progress and the counts of the node's gateway."""

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

    def wait_flowing(self, most_s: float = FLOWING_S) -> float:
        """Wait until all feeds bring rows, and return the moment, by the monotonic clock, at which the scenario begins.

        Raise Away if a feed has brought no row after `most_s` seconds.
        """
        until = time.monotonic() + most_s
        while waiting := [feed for feed in self.all() if feed.rows == 0]:
            if time.monotonic() > until:
                raise no_rows(waiting, self._process.job, most_s)
            time.sleep(LOOK_S)
        since: float = max(feed.offsets[0]["began_us"] for feed in self._process.progress()) / 1e6
        return time.monotonic() - (time.time() - since) + LEAD_S
