"""Every query of every dashboard, answered by a real Grafana out of a real Prometheus that has scraped the real demonstration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import httpx
import pytest

from services.dashboards.answers import EVERYTHING
from services.dashboards.grafana import Grafana
from services.dashboards.overview import ALERTING
from services.dashboards.push import DATASOURCE_UID, Wish, push
from services.dashboards.streams import MIRRORS
from services.dashboards.tenant import TENANT_BOARD, WITH_FAILURES
from tests.grafana.recording import Recording
from tests.grafana.server import Organisation, RealServer
from tests.support.dashboard_documents import DOCUMENTS, Json, panels, variables

pytestmark = pytest.mark.grafana

# Panels that have no data in the demonstration, each with the reason.
EMPTY = {
    **{("weir-streams", panel.title): "the demonstration declares no mirror" for panel in MIRRORS.panels},
    **{("weir-overview", panel.title): "an alert needs minutes to be pending" for panel in ALERTING.panels},
    **{
        ("weir-tenant", panel.title): "no row of the demonstration fails in a query"
        for panel in TENANT_BOARD.panels
        if panel.empty_unless == WITH_FAILURES
    },
}
# Time range of the queries in seconds. A dashboard shows the last hour when it is opened.
SPAN_S = 3600.0
MAX_POINTS = 1000
# Variables that the browser replaces in a query before it sends the query. Grafana's server replaces the variables `$__…`.
VARIABLE = re.compile(r"\$(namespace|release|tenant|class|query|stream|node)\b")
LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")


@dataclass(frozen=True)
class Answer:
    """Grafana's answer to one query."""

    uid: str
    panel: str
    expr: str
    is_table: bool
    error: str
    frames: list[Json]

    @property
    def numbers(self) -> int:
        """Number of values in the answer that are not null."""
        return sum(
            value is not None
            for frame in self.frames
            for field, values in zip(frame["schema"]["fields"], frame["data"]["values"], strict=False)
            if field["type"] == "number"
            for value in values
        )

    @property
    def labels(self) -> set[frozenset[str]]:
        """Names of the labels of each series."""
        fields = (field for frame in self.frames for field in frame["schema"]["fields"])
        return {frozenset(field.get("labels", ())) for field in fields if field["type"] == "number"}

    @property
    def legends(self) -> list[str]:
        configs = (field.get("config", {}) for frame in self.frames for field in frame["schema"]["fields"])
        return [config["displayNameFromDS"] for config in configs if "displayNameFromDS" in config]


@dataclass(frozen=True)
class Asked:
    """Grafana with the dashboards, and with the recorded Prometheus as data source."""

    organisation: Organisation
    recording: Recording
    tenant: str
    """Tenant that loses most input, because fewest of its panels are empty."""

    def values(self, document: Json) -> Mapping[str, str]:
        """Return the values of a dashboard's variables. A dashboard for a single tenant gets one tenant, other dashboards all tenants."""
        single = {one["name"] for one in variables(document) if not one.get("includeAll")}
        return {"tenant": self.tenant} if "tenant" in single else {}

    def answer(self, uid: str, panel: str, target: Json, values: Mapping[str, str]) -> Answer:
        """Send a query as the browser does, and return the answer."""
        expr = VARIABLE.sub(lambda found: values.get(found[1], EVERYTHING), target["expr"])
        source = {"type": "prometheus", "uid": DATASOURCE_UID}
        query = target | {
            "expr": expr,
            "datasource": source,
            "intervalMs": 15_000,
            "maxDataPoints": MAX_POINTS,
        }
        begin, end = self.recording.end - SPAN_S, self.recording.end
        body = {"queries": [query], "from": str(round(begin * 1000)), "to": str(round(end * 1000))}
        told = self.organisation.ask("POST", "/api/ds/query", body)
        result = told.json().get("results", {}).get(target["refId"], {})
        error = result.get("error", "") or ("" if told.status_code == httpx.codes.OK else told.text)
        return Answer(uid, panel, expr, bool(target.get("instant")), error, result.get("frames", []))


@pytest.fixture(scope="module")
def asked(server: RealServer, recording: Recording) -> Asked:
    organisation = server.organisation()
    with Grafana(server.url, organisation.token("Admin")) as client:
        push(client, Wish(DOCUMENTS, datasource_url=recording.prometheus.url))
    lost = 'topk(1, sum by (tenant) (weir_class_tuples_total{fate!="delivered"}))'
    (most,) = recording.prometheus.ask(lost, recording.end)
    return Asked(organisation, recording, most.labels["tenant"])


@pytest.fixture(scope="module")
def answers(asked: Asked) -> list[Answer]:
    """Grafana's answers to all queries of all panels of the stored dashboards."""
    return [answer for document in DOCUMENTS for answer in answered(asked, str(document["uid"]))]


def answered(asked: Asked, uid: str) -> Iterator[Answer]:
    stored = asked.organisation.told("GET", f"/api/dashboards/uid/{uid}")["dashboard"]
    for panel in panels(stored):
        for target in panel["targets"]:
            yield asked.answer(uid, panel["title"], target, asked.values(stored))


