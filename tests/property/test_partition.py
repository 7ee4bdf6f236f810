"""Random queries of classes that are split by a column.

1. The answers of all shards of an accepted query, taken together, equal its answers over the whole input.
2. A query is refused only for a reason: one group combines several keys, or a window counts rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.errors import InvalidInput
from engine.plan.partition_check import Places, key_places
from engine.plan.plan import Query
from engine.sql import plan_query
from tests.support import query_grammar as grammar
from tests.support.query_grammar import Statement
from tests.support.query_runs import (
    CATALOG,
    Cuts,
    Rows,
    cuts,
    difference,
    every_stream,
    in_order,
    planned,
    ran,
)

SHARDS = 3
FORMS = {
    "select": grammar.selects(),
    "aggregate": grammar.aggregated(),
    "distinct": grammar.distinct_rows(),
    "rows": grammar.row_windows(),
    "interval join": grammar.interval_joins(),
    "window join": grammar.window_joins(),
    "table join": grammar.table_joins(),
    "union": grammar.unions(),
    "over a query": grammar.over_queries(),
}


def is_accepted(queries: list[Query]) -> bool:
    outputs: dict[str, Places] = {}
    try:
        for query in queries:
            outputs[query.name.lower()] = key_places(query, "k", outputs)
    except InvalidInput:
        return False
    return True


def shard_of(rows: Rows, shard: int) -> Rows:
    return {name: [one for one in some if (one["k"] or 0) % SHARDS == shard] for name, some in rows.items()}


@pytest.mark.parametrize("form", FORMS)
def test_all_shards_together_give_the_answers_of_the_whole_class(form: str) -> None:
    @settings(max_examples=80)
    @given(FORMS[form], every_stream, cuts)
    def agrees(statement: Statement, some: Rows, how: Cuts) -> None:
        statements: Mapping[str, Statement] = {"q": statement}
        if not is_accepted(planned(statements)):
            return
        # The rows are sorted by event time. In unsorted input, a row may be late in the whole class but not in a shard.
        rows = {name: in_order(list(one)) for name, one in some.items()}
        wanted = ran(statements, rows, how).rows("q")
        found = [
            row for shard in range(SHARDS) for row in ran(statements, shard_of(rows, shard), how).rows("q")
        ]
        assert not difference(found, wanted), statement

    agrees()


@pytest.mark.parametrize(
    ("sql", "remedy"),
    [
        ("SELECT count(*) FROM s [RANGE 1 SECOND]", "add k to GROUP BY"),
        ("SELECT g, count(*) FROM s [RANGE 1 SECOND] GROUP BY g", "add k to GROUP BY"),
        ("SELECT k + 1 AS l, count(*) FROM s [RANGE 1 SECOND] GROUP BY k + 1", "add k to GROUP BY"),
        ("SELECT DISTINCT g FROM s [RANGE 1 SECOND]", "add k to GROUP BY"),
        ("SELECT k, sum(n) FROM s [ROWS 5] GROUP BY k", "use a window with RANGE instead of ROWS"),
        (
            "SELECT s.n FROM s JOIN t ON s.n = t.n AND t.ts BETWEEN s.ts AND s.ts + INTERVAL '1 second'",
            "left.k = right.k",
        ),
    ],
)
def test_a_query_that_combines_keys_is_refused(sql: str, remedy: str) -> None:
    with pytest.raises(InvalidInput, match="split into shards by k cannot have a query") as problem:
        key_places(plan_query("q", sql, CATALOG), "k", {})
    assert problem.value.field == "queries.q"
    assert remedy in problem.value.hint


@given(st.sampled_from(["k", "K"]))
def test_the_key_column_is_recognised_behind_aliases_and_in_queries_over_queries(key: str) -> None:
    inner = plan_query("inner1", "SELECT ts, n, k AS sensor FROM s WHERE x > 0", CATALOG)
    outputs = {"inner1": key_places(inner, key, {})}
    outer = plan_query(
        "outer1",
        "SELECT sensor, count(*) FROM inner1 [RANGE 1 SECOND] GROUP BY sensor",
        CATALOG.with_query(inner),
    )
    assert outputs["inner1"] == frozenset({2})
    # The key is column 2 of an answer, because columns 0 and 1 are the bounds of the window.
    assert key_places(outer, key, outputs) == frozenset({2})
