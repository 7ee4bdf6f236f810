"""Declarations are made, changed and deleted while rows arrive and hosts are killed: every query must give
each of its answers once.

All parts are real except processes, sockets and threads. Real are the catalog, the reconciliation of the
running system with it, the control plane, hosts with units and logs, and streams with logs.
`tests/live/test_class_changes.py` includes the other parts.

    WEIR_CLASS_CHANGES=10000 python -m pytest -n 0 tests/property/test_class_changes.py      number of sequences
    WEIR_CLASS_CHANGES_FROM=1234                                                             first seed
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from actors.coordinator.control_plane import ControlPlane
from actors.coordinator.effects import NodeStream, Part
from actors.gateway.streams import Streams
from actors.host.host import Host
from actors.log.commit_format import answers_of, is_snapshot, steps_of
from actors.log.segment_log import LOCK, LogTaken, Reader, locked
from actors.messages.gateway_messages import Accepted, Message, decode
from actors.messages.unit_messages import Copy, Unit, class_of, units_from_json, units_to_json
from actors.runtime.run_dirs import RunDirs, shared_memory
from configs.classes.live_class import LiveSettings
from configs.documents.declarations import (
    PRESETS,
    Declaration,
    QueryDeclaration,
    Ref,
    StreamDeclaration,
    ref_of,
)
from configs.errors import InUse, UnknownName
from engine.class_.steps import QueryRemoved
from engine.data.train import Train, Values
from services.catalog.catalog import Desired
from services.catalog.checks import applied, users
from services.catalog.reconcile import (
    ApplyClasses,
    DeclareStream,
    DropStream,
    PublishKeys,
    Reconciling,
    RemoveClass,
    Step,
    SystemState,
)
from services.catalog.state import CatalogState, StoredDeclaration
from services.ingest.keys import KeyRing
from tests.support.changes import BROKEN, Course, Key, Row, document

SEQUENCES = int(os.environ.get("WEIR_CLASS_CHANGES", "60"))
FIRST = int(os.environ.get("WEIR_CLASS_CHANGES_FROM", "0"))
EVENTS = 30
# Number of parts into which the random sequences are divided, so that several processes can run the sequences.
PARTS = 4
SETTINGS = LiveSettings.model_validate(
    {"idle_after_s": None, "snapshot_s": 1e6, "classes_per_host": 2, "train_max": 4, "results_bytes": 1 << 20}
)
NODE = "n"
# Two lengths of a slice, in seconds: the first is enough for all work, the second for a single operator call.
LONG_S, SHORT_S = 1e3, 1e-9
ROUNDS_MAX = 200


class Line:
    """Connection of a reader to the gateway, without a socket. The gateway receives messages at once, and replies in its next turn."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self.answers: list[Message] = []

    def send(self, message: Any) -> None:
        """Deliver a packet from the reader to the gateway (bytes), or a message from the gateway to the reader."""
        if isinstance(message, bytes):
            self._streams.hear(decode(message), self)  # type: ignore[arg-type]  # a Peer has a socket
        else:
            self.answers.append(message)


