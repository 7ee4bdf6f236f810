"""Types that describe a dashboard: rows of panels, each panel with queries, a unit and a description for the reader.

Panels are placed in their order: side by side while there is room, then on the next line. An example of a row:

    Row("Summary", (Panel("Response time", "…", "s", (PanelQuery("…", "p99"),)), …))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

WIDTH = 24
GREEN, YELLOW, ORANGE, RED, BLUE, GREY = "green", "yellow", "orange", "red", "blue", "text"

# Units of rates. Grafana 10 has no unit for rows or events per second, and would show an unknown unit without prefixes like K.
ROWS_PER_S, PER_S = "count:rows/s", "count:/s"

Kind = Literal["timeseries", "stat", "table", "heatmap"]
VariableName = Literal["namespace", "release", "tenant", "class", "query", "stream", "node"]


@dataclass(frozen=True, slots=True)
class PanelQuery:
    """PromQL query of a panel."""

    expr: str
    legend: str = ""
    """Name of each series; `{{label}}` is replaced by the value of the label."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """Column of a table, with the settings that define how the values of a query or label are shown."""

    title: str
    unit: str = "string"
    thresholds: tuple[tuple[float | None, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """Panel of a dashboard: a plot, a number, a table or a heatmap."""

    title: str
    about: str
    """Description for the reader: what the panel shows and how to interpret it."""
    unit: str
    """Grafana's name of the unit in which values are measured."""
    queries: tuple[PanelQuery, ...]
    kind: Kind = "timeseries"
    width: int = 8
    height: int = 8
    thresholds: tuple[tuple[float | None, str], ...] = ()
    """Pairs of a value and the colour from that value on; None stands for the lowest value. A plot draws thresholds as lines."""
    min: float | None = 0
    max: float | None = None
    decimals: int | None = None
    stacked: bool = False
    limits: tuple[str, ...] = ()
    """Legends of the series that show a limit of other series; such series are drawn as dashed red lines."""
    colours: Mapping[str, str] = field(default_factory=dict)
    """Colours of series, by legend; Grafana gives all other series colours by their order."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Texts that the panel shows in place of values, by value."""
    columns: Mapping[str, TableColumn] = field(default_factory=dict)
    """Columns of a table, by label or by the letter of the query."""
    sorted_by: str = ""
    """Title of the column that a table is sorted by, highest value first."""
    of_tenants: bool = False
    """True if each series has a label `tenant`; the series then links to that tenant's dashboard."""
    empty_unless: str = ""
    """Text about when the panel has data; only panels that may be empty in a healthy system have this text."""
    nothing: str = "no data"
    """Text that the panel shows if it has no data."""

    @property
    def description(self) -> str:
        return f"{self.about} Empty unless {self.empty_unless}." if self.empty_unless else self.about


@dataclass(frozen=True, slots=True)
class Row:
    """Row of panels about one topic."""

    title: str
    panels: tuple[Panel, ...]

    @property
    def may_be_empty(self) -> bool:
        """Return True if all panels of the row may be empty in a healthy system. Grafana then shows the row collapsed."""
        return bool(self.panels) and all(panel.empty_unless for panel in self.panels)


@dataclass(frozen=True, slots=True)
class Variable:
    """Variable of a dashboard: the reader selects values of one label."""

    name: VariableName
    label: str
    values: str
    """Query that lists the values."""
    is_one: bool = False
    """True if exactly one value is selected, without an option "All"."""


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard. The `uid` is part of the address of the dashboard, and must never change."""

    uid: str
    title: str
    about: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    marks_moves: bool = False
    """True if plots show moves of shares as vertical lines by default: while load changes, about one line per minute."""

    @property
    def panels(self) -> Iterator[Panel]:
        for row in self.rows:
            yield from row.panels


CLASS = Variable("class", "Priority class", "label_values(weir_class_units, priority_class)")
# ALERTS is a series that Prometheus itself writes when it evaluates the chart's alert rules.
ALERTS = 'ALERTS{alertname=~"Weir.*"}'
TENANT = Variable("tenant", "Tenant", 'label_values(weir_class_units{priority_class=~"$class"}, tenant)')
ONE_TENANT = Variable("tenant", "Tenant", "label_values(weir_class_units, tenant)", is_one=True)
QUERY = Variable("query", "Query", 'label_values(weir_query_results_total{tenant=~"$tenant"}, query)')
STREAM = Variable("stream", "Stream", "label_values(weir_stream_rows_total, stream)")
NODE = Variable("node", "Node", "label_values(weir_node_lanes, node)")

OF_CLASSES = 'tenant=~"$tenant", priority_class=~"$class"'
OF_TENANT = 'tenant=~"$tenant"'
OF_STREAMS = 'stream=~"$stream"'
OF_NODES = 'node=~"$node"'

# Fraction of a class's answers that must come within the delay target (the service-level objective).
OBJECTIVE = 0.95
OBJECTIVE_REACHED: tuple[tuple[float | None, str], ...] = ((None, RED), (OBJECTIVE, YELLOW), (0.99, GREEN))
OF_TARGET: tuple[tuple[float | None, str], ...] = ((None, GREEN), (0.8, YELLOW), (1.0, RED))
NONE_IS_RIGHT: tuple[tuple[float | None, str], ...] = ((None, GREEN), (1.0, RED))


def per_second(series: str, selector: str = "") -> str:
    return (
        f"rate({series}{{{selector}}}[$__rate_interval])" if selector else f"rate({series}[$__rate_interval])"
    )


def rate_by(labels: str, series: str, selector: str = "") -> str:
    return f"sum by ({labels}) ({per_second(series, selector)})"


def ratio_by(labels: str, counted: str, whole: str, selector: str) -> str:
    """Return the PromQL for the rate of one counter divided by the rate of another. The result is empty while the other does not rise."""
    return f"{rate_by(labels, counted, selector)} / ({rate_by(labels, whole, selector)} > 0)"


def quantile_by(labels: str, part: float, selector: str) -> str:
    """Return the PromQL for a quantile of response times. `labels` must select one tenant: buckets depend on the tenant's delay target."""
    return f"histogram_quantile({part:g}, {rate_by(f'le, {labels}', 'weir_class_response_seconds_bucket', selector)})"


def in_time_by(labels: str, selector: str) -> str:
    """Return the PromQL for the part of answers within the delay target. The result is empty without answers."""
    return ratio_by(labels, "weir_class_results_in_time_total", "weir_class_response_seconds_count", selector)


def of_target_by(labels: str, selector: str) -> str:
    """Return the PromQL for the 95th percentile of response times, divided by the delay target."""
    target = f"max by ({labels}) (weir_class_response_target_seconds{{{selector}}})"
    return f"{quantile_by(labels, OBJECTIVE, selector)} / {target}"


def lost_by(labels: str, selector: str) -> str:
    """Return the PromQL for the part of the input that was lost for any reason."""
    lost = rate_by(labels, "weir_class_tuples_total", f'{selector}, fate!="delivered"')
    offered = rate_by(labels, "weir_class_offered_tuples_total", selector)
    return f"{lost} / ({offered} > 0)"


def worst(expr: str, most: int = 10) -> str:
    return f"topk({most}, {expr})"
