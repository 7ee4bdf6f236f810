"""A host over real logs, sockets and threads, with a gateway and a dispatcher, but without Ray."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.dispatcher.turn_loop import TurnLoop
from actors.gateway.gateway_loop import Gateway
from actors.gateway.producer import Producer
from actors.host.answer_reader import AnswerReader, units_of
from actors.host.host import Host
from actors.host.host_units import Question
from actors.host.unit import UnitStatus
from actors.log.commit_format import SnapshotFrame, snapshot_parts
from actors.log.segment_log import SegmentWriter
from actors.messages.gateway_messages import Accepted, RefusedBatch
from actors.messages.unit_messages import Unit, UnitReport
from actors.runtime.run_dirs import RunDirs
from configs.classes.live_class import LiveClass, LiveSettings
from configs.errors import Away, InvalidInput, UnknownName
from engine.class_.door import Door, Piece
from engine.data.train import Train
from engine.network.one_time import CoveredTime
from engine.operators.protocol import Stateless
from loadshed.ledger import TupleLedger
from loadshed.manager import LEAST_ROOM
from scheduler.capacity.core import HeadroomScaled
from tests.support.answer_logs import answer_rows

STREAMS = (
    "CREATE STREAM readings (ts int64, sensor int32, temp float64, WATERMARK FOR ts AS ts)",
    "CREATE STREAM alerts (ts int64, sensor int32, level int32, WATERMARK FOR ts AS ts)",
)
QUERIES = {
    "hot": "SELECT ts, sensor, temp FROM readings WHERE temp > 0",
    "mean": "SELECT window_end AS wend, COUNT(*) AS n FROM readings [RANGE 4 SECONDS SLIDE 2 SECONDS]",
}
# Maximum wait for a report or an event. Nothing should take nearly this long; the limit lets a test fail instead of hang.
HUNG_S = 60.0
SETTINGS = LiveSettings.model_validate({"load": {"cycle_ms": 20}, "snapshot_s": 0.05, "idle_after_s": None})


def declared(**changes: Any) -> LiveClass:
    given = {"name": "gold", "priority": 6, "delay_target_ms": 300, "streams": STREAMS, "queries": QUERIES}
    return LiveClass.model_validate(given | changes)


def readings(begin: int, rows: int) -> pa.RecordBatch:
    """Return readings with consecutive sensor numbers, 100 ms apart; readings with even numbers are hot."""
    number = np.arange(begin, begin + rows)
    return pa.RecordBatch.from_pydict(
        {
            "ts": 100 * number,
            "sensor": pa.array(number, pa.int32()),
            "temp": np.where(number % 2 == 0, 1.0, -1.0),
        }
    )


class Node:
    """Gateway and dispatcher of a node, on which a test starts hosts."""

    def __init__(self, dirs: RunDirs, stack: ExitStack, **gateway: Any) -> None:
        self.dirs, self._stack = dirs, stack
        self._start_gateway(**gateway)
        for sql in STREAMS:
            self.gateway.streams.declare(sql)
        self.turns = TurnLoop(dirs.dispatcher_socket, round_s=0.01)
        thread = threading.Thread(target=self.turns.run)
        thread.start()
        for end in (self._stop_gateway, thread.join, self.turns.stop):
            stack.callback(end)

    def restart_gateway(self) -> None:
        self._stop_gateway()
        self._start_gateway()

    def _start_gateway(self, **settings: Any) -> None:
        self.gateway = Gateway(self.dirs, **settings)
        self._serving = threading.Thread(target=self.gateway.run)
        self._serving.start()

    def _stop_gateway(self) -> None:
        self.gateway.stop()
        self._serving.join()

    def host(self, *classes: LiveClass, settings: LiveSettings = SETTINGS, turns: bool = True) -> Hosted:
        found = Hosted(self, settings, [unit(one) for one in classes], turns)
        self._stack.callback(found.host.stop)
        return found

    def publish(self, batch: pa.RecordBatch, stream: str = "readings") -> int:
        with Producer(self.dirs.door_socket) as producer:
            answer = producer.publish(stream, batch)
        assert isinstance(answer, Accepted), answer
        return answer.number


def unit(one: LiveClass, shard: int = 0, share: float = 1.0) -> Unit:
    return Unit(one, shard, original=1.0, share=share)


class Hosted:
    """Host with its reports and the errors that have ended it."""

    def __init__(self, node: Node, settings: LiveSettings, units: Sequence[Unit], turns: bool) -> None:
        self.node = node
        self.reports: queue.SimpleQueue[UnitReport] = queue.SimpleQueue()
        self.ends: list[BaseException] = []
        if turns:
            self.share(*units)
        self.host = Host("h1", node.dirs, settings, self.report, self.ends.append)
        self.host.start(units)

    def share(self, *units: Unit) -> None:
        names = [one.name for one in units]
        self.node.turns.set_shares({name: 1 / len(names) for name in names}, dict.fromkeys(names, "h1"))

    def report(self, host: str, reports: Sequence[UnitReport]) -> None:
        assert host == "h1"
        for one in reports:
            self.reports.put(one)

    def wait(self, reached: Callable[[UnitReport], bool]) -> UnitReport:
        """Return the next report that fulfils the condition `reached`."""
        while True:
            found = self.reports.get(timeout=HUNG_S)
            if reached(found):
                return found

    def asleep(self) -> UnitReport:
        return self.wait(lambda one: one.asleep)

    def status(self, name: str = "gold") -> UnitStatus:
        return self.host.status().units[name]

    def subscribed(self, *readers: str) -> None:
        """Wait until these readers are connected to the gateway; the default reader is class gold."""
        while True:
            found = {
                reader
                for stream in self.node.gateway.streams.status()
                for reader, one in stream["readers"].items()
                if one["connected"]
            }
            if found >= set(readers or ("gold",)):
                return
            threading.Event().wait(0.001)


@pytest.fixture
def node(dirs: RunDirs) -> Iterator[Node]:
    with running(dirs) as found:
        yield found


@contextmanager
def running(dirs: RunDirs, **gateway: Any) -> Iterator[Node]:
    with ExitStack() as stack:
        yield Node(dirs, stack, **gateway)


def rows(dirs: RunDirs, query: str, name: str = "gold", after: int = -1) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in answer_rows(AnswerReader(dirs, name), query, after)]


def delivered(upto: int) -> Callable[[UnitReport], bool]:
    return lambda one: one.figures.delivered == upto


def hot(begin: int, end: int) -> list[tuple[Any, ...]]:
    """Return the answers of query `hot` to the readings from number `begin` to before `end`."""
    numbers = range(begin + begin % 2, end, 2)
    return [(seq, 100 * number, number, 1.0) for seq, number in enumerate(numbers)]


# Tests of the input of a class and its answers.


def test_answers_to_published_input_are_in_the_log(node: Node) -> None:
    hosted = node.host(declared())
    hosted.subscribed()
    for begin in range(0, 100, 10):
        node.publish(readings(begin, 10))
    figures = hosted.wait(delivered(100)).figures
    assert (figures.offered, figures.queued, figures.results) == (100, 0, 50 + 4)
    assert rows(node.dirs, "hot") == hot(0, 100)
    assert rows(node.dirs, "hot", after=46) == hot(0, 100)[47:]
    assert [row[-1] for row in rows(node.dirs, "mean")] == [20, 40, 40, 40]
    assert AnswerReader(node.dirs, "gold").columns("hot") == [
        ("ts", "int64"),
        ("sensor", "int32"),
        ("temp", "float64"),
    ]
    assert units_of(node.dirs, "gold") == ["gold"]
    assert not hosted.ends


def test_stream_names_ignore_case(node: Node) -> None:
    sql = STREAMS[0].replace("readings", "Readings2")
    node.gateway.streams.declare(sql)
    hosted = node.host(
        declared(streams=(sql,), queries={"hot": QUERIES["hot"].replace("readings", "READINGS2")})
    )
    hosted.subscribed()
    node.publish(readings(0, 10), "readings2")
    hosted.wait(delivered(10))
    assert rows(node.dirs, "hot") == hot(0, 10)


def test_a_new_host_reads_only_input_after_its_start(node: Node) -> None:
    node.publish(readings(0, 10))
    hosted = node.host(declared())
    hosted.subscribed()
    node.publish(readings(10, 10))
    hosted.wait(delivered(10))
    assert rows(node.dirs, "hot") == hot(10, 20)


def test_a_host_releases_frames_that_it_no_longer_needs(node: Node) -> None:
    hosted = node.host(declared(lossless=True))
    hosted.subscribed()
    for begin in range(0, 100, 10):
        node.publish(readings(begin, 10))
    hosted.asleep()
    stream = node.gateway.streams.find("readings")
    while stream.readers["gold"].released < 10:
        threading.Event().wait(0.001)
    assert stream.readers["gold"].lossless


def test_ledgers_and_figures_of_a_units_report_are_from_the_same_moment(node: Node) -> None:
    both = {**QUERIES, "alarms": "SELECT ts, level FROM alerts"}
    hosted = node.host(declared(queries=both))
    hosted.subscribed()
    hosted.host.set_keep("gold", 0.5)
    for begin in range(0, 1000, 100):
        node.publish(readings(begin, 100))
    seen: list[UnitReport] = []
    while not seen or not seen[-1].asleep:
        seen.append(hosted.reports.get(timeout=HUNG_S))
        if seen[-1].figures.offered == 1000:
            hosted.host.set_keep("gold", 1.0)  # A unit that sheds does not sleep.
    for report in seen:
        assert set(report.accounts) == {"readings", "alerts"}
        assert all(ledger.closes(queued) for ledger, queued in report.accounts.values())
        assert sum(queued for _, queued in report.accounts.values()) == report.figures.queued
        assert sum(ledger.offered for ledger, _ in report.accounts.values()) == report.figures.offered
    assert seen[-1].accounts["readings"][0].offered == 1000
    assert seen[-1].figures.results_per_s == 0


def test_a_sleeping_unit_repeats_its_last_report_when_its_host_receives_its_list_of_units_again(
    node: Node,
) -> None:
    hosted = node.host(declared())
    hosted.subscribed()
    node.publish(readings(0, 10))
    last = hosted.asleep()
    hosted.host.set_units([unit(declared())])
    assert hosted.reports.get(timeout=HUNG_S) == last


def test_a_unit_sleeps_without_input_and_wakes_with_the_next_batch(node: Node) -> None:
    hosted = node.host(declared())
    hosted.subscribed()
    for begin in (0, 10):
        node.publish(readings(begin, 10))
        assert hosted.asleep().figures.delivered == begin + 10
        assert hosted.status().asleep
        assert hosted.reports.empty()


def test_a_restarted_host_resumes_where_it_stopped(dirs: RunDirs) -> None:
    with running(dirs) as node:
        for begin in range(0, 40, 10):
            hosted = node.host(declared())
            hosted.subscribed()
            node.publish(readings(begin, 10))
            hosted.wait(delivered(begin + 10))
            hosted.host.stop()
            node.publish(readings(begin + 10, 0))
        assert rows(dirs, "hot") == hot(0, 40)
        assert [row[-1] for row in rows(dirs, "mean")] == [20]


def test_input_that_arrives_while_the_host_is_stopped_is_not_lost(node: Node) -> None:
    hosted = node.host(declared())
    hosted.subscribed()
    hosted.host.stop()
    node.publish(readings(0, 10))
    hosted = node.host(declared())
    node.publish(readings(10, 10))
    hosted.wait(delivered(20))
    assert rows(node.dirs, "hot") == hot(0, 20)


def test_a_one_time_query_is_answered_while_the_unit_runs_and_while_it_sleeps(node: Node) -> None:
    hosted = node.host(declared())
    hosted.subscribed()
    node.publish(readings(0, 100))
    hosted.wait(delivered(100))
    asked = "SELECT COUNT(*) AS n FROM readings [RANGE 4 SECONDS]"
    awake = hosted.host.answer_once("gold", asked)
    assert (awake.tuples, awake.rows["n"].to_pylist()) == (40, [40])
    assert awake.covers == CoveredTime(6_000_000, 10_000_000, 9_900_000)
    before = hosted.asleep().figures
    assert hosted.host.answer_once("gold", asked) == awake
    assert hosted.status().asleep
    node.publish(readings(100, 10))
    after = hosted.wait(delivered(110)).figures
    assert after.results - before.results == 5 + 1
    with pytest.raises(InvalidInput, match="there is no such stream"):
        hosted.host.answer_once("gold", "SELECT COUNT(*) AS n FROM nothing [RANGE 4 SECONDS]")
    with pytest.raises(UnknownName, match="the host runs no unit of this name"):
        hosted.host.answer_once("silver", asked)
    assert not hosted.ends


def test_a_one_time_query_is_refused_when_its_unit_is_removed_before_the_next_slice(node: Node) -> None:
    hosted = node.host(declared(), turns=False)
    question = Question("SELECT COUNT(*) AS n FROM readings [RANGE 4 SECONDS]")
    hosted.host.ask(lambda: hosted.host.units.put_question("gold", question))
    hosted.host.set_units([])
    with pytest.raises(Away, match="the class is being restarted or moved"):
        question.answer.result(timeout=0)


def test_shards_of_a_class_divide_its_input_by_key(node: Node) -> None:
    split = declared(shards=2, key="sensor", queries={"hot": QUERIES["hot"]})
    hosted = node.host()
    units = [unit(split, shard) for shard in (0, 1)]
    hosted.share(*units)
    hosted.host.set_units(units)
    hosted.subscribed("gold#0", "gold#1")
    node.publish(readings(0, 100))
    parts: dict[str, int] = {}
    while len(parts) < 2:
        one = hosted.wait(lambda one: one.asleep)
        parts[one.unit] = one.figures.delivered
    assert sum(parts.values()) == 100
    assert all(parts.values())
    found = [row[1:] for name in units_of(node.dirs, "gold") for row in rows(node.dirs, "hot", name)]
    assert sorted(found) == [row[1:] for row in hot(0, 100)]


# Tests of queries and declarations that change.


def test_a_query_added_to_a_running_class_is_answered_and_a_removed_query_is_not(node: Node) -> None:
    hosted = node.host(declared(queries={"hot": QUERIES["hot"]}))
    hosted.subscribed()
    node.publish(readings(0, 10))
    hosted.wait(delivered(10))
    cold = {"cold": "SELECT ts, sensor FROM readings WHERE temp < 0"}
    hosted.host.set_units([unit(declared(queries=cold))])
    node.publish(readings(10, 10))
    hosted.wait(delivered(20))
    assert rows(node.dirs, "hot") == hot(0, 10)
    assert [row[2] for row in rows(node.dirs, "cold")] == [11, 13, 15, 17, 19]


def test_a_stream_is_read_only_while_a_query_needs_it(node: Node) -> None:
    hosted = node.host(declared(queries={"hot": QUERIES["hot"]}))
    hosted.subscribed()
    alerts = pa.RecordBatch.from_pydict(
        {"ts": [1], "sensor": pa.array([7], pa.int32()), "level": pa.array([3], pa.int32())}
    )
    node.publish(alerts, "alerts")
    both = {"hot": QUERIES["hot"], "level": "SELECT sensor, level FROM alerts"}
    hosted.host.set_units([unit(declared(queries=both))])
    stream = node.gateway.streams.find("alerts")
    while "gold" not in stream.readers:
        threading.Event().wait(0.001)
    node.publish(alerts, "alerts")
    hosted.wait(delivered(1))
    assert rows(node.dirs, "level") == [(0, 7, 3)]
    hosted.host.set_units([unit(declared(queries={"hot": QUERIES["hot"]}))])
    while "gold" in stream.readers:
        threading.Event().wait(0.001)


@pytest.mark.parametrize(
    "changes",
    [
        {"delay_target_ms": 200},
        {"victim": "newest"},
        {"limits": {"groups": 5}},
        {"objective": "memory"},
        {"policy": {"kind": "bsd", "clusters": 12}},
    ],
)
def test_a_class_keeps_answering_after_a_changed_declaration(node: Node, changes: dict[str, Any]) -> None:
    hosted = node.host(declared())
    hosted.subscribed()
    node.publish(readings(0, 10))
    hosted.wait(delivered(10))
    hosted.host.set_units([unit(declared(**changes))])
    node.publish(readings(10, 10))
    hosted.wait(delivered(20))
    assert rows(node.dirs, "hot") == hot(0, 20)


def test_a_removed_unit_leaves_no_reader_and_no_log(node: Node) -> None:
    hosted = node.host(declared())
    hosted.subscribed()
    hosted.host.set_units([])
    stream = node.gateway.streams.find("readings")
    while stream.readers:
        threading.Event().wait(0.001)
    assert not node.dirs.class_log("gold").exists()
    hosted.host.set_units([unit(declared())])
    hosted.subscribed()
    node.publish(readings(10, 10))
    hosted.wait(delivered(10))
    assert rows(node.dirs, "hot") == hot(10, 20)


def test_a_unit_that_was_drained_before_its_move_resumes_from_its_log_without_snapshots(node: Node) -> None:
    hosted = node.host(declared())
    hosted.subscribed()
    node.publish(readings(0, 25))
    hosted.wait(delivered(25))
    following = hosted.host.drain("gold")
    folder = node.dirs.class_log("gold")
    for left in (folder / "snapshots").iterdir():
        left.unlink()
    node.publish(readings(25, 25))
    hosted.host.set_units([unit(declared())])
    hosted.wait(delivered(50))
    assert rows(node.dirs, "hot") == hot(0, 50)
    assert [row[-1] for row in rows(node.dirs, "mean")] == [20, 40]
    assert following > 0


# Tests of the door, and the limits of queue and logs.


def wait_for(event: threading.Event) -> None:
    event.wait(HUNG_S)


def closes(hosted: Hosted, name: str = "gold") -> dict[str, TupleLedger]:
    found = hosted.host.ledger(name)
    for ledger, queued in found.values():
        assert ledger.closes(queued)
    return {stream: ledger for stream, (ledger, _) in found.items()}


def test_rows_beyond_the_queue_limit_are_rejected_and_the_ledger_closes(node: Node) -> None:
    small = SETTINGS.model_copy(update={"queue_max": 15})
    hosted = node.host(declared(), settings=small, turns=False)
    hosted.subscribed()
    for begin in range(0, 50, 10):
        node.publish(readings(begin, 10))
    figures = hosted.wait(lambda one: one.figures.offered == 50).figures
    assert (figures.queued, figures.rejected) == (15, 35)
    closes(hosted)
    hosted.share(unit(declared()))
    hosted.wait(delivered(15))
    assert closes(hosted)["readings"].rejected == 35


def test_a_lossless_unit_holds_its_producers_back(dirs: RunDirs) -> None:
    with running(dirs, bytes_max=4 << 20, segment_bytes=1 << 16) as node:
        small = SETTINGS.model_copy(update={"queue_max": 1000})
        hosted = node.host(declared(lossless=True), settings=small, turns=False)
        hosted.subscribed()
        sent = 0
        with Producer(dirs.door_socket) as producer:
            while isinstance(producer.publish("readings", readings(sent, 1000)), Accepted):
                sent += 1000
        assert hosted.wait(lambda one: one.figures.offered > 0).figures.offered <= 2000
        hosted.share(unit(declared()))
        figures = hosted.wait(delivered(sent)).figures
        assert (figures.rejected, figures.failed) == (0, 0)
        node.publish(readings(sent, 1000))
        hosted.wait(delivered(sent + 1000))
        assert rows(dirs, "hot") == hot(0, sent + 1000)


def sent_until_refused(dirs: RunDirs, batch: int) -> int:
    """Send batches of readings until the gateway refuses a batch for now; return the number of accepted rows."""
    with Producer(dirs.door_socket) as producer:
        for sent in range(0, 1000 * batch, batch):
            answer = producer.publish("readings", readings(sent, batch))
            if isinstance(answer, RefusedBatch):
                assert answer.retry_after_s is not None, "the batch was refused permanently"
                return sent
    raise AssertionError("the log accepted 1,000 batches and is not full")


def test_a_class_with_a_small_max_drop_holds_its_producers_back_and_sheds_no_more(dirs: RunDirs) -> None:
    strict = declared(queries={"hot": QUERIES["hot"]}, max_drop=0.05)
    with running(dirs, bytes_max=4 << 20, segment_bytes=1 << 16) as node:
        hosted = node.host(strict, turns=False)
        hosted.subscribed()
        manager = hosted.host.units.by_name["gold"].load.manager
        assert manager is not None
        # The queue has room for LEAST_ROOM tuples only, whatever a tuple costs on this machine.
        manager.hold_s = 1e-9
        sent = sent_until_refused(dirs, 500)
        hosted.share(unit(strict))
        seen = [hosted.wait(lambda _: True)]
        while (seen[-1].figures.offered, seen[-1].figures.queued) != (sent, 0):
            seen.append(hosted.wait(lambda _: True))
        figures = seen[-1].figures
        # The door never splits a batch, so the last batch may exceed the room in the queue.
        assert max(one.figures.queued for one in seen) <= LEAST_ROOM + 500
        assert max(one.figures.held_back for one in seen) == 1
        assert (figures.rejected, figures.failed) == (0, 0)
        assert figures.shed <= 0.06 * sent
        assert figures.delivered + figures.shed == sent
        closes(hosted)


@pytest.mark.parametrize("waits", [False, True])
def test_a_class_without_turns_is_shown_as_held_back_while_its_full_log_refuses_producers(
    dirs: RunDirs, waits: bool
) -> None:
    """Check both cases: with `waits` the queue is full; without it, the stream's log is full while the queue has room."""
    strict = declared(queries={"hot": QUERIES["hot"]}, max_drop=0.05)
    with running(dirs, bytes_max=1 << 17, segment_bytes=1 << 14) as node:
        hosted = node.host(strict, turns=False)
        hosted.subscribed()
        manager = hosted.host.units.by_name["gold"].load.manager
        assert manager is not None
        if waits:
            manager.hold_s = 1e-9
        sent_until_refused(dirs, 100)
        assert hosted.wait(lambda one: one.figures.held_back == 1).figures.queued > 0


