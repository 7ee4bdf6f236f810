"""Event logs on disk: names, order, bounds, and what happens at them."""

import json
import resource
import threading
from pathlib import Path

import pytest

from actors.runtime.event_log import PENDING_MAX, EventLog, LogWriter
from loadshed.records import Header, header_of
from scheduler.turns.round_robin import ClassReady, TurnRoundRobin
from sim.replay import replay
from tests.support.recordings import lines_of

ROOMY = 1 << 20
GOLD = ClassReady("gold")


def header(name: str = "node") -> Header:
    return header_of("turns", name, "virtual", TurnRoundRobin({}, 0.01))


def times(log: EventLog) -> list[float]:
    return [line[0] for line in lines_of(log.path) if isinstance(line, list)]


def test_a_life_has_a_file_of_its_own_that_only_its_owner_may_read(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    logs = [EventLog(folder, header(name), ROOMY) for name in ("gold#1", "gold#1", "*", "../up", "gold")]
    assert [log.path.relative_to(folder).as_posix() for log in logs] == [
        "turns-gold#1-1.jsonl",
        "turns-gold#1-2.jsonl",
        "turns-%2A-1.jsonl",
        "turns-..%2Fup-1.jsonl",
        "turns-gold-1.jsonl",
    ]
    assert {log.path.stat().st_mode & 0o777 for log in logs} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_next_life_comes_after_the_last_even_if_earlier_ones_were_removed(tmp_path: Path) -> None:
    first, second = (EventLog(tmp_path, header(), ROOMY) for _ in range(2))
    first.path.unlink()
    assert second.path.name == "turns-node-2.jsonl"
    assert EventLog(tmp_path, header(), ROOMY).path.name == "turns-node-3.jsonl"


def test_the_header_is_there_at_once_and_decisions_after_a_flush(tmp_path: Path) -> None:
    log = EventLog(tmp_path, header(), ROOMY)
    assert len(lines_of(log.path)) == 1
    for now in range(1000):
        log.record(GOLD, now, ())
    assert len(lines_of(log.path)) == 1
    log.flush()
    assert times(log) == list(range(1000))
    log.record(GOLD, 1000, ())
    log.close()
    assert times(log) == list(range(1001))


@pytest.mark.parametrize("most_bytes", [0, 2000, 5000])
def test_a_log_that_has_reached_its_size_says_so_and_grows_no_more(tmp_path: Path, most_bytes: int) -> None:
    log = EventLog(tmp_path, header(), most_bytes)
    begin = log.path.stat().st_size
    for now in range(1000):
        log.record(GOLD, now, ())
        log.flush()
    log.close()
    assert log.stopped == "it has reached its size"
    assert log.path.stat().st_size <= max(most_bytes, begin + 100)
    assert lines_of(log.path)[-1] == {"cut": "it has reached its size"}
    assert times(log) == list(range(len(times(log))))
    (core,) = replay(tmp_path).cores
    assert (core.agrees, core.lives[0].events, core.lives[0].ended) == (
        True,
        len(times(log)),
        "it has reached its size",
    )


def test_decisions_that_nobody_writes_are_not_kept_without_end(tmp_path: Path) -> None:
    log = EventLog(tmp_path, header(), 1 << 30)
    for now in range(PENDING_MAX + 10):
        log.record(GOLD, now, ())
    log.close()
    assert times(log) == list(range(PENDING_MAX))
    assert lines_of(log.path)[-1] == {"cut": "decisions came faster than they were written"}


def test_an_event_of_no_known_type_ends_the_log_and_not_its_core(tmp_path: Path) -> None:
    log = EventLog(tmp_path, header(), ROOMY)
    log.record(GOLD, 1, ())
    log.record("ready", 2, ())
    log.record(GOLD, 3, ())
    log.close()
    assert times(log) == [1]
    assert lines_of(log.path)[-1]["cut"].startswith("an event could not be written: KeyError")


def test_a_disk_that_refuses_ends_the_log_and_what_is_there_can_be_replayed(tmp_path: Path) -> None:
    log = EventLog(tmp_path, header(), ROOMY)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1010, before[1]))
        for now in range(100):
            log.record(GOLD, now, ())
        log.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert log.stopped == "the disk refuses: File too large"
    log.record(GOLD, 100, ())
    log.close()
    assert log.path.stat().st_size == 1010
    (core,) = replay(tmp_path).cores
    assert (core.agrees, core.lives[0].ended) == (True, "the last line is torn")


def test_a_writer_writes_the_logs_of_a_process_in_the_order_of_their_decisions(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, ROOMY)
    logs = [writer.open(header(name)) for name in ("a", "b")]

    def decide(log: EventLog) -> None:
        for now in range(5000):
            log.record(GOLD, now, ())

    threads = [threading.Thread(target=decide, args=[log]) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert [times(log) for log in logs] == [list(range(5000))] * 2
    assert not any(log.is_open for log in logs)


def test_a_record_after_the_end_is_none(tmp_path: Path) -> None:
    log = EventLog(tmp_path, header(), ROOMY)
    log.close()
    log.record(GOLD, 1, ())
    log.close()
    assert times(log) == []
    assert json.loads(log.path.read_text("utf-8"))["core"] == "turns"