def test_grafana_reaches_its_prometheus_data_source(asked: Asked) -> None:
    told = asked.organisation.told("GET", f"/api/datasources/uid/{DATASOURCE_UID}/health")
    assert told["status"] == "OK"


def test_grafana_runs_every_dashboard_query_without_an_error(answers: list[Answer]) -> None:
    assert [(answer.uid, answer.panel, answer.error) for answer in answers if answer.error] == []


def test_every_dashboard_panel_has_data_in_grafana(
    answers: list[Answer], capsys: pytest.CaptureFixture[str]
) -> None:
    numbers: dict[tuple[str, str], int] = {}
    for answer in answers:
        key = (answer.uid, answer.panel)
        numbers[key] = numbers.get(key, 0) + answer.numbers
    with capsys.disabled():
        print(
            f"\n{len(numbers)} panels, {len(answers)} queries: {sum(map(bool, numbers.values()))} panels and "
            f"{sum(answer.numbers > 0 for answer in answers)} queries have data, "
            f"{sum(numbers.values())} numbers in {sum(len(answer.frames) for answer in answers)} frames"
        )
    assert len(numbers) == sum(len(panels(document)) for document in DOCUMENTS)
    assert [key for key, found in numbers.items() if not found and key not in EMPTY] == []
    # The demonstration has no mirrors, so panels about mirrors must be empty.
    assert [key for key, found in numbers.items() if found and "mirror" in EMPTY.get(key, "")] == []


def test_lines_of_a_panel_have_different_legends(answers: list[Answer]) -> None:
    by_panel: dict[tuple[str, str], list[str]] = {}
    plotted = (answer for answer in answers if not answer.is_table)
    for answer in plotted:
        by_panel.setdefault((answer.uid, answer.panel), []).extend(answer.legends)
    assert {key: found for key, found in by_panel.items() if len(set(found)) < len(found)} == {}
    assert [key for key, found in by_panel.items() if any("{{" in legend for legend in found)] == []


def test_queries_of_a_table_have_the_same_labels(answers: list[Answer]) -> None:
    # Grafana joins the answers of a table's queries into rows by their labels.
    by_panel: dict[tuple[str, str], list[set[frozenset[str]]]] = {}
    for answer in answers:
        if answer.is_table:
            by_panel.setdefault((answer.uid, answer.panel), []).append(answer.labels)
    joined = {key: labels for key, labels in by_panel.items() if len(labels) > 1}
    assert joined.keys() == {("weir-overview", "All tenants now")}
    assert all(labels == [{frozenset({"tenant", "priority_class"})}] * 6 for labels in joined.values())


def test_every_dashboard_variable_lists_values(asked: Asked) -> None:
    # The demonstration does not run in Kubernetes, so its metrics lack these labels.
    outside = {"namespace", "release"}
    for document in DOCUMENTS:
        for variable in variables(document):
            if variable["type"] == "query":
                found = LABEL_VALUES.fullmatch(variable["query"]["query"])
                assert found is not None, variable
                listed = label_values(asked, VARIABLE.sub(EVERYTHING, found[1]), found[2])
                assert bool(listed) is (variable["name"] not in outside), variable["name"]


def label_values(asked: Asked, selector: str, label: str) -> list[str]:
    """Ask Grafana for all values of a label, as the browser does."""
    query = httpx.QueryParams(
        {"match[]": selector, "start": str(asked.recording.end - SPAN_S), "end": str(asked.recording.end)}
    )
    path = f"/api/datasources/uid/{DATASOURCE_UID}/resources/api/v1/label/{label}/values?{query}"
    found: list[str] = asked.organisation.told("GET", path)["data"]
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: str(one["uid"]))
def test_every_query_for_annotations_is_valid(asked: Asked, document: Json) -> None:
    marks = [one for one in document["annotations"]["list"] if "expr" in one]
    for mark in marks:
        target = {"refId": "Anno", "expr": mark["expr"], "range": True, "interval": mark["step"]}
        assert asked.answer(document["uid"], mark["name"], target, asked.values(document)).error == ""
    assert len(marks) == 2


def test_a_query_with_an_unknown_promql_function_is_reported(asked: Asked) -> None:
    wrong = asked.answer("none", "none", {"refId": "A", "expr": "rat(up[1m])", "range": True}, {})
    assert "rat" in wrong.error


def test_grafana_shows_the_alert_rules_of_its_prometheus_data_source(asked: Asked) -> None:
    told = asked.organisation.told("GET", f"/api/prometheus/{DATASOURCE_UID}/api/v1/rules")
    rules = [rule for group in told["data"]["groups"] for rule in group["rules"]]
    known = {rule.name for rule in asked.recording.prometheus.rules()}
    assert {rule["name"] for rule in rules} == known
    assert {(rule["health"], rule.get("lastError", "")) for rule in rules} == {("ok", "")}
