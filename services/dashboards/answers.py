"""Data of all dashboard panels, queried from a Prometheus as Grafana would query it, with the same variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from services.dashboards.boards import Board, Panel, Row
from services.metrics.prometheus import LabelledSeries, Prometheus

EVERYTHING = ".*"
# Maximum number of points in a plot. More points would not be visible.
POINTS = 240


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Time range of a dashboard."""

    begin: float
    """Beginning of the range in seconds since 1970; `end` is in the same unit."""
    end: float
    rate_interval_s: float
    """Value of Grafana's `$__rate_interval`: at least four scrape intervals."""

    @property
    def step_s(self) -> float:
        return max(1.0, (self.end - self.begin) / POINTS)


@dataclass(frozen=True, slots=True)
class AnsweredPanel:
    """Panel with the results of its queries."""

    board: Board
    row: Row
    panel: Panel
    series: Mapping[str, Sequence[LabelledSeries]]
    """Results by the letter of the query: values over the whole time range or, for a table, only the values at its end."""

    @property
    def is_empty(self) -> bool:
        return not any(self.series.values())


def answers(
    prometheus: Prometheus, boards: Sequence[Board], span: TimeSpan, chosen: Mapping[str, str]
) -> Iterator[AnsweredPanel]:
    """Yield all panels in order, with their data. `chosen` maps variables to values. A variable without a value has all values selected."""
    for board in boards:
        for row in board.rows:
            for panel in row.panels:
                series_by_letter = {
                    letter: answer(prometheus, panel, substituted(query.expr, span, chosen), span)
                    for letter, query in zip(ascii_uppercase, panel.queries, strict=False)
                }
                yield AnsweredPanel(board, row, panel, series_by_letter)


def answer(prometheus: Prometheus, panel: Panel, expr: str, span: TimeSpan) -> list[LabelledSeries]:
    if panel.kind == "table":
        return prometheus.ask(expr, span.end)
    return prometheus.over(expr, span.begin, span.end, span.step_s)


def substituted(expr: str, span: TimeSpan, chosen: Mapping[str, str]) -> str:
    """Return the query with Grafana's variables replaced by their values."""
    values = {
        "$__rate_interval": f"{span.rate_interval_s:g}s",
        "$__range": f"{span.end - span.begin:.0f}s",
        **{
            f"${name}": chosen.get(name, EVERYTHING)
            for name in ("tenant", "class", "query", "stream", "node")
        },
    }
    for name, value in values.items():
        expr = expr.replace(name, value)
    return expr
