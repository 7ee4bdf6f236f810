"""A release of the chart from installation to uninstallation, for each values file of `ci` and each version of KubeRay.

The tests of a test class run in order on one release, even if a test fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.api import Object, wait_until_none
from tests.cluster.pods import containers
from tests.cluster.programs import operator_versions
from tests.cluster.release import RAY, RAY_PODS, Release, chart_values, key_of

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.parametrize("operator", operator_versions(), indirect=True),
]
# Images that the first installation of the release does not use.
OTHER_DIGEST, THIRD_DIGEST = (f"sha256:{digit * 64}" for digit in "12")
DRAIN_WITHIN = "60s"


@pytest.mark.parametrize("empty", chart_values(), indirect=True)
class TestRelease:
    def test_chart_refuses_a_kuberay_operator_that_would_drop_fields(self, empty: Release) -> None:
        unknown = empty.unknown_fields()
        done = empty.helm("install", *empty.chart, "--dry-run=server")
        assert (done.returncode == 0) == (unknown == []), (unknown, done.stderr)
        assert all(field.removeprefix("spec.") in done.stderr for field in unknown), done.stderr

    def test_install_leads_to_ready_pods_and_complete_jobs(self, installed: Release) -> None:
        jobs = {found["metadata"]["name"] for found in installed.documents() if is_job_of_install(found)}
        completed = {
            pod["metadata"]["labels"]["job-name"]
            for pod in installed.watch.pods.values()
            if pod["status"].get("phase") == "Succeeded"
        }
        # The Job that declares the documents may be gone already, because it may delete itself when it is done.
        assert jobs <= completed
        assert installed.problems() == []

    def test_kubernetes_server_knows_every_field_of_the_installed_objects(self, installed: Release) -> None:
        assert [found for document in installed.documents() for found in installed.refusals(document)] == []

    def test_every_field_of_the_raycluster_is_stored(self, installed: Release) -> None:
        (sent,) = [document for document in installed.documents() if document["kind"] == RAY[1]]
        (stored,) = installed.items(*RAY)
        assert list(dropped_fields(sent["spec"], stored["spec"], "spec")) == []

    def test_every_object_that_a_pod_refers_to_exists(self, installed: Release) -> None:
        wait_until_none(installed.watch.problems, 10.0)

    def test_service_sees_the_processes_of_ray(self, installed: Release) -> None:
        shared = installed.head_pod()["spec"].get("shareProcessNamespace")
        assert shared is True, "Ray finds the processes of its node only in a shared process namespace"

    def test_containers_of_the_head_share_the_sockets_and_memory_of_ray(self, installed: Release) -> None:
        head = installed.head_pod()
        for path in ("/tmp/ray", "/dev/shm"):
            places = {name: mount_at(head, name, path) for name in ("ray-head", "weir")}
            assert len(set(places.values())) == 1, f"{path}: {places}"

    def test_service_container_is_restarted_when_the_service_process_ends(self, installed: Release) -> None:
        spec = installed.head_pod()["spec"]
        policies = {
            container["name"]: container.get("restartPolicy", spec["restartPolicy"])
            for container in containers(installed.head_pod())
        }
        assert policies["weir"] == "Always", policies

    def test_upgrade_replaces_the_image_of_all_ray_pods(self, installed: Release) -> None:
        installed.deploy("upgrade", "--set-string", f"image.digest={OTHER_DIGEST}")
        restart_ray(installed)
        wait_until_none(lambda: [image for image in ray_images(installed) if OTHER_DIGEST not in image])
        installed.wait_until_ready()

    def test_helm_test_of_the_installed_chart_completes(self, installed: Release) -> None:
        installed.run_helm("test", "east", "--timeout", "60s")

    def test_every_node_can_be_drained(self, installed: Release) -> None:
        for node in installed.plane.api.items("v1", "Node"):
            drain(installed, node["metadata"]["name"])

    def test_recreate_strategy_replaces_ray_pods(self, installed: Release) -> None:
        changed = ["--set", "ray.upgradeStrategy=Recreate", "--set-string", f"image.digest={THIRD_DIGEST}"]
        if not knows_strategy(installed):
            done = installed.helm("upgrade", *installed.chart, *installed.remedies, *changed)
            assert (done.returncode, "install KubeRay" in done.stderr) == (1, True), done.stderr
            return
        installed.deploy("upgrade", *changed)
        wait_until_none(lambda: [image for image in ray_images(installed) if THIRD_DIGEST not in image])
        installed.wait_until_ready()

    def test_rollback_brings_the_first_image_back(self, installed: Release) -> None:
        installed.run_helm("rollback", "east", "1", "--timeout", "150s")
        restart_ray(installed)
        changed = (OTHER_DIGEST, THIRD_DIGEST)
        wait_until_none(lambda: [image for image in ray_images(installed) if image.endswith(changed)])
        installed.wait_until_ready()

    def test_uninstall_leaves_nothing(self, installed: Release) -> None:
        installed.run_helm("uninstall", "east", "--timeout", "150s")
        wait_until_none(installed.left_over, 60.0, context=installed.warnings)
        assert installed.watch.problems() == [], installed.watch.runs.outputs


def is_job_of_install(document: Object) -> bool:
    hooks = document["metadata"].get("annotations", {}).get("helm.sh/hook", "post-install")
    return document["kind"] == "Job" and "post-install" in hooks


def dropped_fields(sent: Any, stored: Any, path: str) -> Iterator[str]:
    """Yield paths of values that were sent to the server and that the server did not store."""
    if isinstance(sent, dict):
        for key, value in sent.items():
            if not isinstance(stored, dict) or key not in stored:
                yield f"{path}.{key}"
            else:
                yield from dropped_fields(value, stored[key], f"{path}.{key}")
    elif isinstance(sent, list):
        for index, value in enumerate(sent):
            if not isinstance(stored, list) or index >= len(stored):
                yield f"{path}[{index}]"
            else:
                yield from dropped_fields(value, stored[index], f"{path}[{index}]")


def mount_at(pod: Object, container: str, path: str) -> tuple[str, str]:
    """Return the volume that holds a path of a container, and the path within the volume."""
    (found,) = [entry for entry in containers(pod) if entry["name"] == container]
    mounts = {mount["mountPath"]: mount["name"] for mount in found.get("volumeMounts", [])}
    within = [place for place in mounts if path == place or path.startswith(place + "/")]
    place = max(within, key=len, default="")
    return mounts.get(place, container), path.removeprefix(place)


def ray_images(release: Release) -> set[str]:
    return {
        container["image"]
        for pod in release.ray_pods()
        for container in containers(pod)
        if container["name"] != "autoscaler"
    }


def knows_strategy(release: Release) -> bool:
    """Return True if the operator can replace the pods of a cluster by itself."""
    kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "rayclusters.ray.io")
    return "upgradeStrategy" in str(release.plane.api.find(*kind))


def restart_ray(release: Release) -> None:
    """Delete the pods of the cluster, as docs/operations.md says, unless the operator replaces them by itself."""
    (cluster,) = release.items(*RAY)
    if cluster["spec"].get("upgradeStrategy", {}).get("type") == "Recreate":
        return
    old = {pod["metadata"]["uid"] for pod in release.ray_pods()}
    done = release.plane.kubectl("-n", release.namespace, "delete", "pod", "-l", RAY_PODS)
    assert done.returncode == 0, done.stderr
    wait_until_none(lambda: [key_of(pod) for pod in release.ray_pods() if pod["metadata"]["uid"] in old])


def drain(release: Release, node: str) -> None:
    """Drain a node by evictions, wait until all pods run elsewhere, and put it back into service."""
    try:
        done = release.plane.kubectl(
            "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={DRAIN_WITHIN}"
        )
        budgets = [
            f"{key_of(found)}: {found['status']}"
            for found in release.items("policy/v1", "PodDisruptionBudget")
        ]
        assert done.returncode == 0, "\n".join([*dict.fromkeys(done.stderr.splitlines()), *budgets])
        release.wait_until_ready()
        assert [key_of(pod) for pod in release.ray_pods() if pod["spec"]["nodeName"] == node] == []
    finally:
        release.plane.kubectl("uncordon", node)
