"""Tables of the results of `weir sim` and `weir demo`: runs, comparisons, claims of papers, replays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.markup import escape

from configs.numbers import UNKNOWN, compact, exact, percent
from services.cli.tables.cells import (
    against,
    best,
    four_figures,
    is_late,
    loss,
    missed_of,
    response,
    tardy,
    times,
    worth,
)
from services.cli.tables.sheet import Sheet, findings_table, table_of

if TYPE_CHECKING:
    from configs.scenario.scenario import Claim
    from sim.outcome.outcome import Outcome
    from sim.outcome.promises import Promise
    from sim.replay import CoreReport, ReplayReport

RESULT_COLUMNS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "class": lambda class_: class_["name"],
    "share": lambda class_: f"{class_['share']['original']:.2f}→{class_['share']['mean']:.2f}",
    "input": lambda class_: compact(class_["offered"]),
    "loss": lambda class_: loss(class_["loss_pct"]),
    "mean ms": lambda class_: response(class_["response_ms"]["mean"]),
    "p95": lambda class_: against(class_["response_ms"]["p95"], class_["delay_target_ms"]),
    "p99": lambda class_: response(class_["response_ms"]["p99"]),
    "target": lambda class_: exact(class_["delay_target_ms"]),
    "utility": lambda class_: UNKNOWN if class_["utility"] is None else f"{class_['utility']['mean']:.2f}",
    "queued": lambda class_: compact(class_["queued"]),
}


def result_table(result: Mapping[str, Any]) -> Sheet:
    """Return the table of one run, with a line per class."""
    # The simulator is imported when it is needed, so that commands without a simulation do not wait for the import.
    from sim.outcome.report import length

    title = f"{result['scenario']}, manager {result['manager']}, policy {result['policy']}, {length(result)}"
    return table_of(title, RESULT_COLUMNS, result["classes"])


def outcome_tables(outcome: Outcome, promises: Sequence[Promise]) -> Group:
    return Group(result_table(outcome.result), answers_table(outcome.result), promise_table(promises))


# Number of queries per class in the table of a run; the JSON output has all queries.
QUERIES_TOLD = 5


def answers_table(result: Mapping[str, Any]) -> Sheet:
    """Return a table of the quality of a run's answers: a line per class and, below it, the queries that lost most by late answers."""
    heads = ["class", "answers", "mean ms", "slow", "worth", "missed", "stale"]
    windows = any(class_["tardiness"] for class_ in result["classes"])
    table = Sheet("answers", [*heads, "tardy"] if windows else heads)
    more = 0
    for class_ in result["classes"]:
        utility, slowdown, staleness = class_["utility"], class_["slowdown"], class_["staleness"]
        table.add_row(
            escape(class_["name"]),
            compact(class_["results"]),
            response(class_["response_ms"]["mean"]),
            times(slowdown["mean"]) if slowdown else UNKNOWN,
            worth(utility["mean"]) if utility else UNKNOWN,
            missed_of(utility["missed"], class_["results"]) if utility else UNKNOWN,
            percent(staleness["mean"]) if staleness else UNKNOWN,
            *([tardy(class_["tardiness"])] if windows else []),
        )
        late = {name: query for name, query in (class_["queries"] or {}).items() if is_late(query)}
        worst = sorted(late, key=lambda name: (late[name]["utility"], -late[name]["missed"]))
        more += len(worst[QUERIES_TOLD:])
        for name in worst[:QUERIES_TOLD]:
            query = late[name]
            table.add_row(
                f"[dim]  {escape(name)}[/]",
                compact(query["results"]),
                against(query["mean_ms"], query["deadline_ms"]),
                times(query["slowdown"]),
                worth(query["utility"]),
                missed_of(query["missed"], query["results"]),
                percent(query["staleness"]),
                *([tardy(query["tardiness"])] if windows else []),
            )
    if more:
        table.caption = f"{more} more queries answered late: -o json"
    return table


def compare_table(title: str, rows: Mapping[str, Mapping[str, Any]]) -> Sheet:
    """Return a table of several runs of one scenario: a block per manager, with a line per class."""
    heads = ("manager", "class", "loss", "mean ms", "p95", "target", "share", "overhead")
    table = Sheet(title, heads, left=2)
    for name, result in rows.items():
        for place, class_ in enumerate(result["classes"]):
            figures = [RESULT_COLUMNS[head](class_) for head in ("class", "loss", "mean ms", "p95", "target")]
            cells = (
                name if place == 0 else "",
                *figures,
                f"{class_['share']['mean']:.3f}",
                f"{result['scheduling_overhead_pct']:.1f}%" if place == 0 else "",
            )
            table.add_row(*cells, end_section=place == len(result["classes"]) - 1)
        if not result["ledger_closed"]:
            table.add_row(name, "[bold red]the ledger does not close[/]")
    return table


