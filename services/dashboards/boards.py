"""What a dashboard is made of: rows of panels, each with what it shows, in which unit, and what a reader is to make of it.

    Row("What it gets", (Panel("Response time", "…", "s", (Query("…", "p99"),)), …))

Where a panel stands follows from the order: side by side while there is room, then below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

WIDTH = 24
GREEN, YELLOW, ORANGE, RED, BLUE, GREY = "green", "yellow", "orange", "red", "blue", "text"

Kind = Literal["timeseries", "stat", "table", "heatmap"]
VariableName = Literal["tenant", "class", "query", "stream", "node"]


@dataclass(frozen=True, slots=True)
class PanelQuery:
    """In PromQL."""

    expr: str
    legend: str = ""
    """`{{label}}` stands for its value."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """Of a table: what its query, by its place, or its label is shown as."""

    title: str
    unit: str = "string"
    thresholds: tuple[tuple[float | None, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """One question, and its answer."""

    title: str
    about: str
    """For people: what is seen, and what to make of it."""
    unit: str
    """Grafana's name of it."""
    queries: tuple[PanelQuery, ...]
    kind: Kind = "timeseries"
    width: int = 8
    height: int = 8
    thresholds: tuple[tuple[float | None, str], ...] = ()
    """From which value on it has which colour; None: from the lowest on. In a plot, lines."""
    min: float | None = 0
    max: float | None = None
    decimals: int | None = None
    stacked: bool = False
    limits: tuple[str, ...] = ()
    """Legends of what is drawn dashed in red, as a bound to what else is drawn."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """What is shown in place of a value."""
    columns: Mapping[str, TableColumn] = field(default_factory=dict)
    """Of a table, by label or by the letter of its query."""
    sorted_by: str = ""
    """Of a table, the title of a column; the highest first."""
    of_tenants: bool = False
    """Each series has a label `tenant` and leads to that tenant's dashboard."""
    empty_unless: str = ""
    """What it takes for it to have data, if a sound system may have none."""
    nothing: str = "no data"
    """What is shown where there is no data."""

    @property
    def description(self) -> str:
        return f"{self.about} Empty unless {self.empty_unless}." if self.empty_unless else self.about


@dataclass(frozen=True, slots=True)
class Row:
    """Panels that answer one question together."""

    title: str
    panels: tuple[Panel, ...]

    @property
    def may_be_empty(self) -> bool:
        """Return True if a sound system may have data for none of its panels: Grafana shows the row folded."""
        return bool(self.panels) and all(panel.empty_unless for panel in self.panels)


@dataclass(frozen=True, slots=True)
class Variable:
    """What a reader chooses: values of a label."""

    name: VariableName
    label: str
    values: str
    """The query that lists them."""
    is_one: bool = False
    """One at a time, and no "All"."""


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard; its uid is its address for good."""

    uid: str
    title: str
    about: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    marks_moves: bool = False
    """Whether moves of shares are marked without being asked for: once a minute while load changes."""

    @property
    def panels(self) -> Iterator[Panel]:
        for row in self.rows:
            yield from row.panels


# -- what many of them choose from -----------------------------------------------------------------------------

CLASS = Variable("class", "Priority class", "label_values(weir_class_units, priority_class)")
# Of Prometheus itself, where it evaluates the rules of the chart.
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

# The part of a class's answers that is to come within its target, as `weir explain` words it.
OBJECTIVE = 0.95
OBJECTIVE_REACHED: tuple[tuple[float | None, str], ...] = ((None, RED), (OBJECTIVE, YELLOW), (0.99, GREEN))
OF_TARGET: tuple[tuple[float | None, str], ...] = ((None, GREEN), (0.8, YELLOW), (1.0, RED))
NONE_IS_RIGHT: tuple[tuple[float | None, str], ...] = ((None, GREEN), (1.0, RED))
A_HINT: tuple[tuple[float | None, str], ...] = ((None, BLUE),)


def per_second(series: str, selector: str = "") -> str:
    return (
        f"rate({series}{{{selector}}}[$__rate_interval])" if selector else f"rate({series}[$__rate_interval])"
    )


def rate_by(labels: str, series: str, selector: str = "") -> str:
    return f"sum by ({labels}) ({per_second(series, selector)})"


def quantile_by(labels: str, part: float, selector: str) -> str:
    """Of one tenant at a time: buckets are set around each target."""
    return f"histogram_quantile({part:g}, {rate_by(f'le, {labels}', 'weir_class_response_seconds_bucket', selector)})"


def in_time_by(labels: str, selector: str) -> str:
    """The part of answers that came within the target; nothing where there were none."""
    came = rate_by(labels, "weir_class_response_seconds_count", selector)
    return f"{rate_by(labels, 'weir_class_results_in_time_total', selector)} / ({came} > 0)"


def of_target_by(labels: str, selector: str) -> str:
    """The 95th percentile as a part of what is promised."""
    target = f"max by ({labels}) (weir_class_response_target_seconds{{{selector}}})"
    return f"{quantile_by(labels, OBJECTIVE, selector)} / {target}"


def lost_by(labels: str, selector: str) -> str:
    """The part of the input that was not worked on, for whatever reason."""
    lost = rate_by(labels, "weir_class_tuples_total", f'{selector}, fate!="delivered"')
    offered = rate_by(labels, "weir_class_offered_tuples_total", selector)
    return f"{lost} / ({offered} > 0)"


def worst(expr: str, most: int = 10) -> str:
    return f"topk({most}, {expr})"
