"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rich import box
from rich.table import Table

from configs.scenario import Claim
from sim.promises import Promise
from sim.simulation import Simulation


def milliseconds(value: float) -> str:
    """Three figures, whatever the size."""
    if value >= 10_000:
        return f"{value / 1e3:,.0f}s"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def plain_table(title: str, columns: Sequence[str], left: int = 1, wrapped: int | None = None) -> Table:
    """A table without frame; the first `left` columns are text, column `wrapped` may take several lines."""
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False
    )
    for place, column in enumerate(columns):
        justify: Literal["left", "right"] = "left" if place < left else "right"
        table.add_column(column, justify=justify, no_wrap=place != wrapped)
    return table


def result_table(result: Mapping[str, Any]) -> Table:
    """One run, a line a class."""
    table = plain_table(
        f"{result['scenario']}, manager {result['manager']}, policy {result['policy']}, "
        f"{result['seconds']:g} s, seed {result['seed']}",
        ("class", "share", "offered", "loss", "mean ms", "p95", "p99", "target", "queued"),
    )
    for one in result["classes"]:
        table.add_row(
            one["name"],
            f"{one['share']['original']:.2f}→{one['share']['mean']:.2f}",
            f"{one['offered']:,}",
            loss(one["loss_pct"]),
            milliseconds(one["response_ms"]["mean"]),
            against(one["response_ms"]["p95"], one["delay_target_ms"]),
            milliseconds(one["response_ms"]["p99"]),
            f"{one['delay_target_ms']:g}",
            f"{one['queued']:,}",
        )
    return table


def compare_table(title: str, rows: Mapping[str, Mapping[str, Any]]) -> Table:
    """Several runs of one scenario, a block a manager and a line a class."""
    table = plain_table(
        title,
        ("manager", "class", "loss", "mean ms", "p95", "target", "share", "overhead"),
        left=2,
    )
    for name, result in rows.items():
        for place, one in enumerate(result["classes"]):
            table.add_row(
                name if place == 0 else "",
                one["name"],
                loss(one["loss_pct"]),
                milliseconds(one["response_ms"]["mean"]),
                against(one["response_ms"]["p95"], one["delay_target_ms"]),
                f"{one['delay_target_ms']:g}",
                f"{one['share']['mean']:.3f}",
                f"{result['scheduling_overhead_pct']:.1f}%" if place == 0 else "",
                end_section=place == len(result["classes"]) - 1,
            )
        if not result["ledger_closed"]:
            table.add_row(name, "[bold red]the ledger is open[/]")
    return table


def policy_table(title: str, rows: Mapping[str, Mapping[str, Any]]) -> Table:
    """Several level-2 policies side by side, the best of each column marked."""
    metrics = (
        "response_ms.mean",
        "response_ms.max",
        "response_ms.l2",
        "slowdown.mean",
        "slowdown.max",
        "slowdown.l2",
    )
    values = {name: [metric_of(result, metric) for metric in metrics] for name, result in rows.items()}
    best = [min(column) for column in zip(*values.values(), strict=True)]
    heads = ("mean ms", "max ms", "ℓ2 ms", "slowdown mean", "max", "ℓ2")
    table = plain_table(title, ("policy", *heads))
    for name, row in values.items():
        table.add_row(
            name,
            *(
                f"[bold green]{one:,.4g}[/]" if one == least else f"{one:,.4g}"
                for one, least in zip(row, best, strict=True)
            ),
        )
    return table


def claim_table(claims: Sequence[Claim], rows: Mapping[str, Mapping[str, Any]]) -> Table:
    """What a paper found beside what this run gives; the claim holds if the order does."""
    table = plain_table("the paper's findings", ("finding", "claimed", "here", "holds", "source"))
    for claim in claims:
        if claim.policy not in rows or claim.below not in rows:
            continue
        got = metric_of(rows[claim.policy], claim.metric)
        other = metric_of(rows[claim.below], claim.metric)
        table.add_row(
            f"{claim.metric}: {claim.policy} below {claim.below}",
            f"−{claim.by_pct:g}%",
            f"{100 * (got / other - 1):+.0f}%".replace("-", "−") if other else "–",
            "[green]yes[/]" if got < other else "[red]no[/]",
            claim.source,
        )
    return table


def metric_of(result: Mapping[str, Any], metric: str) -> float:
    """A metric of the scenario's first class, by its path."""
    group, name = metric.split(".")
    value: float = result["classes"][0][group][name]
    return value


def promise_table(promises: Sequence[Promise]) -> Table:
    table = plain_table("promises", ("promise", "", "measured"), left=3, wrapped=2)
    for one in promises:
        table.add_row(one.text, "[green]✓ kept[/]" if one.kept else "[bold red]✗ broken[/]", one.detail)
    return table


def live_table(run: Simulation) -> Table:
    """The classes at this moment of the run."""
    table = plain_table(
        f"{run.scenario.name} under {run.manager}, {run.now:6.1f} of {run.scenario.seconds:g} s",
        (
            "class",
            "share/original",
            "headroom",
            "load",
            "resp. ms",
            "target",
            "drop",
            "queued",
            "shed",
        ),
    )
    for name, host in run.hosts.items():
        series = run.series.classes[name]
        if not series.at_s:
            continue
        share, original = series.share[-1], run.originals[name]
        mark = "[green]" if share > original + 0.005 else "[yellow]" if share < original - 0.005 else "[dim]"
        response = next((ms for ms in reversed(series.response_ms[-20:]) if ms is not None), 0.0)
        table.add_row(
            name,
            f"{mark}{share:.3f}[/] / {original:.3f}",
            shown_or_dash(series.headroom[-1]),
            shown_or_dash(series.load[-1]),
            against(response, host.settings.delay_target_ms),
            f"{host.settings.delay_target_ms:g}",
            f"{series.drop[-1]:.1%}",
            f"{series.queued[-1]:,}",
            f"{host.ledger().shed:,}",
        )
    return table


def against(value: float, target: float) -> str:
    text = milliseconds(value)
    return f"[red]{text}[/]" if value > target else text


def loss(percent: float) -> str:
    return "[green]0%[/]" if percent == 0 else f"{percent:.2f}%"


def shown_or_dash(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
