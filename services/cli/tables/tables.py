"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.markup import escape

from configs.numbers import UNKNOWN, compact, exact, figure, percent
from services.cli.tables.sheet import Sheet
from services.watch.losses import failing
from services.watch.states import TROUBLED, WARNED, State

if TYPE_CHECKING:
    from actors.messages.unit_messages import Failure
    from configs.scenario.scenario import Claim
    from services.watch.class_views import ClassView
    from sim.outcome.promises import Promise
    from sim.papers.claim import Finding
    from sim.replay import ReplayReport


def milliseconds(value: float) -> str:
    """Return milliseconds with three figures, for a column of them; many are shown as seconds."""
    if value >= 10_000:
        return f"{value / 1e3:,.0f}s" if value < 1e9 else f"{compact(value / 1e3)}s"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def response(ms: float) -> str:
    """Return a response time, or a dash without answers."""
    return milliseconds(ms) if ms else UNKNOWN


def plain_table(
    title: str,
    columns: Sequence[str],
    left: int = 1,
    wrapped: int | Sequence[int] = (),
    least: Sequence[str] = (),
    whole: bool = False,
) -> Sheet:
    """Return a table without frame: the first `left` columns are text, `wrapped` are prose, `least` are hidden first."""
    prose = (wrapped,) if isinstance(wrapped, int) else wrapped
    return Sheet(columns, title, left, prose, least=least, whole=whole)


def result_table(result: Mapping[str, Any]) -> Sheet:
    """One run, a line a class."""
    # Only what simulates has it, and what it needs, imported.
    from sim.outcome.report import length

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
            response(one["response_ms"]["mean"]),
            against(one["response_ms"]["p95"], one["delay_target_ms"]),
            response(one["response_ms"]["p99"]),
            exact(one["delay_target_ms"]),
            UNKNOWN if one["utility"] is None else f"{one['utility']['mean']:.2f}",
            compact(one["queued"]),
        )
    return table


# Of a class, in the table of a run; the JSON has all.
QUERIES_TOLD = 5


def answers_table(result: Mapping[str, Any]) -> Sheet:
    """How good the answers of one run were: a line a class, and below it the queries that lost most by being late."""
    heads = ["class", "answers", "mean ms", "slow", "worth", "missed", "stale"]
    windows = any(one["tardiness"] for one in result["classes"])
    table = plain_table("answers", [*heads, "tardy"] if windows else heads)
    more = 0
    for one in result["classes"]:
        utility, slowdown, staleness = one["utility"], one["slowdown"], one["staleness"]
        table.add_row(
            escape(one["name"]),
            compact(one["results"]),
            response(one["response_ms"]["mean"]),
            times(slowdown["mean"]) if slowdown else UNKNOWN,
            worth(utility["mean"]) if utility else UNKNOWN,
            missed_of(utility["missed"], one["results"]) if utility else UNKNOWN,
            percent(staleness["mean"]) if staleness else UNKNOWN,
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
                percent(told["staleness"]),
                *([tardy(told["tardiness"])] if windows else []),
            )
    if more:
        table.caption = f"{more} more queries answered late: -o json"
    return table


def compare_table(title: str, rows: Mapping[str, Mapping[str, Any]]) -> Sheet:
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
                response(one["response_ms"]["mean"]),
                against(one["response_ms"]["p95"], one["delay_target_ms"]),
                exact(one["delay_target_ms"]),
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
) -> Sheet:
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
    texts = [four_figures(value) for value in values]
    return [
        f"[bold green]{text}[/]" if one == least else text for one, text in zip(values, texts, strict=True)
    ]


def claim_table(claims: Sequence[Claim], rows: Mapping[str, Mapping[str, Any]]) -> Sheet:
    """What a paper found beside what this run gives its first class; the claim holds if the order does."""
    table = plain_table("the paper's findings", ("finding", "claimed", "here", "holds", "source"), wrapped=0)
    for claim in claims:
        if claim.policy not in rows or claim.below not in rows:
            continue
        # Without windows nothing is tardy, under any policy.
        got, other = (metric_of(rows[one], claim.metric) or 0.0 for one in (claim.policy, claim.below))
        table.add_row(
            f"{claim.metric}: {claim.policy} below {claim.below}",
            f"−{exact(claim.by_pct)}%",
            f"{100 * (got / other - 1):+.0f}%".replace("-", "−") if other else UNKNOWN,
            "[green]yes[/]" if got < other else "[red]no[/]",
            claim.source,
        )
    return table


