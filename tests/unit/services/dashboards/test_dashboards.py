"""Dashboards: files in the chart match the code, queries use existing metrics, and panels are easy to read.

The rules are those of Grafana's dashboard-linter and some of our own. Each rule takes one document, so that a test can show that
the rule finds a mistake.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.dashboards.__main__ import main, write
from services.dashboards.all import BOARDS, FOLDER
from services.dashboards.boards import ALERTS, OBJECTIVE, Board, Panel, PanelQuery, Row
from services.dashboards.releases import RELEASE_LABELS
from services.dashboards.render import rendered, text_of
from services.metrics.families import BY_NAME, FAMILIES, Family
from tests.support.dashboard_documents import DOCUMENTS, Json, everything, exprs, panels, targets, variables

SERIES: dict[str, Family] = {name: family for family in FAMILIES for name in family.series}
COUNTERS = {name for name, family in SERIES.items() if family.type in ("counter", "histogram")}
UNITS = {"s", "bytes", "percentunit", "short", "count:/s", "count:rows/s"}
# Longest title, in characters, of a panel that is four columns wide in a window of 1,600 pixels.
NARROW_TITLE = 24
CHOSEN = {"type": "prometheus", "uid": "${datasource}"}
NAME = r"weir_[a-z_]+"
OF_ALERTS = {"alertname", "alertstate", "severity", "priority_class", "tenant", "stream", "node"}


# -- the rules for dashboards --------------------------------------------------------------------------------------


def foreign_sources(document: Json) -> Iterator[str]:
    """Yield panels, queries, variables and annotations that ignore the data source chosen by the reader."""
    first = variables(document)[0]
    if (first["name"], first["type"], first["query"], first["label"]) != (
        "datasource",
        "datasource",
        "prometheus",
        "Data source",
    ):
        yield "the first variable"
    asking = [*variables(document)[1:], *panels(document), *(one for _, one in targets(document))]
    asking += [one for one in document["annotations"]["list"] if "expr" in one]
    yield from (str(one.get("title", one.get("name"))) for one in asking if one.get("datasource") != CHOSEN)


def undescribed(document: Json) -> Iterator[str]:
    """Yield titles that are missing or used twice, and panels that are not described by a whole sentence."""
    titles = [one["title"] for one in everything(document)]
    yield from {title for title in titles if titles.count(title) > 1 or not title}
    if not document.get("description"):
        yield document["title"]
    for panel in panels(document):
        if not re.search(r"[A-Z].{20,}[.]$", panel.get("description", "")):
            yield panel["title"]


def without_unit(document: Json) -> Iterator[str]:
    """Yield panels without a known unit."""
    for panel in panels(document):
        defaults = panel["fieldConfig"]["defaults"]
        if defaults.get("unit") not in UNITS:
            yield panel["title"]


def unbounded(document: Json) -> Iterator[str]:
    """Yield panels with an axis that does not begin at 0, unless they show differences or the part of answers in time."""
    for panel in panels(document):
        defaults = panel["fieldConfig"]["defaults"]
        may = re.search(r"Above and below|within target by", panel["title"])
        if defaults.get("min") != 0 and not may:
            yield panel["title"]


def cut(document: Json) -> Iterator[str]:
    """Yield titles that do not fit above a narrow panel: Grafana cuts them."""
    for panel in panels(document):
        if panel["gridPos"]["w"] < 6 and len(panel["title"]) > NARROW_TITLE:
            yield panel["title"]


def unnamed(document: Json) -> Iterator[str]:
    """Yield tables with a column that keeps Grafana's name, or with empty cells that would show the text of the empty table."""
    for panel in (one for one in panels(document) if one["type"] == "table"):
        letters = [target["refId"] for target in panel["targets"]]
        values = {f"Value #{letter}" for letter in letters} if len(letters) > 1 else {"Value"}
        titles = panel["transformations"][1]["options"]["renameByName"]
        if not values <= titles.keys():
            yield panel["title"]
        of_cells = [
            one["matcher"]["options"]
            for one in panel["fieldConfig"]["overrides"]
            if any(setting["id"] == "noValue" for setting in one["properties"])
        ]
        if of_cells != list(titles.values()):
            yield panel["title"]


