"""`weir apply | diff | get | describe | delete`: declarations, from the command line."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from configs.documents.declarations import KINDS, RESOURCES, Ref, kind_named, name_of, ref_named
from configs.errors import InvalidInput, NotAllowed, WeirError
from configs.numbers import figure
from services.catalog.redaction import shown_document
from services.cli.completion import kinds, names_of_kind
from services.cli.input.documents import FilesArgument, FilesOption, RecursiveOption, wanted_documents
from services.cli.service_location import Declarations, declarations, named_query, service
from services.cli.tables.catalog_views import (
    OutputOption,
    declarations_table,
    lines_table,
    moment,
    show,
    warn,
    when,
)
from services.cli.tables.feed_views import feed_declared, feeds_view
from services.cli.tables.sheet import Description, Sheet, plain, screen
from services.remote.models import Change

if TYPE_CHECKING:
    from services.client import Client

EXIT_DIFFERS = 1
MARKS = {"created": "+", "changed": "~", "unchanged": "="}
DONE: Mapping[str, str] = {action: action for action in MARKS}
TO_DO: Mapping[str, str] = {"created": "to add", "changed": "to change", "unchanged": "unchanged"}

KIND_HELP = f"Kind of declaration: {', '.join(KINDS)}. Case does not matter, and the plural is accepted."
KindArgument = Annotated[str, typer.Argument(help=KIND_HELP, autocompletion=kinds)]
NameArgument = Annotated[
    str,
    typer.Argument(help="Name of the declaration; for a query TENANT/QUERY.", autocompletion=names_of_kind),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def apply(
    more: FilesArgument = None,
    files: FilesOption = None,
    recursive: RecursiveOption = False,
    output: OutputOption = "table",
) -> None:
    """Create or change what the documents declare: all of them, or none if one is wrong."""
    documents = wanted_documents(files, more, recursive)
    with declarations() as weir:
        result = weir.apply(documents)
    warn(result.warnings)
    show(output, [change_told(change) for change in result.changes], lambda: changes_table(result.changes))


def diff(
    more: FilesArgument = None,
    files: FilesOption = None,
    recursive: RecursiveOption = False,
    output: OutputOption = "table",
) -> None:
    """Show what `weir apply` would change; exit code 1 if there is a difference."""
    documents = wanted_documents(files, more, recursive)
    with declarations() as weir:
        result = weir.diff(documents)
    warn(result.warnings)
    show(
        output, [change_told(change) for change in result.changes], lambda: differences_table(result.changes)
    )
    if any(change.action != "unchanged" for change in result.changes):
        raise typer.Exit(EXIT_DIFFERS)


def get(
    kind: KindArgument,
    name: Annotated[
        str | None,
        typer.Argument(
            help="Name of one declaration; for a query TENANT/QUERY.",
            show_default="all of the kind",
            autocompletion=names_of_kind,
        ),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """List declarations; with `-o yaml` in a form that `weir apply` accepts. The table of feeds shows how they run."""
    kind = kind_named(kind)
    if kind == "Feed" and output in ("table", "wide"):
        screen(output).print(feeds_view(name, is_wide=output == "wide"))
        return
    with declarations() as weir:
        declared = weir.all(kind) if name is None else [weir.get(kind, named_query(weir, kind, name))]
    documents = [shown_document(entry.declaration) for entry in declared]
    states = tenant_states() if kind == "Tenant" and output == "table" else None
    show(
        output,
        documents if name is None else documents[0],
        lambda: declarations_table(kind, declared, states),
    )


def tenant_states() -> dict[str, str] | None:
    """Return the states of the classes that run, by tenant; None where no service answers."""
    with suppress(WeirError), service() as weir:
        return {class_["name"]: class_["state"] for class_ in weir.live.classes()}
    return None


def describe(kind: KindArgument, name: NameArgument, output: OutputOption = "table") -> None:
    """Show one declaration in full, with what uses it and its last changes."""
    fields: dict[str, Any] = {}
    with declarations() as weir:
        name = named_query(weir, kind, name)
        ref = ref_named(kind, name)
        declared = feed_declared(weir, name) if ref.kind == "Feed" else weir.get(kind, name)
        if declared is not None:
            fields |= shown_document(declared.declaration) | {"version": declared.version}
            # Its users and its changes are for administrators.
            with suppress(NotAllowed):
                fields["used_by"] = weir.users(declared.ref.kind, name)
                fields["changes"] = [
                    change.model_dump() | {"at": moment(change.at), "fields": list(change.fields)}
                    for change in weir.audit(declared.ref.kind, name)
                ]
    # Only a running service knows the status. What a tenant sees of a feed is nothing but that.
    with suppress(WeirError) if fields else nullcontext():
        status = STATUS.get(ref.kind)
        if status is not None:
            with service() as weir:
                fields["status"] = status(weir, name)
    show(output, fields, lambda: description(str(ref), fields))


def tenant_status(weir: Client, name: str) -> Mapping[str, Any]:
    """Return the state of a tenant's class, with its reason."""
    status = weir.live.status(name)
    return {"state": status["state"], "reason": status["reason"]}


def query_status(weir: Client, name: str) -> Mapping[str, Any]:
    """Return how many answers a query has given, and how many rows have failed in it."""
    tenant, _, query = name.partition("/")
    shown = ("answers", "failed", "failed_now", "failed_reason")
    for line in weir.live.quality(tenant)["items"]:
        if line["query"] == query:
            return {field: line[field] for field in shown}
    return {}


