"""Files that a Grafana loads when it starts: the provider of docs/dashboards.md, and dashboards as the chart writes them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from services.dashboards.all import FOLDER
from tests.helm.chart import of_kind, rendered
from tests.support.checkout import ROOT

DOCUMENTED = re.compile(r"^```yaml\n(apiVersion: 1\nproviders:.*?)```$", re.DOTALL | re.MULTILINE)
OF_RELEASE = {"monitoring": {"dashboards": {"enabled": True, "perRelease": True}}}
CHART_FOLDER = "weir-of-chart"
SOURCE = {"uid": "weir-prometheus", "name": "Weir Prometheus", "type": "prometheus", "access": "proxy"}
SOURCE_URL = "http://127.0.0.1:1"


def write_provisioning(folder: Path) -> None:
    """Write dashboards for the provider of docs/dashboards.md, the dashboards of one release of the chart, and a data source."""
    for name in ("dashboards", "datasources", "plugins", "alerting", "notifiers", "access-control"):
        (folder / name).mkdir()
    provider = documented_provider()
    shutil.copytree(FOLDER, folder / "json" / "weir")
    provider["options"]["path"] = str(folder / "json" / "weir")
    written = str(write_of_release(folder / "json" / "chart"))
    names = {"name": "chart", "folder": "Of the chart", "folderUid": CHART_FOLDER}
    of_chart = {**names, "type": "file", "options": {"path": written}}
    write(folder / "dashboards" / "weir.yaml", {"apiVersion": 1, "providers": [provider, of_chart]})
    source = SOURCE | {"url": SOURCE_URL, "editable": False}
    write(folder / "datasources" / "weir.yaml", {"apiVersion": 1, "datasources": [source]})


def documented_provider() -> dict[str, Any]:
    """Return the provider of dashboards that docs/dashboards.md shows as an example."""
    found = DOCUMENTED.search((ROOT / "docs" / "dashboards.md").read_text(encoding="utf-8"))
    assert found is not None
    (provider,) = yaml.safe_load(found[1])["providers"]
    return dict(provider)


def write_of_release(folder: Path) -> Path:
    """Write dashboards from the chart's ConfigMaps to files, as Grafana's sidecar does in a cluster."""
    folder.mkdir(parents=True)
    for config_map in of_kind(rendered(values=OF_RELEASE), "ConfigMap"):
        if "grafana_dashboard" in config_map["metadata"].get("labels", {}):
            for name, text in config_map["data"].items():
                (folder / name).write_text(text, encoding="utf-8")
    return folder


def write(path: Path, document: object) -> None:
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
