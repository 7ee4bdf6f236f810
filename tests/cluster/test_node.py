"""A pod on a real node: containers, a process namespace that they share, probes, and what remains after the pod's deletion."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.cluster.api import Object, wait_until_none
from tests.cluster.control_plane import tail
from tests.cluster.kubelet import Node
from tests.cluster.pods import is_done_or_ready
from tests.cluster.release import add_namespace, remove_namespace

pytestmark = [pytest.mark.node, pytest.mark.usefixtures("namespace")]

NAMESPACE = "pods"
# Container `neighbour` writes the name of process 1, and makes the page of the readiness probe once it sees the server's process.
NEIGHBOUR = """
cat /proc/1/comm >/pages/first
until grep -qx httpd /proc/[0-9]*/comm; do sleep 1; done
echo found >/pages/found
exec sleep 3600
"""


@pytest.fixture(scope="module")
def namespace(joined: Node) -> Iterator[None]:
    add_namespace(joined.plane, NAMESPACE)
    yield
    remove_namespace(joined.plane, NAMESPACE)


def container(name: str, *command: str) -> Object:
    return {
        "name": name,
        "image": "localhost/busybox:1",
        "imagePullPolicy": "Never",
        "command": list(command),
        "volumeMounts": [{"name": "pages", "mountPath": "/pages"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def pod(name: str, shared: bool) -> Object:
    server = container("server", "httpd", "-f", "-p", "8080", "-h", "/pages")
    server["readinessProbe"] = {"httpGet": {"path": "/found", "port": 8080}, "periodSeconds": 1}
    security = {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "fsGroup": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "shareProcessNamespace": shared,
            "terminationGracePeriodSeconds": 1,
            "securityContext": security,
            "containers": [server, container("neighbour", "sh", "-c", NEIGHBOUR)],
            "volumes": [{"name": "pages", "emptyDir": {}}],
        },
    }


def service(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]},
    }


def state(joined: Node, name: str) -> Object:
    found = joined.plane.api.find("v1", "Pod", name, NAMESPACE)
    assert found is not None
    return found


def events(joined: Node, name: str) -> list[str]:
    found = joined.plane.api.items("v1", "Event", NAMESPACE)
    return [event["message"] for event in found if event["involvedObject"]["name"] == name]


def page(joined: Node, name: str, path: str) -> str:
    """Return a page of the pod's server, which this machine reaches by the pod's address."""
    address = state(joined, name)["status"]["podIP"]
    return httpx.get(f"http://{address}:8080/{path}", trust_env=False).text


def unready(joined: Node, name: str) -> list[str]:
    found = state(joined, name)
    return [] if is_done_or_ready(found) else [str(found["status"])]


def left(joined: Node, uid: str, before: tuple[set[int], set[str]]) -> list[str]:
    """Return the processes, mounts and cgroups that a pod still has."""
    processes, mounts = before
    there = joined.machine.processes()
    pods = joined.plane.api.items("v1", "Pod", NAMESPACE)
    return [
        *(f"pod {found['metadata']['name']}" for found in pods if found["metadata"]["uid"] == uid),
        *(f"process {there[pid]}" for pid in there.keys() - processes),
        *(f"mount {path}" for path in joined.machine.mounts() - mounts),
        *(f"cgroup {path}" for path in joined.machine.groups() if uid in path),
    ]


def test_pod_with_a_shared_process_namespace_becomes_ready_and_leaves_nothing_when_deleted(
    joined: Node,
) -> None:
    machine, api = joined.machine, joined.plane.api
    before = set(machine.processes()), machine.mounts()
    uid = api.create(pod("shared", shared=True), NAMESPACE)["metadata"]["uid"]
    wait_until_none(lambda: unready(joined, "shared"), context=lambda: events(joined, "shared"))

    assert page(joined, "shared", "first") == "pause\n"
    running = left(joined, uid, before)
    assert {entry.split()[0] for entry in running} == {"pod", "process", "mount", "cgroup"}
    assert any("httpd" in entry for entry in running)

    api.delete("v1", "Pod", "shared", NAMESPACE)
    wait_until_none(lambda: left(joined, uid, before))


def test_container_with_its_own_process_namespace_does_not_see_the_neighbouring_container(
    joined: Node,
) -> None:
    joined.plane.api.create(pod("apart", shared=False), NAMESPACE)
    refused = "Readiness probe failed: HTTP probe failed with statuscode: 404"
    wait_until_none(lambda: [] if refused in events(joined, "apart") else [refused])

    assert page(joined, "apart", "first") == "sh\n"
    found = state(joined, "apart")
    assert [list(status["state"]) for status in found["status"]["containerStatuses"]] == [["running"]] * 2
    assert unready(joined, "apart")


def test_pod_calls_a_service_by_its_name(joined: Node) -> None:
    api = joined.plane.api
    api.create(service("named"), NAMESPACE)
    api.create(pod("named", shared=True), NAMESPACE)
    caller = pod("caller", shared=False)
    call = "until wget -q -O /pages/answer http://named/found; do sleep 1; done; grep -x found /pages/answer"
    caller["spec"] |= {"containers": [container("caller", "sh", "-c", call)], "restartPolicy": "Never"}
    api.create(caller, NAMESPACE)

    def problems() -> list[str]:
        found = state(joined, "caller")
        return [] if found["status"]["phase"] == "Succeeded" else [str(found["status"])]

    wait_until_none(problems, context=lambda: [tail(log) for log in joined.machine.folder.glob("*.log")])