def finding_table(title: str, findings: Sequence[Finding]) -> Sheet:
    """Return a table of what a paper claims and what came out."""
    table = plain_table(escape(title), ("", "claim", "claimed", "got"), left=4, wrapped=(1, 2, 3))
    for finding in findings:
        mark = "[green]✓[/]" if finding.holds else "[bold red]✗[/]"
        table.add_row(
            mark,
            f"{escape(finding.claim)}\n[dim]{escape(finding.where)}[/]",
            escape(finding.claimed),
            escape(finding.got),
        )
    return table


def four_figures(value: float) -> str:
    """Without exponents, which are wide and hard to compare; three of them where thousands are told apart."""
    if value >= 99_999.5:
        return compact(value)
    return f"{value:,.0f}" if value >= 999.95 else f"{value:.4g}" if value >= 0.0001 else figure(value)


def metric_of(result: Mapping[str, Any], metric: str, place: int = 0) -> float | None:
    """A metric of a class, by its path; None if the class has nothing of the kind, such as tardiness without windows."""
    group, name = metric.split(".")
    told = result["classes"][place][group]
    value: float | None = None if told is None else told[name]
    return value


def promise_table(promises: Sequence[Promise]) -> Sheet:
    table = plain_table("promises", ("promise", "", "measured"), left=3, wrapped=(0, 2))
    for promise in promises:
        mark = "[green]✓ kept[/]" if promise.kept else "[bold red]✗ broken[/]"
        table.add_row(escape(promise.text), mark, escape(promise.detail))
    return table


def replay_table(title: str, report: ReplayReport) -> Sheet:
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


def class_view_table(title: str, views: Sequence[ClassView]) -> Sheet:
    """The classes of a running system at this moment: milliseconds, and processor-seconds lent and borrowed."""
    table = plain_table(
        title,
        ("class", "share/own", "head", "load", "p50", "p99/target", "drop", "queue", "lent/got", "res/s"),
        least=("lent/got", "head", "p50"),
        wrapped=0,
    )
    for view in views:
        figures, target = view.figures, f"/{exact(view.settings.delay_target_ms)}"
        if not view.units or view.condition.state is State.GIVEN_UP:
            table.add_row(name_of(view), share_of(view), *[UNKNOWN] * 8)
            continue
        answers = figures.results_per_s > 0
        table.add_row(
            name_of(view),
            share_of(view),
            f"{figures.headroom:.2f}",
            f"{figures.load:.2f}",
            response(figures.p50_ms) if answers else UNKNOWN,
            (against(figures.p99_ms, view.settings.delay_target_ms) if answers else UNKNOWN) + target,
            UNKNOWN if view.settings.lossless else f"{view.drop:.0%}",
            compact(figures.queued),
            f"{three_figures(view.lent_s)}/{three_figures(view.borrowed_s)}",
            compact(figures.results_per_s),
        )
    told = [policy_of(view) for view in views if view.tunes_itself or view.settings.objective != "response"]
    late = late_rows(
        [(view.name, view.figures.late_now) for view in views if view.condition.state is not State.LATE]
    )
    failed = failed_rows(
        [(shown.name, shown.failures) for shown in views if shown.condition.state is not State.LOSING]
    )
    lines = state_lines(views) + [escape(shortened(parts)) for parts in (late, failed, told) if parts]
    table.caption = "\n".join(lines)
    return table


def shortened(parts: Sequence[str]) -> str:
    """Return the first parts in one line, with the number of the others."""
    more = f"; {len(parts) - POLICIES_TOLD} more" if len(parts) > POLICIES_TOLD else ""
    return "; ".join(parts[:POLICIES_TOLD]) + more


# A smaller part of late rows is not shown.
LATE_LEAST = 0.005


