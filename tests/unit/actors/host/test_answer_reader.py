"""Answers of queries that are removed and added again, as they are read from their log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from actors.host.answer_reader import AnswerReader
from actors.log.unit_log import LoggedQuery, described
from actors.runtime.run_dirs import RunDirs
from configs.errors import UnknownName
from tests.support.answer_logs import ClassLog, answer_rows

KIB = 1024


@pytest.fixture
def log(dirs: RunDirs) -> Iterator[ClassLog]:
    found = ClassLog(dirs.class_log("gold"), 1024 * KIB)
    yield found
    found.close()


@pytest.fixture
def reader(dirs: RunDirs, log: ClassLog) -> AnswerReader:
    return AnswerReader(dirs, "gold")


def rows(first: int, following: int, text: str = "v") -> list[dict[str, Any]]:
    return [{"_seq": one, "n": one, "s": f"{text}{one}"} for one in range(first, following)]


def test_query_added_again_has_only_its_new_answers(
    dirs: RunDirs, log: ClassLog, reader: AnswerReader
) -> None:
    log.commit(10)
    before = reader.described("q")
    log.put_anew(last=3, first=2)
    log.commit(4)
    assert answer_rows(reader, "q") == rows(0, 6, "w")
    assert answer_rows(reader, "q", after=2) == rows(3, 6, "w")
    assert (reader.given("q"), reader.kept("q")) == (6, (0, 6))
    after = described(dirs.class_log("gold"))["q"]
    assert (before.began, after) == (0, LoggedQuery(before.columns, after.mark, 1))
    assert before.mark != after.mark
    other = described(dirs.class_log("gold"))["other"]
    log.put_anew()
    assert described(dirs.class_log("gold"))["other"] == other


def test_query_has_no_answers_before_the_commit_that_adds_it(log: ClassLog, reader: AnswerReader) -> None:
    """Check the log after a host has described a query but has not committed, because it was killed or its log was full."""
    for _ in range(100):
        log.commit(10)
    for _ in range(2):
        log.log.describe(log.queries, {"q"})
        found = reader.some("q", 0, 10)
        assert (reader.given("q"), reader.kept("q")) == (0, (0, 0))
        assert (found.mark, found.first, found.answers) == (reader.described("q").mark, 0, ())
        assert answer_rows(reader, "q") == []
    log.put_anew(last=5, first=5)
    assert answer_rows(reader, "q") == rows(0, 5, "w")


def test_answers_of_a_removed_query_stay_readable_while_they_are_kept(
    log: ClassLog, reader: AnswerReader
) -> None:
    for _ in range(100):
        log.commit(10)
        log.commit(1, "other")
    log.remove(last=3)
    for _ in range(100):
        log.commit(5, "other")
    assert (reader.given("q"), reader.kept("q")) == (1003, (0, 1003))
    assert answer_rows(reader, "q") == rows(0, 1003)
    assert answer_rows(reader, "q", after=995) == rows(996, 1003)
    found = reader.some("q", 1001, 10)
    assert (found.first, found.following) == (1001, 1003)
    assert reader.some("q", 1003, 10).answers == ()
    with pytest.raises(UnknownName, match="no query of this name"):
        answer_rows(reader, "none")


def test_removed_query_keeps_the_number_of_its_answers_when_its_answers_are_deleted(
    dirs: RunDirs, log: ClassLog, reader: AnswerReader
) -> None:
    log.commit(10)
    log.remove()
    log.commit(1, "other")
    assert reader.given("q") == 10
    while log.log.next < 3 or reader.some("q", 0, 1).answers:
        log.commit(300, "other")
    assert (reader.given("q"), answer_rows(reader, "q")) == (10, [])
    assert AnswerReader(dirs, "gold").given("q") == 0


def test_query_without_answers_has_none_after_its_removal(log: ClassLog, reader: AnswerReader) -> None:
    log.commit(1, "other")
    log.remove()
    assert (reader.given("q"), answer_rows(reader, "q")) == (0, [])


def test_a_read_of_answers_begins_at_the_requested_row_and_has_at_most_the_requested_number(
    log: ClassLog, reader: AnswerReader
) -> None:
    for size in (5, 0, 7, 300):
        log.commit(size)
        log.commit(1, "other")
    for row, most, following in ((0, 3, 3), (3, 9, 12), (4, 1, 5), (11, 1000, 312), (312, 5, 312)):
        found = reader.some("q", row, most)
        numbers = [one for answer in found.answers for one in answer.train.columns[0].data.tolist()]
        assert (found.first, found.following) == (row, following)
        assert numbers == list(range(row, following))


def test_answers_are_found_among_many_commits_without_answers(log: ClassLog, reader: AnswerReader) -> None:
    for _ in range(3):
        log.commit(2)
        for _ in range(200):
            log.commit(1, "other")
    row, found = 0, []
    while (part := reader.some("q", row, 100)).answers:
        found.append((part.first, part.following))
        row = part.following
    assert found == [(0, 2), (2, 4), (4, 6)]