def grids(document: Json) -> Iterator[list[Json]]:
    """Yield the panels that are laid out together: the panels of the page, and then the panels of each folded row."""
    yield document["panels"]
    yield from (row["panels"] for row in document["panels"] if row.get("panels"))


def overlapping(document: Json) -> Iterator[str]:
    """Yield panels that overlap another panel, or that are partly outside of the grid."""
    for grid in grids(document):
        yield from overlapping_in(grid)


def overlapping_in(grid: list[Json]) -> Iterator[str]:
    taken: dict[tuple[int, int], str] = {}
    for one in grid:
        at = one["gridPos"]
        if at["w"] <= 0 or at["h"] <= 0 or at["x"] < 0 or at["x"] + at["w"] > 24:
            yield one["title"]
        for place in (
            (x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
        ):
            if place in taken:
                yield f"{one['title']} over {taken[place]}"
            taken[place] = one["title"]


def ragged(document: Json) -> Iterator[str]:
    """Yield lines of panels that are not full: a hole on the right looks as if a panel had failed to load."""
    for grid in grids(document):
        by_line: dict[int, int] = {}
        for one in grid:
            at = one["gridPos"]
            by_line[at["y"]] = by_line.get(at["y"], 0) + at["w"]
        yield from (f"line {y}: {width}" for y, width in by_line.items() if width != 24)


def unknown_names(document: Json) -> Iterator[str]:
    """Yield metrics and labels in queries and variables that do not exist."""
    asked = [*exprs(document), *((one["name"], one["definition"]) for one in variables(document)[1:])]
    for title, expr in asked:
        names = set(re.findall(NAME, expr))
        yield from (f"{title}: {name}" for name in names - SERIES.keys())
        families = [SERIES[name] for name in names & SERIES.keys()]
        if not families and "ALERTS{" not in expr:
            yield f"{title}: uses no metric of Weir"
        grouped = {
            label
            for found in re.findall(r"\b(?:by|on|without) \(([^)]*)\)", expr)
            for label in found.split(", ")
        }
        grouped |= set(re.findall(r"label_values\(.*, (\w+)\)$", expr))
        for label in grouped:
            is_of_alerts = "ALERTS{" in expr and label in OF_ALERTS
            if not is_of_alerts and not any(label in labels_of(family) for family in families):
                yield f"{title}: by {label}"
        for name, selector in re.findall(rf"({NAME})\{{([^}}]*)\}}", expr):
            for label in re.findall(r"(\w+)(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', '""', selector)):
                if name in SERIES and label not in labels_of(SERIES[name]):
                    yield f"{title}: {name}{{{label}}}"


def labels_of(family: Family) -> set[str]:
    return {*family.labels, *RELEASE_LABELS, *(("le",) if family.type == "histogram" else ())}


def raw_counters(document: Json) -> Iterator[str]:
    """Yield counters that are shown without a rate, and rates over a window that is not chosen by Grafana."""
    for title, expr in exprs(document):
        for name in COUNTERS & set(re.findall(NAME, expr)):
            for found in re.finditer(rf"\b{name}\b", expr):
                before, after = expr[: found.start()], expr[found.end() :]
                if not re.search(r"\b(?:rate|increase)\($", before) or not re.match(
                    r"(?:\{[^}]*\})?\[", after
                ):
                    yield f"{title}: {name}"
        for window in re.findall(r"\[([^\]]*)\]", expr):
            if window not in ("$__rate_interval", "$__range"):
                yield f"{title}: [{window}]"


def illegible(document: Json) -> Iterator[str]:
    """Yield legends that do not name exactly the labels in which the lines of their panel differ."""
    for panel in panels(document):
        legends = [one.get("legendFormat", "") for one in panel["targets"]]
        for legend, target in zip(legends, panel["targets"], strict=True):
            named, left = set(re.findall(r"\{\{(\w+)\}\}", legend)), labels_left(target["expr"])
            if not named <= left:
                yield f"{panel['title']}: {legend} of {sorted(left)}"
            if panel["type"] == "timeseries" and not left - named <= chosen_alone(document):
                yield f"{panel['title']}: {legend} does not name {sorted(left - named)}"
            if panel["type"] in ("timeseries", "heatmap") and not legend:
                yield f"{panel['title']}: no legend"
        if panel["type"] == "timeseries":
            if len(set(legends)) != len(legends):
                yield f"{panel['title']}: the same legend twice"
            if not panel["options"]["legend"]["showLegend"]:
                yield f"{panel['title']}: the legend is hidden"


def labels_left(expr: str) -> set[str]:
    """Return the labels in which the resulting series of an expression differ: the labels of the first aggregation."""
    if re.match(r"(sum|count|max|min)\(", expr):
        return set()
    found = re.search(r"\bby \(([^)]*)\)", expr)
    labels = set(found[1].split(", ")) if found else set()
    return labels - {"le"} if "histogram_quantile" in expr else labels


def chosen_alone(document: Json) -> set[str]:
    """Return the labels for which the reader chooses a single value."""
    return {one["name"] for one in variables(document)[1:] if not one["multi"]}


def unfinished(document: Json) -> Iterator[str]:
    """Yield wrong properties of the whole page: uid, tags, annotations, links, variables and panel ids."""
    if (
        document["editable"]
        or not re.fullmatch(r"weir-[a-z]+", document["uid"])
        or document["tags"] != ["weir"]
    ):
        yield "uid, tags, editable"
    if document.get("id") is not None or document.get("version") is not None:
        yield "id and version, which Grafana assigns"
    if [one["name"] for one in document["annotations"]["list"]] != [
        "Annotations & Alerts",
        "Restarts",
        "Shares moved",
        "Annotated moves",
    ]:
        yield "annotations"
    others = [one["uid"] for one in DOCUMENTS if one["uid"] != document["uid"]]
    if [(one["url"].partition("?")[0], one["keepTime"]) for one in document["links"]] != [
        (f"/d/{uid}", True) for uid in others
    ]:
        yield "links"
    yield from (one["name"] for one in variables(document)[1:] if one["refresh"] != 2)
    yield from (
        one["name"]
        for one in variables(document)[1:]
        if one["multi"] != one["includeAll"] or (one["multi"] and one["allValue"] != ".*")
    )
    ids = [one["id"] for one in everything(document)]
    if sorted(ids) != list(range(1, len(ids) + 1)):
        yield "ids of panels"
    used = set(re.findall(r"\$([a-z]+)\b", " ".join(expr for _, expr in exprs(document))))
    yield from sorted(used - {one["name"] for one in variables(document)})


RULES: list[Callable[[Json], Iterator[str]]] = [
    foreign_sources,
    undescribed,
    without_unit,
    unbounded,
    cut,
    unnamed,
    overlapping,
    ragged,
    unknown_names,
    raw_counters,
    illegible,
    unfinished,
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: str(one["uid"]))
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_dashboard_passes_every_rule(rule: Callable[[Json], Iterator[str]], document: Json) -> None:
    assert list(rule(document)) == []


def spoiled(path: str, value: object) -> Json:
    """Return the tenant's dashboard with one wrong value in it."""
    document = copy.deepcopy(DOCUMENTS[1])
    at: Any = document
    *way, last = path.split(".")
    for step in way:
        at = at[int(step) if step.isdigit() else step]
    at[last] = value
    return document


@pytest.mark.parametrize(
    ("rule", "path", "value"),
    [
        (foreign_sources, "panels.1.datasource", {"type": "prometheus", "uid": "P1"}),
        (foreign_sources, "panels.1.targets.0.datasource", None),
        (foreign_sources, "templating.list.1.datasource", None),
        (undescribed, "panels.1.description", ""),
        (undescribed, "panels.1.title", "Shares"),
        (without_unit, "panels.1.fieldConfig.defaults.unit", "none"),
        (unbounded, "panels.1.fieldConfig.defaults.min", None),
        (cut, "panels.1.title", "Answers within their target"),
        (overlapping, "panels.2.gridPos.x", 3),
        (overlapping, "panels.6.gridPos.x", 21),
        (ragged, "panels.1.gridPos.w", 3),
        (unknown_names, "panels.1.targets.0.expr", "sum(weir_class_nonsense)"),
        (unknown_names, "panels.1.targets.0.expr", "sum by (colour) (weir_class_asleep)"),
        (unknown_names, "panels.1.targets.0.expr", 'weir_class_asleep{colour="red"}'),
        (unknown_names, "panels.1.targets.0.expr", "up"),
        (unknown_names, "templating.list.1.definition", "label_values(weir_class_units, colour)"),
        (raw_counters, "panels.1.targets.0.expr", "sum(weir_class_slices_total)"),
        (raw_counters, "panels.1.targets.0.expr", "sum(rate(weir_class_slices_total[5m]))"),
        (illegible, "panels.8.targets.0.legendFormat", "{{node}}"),
        (illegible, "panels.8.targets.0.legendFormat", ""),
        (illegible, "panels.8.targets.0.legendFormat", "p95"),
        (unfinished, "editable", True),
        (unfinished, "panels.1.id", 2000),
        (unfinished, "templating.list.1.refresh", 1),
        (unfinished, "panels.1.targets.0.expr", 'weir_class_asleep{tenant=~"$nobody"}'),
    ],
)
def test_each_dashboard_rule_finds_a_mistake_that_breaks_it(
    rule: Callable[[Json], Iterator[str]], path: str, value: object
) -> None:
    assert list(rule(spoiled(path, value))) != []


@pytest.mark.parametrize("spoil", ["names", "cells"])
def test_a_table_with_unnamed_columns_or_misleading_empty_cells_is_found(spoil: str) -> None:
    document = copy.deepcopy(DOCUMENTS[0])
    assert document["uid"] == "weir-overview"
    alerts = next(panel for panel in panels(document) if panel["title"] == "Pending and firing alerts")
    if spoil == "names":
        names = alerts["transformations"][1]["options"]["renameByName"]
        names["Value #A"] = names.pop("Value")
    else:
        alerts["fieldConfig"]["overrides"].pop()
    assert list(unnamed(document)) == ["Pending and firing alerts"]


def test_dashboard_files_of_the_chart_match_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert (main([]), capsys.readouterr().err) == (0, "")
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()} == {
        f"{one['uid']}.json": text_of(one) for one in DOCUMENTS
    }


def test_writing_dashboards_removes_old_files(tmp_path: Path) -> None:
    (tmp_path / "weir-old.json").write_text("{}", encoding="utf-8")
    write(tmp_path, {"weir-new.json": "{}\n"})
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {
        "weir-new.json": "{}\n"
    }
    assert main(["--nonsense"]) == 2


def test_every_metric_family_is_shown_on_a_panel_unless_it_repeats_another_family() -> None:
    """Check that every metric family is on a panel, except families that repeat the information of another family."""
    shown = {
        SERIES[name].name
        for document in DOCUMENTS
        for _, expr in exprs(document)
        for name in re.findall(NAME, expr)
    }
    assert sorted(BY_NAME.keys() - shown) == [
        "weir_class_borrowed_seconds_total",
        "weir_class_kept_ratio",
        "weir_class_lent_seconds_total",
        "weir_class_overrun_seconds_total",
        "weir_class_slices_total",
    ]


def test_panels_stand_side_by_side_while_there_is_room() -> None:
    ask = (PanelQuery("sum(weir_problems)", "problems"),)
    row = Row("One", tuple(Panel(f"{n}", "", "short", ask, width=width, height=n) for n, width in ((3, 12), (5, 12), (2, 8))))  # fmt: skip
    board = Board("weir-x", "X", "", (), (row, Row("Two", ())))
    assert [tuple(one["gridPos"][key] for key in "xywh") for one in rendered(board)["panels"]] == [
        (0, 0, 24, 1),
        (0, 1, 12, 3),
        (12, 1, 12, 5),
        (0, 6, 8, 2),
        (0, 8, 24, 1),
    ]


def test_a_row_of_panels_is_folded_if_it_may_be_empty_in_a_healthy_system() -> None:
    folded = {
        one["title"]: [panel["title"] for panel in one["panels"]]
        for document in DOCUMENTS
        for one in document["panels"]
        if one.get("collapsed")
    }
    assert folded == {
        row.title: [panel.title for panel in row.panels]
        for board in BOARDS
        for row in board.rows
        if row.may_be_empty
    }
    assert "Mirrors" in folded


def test_the_next_row_of_panels_begins_right_below_a_folded_row() -> None:
    ask = (PanelQuery("sum(weir_problems)", "problems"),)
    may_be_empty = Panel("a", "", "short", ask, width=24, height=6, empty_unless="a mirror is declared")
    board = Board(
        "weir-x",
        "X",
        "",
        (),
        (Row("One", (may_be_empty,)), Row("Two", (Panel("b", "", "short", ask, width=24),))),
    )
    shown = rendered(board)["panels"]
    assert [(one["title"], one["gridPos"]["y"], one["id"]) for one in shown] == [
        ("One", 0, 1),
        ("Two", 1, 3),
        ("b", 2, 4),
    ]
    assert [(one["title"], one["gridPos"]["y"], one["id"]) for one in shown[0]["panels"]] == [("a", 1, 2)]


def test_an_empty_panel_shows_why_it_is_empty() -> None:
    shown = {
        panel["title"]: panel["fieldConfig"]["defaults"]["noValue"]
        for one in DOCUMENTS
        for panel in panels(one)
    }
    for panel in (panel for board in BOARDS for panel in board.panels):
        assert shown[panel.title] == (
            f"Empty unless {panel.empty_unless}" if panel.empty_unless else panel.nothing
        )
    assert shown["Pending and firing alerts"] == "No alert is pending or fires."


def test_the_alert_panels_cover_every_alert_of_the_chart() -> None:
    rules = yaml.safe_load((FOLDER.parent / "rules" / "alerts.yaml").read_text(encoding="utf-8"))
    names = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    pattern = re.search(r'alertname=~"([^"]+)"', ALERTS)
    assert pattern is not None
    assert [name for name in names if not re.fullmatch(pattern[1], name)] == []


def test_a_panel_that_may_be_empty_says_in_its_description_when_it_is_empty() -> None:
    said = {
        panel.title: panel.description for board in BOARDS for panel in board.panels if panel.empty_unless
    }
    assert said
    assert all(" Empty unless " in text for text in said.values())
    operators = {title for title, text in said.items() if "metrics_operators" in text}
    assert operators == {
        panel.title
        for board in BOARDS
        for panel in board.panels
        if any(BY_NAME[name].per_operator for query in panel.queries for name in re.findall(NAME, query.expr) if name in BY_NAME)
    }  # fmt: skip


def test_colours_of_panels_change_at_the_service_level_objective_and_lines_mark_the_delay_target() -> None:
    found = {"in time": 0, "of target": 0, "seconds": 0}
    for panel in (panel for board in BOARDS for panel in board.panels if panel.kind != "table"):
        asked = " ".join(query.expr for query in panel.queries)
        steps = {at for at, _ in panel.thresholds}
        if "results_in_time_total" in asked and panel.unit == "percentunit":
            found["in time"] += 1
            assert OBJECTIVE in steps, panel.title
        elif "histogram_quantile" in asked and panel.unit == "percentunit":
            found["of target"] += 1
            assert 1.0 in steps, panel.title
        elif "histogram_quantile" in asked:
            found["seconds"] += 1
            assert panel.limits == ("target",), panel.title
    assert found == {"in time": 3, "of target": 2, "seconds": 1}


def test_links_between_dashboards_keep_the_chosen_variables() -> None:
    links = {one["title"]: one["url"] for one in DOCUMENTS[0]["links"]}
    assert links == {
        "Tenant": "/d/weir-tenant?${datasource:queryparam}&${namespace:queryparam}&${release:queryparam}",
        "Lending and control loop": "/d/weir-control?${datasource:queryparam}&${namespace:queryparam}&${release:queryparam}&${class:queryparam}&${tenant:queryparam}",
        "Streams and Spark": "/d/weir-streams?${datasource:queryparam}&${namespace:queryparam}&${release:queryparam}",
        "Runtime": "/d/weir-runtime?${datasource:queryparam}&${namespace:queryparam}&${release:queryparam}",
    }


def test_states_that_need_attention_have_the_colours_of_alarm() -> None:
    (shown,) = (panel for board in BOARDS for panel in board.panels if panel.title == "State of the class")
    (drawn,) = (one for one in panels(DOCUMENTS[1]) if one["title"] == "State of the class")
    fixed = {
        override["matcher"]["options"]: override["properties"][0]["value"]["fixedColor"]
        for override in drawn["fieldConfig"]["overrides"]
    }
    assert fixed == shown.colours
    names = {"within_target": "green", "over_target": "orange", "starved": "red", "idle": "blue"}
    assert {name: fixed[name] for name in names} == names
