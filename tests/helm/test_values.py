"""Values: what is written from their model is as the model is, and whoever gives wrong ones is told what to do."""

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
    """`a.b` and 1 as {a: {b: 1}}."""
    found: Any = value
    for part in reversed(path.split(".")):
        found = {part: found}
    said: dict[str, Any] = found
    return said


# -- what is written -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["values.yaml", "values.schema.json", "README.md"])
def test_file_is_as_the_model_is(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == written()[name], "run `make chart`"


def test_values_are_the_defaults_of_the_model() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert parse_model(ChartValues, values) == ChartValues()


def keys(values: Mapping[str, Any], before: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield f"{before}{name}"
        if isinstance(value, dict):
            yield from keys(value, f"{before}{name}.")


def test_every_value_is_in_the_readme_with_what_it_means() -> None:
    rows = {key: meaning for key, _, meaning in all_rows()}
    assert [key for key, meaning in rows.items() if not meaning] == []
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    told = (FOLDER / "README.md").read_text(encoding="utf-8")
    missing = [
        key for key in keys(values) if not any(row == key or row.startswith(f"{key}.") for row in rows)
    ]
    # What is Kubernetes' own is one value, whatever is in it.
    assert [key for key in missing if not any(key.startswith(f"{row}.") for row in rows)] == []
    assert all(f"`{key}`" in told for key in rows)


def objects_in(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if "properties" in schema and schema.get("type") == "object":
            yield schema
        for one in schema.values():
            yield from objects_in(one)
    elif isinstance(schema, list):
        for one in schema:
            yield from objects_in(one)


def test_schema_is_closed_but_for_what_is_kubernetes_own() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    opened = [one for one in objects_in(schema) if one.get("additionalProperties") is not False]
    assert [set(one["properties"]) for one in opened] == [{"cpu", "memory"}]


@pytest.mark.parametrize("file", CI, ids=lambda file: file.name)
def test_files_of_values_are_values_of_the_model(file: Path) -> None:
    defaults = ChartValues().model_dump(mode="json", by_alias=True, exclude_none=True)
    said = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert parse_model(ChartValues, merged(defaults, said)) != ChartValues()


# -- wrong values ----------------------------------------------------------------------------------------------

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
]
CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    (
        {"catalog": {"dsn": "postgresql://a@b/c", "existingSecret": "x"}},
        "catalog.dsn, catalog.existingSecret: only one says where the catalog is; remove one of the two",
    ),
    ({"catalog": {"dsn": "mysql://a"}}, "catalog.dsn: not the address of a PostgreSQL; write postgresql://"),
    (
        {"catalog": {"existingSecret": "x", "persistence": {"enabled": True}}},
        "catalog.persistence.enabled: with PostgreSQL nothing is kept in the volume; set it to false",
    ),
    (
        nested("ray.gcsFaultTolerance.enabled", True),
        "ray.gcsFaultTolerance.redisAddress: required while ray.gcsFaultTolerance.enabled is true; give",
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
    (nested("api.ingress.enabled", True), "api.ingress.hosts: required while api.ingress.enabled is true"),
    (nested("api.httpRoute.enabled", True), "api.httpRoute.parentRefs: required while api.httpRoute.enabled"),
    (nested("config.service.port", 0), "config.service.port: a Service needs to know it; give a port"),
    (nested("config.gateway.port", 0), "config.gateway.port: pods need to know it; give a port"),
    (
        nested("config.service", {"tls_certificate": "a", "tls_key": "b"}),
        "config.service.tls_certificate, config.service.tls_key: the chart sets them; use api.tls",
    ),
    (nested("config.cluster.address", None), "config.cluster.address: without it weir up would begin a Ray"),
    (
        nested("head.podDisruptionBudget.enabled", True),
        "head.podDisruptionBudget: exactly one of minAvailable and maxUnavailable; give one of the two",
    ),
    (
        nested("worker.podDisruptionBudget", {"enabled": True, "minAvailable": 1, "maxUnavailable": 1}),
        "worker.podDisruptionBudget: exactly one of minAvailable and maxUnavailable",
    ),
    (nested("workerGroups.default", None), "workerGroups: queries run on workers; give one group at least"),
    (
        {"ray": {"autoscaler": {"enabled": True}}, **nested("workerGroups.default.minReplicas", 2)},
        "workerGroups.default: minReplicas <= replicas <= maxReplicas does not hold (2, 1, 1)",
    ),
    (
        nested("workerGroups.default.maxReplicas", 2),
        "workerGroups.default.maxReplicas: nobody adds workers while ray.autoscaler.enabled is false",
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
        "ingest.executors.enabled: executors are the driver's; set ingest.enabled to true, or this to false",
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
        "tenants: Acme is declared twice; keep one of the two",
    ),
    (
        {"mirrors": [{"name": "m", "sql": MIRROR.format("u@h")}, {"name": "M", "sql": MIRROR.format("u@h")}]},
        "mirrors: M is declared twice; keep one of the two",
    ),
    (
        {"mirrors": [{"name": "m", "sql": MIRROR.format("u:hunter2@h")}]},
        "mirrors: an address of m has a password, which would be in a ConfigMap; give it as PGPASSWORD",
    ),
    (
        {"networkPolicy": {"enabled": True}, "mirrors": [{"name": "m", "sql": MIRROR.format("u@h")}]},
        "networkPolicy.extraEgress.head: the service could not reach the stores of mirrors; add a rule",
    ),
    ({"fullnameOverride": "x" * 41}, "fullnameOverride: names of Ray's pods would be too long; give 40"),
]


@pytest.mark.parametrize(("path", "value", "told"), WRONG, ids=[path for path, _, _ in WRONG])
def test_wrong_value_is_named(path: str, value: object, told: str) -> None:
    done = template(values=nested(path, value))
    assert (done.returncode, told in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(("values", "told"), CONTRADICTIONS, ids=[told[:50] for _, told in CONTRADICTIONS])
def test_values_that_contradict_each_other_are_named_with_a_remedy(
    values: Mapping[str, Any], told: str
) -> None:
    done = template(values=values)
    assert (done.returncode, told in done.stderr) == (1, True), done.stderr


def test_every_contradiction_that_the_chart_knows_is_tried() -> None:
    text = (CHART / "templates" / "validation.yaml").read_text(encoding="utf-8")
    assert text.count("fail ") == len({told for _, told in CONTRADICTIONS}) - 3


# -- what people are told --------------------------------------------------------------------------------------


def notes(folder: Path, values: Mapping[str, Any]) -> str:
    """Helm tells them at an install alone; as a template of a copy of the chart they can be read."""
    copy = folder / "weir"
    shutil.copytree(CHART, copy)
    told = (CHART / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    defined = '{{- define "notes" -}}' + told + "{{- end -}}"
    (copy / "templates" / "_notes.tpl").write_text(defined, encoding="utf-8")
    shown = 'told: {{ include "notes" . | quote }}'
    (copy / "templates" / "notes.yaml").write_text(shown, encoding="utf-8")
    done = template(values=values, chart=copy)
    assert done.returncode == 0, done.stderr
    (found,) = [one["told"] for one in yaml.safe_load_all(done.stdout) if one and "told" in one]
    text: str = found
    return text


def test_notes_tell_the_next_three_commands_and_never_a_secret(tmp_path: Path) -> None:
    told = notes(tmp_path, {"catalog": {"dsn": "postgresql://weir:hunter2@db/weir"}})
    assert f"helm test {RELEASE} -n {NAMESPACE}" in told
    assert f"kubectl port-forward -n {NAMESPACE} svc/{RELEASE}-weir-api 8642" in told
    assert f"kubectl get secret -n {NAMESPACE} {RELEASE}-weir-keys -o jsonpath='{{.data.admin-key}}'" in told
    assert "weir apply -f tenants.yaml && weir top" in told
    assert "hunter2" not in told
    assert "WARNING" not in told


def test_notes_warn_of_a_catalog_that_goes_with_its_pod(tmp_path: Path) -> None:
    told = notes(tmp_path, {})
    assert "WARNING: the catalog is in the pod, and is lost with it: set catalog.existingSecret" in told


def test_chart_of_this_version_is_of_the_image_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    shown = helm("show", "chart", str(CHART))
    assert (shown.returncode, chart["apiVersion"], chart["appVersion"]) == (0, "v2", chart["version"])
    pyproject = (CHART.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{chart["appVersion"]}"' in pyproject
    assert f'ray[default]~={ChartValues().ray.version}"' in pyproject
