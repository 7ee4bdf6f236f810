"""The page for beginners is true: every block of it is run in order, against the system that the page itself starts."""

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


def test_stranger_who_follows_the_page_reads_answers(reader: Reader) -> None:
    followed = blocks()
    assert {one.language for one in followed} == {"console", OWN_TERMINAL, *FILES}
    for one in followed:
        reader.follow(one)