def test_a_held_back_class_answers_everything_once_it_gets_turns(dirs: RunDirs) -> None:
    with running(dirs, bytes_max=4 << 20, segment_bytes=1 << 16) as node:
        hosted = node.host(declared(queries={"hot": QUERIES["hot"]}, max_drop=0), turns=False)
        hosted.subscribed()
        sent = sent_until_refused(dirs, 1000)
        hosted.share(unit(declared()))
        figures = hosted.wait(delivered(sent)).figures
        assert (figures.rejected, figures.failed, figures.shed) == (0, 0, 0)
        node.publish(readings(sent, 1000))
        hosted.wait(delivered(sent + 1000))
        assert rows(dirs, "hot") == hot(0, sent + 1000)


@pytest.mark.parametrize("restart", [False, True])
def test_rows_dropped_by_the_gateway_count_as_failed_and_other_rows_are_answered(
    dirs: RunDirs, restart: bool
) -> None:
    with running(dirs, bytes_max=1 << 18, segment_bytes=1 << 14) as node:
        hosted = node.host(declared(queries={"hot": QUERIES["hot"]}))
        hosted.subscribed()
        node.publish(readings(0, 10))
        hosted.asleep()
        hold = threading.Event()
        if restart:
            hosted.host.stop()
        else:
            ingest = hosted.host._ingest
            ingest._ask(lambda: wait_for(hold))
        sent = 10
        for _ in range(200):
            node.publish(readings(sent, 100))
            sent += 100
        if restart:
            hosted = node.host(declared(queries={"hot": QUERIES["hot"]}))
        hold.set()
        figures = hosted.wait(lambda one: one.asleep and one.figures.offered == sent).figures
        assert figures.failed > 0
        assert figures.failed + figures.delivered == sent
        ledger = closes(hosted)["readings"]
        assert (ledger.offered, ledger.failed) == (sent, figures.failed)
        found = rows(dirs, "hot")
        assert [row[0] for row in found] == list(range(len(found)))
        assert found[-1][2] == sent - 2


