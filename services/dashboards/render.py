"""Rendering of dashboards as Grafana's classic JSON, with grafana-foundation-sdk.

Every panel queries the data source that the reader has selected. Panel ids follow from the order of the panels, so that the same
dashboard always gives the same text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from string import ascii_uppercase
from typing import Any

from grafana_foundation_sdk.builders import common as draw
from grafana_foundation_sdk.builders import dashboard, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import heatmap as heat
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from services.dashboards.boards import GREY, RED, WIDTH, Board, Panel, PanelQuery, Row, TableColumn, Variable
from services.dashboards.releases import NAMESPACE, RELEASE, RELEASE_LABELS, selected

TAG = "weir"
CHOSEN = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
# Entry that shows annotations which users write in Grafana. Grafana gives the same entry to dashboards that are made in Grafana.
BUILT_IN = {
    "name": "Annotations & Alerts",
    "type": "dashboard",
    "builtIn": 1,
    "datasource": {"type": "grafana", "uid": "-- Grafana --"},
    "enable": True,
    "hide": True,
    "iconColor": "rgba(0, 211, 255, 1)",
}
# Fields that Grafana omits if they have default values. The SDK's builders write these fields, so the rendering removes them.
UNSAID = ("repeatDirection", "transparent", "skipUrlSync", "auto", "auto_min", "auto_count")
# Annotations written by `weir dashboards annotate`. They are written as JSON here, because the SDK's builders support only annotations from PromQL.
POSTED = {
    "name": "Annotated moves",
    "datasource": {"type": "grafana", "uid": "-- Grafana --"},
    "enable": True,
    "hide": False,
    "iconColor": "purple",
    "target": {"type": "tags", "tags": [TAG], "limit": 100, "matchAny": False},
}
KEPT = ("datasource", *RELEASE_LABELS)
"""Variables that keep their values when a reader follows a link to another dashboard."""
CHOICES = "&".join(f"${{{name}:queryparam}}" for name in KEPT)
TENANT_PAGE = f"/d/weir-tenant?var-tenant=%s&{CHOICES}&${{__url_time_range}}"
ROW_HEIGHT = 1
SPAN, REFRESH = "now-1h", "30s"
Steps = Sequence[tuple[float | None, str]]
Builder = timeseries.Panel | stat.Panel | table.Panel | heatmap.Panel


def rendered(board: Board, others: Sequence[Board] = ()) -> dict[str, Any]:
    """Return a dashboard as Grafana's JSON, with links to the other dashboards."""
    document: dict[str, Any] = json.loads(json.dumps(page(board, others).build(), cls=JSONEncoder))
    marked = document["annotations"]["list"]
    marked.append(POSTED)
    marked.insert(0, BUILT_IN)
    for item in (*document.get("links", ()), *marked):
        # The default position shows links and annotations. The SDK's builders would move both into a menu, where readers do not see them.
        item.pop("placement", None)
    folded = [panel for row in document["panels"] for panel in row.get("panels", ())]
    for item in (*document["panels"], *folded, *document["templating"]["list"]):
        for name in UNSAID:
            item.pop(name, None)
    return document


def text_of(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def page(board: Board, others: Sequence[Board]) -> dashboard.Dashboard:
    built = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.about)
        .tags([TAG])
        .readonly()
        .timezone("browser")
        .time(SPAN, "now")
        .refresh(REFRESH)
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").type("prometheus").label("Data source"))
    )
    for there in others:
        built = built.link(link(board, there))
    built = built.with_variable(choice(NAMESPACE, NAMESPACE.values)).with_variable(
        choice(RELEASE, RELEASE.values)
    )
    for variable in board.variables:
        built = built.with_variable(choice(variable, selected(variable.values)))
    for annotation in marks(board):
        built = built.annotation(annotation)
    ids, y = count(1), 0
    for row in board.rows:
        title = (
            dashboard.Row(row.title).id(next(ids)).grid_pos(model.GridPos(h=ROW_HEIGHT, w=WIDTH, x=0, y=y))
        )
        y += ROW_HEIGHT
        panels, below = placed(row, y)
        drawn_panels = [panel(panel_).id(next(ids)).grid_pos(place) for place, panel_ in panels]
        if row.may_be_empty:
            # In Grafana's JSON, the panels of a collapsed row are inside the row. Grafana shows the panels below an expanded row.
            for drawn_panel in drawn_panels:
                title = title.with_panel(drawn_panel)
            built = built.with_row(title.collapsed(True))
            continue
        built, y = built.with_row(title), below
        for drawn_panel in drawn_panels:
            built = built.with_panel(drawn_panel)
    return built


