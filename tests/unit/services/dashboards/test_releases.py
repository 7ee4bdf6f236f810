"""Dashboards show the release that the reader selects, where one Prometheus has the data of several."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.dashboards.releases import SELECTOR, selected
from tests.support.dashboard_documents import DOCUMENTS, exprs, variables
from tests.support.promtool import needs_promtool, promtool


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document["uid"]))
def test_every_dashboard_query_selects_only_the_chosen_release(document: dict[str, Any]) -> None:
    names = [variable["name"] for variable in variables(document)]
    assert names[:3] == ["datasource", "namespace", "release"]
    asked = [*exprs(document), *((each["name"], each["definition"]) for each in variables(document)[3:])]
    for title, expr in asked:
        series = re.findall(r"\b(?:weir_\w+|ALERTS)(\{[^}]*\})?", expr)
        assert series, title
        assert [found for found in series if not found.startswith(SELECTOR[:-1])] == [], title
    for link in document["links"]:
        assert "${namespace:queryparam}&${release:queryparam}" in link["url"]


def test_release_selector_is_merged_into_existing_label_selectors() -> None:
    assert selected("weir_a / on (x) priority_class:weir_b:rate5m{y='1'}") == (
        f"weir_a{SELECTOR} / on (x) priority_class:weir_b:rate5m{SELECTOR[:-1]}, y='1'}}"
    )


@needs_promtool
def test_panel_shows_only_the_chosen_release_of_two(tmp_path: Path) -> None:
    expr = selected("sum(weir_problems)").replace("$namespace", "a").replace("$release", ".*")
    series = [
        {"series": f'weir_problems{{namespace="{namespace}", release="east"}}', "values": f"{value}x5"}
        for namespace, value in (("a", 1), ("b", 2))
    ]
    sample = {"expr": expr, "eval_time": "3m", "exp_samples": [{"labels": "{}", "value": 1}]}
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [sample]}
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"tests": [test]}), encoding="utf-8")
    done = subprocess.run(
        [promtool(), "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