def test_a_host_continues_after_a_gateway_restart(dirs: RunDirs) -> None:
    with running(dirs) as first:
        hosted = first.host(declared())
        hosted.subscribed()
        first.publish(readings(0, 10))
        hosted.wait(delivered(10))
        first.restart_gateway()
        first.publish(readings(10, 10))
        hosted.wait(delivered(20))
    assert rows(dirs, "hot") == hot(0, 20)


# Tests of load management of a host's classes.


def test_with_manager_common_a_unit_reports_its_load_cycles_and_sheds_by_the_received_keep(
    node: Node,
) -> None:
    common = SETTINGS.model_copy(update={"manager": "common"})
    hosted = node.host(declared(), settings=common)
    hosted.subscribed()
    node.publish(readings(0, 10))
    report = hosted.wait(delivered(10))
    assert report.cycle is not None
    assert {one.stream for one in report.cycle.inputs} == {"readings"}
    hosted.host.set_keep("gold", 0.5)
    node.publish(readings(10, 1000))
    figures = hosted.wait(lambda one: one.figures.offered == 1010).figures
    assert 0 < figures.shed < 1000
    assert figures.keep == 0.5
    ledger = closes(hosted)["readings"]
    assert ledger.shed == figures.shed
    hosted.host.set_keep("gold", 1.0)
    hosted.asleep()


