"""Answers of a class as other processes read them, from its log.

    reader = AnswerReader(dirs, "gold")
    for answer in reader.answers("hot", after=41):     # trains, from row 42 on
    for row in reader.rows("hot"):                     # dicts, with _seq

They are read at the unit's home, the node where its input comes in; if the unit runs elsewhere, there is a copy.

Answers become visible with their commit, in the order of their numbers. Numbers begin at 0 and have no gaps, unless the
oldest answers are no longer kept. A class of several shards has a log for each, with numbers of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from actors.commits import answers_of, is_snapshot, steps_of
from actors.dirs import RunDirs
from actors.segments import Reader, frames_left
from actors.unit_log import described
from actors.units import class_of
from configs.problems import UnknownName, nearest
from engine.steps import Answer
from engine.train import values_to_arrow


def units_of(dirs: RunDirs, class_name: str) -> list[str]:
    """The units of a class that have a log on this node: at their home, all."""
    names = sorted(folder.name for folder in dirs.classes.iterdir()) if dirs.classes.is_dir() else []
    return [name for name in names if class_of(name) == class_name]


class AnswerReader:
    """One unit's answers; for one thread. Each call goes over what the log has then."""

    def __init__(self, dirs: RunDirs, unit: str) -> None:
        self._folder = dirs.class_log(unit)
        self._log = Reader(self._folder)

    def columns(self, query: str) -> list[tuple[str, str]]:
        """Names and types."""
        known = described(self._folder)
        if query not in known:
            raise UnknownName("the class has no such query", "query", query, nearest(query, known))
        return [(name, kind) for name, kind in known[query]]

    def kept(self, query: str) -> tuple[int, int]:
        """The number of the first row that is kept, and the one that the next row will have."""
        following = self._given(query, self._log.next - 1, -1)
        for payload in self._commits(self._log.first):
            answers = answers_of(payload, query)
            first = answers[0].first if answers else steps_of(payload).answered.get(query, 0)
            # A query that was removed and added again has begun anew.
            return min(first, following), following
        return following, following

    def answers(self, query: str, after: int = -1) -> Iterator[Answer]:
        """Trains of the rows with a greater number."""
        for payload in self._commits(self._begin(query, after + 1) if after >= 0 else self._log.first):
            yield from later(answers_of(payload, query), after)

    def rows(self, query: str, after: int = -1) -> Iterator[Mapping[str, Any]]:
        names = [name for name, _ in self.columns(query)]
        for answer in self.answers(query, after):
            columns = [values_to_arrow(one).to_pylist() for one in answer.train.columns]
            for place, row in enumerate(zip(*columns, strict=True)):
                yield {"_seq": answer.first + place, **dict(zip(names, row, strict=True))}

    def _commits(self, start: int) -> Iterator[memoryview]:
        return (payload for _, payload in frames_left(self._log, start) if not is_snapshot(payload))

    def _given(self, query: str, number: int, step: int) -> int:
        """How many answers there were after the frame, or after the next commit from it in steps of 1 or −1."""
        while self._log.first <= number < self._log.next:
            payload = next((payload for _, payload in frames_left(self._log, number)), None)
            if payload is not None and not is_snapshot(payload):
                return steps_of(payload).answered.get(query, 0)
            number += step
        return 0

    def _begin(self, query: str, row: int) -> int:
        """A frame before which the row was not given."""
        low, high = self._log.first, self._log.next
        given = self._given(query, high - 1, -1)
        if not given:
            return low  # the query was removed, and the last commits know nothing of it
        if given <= row:
            return high
        while low < high:
            middle = (low + high) // 2
            if self._given(query, middle, 1) <= row:
                low = middle + 1
            else:
                high = middle
        return low


def later(answers: list[Answer], after: int) -> Iterator[Answer]:
    for answer in answers:
        rows, skipped = len(answer.train), after + 1 - answer.first
        if skipped <= 0:
            yield answer
        elif skipped < rows:
            yield Answer(answer.query, after + 1, answer.train.take(np.arange(skipped, rows)))
