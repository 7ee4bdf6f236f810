"""Event logs on disk: file names, order, size limits, and the end of a log."""

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


def test_each_start_of_a_core_gets_its_own_private_event_log(tmp_path: Path) -> None:
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


def test_new_log_files_get_higher_numbers_even_if_earlier_files_were_removed(tmp_path: Path) -> None:
    first, second = (EventLog(tmp_path, header(), ROOMY) for _ in range(2))
    first.path.unlink()
    assert second.path.name == "turns-node-2.jsonl"
    assert EventLog(tmp_path, header(), ROOMY).path.name == "turns-node-3.jsonl"


def test_the_header_is_written_at_once_and_decisions_at_a_flush(tmp_path: Path) -> None:
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
def test_a_log_stops_at_its_maximum_size_with_a_note(tmp_path: Path, most_bytes: int) -> None:
    log = EventLog(tmp_path, header(), most_bytes)
    begin = log.path.stat().st_size
    for now in range(1000):
        log.record(GOLD, now, ())
        log.flush()
    log.close()
    assert log.stopped == "the log has reached its maximum size"
    assert log.path.stat().st_size <= max(most_bytes, begin + 100)
    assert lines_of(log.path)[-1] == {"cut": "the log has reached its maximum size"}
    assert times(log) == list(range(len(times(log))))
    (core,) = replay(tmp_path).cores
    assert (core.agrees, core.lives[0].events, core.lives[0].ended) == (
        True,
        len(times(log)),
        "the log has reached its maximum size",
    )


def test_a_log_ends_when_too_many_decisions_wait_to_be_written(tmp_path: Path) -> None:
    log = EventLog(tmp_path, header(), 1 << 30)
    for now in range(PENDING_MAX + 10):
        log.record(GOLD, now, ())
    log.close()
    assert times(log) == list(range(PENDING_MAX))
    assert lines_of(log.path)[-1] == {"cut": "decisions came faster than they were written"}


def test_an_event_of_unknown_type_ends_the_log_without_an_error(tmp_path: Path) -> None:
    log = EventLog(tmp_path, header(), ROOMY)
    log.record(GOLD, 1, ())
    log.record("ready", 2, ())
    log.record(GOLD, 3, ())
    log.close()
    assert times(log) == [1]
    assert lines_of(log.path)[-1]["cut"].startswith("an event could not be written: KeyError")


def test_a_disk_error_ends_the_log_and_the_written_lines_can_be_replayed(tmp_path: Path) -> None:
    log = EventLog(tmp_path, header(), ROOMY)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1010, before[1]))
        for now in range(100):
            log.record(GOLD, now, ())
        log.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert log.stopped == "the disk reported an error: File too large"
    log.record(GOLD, 100, ())
    log.close()
    assert log.path.stat().st_size == 1010
    (core,) = replay(tmp_path).cores
    assert (core.agrees, core.lives[0].ended) == (True, "the last line was not fully written")


def test_a_writer_keeps_each_log_in_the_order_of_its_decisions(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, ROOMY)
    logs = [writer.open("turns", name, TurnRoundRobin({}, 0.01)) for name in ("a", "b")]

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


def test_decisions_recorded_after_a_log_was_closed_are_ignored(tmp_path: Path) -> None:
    log = EventLog(tmp_path, header(), ROOMY)
    log.close()
    log.record(GOLD, 1, ())
    log.close()
    assert times(log) == []
    assert json.loads(log.path.read_text("utf-8"))["core"] == "turns"
