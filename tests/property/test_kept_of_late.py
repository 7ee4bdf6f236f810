"""Late rows lower the kept fraction of the windows that the rows missed, however the input is cut into trains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.query_grammar import Statement
from tests.support.query_runs import (
    PLACES,
    Cuts,
    Row,
    Run,
    cuts,
    lateness,
    nearly,
    pieces,
    planned,
    rows_of,
    train_rows,
)

SECOND = 1_000_000
WINDOWS = [(1, 1), (2, 1), (6, 2), (5, 5)]
PER_KEY = Counter(PLACES.column("k").to_pylist())
# Inputs of the window by name, each with a FROM clause and a function of a row's key.
# The function returns the number of tuples that the input has for one row of stream `s` with this key.
INPUTS: Mapping[str, tuple[str, Callable[[int], int]]] = {
    "stream": ("s", lambda key: 1),
    "query": ("(SELECT ts, k + 1 AS k1, k FROM s WHERE k < 2)", lambda key: int(key < 2)),
    "join with a table": (
        "(SELECT s.ts, s.k, p.size FROM s JOIN places AS p ON s.k = p.k)",
        lambda key: PER_KEY[key],
    ),
    "outer join with a table": (
        "(SELECT s.ts, s.k, p.size FROM s LEFT JOIN places AS p ON s.k = p.k)",
        lambda key: max(PER_KEY[key], 1),
    ),
    "lookup": (
        "(SELECT s.ts, s.k, t.x FROM s LEFT JOIN t [LAST BY k] AS t ON s.k = t.k)",
        lambda key: 1,
    ),
}


def fractions(
    rows: list[Row], range_s: int, slide_s: int, keep: float, tuples: Callable[[int], int]
) -> dict[tuple[int, int], float]:
    """Return the kept fraction of each window with rows, by processing the rows one at a time."""
    inside, missed = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    latest: int | None = None
    for one in rows:
        watermark = None if latest is None else latest - lateness("s")
        is_late = watermark is not None and one["ts"] < watermark
        latest = one["ts"] if latest is None else max(latest, one["ts"])
        if one["k"] is None or one["k"] < 1 or not tuples(one["k"]):
            continue
        end = (one["ts"] // (slide_s * SECOND) + 1) * slide_s * SECOND
        while end - range_s * SECOND <= one["ts"]:
            window = end - range_s * SECOND, end
            if not is_late:
                inside[window] += tuples(one["k"])
            elif watermark is not None and end > watermark:
                missed[window] += tuples(one["k"])
            end += slide_s * SECOND
    return {window: keep * count / (count + missed[window]) for window, count in inside.items()}


@pytest.mark.parametrize("source", INPUTS)
@pytest.mark.parametrize("keep", [1.0, 0.5])
@given(rows_of("s"), rows_of("s"), cuts, st.sampled_from(WINDOWS))
def test_late_rows_lower_the_kept_fraction_of_windows_that_were_still_open(
    keep: float, source: str, first: list[Row], second: list[Row], how: Cuts, window: tuple[int, int]
) -> None:
    rows = [*first, *nearly(second)]
    range_s, slide_s = window
    relation, tuples = INPUTS[source]
    sql = (
        "SELECT window_start, window_end, count(*) AS c, SCALED(count(*)) AS scaled FROM"
        f" {relation} [RANGE {range_s} SECONDS SLIDE {slide_s} SECONDS] AS w WHERE k >= 1"
    )
    run = Run(planned({"q": Statement(sql, "")}))
    for name, part, steps in pieces({"s": rows, "t": [], "e": []}, how):
        if part:
            run.offer(name, part, keep)
        run.step(steps)
    run.finish()
    wanted = fractions(rows, range_s, slide_s, keep, tuples)
    found = []
    for train in run.answers["q"]:
        answers = [(start, end) for start, end, *_ in train_rows(train)]
        found += answers
        # A train with the answers of several windows has the lowest kept fraction of these windows.
        assert train.kept == pytest.approx(min(wanted[one] for one in answers))
        for _, _, count, scaled in train_rows(train):
            # SCALED compensates for shed rows, but not for late rows.
            assert scaled == pytest.approx(count / keep)
    assert sorted(found) == sorted(wanted)
