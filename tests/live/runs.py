"""Helpers for tests of faults: a live system with real hosts, finite input for it, and its answers."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import ray

from actors.coordinator import control_plane
from actors.gateway.producer import Producer
from actors.host.answer_reader import AnswerReader
from actors.host.host import HostStatus
from actors.host.unit import UnitStatus
from actors.log.segment_log import Reader
from actors.messages.gateway_messages import Accepted, RefusedBatch
from actors.messages.unit_messages import Figures
from actors.runtime.names import find, host_name
from actors.runtime.run_dirs import RunDirs, shared_memory
from actors.system import System, call, start
from configs.classes.live_class import LiveClass, LiveSettings
from configs.scenario import w11
from engine.class_.explain import PlanLine
from engine.data.train import values_to_arrow
from services.race import w11_workload as workload
from services.watch.class_views import together
from tests.support.waiting import eventually

Batch = tuple[str, pa.RecordBatch]


# Functions that start a system and kill its processes.


def started(settings: LiveSettings, data: Path, pinned: bool = False) -> System:
    """Start a system with real hosts. The decisions of all cores are recorded in the folder `data`."""
    return start(settings, [], data_folder=data, pinned=pinned, loopback=False)


def node_of(system: System) -> str:
    (node,) = system.status().system.nodes
    return node


def units(system: System) -> Mapping[str, control_plane.PlacedUnit]:
    return system.status().system.units


def folders(system: System, node: str) -> RunDirs:
    return RunDirs(shared_memory(), system.name, node)


def host(system: System, classes: Sequence[LiveClass]) -> None:
    """Apply these classes, and wait until they read their streams."""
    system.apply(classes)
    system.wait_ready()
    wanted = {class_.name: reads(class_) for class_ in classes}
    eventually(lambda: all_read(system, wanted), "every unit reads its streams")


def all_read(system: System, wanted: Mapping[str, set[str]]) -> bool:
    """Return True once each unit of these classes reads its streams; a unit never gets rows that were published earlier."""
    of_classes = [(name, unit) for name, unit in units(system).items() if unit.class_name in wanted]
    readers = {node: system.readers(node) for node in {unit.node for _, unit in of_classes}}
    return all(
        name in readers[unit.node].get(stream, ())
        for name, unit in of_classes
        for stream in wanted[unit.class_name]
    )


def reads(declared: LiveClass) -> set[str]:
    """Return the names of the class's streams; the queries of these tests read all of these streams."""
    return {sql.split()[2] for sql in declared.streams}


def remove(system: System, classes: Iterable[LiveClass]) -> None:
    for class_ in classes:
        system.remove_class(class_.name)
    eventually(lambda: not units(system), "the end of all classes")


__all__ = ["call"]


def pid_of(name: str) -> int:
    return int(eventually(lambda: ray.get(find(name).ping.remote(), timeout=5), f"an answer of {name}"))


def kill(name: str) -> int:
    """Kill a process with SIGKILL; return its id."""
    pid = pid_of(name)
    os.kill(pid, signal.SIGKILL)
    return pid


def kill_host(system: System, class_name: str) -> int:
    return kill(host_name(units(system)[class_name].host))


# Functions that generate input for the classes.


def classes() -> list[LiveClass]:
    """Return three classes with W11's queries. Classes gold and silver read the same streams."""
    shared, own = w11.queries(), w11.queries("b_")
    over = {
        "warm": "SELECT ts, region, temp FROM readings WHERE temp > 25",
        "warm_regions": "SELECT window_end AS wend, region, COUNT(*) AS n, SUM(temp) AS v"
        " FROM warm [RANGE 6 SECONDS SLIDE 3 SECONDS] GROUP BY region",
    }
    some = {name: own[name] for name in ("S1", "A1", "A5", "J2")}
    return [
        declared("gold", 6, w11.streams(), shared),
        declared("silver", 3, w11.streams(), {name: shared[name] for name in ("S2", "A2", "J1")} | over),
        declared("bronze", 1, w11.streams("b_"), some),
    ]


def declared(
    name: str, priority: float, streams: Sequence[str], queries: Mapping[str, str], **more: Any
) -> LiveClass:
    return LiveClass(
        name=name,
        priority=priority,
        delay_target_ms=1000.0,
        streams=tuple(streams),
        queries=queries,
        lossless=more.pop("lossless", True),
        **more,
    )


def batches(seconds: int, batch_rows: int, prefixes: Sequence[str] = ("", "b_")) -> list[Batch]:
    """Return the input of workload W11 in the order of event time, once for each prefix of the streams' names."""
    data = generated(seconds)
    return [
        (f"{prefix}{stream}", rows.combine_chunks().to_batches()[0])
        for stream, rows in workload.turns(data, batch_rows)
        for prefix in prefixes
    ]


def tables(seconds: int, prefix: str) -> dict[str, pa.Table]:
    """Return W11's input as one table per stream."""
    data = generated(seconds)
    return {f"{prefix}readings": data.readings, f"{prefix}alerts": data.alerts}


def generated(seconds: int) -> workload.Data:
    """Generate W11's data, rounded to multiples of 0.25, so that sums in any order are equal."""
    data = workload.generated(seconds)
    return replace(data, readings=in_quarters(data.readings), alerts=in_quarters(data.alerts))


