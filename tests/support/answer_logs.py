"""Logs of answers in the form in which a class writes them, for tests of readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from actors.host.answer_reader import AnswerReader
from actors.log.segment_log import LogFull
from actors.log.unit_log import UnitLog
from engine.class_.steps import Answer, Commit, QueryAdded, QueryRemoved, Step
from engine.data.schema import Schema
from engine.data.train import Train, train_from_arrow, values_to_arrow
from engine.plan.plan import Query
from engine.sql import SqlCatalog, parse_create_stream, plan_query

STREAM = parse_create_stream("CREATE STREAM s (n int64, s string)")
SQL = "SELECT n, s FROM s"


def answer_rows(reader: AnswerReader, query: str, after: int = -1) -> list[dict[str, Any]]:
    """Return the rows of a query's answers with numbers greater than `after`, each with its number as `_seq`."""
    names, rows = [name for name, _ in reader.columns(query)], []
    for answer in reader.answers(query, after):
        columns = [values_to_arrow(column).to_pylist() for column in answer.train.columns]
        for place, row in enumerate(zip(*columns, strict=True)):
            rows.append({"_seq": answer.first + place, **dict(zip(names, row, strict=True))})
    return rows


def planned(name: str) -> Query:
    return plan_query(name, SQL, SqlCatalog.of(streams=[STREAM]))


def train(values: range, schema: Schema = STREAM.schema, text: str = "v", kept: float = 1.0) -> Train:
    columns = [np.array(values, np.int64), pa.array([f"{text}{one}" for one in values])]
    return train_from_arrow(pa.RecordBatch.from_arrays(columns, names=["n", "s"]), schema, 0.0, kept)


class ClassLog:
    """Log of a unit with the queries `q` and `other`. Row 5 of the first `q` is (5, "v5"). After query `q` was removed and
    added again, row 5 is (5, "w5"), and so on.
    """

    def __init__(self, folder: Path, bytes_max: int) -> None:
        self.log = UnitLog(folder, bytes_max)
        self.queries = {name: planned(name) for name in ("q", "other")}
        self.given = {"q": 0, "other": 0}
        self.life = 0
        self.log.describe(self.queries)

    @property
    def text(self) -> str:
        return chr(ord("v") + self.life)

    def commit(self, rows: int, query: str = "q", steps: tuple[Step, ...] = (), kept: float = 1.0) -> None:
        answers = [] if not rows else [self._answered(query, rows, kept)]
        self._append(Commit(steps, tuple(answers), dict(self.given)))

    def save(self) -> None:
        """Write a snapshot, so that older commits may be forgotten when the log is full."""
        self.log.save(b"")

    def put_anew(self, last: int = 0, first: int = 0) -> None:
        """Remove the query and add it again, in one commit with its last answers before the removal and its first answers afterwards."""
        answers = [self._answered("q", last)] if last else []
        self.given["q"], self.life = 0, self.life + 1
        answers += [self._answered("q", first)] if first else []
        self.log.describe(self.queries, {"q"})
        steps = (QueryRemoved("q"), QueryAdded("q", SQL))
        self._append(Commit(steps, tuple(answers), dict(self.given)))

    def remove(self, last: int = 0) -> None:
        """Remove the query `q`, in one commit with its last answers."""
        answers = [self._answered("q", last)] if last else []
        del self.given["q"]
        self._append(Commit((QueryRemoved("q"),), tuple(answers), dict(self.given)))

    def close(self) -> None:
        self.log.close()

    def _append(self, commit: Commit) -> None:
        """Append the commit. If the log is full, write a snapshot first."""
        try:
            self.log.append(commit)
        except LogFull:
            self.save()
            self.log.append(commit)

    def _answered(self, query: str, rows: int, kept: float = 1.0) -> Answer:
        first = self.given[query]
        self.given[query] += rows
        return Answer(query, first, train(range(first, first + rows), text=self.text, kept=kept))
