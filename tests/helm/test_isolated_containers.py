"""Containers of the head pod, isolated as in a cluster: the service finds Ray in another container of its pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helm.isolation import is_possible
from tests.helm.machine import Machine, Pod, machine
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.live,
    pytest.mark.helm,
    pytest.mark.skipif(not is_possible(), reason="pods need root, or namespaces of users, to be isolated"),
]


def connects(machine: Machine) -> None:
    """Start a head, a worker and the service, and wait until the service runs a system on Ray."""
    head = machine.start_head()
    machine.start_worker("127.0.0.2")
    machine.start_service(head)


def test_service_connects_to_ray_in_another_container() -> None:
    with machine() as here:
        connects(here)


def test_service_connects_to_ray_next_to_the_autoscaler() -> None:
    """KubeRay mounts a volume at /tmp/ray, where Ray's sockets are, if the autoscaler is enabled."""
    with machine(ray={"autoscaler": {"enabled": True}}) as here:
        connects(here)


def test_worker_that_restarts_in_its_pod_frees_the_memory_of_its_predecessor() -> None:
    with machine() as here:
        head = here.start_head()
        worker = here.start_worker("127.0.0.2")
        here.start_service(head)
        before = eventually(lambda: node_folders(worker), "the node's folder in shared memory")
        worker.started["ray-worker"].kill()
        here.start_worker_container(worker, "127.0.0.2")
        eventually(lambda: node_folders(worker) - before, "a folder of the new node")
        eventually(lambda: not node_folders(worker) & before, "the end of the old node's folder")


def node_folders(worker: Pod) -> set[str]:
    """Return the folders in the shared memory of a worker pod in which a gateway has its socket."""
    listed = worker.output("ray-worker", ["find", "/dev/shm", "-name", "gateway.sock"])
    return {str(Path(path).parent) for path in listed.splitlines()}


def test_objects_of_ray_are_in_shared_memory() -> None:
    """Check that Ray does not warn: if /dev/shm were smaller than Ray's object store, Ray would keep its objects on disk."""
    with machine() as here:
        for pod, name in ((here.start_head(), "ray-head"), (here.start_worker("127.0.0.2"), "ray-worker")):
            assert "harm performance" not in pod.log(name)
