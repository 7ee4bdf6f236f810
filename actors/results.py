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

from actors.commits import answers_of, is_snapshot
from actors.dirs import RunDirs
from actors.segments import FrameForgotten, Reader
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

    def answers(self, query: str, after: int = -1) -> Iterator[Answer]:
        """Trains of the rows with a greater number."""
        start = 0
        while True:
            try:
                for number, payload in self._log.frames(max(start, self._log.first)):
                    start = number + 1
                    if not is_snapshot(payload):
                        yield from later(answers_of(payload, query), after)
                return
            except FrameForgotten as lost:
                start = lost.next

    def rows(self, query: str, after: int = -1) -> Iterator[Mapping[str, Any]]:
        names = [name for name, _ in self.columns(query)]
        for answer in self.answers(query, after):
            columns = [values_to_arrow(one).to_pylist() for one in answer.train.columns]
            for place, row in enumerate(zip(*columns, strict=True)):
                yield {"_seq": answer.first + place, **dict(zip(names, row, strict=True))}


def later(answers: list[Answer], after: int) -> Iterator[Answer]:
    for answer in answers:
        rows, skipped = len(answer.train), after + 1 - answer.first
        if skipped <= 0:
            yield answer
        elif skipped < rows:
            yield Answer(answer.query, after + 1, answer.train.take(np.arange(skipped, rows)))
