"""Fixtures: the socket path of a dispatcher, and nodes that are stopped at the end of the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.actors.dispatcher.nodes import ROUND_S, SHARES, MakeNode, Node


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "dispatcher.sock"


@pytest.fixture
def make_node(path: Path) -> Iterator[MakeNode]:
    made: list[Node] = []

    def make(round_s: float = ROUND_S, lanes: int = 1, shared: bool = True, rests: bool = False) -> Node:
        made.append(Node(path, round_s, lanes, rests))
        if shared:
            made[-1].share(*SHARES)
        return made[-1]

    yield make
    for node in made:
        node.stop()
