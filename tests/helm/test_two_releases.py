"""Two releases with one Prometheus and one Grafana: each has its own rules, alerts and dashboards."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helm.chart import CHART, RELEASE, Object, helm, of_kind
from tests.support.checkout import ROOT
from tests.support.promtool import needs_promtool, promtool

pytestmark = pytest.mark.helm
NAMESPACES = ("a", "b")
MONITORED = {
    "monitoring": {
        "podMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboards": {"enabled": True, "perRelease": True},
    }
}
COUNTED = "weir_class_response_seconds_count"


@cache
def installed(namespace: str, settings: str = "{}") -> list[Object]:
    """Return the objects of the release in this namespace. `settings` is JSON with additional chart values for alert rules."""
    values = json.loads(json.dumps(MONITORED))
    values["monitoring"]["prometheusRule"] |= json.loads(settings)
    done = helm(
        "template", RELEASE, str(CHART), "-n", namespace, "--values", "-", stdin=yaml.safe_dump(values)
    )
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def rules_of(objects: list[Object]) -> list[Object]:
    (found,) = of_kind(objects, "PrometheusRule")
    return [rule for group in found["spec"]["groups"] for rule in group["rules"]]


def series(name: str, values: str, namespace: str, **labels: str) -> Object:
    all_labels = {"namespace": namespace, "release": RELEASE, "pod": "head", **labels}
    written = ", ".join(f'{label}="{value}"' for label, value in all_labels.items())
    return {"series": f"{name}{{{written}}}", "values": values}


def difference(folder: Path, **test: Any) -> str:
    """Test the rules of both releases with promtool. Return promtool's output if the test fails, otherwise an empty text."""
    files = []
    for namespace in NAMESPACES:
        (rule,) = of_kind(installed(namespace), "PrometheusRule")
        files.append(folder / f"{namespace}.yaml")
        files[-1].write_text(yaml.safe_dump({"groups": rule["spec"]["groups"]}), encoding="utf-8")
    whole = {"rule_files": list(map(str, files)), "tests": [{"interval": "1m", **test}]}
    (folder / "test.yaml").write_text(yaml.safe_dump(whole), encoding="utf-8")
    command = [promtool(), "test", "rules", str(folder / "test.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@needs_promtool
def test_recording_rules_keep_the_series_of_two_releases_separate(tmp_path: Path) -> None:
    """All answers of release a, and half of the answers of release b, are in time."""
    gold = {"priority_class": "gold", "tenant": "acme"}
    given = [series(COUNTED, "0+60x20", namespace, **gold) for namespace in NAMESPACES]
    in_time = "weir_class_results_in_time_total"
    given += [series(in_time, "0+60x20", "a", **gold), series(in_time, "0+30x20", "b", **gold)]
    name = "priority_class:weir_target_missed:ratio_rate5m"
    samples = [
        {
            "labels": f'{name}{{namespace="{namespace}", priority_class="gold", release="east"}}',
            "value": value,
        }
        for namespace, value in (("a", 0), ("b", 0.5))
    ]
    asked = [{"expr": name, "eval_time": "15m", "exp_samples": samples}]
    assert difference(tmp_path, input_series=given, promql_expr_test=asked) == ""
    wrong = [{**asked[0], "exp_samples": samples[:1]}]
    assert "got:" in difference(tmp_path, input_series=given, promql_expr_test=wrong)


@needs_promtool
def test_alert_fires_for_a_release_without_metrics_although_another_release_has_metrics(
    tmp_path: Path,
) -> None:
    given = [series("weir_build_info", "1x20", "a"), series("weir_view_age_seconds", "1x20", "a")]
    (rule,) = [rule for rule in rules_of(installed("b")) if rule.get("alert") == "WeirNotSeen"]
    labels = {"severity": "critical", "namespace": "b", "release": "east"}
    alert = {"exp_labels": labels, "exp_annotations": rule["annotations"]}
    asked = [{"eval_time": "10m", "alertname": "WeirNotSeen", "exp_alerts": [alert]}]
    assert difference(tmp_path, input_series=given, alert_rule_test=asked) == ""


def test_every_rule_selects_and_labels_only_series_of_its_own_release() -> None:
    for namespace in NAMESPACES:
        for rule in rules_of(installed(namespace)):
            names = re.findall(r"(?:\w+:)?weir_\w+(?::\w+)?(\{[^}]*\})?", rule["expr"])
            assert names, rule
            wanted = f'{{namespace="{namespace}",release="{RELEASE}"'
            assert [selector for selector in names if not selector.startswith(wanted)] == [], rule["expr"]
            assert rule["labels"].items() >= {"namespace": namespace, "release": RELEASE}.items()


def test_pod_monitors_add_the_release_label_that_rules_select() -> None:
    for monitor in of_kind(installed("a"), "PodMonitor"):
        for endpoint in monitor["spec"]["podMetricsEndpoints"]:
            label = {
                "sourceLabels": ["__meta_kubernetes_pod_label_app_kubernetes_io_instance"],
                "targetLabel": "release",
            }
            assert label in endpoint["relabelings"]


def test_alerts_link_to_the_runbook_at_the_configured_address() -> None:
    assert not any("runbook_url" in rule.get("annotations", {}) for rule in rules_of(installed("a")))
    address = "https://docs.example.com/runbook.html"
    alerts = [
        rule for rule in rules_of(installed("a", json.dumps({"runbookUrl": address}))) if "alert" in rule
    ]
    sections = {
        f"#{title.lower()}"
        for title in re.findall(r"^## (\w+)$", (ROOT / "docs/runbook.md").read_text("utf-8"), re.MULTILINE)
    }
    links = {rule["annotations"]["runbook_url"] for rule in alerts}
    assert {link.removeprefix(address) for link in links} == sections


def test_chart_values_set_the_labels_of_alerts() -> None:
    settings = {
        "severities": {"page": "P1", "ticket": "P3"},
        "additionalRuleLabels": {"team": "streams"},
        "selector": {"job": "weir"},
    }
    alerts = [rule for rule in rules_of(installed("a", json.dumps(settings))) if "alert" in rule]
    assert {rule["labels"]["severity"] for rule in alerts} == {"P1", "P3"}
    assert all(set(rule["labels"]) == {"severity", "team", "job"} for rule in alerts)
    assert all('{job="weir"' in rule["expr"] for rule in alerts)


def dashboards(namespace: str) -> dict[str, Object]:
    maps = [
        each
        for each in of_kind(installed(namespace), "ConfigMap")
        if "grafana_dashboard" in each["metadata"]["labels"]
    ]
    return {name: json.loads(text) for each in maps for name, text in each["data"].items()}


def test_two_releases_have_dashboards_with_different_files_uids_and_titles() -> None:
    a, b = (dashboards(namespace) for namespace in NAMESPACES)
    assert len(a) == len(b) == 5
    assert not set(a) & set(b)
    for key in ("uid", "title"):
        assert not {each[key] for each in a.values()} & {each[key] for each in b.values()}
    uids = {each["uid"] for each in a.values()}
    assert all(len(uid) <= 40 for uid in uids)
    text = json.dumps(list(a.values()))
    assert set(re.findall(r"/d/([\w-]+)", text)) == uids
    assert {each["title"] for each in a.values()} >= {"Weir / Overview (a/east-weir)"}
