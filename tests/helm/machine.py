"""This machine in place of a cluster: the containers of the chart's pods run as processes, with the rendered command lines,
configuration, Secrets and volumes.

Pods are isolated from each other as a cluster does it (`isolation`). Nodes differ by address (127.0.0.x). `kuberay` does with a
RayCluster what the operator does.
"""

from __future__ import annotations

import base64
import random
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.helm.chart import CHART, NAMESPACE, RELEASE, Object, containers, named, of_kind, quantity, rendered
from tests.helm.isolation import ROOT, Container, Mount, Sandbox
from tests.support.waiting import eventually

FULL = f"{RELEASE}-weir"
API = f"{FULL}-api.{NAMESPACE}.svc"
HEAD, WORKERS = "127.0.0.1", ("127.0.0.2", "127.0.0.3")
PATH = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
# The image's programs are scripts of the Python that runs the tests.
PROGRAMS: Mapping[str, list[str]] = {
    "/opt/entrypoint.sh": [str(ROOT / "helm" / "spark-entrypoint.sh")],
    "weir": [sys.executable, "-c", "from services.cli.main import main; main()"],
    "python": [sys.executable],
    "ray": [str(Path(sys.executable).parent / "ray")],
}
# Options for Ray's ports that must differ between the nodes of a test, because these nodes share one network.
PORTS = (
    "--node-manager-port",
    "--object-manager-port",
    "--metrics-export-port",
    "--dashboard-agent-listen-port",
)
# Ports for servers: Linux gives higher ports to connections, and Ray gives lower ports to its workers.
FREE = iter(random.sample(range(20_000, 32_000), 2000))


def free_port() -> int:
    """Return a port that is free at the addresses of all nodes. No port is returned twice."""
    return next(port for port in FREE if all(is_free(host, port) for host in (HEAD, *WORKERS)))


def is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


# -- pods and commands that KubeRay makes from a RayCluster ----------------------------------------------------


def kuberay(cluster: Object, group: Object) -> Object:
    """Return the pod that KubeRay makes from a group of a RayCluster. Ray's container is the first container of the pod.

    With the autoscaler, KubeRay mounts a volume at /tmp/ray of Ray's container, unless something is mounted at this path, and
    restarts no container of the head pod.
    """
    pod: Object = deepcopy(group["template"])
    spec = pod["spec"]
    ray = spec["containers"][0]
    ray["env"] += [{"name": "KUBERAY_GEN_RAY_START_CMD", "value": "ray start"}]
    if cluster["spec"].get("authOptions", {}).get("mode") == "token":
        secret = cluster["spec"]["authOptions"].get("secretName", cluster["metadata"]["name"])
        key = {"name": secret, "key": "auth_token"}
        ray["env"] += [{"name": "RAY_AUTH_MODE", "value": "token"}]
        ray["env"] += [{"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": key}}]
    if cluster["spec"].get("enableInTreeAutoscaling") and group is cluster["spec"]["headGroupSpec"]:
        spec["restartPolicy"] = "Never"
        if "/tmp/ray" not in {mount["mountPath"] for mount in ray["volumeMounts"]}:
            ray["volumeMounts"].append({"name": "ray-logs", "mountPath": "/tmp/ray"})
            spec["volumes"].append({"name": "ray-logs", "emptyDir": {}})
    return pod


def ray_start(group: Object, address: str, *more: str) -> list[str]:
    """Return the command `ray start` that KubeRay makes from a group's parameters and from the limits of Ray's container."""
    limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
    memory = str(int(quantity(limits["memory"])))
    parameters = {"num-cpus": limits["cpu"], "memory": memory, **group["rayStartParams"]}
    options = [f"--{name}={value}" for name, value in parameters.items()]
    options += [f"{port}={free_port()}" for port in PORTS]
    return ["ray", "start", *more, *options, f"--node-ip-address={address}", "--block"]


# -- pods that run as processes of this machine ----------------------------------------------------------------


