"""Replay of a recorded run: decisions agree, a changed line is found, and lost messages between cores are reported."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.runtime.event_log import EventLog
from configs.classes.load_manager import LoadSettings
from configs.classes.managers import MANAGERS
from configs.errors import InvalidInput
from configs.scenario.scenario import Scenario
from configs.scenario.scenario_files import preset_names
from configs.scenario.scenarios import load_any_scenario
from loadshed.aloma import AlomaBranch, Control
from loadshed.cycle import CycleEnded, InputCycle, OutputCycle
from loadshed.manager import LoadManager
from loadshed.records import header_of
from scheduler.capacity.core import CapacityCore, CapacityEvent, RedistributionDue, UsageReported
from scheduler.capacity.redistribution import ClassAccount
from sim.replay import Life, ReplayReport, replay
from tests.support.recordings import change_line, lending, lines_of, recorded_run, write_lines
from tests.support.scenarios import preset

CLASS_PRESETS = [name for name in preset_names() if isinstance(load_any_scenario(name), Scenario)]
FAULTS = (
    {"kind": "host_dies", "at_s": 0.5, "down_s": 0.5, "rebuild_ms": 50},
    {"kind": "reports_late", "at_s": 0.2, "for_s": 0.5, "delay_s": 0.4},
    {"kind": "reports_lost", "at_s": 1.0, "for_s": 0.3},
    {"kind": "clock_jumps", "at_s": 1.4, "by_s": -0.7},
)


def faulty_preset(name: str) -> Any:
    """Return a preset of two seconds with a fault of every kind."""
    settings = preset(name, seconds=2.0)
    first = settings.classes[0].name
    faults = [fault if fault["kind"] == "clock_jumps" else fault | {"name": first} for fault in FAULTS]
    return type(settings).model_validate(settings.model_dump() | {"faults": faults})


def life_of(report: ReplayReport, core: str, name: str = "node") -> Life:
    (life,) = next(one.lives for one in report.cores if (one.core, one.name) == (core, name))
    return life


@pytest.fixture(scope="module")
def lent(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Lines of the event logs of a run in which capacity was lent, by file name."""
    folder = tmp_path_factory.mktemp("lent")
    recorded_run(folder, lending())
    return {log.name: lines_of(log) for log in folder.iterdir()}


@pytest.fixture
def folder(lent: dict[str, list[Any]], tmp_path: Path) -> Path:
    for name, lines in lent.items():
        write_lines(tmp_path / name, lines)
    return tmp_path


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("name", CLASS_PRESETS)
def test_the_replay_of_a_run_with_faults_repeats_its_decisions(
    name: str, manager: str, tmp_path: Path
) -> None:
    run = recorded_run(tmp_path, faulty_preset(name), manager)
    report = replay(tmp_path)
    assert report.agrees
    assert [(core.core, core.name) for core in report.cores] == [
        ("turns", "node"),
        *(("load", one) for one in sorted(run.ring.loads)),
        *([("capacity", "node")] if run.ring.capacity else []),
    ]
    assert all(life.events and not life.ended for core in report.cores for life in core.lives)
    assert all(one.sent == one.heard for one in report.deliveries)


def test_every_message_between_cores_is_counted(folder: Path) -> None:
    report = replay(folder)
    assert report.agrees
    moves = sum(line[2] != [] for line in lines_of(folder / "capacity-node-1.jsonl")[1:])
    assert moves > 1
    assert [(one.sender, one.receiver, one.sent, one.heard) for one in report.deliveries] == [
        ("capacity node", "load bronze", moves, moves),
        ("capacity node", "load gold", moves, moves),
        ("capacity node", "turns node", moves, moves),
    ]


def test_recordings_in_subfolders_are_replayed_separately(lent: dict[str, list[Any]], tmp_path: Path) -> None:
    for run in ("first", "nested/second"):
        (tmp_path / run).mkdir(parents=True)
        for name, lines in lent.items():
            write_lines(tmp_path / run / name, lines)
    (tmp_path / "nested/second/load-gold-1.jsonl").unlink()
    first, second, both = (replay(tmp_path / one) for one in ("first", "nested/second", ""))
    assert both.agrees
    assert both.events == first.events + second.events
    assert [(one.folder, one.core, one.name) for one in both.cores] == [
        (folder, one.core, one.name)
        for folder, report in (("first", first), ("nested/second", second))
        for one in report.cores
    ]
    assert both.deliveries == first.deliveries + second.deliveries