class Process:
    """Host with the parts of a real host, but without threads: the test itself runs each part."""

    def __init__(self, dirs: RunDirs, name: str, streams: Streams, units: Sequence[Unit]) -> None:
        self.ends: list[BaseException] = []
        self.host = Host(name, dirs, SETTINGS, lambda *_: None, self.ends.append)
        self.ingest = self.host._ingest
        self.connect(streams)
        self.set_units(units)

    def connect(self, streams: Streams) -> None:
        for intake in self.ingest._intakes.values():
            for feed in intake.feeds.values():
                feed.subscribed = False
        self.line = Line(streams)
        self.ingest.gateway.channel = self.line  # type: ignore[assignment]  # a Channel has a socket
        self.ingest._greet()

    def set_units(self, units: Sequence[Unit]) -> None:
        """Set the units of the host. The gateway receives the units in the next round of ingest."""
        self.host._set_units(units)

    def _hear(self) -> None:
        while self.host._asked or self.ingest._asked or self.line.answers:
            while self.host._asked:
                self.host._asked.popleft()()
            self.ingest._work()
            while self.line.answers:
                self.ingest._hear_message(self.line.answers.pop(0))

    def work(self, now: float, slice_s: float) -> bool:
        """Run one round of ingest and slices; return True if another round may be needed."""
        self._hear()
        if slice_s == LONG_S:
            self.ingest._retry(float("inf"))
        more = self.ingest._read_round(now)
        self._hear()
        for name in list(self.host.units.by_name):
            unit = self.host.units.by_name[name]
            if unit.wants_slice():
                self.host._run(name, slice_s)
                more = True
            self._hear()
        if self.host.units.taken:
            self.host._do_due(0.0)
            more = True
        return more

    def save(self) -> None:
        for unit in self.host.units.by_name.values():
            unit.snapshots.is_asked = True

    def kill(self) -> None:
        """Kill the host, so that it writes nothing more."""
        for unit in self.host.units.by_name.values():
            unit.close(at_rest=False)


