"""`weir apply | diff | get | describe | delete`: the catalog, from the command line."""

from __future__ import annotations

import os
import pwd
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from configs.declarations import KINDS, kind_named, read_documents, ref_named
from services.catalog.catalog import Catalog, Change, opened
from services.catalog.home import home_of
from services.cli.catalog_views import (
    OutputOption,
    declarations_table,
    lines_table,
    moment,
    pairs_table,
    show,
    shown_document,
    without_secrets,
)

EXIT_DIFFERS = 1
MARKS = {"created": "+", "changed": "~", "unchanged": "="}

FilesOption = Annotated[
    list[Path], typer.Option("--file", "-f", help="YAML documents; may be repeated.", show_default=False)
]
KindArgument = Annotated[str, typer.Argument(help=f"{', '.join(KINDS)}; case and plural do not matter.")]
NameArgument = Annotated[str, typer.Argument(help="Its name; of a query TENANT/QUERY.")]


def apply(files: FilesOption, output: OutputOption = "table") -> None:
    """Declare everything in the files, or nothing of it."""
    documents = read_documents(files)
    with here() as catalog:
        made = catalog.apply(documents, who())
    show(output, [change_told(one) for one in made], lambda: changes_table(made))


def diff(files: FilesOption, output: OutputOption = "table") -> None:
    """Show what `apply` would change; exit code 1 if there is something."""
    documents = read_documents(files)
    with here() as catalog:
        made = catalog.diff(documents)
    show(output, [change_told(one) for one in made], lambda: changes_table(made))
    if any(one.action != "unchanged" for one in made):
        raise typer.Exit(EXIT_DIFFERS)


def get(
    kind: KindArgument,
    name: Annotated[str | None, typer.Argument(help="One of them.", show_default="all")] = None,
    output: OutputOption = "table",
) -> None:
    """Show declarations; as YAML they can be applied again."""
    kind = kind_named(kind)
    with here() as catalog:
        found = catalog.all(kind) if name is None else [catalog.get(ref_named(kind, name))]
    told = [shown_document(one.declaration) for one in found]
    show(output, told if name is None else told[0], lambda: declarations_table(kind, found))


def describe(kind: KindArgument, name: NameArgument, output: OutputOption = "table") -> None:
    """Show all that is known of one declaration: who uses it, and who has changed it."""
    ref = ref_named(kind, name)
    with here() as catalog:
        found, users, log = catalog.get(ref), catalog.users(ref), catalog.audit(ref)
    told: dict[str, Any] = {
        **shown_document(found.declaration),
        "version": found.version,
        "reads": list(found.reads),
        "used_by": users,
        "changes": [{**asdict(one), "at": moment(one.at), "fields": list(one.fields)} for one in log],
    }
    show(output, told, lambda: pairs_table(str(ref), told))


def delete(kind: KindArgument, name: NameArgument) -> None:
    """Delete a declaration that nothing uses."""
    ref = ref_named(kind, name)
    with here() as catalog:
        catalog.delete(ref, who())
    typer.echo(f"deleted {ref}")


def here() -> AbstractContextManager[Catalog]:
    """The catalog of this user, or the one that the environment names."""
    return opened(home_of(os.environ))


def who() -> str:
    """Whoever runs this, in the audit log."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user need have no name
        return f"uid {os.getuid()}"


def change_told(one: Change) -> dict[str, Any]:
    ref = {
        "kind": one.ref.kind,
        **({"tenant": one.ref.tenant} if one.ref.tenant else {}),
        "name": one.ref.name,
    }
    before, after = without_secrets(one.before), without_secrets(one.after)
    told = {field: [at(before, field), at(after, field)] for field in one.fields}
    return {**ref, "action": one.action, "changes": told}


def at(document: Any, field: str) -> Any:
    """The value at a path; keys of options have points of their own."""
    if not isinstance(document, dict):
        return None
    if field in document:
        return document[field]
    for key, value in document.items():
        if field.startswith(f"{key}."):
            return at(value, field.removeprefix(f"{key}."))
    return None


def changes_table(made: list[Change]) -> Table:
    rows = []
    for one in made:
        rows.append((MARKS[one.action], str(one.ref), one.action, ""))
        for field, (old, new) in change_told(one)["changes"].items():
            rows.append(("", "", field, f"{old} → {new}"))
    table = lines_table(("", "declaration", "change", ""), rows)
    counts = Counter(one.action for one in made)
    table.caption = ", ".join(f"{counts[action]} {action}" for action in MARKS if counts[action])
    table.caption_justify = "left"
    return table
