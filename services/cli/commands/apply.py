"""`weir apply | diff | get | describe | delete`: change and show declarations."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from configs.documents.declarations import KINDS, RESOURCES, Document, Ref, kind_named, name_of, ref_named
from configs.errors import Away, InvalidInput, NotAllowed, WeirError
from configs.numbers import figure
from services.catalog.redaction import shown_document
from services.cli.completion import kinds, names_of_kind
from services.cli.input.documents import FilesArgument, FilesOption, RecursiveOption, wanted_documents
from services.cli.service_location import declarations, named_query, service
from services.cli.shared_options import YesOption, confirm, seconds_of
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
from services.cli.usage import excluded, missing
from services.remote.models import Applied, Change

if TYPE_CHECKING:
    from services.cli.service_location import Declarations
    from services.client import Client

EXIT_DIFFERS = 1
# Seconds between two attempts to reach a service that is away.
RETRY_S = 2.0
MARKS = {"created": "+", "changed": "~", "unchanged": "="}
DONE: Mapping[str, str] = {action: action for action in MARKS}
TO_DO: Mapping[str, str] = {"created": "to add", "changed": "to change", "unchanged": "unchanged"}

KIND_HELP = f"Kind of declaration: {', '.join(KINDS)}. Case does not matter, and the plural is accepted."
KindArgument = Annotated[str, typer.Argument(help=KIND_HELP, autocompletion=kinds)]
NameArgument = Annotated[
    str,
    typer.Argument(help="Name of the declaration; TENANT/QUERY for a query.", autocompletion=names_of_kind),
]


def apply(
    more: FilesArgument = None,
    files: FilesOption = None,
    recursive: RecursiveOption = False,
    output: OutputOption = "table",
    wait: Annotated[
        str | None,
        typer.Option(
            help="Maximum time to wait for a service that is away, such as 90s or 20m.",
            show_default="no wait",
        ),
    ] = None,
) -> None:
    """Create or change the declarations in the documents. If one document is wrong, nothing is changed."""
    documents = wanted_documents(files, more, recursive)
    result = applied(documents, 0.0 if wait is None else seconds_of(wait, "--wait"))
    warn(result.warnings)
    show(output, [change_told(change) for change in result.changes], lambda: changes_table(result.changes))


def applied(documents: Sequence[Document], wait_s: float) -> Applied:
    """Apply the documents; retry for at most `wait_s` seconds while the service is away."""
    until = time.monotonic() + wait_s
    while True:
        try:
            with declarations() as weir:
                return weir.apply(documents)
        except Away:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise
            time.sleep(min(RETRY_S, left_s))


def diff(
    more: FilesArgument = None,
    files: FilesOption = None,
    recursive: RecursiveOption = False,
    output: OutputOption = "table",
) -> None:
    """Show what `weir apply` would change. Exit code 1 if there is a difference."""
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
            help="Name of one declaration; TENANT/QUERY for a query.",
            show_default="all declarations of the kind",
            autocompletion=names_of_kind,
        ),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """List declarations; `-o yaml` prints documents for `weir apply`. For feeds, the table shows their current state."""
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
    """Return the states of running classes by tenant; None if no service answers."""
    with suppress(WeirError), service() as weir:
        return {class_["name"]: class_["state"] for class_ in weir.live.classes()}
    return None


def describe(kind: KindArgument, name: NameArgument, output: OutputOption = "table") -> None:
    """Show one declaration in full, with the declarations that use it and its last changes."""
    fields: dict[str, Any] = {}
    with declarations() as weir:
        name = named_query(weir, kind, name)
        ref = ref_named(kind, name)
        declared = feed_declared(weir, name) if ref.kind == "Feed" else weir.get(kind, name)
        if declared is not None:
            fields |= shown_document(declared.declaration) | {"version": declared.version}
            # Only administrators may read the users and the changes of a declaration.
            with suppress(NotAllowed):
                fields["used_by"] = weir.users(declared.ref.kind, name)
                fields["changes"] = [
                    change.model_dump() | {"at": moment(change.at), "fields": list(change.fields)}
                    for change in weir.audit(declared.ref.kind, name)
                ]
    # Only a running service knows the status of a declaration, so without a service the status is left out.
    # With a tenant's key, the status is all that can be shown of a feed, so an error of the service ends the command.
    with suppress(WeirError) if fields else nullcontext():
        status = STATUS.get(ref.kind)
        if status is not None:
            with service() as weir:
                fields["status"] = status(weir, name)
    show(output, fields, lambda: description(str(ref), fields))


def tenant_status(weir: Client, name: str) -> Mapping[str, Any]:
    """Return the state of a tenant's class, and the reason for this state."""
    status = weir.live.status(name)
    return {"state": status["state"], "reason": status["reason"]}


def query_status(weir: Client, name: str) -> Mapping[str, Any]:
    """Return the number of a query's answers, and the number of input rows that failed in an expression of the query."""
    tenant, _, query = name.partition("/")
    shown = ("answers", "failed", "failed_now", "failed_reason")
    for line in weir.live.quality(tenant)["items"]:
        if line["query"] == query:
            return {field: line[field] for field in shown}
    return {}