@pytest.mark.parametrize(
    ("core", "name", "command"),
    [("turns", "node", "Grant"), ("load", "bronze", "SetKeep"), ("capacity", "node", "SharesChanged")],
)
def test_a_changed_number_in_a_decision_is_found_at_its_line(
    folder: Path, core: str, name: str, command: str
) -> None:
    log = folder / f"{core}-{name}-1.jsonl"

    def change(line: Any) -> None:
        decision = next(one for one in line[2] if one[0] == command)
        if command == "SharesChanged":
            decision[1][0][1] += 1e-12
        else:
            decision[-1] *= 1 + 1e-15

    number = change_line(log, lambda line: isinstance(line, list) and command in str(line[2]), change)
    report = replay(folder)
    life = life_of(report, core, name)
    assert not report.agrees
    assert life.first is not None
    assert (life.disagreements, life.first.file, life.first.line) == (1, str(log), number)
    assert life.first.expected != life.first.got


def test_a_changed_event_leads_to_other_decisions(folder: Path) -> None:
    number = change_line(
        folder / "turns-node-1.jsonl",
        lambda line: isinstance(line, list) and line[1][0] == "SliceEnded",
        lambda line: line[1].__setitem__(3, line[1][3] + 1e-3),
    )
    life = life_of(replay(folder), "turns")
    assert life.first is not None
    assert life.first.line >= number


def test_an_impossible_event_ends_the_replay_with_the_reason(folder: Path) -> None:
    impossible = ["CycleEnded", 0.15, [], [["Q", 0.0, 1, 0.01, 0.0]], 0.0]
    number = change_line(
        folder / "load-bronze-1.jsonl",
        lambda line: isinstance(line, list) and line[1][0] == "CycleEnded",
        lambda line: line.__setitem__(1, impossible),
    )
    life = life_of(replay(folder), "load", "bronze")
    assert life.first is not None
    assert (life.disagreements, life.first.line) == (1, number)
    assert life.first.got.startswith("ZeroDivisionError: ")


def test_the_replay_reports_a_lost_message_between_cores(folder: Path) -> None:
    log = folder / "load-bronze-1.jsonl"
    lines = lines_of(log)
    heard = [
        place for place, line in enumerate(lines[1:], 1) if line[1][0] == "HeadroomScaled" and 3 < line[0] < 5
    ]
    assert heard
    lost = lines.pop(heard[0])
    write_lines(log, lines)
    (delivery,) = (one for one in replay(folder).deliveries if one.receiver == "load bronze")
    assert (delivery.sent - delivery.heard, delivery.excused) == (1, 0)
    assert delivery.first_lost is not None
    assert (delivery.first_lost.at, Path(delivery.first_lost.file).name) == (lost[0], "capacity-node-1.jsonl")


def test_messages_sent_after_the_receivers_log_ends_do_not_fail_the_replay(folder: Path) -> None:
    log = folder / "load-bronze-1.jsonl"
    write_lines(log, [line for line in lines_of(log) if isinstance(line, dict) or line[0] < 3.9])
    report = replay(folder)
    (delivery,) = (one for one in report.deliveries if one.receiver == "load bronze")
    assert report.agrees
    assert delivery.excused == delivery.sent - delivery.heard > 0


def test_undelivered_messages_between_logs_with_different_clocks_do_not_fail_the_replay(folder: Path) -> None:
    log = folder / "load-bronze-1.jsonl"
    change_line(log, lambda line: isinstance(line, dict), lambda line: line.update(clock="another"))
    report = replay(folder)
    (delivery,) = (one for one in report.deliveries if one.receiver == "load bronze")
    assert (report.agrees, delivery.heard, delivery.excused) == (True, 0, delivery.sent)


def test_a_restarted_core_begins_another_life_in_the_same_or_the_next_file(
    folder: Path, lent: dict[str, list[Any]]
) -> None:
    twice = lent["turns-node-1.jsonl"]
    write_lines(folder / "turns-node-1.jsonl", twice + twice)
    write_lines(folder / "turns-node-10.jsonl", twice[:3])
    write_lines(folder / "turns-node-2.jsonl", twice[:2])
    report = replay(folder)
    (turns,) = (one for one in report.cores if one.core == "turns")
    assert report.agrees
    assert [life.events for life in turns.lives] == [len(twice) - 1, len(twice) - 1, 1, 2]


