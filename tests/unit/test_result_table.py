"""The table of a run, as a terminal of eighty columns shows it."""

from io import StringIO
from typing import Any

from rich.console import Console

from services.cli.tables import result_table

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


def test_millions_of_tuples_leave_every_figure_whole_in_eighty_columns() -> None:
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
