"""Rows for the streams of `query_grammar`, runs of queries over these rows in trains of any sizes, and DuckDB's answers."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from configs.classes.limits import ClassLimits
from configs.classes.plans import PlanSettings
from engine.class_.runner import ClassRunner
from engine.data.schema import INT64, TypeKind
from engine.data.train import Train, Values, train_from_arrow, values_to_arrow
from engine.plan.plan import Query
from engine.sql import SqlCatalog, parse_create_stream, plan_query
from tests.support.query_grammar import HALF_SECOND_US, MACROS, STREAMS, TABLE, Statement

SCHEMAS = {one.name: one for one in map(parse_create_stream, STREAMS)}
CATALOG = SqlCatalog.of(streams=SCHEMAS.values(), tables=[TABLE])
PLACES = pa.RecordBatch.from_pydict(
    {"k": [0, 1, 1, None, 3], "label": ["a", "b", None, "n", "a"], "size": [0, 1, 2, 3, None]},
    TABLE.schema.arrow,
)
TABLES = {"places": train_from_arrow(PLACES, TABLE.schema, 0.0)}

Row = dict[str, Any]
Rows = Mapping[str, Sequence[Row]]


VALUES: Mapping[str, Sequence[Any]] = {
    "k": [0, 1, 2],
    "g": ["a", "ab", "b", ""],
    "x": [-1.5, 0.0, 0.25, 1.0, 2.0, 3.125],
    "n": [-3, 0, 1, 2, 5],
    "b": [True, False],
    "d": [Decimal("-1.25"), Decimal("0.10"), Decimal("7.00")],
}


def rows_of(name: str) -> st.SearchStrategy[list[Row]]:
    """Draw no row, one row or many rows. Many rows are in the order of event time, nearly in this order, or in any order."""
    return st.builds(
        random_rows,
        st.just(name),
        st.sampled_from([20, 12, 30, 5, 2, 1, 0]),
        st.sampled_from([8, 16, 40]),
        st.sampled_from([lambda rows: rows, in_order, lambda rows: nearly(in_order(rows))]),
        st.integers(0, 2**32),
    )


def random_rows(
    name: str, count: int, span: int, arranged: Callable[[list[Row]], list[Row]], seed: int
) -> list[Row]:
    """Return rows with times from two seconds before to `span` half seconds after the epoch. Some rows contain only NULLs."""
    chance, stream = random.Random(seed), SCHEMAS[name]
    columns = [one for one in stream.schema.names if one in VALUES]
    rows = []
    for place in range(count):
        ts = chance.randrange(-4, span) * HALF_SECOND_US // stream.time_unit_us
        nulls = chance.choice([0.0, 0.1, 0.2, 1.0 if place % 8 == 7 else 0.1])
        values = {one: None if chance.random() < nulls else chance.choice(VALUES[one]) for one in columns}
        rows.append({"id": place, "ts": ts, **values})
    return arranged(rows)


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda one: one["ts"])


def nearly(rows: list[Row]) -> list[Row]:
    """Return the rows with some neighbours swapped."""
    return [one for start in range(0, len(rows), 3) for one in reversed(rows[start : start + 3])]


every_stream = st.fixed_dictionaries({name: rows_of(name) for name in SCHEMAS})


@dataclass(frozen=True)
class Cuts:
    """Way in which input arrives: first some rows of streams, each followed by operator calls of the runner, and
    then the rest of the input.
    """

    pieces: tuple[tuple[str, int, int], ...]
    rest: int
    train_max: int


cuts = st.builds(
    Cuts,
    st.lists(
        st.tuples(st.sampled_from(list(SCHEMAS)), st.integers(1, 9), st.integers(0, 9)), max_size=12
    ).map(tuple),
    st.integers(1, 30),
    st.integers(1, 30),
)


def pieces(rows: Rows, how: Cuts) -> Iterable[tuple[str, Sequence[Row], int]]:
    sent = dict.fromkeys(rows, 0)
    rest = [(name, how.rest, 1000) for name in rows for _ in range(0, len(rows[name]), how.rest)]
    for name, count, steps in (*how.pieces, *rest):
        part = rows[name][sent[name] : sent[name] + count]
        sent[name] += len(part)
        if part:
            yield name, part, steps


def batch_of(name: str, rows: Sequence[Row]) -> pa.RecordBatch:
    arrays = []
    for one in SCHEMAS[name].schema.fields:
        values = [row[one.name] for row in rows]
        timed = one.type.kind is TypeKind.TIMESTAMP
        arrays.append(
            pa.array(values, pa.int64()).cast(one.type.arrow) if timed else pa.array(values, one.type.arrow)
        )
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMAS[name].schema.arrow)


def planned(statements: Mapping[str, Statement]) -> list[Query]:
    """Return the planned queries, each after the queries that it reads by name."""
    queries: list[Query] = []
    for name, one in statements.items():
        catalog = CATALOG
        for inner, text in one.needs.items():
            queries.append(plan_query(f"{name}_{inner}", text.replace(inner, f"{name}_{inner}"), catalog))
            catalog = catalog.with_query(queries[-1])
        text = one.weir
        for inner in one.needs:
            text = text.replace(inner, f"{name}_{inner}")
        queries.append(plan_query(name, text, catalog))
    return queries


class Run:
    """Class with its queries, its answers, and a clock that advances by one with each train that arrives."""

    def __init__(
        self,
        queries: Sequence[Query],
        train_max: int = 10_000,
        limits: ClassLimits | None = None,
        plan: PlanSettings | None = None,
    ) -> None:
        self.answers: dict[str, list[Train]] = {query.name: [] for query in queries}
        self.runner = ClassRunner(
            self._take, train_max=train_max, tables=TABLES, limits=limits or ClassLimits()
        )
        self.now = 0.0
        self.runner.network.plan = plan or PlanSettings()
        self.runner.add(*queries)

    def _take(self, query: str, train: Train) -> None:
        self.answers.setdefault(query, []).append(train)

    def offer(self, name: str, rows: Sequence[Row], kept: float = 1.0) -> None:
        self.now += 1.0
        train = train_from_arrow(batch_of(name, rows), SCHEMAS[name].schema, self.now, kept)
        self.runner.offer(name, train)

    def step(self, steps: int) -> None:
        # The clock advances by 1 with each reading. Each operator call reads the clock once, so a slice of n seconds runs n calls.
        ticks = itertools.count()
        self.runner.run(steps, lambda: self.now, lambda: float(next(ticks)))

    def finish(self) -> None:
        self.step(10**9)
        self.now += 1.0
        self.runner.finish(self.now)
        self.step(10**9)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [row for train in self.answers[query] for row in train_rows(train)]


def ran(statements: Mapping[str, Statement], rows: Rows, how: Cuts, plan: PlanSettings | None = None) -> Run:
    run = Run(planned(statements), how.train_max, plan=plan)
    for name, part, steps in pieces(rows, how):
        run.offer(name, part)
        run.step(steps)
    run.finish()
    return run


def train_rows(train: Train) -> list[tuple[Any, ...]]:
    """Return the rows of a train. Timestamps are integers, as in the rows of DuckDB."""
    lists = [
        values_to_arrow(
            Values(INT64, one.data, one.valid) if one.type.kind is TypeKind.TIMESTAMP else one
        ).to_pylist()
        for one in train.columns
    ]
    return list(zip(*lists, strict=True))


# --- answers of DuckDB ----------------------------------------------------------------------------------------


def lateness(name: str) -> int:
    """Return the accepted lateness of a stream, in the unit of the stream's event time."""
    return SCHEMAS[name].lateness_us // SCHEMAS[name].time_unit_us