def test_decisions_are_recorded_and_explained(node: Node) -> None:
    recorded: list[Any] = []

    def opened(manager: Any) -> Any:
        assert manager.name == "gold"
        return lambda event, now, commands: recorded.append((event, commands))

    hosted = node.host(declared())
    hosted.subscribed()
    hosted.host.stop()
    host = Host("h1", node.dirs, SETTINGS, hosted.report, hosted.ends.append, opened)
    host.start([unit(declared())])
    node.publish(readings(0, 10))
    hosted.asleep()
    host.scale_headroom("gold", 0.5, 0.5, 0.8)
    host.scale_headroom("gold", 0.5, 0.5, 0.8)  # The repeated call is recorded only once.
    (last,) = host.explanations("gold", 1).decisions
    assert (last.name, last.words()[:5]) == ("gold", "load ")
    assert host.plan("gold")[0].tuples == 10
    host.stop()
    kinds = [type(event).__name__ for event, _ in recorded]
    assert [event for event, _ in recorded if isinstance(event, HeadroomScaled)] == [
        HeadroomScaled("gold", 0.5, 0.5, 0.8)
    ]
    assert kinds.count("CycleEnded") >= 10


def test_event_time_of_an_idle_stream_advances_and_closes_its_windows(node: Node) -> None:
    soon = SETTINGS.model_copy(update={"idle_after_s": 0.05})
    window = {"n": "SELECT COUNT(*) AS n FROM readings [RANGE 200 MILLISECONDS]"}
    hosted = node.host(declared(queries=window), settings=soon)
    hosted.subscribed()
    node.publish(readings(0, 3))
    hosted.wait(lambda one: one.figures.results == 1)
    while not rows(node.dirs, "n")[1:]:
        threading.Event().wait(0.01)
    assert [row[-1] for row in rows(node.dirs, "n")] == [2, 1]