# Functions that return the status of a running declaration, by kind.
STATUS: Mapping[str, Callable[[Client, str], Mapping[str, Any]]] = {
    "Feed": lambda weir, name: weir.live.feed_status(name),
    "Mirror": lambda weir, name: weir.live.mirror_status(name),
    "Query": query_status,
    "Stream": lambda weir, name: weir.live.stream_input(name),
    "Tenant": tenant_status,
}


def description(title: str, told: Mapping[str, Any]) -> Description:
    """Return a declaration as the terminal shows it: measurements are rounded, and each change has its age."""
    if "status" in told:
        told = {**told, "status": rounded(told["status"])}
    changes = [
        {"version": change["id"], "when": when(datetime.fromisoformat(change["at"])), "who": change["who"]}
        | {"action": change["action"], "fields": change["fields"]}
        for change in told.get("changes", ())
    ]
    return Description(title, {**told, "changes": changes} if changes else told)


def rounded(value: Any) -> Any:
    """Return a value in which each float is replaced by a text with three significant digits."""
    match value:
        case float():
            return figure(value)
        case Mapping():
            return {name: rounded(part) for name, part in value.items()}
        case list():
            return [rounded(part) for part in value]
    return value


def delete(
    kind: Annotated[str | None, typer.Argument(help=KIND_HELP, autocompletion=kinds)] = None,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Names of declarations of the kind; TENANT/QUERY for queries.",
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
    """Delete declarations that no other declaration uses: by name, from files, or all of a kind."""
    if files:
        if kind is not None:
            raise excluded("KIND", kind, "--file", "leave out --file, or KIND and NAME")
        documents = wanted_documents(files, recursive=recursive)
        with declarations() as weir:
            delete_all(weir, [document.ref for document in documents])
        return
    if kind is None:
        raise missing("KIND", "write KIND NAME, or -f FILE")
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
    """Delete the named declarations of a kind, or all of them after a confirmation."""
    kind = kind_named(kind)
    if everything == bool(names):
        raise InvalidInput(
            "the command needs either names of declarations or --all",
            "NAME",
            hint=f"list the names with `weir get {kind}`",
        )
    if not everything:
        delete_all(weir, [ref_named(kind, named_query(weir, kind, name)) for name in names or ()])
        return
    refs = [entry.ref for entry in weir.all(kind, tenant)]
    if refs and not yes:
        listed = ", ".join(map(name_of, refs[:NAMED])) + (", …" if refs[NAMED:] else "")
        title = "this command needs a confirmation, and there is no terminal to ask on"
        unasked = InvalidInput(title, "--all", hint="add --yes")
        confirm(f"Delete {len(refs):,} declarations of kind {kind} ({listed})?", unasked)
    delete_all(weir, refs)


# Maximum number of names that are listed in the question that `weir delete` asks before it deletes all declarations of a kind.
NAMED = 5


def delete_all(weir: Declarations, refs: Sequence[Ref]) -> None:
    """Delete declarations in an order in which no declaration is deleted while another uses it.

    If one of the declarations does not exist, nothing is deleted.
    """
    for ref in refs:
        weir.get(ref.kind, name_of(ref))
    order: dict[Ref, int] = {}
    if sum(ref.kind == "Query" for ref in refs) > 1:
        # Queries are deleted in reverse order, because a query may read the output of queries that were added before it.
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
    """Return a table of what `weir apply` would change. `weir apply` never deletes a declaration."""
    table = changes_table(made, TO_DO)
    counts = Counter(change.action for change in made)
    table.caption = f"{counts['created']} to add, {counts['changed']} to change, 0 to delete"
    return table


def changed_lines(field: str, old: Any, new: Any) -> Iterator[str]:
    """Yield a line for a changed field. If the field contains other fields, yield a line for each inner field that has changed."""
    parts = [value for value in (old, new) if value is not None]
    if not parts or not all(isinstance(value, Mapping) for value in parts):
        yield f"{field}: {plain(old)} → {plain(new)}"
        return
    before, after = old or {}, new or {}
    for name in {**before, **after}:
        if before.get(name) != after.get(name):
            yield from changed_lines(f"{field}.{name}", before.get(name), after.get(name))


def changes_table(made: Sequence[Change], words: Mapping[str, str] = DONE) -> Sheet:
    """Return a table with a line per declaration and, below it, a line per changed field."""
    rows: list[tuple[str, ...]] = []
    for change in made:
        rows.append((MARKS[change.action], str(change.ref), words[change.action]))
        for field, (old, new) in change.changes.items():
            rows += [("", f"  {line}") for line in changed_lines(field, old, new)]
    table = lines_table(("", "declaration", "change"), rows, prose=("declaration",))
    counts = Counter(change.action for change in made)
    table.caption = ", ".join(f"{counts[action]:,} {action}" for action in MARKS if counts[action])
    return table
