"""`weir plan`: would delay targets hold with these documents, and what would the others lose?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from configs.declarations import Document, read_documents
from configs.live import LiveSettings
from configs.problems import InvalidInput
from services.catalog.catalog import opened
from services.catalog.home import home_of
from services.cli.apply import FilesOption
from services.cli.catalog_views import OutputOption, show
from services.cli.tables import against, milliseconds, plain_table
from services.client import Client
from services.remote.wire import address_of

EXIT_MISSED = 1
COLUMNS = ("class", "", "target", "share", "load", "p95 ms", "p99", "lost", "holds")
RUNS = (("before", "now"), ("after", "then"), ("at_worst", "at worst"))
NOTHING = "–"


def plan(
    files: FilesOption,
    rates: Annotated[
        list[str] | None,
        typer.Option(
            "--rate", help="STREAM=ROWS a second that will come; may be repeated.", show_default=False
        ),
    ] = None,
    lanes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=256,
            help="Processors for queries, where nothing runs.",
            show_default="as `weir up` has",
        ),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Say whether delay targets would hold with the documents, and what the others would lose; nothing is changed.

    The running service is asked; where there is none, the catalog of this home is planned as if it ran here.

    Exit code 1 if a target would not hold.
    """
    documents, said = read_documents(files), rates_of(rates or ())
    found = planned(documents, said, lanes)
    show(output, found, lambda: plan_view(found))
    if not found["holds"]:
        raise typer.Exit(EXIT_MISSED)


def planned(documents: Sequence[Document], rates: Mapping[str, float], lanes: int | None) -> dict[str, Any]:
    """By the service, if one is known; else here, with everything assumed."""
    if address_of(os.environ) is not None:
        if lanes is not None:
            hint = "leave it out, or plan in another WEIR_HOME"
            raise InvalidInput("the service that runs has its own", "--lanes", lanes, hint)
        with Client() as client:
            return client.plan(documents, rates)
    # The other commands need not wait for the simulator to be imported.
    from services.plan.planner import Planner

    settings = LiveSettings() if lanes is None else LiveSettings(lanes=lanes)
    with opened(home_of(os.environ)) as catalog:
        return Planner(catalog, settings).plan(documents, rates).as_json()


def rates_of(told: Iterable[str]) -> dict[str, float]:
    """Rows a second by stream."""
    found = {}
    for one in told:
        stream, _, rows = one.partition("=")
        try:
            found[stream] = float(rows)
        except ValueError:
            raise InvalidInput("not STREAM=ROWS", "--rate", one, "write it as ticks=5000") from None
    return found


# -- as people read it -----------------------------------------------------------------------------------------


def plan_view(found: Mapping[str, Any]) -> RenderableType:
    """Classes that are planned and those that it changes something for; then words."""
    parts: list[RenderableType] = [plan_table(found)]
    parts += [Text(one, style="yellow") for one in found["warnings"]]
    parts += [Text(f"assumed: {one}", style="dim") for one in found["assumed"]]
    return Group(*parts)


def plan_table(found: Mapping[str, Any]) -> Table:
    told = "all targets hold" if found["holds"] else "targets would be missed"
    table = plain_table(f"plan: {told}; lanes busy for {found['busy']:.0%}", COLUMNS, left=2)
    for one in found["classes"]:
        runs = [(name, one[key]) for key, name in RUNS if one[key] is not None]
        for place, (name, run) in enumerate(runs):
            is_last = place == len(runs) - 1
            table.add_row(
                escape(one["name"]) if place == 0 else "",
                name,
                f"{one['target_ms']:g}" if place == 0 else "",
                *figures(run, one["target_ms"]),
                ("[green]yes[/]" if one["holds"] else "[bold red]no[/]") if is_last else "",
                end_section=is_last,
            )
    return table


def figures(run: Mapping[str, Any], target_ms: float) -> Iterable[str]:
    p95_ms, p99_ms = run["p95_ms"], run["p99_ms"]
    yield f"{run['share']:.3f}"
    yield f"{run['load']:.3f}"
    yield NOTHING if p95_ms is None else against(p95_ms, target_ms)
    yield NOTHING if p99_ms is None else milliseconds(p99_ms)
    yield f"{run['drop']:.1%}"