TIMES = {
    "response_ms.mean": "mean ms",
    "response_ms.max": "max ms",
    "response_ms.l2": "ℓ2 ms",
    "slowdown.mean": "slowdown mean",
    "slowdown.max": "max",
    "slowdown.l2": "ℓ2",
}

OTHERS = {
    "staleness.mean": "staleness",
    "unevenness.mean": "uneven",
    "utility.lost": "utility lost",
    "utility.missed_pct": "late %",
    "memory.mean": "memory",
    "memory.max": "max",
    "tardiness.mean_ms": "tardy ms",
}


def policy_tables(title: str, rows: Mapping[str, Mapping[str, Any]]) -> Group:
    """Return a table for each class that compares policies; the best figure of each column is in bold."""
    names = [class_["name"] for class_ in next(iter(rows.values()))["classes"]]
    return Group(
        *(
            metric_table(f"{title}; class {escape(name)}" if len(names) > 1 else title, rows, heads, place)
            for place, name in enumerate(names)
            for heads in (TIMES, OTHERS)
        )
    )


def metric_table(
    title: str, rows: Mapping[str, Mapping[str, Any]], heads: Mapping[str, str], place: int
) -> Sheet:
    """Return a table of one class with a line per policy; a metric gets a column only if all policies have a value."""
    columns = {
        head: [metric_of(result, metric, place) for result in rows.values()] for metric, head in heads.items()
    }
    had = {head: [value for value in column if value is not None] for head, column in columns.items()}
    shown = {
        head: best(list(map(four_figures, column)), column)
        for head, column in had.items()
        if len(column) == len(rows)
    }
    table = Sheet(title, ("policy", *shown))
    for row, name in enumerate(rows):
        table.add_row(name, *(column[row] for column in shown.values()))
    return table


def claim_table(claims: Sequence[Claim], rows: Mapping[str, Mapping[str, Any]]) -> Sheet:
    """Return a table of a paper's claims. A claim names a better and a worse policy. The claim holds if the better policy has the lower value for the first class."""
    findings = []
    for claim in claims:
        if claim.policy not in rows or claim.below not in rows:
            continue
        # A run without windows has no tardiness, so its tardiness counts as 0 under each policy.
        got, other = (metric_of(rows[policy], claim.metric) or 0.0 for policy in (claim.policy, claim.below))
        finding = f"{claim.metric}: {claim.policy} below {claim.below}"
        here = f"{100 * (got / other - 1):+.0f}%".replace("-", "−") if other else UNKNOWN
        findings.append((finding, f"−{exact(claim.by_pct)}%", here, got < other, claim.source))
    return findings_table(findings)


def metric_of(result: Mapping[str, Any], metric: str, place: int = 0) -> float | None:
    """Return a metric of a class by its path, such as `tardiness.mean_ms`; None if the class does not have this metric."""
    group, name = metric.split(".")
    group_of_class = result["classes"][place][group]
    value: float | None = None if group_of_class is None else group_of_class[name]
    return value


def promise_table(promises: Sequence[Promise]) -> Sheet:
    table = Sheet("promises", ("promise", "", "measured"), left=3, prose=(0, 2))
    for promise in promises:
        mark = "[green]✓ kept[/]" if promise.kept else "[bold red]✗ broken[/]"
        table.add_row(escape(promise.text), mark, escape(promise.detail))
    return table


REPLAY_COLUMNS: Mapping[str, Callable[[CoreReport], str]] = {
    "core": lambda core: core.core,
    "name": lambda core: f"{core.folder}/{core.name}" if core.folder else core.name,
    "lives": lambda core: f"{len(core.lives):,}",
    "events": lambda core: f"{sum(life.events for life in core.lives):,}",
    "decisions": lambda core: f"{sum(life.decisions for life in core.lives):,}",
    "agree": lambda core: "[green]yes[/]" if core.agrees else "[bold red]no[/]",
}


def replay_table(title: str, report: ReplayReport) -> Sheet:
    """Return the table of a replayed run, with a line per decision-making component (core)."""
    return table_of(title, REPLAY_COLUMNS, report.cores, left=2)
