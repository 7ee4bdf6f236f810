"""`weir mirror`: poll remote objects as often as their use and change rates justify, and send changes to a running system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from configs.numbers import compact
from engine.sql import Mirror
from services.cli.commands.ingest import ended_by_signal, watch
from services.cli.service_location import service
from services.cli.tables.sheet import FormatOption, Sheet, screen, table_of
from services.cli.tables.state_log import States, mirror_problems, mirror_states
from services.mirror.doors import RemoteDoor
from services.mirror.mirror_definition import check_hosts, checked_keys, floors_of, profile_of
from services.mirror.mirror_threads import Mirrors, declare, mirrors_in
from services.mirror.objects import objects_of
from services.mirror.poll_loop import MirrorProgress

PROBLEMS_SHOWN = 5


def mirror(
    file: Annotated[Path, typer.Argument(help="File with CREATE MIRROR statements.")],
    check: Annotated[
        bool, typer.Option("--check", help="Check the file and the objects, then exit without polling.")
    ] = False,
    output: FormatOption = "table",
) -> None:
    """Poll remote objects and send their changes to a service, until Ctrl-C.

    Changes go to the service at WEIR_ENDPOINT, or else to the service that runs from WEIR_HOME. To have the service poll,
    declare the mirror with `weir apply` instead.
    """
    mirrors = mirrors_in(file)
    checked = check_table(str(file), mirrors)
    if check:
        screen().print(checked)
        return
    with ended_by_signal(), service() as weir, Mirrors(RemoteDoor(weir)) as running:
        for mirror_ in mirrors:
            declare(mirror_, weir)
        for mirror_ in mirrors:
            running.begin(mirror_)
        title = f"{file} to {weir.endpoint}"
        watch(
            lambda: mirror_table(title, running.progress()),
            lambda: mirrors_told(running.progress()),
            lambda: States(mirror_states(running.progress()), mirror_problems(running.progress())),
            output,
        )


def mirrors_told(mirrors: Sequence[MirrorProgress]) -> dict[str, object]:
    return {"mirrors": [mirror.as_json() for mirror in mirrors]}


MIRROR_COLUMNS: Mapping[str, Callable[[MirrorProgress], str]] = {
    "mirror": lambda mirror: escape(mirror.mirror),
    "objects": lambda mirror: f"{mirror.statistics.objects:,}",
    "held": lambda mirror: f"{mirror.statistics.held:,}",
    "polls": lambda mirror: compact(mirror.statistics.polls),
    "changes": lambda mirror: compact(mirror.statistics.changes),
    "published": lambda mirror: compact(mirror.published),
    "failing": lambda mirror: f"{mirror.statistics.failing:,}",
    "fresh": lambda mirror: share(mirror.statistics.perceived_measured),
    "expected": lambda mirror: share(mirror.statistics.perceived_expected),
}


def share(part: float | None) -> str:
    return "–" if part is None else f"{part:.1%}"


def mirror_table(title: str, mirrors: Sequence[MirrorProgress]) -> Sheet:
    """Return a table of the current figures of mirrors, with their problems below it."""
    table = table_of(title, MIRROR_COLUMNS, mirrors)
    wrong = [
        f"{escape(mirror.mirror)}: {escape(problem)} ({count:,}×)"
        for mirror in mirrors
        for problem, count in list(mirror.problems.items())[:PROBLEMS_SHOWN]
    ]
    if wrong:
        table.caption = "\n".join(wrong)
    return table


def check_table(title: str, mirrors: Sequence[Mirror]) -> Sheet:
    """Check each mirror and its objects, and return a table of what would be polled."""
    table = Sheet(title, ("mirror", "columns", "objects", "bandwidth"), left=2, prose=(1,))
    for mirror in mirrors:
        check_hosts(mirror)
        objects = objects_of(mirror, 1)
        try:
            keys = checked_keys(mirror, objects.keys())
            profile_of(mirror, keys)
            floors_of(mirror, keys)
        finally:
            objects.close()
        columns = ", ".join(f"{field.name} {field.type}" for field in mirror.columns.fields)
        unit = "bytes/s" if mirror.by_bytes else "polls/s"
        table.add_row(escape(mirror.name), escape(columns), f"{len(keys):,}", f"{mirror.bandwidth:g} {unit}")
    return table
