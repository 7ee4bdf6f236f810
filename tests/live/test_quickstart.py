"""The page for beginners is correct: its blocks are run in order, on the system that the page itself starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.quickstart import FILES, OWN_TERMINAL, Reader, blocks

pytestmark = pytest.mark.live


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    found = Reader(tmp_path)
    yield found
    found.leave()


def test_every_command_and_file_of_the_quickstart_page_works_in_order(reader: Reader) -> None:
    followed = blocks()
    assert {block.language for block in followed} == {"console", OWN_TERMINAL, *FILES}
    for block in followed:
        reader.follow(block)
