"""`weir bench`: measure a known workload on the engine, and on other implementations for comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet
import typer
from rich.console import Group

from configs.errors import UnknownName, nearest
from services.cli.tables.catalog_views import show
from services.cli.tables.progress import progress
from services.cli.tables.sheet import FormatOption, Sheet
from services.race import w11_workload
from services.race.race import CONTESTANTS, ENGINE, TRIES, compared, contestants, race, right

WORKLOADS = ("w11",)


def bench(
    workload: Annotated[str, typer.Argument(help=f"Workload to run: one of {', '.join(WORKLOADS)}.")],
    data: Annotated[
        Path, typer.Option(help="Folder with the data that the workload's generator has written.")
    ],
    train: Annotated[
        int,
        typer.Option(
            min=1, max=10_000_000, help="Readings per train, the batch that one operator call processes."
        ),
    ] = 10_000,
    out: Annotated[Path | None, typer.Option(help="Folder for the answers, as Parquet files.")] = None,
    beside: Annotated[
        str | None,
        typer.Option(
            help=f"Other implementations to run on the same processor for comparison, separated by commas: {','.join(CONTESTANTS)}.",
            metavar="NAMES",
        ),
    ] = None,
    output: FormatOption = "table",
) -> None:
    """Measure how fast the engine runs the SQL queries of a workload. Exit code 1 if an answer is wrong."""
    if workload not in WORKLOADS:
        raise UnknownName(
            "there is no workload of this name", "WORKLOAD", workload, nearest(workload, WORKLOADS)
        )
    names = contestants(beside) if beside is not None else []
    data_read = w11_workload.read(data)
    outcome = w11_workload.run_engine(data_read, train)
    report = w11_workload.report(outcome, data_read)
    if out is not None:
        write_answers(outcome, out)
    report["contestants"] = {}
    if names:
        reports = raced(data_read, train, names)
        report |= reports[ENGINE] | {"contestants": compared(reports)}
    show(output, report, lambda: report_tables(report))
    if right(report) is False or not all(
        contestant["equal"] for contestant in report["contestants"].values()
    ):
        raise typer.Exit(1)


def raced(data: w11_workload.Data, train: int, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    with progress("running", TRIES * (1 + len(names))) as advance:
        return race(data, train, names, advance)


def write_answers(outcome: w11_workload.RaceOutcome, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for query, parts in outcome.answers.items():
        columns = w11_workload.joined(parts)
        names = outcome.columns[query]
        table = pa.table(dict(zip(names, columns, strict=True))) if columns else pa.table({})
        pyarrow.parquet.write_table(table, folder / f"{query}.parquet")


def report_tables(report: Mapping[str, Any]) -> Group:
    figures = (
        f"{millions(report['readings_per_s'])} million readings per CPU-second; {report['elapsed_s']:.2f} s,"
        f" {report['cpu_s']:.2f} CPU-s, peak {report['peak_rss_mb']:.0f} MB"
    )
    contestants = [contestant_table(report)] if report["contestants"] else []
    return Group(report_table(report), *contestants, figures)


def report_table(report: Mapping[str, Any]) -> Sheet:
    table = Sheet(f"W11, trains of {report['train']:,}", ("query", "rows", "checksum", "oracle"))
    for name, query in report["queries"].items():
        table.add_row(name, f"{query['rows']:,}", query["checksum"], verdict(query.get("right")))
    return table


def contestant_table(report: Mapping[str, Any]) -> Sheet:
    heads = ("contestant", "", "readings/CPU-s", "engine ÷ other", "answers")
    table = Sheet(f"on one processor, the best of {TRIES} alternating tries", heads, left=2)
    table.add_row(ENGINE, "SQL", f"{millions(report['readings_per_s'])} M", "", verdict(right(report)))
    for name, contestant in report["contestants"].items():
        answers = verdict(contestant["equal"])
        if contestant["equal"] and contestant["right"] is False:
            answers = "[bold red]differs from the oracle[/]"
        speed, ratio = f"{millions(contestant['readings_per_s'])} M", f"{contestant['ratio']:.2f}"
        table.add_row(name, CONTESTANTS[name].what, speed, ratio, answers)
    return table


def millions(value: float) -> str:
    return f"{value / 1e6:.2f}"


def verdict(equal: bool | None) -> str:
    return {True: "[green]equal[/]", False: "[bold red]differs[/]", None: "–"}[equal]
