"""Memory, disk and network of Ray's pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from configs.service.chart_values import OBJECT_STORE_BYTES
from tests.helm.chart import (
    CI,
    RELEASE,
    Object,
    containers,
    named,
    of_kind,
    pods,
    quantity,
    rendered,
    rendered_ci,
)

pytestmark = pytest.mark.helm
each_ci = pytest.mark.parametrize("file", CI, ids=lambda file: file.name.removesuffix("-values.yaml"))


def groups_of(cluster: Object) -> list[Object]:
    groups: list[Object] = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    return groups


def volume_of(group: Object, name: str) -> Object:
    found: Object
    (found,) = [volume for volume in group["template"]["spec"]["volumes"] if volume["name"] == name]
    return found


@each_ci
def test_objects_of_ray_fit_in_shared_memory(file: Path) -> None:
    (cluster,) = of_kind(rendered_ci(file), "RayCluster")
    for group in groups_of(cluster):
        stored = int(group["rayStartParams"]["object-store-memory"])
        assert stored == OBJECT_STORE_BYTES
        shared = volume_of(group, "shared-memory")["emptyDir"]
        assert (shared["medium"], stored <= quantity(shared["sizeLimit"])) == ("Memory", True)


def test_size_of_the_object_store_can_be_set_for_each_worker_group() -> None:
    worker = {"rayStartParams": {"object-store-memory": "268435456", "resources": "{}"}}
    (cluster,) = of_kind(rendered(values={"worker": worker}), "RayCluster")
    head, default = (group["rayStartParams"] for group in groups_of(cluster))
    assert (head["object-store-memory"], default["object-store-memory"]) == ("134217728", "268435456")
    assert (head["num-cpus"], default["resources"]) == ("0", "{}")


@each_ci
def test_volumes_of_temporary_files_and_logs_have_a_size_limit(file: Path) -> None:
    objects = rendered_ci(file)
    (cluster,) = of_kind(objects, "RayCluster")
    volumes = [volume_of(group, name) for group in groups_of(cluster) for name in ("tmp", "ray-logs")]
    volumes += [volume_of(deployment["spec"], "tmp") for deployment in of_kind(objects, "Deployment")]
    assert {volume["emptyDir"]["sizeLimit"] for volume in volumes} == {"10Gi"}


@each_ci
def test_disruption_budgets_of_ray_pods_are_absolute_numbers_of_pods(file: Path) -> None:
    """Check that budgets have no percentages: these need a `scale` subresource of the pods' owner, which a RayCluster lacks."""
    for budget in of_kind(rendered_ci(file), "PodDisruptionBudget"):
        if budget["metadata"]["labels"]["app.kubernetes.io/component"] in ("head", "worker"):
            spec = {key: value for key, value in budget["spec"].items() if key != "selector"}
            assert list(spec) == ["minAvailable"]
            assert isinstance(spec["minAvailable"], int)


@each_ci
def test_ray_reports_no_usage_and_keeps_little_of_its_logs(file: Path) -> None:
    (cluster,) = of_kind(rendered_ci(file), "RayCluster")
    for group in groups_of(cluster):
        environ = {
            each["name"]: each.get("value") for each in group["template"]["spec"]["containers"][0]["env"]
        }
        assert environ["RAY_USAGE_STATS_ENABLED"] == "0"
        kept = int(environ["RAY_ROTATION_MAX_BYTES"]) * (1 + int(environ["RAY_ROTATION_BACKUP_COUNT"]))
        assert kept * 100 < quantity(volume_of(group, "ray-logs")["emptyDir"]["sizeLimit"])


def images(values: dict[str, Any]) -> set[str]:
    return {each["image"] for _, pod in pods(rendered(values=values)) for each in containers(pod)}


def test_images_without_a_registry_are_not_pulled_from_a_public_registry() -> None:
    assert images({}) == {"localhost/weir:0.1.0", "localhost/weir-ingest:0.1.0"}
    named_registry = {"global": {"imageRegistry": "registry.example.com"}}
    assert {image.partition("/")[0] for image in images(named_registry)} == {"registry.example.com"}


def test_network_policies_allow_dns_servers_on_nodes_if_configured() -> None:
    cache = {"ipBlock": {"cidr": "169.254.20.10/32"}}
    values = {"networkPolicy": {"enabled": True, "dns": {"peers": [cache], "port": 5353}}}
    for policy in of_kind(rendered(values=values), "NetworkPolicy"):
        rule = policy["spec"]["egress"][0]
        assert (cache in rule["to"], {port["port"] for port in rule["ports"]}) == (True, {5353})


def test_autoscaler_can_write_its_files() -> None:
    (cluster,) = of_kind(rendered(values={"ray": {"autoscaler": {"enabled": True}}}), "RayCluster")
    options = cluster["spec"]["autoscalerOptions"]
    assert options["securityContext"]["readOnlyRootFilesystem"] is True
    assert options["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]
    assert volume_of(cluster["spec"]["headGroupSpec"], "tmp")


def test_values_can_set_the_redis_user_and_the_upgrade_strategy() -> None:
    redis = {
        "enabled": True,
        "redisAddress": "redis:6379",
        "existingSecret": "redis",
        "existingSecretUsernameKey": "user",
    }
    values = {"ray": {"gcsFaultTolerance": redis, "upgradeStrategy": "Recreate"}}
    (cluster,) = of_kind(rendered(values=values), "RayCluster")
    user = cluster["spec"]["gcsFaultToleranceOptions"]["redisUsername"]
    assert user == {"valueFrom": {"secretKeyRef": {"name": "redis", "key": "user"}}}
    assert cluster["spec"]["upgradeStrategy"] == {"type": "Recreate"}
    assert "upgradeStrategy" not in of_kind(rendered(), "RayCluster")[0]["spec"]


def test_job_that_declares_documents_stops_before_its_deadline_and_keeps_the_log_of_a_failure() -> None:
    objects = rendered(values={"tenants": [{"name": "acme", "priority_class": "gold"}]})
    job = named(objects, "Job", f"{RELEASE}-weir-apply")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"][-2:] == ["--wait", "1200s"]
    assert job["spec"]["activeDeadlineSeconds"] > 1200
    # If Kubernetes restarted the containers of a pod in place, the last failure would delete the pod with its log.
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert "hook-succeeded" in job["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
