"""`weir plan`: check whether delay targets would hold with these documents, and what other classes would lose."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from configs.classes.live_class import LiveSettings
from configs.documents.declarations import Document
from configs.errors import InvalidInput
from configs.numbers import UNKNOWN, exact
from services.catalog.catalog import opened
from services.cli.input.documents import FilesArgument, FilesOption, RecursiveOption, wanted_documents
from services.cli.tables.catalog_views import OutputOption, show
from services.cli.tables.cells import milliseconds
from services.cli.tables.sheet import Sheet
from services.client import Client
from services.common.weir_home import home_of
from services.remote.wire import address_of

EXIT_MISSED = 1
COLUMNS = ("class", "plan", "target ms", "share", "load", "p95 ms", "p99 ms", "lost", "holds")
RUNS = (("before", "now"), ("after", "after"), ("at_worst", "at worst"))


def plan(
    more: FilesArgument = None,
    files: FilesOption = None,
    recursive: RecursiveOption = False,
    rates: Annotated[
        list[str] | None,
        typer.Option("--rate", help="Expected rows per second of a stream, as STREAM=ROWS; may be repeated."),
    ] = None,
    lanes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=256,
            help="Number of processors that run queries, for a check without a running service.",
            show_default="the default of weir up",
        ),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Check whether delay targets would hold if the documents were applied, and what other classes would lose.

    Nothing is changed. The running service does the check. If no service runs, the check assumes that the declarations in the catalog of WEIR_HOME run on this machine.

    Exit code 1 if a target would not hold.
    """
    documents, said = wanted_documents(files, more, recursive), rates_of(rates or ())
    answer = planned(documents, said, lanes)
    show(output, answer, lambda: plan_view(answer))
    if not answer["holds"]:
        raise typer.Exit(EXIT_MISSED)


def planned(documents: Sequence[Document], rates: Mapping[str, float], lanes: int | None) -> dict[str, Any]:
    """Return the prediction of the running service. Without a service, predict in this process from assumed costs and rates."""
    if address_of(os.environ) is not None:
        if lanes is not None:
            hint = "leave --lanes out, or plan in another WEIR_HOME"
            raise InvalidInput("this option cannot be used while a service runs", "--lanes", lanes, hint)
        with Client() as client:
            return client.plan(documents, rates)
    # The simulator is imported when it is needed: the plan of a running service needs no simulator in this process.
    from services.plan.planner import Planner

    settings = LiveSettings() if lanes is None else LiveSettings(lanes=lanes)
    with opened(home_of(os.environ)) as catalog:
        return Planner(catalog, settings).plan(documents, rates).as_json()


def rates_of(told: Iterable[str]) -> dict[str, float]:
    """Return rows per second by stream."""
    rates = {}
    for rate in told:
        stream, _, rows = rate.partition("=")
        try:
            rates[stream] = float(rows)
        except ValueError:
            raise InvalidInput(
                "the expected rate of a stream is not of the form STREAM=ROWS",
                "--rate",
                rate,
                "write, for example, ticks=5000 for 5,000 rows per second of the stream ticks",
            ) from None
    return rates


def plan_view(found: Mapping[str, Any]) -> RenderableType:
    """Return a table of the declared classes and of all classes that the declarations affect, followed by warnings and assumptions."""
    parts: list[RenderableType] = [plan_table(found)]
    parts += [Text(warning, style="yellow") for warning in found["warnings"]]
    parts += [Text(f"assumed: {assumption}", style="dim") for assumption in found["assumed"]]
    return Group(*parts)


def plan_table(found: Mapping[str, Any]) -> Sheet:
    verdict = "all targets hold" if found["holds"] else "targets would be missed"
    table = Sheet(f"plan: {verdict}; lanes busy for {found['busy']:.0%}", COLUMNS, left=2)
    for class_ in found["classes"]:
        runs = [(name, class_[key]) for key, name in RUNS if class_[key] is not None]
        for place, (name, run) in enumerate(runs):
            is_last = place == len(runs) - 1
            table.add_row(
                escape(class_["name"]) if place == 0 else "",
                name,
                exact(class_["target_ms"]) if place == 0 else "",
                *figures(run, class_["target_ms"]),
                ("[green]yes[/]" if class_["holds"] else "[bold red]no[/]") if is_last else "",
                end_section=is_last,
            )
    return table


def figures(run: Mapping[str, Any], target_ms: float) -> Iterable[str]:
    p95_ms = run["p95_ms"]
    yield f"{run['share']:.3f}"
    yield f"{run['load']:.3f}"
    yield f"[red]{planned_ms(p95_ms)}[/]" if (p95_ms or 0.0) > target_ms else planned_ms(p95_ms)
    yield planned_ms(run["p99_ms"])
    yield f"{run['drop']:.1%}"


def planned_ms(value: float | None) -> str:
    """Return a predicted response time as a text. Times below 1 ms are shorter than a slice, and are not predicted exactly."""
    if value is None:
        return UNKNOWN
    return "<1" if value < 1 else f"{value:.0f}" if value < 1000 else milliseconds(value)
