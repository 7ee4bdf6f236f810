"""The dashboards as they are sent to Grafana, and their contents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from services.dashboards.all import documents

Json = dict[str, Any]
DOCUMENTS = documents()


def panels(document: Json) -> list[Json]:
    """Return all panels of a dashboard, also those within folded rows."""
    return [one for one in everything(document) if one["type"] != "row"]


def everything(document: Json) -> Iterator[Json]:
    """Yield the rows and panels of a dashboard in the order of their numbers."""
    for one in document["panels"]:
        yield one
        yield from one.get("panels", ())


def targets(document: Json) -> Iterator[tuple[str, Json]]:
    for panel in panels(document):
        for target in panel["targets"]:
            yield panel["title"], target


def exprs(document: Json) -> Iterator[tuple[str, str]]:
    """Yield all PromQL expressions of a dashboard, with their titles."""
    for title, target in targets(document):
        yield title, target["expr"]
    for one in document["annotations"]["list"]:
        if "expr" in one:
            yield one["name"], one["expr"]


def variables(document: Json) -> list[Json]:
    found: list[Json] = document["templating"]["list"]
    return found