def late_rows(classes: Sequence[tuple[str, Mapping[str, float]]]) -> list[str]:
    """Return which part of the rows of each class's streams was late, as far as it is worth a word, the largest first."""
    shares = [(part, stream, name) for name, streams in classes for stream, part in streams.items()]
    worst = sorted((share for share in shares if share[0] >= LATE_LEAST), key=lambda one: (-one[0], *one[1:]))
    return [f"late rows: {part:.0%} of {stream} in {name}" for part, stream, name in worst]


def failed_rows(classes: Sequence[tuple[str, Sequence[Failure]]]) -> list[str]:
    """Return which part of the rows of each class's queries fails, as far as it is a problem, the largest first."""
    losses = [(loss.part, loss.query, name) for name, failures in classes for loss in failing(failures)]
    return [
        f"failed rows: {part:.0%} of {query} in {name}"
        for part, query, name in sorted(losses, key=lambda loss: (-loss[0], *loss[1:]))
    ]


# Number of classes with an explanation below a table; `weir explain` explains the others.
STATES_SHOWN = 8
COLOURS = {
    **dict.fromkeys(TROUBLED, "bold red"),
    **dict.fromkeys(WARNED, "yellow"),
    **dict.fromkeys((State.IDLE, State.STARTING, State.NO_QUERIES), "dim"),
}


def name_of(one: ClassView) -> str:
    """Return the name of a class in the colour of its state."""
    return coloured(one.name, one.condition.state)


def coloured(text: str, state: State) -> str:
    colour = COLOURS.get(state)
    return f"[{colour}]{escape(text)}[/]" if colour else escape(text)


# Units report with each load cycle; older figures are those of a class inside a long call.
SILENT_S = 3.0


def state_lines(views: Sequence[ClassView]) -> list[str]:
    """Return a line for each class that is not well, the most serious first, and one for all that have nothing to do."""
    order = list(State)
    silent = [view for view in views if view.age_s > SILENT_S]
    unwell = [
        view
        for view in views
        if view not in silent and view.condition.state in TROUBLED | WARNED | {State.RUNNING}
    ]
    unwell.sort(key=lambda one: order.index(one.condition.state))
    lines = [
        f"{name_of(one)}: {coloured(one.condition.state, one.condition.state)}: {escape(one.condition.reason)}"
        for one in unwell[:STATES_SHOWN]
    ]
    lines[:0] = [
        f"[yellow]{escape(one.name)}: busy: no report for {one.age_s:.0f} s[/]; its figures are as old"
        for one in silent[:STATES_SHOWN]
    ]
    if len(unwell) > STATES_SHOWN:
        lines.append(f"{len(unwell) - STATES_SHOWN} more classes: weir explain TENANT")
    for state in (State.STARTING, State.NO_QUERIES, State.IDLE):
        names = [view.name for view in views if view.condition.state is state]
        if names:
            more = f" and {len(names) - STATES_SHOWN} more" if len(names) > STATES_SHOWN else ""
            lines.append(coloured(f"{state}: {', '.join(names[:STATES_SHOWN])}{more}", state))
    return lines


# Below a table; the others are in `weir explain`.
POLICIES_TOLD = 5


def policy_of(one: ClassView) -> str:
    """What a class is for, and by which policy it runs for it."""
    chosen = ", chosen by itself" if one.tunes_itself else ""
    return f"{one.name} for {one.settings.objective} by {one.policy}{chosen}"