@dataclass
class Pod:
    """Pod that runs as processes of this machine, with its volumes and its namespaces."""

    machine: Machine
    name: str
    template: Object
    folder: Path = field(init=False)
    sandbox: Sandbox = field(init=False)
    started: dict[str, Container] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = self.machine.folder / self.name
        self.folder.mkdir()
        memory = {}
        for volume in self.template["spec"]["volumes"]:
            made = self.volume(volume["name"])
            if volume.get("emptyDir", {}).get("medium") == "Memory":
                memory[made] = int(quantity(volume["emptyDir"]["sizeLimit"]))
        shares = self.template["spec"].get("shareProcessNamespace", False)
        self.sandbox = Sandbox(memory, shares_processes=shares)

    def container(self, name: str) -> Object:
        (found,) = [one for one in containers(self.template) if one["name"] == name]
        return found

    def volume(self, name: str) -> Path:
        """Return the folder of a volume, with the files of its ConfigMap or its Secret."""
        (volume,) = [one for one in self.template["spec"]["volumes"] if one["name"] == name]
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        if "configMap" in volume:
            data = named(self.machine.objects, "ConfigMap", volume["configMap"]["name"])["data"]
            for file, text in data.items():
                (folder / file).write_text(text, encoding="utf-8")
        for item in volume.get("secret", {}).get("items", []):
            text = self.machine.secret(volume["secret"]["secretName"], item["key"])
            (folder / item["path"]).write_text(text, encoding="utf-8")
        return folder

    def start(self, name: str, command: Sequence[str] | None = None) -> Container:
        """Start a container with `command`, or with the command of its pod template."""
        container = self.container(name)
        log = self.machine.stack.enter_context(self.log_file(name).open("ab"))
        started = self.started[name] = Container(self.command(container, command), {}, log)
        self.machine.stack.callback(started.kill)
        return started

    def output(self, name: str, command: Sequence[str]) -> str:
        """Run a command with the files of a container, and return its output."""
        inside = self.command(self.container(name), command)
        return subprocess.run(inside, env={}, capture_output=True, text=True, timeout=60, check=True).stdout

    def command(self, container: Object, command: Sequence[str] | None) -> list[str]:
        """Return a command line that runs `command`, or the container's own command, in the namespaces of the pod."""
        hosts = self.machine.folder / "hosts"
        mounts = [Mount(hosts, "/etc/hosts", is_read_only=True)]
        mounts += [
            Mount(self.volume(mount["name"]), mount["mountPath"], mount.get("readOnly", False))
            for mount in container["volumeMounts"]
        ]
        work = Path(tempfile.mkdtemp(dir=self.folder))
        program, *arguments = container["command"] if command is None else command
        environ = [f"{key}={value}" for key, value in self.environ(container).items()]
        programs = PROGRAMS.get(program, [program])
        run = ["env", "--chdir", "/var/lib/weir", "--ignore-environment", *environ, *programs]
        return self.sandbox.command(work, mounts, [*run, *arguments])

    def environ(self, container: Object) -> dict[str, str]:
        """Return the environment variables of a container: those of its image and those of its pod template."""
        found = {"PATH": PATH, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
        for variable in container["env"]:
            if "value" in variable:
                found[variable["name"]] = variable["value"]
            else:
                key = variable["valueFrom"]["secretKeyRef"]
                found[variable["name"]] = self.machine.secret(key["name"], key["key"])
        return found

    def log_file(self, name: str) -> Path:
        return self.machine.folder / f"{self.name}-{name}.log"

    def log(self, name: str) -> str:
        file = self.log_file(name)
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


@dataclass
class Machine:
    """This machine in place of a cluster, with the rendered objects and the folders of volumes."""

    folder: Path
    objects: Sequence[Object]
    gcs_port: int
    api_port: int
    stack: ExitStack
    token: str = field(default_factory=lambda: secrets.token_hex(32))

    def __post_init__(self) -> None:
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost {API}\n", encoding="utf-8")

    @property
    def url(self) -> str:
        return f"http://{HEAD}:{self.api_port}"

    @property
    def cluster(self) -> Object:
        (found,) = of_kind(self.objects, "RayCluster")
        return found

    def secret(self, name: str, key: str) -> str:
        if key == "auth_token":  # KubeRay creates this Secret, so the chart does not render it
            return self.token
        secret = named(self.objects, "Secret", name)
        data = {name: base64.b64decode(value).decode() for name, value in secret.get("data", {}).items()}
        return str((data | secret.get("stringData", {}))[key])

    def pod(self, name: str, template: Object) -> Pod:
        pod = Pod(self, name, template)
        self.stack.callback(pod.sandbox.close)
        return pod

    def run(self, name: str, template: Object) -> tuple[int, str]:
        """Run the only container of a pod until it ends; return its exit code and its log."""
        pod = self.pod(name, template)
        (container,) = containers(template)
        started = pod.start(container["name"])
        return started.wait(), pod.log(container["name"])

    def start_head(self) -> Pod:
        """Start Ray in the head pod."""
        group = self.cluster["spec"]["headGroupSpec"]
        pod = self.pod("head", kuberay(self.cluster, group))
        first = ["--head", f"--port={self.gcs_port}", "--include-dashboard=false"]
        start_ray(pod, ray_start(group, HEAD, *first))
        return pod

    def start_worker(self, address: str) -> Pod:
        """Start Ray in a worker pod."""
        (group,) = self.cluster["spec"]["workerGroupSpecs"]
        pod = self.pod(f"worker-{address}", kuberay(self.cluster, group))
        self.start_worker_container(pod, address)
        return pod

    def start_worker_container(self, pod: Pod, address: str) -> None:
        """Start Ray in a worker pod. After a kill, a second call starts a new container with the same volumes."""
        (group,) = self.cluster["spec"]["workerGroupSpecs"]
        start_ray(pod, ray_start(group, address, f"--address={HEAD}:{self.gcs_port}"))

    def start_service(self, head: Pod, *more: str) -> Container:
        """Start the service (container `weir` of the head pod), and wait until the container's probes pass."""
        weir = head.container("weir")
        started = head.start("weir", [*weir["command"], *more])
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in weir:
                self.wait_for(weir[probe]["httpGet"]["path"], head, started)
        return started

    def wait_for(self, path: str, head: Pod, weir: Container) -> None:
        """Wait until the service answers the HTTP request of a probe."""

        def passes() -> bool:
            assert not weir.has_ended(), head.log("weir")
            try:
                return httpx.get(f"{self.url}{path}", timeout=5).status_code == 200
            except httpx.HTTPError:
                return False

        eventually(passes, path)


def start_ray(pod: Pod, command: Sequence[str]) -> None:
    """Start Ray's container of a pod, and wait until Ray has joined the cluster."""
    name = pod.template["spec"]["containers"][0]["name"]
    before = pod.log(name)
    started = pod.start(name, command)

    def has_started() -> bool:
        assert not started.has_ended(), pod.log(name)
        return "Ray runtime started." in pod.log(name).removeprefix(before)

    eventually(has_started, f"Ray in {pod.name}")


@contextmanager
def machine(**values: Any) -> Iterator[Machine]:
    """Render the chart with free ports of this machine. At the end of the `with` block, all pods of the machine are stopped."""
    gcs_port, api_port, gateway_port = free_port(), free_port(), free_port()
    config = {
        "live": {"lanes": 1},
        "cluster": {"address": f"{HEAD}:{gcs_port}"},
        "service": {"port": api_port},
        "gateway": {"port": gateway_port},
    }
    values = {"config": config, "api": {"service": {"port": api_port}}, **values}
    objects = rendered(CHART / "ci" / "minimal-values.yaml", values=values)
    folder = Path(tempfile.mkdtemp(prefix="weir-helm-"))
    try:
        with ExitStack() as stack:
            yield Machine(folder, objects, gcs_port, api_port, stack)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
