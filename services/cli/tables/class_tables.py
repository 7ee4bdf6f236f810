"""Tables of the classes of a running system: their current state, and the quality of their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from configs.numbers import UNKNOWN, compact, exact, figure, percent
from services.cli.tables.cells import against, missed_of, response, tardy, three_figures, times, worth
from services.cli.tables.sheet import Sheet, table_of
from services.watch.losses import failing
from services.watch.states import TROUBLED, WARNED, ClassState

if TYPE_CHECKING:
    from actors.messages.unit_messages import Failure
    from services.watch.class_views import ClassView

CLASS_COLUMNS: Mapping[str, Callable[[ClassView], str]] = {
    "class": lambda view: name_of(view),
    "share/own": lambda view: share_of(view),
    "head": lambda view: f"{view.figures.headroom:.2f}",
    "load": lambda view: f"{view.figures.load:.2f}",
    "p50": lambda view: response(view.figures.p50_ms) if answers(view) else UNKNOWN,
    "p99/target": lambda view: f"{p99(view)}/{exact(view.settings.delay_target_ms)}",
    "drop": lambda view: UNKNOWN if view.settings.lossless else f"{view.drop:.0%}",
    "queue": lambda view: compact(view.figures.queued),
    "lent/got": lambda view: f"{three_figures(view.lent_s)}/{three_figures(view.borrowed_s)}",
    "res/s": lambda view: compact(view.figures.results_per_s),
}
QUALITY_COLUMNS: Mapping[str, Callable[[ClassView], str]] = {
    "class": lambda view: name_of(view),
    "worth": lambda view: worth(view.figures.utility_now) if answers(view) else UNKNOWN,
    "missed": lambda view: percent(view.figures.missed_now) if answers(view) else UNKNOWN,
    "in all": lambda view: compact(view.figures.utility.get("missed", 0)),
    "stale": lambda view: percent(view.figures.staleness_now) if answers(view) else UNKNOWN,
    "tardy": lambda view: percent(view.figures.tardy_now) if view.figures.tardiness.get("due") else UNKNOWN,
    "mean/target": lambda view: f"{mean(view)}/{exact(view.settings.delay_target_ms)}",
    "slow": lambda view: times(view.figures.slowdown_now),
    "queue": lambda view: compact(view.figures.queued),
    "bytes": lambda view: compact(view.figures.queue_bytes),
    "res/s": lambda view: compact(view.figures.results_per_s),
}
# Columns with a value even for a class that does not run. All other cells of such a class stay empty.
DECLARED = ("class", "share/own")
QUERY_COLUMNS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "query": lambda query: escape(query["query"]),
    "answers": lambda query: compact(query["answers"]),
    "ms/deadline": lambda query: f"{mean_of(query)}/{figure(query['deadline_ms'])}",
    "slow": lambda query: times(query["slowdown"]),
    "worth": lambda query: worth(query["utility"]["mean"]) if query["answers"] else UNKNOWN,
    "missed": lambda query: missed_of(query["utility"]["missed"], query["answers"]),
    "stale": lambda query: percent(query["staleness"]) if query["answers"] else UNKNOWN,
    "tardy": lambda query: tardy(query["tardiness"]),
    "failed": lambda query: compact(query["failed"]),
}


def mean(view: ClassView) -> str:
    return against(view.figures.mean_ms, view.settings.delay_target_ms) if answers(view) else UNKNOWN


def mean_of(query: Mapping[str, Any]) -> str:
    return against(query["mean_ms"], query["deadline_ms"]) if query["answers"] else UNKNOWN


def answers(view: ClassView) -> bool:
    return view.figures.results_per_s > 0


def p99(view: ClassView) -> str:
    return against(view.figures.p99_ms, view.settings.delay_target_ms) if answers(view) else UNKNOWN


def runs(view: ClassView) -> bool:
    return bool(view.units) and view.condition.state is not ClassState.GIVEN_UP


def class_view_table(title: str, views: Sequence[ClassView]) -> Sheet:
    """Return a table of the current figures of classes: times in ms; lent and borrowed capacity in processor-seconds."""
    table = class_table(title, CLASS_COLUMNS, views)
    table.least, table.prose = ("lent/got", "head", "p50"), (0,)
    notes = [policy_of(view) for view in views if view.tunes_itself or view.settings.objective != "response"]
    late = late_rows(
        [(view.name, view.figures.late_now) for view in views if view.condition.state is not ClassState.LATE]
    )
    failed = failed_rows(
        [(shown.name, shown.failures) for shown in views if shown.condition.state is not ClassState.LOSING]
    )
    lines = state_lines(views) + [escape(shortened(parts)) for parts in (late, failed, notes) if parts]
    table.caption = "\n".join(lines)
    return table


def class_table(
    title: str, columns: Mapping[str, Callable[[ClassView], str]], views: Sequence[ClassView]
) -> Sheet:
    table = Sheet(title, tuple(columns))
    for view in views:
        shown = columns if runs(view) else DECLARED
        table.add_row(*(cell(view) if head in shown else UNKNOWN for head, cell in columns.items()))
    return table


def shortened(parts: Sequence[str]) -> str:
    """Return the first texts joined in one line, with the number of texts that are left out."""
    more = f"; {len(parts) - POLICIES_TOLD} more" if len(parts) > POLICIES_TOLD else ""
    return "; ".join(parts[:POLICIES_TOLD]) + more


# Smallest part of late rows that is shown.
LATE_LEAST = 0.005


def late_rows(classes: Sequence[tuple[str, Mapping[str, float]]]) -> list[str]:
    """Return a text for each stream with a notable part of late rows, the largest part first."""
    shares = [(part, stream, name) for name, streams in classes for stream, part in streams.items()]
    return worst_first("late", [share for share in shares if share[0] >= LATE_LEAST])


def failed_rows(classes: Sequence[tuple[str, Sequence[Failure]]]) -> list[str]:
    """Return a text for each query with a notable part of failed rows, the largest part first."""
    losses = [(loss.part, loss.query, name) for name, failures in classes for loss in failing(failures)]
    return worst_first("failed", losses)


def worst_first(fate: str, losses: Iterable[tuple[float, str, str]]) -> list[str]:
    worst = sorted(losses, key=lambda loss: (-loss[0], *loss[1:]))
    return [f"{fate} rows: {part:.0%} of {place} in {name}" for part, place, name in worst]


# Number of classes with an explanation below a table; `weir explain` explains the other classes.
STATES_SHOWN = 8

COLOURS = {
    **dict.fromkeys(TROUBLED, "bold red"),
    **dict.fromkeys(WARNED, "yellow"),
    **dict.fromkeys((ClassState.IDLE, ClassState.STARTING, ClassState.NO_QUERIES), "dim"),
}


def name_of(one: ClassView) -> str:
    """Return the name of a class in the colour of its state."""
    return coloured(one.name, one.condition.state)


def coloured(text: str, state: ClassState) -> str:
    colour = COLOURS.get(state)
    return f"[{colour}]{escape(text)}[/]" if colour else escape(text)


# Seconds without a report after which a class is shown as busy. Units report once per load cycle, unless a call takes longer.
SILENT_S = 3.0


def state_lines(views: Sequence[ClassView]) -> list[str]:
    """Return the lines below the table. They list classes without recent reports, then classes with problems, then idle classes."""
    order = list(ClassState)
    silent = [view for view in views if view.age_s > SILENT_S]
    unwell = [
        view
        for view in views
        if view not in silent and view.condition.state in TROUBLED | WARNED | {ClassState.RUNNING}
    ]
    unwell.sort(key=lambda one: order.index(one.condition.state))
    lines = [
        f"{name_of(view)}: {coloured(view.condition.state, view.condition.state)}: {escape(view.condition.reason)}"
        for view in unwell[:STATES_SHOWN]
    ]
    lines[:0] = [
        f"[yellow]{escape(view.name)}: busy: no report for {view.age_s:.0f} s[/]; its figures are from its last report"
        for view in silent[:STATES_SHOWN]
    ]
    if len(unwell) > STATES_SHOWN:
        lines.append(f"{len(unwell) - STATES_SHOWN} more classes: weir explain TENANT")
    for state in (ClassState.STARTING, ClassState.NO_QUERIES, ClassState.IDLE):
        names = [view.name for view in views if view.condition.state is state]
        if names:
            more = f" and {len(names) - STATES_SHOWN} more" if len(names) > STATES_SHOWN else ""
            lines.append(coloured(f"{state}: {', '.join(names[:STATES_SHOWN])}{more}", state))
    return lines


# Maximum number of texts (such as policies of classes) that a line below a table lists.
POLICIES_TOLD = 5


def policy_of(one: ClassView) -> str:
    """Return a text with the objective and the policy of a class."""
    chosen = ", chosen by itself" if one.tunes_itself else ""
    return f"{one.name} for {one.settings.objective} by {one.policy}{chosen}"


def class_quality_table(title: str, views: Sequence[ClassView]) -> Sheet:
    """Return a table of the quality of each class's answers in the last seconds. Missed deadlines are counted since the start."""
    # A terminal has no room for the columns `tardy` and `bytes` together. Only classes with windows need `tardy`.
    omitted = "bytes" if any(view.figures.tardiness.get("due") for view in views) else "tardy"
    columns = {head: cell for head, cell in QUALITY_COLUMNS.items() if head != omitted}
    return class_table(title, columns, views)