def class_quality_table(title: str, views: Sequence[ClassView]) -> Sheet:
    """How good the answers of classes are: of the last seconds, and all missed deadlines from the beginning."""
    # In the place of bytes, for both of which there is no room.
    windows = any(view.figures.tardiness.get("due") for view in views)
    heads = ["class", "worth", "missed", "in all", "stale", *(["tardy"] if windows else [])]
    heads += ["mean/target", "slow", "queue", *([] if windows else ["bytes"]), "res/s"]
    table = plain_table(title, heads)
    for view in views:
        figures, target = view.figures, view.settings.delay_target_ms
        if not view.units or view.condition.state is State.GIVEN_UP:
            table.add_row(name_of(view), *[UNKNOWN] * (len(heads) - 1))
            continue
        answers = figures.results_per_s > 0
        table.add_row(
            name_of(view),
            *((worth(figures.utility_now), percent(figures.missed_now)) if answers else (UNKNOWN, UNKNOWN)),
            compact(figures.utility.get("missed", 0)),
            percent(figures.staleness_now) if answers else UNKNOWN,
            *([percent(figures.tardy_now) if figures.tardiness.get("due") else UNKNOWN] if windows else []),
            f"{against(figures.mean_ms, target) if answers else UNKNOWN}/{exact(target)}",
            times(figures.slowdown_now),
            compact(figures.queued),
            *([] if windows else [compact(figures.queue_bytes)]),
            compact(figures.results_per_s),
        )
    return table


def quality_table(told: Mapping[str, Any]) -> Sheet:
    """The queries of a tenant as the service tells of them."""
    heads = ["query", "answers", "ms/deadline", "slow", "worth", "missed", "stale"]
    windows = any(one["tardiness"] for one in told["items"])
    failed = [line for line in told["items"] if line.get("failed")]
    heads += [*(["tardy"] if windows else []), *(["failed"] if failed else [])]
    table = plain_table("", heads)
    for one in told["items"]:
        answers, missed = one["answers"], one["utility"]["missed"]
        table.add_row(
            escape(one["query"]),
            compact(answers),
            f"{against(one['mean_ms'], one['deadline_ms']) if answers else UNKNOWN}/{figure(one['deadline_ms'])}",
            times(one["slowdown"]),
            worth(one["utility"]["mean"]) if answers else UNKNOWN,
            missed_of(missed, answers),
            percent(one["staleness"]) if answers else UNKNOWN,
            *([tardy(one["tardiness"])] if windows else []),
            *([compact(one["failed"])] if failed else []),
        )
    late = late_rows([(told["tenant"], told.get("late_now", {}))])
    lines = ["; ".join(late)] if late else []
    lines += [failed_of(line) for line in failed]
    table.caption = escape("\n".join(lines))
    if not told["items"]:
        table.caption = f"nothing of {told['tenant']} has reported"
    return table


def failed_of(line: Mapping[str, Any]) -> str:
    """Return which part of the rows of a query has failed lately, and why."""
    part = f"{line['failed_now']:.0%} of its rows in the last minute of input failed"
    return f"{line['query']}: {part}: {line['failed_reason']}"


def tardy(told: Mapping[str, Any] | None) -> str:
    """The part of a window's answers that came late."""
    due = told.get("answers", told.get("due", 0)) if told else 0
    return percent(told["tardy"] / due) if told and due else UNKNOWN


def is_late(query: Mapping[str, Any]) -> bool:
    """Whether any answer of it came after a deadline, by its graph or of its window."""
    return bool(query["missed"] or (query["tardiness"] and query["tardiness"]["tardy"]))


def missed_of(missed: float, answers: int) -> str:
    """Answers after their deadlines, and which part that is."""
    return compact(missed) + (f" ({percent(missed / answers)})" if missed and answers else "")


def worth(utility: float) -> str:
    """Green while all of it is had, red from half of it down."""
    mark = "[green]" if utility > 0.995 else "[red]" if utility < 0.5 else ""
    return f"{mark}{utility:.2f}{'[/]' if mark else ''}"


def times(slowdown: float) -> str:
    """How many times as long as alone."""
    return three_figures(slowdown) if slowdown else UNKNOWN


def share_of(one: ClassView) -> str:
    """Green where more than the class's own share, yellow where less."""
    beyond = one.share - one.original
    mark = "[green]" if beyond > 0.005 else "[yellow]" if beyond < -0.005 else "[dim]"
    return f"{mark}{one.share:.2f}[/]/{one.original:.2f}"


def three_figures(value: float) -> str:
    return f"{value:.1f}" if value < 99.95 else compact(value)


def against(value: float, target: float) -> str:
    text = response(value)
    return f"[red]{text}[/]" if value > target else text


def loss(percent: float) -> str:
    return "[green]0%[/]" if percent == 0 else f"{percent:.2f}%"
