"""Every dashboard obeys Grafana's own schema of dashboards, as the real server checks it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.grafana.server import Organisation
from tests.support.dashboard_documents import DOCUMENTS, Json

pytestmark = pytest.mark.grafana


def without_lowest(value: Any) -> Any:
    """Return JSON without the value null in thresholds.

    Grafana's editor writes null for the lowest threshold, but the schema of Grafana 10 accepts only numbers.
    """
    if isinstance(value, dict):
        return {
            name: without_lowest(inner)
            for name, inner in value.items()
            if not (name == "value" and inner is None and "color" in value)
        }
    return [without_lowest(inner) for inner in value] if isinstance(value, list) else value


def problem(organisation: Organisation, document: Json) -> str:
    """Return Grafana's message about a dashboard that breaks the schema, or an empty text."""
    told = organisation.ask(
        "POST", "/api/dashboards/validate", {"dashboard": json.dumps(without_lowest(document))}
    ).json()
    return "" if told["isValid"] else str(told.get("message"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: str(one["uid"]))
def test_every_dashboard_obeys_the_schema_of_grafana(organisation: Organisation, document: Json) -> None:
    assert problem(organisation, document) == ""


def test_wrong_types_and_unknown_values_break_the_schema(organisation: Organisation) -> None:
    for name, wrong in {"title": 7, "graphTooltip": 9, "panels": {}, "time": "now"}.items():
        document = copy.deepcopy(DOCUMENTS[0]) | {name: wrong}
        assert name in problem(organisation, document)
