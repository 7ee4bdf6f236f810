"""Result tables of a run in a terminal of 80 columns."""

from io import StringIO
from typing import Any

from rich.console import Console

from services.cli.tables.outcome_tables import QUERIES_TOLD, answers_table, result_table

LONG = {
    "name": "class1",
    "share": {"original": 0.6, "mean": 0.52},
    "offered": 6_977_615,
    "loss_pct": 20.94,
    "response_ms": {"mean": 42.8, "p95": 93.6, "p99": 112.0},
    "delay_target_ms": 300,
    "utility": {"mean": 1.0},
    "queued": 126_543,
}


def test_large_counts_fit_into_eighty_columns() -> None:
    result: dict[str, Any] = {
        "scenario": "steps",
        "manager": "dilos",
        "policy": "hr",
        "seed": None,
        "seconds": 75,
    }
    console = Console(width=80, record=True, file=StringIO())
    console.print(result_table(result | {"classes": [LONG]}))
    text = console.export_text()
    assert "…" not in text
    head, _, row = [line.split() for line in text.splitlines() if line.strip()][1:]
    assert head == [
        "class",
        "share",
        "input",
        "loss",
        "mean",
        "ms",
        "p95",
        "p99",
        "target",
        "utility",
        "queued",
    ]
    assert row == ["class1", "0.60→0.52", "6.98M", "20.94%", "42.8", "93.6", "112", "300", "1.00", "127k"]


# -- columns of the quality of answers ------------------------------------------------------------------------


def query(missed: int, tardy: int | None = None) -> dict[str, Any]:
    due = None if tardy is None else {"due": 100, "tardy": tardy, "mean_ms": 3.0}
    return {
        "results": 1000,
        "mean_ms": 250.0,
        "deadline_ms": 200.0,
        "slowdown": 12_345.0,
        "utility": 1 - missed / 2000,
        "missed": missed,
        "staleness": 0.125,
        "tardiness": due,
    }


def answer_rows(queries: dict[str, Any] | None, **more: Any) -> list[list[str]]:
    one = LONG | {
        "results": 13_000_000,
        "slowdown": {"mean": 99_999.0},
        "utility": {"mean": 0.755, "missed": 1_234_567},
        "staleness": {"mean": 0.003, "max": 0.01},
        "tardiness": None,
        "queries": queries,
    }
    console = Console(width=80, record=True, file=StringIO())
    console.print(answers_table({"classes": [one | more]}))
    text = console.export_text()
    assert "…" not in text
    return [line.split() for line in text.splitlines() if line.strip()][1:]


def test_answers_table_shows_missed_deadlines_and_late_queries() -> None:
    found = answer_rows({"fine": query(0), "late": query(500)})
    assert found == [
        ["class", "answers", "mean", "ms", "slow", "worth", "missed", "stale"],
        found[1],
        ["class1", "13M", "42.8", "100k", "0.76", "1.23M", "(9%)", "<1%"],
        ["late", "1k", "250", "12.3k", "0.75", "500", "(50%)", "12%"],
    ]


def test_answers_table_shows_the_part_of_tardy_window_answers() -> None:
    late = {"due": 10_000, "tardy": 2_500, "mean_ms": 1.0, "max_ms": 9.0}
    found = answer_rows({"in time": query(0, 0), "tardy": query(0, 40)}, tardiness=late)
    assert [row[-1] for row in (found[0], *found[2:])] == ["tardy", "25%", "40%"]


def test_answers_table_shows_the_worst_late_queries_and_counts_the_others() -> None:
    found = answer_rows({f"q{missed}": query(missed) for missed in range(1, 9)})
    assert [row[0] for row in found[3:-1]] == [f"q{missed}" for missed in range(8, 8 - QUERIES_TOLD, -1)]
    assert " ".join(found[-1]) == "3 more queries answered late: -o json"


def test_figures_that_were_not_measured_are_dashes() -> None:
    found = answer_rows(None, slowdown=None, utility=None, staleness=None)
    assert found[-1] == ["class1", "13M", "42.8", "–", "–", "–", "–"]
