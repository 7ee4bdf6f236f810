"""The head pod, as Kubernetes and KubeRay run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helm.chart import CI, RELEASE, Object, containers, named, of_kind, rendered, rendered_ci
from tests.helm.machine import kuberay

pytestmark = pytest.mark.helm
each_ci = pytest.mark.parametrize("file", CI, ids=lambda file: file.name.removesuffix("-values.yaml"))


def head_of(objects: list[Object]) -> Object:
    """Return the head pod that KubeRay makes."""
    (cluster,) = of_kind(objects, "RayCluster")
    spec: Object = kuberay(cluster, cluster["spec"]["headGroupSpec"])["spec"]
    return spec


def service_of(head: Object) -> Object:
    (found,) = [one for one in containers({"spec": head}) if one["name"] == "weir"]
    return found


@each_ci
def test_service_shares_processes_and_socket_folders_with_rays_container(file: Path) -> None:
    head = head_of(rendered_ci(file))
    assert head["shareProcessNamespace"] is True
    ray, weir = head["containers"][0], service_of(head)
    mounts = [{mount["mountPath"]: mount["name"] for mount in each["volumeMounts"]} for each in (ray, weir)]
    shared = ("/tmp", "/tmp/ray", "/dev/shm")
    assert [mounts[0][path] for path in shared] == [mounts[1][path] for path in shared]


@each_ci
def test_service_container_is_restarted_under_every_restart_policy_that_kuberay_sets(file: Path) -> None:
    head = head_of(rendered_ci(file))
    weir = service_of(head)
    assert head["containers"][0]["name"] == "ray-head"
    if head.get("restartPolicy", "Always") == "Always":
        assert (weir in head["containers"], "restartPolicy" in weir) == (True, False)
        return
    # A startup probe on the sidecar would delay Ray, because Ray's container starts only once the sidecar has started.
    assert (weir in head["initContainers"], weir["restartPolicy"], "startupProbe" in weir) == (
        True,
        "Always",
        False,
    )


def test_services_and_network_policies_name_the_sidecars_port_by_number() -> None:
    objects = rendered(values={"networkPolicy": {"enabled": True}, "config": {"service": {"port": 9000}}})
    (port,) = named(objects, "Service", f"{RELEASE}-weir-api")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (8642, 9000)
    rules = named(objects, "NetworkPolicy", f"{RELEASE}-weir-head")["spec"]["ingress"]
    assert [{"port": 9000, "protocol": "TCP"}] in [rule.get("ports") for rule in rules]
