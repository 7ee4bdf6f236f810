"""`weir explain | ledger`: the decisions about a class with their reasons, and the account of every tuple."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.markup import escape
from rich.text import Text

from configs.numbers import ago
from services.cli.service_location import service
from services.cli.shared_options import TenantArgument, TenantsArgument
from services.cli.tables.catalog_views import OutputOption, show
from services.cli.tables.sheet import Sheet

EXIT_BROKEN = 1
# Maximum number of decisions that the service returns.
DECISIONS_MOST = 1000
FATES = ("offered", "delivered", "shed", "late", "rejected", "failed", "queued")


def explain(
    tenant: TenantArgument = None,
    last: Annotated[int, typer.Option(min=1, max=1000, help="Number of decisions to show.")] = 10,
    output: OutputOption = "table",
) -> None:
    """Explain the state of a tenant's class and the last decisions about it. Exit code 1 if Weir has given up starting the class."""
    with service() as weir:
        # Repeated decisions share one line of the table, so a table of `last` lines may need more than `last` decisions.
        # For a table, the request therefore asks for the maximum number of decisions.
        answer = weir.live.explain(tenant, last if output in ("json", "yaml") else DECISIONS_MOST)
    show(output, answer, lambda: explanation(answer, last, datetime.now(UTC)))
    if answer["given_up"]:
        raise typer.Exit(EXIT_BROKEN)


def ledger(
    tenant: TenantsArgument = None,
    output: OutputOption = "table",
) -> None:
    """Show what happened to every row, by class and stream.

    Exit code 1 if rows are unaccounted for, or if Weir has given up starting a class.
    """
    with service() as weir:
        answer = weir.live.ledger(tenant)
    show(output, answer, lambda: ledger_table(answer))
    if not answer["closes"] or answer["given_up"]:
        raise typer.Exit(EXIT_BROKEN)


def explanation(told: Mapping[str, Any], last: int, now: datetime) -> Group:
    """Return a sentence about the state of the class and, below, a table of the last decisions. Repeated decisions share one line."""
    lines = folded(told["items"])
    table = Sheet("", ("at", "", "decision"), left=3, prose=(2,), has_heads=False)
    for at, words in lines[-last:]:
        since = datetime.fromisoformat(at)
        table.add_row(clock(at), ago(max(0.0, (now - since).total_seconds())), escape(words))
    sentence = Text(f"{told['tenant']}: {told['words']}")
    return Group(sentence, table) if table.rows else Group(sentence)


def folded(items: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the time and text of each series of equal decisions, oldest first. Moves of shares that changed no share are left out."""
    runs: list[list[Mapping[str, Any]]] = []
    latest: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for item in items:
        if item["about"] == "shares" and item["figures"]["before"] == item["figures"]["after"]:
            continue
        thread = (item["about"], item.get("unit", ""))
        run = latest.get(thread)
        # Every move of shares gets its own table line, because no two moves are equal.
        if run is not None and item["about"] != "shares" and run[-1]["branch"] == item["branch"]:
            run.append(item)
        else:
            latest[thread] = [item]
            runs.append(latest[thread])
    return sorted(map(line_of, runs), key=lambda line: line[0])


def line_of(run: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Return the time and text of the last decision in `run`. `run` is a series of equal decisions, oldest first."""
    first, last = run[0], run[-1]
    more = len(run) - 1 + sum(item["figures"].get("repeated", 0) for item in run)
    since = first["figures"].get("since") or first["at"]
    words = (
        f"{last['words']} (and {more:,} more like it since {clock(since)[:-3]})" if more else last["words"]
    )
    return last["at"], words


def ledger_table(told: Mapping[str, Any]) -> Sheet:
    """Return the ledger as a table. A fate that no tuple has met gets no column."""
    items: Sequence[Mapping[str, Any]] = told["items"]
    met = [fate for fate in FATES if fate == FATES[0] or any(item[fate] for item in items)]
    # No column is hidden on a narrow terminal: tuples in a hidden column would seem lost.
    table = Sheet("", ("class", "stream", *met), left=2, whole=True)
    for item in items:
        mark = "" if item["closes"] else "[bold red]"
        counts = (f"{mark}{item[fate]:,}" for fate in met)
        mark_ended = " [dim](ended)[/]" if item.get("ended") else ""
        table.add_row(escape(item["tenant"]), escape(item["stream"]) + mark_ended, *counts)
    table.caption = "\n".join([in_words(told), *map(rejection, told["rejected_at_gateways"])])
    return table


def rejection(stream: Mapping[str, Any]) -> str:
    """Return a line about the rows of a stream that the gateway rejected. Such rows reach no class, so no class's ledger counts them."""
    rows = f"{stream['rows']:,} rows of {stream['stream']}"
    return f"[yellow]{escape(rows)} were rejected before any class[/]: {escape(stream['reason'])}"


def in_words(told: Mapping[str, Any]) -> str:
    if not told["closes"]:
        return "[bold red]the accounts in red do not close[/]"
    broken = [escape(name) for name in told["given_up"]]
    if broken:
        return "\n".join(
            f"[bold red]{name} is given up[/]: its counts are from its last report; see weir explain {name}"
            for name in broken
        )
    return "every account closes" if told["items"] else "no class has reported yet"


def clock(at: str) -> str:
    """Return the time of day, to hundredths of a second."""
    return datetime.fromisoformat(at).strftime("%H:%M:%S.%f")[:-4]