def in_time(name: str, rows: Sequence[Row]) -> list[Row]:
    """Return the rows that are not late. A row is late if an earlier row has a time that is larger by more than the lateness."""
    kept, latest = [], -math.inf
    for row in rows:
        if row["ts"] >= latest - lateness(name):
            kept.append(row)
        latest = max(latest, row["ts"])
    return kept


CONNECTION = duckdb.connect(config={"threads": 1})
for macro in MACROS:
    CONNECTION.execute(macro)
CONNECTION.register("places", pa.Table.from_batches([PLACES]))


def load(rows: Rows) -> None:
    """Load the rows that are in time into DuckDB."""
    for name, some in rows.items():
        batch = batch_of(name, in_time(name, some))
        times = batch.column("ts").view(pa.int64()) if len(batch) else pa.array([], pa.int64())
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        table = pa.table({**columns, "ts": times, "seq": pa.array(np.arange(len(batch)))})
        CONNECTION.register(f"{name}_rows", table)
        CONNECTION.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM {name}_rows")


def expected(statement: Statement) -> list[tuple[Any, ...]]:
    return CONNECTION.execute(statement.duck).fetchall()


# --- comparison of answers ------------------------------------------------------------------------------------


def order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    exact = tuple((one is None, "" if one is None else str(one)) for one in row if not isinstance(one, float))
    return exact, tuple(round(one, 6) for one in row if isinstance(one, float))


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return type(one) is type(other) and one == other


def difference(found: Sequence[tuple[Any, ...]], wanted: Sequence[tuple[Any, ...]]) -> str:
    """Return a text with both lists of rows if the lists differ, and an empty text otherwise. The order of rows is ignored."""
    found, wanted = sorted(found, key=order), sorted(wanted, key=order)
    if len(found) == len(wanted) and all(
        len(one) == len(other) and all(map(same, one, other))
        for one, other in zip(found, wanted, strict=True)
    ):
        return ""
    return f"found {found}\nwanted {wanted}"
