"""Limit on the number of pairs that one train of a join can make, for joins with few keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from engine.class_.runner import ClassRunner
from engine.data.train import Train, train_from_arrow
from engine.network.row_losses import failed_rows
from engine.operators import join_state
from engine.sql import SqlCatalog, parse_create_stream, plan_query

STREAMS = [
    parse_create_stream(f"CREATE STREAM {name} (ts int64, k int32, WATERMARK FOR ts AS ts)")
    for name in ("a", "b")
]
SQL = "SELECT a.ts, b.ts AS other FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL 9 SECONDS AND a.ts + INTERVAL 9 SECONDS"


@pytest.fixture
def few_pairs(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(join_state, "PAIRS_MAX", 1000)
    return 1000


@pytest.mark.parametrize("sizes", [(50, 100), (100, 50), (3000, 40), (40, 3000)])
def test_pairs_beyond_the_limit_of_a_train_are_refused_and_counted(
    few_pairs: int, sizes: tuple[int, int]
) -> None:
    answers = 0

    def sink(query: str, out: Train) -> None:
        nonlocal answers
        answers += len(out)

    runner = ClassRunner(sink)
    runner.add(plan_query("q", SQL, SqlCatalog.of(streams=STREAMS)))
    for stream, size in zip(STREAMS, sizes, strict=True):
        rows = pa.table({"ts": np.arange(size), "k": np.zeros(size, np.int32)}, stream.schema.arrow)
        runner.offer(stream.name, train_from_arrow(rows, stream.schema, 0.0))
        runner.drain(lambda: 0.0)
        runner.take_next(stream.name, size, lambda: 0.0)
    refused = sum(failed_rows(runner.network.nodes).values())
    assert 0 < answers <= few_pairs
    assert answers + refused == sizes[0] * sizes[1]
    assert all("too many pairs of equal keys" in reason for reason in failed_rows(runner.network.nodes))
