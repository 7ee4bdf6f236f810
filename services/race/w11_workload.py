"""Workload W11: 4 selections, 5 sliding-window aggregates and 2 window joins over the streams readings and alerts, as SQL.

The input is written by the workload's generator: Arrow or Parquet files and `meta.json`. Answers are compared with the expected
answers in `oracle.json`, if this file exists, by a checksum that does not depend on the order of rows.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from configs.errors import InvalidInput
from configs.scenario.w11 import queries, streams
from engine.class_.runner import ClassRunner
from engine.data.train import Train, train_from_arrow
from engine.plan.plan import Query
from engine.sql import SqlCatalog, parse_create_stream, plan_query
from services.race.hand_written import Answers, HandWritten

STREAMS, QUERIES = streams(), queries()
Array = npt.NDArray[Any]
UNBOUNDED_S = 1e9
# Number of batches after which the operators' priorities are updated; a running class updates them once per load cycle.
TURNS_A_CYCLE = 20


@dataclass
class Data:
    """The workload's input, read into memory."""

    readings: pa.Table
    alerts: pa.Table
    last_ts: int
    oracle: dict[str, dict[str, Any]]


def read(folder: Path) -> Data:
    """Return the input in a folder; raise InvalidInput if a file of the generator is missing."""
    try:
        last_ts = int(json.loads((folder / "meta.json").read_text(encoding="utf-8"))["readings"]["last_ts"])
    except (OSError, ValueError, KeyError) as error:
        hint = "pass a folder of the workload's generator, with readings, alerts and meta.json"
        raise InvalidInput(
            f"the folder has no input of the benchmark W11: {error}", "--data", str(folder), hint
        ) from None
    oracle = folder / "oracle.json"
    expected = json.loads(oracle.read_text(encoding="utf-8"))["queries"] if oracle.is_file() else {}
    return Data(table(folder, "readings"), table(folder, "alerts"), last_ts, expected)


def table(folder: Path, name: str) -> pa.Table:
    arrow, parquet = folder / f"{name}.arrow", folder / f"{name}.parquet"
    if arrow.is_file():
        with pa.memory_map(str(arrow)) as source:
            return pa.ipc.open_file(source).read_all().combine_chunks()
    if parquet.is_file():
        return pq.read_table(parquet).combine_chunks()
    raise InvalidInput(
        "the folder lacks this file of the benchmark W11",
        "--data",
        str(arrow),
        "write the file with the workload's generator",
    )


def generated(seconds: int, readings: int = 10_000, alerts: int = 500) -> Data:
    """Return input for `seconds` seconds of event time, with the generator's distributions but without expected answers."""
    base, rates = 1_700_000_000_000, {"readings": readings, "alerts": alerts}
    drawn: dict[str, list[dict[str, Array]]] = {"readings": [], "alerts": []}
    for name, seed in (("readings", 7), ("alerts", 8)):
        rng, rate = np.random.Generator(np.random.PCG64(seed)), rates[name]
        within = np.arange(rate) * 1000 // rate
        for second in range(seconds):
            sensor = rng.integers(0, 1000, rate).astype(np.int32)
            columns: dict[str, Array] = {"ts": base + 1000 * second + within, "sensor": sensor}
            if name == "readings":
                columns |= {
                    "region": sensor % 10,
                    "temp": rng.normal(20, 10, rate),
                    "humidity": rng.uniform(0, 100, rate),
                    "wind": rng.exponential(8, rate),
                }
            else:
                columns["level"] = rng.integers(1, 6, rate).astype(np.int32)
            drawn[name].append(columns)
    tables = {
        name: pa.table({key: np.concatenate([part[key] for part in parts]) for key in parts[0]})
        for name, parts in drawn.items()
    }
    return Data(tables["readings"], tables["alerts"], base + 1000 * seconds - 1, {})


def turns(data: Data, train: int) -> Iterator[tuple[str, pa.Table]]:
    """Yield batches of both streams in the order of event time: `train` readings, then the alerts up to the last reading's time."""
    times = data.readings.column("ts").to_numpy()
    alerts = data.alerts.column("ts").to_numpy()
    sent = 0
    for start in range(0, len(times), train):
        end = min(start + train, len(times))
        yield "readings", data.readings.slice(start, end - start)
        upto = int(np.searchsorted(alerts, times[end - 1], "right"))
        if upto > sent:
            yield "alerts", data.alerts.slice(sent, upto - sent)
            sent = upto


def peak_rss_mb() -> float:
    """Return the peak of this process's resident memory, in MB.

    getrusage is used only without /proc, because its value includes the memory that the parent process had when it started this process.
    """
    status = Path("/proc/self/status")
    if not status.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
    return int(lines["VmHWM"].split()[0]) / 1024