@dataclass
class World:
    """System on one node, with its catalog."""

    dirs: RunDirs
    state: CatalogState = field(init=False)
    processes: dict[str, Process | None] = field(init=False, default_factory=dict)
    """Process of each host by name, or None while the host is down."""
    sent: dict[str, Any] = field(init=False, default_factory=dict)
    """Units that each host gets when it restarts, by the host's name."""
    saved: dict[str, Any] = field(init=False, default_factory=dict)
    found: dict[Key, list[tuple[int, ...]]] = field(init=False, default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self._clock, self._places = itertools.count(1), itertools.count(1)
        self.state = CatalogState([StoredDeclaration(one, 1, next(self._places)) for one in PRESETS])
        self.streams = self._gateway()
        self._declared: dict[str, Mapping[str, NodeStream]] = {}
        self._read: dict[tuple[str, int], int] = {}
        self._counts: dict[tuple[str, int, str], int] = {}
        self._keys: KeyRing | None = None
        self._dropped: set[str] = set()
        self.plane = ControlPlane(SETTINGS, self)
        self.plane.nodes_changed({NODE: 1}, 0.0)
        self.reconciling = Reconciling(self, self)  # type: ignore[arg-type]  # a Catalog without a database

    def _gateway(self) -> Streams:
        return Streams(self.dirs, lambda: float(next(self._clock)), bytes_max=1 << 20, segment_bytes=1 << 14)

    def close(self) -> None:
        for one in self.processes.values():
            if one is not None:
                one.kill()
        self.streams.close()

    # -- changes of the catalog ----------------------------------------------------------------------------------

    def apply(self, *declarations: Declaration) -> None:
        before, documents = self.state, [document(one) for one in declarations]
        after = applied(before, documents)
        for one in declarations:
            known = before.get(ref_of(one))
            place = next(self._places) if known is None else known.place
            after.put(replace(after[ref_of(one)], place=place))
        self.state = after

    def delete(self, ref: Ref) -> None:
        if needed := users(self.state.values(), ref):
            raise InUse("in use", value=str(needed))
        self.state = self.state.copy()
        self.state.remove(ref)

    def break_a_query(self, tenant: str) -> bool:
        one = QueryDeclaration(kind="Query", tenant=tenant, name=BROKEN, sql="SELECT v FROM nothing")
        self.state = self.state.copy()
        self.state.put(StoredDeclaration(one, 1, next(self._places), ("nothing",)))
        return True

    def desired(self) -> Desired:
        state = self.state
        return Desired(
            0,
            tuple(state.class_of(name) for name in state.tenants_with_queries()),
            {one.name: one.declaration(one.name) for one in state.of_kind(StreamDeclaration)},
            None,
            KeyRing(),
        )

    # -- the running system, made to follow the catalog ----------------------------------------------------------

    def look(self) -> None:
        self._collect()
        self.reconciling._wanted = self.desired()
        problems = self.reconciling._follow()
        broken = sorted(
            f"Query {ref.tenant}/{BROKEN} does not run" for ref in self.state if ref.name == BROKEN
        )
        assert sorted(one.partition(":")[0] for one in problems) == broken, problems

    def running(self) -> SystemState:
        now = self.plane.status()
        return SystemState(now.classes, now.streams, None, self._keys)

    def perform(self, step: Step) -> None:
        match step:
            case PublishKeys(keys):
                self._keys = keys
            case RemoveClass(name):
                with suppress(UnknownName):
                    self.plane.remove_class(name, 0.0)
            case ApplyClasses(classes):
                self.plane.apply(classes, 0.0)
            case DropStream(name):
                self.plane.drop_stream(name, 0.0)
            case DeclareStream(_, sql):
                self.plane.declare_stream(sql, 0.0)
            case _:
                raise AssertionError(step)

    def start_host(self, host: str, node: str) -> None:
        if host not in self.processes:  # A restarted coordinator may start a host that still runs.
            self.processes[host] = Process(self.dirs, host, self.streams, ())

    def stop_host(self, host: str) -> None:
        process = self.processes.pop(host)
        del self.sent[host]
        if process is not None:
            process.set_units(())
            process._hear()

    def set_units(self, host: str, units: Sequence[Unit]) -> None:
        self.sent[host] = units_to_json(units)
        process = self.processes[host]
        if process is not None:
            process.set_units(units)

    def set_streams(self, node: str, streams: Mapping[str, NodeStream]) -> None:
        before = self._declared.get(node, {})
        for name in before.keys() - streams.keys():
            self.streams.drop(name)
            self._dropped.add(name)
        for one in streams.values():
            self.streams.declare(one.sql, readers=one.readers)
        self._declared[node] = streams

    def forget(self, node: str, unit: str) -> None:
        self.streams.forget_reader(unit)
        folder = self.dirs.class_log(unit)
        with suppress(FileNotFoundError, LogTaken):
            lock = locked(folder / LOCK)
            shutil.rmtree(folder)
            os.close(lock)

    def save(self, part: Part, state: Any) -> None:
        self.saved[part] = state

    def scale_headroom(self, host: str, unit: str, factor: float, share: float, original: float) -> None: ...

    def set_keep(self, host: str, unit: str, keep: float) -> None: ...

    def set_shares(self, node: str, shares: Mapping[str, float], hosts: Mapping[str, str]) -> None: ...

    def set_copies(self, node: str, copies: Mapping[str, Copy]) -> None: ...

    def move(self, unit: str, host: str, origin: str, node: str) -> None: ...

    # -- kills and other disturbances ----------------------------------------------------------------------------

    @property
    def is_unsure(self) -> bool:
        return False

    def publish(self, stream: str, rows: Sequence[Row], variant: int) -> None:
        there = self.streams.find(stream)
        columns: dict[str, list[float]] = {"ts": [row.ts for row in rows], "k": [row.k for row in rows]}
        columns |= {"v": [row.number for row in rows], "x": [0.5 for _ in rows]}
        values = [
            Values(one.type, np.array(columns[one.name], one.type.numpy))
            for one in there.schema.schema.fields
        ]
        answer = self.streams.publish(there, [Train(tuple(values), np.zeros(len(rows)))])
        assert isinstance(answer, Accepted), answer

    def settle(self) -> None:
        self._restart()
        for _ in range(ROUNDS_MAX):
            has_more = [one.work(self._now(), LONG_S) for one in self._alive()]
            if not any(has_more):
                break
        else:
            raise AssertionError(f"the hosts still have work after {ROUNDS_MAX} rounds")
        for one in self._alive():
            host = one.host
            assert not host.units.broken, host.units.broken
            assert not host.units.failures, list(host.units.failures)
            assert not one.ends
            for unit in host.units.by_name.values():
                assert not unit.problems(), unit.problems()
                assert unit.hosted.queries.by_name.keys() == unit.unit.declared.queries.keys()
                for stream, (ledger, queued) in unit.hosted.input.accounts().items():
                    assert ledger.closes(queued), (unit.name, ledger, queued)
                    # A killed host cannot read again the rows of a stream that was dropped, so those rows may count as failed.
                    if stream not in self._dropped:
                        assert (queued, ledger.failed, ledger.rejected, ledger.late) == (0, 0, 0, 0), ledger

    def disturb(self, what: str, chance: random.Random) -> None:
        alive = [name for name, one in self.processes.items() if one is not None]
        match what:
            case "work":
                for one in self._alive():
                    for _ in range(chance.randrange(1, 4)):
                        one.work(self._now(), SHORT_S)
            case "kill" if alive:
                name = chance.choice(alive)
                process = self.processes[name]
                assert process is not None
                process.kill()
                self.processes[name] = None
            case "restart":
                self._restart()
            case "gateway":
                self.streams.close()
                self.streams = self._gateway()
                for one in self._alive():
                    one.connect(self.streams)
            case "coordinator":
                self.plane = ControlPlane(SETTINGS, self)
                declared, shares = self.saved["declared"], self.saved["shares"]
                self.plane.restore(declared, shares, {NODE: 1}, 0.0)
            case "save":
                for one in self._alive():
                    one.save()

    def answers(self) -> Mapping[Key, Sequence[tuple[int, ...]]]:
        self._collect()
        return self.found

    def _now(self) -> float:
        """Return a time at least ten seconds after that of the previous call, so that limits on processor time delay nothing."""
        return time.monotonic() + 10 * next(self._clock)

    def _alive(self) -> list[Process]:
        return [one for one in self.processes.values() if one is not None]

    def _restart(self) -> None:
        for name, process in self.processes.items():
            if process is None:
                units = units_from_json(self.sent.get(name, ()))
                self.processes[name] = Process(self.dirs, name, self.streams, units)

    def _collect(self) -> None:
        """Read the answers written since the last call."""
        for folder in self.dirs.classes.glob("*"):
            life = folder.name, folder.stat().st_ino
            for number, payload in Reader(folder).frames(self._read.get(life, 0)):
                self._read[life] = number + 1
                if is_snapshot(payload):
                    continue
                commit = steps_of(payload)
                gone = {step.name for step in commit.steps if isinstance(step, QueryRemoved)}
                for query in commit.answered.keys() | gone:
                    self._take(life, query, payload)

    def _take(self, life: tuple[str, int], query: str, payload: memoryview) -> None:
        count, key = (*life, query), (class_of(life[0]), query)
        for answer in answers_of(payload, query):
            # The row numbers of a query have no gaps. A query that is declared again starts at row 0.
            assert answer.first in (0, self._counts.get(count, 0)), (key, answer.first)
            self._counts[count] = answer.first + len(answer.train)
            # An answer of a window begins with one more column, the start of the window.
            columns = [one.data.tolist() for one in answer.train.columns[-3:]]
            self.found[key] += [tuple(int(one) for one in row) for row in zip(*columns, strict=True)]


@contextmanager
def world() -> Iterator[World]:
    with TemporaryDirectory(dir=shared_memory()) as base:
        dirs = RunDirs(Path(base), "s", "n")
        held = dirs.hold()
        found = World(dirs)
        try:
            yield found
        finally:
            found.close()
            os.close(held)


def follow(seed: int, events: int = EVENTS) -> Course:
    with world() as there:
        course = Course(random.Random(seed), there)
        try:
            course.run(events)
        except Exception as problem:
            story = "\n".join(course.story)
            raise AssertionError(f"WEIR_CLASS_CHANGES_FROM={seed}: {problem!r}\n{story}") from problem
    return course


@pytest.mark.parametrize("part", range(PARTS))
def test_each_answer_comes_once_although_queries_change_and_processes_are_killed(part: int) -> None:
    begun, events = time.monotonic(), 0
    for seed in range(FIRST + part, FIRST + SEQUENCES, PARTS):
        events += len(follow(seed).story)
    sequences = len(range(part, SEQUENCES, PARTS))
    print(f"{sequences:,} sequences of {events:,} events in {time.monotonic() - begun:.0f} s")