# Tests of failures inside a class or its host.


class Broken(Stateless):
    """Operator that fails on every train."""

    def process(self, train: Train) -> Train | None:
        raise RuntimeError("broken")


def test_a_failed_unit_is_restarted_and_answers_everything(node: Node) -> None:
    other = declared(name="silver")
    hosted = node.host(declared(), other)
    hosted.subscribed("gold", "silver")
    node.publish(readings(0, 10))

    def fail() -> None:
        hosted.host.units.by_name["gold"].hosted.runner.network.nodes[0].operator = Broken()

    hosted.wait(lambda one: one.unit == "gold" and one.figures.delivered == 10)
    hosted.host.ask(fail)
    node.publish(readings(10, 10))
    hosted.wait(lambda one: one.unit == "gold" and one.figures.delivered == 20)
    assert rows(node.dirs, "hot") == hot(0, 20)
    assert hosted.host.status().failures
    hosted.wait(lambda one: one.unit == "silver" and one.figures.delivered == 20)


def test_a_unit_starts_once_its_log_has_no_other_writer(node: Node) -> None:
    copied = SegmentWriter(node.dirs.class_log("gold"))
    hosted = node.host(declared(), declared(name="silver"))
    hosted.subscribed("silver")
    units, broken = hosted.host.ask(lambda: (set(hosted.host.units.by_name), dict(hosted.host.units.broken)))
    assert (units, broken) == ({"silver"}, {})
    copied.close()
    hosted.subscribed("gold")
    node.publish(readings(0, 10))
    hosted.wait(lambda one: one.unit == "gold" and one.figures.delivered == 10)