def quality_table(told: Mapping[str, Any]) -> Sheet:
    """Return a table of the quality of a tenant's queries, from the service's response."""
    failed = [line for line in told["items"] if line.get("failed")]
    needed = {"tardy": any(item["tardiness"] for item in told["items"]), "failed": bool(failed)}
    columns = {head: cell for head, cell in QUERY_COLUMNS.items() if needed.get(head, True)}
    table = table_of("", columns, told["items"])
    late = late_rows([(told["tenant"], told.get("late_now", {}))])
    lines = ["; ".join(late)] if late else []
    lines += [failed_of(line) for line in failed]
    table.caption = escape("\n".join(lines))
    if not told["items"]:
        table.caption = f"no query of {told['tenant']} has reported yet"
    return table


def failed_of(line: Mapping[str, Any]) -> str:
    """Return a line with the part of a query's rows that failed in the last minute of input, and the reason."""
    part = f"{line['failed_now']:.0%} of its rows in the last minute of input failed"
    return f"{line['query']}: {part}: {line['failed_reason']}"


def share_of(one: ClassView) -> str:
    """Return the current and the original share of a class: in green if the current share is larger, in yellow if it is smaller."""
    beyond = one.share - one.original
    mark = "[green]" if beyond > 0.005 else "[yellow]" if beyond < -0.005 else "[dim]"
    return f"{mark}{one.share:.2f}[/]/{one.original:.2f}"
