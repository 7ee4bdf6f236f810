"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from configs.scenario import Claim
    from services.cli.class_views import ClassView
    from sim.papers.finding import Finding
    from sim.promises import Promise
    from sim.replay import ReplayReport


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
    # Only what simulates has it, and what it needs, imported.
    from sim.report import length

    table = plain_table(
        f"{result['scenario']}, manager {result['manager']}, policy {result['policy']}, {length(result)}",
        ("class", "share", "input", "loss", "mean ms", "p95", "p99", "target", "utility", "queued"),
    )
    for one in result["classes"]:
        table.add_row(
            one["name"],
            f"{one['share']['original']:.2f}→{one['share']['mean']:.2f}",
            compact(one["offered"]),
            loss(one["loss_pct"]),
            milliseconds(one["response_ms"]["mean"]),
            against(one["response_ms"]["p95"], one["delay_target_ms"]),
            milliseconds(one["response_ms"]["p99"]),
            f"{one['delay_target_ms']:g}",
            "–" if one["utility"] is None else f"{one['utility']['mean']:.2f}",
            compact(one["queued"]),
        )
    return table


# Of a class, in the table of a run; the JSON has all.
QUERIES_TOLD = 5


def answers_table(result: Mapping[str, Any]) -> Table:
    """How good the answers of one run were: a line a class, and below it the queries that lost most by being late."""
    heads = ["class", "answers", "mean ms", "slow", "worth", "missed", "stale"]
    windows = any(one["tardiness"] for one in result["classes"])
    table = plain_table("answers", [*heads, "tardy"] if windows else heads, wrapped=0)
    more = 0
    for one in result["classes"]:
        utility, slowdown, staleness = one["utility"], one["slowdown"], one["staleness"]
        table.add_row(
            escape(one["name"]),
            compact(one["results"]),
            milliseconds(one["response_ms"]["mean"]),
            times(slowdown["mean"]) if slowdown else "–",
            worth(utility["mean"]) if utility else "–",
            missed_of(utility["missed"], one["results"]) if utility else "–",
            parts(staleness["mean"]) if staleness else "–",
            *([tardy(one["tardiness"])] if windows else []),
        )
        late = {name: told for name, told in (one["queries"] or {}).items() if is_late(told)}
        worst = sorted(late, key=lambda name: (late[name]["utility"], -late[name]["missed"]))
        more += len(worst[QUERIES_TOLD:])
        for name in worst[:QUERIES_TOLD]:
            told = late[name]
            table.add_row(
                f"[dim]  {escape(name)}[/]",
                compact(told["results"]),
                against(told["mean_ms"], told["deadline_ms"]),
                times(told["slowdown"]),
                worth(told["utility"]),
                missed_of(told["missed"], told["results"]),
                parts(told["staleness"]),
                *([tardy(told["tardiness"])] if windows else []),
            )
    if more:
        table.caption, table.caption_justify = f"{more} more queries answered late: --json", "left"
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
    "utility.lost": "utility lost",
    "utility.missed_pct": "late %",
    "memory.mean": "memory",
    "memory.max": "max",
    "tardiness.mean_ms": "tardy ms",
}


def policy_tables(title: str, rows: Mapping[str, Mapping[str, Any]]) -> Group:
    """Several level-2 policies side by side, of each class, the best of each column marked."""
    names = [one["name"] for one in next(iter(rows.values()))["classes"]]
    return Group(
        *(
            metric_table(f"{title}; class {escape(name)}" if len(names) > 1 else title, rows, heads, place)
            for place, name in enumerate(names)
            for heads in (TIMES, OTHERS)
        )
    )


def metric_table(
    title: str, rows: Mapping[str, Mapping[str, Any]], heads: Mapping[str, str], place: int
) -> Table:
    """Of the class at this place; what a class has nothing of has no column."""
    columns = {
        head: [metric_of(result, metric, place) for result in rows.values()] for metric, head in heads.items()
    }
    had = {head: [one for one in column if one is not None] for head, column in columns.items()}
    shown = {head: marked(column) for head, column in had.items() if len(column) == len(rows)}
    table = plain_table(title, ("policy", *shown))
    for row, name in enumerate(rows):
        table.add_row(name, *(column[row] for column in shown.values()))
    return table


def marked(values: Sequence[float]) -> list[str]:
    """The least of them stand out."""
    least = min(values)
    texts = [four_figures(one) for one in values]
    return [
        f"[bold green]{text}[/]" if one == least else text for one, text in zip(values, texts, strict=True)
    ]