def test_a_unit_with_unreadable_state_is_given_up_and_other_units_continue(node: Node) -> None:
    snapshots = SegmentWriter(node.dirs.class_log("gold") / "snapshots")
    snapshots.append(*snapshot_parts(SnapshotFrame(0, b"nothing of the kind")))
    snapshots.close()
    hosted = node.host(declared(), declared(name="silver"))
    hosted.subscribed("silver")
    node.publish(readings(0, 10))
    reported: list[UnitReport] = []

    def reached(one: UnitReport) -> bool:
        reported.append(one)
        return one.unit == "silver" and one.figures.delivered == 10

    hosted.wait(reached)
    status = hosted.host.status()
    assert set(status.broken) == {"gold"}
    assert set(status.units) == {"silver"}
    (report,) = (one for one in reported if one.unit == "gold")
    assert (report.asleep, report.problem.startswith("given up: ")) == (True, True)
    node.dirs.class_log("gold").joinpath("snapshots").rename(node.dirs.folder / "away")
    hosted.host.set_units([unit(declared()), unit(declared(name="silver"))])
    assert not hosted.host.ask(lambda: hosted.host.units.broken)


def test_an_answer_too_large_for_the_log_is_counted_as_lost(node: Node) -> None:
    # The answers to a train are written as one frame.
    small = SETTINGS.model_copy(update={"results_bytes": 1 << 20, "train_max": 100_000})
    hosted = node.host(declared(queries={"hot": QUERIES["hot"]}), settings=small)
    hosted.subscribed()
    node.publish(readings(0, 100_000))
    hosted.wait(delivered(100_000))
    lost = hosted.host.ask(lambda: hosted.host.units.by_name["gold"].status().lost_answers)
    assert lost > 0
    node.publish(readings(100_000, 10))
    hosted.wait(delivered(100_010))
    assert rows(node.dirs, "hot")[-1] == (50_004, 10_000_800, 100_008, 1.0)


