"""The lines of an event log: how they are written, and which lines are refused on reading."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from configs.classes.load_manager import LoadSettings
from loadshed.cycle import CycleEnded, InputCycle, OutputCycle
from loadshed.manager import LoadManager, ReportUsage, RequestReclaim, SetKeep
from loadshed.records import (
    KINDS,
    Core,
    CoreName,
    NotARecord,
    Tagged,
    codec_of,
    commands_line,
    cut_from,
    cut_line,
    decision_from,
    decision_line,
    header_from,
    header_line,
    header_of,
)
from scheduler.capacity.core import CapacityCore, UsageReported
from scheduler.capacity.redistribution import ClassAccount
from scheduler.turns.round_robin import ClassReady, Grant, SharesSet, SliceEnded, TurnRoundRobin

TURNS, LOAD = KINDS["turns"], KINDS["load"]


def test_a_decision_is_written_as_one_short_list() -> None:
    line = decision_line(TURNS, 1.5, SliceEnded("gold", 0, 0.1, False), (Grant("silver", 0, 0.003),))
    assert line == [1.5, ["SliceEnded", "gold", 0, 0.1, False], [["Grant", "silver", 0, 0.003]]]
    assert decision_from(TURNS, line) == (1.5, SliceEnded("gold", 0, 0.1, False), line[2])


def test_recorded_shares_keep_the_order_of_the_classes_in_the_round() -> None:
    line = TURNS.event.encode(SharesSet({"silver": 0.25, "gold": 0.75}))
    assert line == ["SharesSet", [["silver", 0.25], ["gold", 0.75]]]
    assert list(TURNS.event.decode(line).shares) == ["silver", "gold"]


def test_nested_values_of_an_event_are_read_by_their_types() -> None:
    input_, output = InputCycle("s", 3, 1e-4, batches=1), OutputCycle("Q", 0.3, 2, 0.01, 0.2)
    cycle = CycleEnded(0.15, (input_,), (output,), 0.0, ran_dry=True, held_back=True)
    line = json.loads(json.dumps(LOAD.event.encode(cycle)))
    inputs, outputs = [["s", 3, 1e-4, 0.0, 1]], [["Q", 0.3, 2, 0.01, 0.2]]
    assert line == ["CycleEnded", 0.15, inputs, outputs, 0.0, None, True, True]
    assert LOAD.event.decode(line) == cycle


def test_infinite_numbers_and_nan_are_recorded_as_text() -> None:
    line = commands_line(
        LOAD, (ReportUsage(float("inf"), float("nan")), SetKeep(float("-inf")), RequestReclaim())
    )
    assert line == [["ReportUsage", "inf", "nan"], ["SetKeep", "-inf"], ["RequestReclaim"]]
    assert repr(LOAD.command.decode(line[0])) == "ReportUsage(usage=inf, load=nan)"


FIRST_EVENTS: dict[CoreName, Any] = {
    "turns": ClassReady("gold"),
    "load": CycleEnded(0.15, (), (), 0.0),
    "capacity": UsageReported("gold", 0.5, 0.5),
}


def test_a_core_is_rebuilt_from_the_header_of_its_event_log() -> None:
    account = ClassAccount("gold", 3, 0.75, 0.75, None, borrow_limit=0.5)
    cores: dict[CoreName, Core] = {
        "turns": TurnRoundRobin({"gold": 0.75, "bronze": 0.25}, 0.01, 2),
        "load": LoadManager("gold", LoadSettings(step="signed"), 0.3, 0.75, 0.5, headroom_max=2.0),
        "capacity": CapacityCore([account], 2, scale_headroom=False),
    }
    for kind, core in cores.items():
        line = json.loads(json.dumps(header_line(header_of(kind, "n#1", "virtual", core))))
        header = header_from(line)
        assert header[:3] == (kind, "n#1", "virtual")
        made = KINDS[header.core].core_of(header.settings)
        assert KINDS[header.core].settings_of(made) == header.settings
        made.handle(FIRST_EVENTS[kind], 0.0)


def test_a_record_that_lacks_its_last_field_is_readable_if_the_field_has_a_default() -> None:
    accounts = codec_of(ClassAccount)
    assert accounts.decode(["gold", 3, 0.75, 0.5, None]) == ClassAccount("gold", 3, 0.75, 0.5, None)
    with pytest.raises(NotARecord, match="the record has 4 values; expected "):
        accounts.decode(["gold", 3, 0.75, 0.5])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ([1.0, ["ClassReady", "gold"]], r"the form \[now, event, commands\]"),
        ([None, ["ClassReady", "gold"], []], "None is not a number"),
        ([10**400, ["ClassReady", "gold"], []], "is not a number"),
        ([1.0, "ClassReady", []], "'ClassReady' is not an event or command"),
        ([1.0, [], []], r"\[\] is not an event or command"),
        (
            [1.0, ["Grant", "gold", 0, 1.0], []],
            "the line names an unknown event or command 'Grant'; expected one of ClassReady, SliceEnded",
        ),
        ([1.0, ["ClassReady"], []], "the record has 0 values; expected 1"),
        ([1.0, ["ClassReady", 7], []], "7 is not of type str"),
        ([1.0, ["SliceEnded", "gold", True, 0.1, False], []], "True is not of type int"),
        ([1.0, ["SliceEnded", "gold", 0, "soon", False], []], "'soon' is not a number"),
        ([1.0, ["SharesSet", {"gold": 1.0}], []], "is not a list"),
        ([1.0, ["SharesSet", [["gold", 1.0], ["gold", 0.5]]], []], "the same key twice"),
        ([1.0, ["ClassReady", "gold"], {}], "{} is not a list"),
    ],
)
def test_a_line_that_is_not_a_decision_is_refused(line: Any, why: str) -> None:
    with pytest.raises(NotARecord, match=why):
        decision_from(TURNS, line)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"weir_events": 99}, "not an event-log header of version 1"),
        (
            {"core": "gateway"},
            "the header names an unknown core 'gateway'; expected one of turns, load, capacity",
        ),
        ({"name": None}, "the header of the event log must have a name"),
        ({"settings": []}, "the header of the event log must have a name, a clock and settings"),
    ],
)
def test_a_line_that_is_not_a_header_is_refused(change: dict[str, Any], why: str) -> None:
    header = header_line(header_of("turns", "node", "virtual", TurnRoundRobin({}, 0.01)))
    with pytest.raises(NotARecord, match=why):
        header_from(header | change)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (
            {"shares": [], "round_s": 0.01, "colour": 1},
            "a TurnRoundRobin cannot be created from the header's settings: 'colour'",
        ),
        (
            {"shares": []},
            "a TurnRoundRobin cannot be created from the header's settings: .*missing 1 required",
        ),
        (
            {"shares": [], "round_s": "slow"},
            "a TurnRoundRobin cannot be created from the header's settings: 'slow' is not a number",
        ),
    ],
)
def test_a_log_header_with_invalid_settings_is_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(NotARecord, match=why):
        TURNS.core_of(settings)


def test_the_line_that_ends_a_log_early_has_the_reason() -> None:
    assert cut_from(cut_line("the disk is full")) == "the disk is full"
    assert cut_from({"cut": "x", "core": "turns"}) is None


def test_a_type_that_the_event_log_cannot_represent_is_refused_when_it_is_registered() -> None:
    @dataclass(frozen=True)
    class Ambiguous:
        value: int | str

    with pytest.raises(TypeError, match="would not show which type"):
        Tagged(ClassReady | Ambiguous)
    with pytest.raises(TypeError, match="cannot be written to an event log"):
        codec_of(bytes)
