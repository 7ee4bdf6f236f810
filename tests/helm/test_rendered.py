"""Rendered objects of the chart are valid and consistent, for every values file in ci/ and every supported Kubernetes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from configs.documents.declarations import (
    Declaration,
    MirrorDeclaration,
    SessionDeclaration,
    documents_of,
    ref_of,
)
from configs.service.up_settings import UpSettings
from configs.yaml_loading import parse_model
from services.api.app import make_app
from services.api.service import service_of
from services.catalog.catalog import Catalog
from services.cli.commands.config import chart_values
from services.cli.upkeep.up_service import GIVEN_KEYS
from services.common.weir_home import Home
from services.dashboards.all import FOLDER as DASHBOARDS
from tests.helm.chart import (
    CHART,
    CI,
    NAMESPACE,
    RELEASE,
    VERSIONS,
    Object,
    containers,
    helm,
    named,
    of_kind,
    pods,
    problems,
    quantity,
    rendered,
    rendered_ci,
)

pytestmark = pytest.mark.helm
each_ci = pytest.mark.parametrize("file", CI, ids=lambda file: file.name.removesuffix("-values.yaml"))
RAY_NAME = f"{RELEASE}-weir"
# Secrets that the chart does not create, with their keys. An administrator creates these Secrets, or KubeRay does.
GIVEN_SECRETS: Mapping[str, set[str]] = {
    "weir-database": {"dsn"},
    "weir-own-keys": {"pepper", "admin-key", "feeds-key", "metrics-key"},
    "ray-token": {"auth_token"},
    "weir-certificate": {"tls.crt", "tls.key", "ca.crt"},
    "redis": {"redis-password"},
    "shop-reader": {"PGPASSWORD"},
    RAY_NAME: {"auth_token"},
}
GIVEN_CONFIG_MAPS = {"more-environment"}


def test_ci_folder_has_exactly_the_four_expected_values_files() -> None:
    assert [file.name.removesuffix("-values.yaml") for file in CI] == [
        "ha",
        "minimal",
        "no-spark",
        "production",
    ]


@each_ci
def test_helm_lint_finds_no_problem(file: Path) -> None:
    done = helm("lint", "--strict", str(CHART), "--values", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout


@pytest.mark.parametrize("version", VERSIONS)
@each_ci
def test_every_object_is_valid_for_kubernetes(file: Path, version: str) -> None:
    assert [problem for one in rendered(file, version=version) for problem in problems(one, version)] == []


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("RayCluster", ["spec", "rayVerson"], "1"),
        ("RayCluster", ["spec", "headGroupSpec", "rayStartParams", "num-cpus"], 0),
        ("RayCluster", ["spec", "headGroupSpec", "template", "spec", "tolerationz"], []),
        ("RayCluster", ["spec", "workerGroupSpecs", 0, "template", "spec", "containers", 0, "imag"], "x"),
        ("PodMonitor", ["spec", "podMetricsEndpoints", 0, "intervall"], "5s"),
        ("PodMonitor", ["spec", "podMetricsEndpoints", 0, "interval"], "often"),
        ("PrometheusRule", ["spec", "groups", 0, "rules", 0, "exprr"], "up"),
        ("HTTPRoute", ["spec", "rules", 0, "backendRefs", 0, "prt"], 1),
        ("Service", ["spec", "selectr"], {}),
        ("Deployment", ["spec", "template", "spec", "containers", 0, "ports", 0, "containerPort"], "x"),
        ("Ingress", ["apiVersion"], "extensions/v1beta1"),
    ],
)
def test_the_schemas_find_fields_that_kubernetes_would_refuse_or_drop(
    kind: str, path: list[Any], value: object
) -> None:
    (one, *_) = of_kind(rendered(CHART / "ci" / "production-values.yaml"), kind)
    assert problems(one, VERSIONS[0]) == []
    place: Any = one
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    assert problems(one, VERSIONS[0]) != []


# -- names by which objects refer to each other ----------------------------------------------------------------


@each_ci
def test_every_selector_matches_a_pod(file: Path) -> None:
    objects = rendered_ci(file)
    labels = [pod["metadata"].get("labels", {}) for _, pod in pods(objects)]
    # Spark creates the pods of executors, with the labels of the session.
    labels += [labels_of(one) for one in sessions(objects)]
    selectors = list(selected(objects))
    assert len(selectors) >= 2
    assert [
        name for name, wanted in selectors if not any(wanted.items() <= one.items() for one in labels)
    ] == []


def selected(objects: Iterable[Object]) -> Iterable[tuple[str, dict[str, str]]]:
    for one in objects:
        name, spec = f"{one['kind']} {one['metadata']['name']}", one.get("spec", {})
        match one["kind"]:
            case "Service":
                yield name, spec["selector"]
            case "PodDisruptionBudget" | "Deployment" | "PodMonitor":
                yield name, spec["selector"]["matchLabels"]
            case "NetworkPolicy":
                yield name, spec["podSelector"]["matchLabels"]
        for constraint_of, pod in pods([one]):
            for constraint in pod["spec"].get("topologySpreadConstraints", []):
                yield f"{constraint_of} is spread", constraint["labelSelector"]["matchLabels"]


def documents(objects: Iterable[Object]) -> str:
    maps = [one for one in of_kind(objects, "ConfigMap") if "documents.yaml" in one["data"]]
    return maps[0]["data"]["documents.yaml"] if maps else ""


def sessions(objects: Iterable[Object]) -> list[SessionDeclaration]:
    text = documents(objects)
    found = [one.declaration for one in documents_of(text)] if text else []
    return [one for one in found if isinstance(one, SessionDeclaration)]


def labels_of(one: SessionDeclaration) -> dict[str, str]:
    label = "spark.kubernetes.executor.label."
    return {key.removeprefix(label): value for key, value in one.conf.items() if key.startswith(label)}


@each_ci
def test_every_secret_and_config_map_key_that_a_pod_needs_exists(file: Path) -> None:
    objects = rendered_ci(file)
    known: dict[tuple[str, str], set[str]] = {("Secret", name): keys for name, keys in GIVEN_SECRETS.items()}
    for one in objects:
        if one["kind"] in ("Secret", "ConfigMap"):
            keys = {*one.get("data", {}), *one.get("stringData", {})}
            known[one["kind"], one["metadata"]["name"]] = keys
    used = list(references(objects))
    assert ("Secret", f"{RELEASE}-weir-keys", "pepper") in used or (
        "Secret",
        "weir-own-keys",
        "pepper",
    ) in used
    missing = [
        (kind, name, key)
        for kind, name, key in used
        if name not in GIVEN_CONFIG_MAPS and (key or "") not in {"", *known.get((kind, name), {None})}
    ]
    unknown = [one for one in used if one[:2] not in known and one[1] not in GIVEN_CONFIG_MAPS]
    assert (missing, unknown) == ([], [])


def references(objects: Iterable[Object]) -> Iterable[tuple[str, str, str | None]]:
    for _, pod in pods(objects):
        for container in containers(pod):
            for variable in container.get("env", []):
                for kind, source in (("Secret", "secretKeyRef"), ("ConfigMap", "configMapKeyRef")):
                    if source in variable.get("valueFrom", {}):
                        found = variable["valueFrom"][source]
                        yield kind, found["name"], found["key"]
            for source in container.get("envFrom", []):
                for kind, ref in (("Secret", "secretRef"), ("ConfigMap", "configMapRef")):
                    if ref in source:
                        yield kind, source[ref]["name"], None
        for volume in pod["spec"].get("volumes", []):
            for kind, field, name in (("Secret", "secret", "secretName"), ("ConfigMap", "configMap", "name")):
                if field in volume:
                    items = [item["key"] for item in volume[field].get("items", [])] or [None]
                    for key in items:
                        yield kind, volume[field][name], key


@each_ci
def test_every_mount_has_a_volume_and_every_claim_exists(file: Path) -> None:
    objects = rendered_ci(file)
    claims = {one["metadata"]["name"] for one in of_kind(objects, "PersistentVolumeClaim")} | {"weir-home"}
    for name, pod in pods(objects):
        volumes = [volume["name"] for volume in pod["spec"].get("volumes", [])]
        assert len(volumes) == len(set(volumes)), name
        for container in containers(pod):
            mounts = container.get("volumeMounts", [])
            assert {mount["name"] for mount in mounts} <= set(volumes), name
            assert len({mount["mountPath"] for mount in mounts}) == len(mounts), name
        for volume in pod["spec"].get("volumes", []):
            if "persistentVolumeClaim" in volume:
                assert volume["persistentVolumeClaim"]["claimName"] in claims


@each_ci
def test_port_names_are_unique_and_every_referenced_port_exists(file: Path) -> None:
    objects = rendered_ci(file)
    known: set[str | int] = set()
    for name, pod in pods(objects):
        ports = [port for container in containers(pod) for port in container.get("ports", [])]
        names, numbers = [port["name"] for port in ports], [port["containerPort"] for port in ports]
        assert len(names) == len(set(names)), name
        assert len(numbers) == len(set(numbers)), name
        known |= {*names, *numbers}
        for container in containers(pod):
            here = {port["name"] for port in container.get("ports", [])}
            for probe in probes(container):
                if "httpGet" in probe:
                    assert probe["httpGet"]["port"] in here
    for service in of_kind(objects, "Service"):
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= known
    for monitor in of_kind(objects, "PodMonitor"):
        assert {one["port"] for one in monitor["spec"]["podMetricsEndpoints"]} <= known
    for policy in of_kind(objects, "NetworkPolicy"):
        rules = [*policy["spec"]["ingress"], *policy["spec"]["egress"]]
        named_ports = {port["port"] for rule in rules for port in rule.get("ports", [])}
        assert {port for port in named_ports if isinstance(port, str)} <= known


def probes(container: Object) -> list[Object]:
    return [
        container[kind] for kind in ("startupProbe", "livenessProbe", "readinessProbe") if kind in container
    ]


# -- containers of the rendered pods --------------------------------------------------------------------------


@each_ci
def test_every_container_has_resource_limits_and_no_privileges(file: Path) -> None:
    seen = 0
    for name, pod in pods(rendered_ci(file)):
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True, name
        assert pod["spec"]["serviceAccountName"] != "default", name
        for container in containers(pod):
            seen += 1
            resources = container["resources"]
            for what in ("cpu", "memory"):
                assert quantity(resources["requests"][what]) <= quantity(resources["limits"][what]), name
            context = container["securityContext"]
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["readOnlyRootFilesystem"] is True, name
            assert context["seccompProfile"] == {"type": "RuntimeDefault"}, name
            assert ":" in container["image"], name
    assert seen >= 4


@each_ci
def test_only_pods_that_call_kubernetes_get_a_service_account_token(file: Path) -> None:
    objects = rendered_ci(file)
    (ray,) = of_kind(objects, "RayCluster")
    tokens = {name for name, pod in pods(objects) if pod["spec"]["automountServiceAccountToken"]}
    wanted = {f"RayCluster {RAY_NAME} head"} if ray["spec"].get("enableInTreeAutoscaling") else set()
    wanted |= {f"Job {RAY_NAME}-uninstall"} if "gcsFaultToleranceOptions" in ray["spec"] else set()
    wanted |= {f"Deployment {RAY_NAME}-ingest"} if sessions(objects) else set()
    assert tokens == wanted


def test_probes_use_paths_that_the_service_serves(tmp_path: Path) -> None:
    catalog = Catalog(Home(tmp_path))
    paths = make_app(service_of(catalog)).openapi()["paths"]
    catalog.close()
    found = [
        probe["httpGet"]["path"]
        for file in CI
        for _, pod in pods(rendered_ci(file))
        for container in containers(pod)
        for probe in probes(container)
        if "httpGet" in probe
    ]
    assert set(found) == {"/healthz", "/readyz"}
    assert set(found) <= set(paths)


# -- configuration of pods -------------------------------------------------------------------------------------


def config_of(objects: Iterable[Object]) -> UpSettings:
    data = named(objects, "ConfigMap", f"{RAY_NAME}-config")["data"]
    return parse_model(UpSettings, yaml.safe_load(data["weir.yaml"]))


@each_ci
def test_pods_get_the_configuration_that_weir_config_render_shows(file: Path) -> None:
    assert config_of(rendered_ci(file)) == chart_values([file]).up_settings()


@each_ci
def test_keys_of_the_service_come_from_one_secret_and_no_secret_is_in_a_config_map(file: Path) -> None:
    objects = rendered_ci(file)
    (ray,) = of_kind(objects, "RayCluster")
    (weir,) = [one for one in containers(ray["spec"]["headGroupSpec"]["template"]) if one["name"] == "weir"]
    names = {
        one["name"]: one["valueFrom"]["secretKeyRef"]["name"] for one in weir["env"] if "valueFrom" in one
    }
    keys = {names[variable] for variable in (*GIVEN_KEYS.values(), "WEIR_PEPPER")}
    assert len(keys) == 1
    config_maps = "".join(json.dumps(one) for one in of_kind(objects, "ConfigMap"))
    assert "change-me" not in config_maps
    for secret in of_kind(objects, "Secret"):
        for value in (*secret.get("data", {}).values(), *secret.get("stringData", {}).values()):
            assert value not in config_maps


@each_ci
def test_the_job_declares_the_documents_in_the_values(file: Path) -> None:
    objects, values = rendered_ci(file), chart_values([file])
    jobs = [one for one in of_kind(objects, "Job") if one["metadata"]["name"] == f"{RAY_NAME}-apply"]
    text = documents(objects)
    found = [one.declaration for one in documents_of(text)] if text else []
    wanted: list[Declaration] = [*values.priority_classes, *values.tenants]
    wanted += [MirrorDeclaration(**one.model_dump()) for one in values.mirrors]
    mirrors = [one for one in found if isinstance(one, MirrorDeclaration)]
    assert mirrors == [one for one in wanted if isinstance(one, MirrorDeclaration)]
    assert [ref_of(one) for one in found if one.kind != "Session"] == [ref_of(one) for one in wanted]
    assert len(jobs) == bool(found)
    for one in jobs:
        assert one["metadata"]["annotations"]["helm.sh/hook"] == "post-install,post-upgrade"
        (container,) = one["spec"]["template"]["spec"]["containers"]
        (mount,) = [each for each in container["volumeMounts"] if each["name"] == "documents"]
        assert container["command"][:4] == ["weir", "apply", "-f", f"{mount['mountPath']}/documents.yaml"]


def test_rendered_rules_and_dashboards_match_the_files_of_the_chart() -> None:
    objects = rendered_ci(CHART / "ci" / "production-values.yaml")
    (rule,) = of_kind(objects, "PrometheusRule")
    files = [
        yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted((CHART / "rules").glob("*.yaml"))
    ]
    wanted = [one for file in files for group in file["groups"] for one in group["rules"]]
    found = [one for group in rule["spec"]["groups"] for one in group["rules"]]
    kept = [one for one in wanted if one.get("alert") != "WeirTargetMissedSlowly"]
    assert [(one.get("alert"), one.get("record"), one.get("for")) for one in found] == [
        (one.get("alert"), one.get("record"), one.get("for")) for one in kept
    ]
    assert len(found) == len(wanted) - 1
    names = [group["name"] for group in rule["spec"]["groups"]]
    assert len(names) == len(set(names))
    assert rule["metadata"]["labels"]["release"] == "kube-prometheus-stack"
    boards = {
        name: text
        for one in of_kind(objects, "ConfigMap")
        if one["metadata"]["labels"].get("grafana_dashboard") == "1"
        for name, text in one["data"].items()
    }
    assert {name: json.loads(text) for name, text in boards.items()} == {
        path.name: json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS.glob("*.json")
    }


def test_monitoring_routes_and_policies_are_off_by_default() -> None:
    kinds = {one["kind"] for one in rendered()}
    assert kinds == {"ServiceAccount", "Secret", "ConfigMap", "Service", "Deployment", "RayCluster", "Pod"}


def test_network_policies_allow_dns() -> None:
    policies = of_kind(rendered_ci(CHART / "ci" / "production-values.yaml"), "NetworkPolicy")
    assert {one["metadata"]["name"].rpartition("-")[2] for one in policies} == {
        "head",
        "worker",
        "ingest",
        "executor",
    }
    for one in policies:
        dns = one["spec"]["egress"][0]
        assert {(port["port"], port["protocol"]) for port in dns["ports"]} == {(53, "UDP"), (53, "TCP")}
        assert one["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_extra_objects_are_rendered_as_templates() -> None:
    found = named(rendered_ci(CHART / "ci" / "no-spark-values.yaml"), "ConfigMap", f"{RELEASE}-more")
    assert found["data"] == {"fullname": RAY_NAME}


def test_upgrades_keep_volumes_and_the_secret_of_keys() -> None:
    objects = [
        *rendered_ci(CHART / "ci" / "minimal-values.yaml"),
        *rendered_ci(CHART / "ci" / "ha-values.yaml"),
    ]
    kept = [one for kind in ("PersistentVolumeClaim", "Secret") for one in of_kind(objects, kind)]
    policies = {
        one["metadata"]["name"]: one["metadata"].get("annotations", {}).get("helm.sh/resource-policy")
        for one in kept
    }
    assert policies == {
        f"{RAY_NAME}-home": "keep",
        f"{RAY_NAME}-checkpoints": "keep",
        f"{RAY_NAME}-keys": "keep",
        f"{RAY_NAME}-catalog": None,
    }


def test_settings_of_one_worker_group_override_the_settings_for_all_workers() -> None:
    (ray,) = of_kind(rendered_ci(CHART / "ci" / "production-values.yaml"), "RayCluster")
    default, large = (group["template"]["spec"] for group in ray["spec"]["workerGroupSpecs"])
    assert default["containers"][0]["resources"]["limits"] == {"cpu": "4", "memory": "8Gi"}
    assert large["containers"][0]["resources"]["limits"] == {"cpu": "7500m", "memory": "32Gi"}
    assert ("nodeSelector" in default, large["nodeSelector"]) == (False, {"size": "large"})
    assert default["affinity"] == large["affinity"]
    assert [one["namespace"] for one in [ray["metadata"]]] == [NAMESPACE]


@pytest.mark.parametrize("enabled", [True, False])
def test_all_containers_of_ray_use_the_same_authentication_mode(enabled: bool) -> None:
    (ray,) = of_kind(rendered(values={"ray": {"auth": {"enabled": enabled}}}), "RayCluster")
    modes = [
        {one["name"]: one.get("value") for one in container["env"]}.get("RAY_AUTH_MODE")
        for _, pod in pods([ray])
        for container in containers(pod)
    ]
    # KubeRay itself sets the authentication mode of Ray's containers.
    assert modes == ([None, "token", None] if enabled else ["disabled"] * 3)
    assert ("authOptions" in ray["spec"]) == enabled
