"""A Kubernetes control plane on free loopback ports: etcd, API server, controllers, scheduler, and kwok in place of nodes.

Everything is real except the nodes: kwok marks pods as running, ready or completed, and starts nothing.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.cluster.api import Api, wait_until_none
from tests.cluster.programs import Module, module

STAGES = Path(__file__).parent / "stages.yaml"
LOOPBACK = "127.0.0.1"
STOP_S = 20.0
ZONES = ("a", "b", "c")
NODES = 6


@dataclass(frozen=True)
class ControlPlane:
    folder: Path
    kubeconfig: Path
    api: Api

    def kubectl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        program = module("kubernetes").program("kubectl")
        return subprocess.run(
            [program, "--kubeconfig", self.kubeconfig, *arguments],
            env={"HOME": str(self.folder), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )


@contextmanager
def process(
    command: Sequence[str | Path], log: Path, environment: dict[str, str] | None = None
) -> Iterator[None]:
    """Run a program, with its output in `log`. Stop it at the end, and report if it ended by itself.

    If the test process is killed, the kernel kills the program.
    """
    with log.open("wb") as output:
        started = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", "--", *map(str, command)],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            env={"PATH": os.environ["PATH"], "HOME": str(log.parent), **(environment or {})},
        )
    try:
        yield
        assert started.poll() is None, f"{Path(command[0]).name} ended:\n{tail(log)}"
    finally:
        started.send_signal(signal.SIGTERM)
        try:
            started.wait(STOP_S)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-lines:])


def free_ports(number: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextmanager
def control_plane(folder: Path, address: str = LOOPBACK, with_nodes: bool = True) -> Iterator[ControlPlane]:
    """Start a control plane with its data in `folder`, and stop it at the end.

    The API server listens on `address`. If `with_nodes` is false, kwok does not run, and the caller joins real nodes.
    """
    client_port, peer_port, port = free_ports(3)
    kubernetes, kwok = module("kubernetes"), module("kwok")
    etcd, store = kubernetes.program("etcd"), f"http://127.0.0.1:{client_port}"
    token = secrets.token_hex(16)
    write_credentials(folder, token)
    with ExitStack() as running:

        def start(*command: str | Path) -> None:
            running.enter_context(process(command, folder / f"{Path(command[0]).name}.log"))

        start(etcd, *etcd_options(folder, store, f"http://127.0.0.1:{peer_port}"))
        start(kubernetes.program("kube-apiserver"), *server_options(folder, store, address, port))
        plane = ready_plane(folder, f"https://{address}:{port}", token)
        config = ["--kubeconfig", str(plane.kubeconfig)]
        start(kubernetes.program("kube-controller-manager"), *config, *controller_options(folder))
        start(kubernetes.program("kube-scheduler"), *config, "--leader-elect=false", "--secure-port=0")
        if with_nodes:
            start(kwok.program("kwok"), *config, *kwok_options(kwok))
            add_nodes(plane.api)
        yield plane


def kwok_options(kwok: Module) -> list[str]:
    stages = (*sorted(kwok.documents.glob("*.yaml")), STAGES)
    return [
        "--manage-all-nodes",
        "--node-lease-duration-seconds=40",
        *(f"--config={file}" for file in stages),
    ]


def etcd_options(folder: Path, client: str, peer: str) -> list[str]:
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        # etcd need not wait for the disk, because its data is deleted after the test.
        "--unsafe-no-fsync",
    ]


def server_options(folder: Path, store: str, address: str, port: int) -> list[str]:
    return [
        f"--etcd-servers={store}",
        f"--cert-dir={folder / 'certificates'}",
        f"--bind-address={address}",
        f"--secure-port={port}",
        "--service-cluster-ip-range=10.96.0.0/16",
        # Kubernetes accepts no loopback address as an endpoint of the API server's Service.
        f"--endpoint-reconciler-type={'none' if address == LOOPBACK else 'lease'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'accounts.key'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=Node,RBAC",
        # The API server calls nodes by address, because this machine cannot resolve the names of nodes.
        "--kubelet-preferred-address-types=InternalIP",
    ]


def controller_options(folder: Path) -> list[str]:
    return [
        f"--service-account-private-key-file={folder / 'accounts.key'}",
        f"--root-ca-file={folder / 'certificates' / 'apiserver.crt'}",
        "--use-service-account-credentials",
        "--enable-hostpath-provisioner",
        "--leader-elect=false",
        "--secure-port=0",
    ]


def write_credentials(folder: Path, token: str) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    (folder / "accounts.key").write_bytes(pem)
    (folder / "tokens.csv").write_text(f"{token},admin,1,system:masters\n")


def ready_plane(folder: Path, address: str, token: str) -> ControlPlane:
    """Wait for the API server, and write a kubeconfig for it."""
    certificate = folder / "certificates" / "apiserver.crt"
    wait_until_none(lambda: [] if certificate.exists() else [tail(folder / "kube-apiserver.log")])
    cluster = {"server": address, "certificate-authority": str(certificate)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "tests",
        "clusters": [{"name": "tests", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "admin"}}],
    }
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    api = Api(address, certificate.read_text(), token)
    wait_until_none(lambda: readiness_problems(api, folder / "kube-apiserver.log"))
    return ControlPlane(folder, kubeconfig, api)


def readiness_problems(api: Api, log: Path) -> list[str]:
    try:
        answer = api.client.get("/readyz")
    except OSError as problem:
        return [f"{problem!r}\n{tail(log)}"]
    return [] if answer.text == "ok" else [f"{answer.text}\n{tail(log)}"]


def add_nodes(api: Api) -> None:
    """Add nodes in three zones; every second node is large."""
    for number in range(NODES):
        name = f"node-{number}"
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "topology.kubernetes.io/zone": ZONES[number % len(ZONES)],
            "size": ("large", "small")[number % 2],
        }
        api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    for name in ("standard", "fast"):
        api.create(storage_class(name, default=name == "standard"))


def storage_class(
    name: str, default: bool, provisioner: str = "kubernetes.io/host-path"
) -> dict[str, object]:
    annotations = {"storageclass.kubernetes.io/is-default-class": json.dumps(default)}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": annotations},
        "provisioner": provisioner,
    }