def claim_table(claims: Sequence[Claim], rows: Mapping[str, Mapping[str, Any]]) -> Table:
    """What a paper found beside what this run gives its first class; the claim holds if the order does."""
    table = plain_table("the paper's findings", ("finding", "claimed", "here", "holds", "source"))
    for claim in claims:
        if claim.policy not in rows or claim.below not in rows:
            continue
        # Without windows nothing is tardy, under any policy.
        got, other = (metric_of(rows[one], claim.metric) or 0.0 for one in (claim.policy, claim.below))
        table.add_row(
            f"{claim.metric}: {claim.policy} below {claim.below}",
            f"−{claim.by_pct:g}%",
            f"{100 * (got / other - 1):+.0f}%".replace("-", "−") if other else "–",
            "[green]yes[/]" if got < other else "[red]no[/]",
            claim.source,
        )
    return table


def finding_table(title: str, findings: Sequence[Finding]) -> Table:
    """What a paper claims beside what came out, as wide as the terminal; all but the mark may take several lines."""
    table = plain_table(escape(title), ("", "claim", "claimed", "got"), left=4)
    table.expand = True
    for column, ratio in zip(table.columns, (None, 5, 2, 3), strict=True):
        column.no_wrap, column.ratio = ratio is None, ratio
    for one in findings:
        mark = "[green]✓[/]" if one.holds else "[bold red]✗[/]"
        table.add_row(
            mark, f"{escape(one.claim)}\n[dim]{escape(one.where)}[/]", escape(one.claimed), escape(one.got)
        )
    return table


def four_figures(value: float) -> str:
    """Without exponents, which are wide and hard to compare; three of them where thousands are told apart."""
    if value >= 99_999.5:
        return compact(value)
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def metric_of(result: Mapping[str, Any], metric: str, place: int = 0) -> float | None:
    """A metric of a class, by its path; None if the class has nothing of the kind, such as tardiness without windows."""
    group, name = metric.split(".")
    told = result["classes"][place][group]
    value: float | None = None if told is None else told[name]
    return value


def promise_table(promises: Sequence[Promise]) -> Table:
    table = plain_table("promises", ("promise", "", "measured"), left=3, wrapped=2)
    for one in promises:
        table.add_row(one.text, "[green]✓ kept[/]" if one.kept else "[bold red]✗ broken[/]", one.detail)
    return table


def replay_table(title: str, report: ReplayReport) -> Table:
    """A replayed run, a line a core."""
    table = plain_table(title, ("core", "name", "lives", "events", "decisions", "agree"), left=2)
    for core in report.cores:
        table.add_row(
            core.core,
            f"{core.folder}/{core.name}" if core.folder else core.name,
            f"{len(core.lives):,}",
            f"{sum(life.events for life in core.lives):,}",
            f"{sum(life.decisions for life in core.lives):,}",
            "[green]yes[/]" if core.agrees else "[bold red]no[/]",
        )
    return table


def class_view_table(title: str, views: Sequence[ClassView]) -> Table:
    """The classes of a running system at this moment: milliseconds, and processor-seconds lent and borrowed."""
    table = plain_table(
        title,
        ("class", "share/own", "head", "load", "p50", "p99/target", "drop", "queue", "lent/got", "res/s"),
        wrapped=0,
    )
    for one in views:
        figures, target = one.figures, f"/{one.settings.delay_target_ms:g}"
        if not one.units:
            table.add_row(f"[dim]{escape(one.name)}[/]", share_of(one), *["–"] * 8)
            continue
        table.add_row(
            f"[dim]{escape(one.name)}[/]" if one.asleep else escape(one.name),
            share_of(one),
            f"{figures.headroom:.2f}",
            f"{figures.load:.2f}",
            milliseconds(figures.p50_ms),
            against(figures.p99_ms, one.settings.delay_target_ms) + target,
            "–" if one.settings.lossless else f"{one.drop:.0%}",
            compact(figures.queued),
            f"{three_figures(one.lent_s)}/{three_figures(one.borrowed_s)}",
            compact(figures.results_per_s),
        )
    told = [policy_of(one) for one in views if one.tunes_itself or one.settings.objective != "response"]
    if told:
        more = f"; {len(told) - POLICIES_TOLD} more" if len(told) > POLICIES_TOLD else ""
        table.caption, table.caption_justify = escape("; ".join(told[:POLICIES_TOLD]) + more), "left"
    return table


# Below a table; the others are in `weir explain`.
POLICIES_TOLD = 5