@dataclass
class RaceOutcome:
    """Result of one run: times, answers and peak memory."""

    elapsed_s: float
    cpu_s: float
    readings: int
    train: int
    answers: Answers
    columns: dict[str, list[str]] = field(default_factory=dict)
    peak_rss_mb: float = field(default_factory=peak_rss_mb)

    @property
    def readings_per_s(self) -> float:
        return self.readings / self.cpu_s


def run_engine(data: Data, train: int) -> RaceOutcome:
    """Answer the eleven queries of W11 with Weir's engine: SQL planner, operator network, policy and runner."""
    schemas = [parse_create_stream(sql) for sql in STREAMS]
    catalog = SqlCatalog.of(streams=schemas)
    queries: list[Query] = [plan_query(name, sql, catalog) for name, sql in QUERIES.items()]
    answers: Answers = {name: [] for name in QUERIES}
    names = {query.name: query.plan.schema.names for query in queries}
    # The column for the start of a window is left out, because expected answers do not have it.
    kept = {
        query: [place for place, column in enumerate(columns) if column != "window_start"]
        for query, columns in names.items()
    }

    def sink(query: str, out: Train) -> None:
        answers[query].append(tuple(out.columns[place].data for place in kept[query]))

    runner = ClassRunner(sink, train_max=max(train, 1))
    runner.add(*queries)
    by_name = {schema.name: schema.schema for schema in schemas}
    began, cpu_began = time.perf_counter(), time.process_time()
    for turn, (stream, batch) in enumerate(turns(data, train)):
        runner.offer(stream, train_from_arrow(batch, by_name[stream], time.perf_counter()))
        runner.run(UNBOUNDED_S, time.perf_counter, time.thread_time)
        if turn % TURNS_A_CYCLE == 0:
            runner.scheduled.believed()
    elapsed_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    columns = {query: [names[query][place] for place in places] for query, places in kept.items()}
    return RaceOutcome(elapsed_s, cpu_s, len(data.readings), train, answers, columns=columns)


def run_by_hand(data: Data, train: int) -> RaceOutcome:
    """Answer the eleven queries of W11 with the hand-written program."""
    program = HandWritten()
    began, cpu_began = time.perf_counter(), time.process_time()
    for stream, batch in turns(data, train):
        columns = {name: batch.column(name).to_numpy() for name in batch.column_names}
        (program.readings if stream == "readings" else program.alerts)(columns)
    elapsed_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    return RaceOutcome(elapsed_s, cpu_s, len(data.readings), train, program.answers)


def report(outcome: RaceOutcome, data: Data) -> dict[str, Any]:
    """Return what `weir bench w11 -o json` prints."""
    return {
        "elapsed_s": outcome.elapsed_s,
        "cpu_s": outcome.cpu_s,
        "readings": outcome.readings,
        "readings_per_s": outcome.readings_per_s,
        "peak_rss_mb": outcome.peak_rss_mb,
        "train": outcome.train,
        "queries": {name: checked(name, parts, data) for name, parts in outcome.answers.items()},
    }


def checked(query: str, parts: Sequence[tuple[Array, ...]], data: Data) -> dict[str, Any]:
    """Return the row count and checksum of a query's answers, and `right` if the expected answers are known."""
    columns = joined(parts)
    if query.startswith("A") and columns:
        keep = columns[0] <= data.last_ts
        columns = [column[keep] for column in columns]
    outcome: dict[str, Any] = {
        "rows": len(columns[0]) if columns else 0,
        "checksum": f"{checksum(columns):016x}",
    }
    if query in data.oracle:
        expected = data.oracle[query]
        outcome["right"] = all(outcome[key] == expected[key] for key in ("rows", "checksum"))
    return outcome


def joined(parts: Sequence[tuple[Array, ...]]) -> list[Array]:
    return [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else []


def checksum(columns: Sequence[Array]) -> int:
    """Return the sum of all row hashes modulo 2^64: splitmix64 over the fields, floats rounded to thousandths."""
    if not columns:
        return 0
    with np.errstate(over="ignore"):
        state = np.full(len(columns[0]), GOLDEN, np.uint64)
        for column in columns:
            whole = np.floor(column * 1000.0 + 0.5) if column.dtype.kind == "f" else column
            state = mixed(state ^ whole.astype(np.int64).view(np.uint64))
        return int(state.sum(dtype=np.uint64)) if len(state) else 0


GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mixed(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    state = state + GOLDEN
    state = (state ^ (state >> np.uint64(30))) * FIRST
    state = (state ^ (state >> np.uint64(27))) * SECOND
    return state ^ (state >> np.uint64(31))