@pytest.mark.parametrize(("of_class", "calls"), [(50, 20), (5000, 10), (None, 10)])
def test_train_max_of_a_class_can_only_lower_the_systems_train_max(
    node: Node, of_class: int | None, calls: int
) -> None:
    system = SETTINGS.model_copy(update={"train_max": 100})
    hosted = node.host(declared(queries={"hot": QUERIES["hot"]}, train_max=of_class), settings=system)
    hosted.subscribed()
    node.publish(readings(0, 1000))
    hosted.wait(delivered(1000))
    assert (
        hosted.host.ask(lambda: hosted.host.units.by_name["gold"].hosted.runner.scheduled.calls[0]) == calls
    )


def test_the_oldest_answers_are_dropped_when_the_answer_log_is_full(node: Node) -> None:
    small = SETTINGS.model_copy(update={"results_bytes": 1 << 20, "snapshot_s": 1000.0})
    hosted = node.host(declared(queries={"hot": QUERIES["hot"]}, lossless=True), settings=small)
    hosted.subscribed()
    for begin in range(0, 600_000, 2000):
        node.publish(readings(begin, 2000))
    hosted.wait(delivered(600_000))
    found = [row[0] for row in rows(node.dirs, "hot")]
    assert found[0] > 0
    assert found == list(range(found[0], 300_000))
    assert hosted.status().lost_answers == 0


