"""`weir bench`: a known workload through the engine, beside a program written by hand for it alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet
import typer
from rich.console import Console
from rich.table import Table

from bench import w11
from configs.problems import UnknownName, nearest
from services.cli.tables import plain_table

WORKLOADS = ("w11",)


def bench(
    workload: Annotated[str, typer.Argument(help=f"One of {', '.join(WORKLOADS)}.")],
    data: Annotated[
        Path, typer.Option(help="Folder that the workload's generator has written.", show_default=False)
    ],
    train: Annotated[int, typer.Option(min=1, max=10_000_000, help="Readings a train.")] = 10_000,
    out: Annotated[
        Path | None, typer.Option(help="Write the answers into this folder as Parquet.", show_default=False)
    ] = None,
    by_hand: Annotated[
        bool, typer.Option("--by-hand", help="Also run the hand-written program, as the limit.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a workload's queries, given as SQL, through planner, network, policy and runner."""
    if workload not in WORKLOADS:
        raise UnknownName("no such workload", "WORKLOAD", workload, nearest(workload, WORKLOADS))
    given = w11.read(data)
    outcome = w11.run_engine(given, train)
    report = w11.report(outcome, given)
    if out is not None:
        write_answers(outcome, out)
    if by_hand:
        hand = w11.run_by_hand(given, train)
        report["by_hand"] = {
            "equal": w11.same_answers(outcome, hand, given),
            "readings_per_s": hand.readings_per_s,
            "ratio": outcome.readings_per_s / hand.readings_per_s,
        }
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    else:
        Console().print(report_table(report))
        typer.echo(summary(report))
    if any(one.get("right") is False for one in report["queries"].values()):
        raise typer.Exit(1)


def write_answers(outcome: w11.Outcome, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for query, parts in outcome.answers.items():
        columns = w11.joined(parts)
        names = outcome.columns[query]
        table = pa.table(dict(zip(names, columns, strict=True))) if columns else pa.table({})
        pyarrow.parquet.write_table(table, folder / f"{query}.parquet")


def summary(report: Mapping[str, Any]) -> str:
    speed = f"{report['readings_per_s'] / 1e6:.2f} million readings a CPU-second"
    if "by_hand" in report:
        speed += f", {report['by_hand']['ratio']:.2f} of the hand-written program"
    used = f"{report['elapsed_s']:.2f} s, {report['cpu_s']:.2f} CPU-s, peak {report['peak_rss_mb']:.0f} MB"
    return f"{speed}; {used}"


def report_table(report: Mapping[str, Any]) -> Table:
    table = plain_table(f"W11, trains of {report['train']:,}", ("query", "rows", "checksum", "oracle"))
    for name, one in report["queries"].items():
        verdict = {True: "[green]equal[/]", False: "[bold red]differs[/]", None: "–"}[one.get("right")]
        table.add_row(name, f"{one['rows']:,}", one["checksum"], verdict)
    return table
