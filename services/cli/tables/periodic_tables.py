"""Tables of the results of `weir sim` with periodic queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.markup import escape

from configs.numbers import UNKNOWN, compact, exact, figure, percent
from services.cli.tables.cells import best, milliseconds, three_figures
from services.cli.tables.sheet import Sheet, findings_table
from sim.windows.periodic_results import metric_of, title_of, words_of

# Maximum number of sub-groups in a table (divided equally among the groups), and the minimum number per group.
# The most tardy sub-groups are shown first. The JSON output has all sub-groups.
SUB_GROUPS_TOLD, OF_EACH_TOLD = 24, 3


def schedules_table(answer: Mapping[str, Any]) -> Sheet:
    """Return a table with a line per schedule; the best figure of each column is in bold.

    Eager schedules keep the processor always busy, so their table has a column `sooner` instead of `busy s`.
    """
    rows: Sequence[Mapping[str, Any]] = answer["schedules"]
    eager = all(row["settings"]["eager"] for row in rows)

    def column(texts: Iterable[str], metric: str, sign: int = 1) -> list[str]:
        values = [metric_of(row, metric) for row in rows]
        return best(list(texts), [None if value is None else sign * value for value in values])

    columns = {
        "ans/s": column(map(per_second, rows), "throughput", sign=-1),
        "latency": column(map(latency, rows), "latency_updates"),
        "tardy ms": column((tardiness(row, "mean_ms") for row in rows), "tardiness.mean_ms"),
        "max": column((tardiness(row, "max_ms") for row in rows), "tardiness.max_ms"),
        "shared": [shared(row) for row in rows],
    }
    if eager:
        columns["sooner"] = [percent(row["shortened_pct"] / 100) for row in rows]
    else:
        columns["busy s"] = column((figure(row["busy_s"]) for row in rows), "busy_s")
    table = Sheet(escape(title_of(answer)), ("schedule", *columns))
    for place, schedule in enumerate(rows):
        table.add_row(escape(schedule["schedule"]), *(column[place] for column in columns.values()))
    return table


def groups_table(answer: Mapping[str, Any]) -> Sheet:
    """Return the table of one schedule: a line per group and, below each group, its most tardy sub-groups."""
    heads = ("group", "queries", "ans/s", "latency", "tardy ms", "max", "runs", "shared")
    table = Sheet(escape(title_of(answer)), heads)
    more, most = 0, max(OF_EACH_TOLD, SUB_GROUPS_TOLD // len(answer["groups"]))
    for group in answer["groups"]:
        subs = sorted(group["sub_groups"], key=lateness)
        if len(subs) == 1:
            table.add_row(f"{escape(group['name'])} {slides(subs[0])}", *figures(group), *runs(group))
            continue
        table.add_row(escape(group["name"]), *figures(group), *runs(group))
        more += len(subs[most:])
        for sub in subs[:most]:
            table.add_row(f"[dim]  {slides(sub)}[/]", *figures(sub), "", "")
    table.add_section()
    table.add_row("all", *figures(answer), *runs(answer))
    left = f"; {more} more sub-group{'s' if more > 1 else ''}: -o json" if more else ""
    table.caption = f"{percent(answer['utilisation'])} of the processor; {sooner(answer)}{left}"
    return table


def claims_table(claims: Sequence[Mapping[str, Any]]) -> Sheet:
    """Return a table of a paper's claims. A claim holds if the schedules are in the claimed order in this run."""
    return findings_table((*words_of(claim), claim["holds"], claim["source"]) for claim in claims)


def figures(one: Mapping[str, Any]) -> list[str]:
    """Return the texts of a table line for a sub-group, a group or a whole run."""
    return [
        f"{one['queries']:,}",
        per_second(one),
        latency(one),
        tardiness(one, "mean_ms"),
        tardiness(one, "max_ms"),
    ]


def runs(one: Mapping[str, Any]) -> list[str]:
    return [compact(one["runs"]), shared(one)]


def lateness(sub_group: Mapping[str, Any]) -> tuple[float, float]:
    """Return a sort key that puts the most tardy sub-groups first, and sub-groups without an answer last."""
    tardiness = sub_group["tardiness"]
    return (-tardiness["mean_ms"] if tardiness else 0.0, sub_group["slide_s"])


def slides(sub_group: Mapping[str, Any]) -> str:
    """Return the declared SLIDE of a sub-group. If the sub-group runs with a different period, also return the period."""
    slide, period = sub_group["slide_s"], sub_group["period_s"]
    text = f"{'≤' if sub_group['at_most'] else ''}{exact(slide)} s"
    return text if slide == period else f"{text}, every {exact(period)} s"


def sooner(answer: Mapping[str, Any]) -> str:
    return f"{percent(answer['shortened_pct'] / 100)} of the queries run sooner than they must"


def per_second(one: Mapping[str, Any]) -> str:
    value: float = one["throughput"]
    return f"{value:.3g}" if 1 <= value < 99.95 else f"{value:.2g}" if value < 1 else three_figures(value)


def latency(one: Mapping[str, Any]) -> str:
    return UNKNOWN if one["latency_updates"] is None else f"{one['latency_updates']:.2f}"


def tardiness(one: Mapping[str, Any], name: str) -> str:
    return UNKNOWN if one["tardiness"] is None else milliseconds(one["tardiness"][name])


def shared(one: Mapping[str, Any]) -> str:
    return percent(one["shared"] / one["runs"]) if one["runs"] else UNKNOWN