def in_quarters(table: pa.Table) -> pa.Table:
    columns = {
        name: np.round(4 * column.to_numpy()) / 4 if pa.types.is_floating(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pa.table(columns)


def parts(given: Sequence[Batch], count: int) -> Iterator[Sequence[Batch]]:
    for number in range(count):
        yield given[number * len(given) // count : (number + 1) * len(given) // count]


@dataclass
class Publisher:
    """Producer that counts accepted rows, and reconnects when its gateway is back."""

    dirs: RunDirs
    refused: int = 0
    lost: int = 0
    """Number of connections that ended before the answer."""
    accepted: Counter[str] = field(default_factory=Counter)
    """Number of accepted rows by stream."""
    batches: Counter[str] = field(default_factory=Counter)
    firsts: dict[str, int] = field(default_factory=dict)
    """Number of the first batch by stream; a stream that is declared again continues its earlier numbers."""
    _producer: Producer | None = None

    def publish(self, given: Iterable[Batch]) -> None:
        for stream, batch in given:
            if not self.offer(stream, batch):
                eventually(partial(self.offer, stream, batch), f"room in stream {stream}")

    def offer(self, stream: str, batch: pa.RecordBatch) -> bool:
        """Offer a batch; return True if it was accepted."""
        if stream not in self.firsts:
            self.firsts[stream] = Reader(self.dirs.stream(stream)).next
        accepted = self._is_accepted(stream, batch)
        if accepted:
            self.accepted[stream] += batch.num_rows
            self.batches[stream] += 1
        return accepted

    def _is_accepted(self, stream: str, batch: pa.RecordBatch) -> bool:
        try:
            self._producer = self._producer or Producer(self.dirs.door_socket)
            answer = self._producer.publish(stream, batch)
        except OSError:
            self.lost += self._producer is not None
            self._producer = None
            # The producer got no reply, so the log shows whether the batch was accepted.
            return Reader(self.dirs.stream(stream)).next > self.firsts[stream] + self.batches[stream]
        if isinstance(answer, RefusedBatch):
            assert answer.retry_after_s is not None, answer.reason
            self.refused += 1
        return isinstance(answer, Accepted)


# Functions that read the answers of classes and compare them.


def offered(given: Iterable[LiveClass], accepted: Mapping[str, int]) -> dict[str, int]:
    """Return the number of accepted rows of all streams that each class reads."""
    return {class_.name: sum(accepted[stream] for stream in reads(class_)) for class_ in given}


def worked_off(system: System, offered: Mapping[str, int]) -> dict[str, Figures]:
    """Wait until classes have processed all offered tuples and given all answers; return their figures."""
    found = {}
    for name, count in offered.items():
        is_done = partial(at_rest, system, name, count)
        (found[name],) = eventually(is_done, f"rest of class {name} after {count} tuples")
    return found


def at_rest(system: System, name: str, offered: int) -> list[Figures]:
    """Return the figures of a class in a list of one item, or an empty list as long as the class still has work."""
    found = [status_of(system, name_) for name_, unit in units(system).items() if unit.class_name == name]
    figures = together([status.figures for status in found])
    assert not any(status.mismatches for status in found), found
    assert figures.offered <= offered, figures
    if figures.offered < offered or not all(status.asleep and not status.repeating for status in found):
        return []
    fates = figures.delivered + figures.shed + figures.late + figures.rejected + figures.failed
    assert (fates, figures.queued) == (offered, 0), figures
    return [figures]


def queries_of(system: System, unit: str) -> set[str]:
    """Return the queries that the unit's host runs."""
    lines: list[PlanLine] = ray.get(system.host(units(system)[unit].host).plan.remote(unit), timeout=5)
    return {query for line in lines for query in line.queries}


def status_of(system: System, unit: str) -> UnitStatus:
    """Return the status of a unit from its host, because the coordinator may not have the status yet."""
    found: HostStatus = ray.get(system.host(units(system)[unit].host).status.remote(), timeout=5)
    assert not found.broken, found.broken
    if unit not in found.units:
        raise ValueError(f"its host does not have {unit} yet")
    return found.units[unit]


Answers = dict[str, pa.Table]
"""Sorted answers by class and query."""


def answers(system: System, given: Sequence[LiveClass]) -> Answers:
    """Return all answers, after checking that their sequence numbers run from 0 without gap or repetition."""
    found: Answers = {}
    for class_ in given:
        logs = [
            AnswerReader(RunDirs(shared_memory(), system.name, unit.home), name)
            for name, unit in units(system).items()
            if unit.class_name == class_.name
        ]
        for query in class_.queries:
            trains = [train for log in logs for train in numbered(log, query)]
            found[f"{class_.name}.{query}"] = ordered(pa.concat_tables(trains)) if trains else pa.table({})
    return found


def numbered(log: AnswerReader, query: str) -> list[pa.Table]:
    names, seq = [name for name, _ in log.columns(query)], 0
    trains: list[pa.Table] = []
    for answer in log.answers(query):
        assert answer.first == seq, f"{query}: {answer.first} where {seq} comes next"
        seq += len(answer.train)
        columns = [pa.array(values_to_arrow(column)) for column in answer.train.columns]
        trains.append(pa.table(columns, names=names))
    return trains


def ordered(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


def assert_same(found: Answers, expected: Answers) -> None:
    """Assert that the answers are equal, tuple by tuple."""
    assert found.keys() == expected.keys()
    for name, table in expected.items():
        assert len(found[name]) == len(table), f"{name}: {len(found[name])} answers, {len(table)} expected"
        assert found[name].equals(table), f"{name}: other answers"
