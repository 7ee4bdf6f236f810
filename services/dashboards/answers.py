"""What a Prometheus answers to every panel of the dashboards: the same questions as Grafana asks, with the same variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Protocol

from services.dashboards.boards import Board, Panel, Row
from services.metrics.prometheus import LabelledSeries

EVERYTHING = ".*"
# Of a plot, at most; as many as are worth drawing.
POINTS = 240


class PrometheusClient(Protocol):
    """A Prometheus."""

    def ask(self, expr: str, at: float | None = None) -> list[LabelledSeries]: ...

    def over(self, expr: str, begin: float, end: float, step_s: float) -> list[LabelledSeries]: ...


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """What a reader looks at."""

    begin: float
    """Seconds since 1970."""
    end: float
    rate_interval_s: float
    """What `$__rate_interval` stands for: four scrapes at least."""

    @property
    def step_s(self) -> float:
        return max(1.0, (self.end - self.begin) / POINTS)


@dataclass(frozen=True, slots=True)
class AnsweredPanel:
    """A panel with its answers."""

    board: Board
    row: Row
    panel: Panel
    series: Mapping[str, Sequence[LabelledSeries]]
    """By the letter of the query; of plots all the time, of everything else the last moment, but for tiles' lines."""

    @property
    def is_empty(self) -> bool:
        return not any(self.series.values())


def answers(
    prometheus: PrometheusClient, boards: Sequence[Board], span: TimeSpan, chosen: Mapping[str, str]
) -> Iterator[AnsweredPanel]:
    """In the order in which panels stand; `chosen` by variable, and where nothing is chosen everything."""
    for board in boards:
        for row in board.rows:
            for panel in row.panels:
                series_by_letter = {
                    letter: answer(prometheus, panel, substituted(query.expr, span, chosen), span)
                    for letter, query in zip(ascii_uppercase, panel.queries, strict=False)
                }
                yield AnsweredPanel(board, row, panel, series_by_letter)


def answer(prometheus: PrometheusClient, panel: Panel, expr: str, span: TimeSpan) -> list[LabelledSeries]:
    if panel.kind == "table":
        return prometheus.ask(expr, span.end)
    return prometheus.over(expr, span.begin, span.end, span.step_s)


def substituted(expr: str, span: TimeSpan, chosen: Mapping[str, str]) -> str:
    """As Grafana would send it."""
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