def placed(row: Row, y: int) -> tuple[list[tuple[model.GridPos, Panel]], int]:
    """Place the panels of a row on the grid, from grid line `y` on. Return the panels with their positions, and the first free line."""
    placed_panels, x, tallest = [], 0, 0
    for panel in row.panels:
        if x + panel.width > WIDTH:
            y, x, tallest = y + tallest, 0, 0
        placed_panels.append((model.GridPos(h=panel.height, w=panel.width, x=x, y=y), panel))
        x, tallest = x + panel.width, max(tallest, panel.height)
    return placed_panels, y + tallest


def link(here: Board, there: Board) -> dashboard.DashboardLink:
    """Return a link that keeps the time range and the values of variables that both dashboards have."""
    shared = [
        variable.name for variable in here.variables if variable in there.variables and not variable.is_one
    ]
    chosen = "&".join((CHOICES, *(f"${{{name}:queryparam}}" for name in shared)))
    return (
        dashboard.DashboardLink(there.title.removeprefix("Weir / "))
        .type(model.DashboardLinkType.LINK)
        .icon("dashboard")
        .tooltip(there.about)
        .url(f"/d/{there.uid}?{chosen}")
        .keep_time(True)
    )


def choice(variable: Variable, values: str) -> dashboard.QueryVariable:
    variable_built = (
        dashboard.QueryVariable(variable.name)
        .label(variable.label)
        .query({"qryType": 1, "query": values, "refId": "PrometheusVariableQueryEditor-VariableQuery"})
        .definition(values)
        .datasource(CHOSEN)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
        .multi(not variable.is_one)
        .include_all(not variable.is_one)
    )
    if variable.is_one:
        return variable_built
    # "All" stands for the regular expression `.*`, which also matches series with an empty label. An empty value cannot be selected.
    variable_built = variable_built.all_value(".*")
    return variable_built.current(model.VariableOption(selected=True, text=["All"], value=["$__all"]))


def marks(board: Board) -> Iterator[dashboard.AnnotationQuery]:
    """Yield the annotations drawn over all panels (restarts, moves of shares), at most one of each kind per minute."""
    yield (
        dashboard.AnnotationQuery()
        .name("Restarts")
        .datasource(CHOSEN)
        .enable(True)
        .icon_color(RED)
        .expr(selected("sum by (actor, node) (increase(weir_restarts_total[$__rate_interval])) > 0"))
        .step("60s")
        .title_format("{{actor}} restarted")
        .text_format("{{node}}")
    )
    yield (
        dashboard.AnnotationQuery()
        .name("Shares moved")
        .datasource(CHOSEN)
        .enable(board.marks_moves)
        .icon_color("blue")
        .expr(selected("sum by (kind) (increase(weir_share_moves_total[$__rate_interval])) > 0"))
        .step("60s")
        .title_format("shares moved: {{kind}}")
        .text_format("The dashboard Weir / Lending and control loop shows which tenant lends to which")
    )


def panel(one: Panel) -> Builder:
    built = drawn(one).title(one.title).description(one.description).datasource(CHOSEN).unit(one.unit)
    built = built.no_value(f"Empty unless {one.empty_unless}" if one.empty_unless else one.nothing)
    for letter, query in zip(ascii_uppercase, one.queries, strict=False):
        built = built.with_target(target(one, letter, query))
    if one.min is not None:
        built = built.min(one.min)
    if one.max is not None:
        built = built.max(one.max)
    if one.decimals is not None:
        built = built.decimals(one.decimals)
    if one.texts:
        mappings = {value: model.ValueMappingResult(text=text) for value, text in one.texts.items()}
        built = built.mappings([model.ValueMap(options=mappings)])
    if one.thresholds:
        built = built.thresholds(steps(one.thresholds))
    if one.of_tenants and one.kind != "table":
        built = built.data_links([to_tenant("${__field.labels.tenant}")])
    return built


def drawn(one: Panel) -> Builder:
    """Return the builder for the kind of the panel."""
    match one.kind:
        case "stat":
            return tile(one)
        case "table":
            return lines(one)
        case "heatmap":
            return spread()
    return plot(one)


def target(one: Panel, letter: str, query: PanelQuery) -> prometheus.Dataquery:
    dataquery = prometheus.Dataquery().expr(selected(query.expr)).ref_id(letter).datasource(CHOSEN)
    if query.legend:
        dataquery = dataquery.legend_format(query.legend)
    if one.kind == "table":
        return dataquery.instant().format(PromQueryFormat.TABLE)
    if one.kind == "heatmap":
        return dataquery.range().format(PromQueryFormat.HEATMAP)
    return dataquery.range()


