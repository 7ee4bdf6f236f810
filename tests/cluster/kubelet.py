"""A real node: containerd and the kubelet in an isolated machine, joined to a control plane."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.api import Object, wait_until_none
from tests.cluster.control_plane import ControlPlane, control_plane, process, storage_class, tail
from tests.cluster.images import Image
from tests.cluster.machine import INNER, OUTER, PARTS, Machine, machine
from tests.cluster.programs import module

NAME = "node"
VOLUMES = 6
BUSYBOX = Path("/bin/busybox")


@dataclass(frozen=True)
class Node:
    machine: Machine
    plane: ControlPlane

    def add_image(self, image: Image) -> None:
        archive = self.machine.folder / "image.tar"
        image.write(archive)
        self.import_images(archive)
        archive.unlink()

    def import_images(self, archive: Path) -> None:
        self.machine.run("ctr", "--namespace=k8s.io", "images", "import", archive)

    def add_volumes(self) -> None:
        """Add volumes of the default storage class. The volumes are folders of the machine to which every user may write."""
        self.plane.api.create(
            storage_class("folders", default=True, provisioner="kubernetes.io/no-provisioner")
        )
        for number in range(VOLUMES):
            path = Path("lib/node/volumes", str(number))
            (self.machine.folder / path).mkdir(parents=True)
            (self.machine.folder / path).chmod(0o777)
            self.plane.api.create(volume(f"folder-{number}", f"/var/{path}"))

    def condition(self, kind: str) -> Object:
        found = self.plane.api.find("v1", "Node", NAME)
        conditions = found["status"].get("conditions", []) if found else []
        return next((entry for entry in conditions if entry["type"] == kind), {})

    def problems(self) -> list[str]:
        ready = self.condition("Ready")
        if ready.get("status") == "True":
            return []
        logs = [tail(self.machine.folder / f"{name}.log") for name in ("containerd", "kubelet")]
        return [str(ready), *logs]


@contextmanager
def node(machine: Machine, plane: ControlPlane) -> Iterator[Node]:
    """Start containerd, the kubelet, and the programs for Services, DNS and NetworkPolicies. Wait until the node is ready."""
    joined = Node(machine, plane)
    files = machine.folder / "lib" / "node"
    (files / "networks").mkdir(parents=True)
    (machine.folder / "lib" / "kubelet").mkdir()
    shutil.copy(PARTS / "network.conflist", files / "networks")
    shutil.copy(plane.kubeconfig, files / "kubeconfig")
    with ExitStack() as running:

        def start(program: str | Path, *options: str) -> None:
            log = machine.folder / f"{Path(program).name}.log"
            running.enter_context(process([*machine.entry, program, *options], log))

        start("containerd", f"--config={PARTS / 'containerd.toml'}")
        wait_until_none(lambda: missing_line(machine, "containerd", "containerd successfully booted"))
        joined.add_image(Image("localhost/pause:1", {"pause": machine.folder / "pause"}, command=("/pause",)))
        start(module("kubernetes").program("kubelet"), *kubelet_options(machine))
        start(module("kubernetes").program("kube-proxy"), f"--config={PARTS / 'proxy.yaml'}")
        start(module("coredns").program("coredns"), f"-conf={PARTS / 'Corefile'}")
        start(module("policies").program("policies"), "/var/lib/node/kubeconfig", NAME)
        wait_until_none(lambda: missing_line(machine, "policies", "policies are in force"))
        machine.run(PARTS / "queue-connections")
        wait_until_none(joined.problems)
        yield joined


@contextmanager
def joined_node(folder: Path, plane_folder: Path) -> Iterator[Node]:
    """Start a control plane and a real node."""
    with (
        machine(folder) as made,
        control_plane(plane_folder, OUTER, with_nodes=False) as plane,
        node(made, plane) as started,
    ):
        yield started


def volume(name: str, path: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": path},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "folders",
        },
    }


def kubelet_options(machine: Machine) -> list[str]:
    return [
        f"--config={PARTS / 'kubelet.yaml'}",
        "--kubeconfig=/var/lib/node/kubeconfig",
        f"--cgroup-root={machine.group}",
        f"--hostname-override={NAME}",
        f"--node-ip={INNER}",
    ]


def missing_line(machine: Machine, program: str, text: str) -> list[str]:
    """Return the end of the program's log, or nothing if the log contains the text."""
    log = machine.folder / f"{program}.log"
    return [] if text in log.read_text() else [tail(log)]


def busybox_image(*programs: str) -> Image:
    """Return an image with Debian's static busybox under the names of some of its programs."""
    links = {f"bin/{name}": "busybox" for name in ("sh", *programs)}
    return Image("localhost/busybox:1", {"bin/busybox": BUSYBOX}, links, ("/bin/sh",))