def test_lowering_the_size_of_an_answer_log_loses_no_new_answers(node: Node) -> None:
    """Lower the size limit of a running class's answer log below the present size of the log. Check that all newer answers are kept."""
    hot = {"hot": QUERIES["hot"]}
    hosted = node.host(
        declared(queries=hot, lossless=True), settings=SETTINGS.model_copy(update={"train_max": 100_000})
    )
    hosted.subscribed()
    node.publish(readings(0, 200_000))
    hosted.wait(delivered(200_000))
    few = declared(queries=hot, lossless=True, limits={"result_bytes": 1 << 20})
    hosted.host.set_units([unit(few)])
    hosted.subscribed()
    for begin in range(200_000, 600_000, 100_000):
        node.publish(readings(begin, 100_000))
    hosted.wait(delivered(600_000))
    found = [row[0] for row in rows(node.dirs, "hot")]
    assert 100_000 < found[0] < 300_000
    assert found == list(range(found[0], 300_000))
    assert hosted.status().lost_answers == 0
    kept = sum(one.stat().st_blocks * 512 for one in node.dirs.class_log("gold").glob("*.segment"))
    assert kept <= 1 << 20


def test_a_host_whose_units_all_sleep_waits_without_a_time_limit(node: Node) -> None:
    hosted = node.host(declared())
    hosted.subscribed()
    hosted.asleep()
    assert hosted.host.ask(lambda: hosted.host._quiet_s()) is None


class BrokenDoor(Door):
    """Door that fails on every batch."""

    def admit(self, batch: int, train: Train, queued: int) -> Piece:
        raise RuntimeError("broken")


def test_an_error_while_a_unit_takes_in_rows_affects_no_other_unit_of_its_host(node: Node) -> None:
    hosted = node.host(declared(), declared(name="silver"))
    hosted.subscribed("gold", "silver")
    node.publish(readings(0, 10))
    hosted.wait(lambda one: one.unit == "gold" and one.figures.delivered == 10)

    def fail() -> None:
        feed = hosted.host.units.by_name["gold"].intake.feeds["readings"]
        feed.door = BrokenDoor("readings", feed.door.shedder, 1000)

    hosted.host.ask(fail)
    node.publish(readings(10, 10))
    hosted.wait(lambda one: one.unit == "gold" and one.figures.delivered == 20)
    assert rows(node.dirs, "hot") == hot(0, 20)
    hosted.wait(lambda one: one.unit == "silver" and one.figures.delivered == 20)
    assert (hosted.ends, hosted.host.status().failures) == ([], ("gold: RuntimeError: broken",))


def test_class_that_drops_a_stream_at_a_restart_is_no_longer_its_reader(node: Node) -> None:
    both = declared(queries={"hot": QUERIES["hot"], "level": "SELECT sensor, level FROM alerts"})
    hosted = node.host(both)
    hosted.subscribed()
    node.publish(readings(0, 10))
    hosted.wait(delivered(10))
    hosted.host.stop()
    again = node.host(declared(streams=STREAMS[:1], queries={"hot": QUERIES["hot"]}, lossless=True))
    alerts = node.gateway.streams.find("alerts")
    while "gold" in alerts.readers:
        threading.Event().wait(0.001)
    again.subscribed()
    node.publish(readings(10, 10))
    again.wait(delivered(20))
    assert rows(node.dirs, "hot") == hot(0, 20)


def test_stream_that_is_dropped_and_declared_again_is_still_read(node: Node) -> None:
    hosted = node.host(declared(queries={"hot": QUERIES["hot"]}))
    hosted.subscribed()
    node.publish(readings(0, 10))
    hosted.wait(delivered(10))
    node.gateway.streams.drop("readings")
    node.gateway.streams.declare(STREAMS[0])
    hosted.subscribed()
    node.publish(readings(10, 10))
    figures = hosted.wait(delivered(20)).figures
    assert (figures.offered, figures.failed) == (20, 0)
    assert rows(node.dirs, "hot") == hot(0, 20)
