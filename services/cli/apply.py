"""`weir apply | diff | get | describe | delete`: declarations, from the command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from configs.declarations import KINDS, kind_named, read_documents, ref_named
from configs.problems import NotAllowed, WeirError
from services.catalog.hidden import shown_document
from services.cli.catalog_views import (
    OutputOption,
    declarations_table,
    lines_table,
    moment,
    pairs_table,
    show,
    warn,
)
from services.cli.completion import names_of_kind
from services.cli.here import declarations, service
from services.remote.models import Change

EXIT_DIFFERS = 1
MARKS = {"created": "+", "changed": "~", "unchanged": "="}

FilesOption = Annotated[
    list[Path], typer.Option("--file", "-f", help="YAML documents; may be repeated.", show_default=False)
]
KindArgument = Annotated[
    str,
    typer.Argument(
        help=f"{', '.join(KINDS)}; case and plural do not matter.", autocompletion=lambda: list(KINDS)
    ),
]
NameArgument = Annotated[
    str, typer.Argument(help="Its name; of a query TENANT/QUERY.", autocompletion=names_of_kind)
]


def apply(files: FilesOption, output: OutputOption = "table") -> None:
    """Declare everything in the files, or nothing of it."""
    documents = read_documents(files)
    with declarations() as weir:
        made = weir.apply(documents)
    warn(made.warnings)
    show(output, [change_told(one) for one in made.changes], lambda: changes_table(made.changes))


def diff(files: FilesOption, output: OutputOption = "table") -> None:
    """Show what `apply` would change; exit code 1 if there is something."""
    documents = read_documents(files)
    with declarations() as weir:
        made = weir.diff(documents)
    warn(made.warnings)
    show(output, [change_told(one) for one in made.changes], lambda: changes_table(made.changes))
    if any(one.action != "unchanged" for one in made.changes):
        raise typer.Exit(EXIT_DIFFERS)


def get(
    kind: KindArgument,
    name: Annotated[
        str | None, typer.Argument(help="One of them.", show_default="all", autocompletion=names_of_kind)
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Show declarations; as YAML they can be applied again."""
    kind = kind_named(kind)
    with declarations() as weir:
        found = weir.all(kind) if name is None else [weir.get(kind, name)]
    told = [shown_document(one.declaration) for one in found]
    show(output, told if name is None else told[0], lambda: declarations_table(kind, found))


def describe(kind: KindArgument, name: NameArgument, output: OutputOption = "table") -> None:
    """Show all that is known of one declaration: who uses it, and who has changed it."""
    ref = ref_named(kind, name)
    told: dict[str, Any] = {}
    with declarations() as weir:
        found = weir.get(kind, name)
        told |= shown_document(found.declaration) | {"version": found.version}
        # Who else uses it, and who has changed it, is for administrators.
        with suppress(NotAllowed):
            told["used_by"] = weir.users(kind, name)
            told["changes"] = [
                one.model_dump() | {"at": moment(one.at), "fields": list(one.fields)}
                for one in weir.audit(ref.kind, name)
            ]
    if ref.kind == "Mirror":
        # Only a service that runs knows how it fares.
        with suppress(WeirError), service() as weir:
            told["status"] = weir.mirror_status(name)
    show(output, told, lambda: pairs_table(str(ref), told))


def delete(kind: KindArgument, name: NameArgument) -> None:
    """Delete a declaration that nothing uses."""
    ref = ref_named(kind, name)
    with declarations() as weir:
        weir.delete(kind, name)
    typer.echo(f"deleted {ref}")


def change_told(one: Change) -> dict[str, Any]:
    ref = {"kind": one.kind, **({"tenant": one.tenant} if one.tenant else {}), "name": one.name}
    changes = {field: list(values) for field, values in one.changes.items()}
    return {**ref, "action": one.action, "changes": changes}


def changes_table(made: Sequence[Change]) -> Table:
    rows = []
    for one in made:
        rows.append((MARKS[one.action], str(one.ref), one.action, ""))
        for field, (old, new) in one.changes.items():
            rows.append(("", "", field, f"{old} → {new}"))
    table = lines_table(("", "declaration", "change", ""), rows)
    counts = Counter(one.action for one in made)
    table.caption = ", ".join(f"{counts[action]} {action}" for action in MARKS if counts[action])
    table.caption_justify = "left"
    return table
