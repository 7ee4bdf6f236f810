"""All dashboards of Weir. Each dashboard has links to the other dashboards at its top, in the order of this module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from services.dashboards.boards import Board
from services.dashboards.control import CONTROL
from services.dashboards.overview import OVERVIEW
from services.dashboards.render import rendered
from services.dashboards.runtime import RUNTIME
from services.dashboards.streams import STREAMS
from services.dashboards.tenant import TENANT_BOARD

BOARDS: tuple[Board, ...] = (OVERVIEW, TENANT_BOARD, CONTROL, STREAMS, RUNTIME)
FOLDER = Path(__file__).parents[2] / "helm" / "weir" / "dashboards"
"""Folder of the chart's dashboard files."""


def documents() -> list[dict[str, Any]]:
    """Return all dashboards as Grafana's JSON, each with links to the other dashboards."""
    return [rendered(board, [other for other in BOARDS if other is not board]) for board in BOARDS]
