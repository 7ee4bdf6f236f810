"""Benchmarks of Weir: `python -m bench [AREA …] [--json]` measures figures and compares each with the limit that it must meet.

The exit code is 1 if a figure does not meet its limit.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping

from rich import box
from rich.console import Console
from rich.table import Table

from bench import (
    auto,
    control,
    decisions,
    engine,
    exchange,
    fanout,
    faults,
    freshening,
    idle,
    live,
    logs,
    metrics,
    overhead,
    periodic,
    service,
    simulator,
    spark,
    turns,
    windows,
)
from bench.measure import Figure

AREAS: Mapping[str, Callable[[], list[Figure]]] = {
    "decisions": decisions.figures,
    "overhead": overhead.figures,
    "periodic": periodic.figures,
    "windows": windows.figures,
    "control": control.figures,
    "simulator": simulator.figures,
    "engine": engine.figures,
    "exchange": exchange.figures,
    "logs": logs.figures,
    "turns": turns.figures,
    "live": live.figures,
    "faults": faults.figures,
    "idle": idle.figures,
    "spark": spark.figures,
    "service": service.figures,
    "fanout": fanout.figures,
    "metrics": metrics.figures,
    "freshening": freshening.figures,
    "auto": auto.figures,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure Weir's figures and compare each with its bound."
    )
    parser.add_argument(
        "areas", nargs="*", metavar="AREA", help=f"areas to measure (default: all): {', '.join(AREAS)}"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    unknown = [area for area in given.areas if area not in AREAS]
    if unknown:
        parser.error(f"unknown area {unknown[0]!r}; choose from {', '.join(AREAS)}")
    measured = {area: AREAS[area]() for area in given.areas or AREAS}
    if given.json:
        print(
            json.dumps({area: [as_dict(one) for one in found] for area, found in measured.items()}, indent=2)
        )
    else:
        # When the output goes to a pipe, there is no terminal width, so a fixed width is used.
        console = Console() if sys.stdout.isatty() else Console(width=120)
        console.print(table(measured))
    return 0 if all(one.met for found in measured.values() for one in found) else 1


def table(measured: Mapping[str, list[Figure]]) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("figure", "measured", "bound", "ratio", ""):
        shown.add_column(name, justify="left" if name in ("figure", "") else "right", no_wrap=True)
    for found in measured.values():
        for place, one in enumerate(found):
            bound = f"≤ {one.limit:g}" if one.limit is not None else f"≥ {one.least:g}" if one.least else ""
            shown.add_row(
                one.name,
                f"{one.value:,.3g} {one.unit}",
                bound,
                f"{one.ratio:.2f}" if one.ratio is not None else "",
                "" if one.ratio is None else "[green]met[/]" if one.met else "[bold red]missed[/]",
                end_section=place == len(found) - 1,
            )
    return shown


def as_dict(one: Figure) -> dict[str, object]:
    return {
        "name": one.name,
        "value": one.value,
        "unit": one.unit,
        "limit": one.limit,
        "least": one.least,
        "met": one.met,
    }


if __name__ == "__main__":
    sys.exit(main())
