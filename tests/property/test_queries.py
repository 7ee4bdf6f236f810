"""Random queries over random input, compared with DuckDB's answers over all rows that are in time.

1. Every query form answers as DuckDB does, however input is cut into trains and its streams interleave.
2. Queries registered together answer like each query alone.
3. A query removed while running changes no other query.
4. A class restored from a snapshot continues as if nothing had happened.
5. A window is answered as soon as event time is past its end.
6. Equivalent plans give the same answers.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.classes.plans import PlanSettings
from tests.support import query_grammar as grammar
from tests.support.query_grammar import Statement
from tests.support.query_runs import (
    Cuts,
    Rows,
    Run,
    cuts,
    difference,
    every_stream,
    expected,
    lateness,
    load,
    pieces,
    planned,
    ran,
)

FORMS = {
    "select": grammar.selects(),
    "aggregate": grammar.aggregated(),
    "distinct": grammar.distinct_rows(),
    "rows": grammar.row_windows(),
    "interval join": grammar.interval_joins(),
    "window join": grammar.window_joins(),
    "table join": grammar.table_joins(),
    "last join": grammar.last_joins(),
    "union": grammar.unions(),
    "over a query": grammar.over_queries(),
}
EXAMPLES = {"aggregate": 120, "over a query": 80}


@pytest.mark.parametrize("form", FORMS)
def test_answers_equal_duckdbs_however_the_input_is_cut(form: str) -> None:
    @settings(max_examples=EXAMPLES.get(form, 50))
    @given(FORMS[form], every_stream, cuts, cuts)
    def agrees(statement: Statement, rows: Rows, how: Cuts, other: Cuts) -> None:
        load(rows)
        wanted = expected(statement)
        for one in (how, other):
            assert not difference(ran({"q": statement}, rows, one).rows("q"), wanted), (statement, one)

    agrees()


any_query = st.one_of(*FORMS.values())


@settings(max_examples=60)
@given(st.one_of(st.lists(any_query, min_size=2, max_size=4), grammar.shared_windows()), every_stream, cuts)
def test_a_query_gives_the_same_answers_alone_and_together_with_other_queries(
    some: list[Statement], rows: Rows, how: Cuts
) -> None:
    load(rows)
    together = ran({f"q{place}": one for place, one in enumerate(some)}, rows, how)
    for place, one in enumerate(some):
        assert not difference(together.rows(f"q{place}"), expected(one)), one


PLANS = [
    PlanSettings(select_first=first, shared=shared) for first in (True, False) for shared in (True, False)
]
joining = st.one_of(
    grammar.interval_joins(), grammar.window_joins(), grammar.table_joins(), grammar.last_joins()
)


@settings(max_examples=25)
@given(
    st.lists(st.one_of(joining, joining, any_query), min_size=1, max_size=3), every_stream, cuts, st.data()
)
def test_equivalent_plans_give_the_same_answers(
    some: list[Statement], rows: Rows, how: Cuts, data: st.DataObject
) -> None:
    load(rows)
    statements = {f"q{place}": one for place, one in enumerate([*some, some[0]])}
    run = ran(statements, rows, how, data.draw(st.sampled_from(PLANS[1:])))
    for name, one in statements.items():
        assert not difference(run.rows(name), expected(one)), one


@settings(max_examples=60)
@given(grammar.shared_windows(), every_stream, cuts, st.integers(0, 12), st.data())
def test_removing_a_running_query_changes_no_answer_of_other_queries(
    some: list[Statement], rows: Rows, how: Cuts, after: int, data: st.DataObject
) -> None:
    load(rows)
    run = Run(planned({f"q{place}": one for place, one in enumerate(some)}), how.train_max)
    gone = data.draw(st.integers(0, len(some) - 1))
    for place, (name, part, steps) in enumerate([*pieces(rows, how), ("s", (), 0)]):
        if place == after:
            run.runner.remove(f"q{gone}")
        if part:
            run.offer(name, part)
        run.step(steps)
    run.finish()
    for place, one in enumerate(some):
        if place != gone:
            assert not difference(run.rows(f"q{place}"), expected(one)), one


@settings(max_examples=60)
@given(st.lists(any_query, min_size=1, max_size=4), every_stream, cuts, st.integers(0, 12))
def test_a_class_restored_from_a_snapshot_gives_the_same_answers_as_without_the_restart(
    some: list[Statement], rows: Rows, how: Cuts, after: int
) -> None:
    load(rows)
    statements = {f"q{place}": one for place, one in enumerate(some)}
    run = Run(planned(statements), how.train_max)
    for place, (name, part, steps) in enumerate(pieces(rows, how)):
        if place == after:
            run = restored(run, statements, how.train_max)
        run.offer(name, part)
        run.step(steps)
    run.finish()
    for name, one in statements.items():
        assert not difference(run.rows(name), expected(one)), one


def restored(run: Run, statements: Mapping[str, Statement], train_max: int) -> Run:
    """Return a new class that continues from the old class's snapshot. The old class runs on, so that shared state is noticed."""
    snapshot = run.runner.snapshot()
    other = Run(planned(statements), train_max)
    other.answers = {name: list(trains) for name, trains in run.answers.items()}
    run.finish()
    other.runner.restore(snapshot)
    other.now = run.now
    return other


@settings(max_examples=60)
@given(st.sampled_from(["s", "t", "e"]), st.data(), every_stream, cuts)
def test_a_window_is_answered_once_the_watermark_has_passed_its_end(
    name: str, data: st.DataObject, rows: Rows, how: Cuts
) -> None:
    statement = data.draw(grammar.aggregated(grammar.BASE[name]))
    load(rows)
    run = Run(planned({"q": statement}), how.train_max)
    for stream, part, steps in pieces(rows, how):
        run.offer(stream, part)
        run.step(steps)
    run.step(10**9)
    reached = max((row["ts"] for row in rows[name]), default=0) - lateness(name)
    assert not difference(run.rows("q"), [row for row in expected(statement) if row[1] <= reached])