def policy_of(one: ClassView) -> str:
    """What a class is for, and by which policy it runs for it."""
    chosen = ", chosen by itself" if one.tunes_itself else ""
    return f"{one.name} for {one.settings.objective} by {one.policy}{chosen}"


def class_quality_table(title: str, views: Sequence[ClassView]) -> Table:
    """How good the answers of classes are: of the last seconds, and all missed deadlines from the beginning."""
    # In the place of bytes, for both of which there is no room.
    windows = any(one.figures.tardiness.get("due") for one in views)
    heads = ["class", "worth", "missed", "in all", "stale", *(["tardy"] if windows else [])]
    heads += ["mean/target", "slow", "queue", *([] if windows else ["bytes"]), "res/s"]
    table = plain_table(title, heads, wrapped=0)
    for one in views:
        figures, target = one.figures, one.settings.delay_target_ms
        if not one.units:
            table.add_row(f"[dim]{escape(one.name)}[/]", *["–"] * (len(heads) - 1))
            continue
        table.add_row(
            f"[dim]{escape(one.name)}[/]" if one.asleep else escape(one.name),
            worth(figures.utility_now),
            parts(figures.missed_now),
            compact(figures.utility.get("missed", 0)),
            parts(figures.staleness_now),
            *([parts(figures.tardy_now) if figures.tardiness.get("due") else "–"] if windows else []),
            f"{against(figures.mean_ms, target)}/{target:g}",
            times(figures.slowdown_now),
            compact(figures.queued),
            *([] if windows else [compact(figures.queue_bytes)]),
            compact(figures.results_per_s),
        )
    return table


def quality_table(told: Mapping[str, Any]) -> Table:
    """The queries of a tenant as the service tells of them."""
    heads = ["query", "answers", "ms/deadline", "slow", "worth", "missed", "stale"]
    windows = any(one["tardiness"] for one in told["items"])
    table = plain_table("", [*heads, "tardy"] if windows else heads, wrapped=0)
    table.title = None
    for one in told["items"]:
        answers, missed = one["answers"], one["utility"]["missed"]
        table.add_row(
            escape(one["query"]),
            compact(answers),
            f"{against(one['mean_ms'], one['deadline_ms'])}/{one['deadline_ms']:.5g}",
            times(one["slowdown"]),
            worth(one["utility"]["mean"]) if answers else "–",
            missed_of(missed, answers),
            parts(one["staleness"]),
            *([tardy(one["tardiness"])] if windows else []),
        )
    if not told["items"]:
        table.caption, table.caption_justify = f"nothing of {told['tenant']} has reported", "left"
    return table


def tardy(told: Mapping[str, Any] | None) -> str:
    """The part of a window's answers that came late."""
    due = told.get("answers", told.get("due", 0)) if told else 0
    return parts(told["tardy"] / due) if told and due else "–"


def is_late(query: Mapping[str, Any]) -> bool:
    """Whether any answer of it came after a deadline, by its graph or of its window."""
    return bool(query["missed"] or (query["tardiness"] and query["tardiness"]["tardy"]))


def missed_of(missed: float, answers: int) -> str:
    """Answers after their deadlines, and which part that is."""
    return compact(missed) + (f" ({parts(missed / answers)})" if missed and answers else "")


def worth(utility: float) -> str:
    """Green while all of it is had, red from half of it down."""
    mark = "[green]" if utility > 0.995 else "[red]" if utility < 0.5 else ""
    return f"{mark}{utility:.2f}{'[/]' if mark else ''}"


def times(slowdown: float) -> str:
    """How many times as long as alone."""
    return three_figures(slowdown) if slowdown else "–"


def parts(ratio: float) -> str:
    """In percent; what is not nothing is not shown as nothing."""
    return "<1%" if 0 < ratio < 0.005 else f"{ratio:.0%}"


def share_of(one: ClassView) -> str:
    """Green where more than the class's own share, yellow where less."""
    beyond = one.share - one.original
    mark = "[green]" if beyond > 0.005 else "[yellow]" if beyond < -0.005 else "[dim]"
    return f"{mark}{one.share:.2f}[/]/{one.original:.2f}"


def compact(count: float) -> str:
    """Three figures and the thousands."""
    for above, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= 0.9995 * above:
            return f"{count / above:.3g}{unit}"
    return f"{count:.0f}"


def three_figures(value: float) -> str:
    return f"{value:.1f}" if value < 99.95 else compact(value)


def against(value: float, target: float) -> str:
    text = milliseconds(value)
    return f"[red]{text}[/]" if value > target else text


def loss(percent: float) -> str:
    return "[green]0%[/]" if percent == 0 else f"{percent:.2f}%"
