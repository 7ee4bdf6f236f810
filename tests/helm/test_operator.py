"""KubeRay operators that are too old are refused, because such an operator silently drops fields of the RayCluster."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helm.chart import CHART, named, rendered, template

pytestmark = pytest.mark.helm
# For each release of KubeRay, the fields of a RayCluster that this release knows and that the chart needs.
FIELDS: Mapping[str, Mapping[str, Any]] = {
    "1.3": {},
    "1.5.1": {"authOptions": {"properties": {"mode": {}}}},
    "1.6": {"authOptions": {"properties": {"mode": {}, "secretName": {}}}, "upgradeStrategy": {}},
}


def problem(folder: Path, version: str, values: Mapping[str, Any]) -> str:
    """Return the error of a copy of the chart that contains the custom resource definition of an operator of this version."""
    schema = {"openAPIV3Schema": {"properties": {"spec": {"properties": FIELDS[version]}}}}
    crd = {"spec": {"versions": [{"name": "v1alpha1", "schema": {}}, {"name": "v1", "schema": schema}]}}
    copy = folder / f"weir-{version}"
    shutil.copytree(CHART, copy, dirs_exist_ok=True)
    (copy / "crd.yaml").write_text(yaml.safe_dump(crd), encoding="utf-8")
    shown = 'problem: {{ include "weir.operatorProblem" (dict "values" .Values "crd" (.Files.Get "crd.yaml" | fromYaml)) | quote }}'
    (copy / "templates" / "problem.yaml").write_text(shown, encoding="utf-8")
    done = template(values=values, chart=copy)
    assert done.returncode == 0, done.stderr
    (found,) = [each["problem"] for each in yaml.safe_load_all(done.stdout) if each and "problem" in each]
    return str(found)


SECRET = {"ray": {"auth": {"existingSecret": "token"}}}
UPGRADES = {"ray": {"upgradeStrategy": "Recreate"}}


@pytest.mark.parametrize(
    ("version", "values", "value"),
    [
        ("1.3", {}, "ray.auth.enabled"),
        ("1.3", {"ray": {"auth": {"enabled": False}}}, ""),
        ("1.5.1", {}, ""),
        ("1.5.1", SECRET, "ray.auth.existingSecret"),
        ("1.5.1", UPGRADES, "ray.upgradeStrategy"),
        ("1.6", SECRET, ""),
        ("1.6", UPGRADES, ""),
    ],
)
def test_kuberay_operator_that_is_too_old_is_refused(
    tmp_path: Path, version: str, values: Mapping[str, Any], value: str
) -> None:
    found = problem(tmp_path, version, values)
    assert found.partition(":")[0] == value
    assert not value or "install KubeRay 1.6 or newer" in found


def test_headless_service_gives_gateways_a_dns_name() -> None:
    objects = rendered(values={"config": {"gateway": {"port": 9815}}})
    spec = named(objects, "Service", "east-weir-gateway")["spec"]
    assert (spec["clusterIP"], spec["ports"][0]["port"], spec["ports"][0]["targetPort"]) == (
        "None",
        9815,
        "gateway",
    )
    assert spec["selector"]["app.kubernetes.io/component"] == "worker"
