"""Recorded events and commands are read back exactly, and the replay of any recorded run gives the same
decisions, also with faults.
"""

import json
import math
import random
import tempfile
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadshed.manager import LoadCommand, LoadEvent
from loadshed.records import KINDS, CoreName
from scheduler.capacity.core import CapacityCommand, CapacityEvent
from scheduler.turns.round_robin import Grant, TurnEvent
from sim.replay import replay
from tests.sim.test_faults import random_scenario
from tests.support.recordings import lines_of, recorded_run, write_lines

pytestmark = pytest.mark.slow

MESSAGES: dict[CoreName, tuple[Any, Any]] = {
    "turns": (TurnEvent, Grant),
    "load": (LoadEvent, LoadCommand),
    "capacity": (CapacityEvent, CapacityCommand),
}
TYPES = [
    pytest.param(tagged, kind, id=f"{core}-{kind.__name__}")
    for core, unions in MESSAGES.items()
    for tagged, union in zip((KINDS[core].event, KINDS[core].command), unions, strict=True)
    for kind in get_args(union) or (union,)
]


def as_read(value: Any) -> Any:
    """Return the value with dicts for all mappings and tuples for all lists, because a decoded value has only these types."""
    named = {one.name: getattr(value, one.name) for one in fields(value)}
    mappings = {name: dict(one) for name, one in named.items() if isinstance(one, Mapping)}
    sequences = {name: tuple(one) for name, one in named.items() if isinstance(one, list)}
    return replace(value, **mappings, **sequences)


@pytest.mark.parametrize(("tagged", "kind"), TYPES)
@given(data=st.data())
def test_an_event_or_command_is_read_back_exactly(tagged: Any, kind: type, data: st.DataObject) -> None:
    value = as_read(data.draw(st.from_type(kind)))
    text = json.dumps(tagged.encode(value), allow_nan=False)
    assert repr(tagged.decode(json.loads(text))) == repr(value)


def numbers_in(value: Any, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """Return the path of each number within nested lists."""
    if isinstance(value, list):
        return [found for place, one in enumerate(value) for found in numbers_in(one, (*path, place))]
    return [path] if isinstance(value, int | float) and not isinstance(value, bool) else []


def change_number(line: Any, path: tuple[int, ...]) -> None:
    """Replace the number at this path by the next larger or smaller float."""
    for place in path[:-1]:
        line = line[place]
    number = line[path[-1]]
    line[path[-1]] = number + 1 if isinstance(number, int) else math.nextafter(number, math.inf)


@given(seed=st.integers(0, 2**32), dice=st.randoms(use_true_random=False))
@settings(max_examples=8, deadline=None)
def test_a_replay_agrees_with_the_recording_and_finds_a_change_in_the_last_digit(
    seed: int, dice: random.Random
) -> None:
    scenario, manager = random_scenario(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recorded_run(folder, scenario.model_copy(update={"seconds": 9.0}), manager)
        report = replay(folder)
        assert report.agrees
        assert not any(one.excused for one in report.deliveries)

        log = dice.choice(sorted(folder.iterdir()))
        lines = lines_of(log)
        places = [(at, path) for at, line in enumerate(lines[1:], 1) for path in numbers_in(line[2], (2,))]
        if places:
            at, path = dice.choice(places)
            change_number(lines[at], path)
            write_lines(log, lines)
            (life,) = (life for core in replay(folder).cores for life in core.lives if life.file == str(log))
            assert life.first is not None
            assert (life.disagreements, life.first.line) == (1, at + 1)
