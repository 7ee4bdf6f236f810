"""Readers of the answers of a class: they read the log of each unit, in any process of the node.

Answers are read at the unit's home, the node where the unit's input arrives. If the unit runs on another node, its home has a
copy of the log. For example:

    reader = AnswerReader(dirs, "gold")
    for answer in reader.answers("hot", after=41):     # trains, from row 42 on

Answers become visible with their commit, in the order of their numbers. Numbers begin at 0 and have no gaps, unless the
oldest answers have been deleted, or the answers to one train were too large for the log. Each shard of a class has its own
log, with its own numbers. The answers of a removed query stay readable. A query that is removed and added again starts at 0 with a
new id (`mark`); its old answers are no longer read.
"""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from actors.log.commit_format import answers_of, is_snapshot, steps_of
from actors.log.segment_log import Reader, frames_left
from actors.log.unit_log import QUERIES, LoggedQuery, described
from actors.messages.unit_messages import class_of
from actors.runtime.run_dirs import RunDirs
from configs.errors import UnknownName, nearest
from engine.class_.steps import Answer

# Number of frames that are searched one by one for the next answer. If none has an answer, binary search continues.
NEAR = 64
PLACES_KEPT = 1024


def units_of(dirs: RunDirs, class_name: str) -> list[str]:
    """Return the units of a class that have a log on this node; at the class's home, these are all of its units."""
    names = sorted(folder.name for folder in dirs.classes.iterdir()) if dirs.classes.is_dir() else []
    return [name for name in names if class_of(name) == class_name]


@dataclass(frozen=True, slots=True)
class AnswerRows:
    """Consecutive answers of a query, read from a log at one moment."""

    mark: str
    """Identifier of the query's answers, see `LoggedQuery`."""
    first: int
    """Number of the first row; requested rows before it are no longer kept."""
    following: int
    """Number of the last row, plus 1."""
    answers: Sequence[Answer]