def test_a_restored_core_is_replayed_from_its_restored_state(tmp_path: Path) -> None:
    """Check that load reports that were recorded before a restart of the core still count after the restart."""
    account = ClassAccount("gold", 1, 0.5, 0.5, None)
    core = CapacityCore([account, replace(account, name="bronze")])
    for number in range(4):
        log = EventLog(tmp_path, header_of("capacity", "node", "virtual", core), 1 << 20)
        events: list[CapacityEvent] = [
            UsageReported("gold", 0.2 + number, 0.1),
            UsageReported("bronze", 2.5, 1.2),
        ]
        for event in [*events, RedistributionDue(), *events]:
            log.record(event, float(number), core.handle(event, float(number)))
        log.close()
        core = CapacityCore.restored(core.state())
    (capacity,) = replay(tmp_path).cores
    assert (capacity.agrees, [life.decisions for life in capacity.lives]) == (True, [3, 0, 3, 3])


def test_the_replay_of_a_load_manager_starts_from_its_recorded_headroom_and_keep(tmp_path: Path) -> None:
    core = LoadManager("gold", LoadSettings(), 0.3, 0.5, 0.5)
    core.control = Control(0.2, 0.5, AlomaBranch.DROP_MORE, 3)
    log = EventLog(tmp_path, header_of("load", "gold", "virtual", core), 1 << 20)
    for number in range(3):
        cycle = CycleEnded(0.15, (InputCycle("s", 30, 1e-3),), (OutputCycle("Q", 0.3, 9, 0.2),), 0.0)
        log.record(cycle, float(number), core.handle(cycle, float(number)))
    log.close()
    assert replay(tmp_path).agrees


def test_a_log_with_a_torn_last_line_is_replayed_up_to_that_line(folder: Path) -> None:
    log = folder / "turns-node-1.jsonl"
    whole = b"".join(log.read_bytes().splitlines(keepends=True)[:30])
    for cut in range(1, 200):
        log.write_bytes(whole[:-cut])
        life = life_of(replay(log), "turns")
        assert life.disagreements == 0
        # A line that lacks only its newline is complete.
        at_an_end = whole[:-cut].endswith(b"\n") or whole[-cut:].startswith(b"\n")
        assert life.ended == ("" if at_an_end else "the last line was not fully written")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (b"what is this?\n", "line 1: the line is not JSON"),
        (b"\xff\xfe\n", "line 1: the line is not JSON"),
        (b"[" * 100_000 + b"\n", "line 1: the line is not JSON"),
        (
            b'[1.0,["ClassReady","gold"],[]]\n',
            "line 1: the line comes before the first header of the event log",
        ),
        (b"{}\n", "line 1: the line is not an event-log header of version 1"),
        (b'{"cut":"full"}\n', "line 1: the line comes before the first header of the event log"),
        (
            b'HEAD[1.0,["ClassLate","gold"],[]]\n',
            "line 2: the line names an unknown event or command 'ClassLate'; expected one of ClassReady",
        ),
        (b'HEAD[NaN,["ClassReady","gold"],[]]\n', "line 2: the line is not JSON"),
        (b'HEAD[1.0,["ClassReady","gold"]\n[]\n', "line 2: the line is not JSON"),
        (
            b'HEAD[1.0,["RedistributionDue"],["SharesChanged"]]\n',
            "line 2: the line names an unknown event or command 'RedistributionDue'; expected one of",
        ),
        (b"", "this path contains no event log"),
    ],
)
def test_an_invalid_log_is_refused_with_the_line_number(folder: Path, text: bytes, where: str) -> None:
    log = folder / "turns-node-1.jsonl"
    head = log.read_bytes().partition(b"\n")[0] + b"\n"
    log.write_bytes(text.replace(b"HEAD", head))
    with pytest.raises(InvalidInput) as refused:
        replay(log)
    assert str(refused.value).startswith(f"{log}: {where}")


def test_replaying_a_folder_without_logs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the folder contains no event log"):
        replay(tmp_path)
