"""`weir explain | ledger`: why a class was steered as it was, and what became of every tuple."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.markup import escape
from rich.text import Text

from configs.numbers import ago
from services.cli.completion import tenants
from services.cli.service_location import service
from services.cli.tables.catalog_views import OutputOption, show
from services.cli.tables.sheet import Sheet, plain_table

EXIT_BROKEN = 1
# As many as the service returns.
DECISIONS_MOST = 1000
FATES = ("offered", "delivered", "shed", "late", "rejected", "failed", "queued")

TenantArgument = Annotated[
    str | None,
    typer.Argument(
        help="Tenant whose class is explained.", show_default="the tenant of the key", autocompletion=tenants
    ),
]


def explain(
    tenant: TenantArgument = None,
    last: Annotated[int, typer.Option(min=1, max=1000, help="Number of decisions to show.")] = 10,
    output: OutputOption = "table",
) -> None:
    """Explain the state of a tenant's class, and the last decisions about it; exit code 1 if it is given up."""
    with service() as weir:
        # Tables fold what repeats itself: of many decisions few lines are left.
        answer = weir.live.explain(tenant, last if output in ("json", "yaml") else DECISIONS_MOST)
    show(output, answer, lambda: explanation(answer, last, datetime.now(UTC)))
    if answer["given_up"]:
        raise typer.Exit(EXIT_BROKEN)


def ledger(
    tenant: Annotated[
        str | None,
        typer.Argument(
            help="Tenant whose rows are counted.", show_default="all tenants", autocompletion=tenants
        ),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Show what became of every row, by class and stream; exit code 1 if rows are unaccounted for, or a class is given up."""
    with service() as weir:
        answer = weir.live.ledger(tenant)
    show(output, answer, lambda: ledger_table(answer))
    if not answer["closes"] or answer["given_up"]:
        raise typer.Exit(EXIT_BROKEN)


def explanation(told: Mapping[str, Any], last: int, now: datetime) -> Group:
    """Return how the class is doing, and below it the last decisions; those that repeat each other are one line."""
    lines = folded(told["items"])
    table = Sheet(("at", "", "decision"), left=3, prose=(2,), has_heads=False)
    for line in lines[-last:]:
        since = datetime.fromisoformat(line.at)
        table.add_row(clock(line.at), ago(max(0.0, (now - since).total_seconds())), escape(line.words))
    words = Text(f"{told['tenant']}: {told['words']}")
    return Group(words, table) if table.rows else Group(words)


@dataclass(frozen=True, slots=True)
class DecisionLine:
    """Decisions of one kind in a row: the words of the last one, and when it was made."""

    at: str
    words: str


def folded(items: Sequence[Mapping[str, Any]]) -> list[DecisionLine]:
    """Return a line for each run of decisions of one kind, oldest first. Moves of shares that moved none are left out."""
    runs: list[list[Mapping[str, Any]]] = []
    latest: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for item in items:
        if item["about"] == "shares" and item["figures"]["before"] == item["figures"]["after"]:
            continue
        thread = (item["about"], item.get("unit", ""))
        run = latest.get(thread)
        # Each move of shares is another one.
        if run is not None and item["about"] != "shares" and run[-1]["branch"] == item["branch"]:
            run.append(item)
        else:
            latest[thread] = [item]
            runs.append(latest[thread])
    return sorted(map(line_of, runs), key=lambda line: line.at)


def line_of(run: Sequence[Mapping[str, Any]]) -> DecisionLine:
    """Return one line for decisions of one kind."""
    first, last = run[0], run[-1]
    more = len(run) - 1 + sum(item["figures"].get("repeated", 0) for item in run)
    since = first["figures"].get("since") or first["at"]
    words = (
        f"{last['words']} (and {more:,} more like it since {clock(since)[:-3]})" if more else last["words"]
    )
    return DecisionLine(last["at"], words)


def ledger_table(told: Mapping[str, Any]) -> Sheet:
    """Without the fates that no tuple has met."""
    items: Sequence[Mapping[str, Any]] = told["items"]
    met = [fate for fate in FATES if fate == FATES[0] or any(item[fate] for item in items)]
    # No fate is hidden: a tuple that is not shown would seem lost.
    table = plain_table("", ("class", "stream", *met), left=2, whole=True)
    for item in items:
        mark = "" if item["closes"] else "[bold red]"
        counts = (f"{mark}{item[fate]:,}" for fate in met)
        mark_ended = " [dim](ended)[/]" if item.get("ended") else ""
        table.add_row(escape(item["tenant"]), escape(item["stream"]) + mark_ended, *counts)
    table.caption = "\n".join([in_words(told), *map(rejection, told["rejected_at_gateways"])])
    return table


def rejection(stream: Mapping[str, Any]) -> str:
    """Return how many rows of a stream the gateway has rejected, which are in no account."""
    rows = f"{stream['rows']:,} rows of {stream['stream']}"
    return f"[yellow]{escape(rows)} were rejected before any class[/]: {escape(stream['reason'])}"


def in_words(told: Mapping[str, Any]) -> str:
    if not told["closes"]:
        return "[bold red]the accounts in red do not close[/]"
    broken = [escape(name) for name in told["given_up"]]
    if broken:
        return "\n".join(
            f"[bold red]{name} is given up[/]: its accounts are those of its last report; see weir explain {name}"
            for name in broken
        )
    return "every account closes" if told["items"] else "no class has reported yet"


def clock(at: str) -> str:
    """Of the day, to the hundredth."""
    return datetime.fromisoformat(at).strftime("%H:%M:%S.%f")[:-4]