def plot(one: Panel) -> timeseries.Panel:
    many = any("{{" in query.legend for query in one.queries)
    legend = draw.VizLegendOptions().show_legend(True).placement(common.LegendPlacement.BOTTOM)
    mode = common.LegendDisplayMode.TABLE if many and one.width > 8 else common.LegendDisplayMode.LIST
    if mode is common.LegendDisplayMode.TABLE:
        legend = legend.placement(common.LegendPlacement.RIGHT).calcs(["lastNotNull", "max"])
    built = (
        timeseries.Panel()
        .legend(legend.display_mode(mode))
        .tooltip(
            draw.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
        )
        .line_width(1)
        .fill_opacity(25 if one.stacked else 5)
        .show_points(common.VisibilityMode.NEVER)
    )
    if one.unit == "percentunit" and one.max is None:
        # The soft limit of the axis is for plots with only zeros. Without the limit, their axis would reach 10,000%.
        built = built.axis_soft_max(0.01)
    if one.stacked:
        built = built.stacking(draw.StackingConfig().mode(common.StackingMode.NORMAL))
    if len(one.thresholds) > 1:
        style = common.GraphThresholdsStyleMode.DASHED
        built = built.thresholds_style(draw.GraphThresholdsStyleConfig().mode(style))
    for name in one.limits:
        built = built.override_by_name(name, as_limit())
    for name, colour in one.colours.items():
        built = built.override_by_name(name, [in_colour(colour)])
    return built


def tile(one: Panel) -> stat.Panel:
    return (
        stat.Panel()
        .reduce_options(draw.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .graph_mode(common.BigValueGraphMode.NONE if one.texts else common.BigValueGraphMode.AREA)
        .color_mode(common.BigValueColorMode.VALUE)
        .text_mode(common.BigValueTextMode.NAME if any(query.legend for query in one.queries) else common.BigValueTextMode.VALUE)
    )  # fmt: skip


def lines(one: Panel) -> table.Panel:
    """Return a table with a row for each combination of label values, and a column for each query."""
    # Grafana adds the letter of the query to the name of the values only if a panel has several queries.
    valued = "Value #{}" if len(one.queries) > 1 else "Value"
    named = {key if key.islower() else valued.format(key): column for key, column in one.columns.items()}
    built = (
        table.Panel()
        .filterable(True)
        .with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(
            model.DataTransformerConfig(
                id_val="organize",
                options={
                    "excludeByName": {"Time": True},
                    "indexByName": {name: place for place, name in enumerate(named)},
                    "renameByName": {name: column.title for name, column in named.items()},
                },
            )
        )
        .sort_by([draw.TableSortByFieldState().display_name(one.sorted_by).desc(True)])
    )
    for key, column in one.columns.items():
        is_tenant = one.of_tenants and key == "tenant"
        built = built.override_by_name(column.title, as_column(column, is_tenant))
    return built


def spread() -> heatmap.Panel:
    return (
        heatmap.Panel()
        .calculate(False)
        .color(heatmap.HeatmapColorOptions().mode(heat.HeatmapColorMode.SCHEME).scheme("Oranges").steps(64))
        .y_axis(heatmap.YAxisConfig().unit("s"))
        .tooltip(heatmap.HeatmapTooltip().mode(common.TooltipDisplayMode.SINGLE))
        .show_legend()
    )


def steps(found: Steps) -> dashboard.ThresholdsConfig:
    assert found[0][0] is None, "the first threshold must be None, the lowest value"
    assert all(a is None or (b is not None and a < b) for (a, _), (b, _) in pairwise(found)), (
        "the thresholds of a panel must be in ascending order"
    )
    thresholds = [model.Threshold(value=value, color=color) for value, color in found]
    return dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(thresholds)


def as_limit() -> list[model.DynamicConfigValue]:
    return [
        in_colour(RED),
        value("custom.lineStyle", {"fill": "dash", "dash": [10, 10]}),
        value("custom.fillOpacity", 0),
        value("custom.stacking", {"group": False, "mode": "none"}),
    ]


def as_column(column: TableColumn, is_tenant: bool) -> list[model.DynamicConfigValue]:
    # Empty cells show a dash. Otherwise they would show the text of the empty panel.
    overrides = [value("unit", column.unit), value("noValue", "–")]
    if column.thresholds:
        written = [{"value": at, "color": color} for at, color in column.thresholds]
        overrides += [
            value("thresholds", {"mode": "absolute", "steps": written}),
            # Yellow text could hardly be read on the white of Grafana's light theme.
            value("custom.cellOptions", {"type": "color-background", "mode": "basic"}),
        ]
    else:
        overrides.append(in_colour(GREY))
    if is_tenant:
        url = TENANT_PAGE % "${__value.text}"
        overrides.append(value("links", [{"title": "This tenant", "url": url}]))
    return overrides


def in_colour(colour: str) -> model.DynamicConfigValue:
    return value("color", {"mode": "fixed", "fixedColor": colour})


def value(id_: str, given: object) -> model.DynamicConfigValue:
    return model.DynamicConfigValue(id_val=id_, value=given)


def to_tenant(name: str) -> dashboard.DashboardLink:
    link = dashboard.DashboardLink("This tenant")
    return link.type(model.DashboardLinkType.LINK).url(TENANT_PAGE % name)