class AnswerReader:
    """Reader of one unit's answers, for one thread. Each call reads the log as it is at that time.

    The reader maps the segments that it reads. Without calls of `let_go`, deleted segments would still take memory.
    """

    def __init__(self, dirs: RunDirs, unit: str) -> None:
        self._folder = dirs.class_log(unit)
        self._described: Mapping[str, LoggedQuery] = {}
        self._as_of: tuple[int, int] | None = None
        self._places: OrderedDict[tuple[str, int], int] = OrderedDict()
        self._last: tuple[int, int, Mapping[str, int]] = (-1, -1, {})
        # Number of answers of each removed query when it was removed, by the id of its answers.
        self._removed: dict[str, int] = {}
        self._open()

    def let_go(self) -> None:
        """Unmap all segments except the segment that is being written."""
        for log in (self._log, self._tail):
            log.let_go()

    def described(self, query: str) -> LoggedQuery:
        """Return the description of the query's answers; raise UnknownName if the class has no such query."""
        self._look()
        if query not in self._described:
            raise UnknownName(
                "the class has no query of this name", "query", query, nearest(query, self._described)
            )
        return self._described[query]

    def columns(self, query: str) -> list[tuple[str, str]]:
        """Return the names and types of the query's columns."""
        return list(self.described(query).columns)

    def given(self, query: str) -> int:
        """Return the number of answers of the query until now. The call is cheap if the log has not grown."""
        begun, following = self.described(query), self._tail.next
        if following != self._last[0]:
            self._last = (following, *self._answered(self._tail, following - 1, -1))
        _, number, answered = self._last
        # Commits from before the query was added count the answers of an older query of the same name.
        if number < begun.began:
            return 0
        return answered[query] if query in answered else self._given_at_removal(begun, query)

    def kept(self, query: str) -> tuple[int, int]:
        """Return the number of the first row that still exists, and the number that the next row will get."""
        following = self.given(query)
        return min(self.some(query, 0, 1).first, following), following

    def some(self, query: str, row: int, most: int) -> AnswerRows:
        """Return the first existing rows from `row` on: at least one row if such a row exists, and at most `most` rows."""
        begun, given, wanted = self.described(query), self.given(query), row
        answers: list[Answer] = []
        while wanted < given and not answers:
            answers, upto = self._gathered(begun, query, wanted, most)
            wanted = given if upto is None else max(wanted + 1, upto)
        # If the query was replaced during this call, the answers may be those of the old query.
        if self.described(query) is not begun:
            return AnswerRows(self._described[query].mark, 0, 0, ())
        if not answers:
            return AnswerRows(begun.mark, max(row, given), max(row, given), ())
        last = answers[-1]
        return AnswerRows(begun.mark, answers[0].first, last.first + len(last.train), answers)

    def answers(self, query: str, after: int = -1) -> Iterator[Answer]:
        """Yield trains of the rows with numbers greater than `after`."""
        begun = self.described(query)
        start = self._frame_of(begun, query, after + 1) if after >= 0 else max(begun.began, self._log.first)
        for number, payload in self._commits(start):
            yield from later(own(begun, query, number, payload), after)

    def _look(self) -> None:
        """Read the descriptions of queries and open the log again, if they have changed since the last call."""
        try:
            found = os.stat(self._folder / QUERIES)
        except FileNotFoundError:
            self._described, self._as_of = {}, None
            return
        as_of = (found.st_ino, found.st_mtime_ns)
        if as_of != self._as_of:
            before, now = self._described, described(self._folder)
            self._described = {
                name: before[name] if before.get(name) == one else one for name, one in now.items()
            }
            self._as_of = as_of
            self._open()

    def _open(self) -> None:
        self._log, self._tail = Reader(self._folder), Reader(self._folder)
        self._last = (-1, -1, {})

    def _gathered(
        self, begun: LoggedQuery, query: str, row: int, most: int
    ) -> tuple[list[Answer], int | None]:
        """Return consecutive answers at `row` or later.

        If the next frames have no answers, the list is empty, and the second result is the row at which to search next.
        """
        found: list[Answer] = []
        following, room, without, last = row, most, 0, None
        for number, payload in self._commits(self._frame_of(begun, query, row)):
            last, without = payload, without + 1
            for answer in later(own(begun, query, number, payload), row - 1):
                if found and answer.first != following:
                    return found, None
                found.append(Answer(query, answer.first, answer.train.slice(0, room)))
                following, without = answer.first + len(found[-1].train), 0
                room -= len(found[-1].train)
                # The row `following` is in this frame, or in the next frame that has answers.
                self._places[begun.mark, following] = number
                if len(self._places) > PLACES_KEPT:
                    self._places.popitem(last=False)
                if not room:
                    return found, None
            if without > NEAR:
                break
        if found or last is None:
            return found, None
        # Commits after the removal of the query do not count its answers, and no answers follow.
        return found, steps_of(last).answered.get(query)

    def _commits(self, start: int) -> Iterator[tuple[int, memoryview]]:
        return (
            (number, payload) for number, payload in frames_left(self._log, start) if not is_snapshot(payload)
        )

    def _answered(self, log: Reader, number: int, step: int) -> tuple[int, Mapping[str, int]]:
        """Find the commit nearest to a frame: later if `step` is 1, earlier if `step` is −1.

        Return the number of the commit, and for each query the number of answers up to the commit.
        """
        while log.first <= number < log.next:
            found = next(frames_left(log, number), None)
            if found is not None and not is_snapshot(found[1]):
                return found[0], steps_of(found[1]).answered
            number += step
        return -1, {}

    def _frame_of(self, begun: LoggedQuery, query: str, row: int) -> int:
        """Return the frame that contains the row, or a frame shortly before it."""
        low, high = self._places.get((begun.mark, row), -1), self._log.next
        if low < 0:
            low = max(begun.began, self._log.first)
        if high - low <= NEAR:
            return low
        while low < high:
            middle = (low + high) // 2
            number, answered = self._answered(self._log, middle, 1)
            # If the log has forgotten the frame, or no commit follows the frame, the search continues after the frame.
            # Commits after the removal of the query do not count its answers, so the frame comes before such commits.
            if number < 0 or answered.get(query, math.inf) <= row:
                low = middle + 1
            else:
                high = middle
        return low

    def _given_at_removal(self, begun: LoggedQuery, query: str) -> int:
        """Return the number of answers of a removed query, as far as a kept commit shows this number; otherwise 0."""
        if begun.mark not in self._removed:
            low, high, given = max(begun.began, self._log.first), self._log.next, 0
            # Find the first commit after the removal. Only commits before the removal count the answers of the query.
            while low < high:
                middle = (low + high) // 2
                number, answered = self._answered(self._log, middle, 1)
                if number < 0 or query in answered:
                    low, given = middle + 1, answered.get(query, given)
                else:
                    high = middle
            # The commit of the removal may contain the last answers of the query.
            number, payload = next(self._commits(low), (-1, None))
            answers = [] if payload is None else own(begun, query, number, payload)
            self._removed[begun.mark] = answers[-1].first + len(answers[-1].train) if answers else given
        return self._removed[begun.mark]


def own(begun: LoggedQuery, query: str, number: int, payload: memoryview) -> list[Answer]:
    """Return the query's answers in a commit, without answers of an older query with the same name."""
    found = answers_of(payload, query)
    if number != begun.began or not found:
        return found
    place, left = len(found), steps_of(payload).answered.get(query, 0)
    while place and left > 0:
        place -= 1
        left -= len(found[place].train)
    return found[place:]


def later(answers: list[Answer], after: int) -> Iterator[Answer]:
    for answer in answers:
        rows, skipped = len(answer.train), after + 1 - answer.first
        if skipped <= 0:
            yield answer
        elif skipped < rows:
            yield Answer(answer.query, after + 1, answer.train.take(np.arange(skipped, rows)))
