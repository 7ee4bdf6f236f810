"""Values of the chart: generated files match the model, wrong values are refused with a remedy, and notes show the next steps."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from configs.service.chart_values import ChartValues, merged
from configs.yaml_loading import parse_model
from services.chart.written import FOLDER, all_rows, written
from tests.helm.chart import CHART, CI, NAMESPACE, RELEASE, helm, template

pytestmark = pytest.mark.helm


def nested(path: str, value: object) -> dict[str, Any]:
    """Return nested dictionaries with one value: the path `a.b` and the value 1 give {a: {b: 1}}."""
    found: Any = value
    for part in reversed(path.split(".")):
        found = {part: found}
    values: dict[str, Any] = found
    return values


# -- files that are generated from the model of the values ----------------------------------------------------


@pytest.mark.parametrize("name", ["values.yaml", "values.schema.json", "README.md"])
def test_generated_chart_files_match_the_model_of_chart_values(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == written()[name], "run `make chart`"


def test_chart_values_are_the_defaults_of_the_model_of_chart_values() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert parse_model(ChartValues, values) == ChartValues()


def keys(values: Mapping[str, Any], before: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield f"{before}{name}"
        if isinstance(value, dict):
            yield from keys(value, f"{before}{name}.")


def test_every_value_is_described_in_the_readme() -> None:
    rows = {key: meaning for key, _, meaning in all_rows()}
    assert [key for key, meaning in rows.items() if not meaning] == []
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    missing = [
        key for key in keys(values) if not any(row == key or row.startswith(f"{key}.") for row in rows)
    ]
    # If Kubernetes defines the keys of a value, such as `resources`, the README has a single row for the value.
    assert [key for key in missing if not any(key.startswith(f"{row}.") for row in rows)] == []
    assert all(f"`{key}`" in readme for key in rows)


def objects_in(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if "properties" in schema and schema.get("type") == "object":
            yield schema
        for one in schema.values():
            yield from objects_in(one)
    elif isinstance(schema, list):
        for one in schema:
            yield from objects_in(one)


def test_the_schema_allows_unknown_keys_only_in_resources() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    opened = [one for one in objects_in(schema) if one.get("additionalProperties") is not False]
    assert [set(one["properties"]) for one in opened] == [{"cpu", "memory"}]


@pytest.mark.parametrize("file", CI, ids=lambda file: file.name)
def test_values_files_in_ci_are_valid_for_the_model_of_chart_values(file: Path) -> None:
    defaults = ChartValues().model_dump(mode="json", by_alias=True, exclude_none=True)
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert parse_model(ChartValues, merged(defaults, values)) != ChartValues()


# -- wrong values, which the chart refuses ---------------------------------------------------------------------

MIRROR = "CREATE MIRROR m (a string) FROM DATABASE 'postgresql://{}/d' TABLE 't' BANDWIDTH 5 PER SECOND"
WRONG: list[tuple[str, object, str]] = [
    ("imagee", {}, "Additional property imagee is not allowed"),
    ("image.digest", "sha1:0", "image.digest: Does not match pattern"),
    ("image.pullPolicy", "Sometimes", "image.pullPolicy"),
    ("config.live.lanes", 0, "config.live.lanes: Must be greater than or equal to 1"),
    ("config.live.lane", 1, "config.live: Additional property lane is not allowed"),
    ("config.service.admission", "perhaps", "config.service.admission"),
    ("tenants", [{"name": "0", "priority_class": "gold"}], "tenants.0.name: Does not match pattern"),
    ("tenants", [{"name": "acme"}], "tenants.0: priority_class is required"),
    ("mirrors", [{"name": "m"}], "mirrors.0: sql is required"),
    (
        "mirrors",
        [{"name": "m", "sql": "CREATE MIRROR", "options": {"password": "hunter2"}}],
        "mirrors.0: Additional property options is not allowed",
    ),
    ("head.resources.limits", {"cpu": "lots"}, "head.resources.limits.cpu: Does not match pattern"),
    ("head.rayStartParams", {"num-gpus": 1}, "head.rayStartParams.num-gpus: Invalid type"),
    ("workerGroups", {"Large": {}}, "Large"),
    ("head.podDisruptionBudget.minAvailable", "50%", "head.podDisruptionBudget.minAvailable: Invalid type"),
    ("worker.podDisruptionBudget", {"maxUnavailable": 1}, "property maxUnavailable is not allowed"),
]
CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    (
        {"catalog": {"dsn": "postgresql://a@b/c", "existingSecret": "x"}},
        "catalog.dsn, catalog.existingSecret: both are set; remove one of them",
    ),
    (
        {"catalog": {"dsn": "mysql://a"}},
        "catalog.dsn: not the address of a PostgreSQL database; write postgresql://",
    ),
    (
        {"catalog": {"existingSecret": "x", "persistence": {"enabled": True}}},
        "catalog.persistence.enabled: the volume is not used with PostgreSQL; set it to false",
    ),
    (
        nested("ray.gcsFaultTolerance.enabled", True),
        "ray.gcsFaultTolerance.redisAddress: required while ray.gcsFaultTolerance.enabled is true; set",
    ),
    (
        nested("ray.gcsFaultTolerance.redisAddress", "redis:6379"),
        "ray.gcsFaultTolerance.redisAddress: has no effect while ray.gcsFaultTolerance.enabled is false",
    ),
    (
        nested("ray.auth", {"enabled": False, "existingSecret": "x"}),
        "ray.auth.existingSecret: has no effect while ray.auth.enabled is false; enable it",
    ),
    (nested("api.tls.enabled", True), "api.tls.existingSecret: required while api.tls.enabled is true; name"),
    (
        nested("gateway.tls.enabled", True),
        "gateway.tls.existingSecret: required while gateway.tls.enabled is true; name the Secret",
    ),
    (
        nested("gateway.tls", {"enabled": True, "existingSecret": "certificate"}),
        "gateway.tls.serverName: required while gateway.tls.enabled is true; set the name",
    ),
    (
        nested("config.gateway.tls", {"certificate": "a", "key": "b"}),
        "config.gateway.tls: the chart sets it; use gateway.tls.existingSecret",
    ),
    (nested("api.ingress.enabled", True), "api.ingress.hosts: required while api.ingress.enabled is true"),
    (nested("api.httpRoute.enabled", True), "api.httpRoute.parentRefs: required while api.httpRoute.enabled"),
    (nested("config.service.port", 0), "config.service.port: the Kubernetes Service needs a fixed port; set"),
    (
        nested("config.gateway.port", 0),
        "config.gateway.port: pods and network policies need a fixed port; set",
    ),
    (
        nested("config.service", {"tls_certificate": "a", "tls_key": "b"}),
        "config.service.tls_certificate, config.service.tls_key: the chart sets them; use api.tls",
    ),
    (
        nested("config.cluster.address", None),
        "config.cluster.address: without an address, weir up would start",
    ),
    (
        nested("head.podDisruptionBudget.enabled", True),
        "head.podDisruptionBudget.minAvailable: required while head.podDisruptionBudget.enabled is true; set",
    ),
    (
        nested("ingest.podDisruptionBudget", {"enabled": True, "minAvailable": 1, "maxUnavailable": 1}),
        "ingest.podDisruptionBudget: needs either minAvailable or maxUnavailable; set exactly one of them",
    ),
    (nested("workerGroups.default", None), "workerGroups: there is no group of workers to run queries; set"),
    (
        {"ray": {"autoscaler": {"enabled": True}}, **nested("workerGroups.default.minReplicas", 2)},
        "workerGroups.default: minReplicas <= replicas <= maxReplicas does not hold (2, 1, 1)",
    ),
    (
        nested("workerGroups.default.maxReplicas", 2),
        "workerGroups.default.maxReplicas: the number of workers is fixed while ray.autoscaler.enabled is false",
    ),
    (
        nested("config.live.lanes", 3),
        "workerGroups.default.resources.limits.cpu: 2 has fewer whole processors than config.live.lanes (3)",
    ),
    (
        {
            "workerGroups": {
                "small": {
                    "resources": {
                        "requests": {"cpu": "900m", "memory": "1Gi"},
                        "limits": {"cpu": "900m", "memory": "1Gi"},
                    }
                }
            }
        },
        "workerGroups.small.resources.limits.cpu: 900m has fewer whole processors than config.live.lanes (1)",
    ),
    (
        {"ingest": {"enabled": False, "executors": {"enabled": True}}},
        "ingest.executors.enabled: executors need the driver in the ingest pod; set ingest.enabled to true, or",
    ),
    (
        {"networkPolicy": {"enabled": True}, "catalog": {"existingSecret": "x"}},
        "networkPolicy.extraEgress.head: the service could not reach the catalog's database; add a rule",
    ),
    (
        {
            "networkPolicy": {"enabled": True},
            "ray": {"gcsFaultTolerance": {"enabled": True, "redisAddress": "redis:6379"}},
        },
        "networkPolicy.extraEgress.head: Ray could not reach the Redis; add a rule",
    ),
    (
        {
            "tenants": [
                {"name": "acme", "priority_class": "gold"},
                {"name": "Acme", "priority_class": "gold"},
            ]
        },
        "tenants: Acme is declared twice; remove one of the declarations",
    ),
    (
        {"mirrors": [{"name": "m", "sql": MIRROR.format("u@h")}, {"name": "M", "sql": MIRROR.format("u@h")}]},
        "mirrors: M is declared twice; remove one of the declarations",
    ),
    (
        {"mirrors": [{"name": "m", "sql": MIRROR.format("u:hunter2@h")}]},
        "mirrors: an address in the SQL of m contains a password, which would be stored in a ConfigMap; pass",
    ),
    (
        {"networkPolicy": {"enabled": True}, "mirrors": [{"name": "m", "sql": MIRROR.format("u@h")}]},
        "networkPolicy.extraEgress.head: the service could not reach the stores of mirrors; add a rule",
    ),
    (
        nested("fullnameOverride", "1east"),
        "fullnameOverride: 1east is not a DNS label that starts with a letter, which KubeRay requires; set",
    ),
    (
        nested("head.sharedMemory", "100Mi"),
        "head.sharedMemory: 100Mi does not hold head.rayStartParams.object-store-memory (134217728 bytes)",
    ),
    (
        nested("config.live.retained_bytes", 1 << 30),
        "workerGroups.default.sharedMemory: 1Gi does not hold one stream (config.live.retained_bytes), its",
    ),
    (
        {"fullnameOverride": "x" * 41},
        "fullnameOverride: names of Ray's pods would be too long; use at most 40",
    ),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG, ids=[path for path, _, _ in WRONG])
def test_a_wrong_value_is_reported_with_its_path(path: str, value: object, message: str) -> None:
    done = template(values=nested(path, value))
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(
    ("values", "message"), CONTRADICTIONS, ids=[message[:50] for _, message in CONTRADICTIONS]
)
def test_contradicting_values_are_reported_with_a_remedy(values: Mapping[str, Any], message: str) -> None:
    done = template(values=values)
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr


def test_every_contradiction_that_the_chart_refuses_is_tested() -> None:
    text = (CHART / "templates" / "validation.yaml").read_text(encoding="utf-8")
    assert text.count('fail "') + text.count("fail (") == len({message for _, message in CONTRADICTIONS}) - 2


# -- notes that Helm prints after an installation -------------------------------------------------------------


def notes(folder: Path, values: Mapping[str, Any]) -> str:
    """Return the notes. Helm shows them only at an install, so a copy of the chart renders them as a template."""
    copy = folder / "weir"
    shutil.copytree(CHART, copy)
    text = (CHART / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    defined = '{{- define "notes" -}}' + text + "{{- end -}}"
    (copy / "templates" / "_notes.tpl").write_text(defined, encoding="utf-8")
    shown = 'notes: {{ include "notes" . | quote }}'
    (copy / "templates" / "notes.yaml").write_text(shown, encoding="utf-8")
    done = template(values=values, chart=copy)
    assert done.returncode == 0, done.stderr
    (found,) = [one["notes"] for one in yaml.safe_load_all(done.stdout) if one and "notes" in one]
    rendered: str = found
    return rendered


def test_notes_show_the_next_commands_and_no_secret(tmp_path: Path) -> None:
    shown = notes(tmp_path, {"catalog": {"dsn": "postgresql://weir:hunter2@db/weir"}})
    assert f"helm test {RELEASE} -n {NAMESPACE}" in shown
    assert f"kubectl port-forward -n {NAMESPACE} svc/{RELEASE}-weir-api 8642" in shown
    assert f"kubectl get secret -n {NAMESPACE} {RELEASE}-weir-keys -o jsonpath='{{.data.admin-key}}'" in shown
    assert "weir apply -f tenants.yaml && weir top" in shown
    assert "hunter2" not in shown
    assert "WARNING" not in shown


def test_notes_warn_if_the_catalog_would_be_lost_with_its_pod(tmp_path: Path) -> None:
    shown = notes(tmp_path, {})
    warning = "WARNING: the catalog (all declarations and keys) is stored in the head pod and is lost with it. Set catalog."
    assert warning in shown


def test_the_chart_has_the_versions_of_weir_and_of_ray() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    shown = helm("show", "chart", str(CHART))
    assert (shown.returncode, chart["apiVersion"], chart["appVersion"]) == (0, "v2", chart["version"])
    pyproject = (CHART.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{chart["appVersion"]}"' in pyproject
    assert f'ray[default]~={ChartValues().ray.version}"' in pyproject