# How what is declared runs, by kind.
STATUS: Mapping[str, Callable[[Client, str], Mapping[str, Any]]] = {
    "Feed": lambda weir, name: weir.live.feed_status(name),
    "Mirror": lambda weir, name: weir.live.mirror_status(name),
    "Query": query_status,
    "Stream": lambda weir, name: weir.live.stream_input(name),
    "Tenant": tenant_status,
}


def description(title: str, told: Mapping[str, Any]) -> Description:
    """Return a declaration as people read it, with how long ago each change was made, and with rounded measurements."""
    if "status" in told:
        told = {**told, "status": rounded(told["status"])}
    changes = [
        {"version": change["id"], "when": when(datetime.fromisoformat(change["at"])), "who": change["who"]}
        | {"action": change["action"], "fields": change["fields"]}
        for change in told.get("changes", ())
    ]
    return Description(title, {**told, "changes": changes} if changes else told)


def rounded(value: Any) -> Any:
    """Return a measured value with three figures for each number in it that is not whole."""
    match value:
        case float():
            return figure(value)
        case Mapping():
            return {name: rounded(part) for name, part in value.items()}
        case list():
            return [rounded(part) for part in value]
    return value


def delete(
    kind: Annotated[
        str | None, typer.Argument(help=KIND_HELP, show_default=False, autocompletion=kinds)
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Names of declarations of the kind; for queries TENANT/QUERY.",
            show_default=False,
            autocompletion=names_of_kind,
        ),
    ] = None,
    files: FilesOption = None,
    recursive: RecursiveOption = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Delete every declaration of the kind, after a confirmation.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Delete declarations that nothing else uses: by name, those that are in files, or all of a kind."""
    if files:
        if kind is not None:
            raise InvalidInput(
                "with --file no names are given", "KIND", kind, "leave out --file or the names"
            )
        documents = wanted_documents(files, recursive=recursive)
        with declarations() as weir:
            delete_all(weir, [document.ref for document in documents])
        return
    if kind is None:
        raise InvalidInput("required, but missing", "KIND", hint="write KIND NAME, or -f FILE")
    with declarations() as weir:
        delete_named(weir, kind, names, everything, yes)


def delete_named(
    weir: Declarations,
    kind: str,
    names: Sequence[str] | None,
    everything: bool,
    yes: bool,
    tenant: str | None = None,
) -> None:
    """Delete declarations of a kind: those that are named, or all after a confirmation."""
    kind = kind_named(kind)
    if everything == bool(names):
        raise InvalidInput("give the names, or --all", "NAME", hint=f"see weir get {kind}")
    if not everything:
        delete_all(weir, [ref_named(kind, named_query(weir, kind, name)) for name in names or ()])
        return
    refs = [entry.ref for entry in weir.all(kind, tenant)]
    if refs and not yes:
        if not sys.stdin.isatty():
            hint = "add --yes"
            raise InvalidInput("deletes everything, and there is no terminal to ask on", "--all", hint=hint)
        listed = ", ".join(map(name_of, refs[:NAMED])) + (", …" if refs[NAMED:] else "")
        typer.confirm(f"Delete {len(refs):,} declarations of kind {kind} ({listed})?", abort=True)
    delete_all(weir, refs)


# In a question about many declarations.
NAMED = 5


def delete_all(weir: Declarations, refs: Sequence[Ref]) -> None:
    """Delete what uses others first, and only if everything is there."""
    for ref in refs:
        weir.get(ref.kind, name_of(ref))
    order: dict[Ref, int] = {}
    if sum(ref.kind == "Query" for ref in refs) > 1:
        # A query may read the output of those before it.
        order = {query.ref.folded: place for place, query in enumerate(weir.all("Query"))}
    kinds_in_order = list(RESOURCES)
    for ref in sorted(refs, key=lambda ref: (kinds_in_order.index(ref.kind), -order.get(ref.folded, 0))):
        weir.delete(ref.kind, name_of(ref))
        typer.echo(f"deleted {ref}")


def change_told(one: Change) -> dict[str, Any]:
    ref = {"kind": one.kind, **({"tenant": one.tenant} if one.tenant else {}), "name": one.name}
    changes = {field: list(values) for field, values in one.changes.items()}
    return {**ref, "action": one.action, "changes": changes}


def differences_table(made: Sequence[Change]) -> Sheet:
    """Show what `apply` would change; it deletes nothing."""
    table = changes_table(made, TO_DO)
    counts = Counter(change.action for change in made)
    table.caption = f"{counts['created']} to add, {counts['changed']} to change, 0 to delete"
    return table


def changed_lines(field: str, old: Any, new: Any) -> Iterator[str]:
    """Yield a line for a field that changes, or for each field inside it that changes."""
    parts = [value for value in (old, new) if value is not None]
    if not parts or not all(isinstance(value, Mapping) for value in parts):
        yield f"{field}: {plain(old)} → {plain(new)}"
        return
    before, after = old or {}, new or {}
    for name in {**before, **after}:
        if before.get(name) != after.get(name):
            yield from changed_lines(f"{field}.{name}", before.get(name), after.get(name))


def changes_table(made: Sequence[Change], words: Mapping[str, str] = DONE) -> Sheet:
    """Return a line for each declaration, and below it one for each field that changes."""
    rows: list[tuple[str, ...]] = []
    for change in made:
        rows.append((MARKS[change.action], str(change.ref), words[change.action]))
        for field, (old, new) in change.changes.items():
            rows += [("", f"  {line}") for line in changed_lines(field, old, new)]
    table = lines_table(("", "declaration", "change"), rows, prose=("declaration",))
    counts = Counter(change.action for change in made)
    table.caption = ", ".join(f"{counts[action]:,} {action}" for action in MARKS if counts[action])
    return table
