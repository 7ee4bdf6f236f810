"""What the chart's pods would run is run: a head and two workers as processes of this machine, with the rendered command
lines, configuration and Secrets, and then the Job and the script of `helm test` against them.

Nodes differ by address (127.0.0.x). Of what is rendered, only the folders of volumes and the service's name are replaced: there is
no kubelet here, and no DNS.
"""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

from tests.helm.chart import CHART, RELEASE, Object, containers, named, of_kind, pods, rendered
from tests.live.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.helm]

FULL = f"{RELEASE}-weir"
HEAD, WORKERS = "127.0.0.1", ("127.0.0.2", "127.0.0.3")
ENDS_S = 60.0
RAY = Path(sys.executable).parent / "ray"
# Of Ray's, where nodes share a machine: two of them differ in these, too.
PORTS = (
    "--node-manager-port",
    "--object-manager-port",
    "--metrics-export-port",
    "--dashboard-agent-listen-port",
)


def free_port(host: str = HEAD) -> int:
    with socket.socket() as one:
        one.bind((host, 0))
        return int(one.getsockname()[1])


@dataclass
class Machine:
    """This one, in place of a cluster: what is rendered, folders for volumes, and the processes that run."""

    folder: Path
    objects: Sequence[Object]
    gcs_port: int
    api_port: int
    stack: ExitStack
    token: str = field(default_factory=lambda: secrets.token_hex(32))
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{HEAD}:{self.api_port}"

    def secret(self, name: str, key: str) -> str:
        if key == "auth_token":  # KubeRay makes it
            return self.token
        one = named(self.objects, "Secret", name)
        data = {name: base64.b64decode(value).decode() for name, value in one.get("data", {}).items()}
        return str((data | one.get("stringData", {}))[key])

    def volume(self, pod: Object, name: str) -> Path:
        """The folder, with the files of the ConfigMap that it is made of."""
        (volume,) = [one for one in pod["spec"]["volumes"] if one["name"] == name]
        folder = self.folder / f"{name}-{volume['configMap']['name'] if 'configMap' in volume else 'empty'}"
        folder.mkdir(exist_ok=True)
        if "configMap" in volume:
            for file, text in named(self.objects, "ConfigMap", volume["configMap"]["name"])["data"].items():
                (folder / file).write_text(text, encoding="utf-8")
        return folder

    def here(self, pod: Object, container: Object, text: str) -> str:
        for mount in container["volumeMounts"]:
            if mount["mountPath"].startswith(("/etc", "/var")):
                text = text.replace(mount["mountPath"], str(self.volume(pod, mount["name"])))
        return text.replace(f"http://{FULL}-api.streams.svc:8642", self.url)

    def environ(self, pod: Object, container: Object) -> dict[str, str]:
        found = {name: value for name, value in os.environ.items() if not name.startswith(("WEIR_", "RAY_"))}
        for one in container["env"]:
            if "value" in one:
                found[one["name"]] = self.here(pod, container, one["value"])
            else:
                ref = one["valueFrom"]["secretKeyRef"]
                found[one["name"]] = self.secret(ref["name"], ref["key"])
        # What KubeRay gives to its own containers.
        found |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token, "RAY_USAGE_STATS_ENABLED": "0"}
        programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return found | {"PATH": programs, "PYTHONPATH": str(CHART.parents[1])}

    def start(self, name: str, command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        log: IO[bytes] = self.stack.enter_context((self.folder / f"{name}.log").open("ab"))
        process = subprocess.Popen(
            command, env=dict(environ), cwd=self.folder, stdout=log, stderr=log, start_new_session=True
        )
        self.processes[name] = process
        return process

    def command(self, pod: Object, container: Object) -> list[str]:
        program, *arguments = (self.here(pod, container, one) for one in container["command"])
        weir = [sys.executable, "-c", "from services.cli.main import main; main()"]
        return [*({"weir": weir, "python": [sys.executable]}[program]), *arguments]

    def run(self, pod: Object) -> subprocess.CompletedProcess[bytes]:
        """A pod that ends by itself."""
        (container,) = containers(pod)
        return subprocess.run(
            self.command(pod, container),
            env=self.environ(pod, container),
            cwd=self.folder,
            capture_output=True,
            timeout=240,
            check=False,
        )

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def end(self, name: str, number: int = signal.SIGTERM) -> int:
        """Its exit code; whoever it has started ends with it, or is killed."""
        process = self.processes.pop(name)
        process.send_signal(number)
        try:
            return process.wait(ENDS_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def end_all(self) -> None:
        for name in reversed(list(self.processes)):
            self.end(name)


def ray_start(machine: Machine, group: Object, address: str, *more: str) -> list[str]:
    """What KubeRay makes of a group: its parameters, and processors of the container's limit."""
    (container,) = [one for one in group["template"]["spec"]["containers"] if one["name"].startswith("ray-")]
    said = {"num-cpus": container["resources"]["limits"]["cpu"], **group["rayStartParams"]}
    options = [f"--{name}={value}" for name, value in said.items()]
    options += [f"{port}={free_port(address)}" for port in PORTS]
    return [
        str(RAY),
        "start",
        *more,
        *options,
        f"--node-ip-address={address}",
        f"--object-store-memory={100 << 20}",
        "--block",
    ]


@contextmanager
def running(folder: Path) -> Iterator[Machine]:
    gcs_port, api_port, gateway_port = free_port(), free_port(), free_port(WORKERS[0])
    config = {
        "live": {"lanes": 1},
        "cluster": {"address": f"{HEAD}:{gcs_port}"},
        "service": {"port": api_port},
        "gateway": {"port": gateway_port},
    }
    values: dict[str, Any] = {"config": config, "workerGroups": {"default": {"replicas": len(WORKERS)}}}
    objects = rendered(CHART / "ci" / "minimal-values.yaml", values=values)
    (cluster,) = of_kind(objects, "RayCluster")
    head, (group,) = cluster["spec"]["headGroupSpec"], cluster["spec"]["workerGroupSpecs"]
    with ExitStack() as stack:
        machine = Machine(folder, objects, gcs_port, api_port, stack)
        stack.callback(machine.end_all)
        template = head["template"]
        ray_head, weir = containers(template)
        # Sockets are in there, whose paths must be short.
        temp = stack.enter_context(short_folder())
        first = ["--head", f"--port={gcs_port}", f"--temp-dir={temp}", "--include-dashboard=false"]
        machine.start("head", ray_start(machine, head, HEAD, *first), machine.environ(template, ray_head))
        for number, address in enumerate(WORKERS):
            (worker,) = containers(group["template"])
            command = ray_start(machine, group, address, f"--address={HEAD}:{gcs_port}")
            environ = machine.environ(group["template"], worker)
            eventually_connects(HEAD, gcs_port)
            machine.start(f"worker-{number}", command, environ)
        start_service(machine)
        assert weir["name"] == "weir"
        assert group["replicas"] == len(WORKERS)
        yield machine


@contextmanager
def short_folder() -> Iterator[str]:
    found = tempfile.mkdtemp(prefix="weir-helm-")
    try:
        yield found
    finally:
        shutil.rmtree(found, ignore_errors=True)


def eventually_connects(host: str, port: int) -> None:
    def connects() -> bool:
        with socket.socket() as one:
            return one.connect_ex((host, port)) == 0

    eventually(connects, f"an answer of {host}:{port}")


def start_service(machine: Machine) -> None:
    """Until its probes pass."""
    (cluster,) = of_kind(machine.objects, "RayCluster")
    template = cluster["spec"]["headGroupSpec"]["template"]
    (weir,) = [one for one in containers(template) if one["name"] == "weir"]
    process = machine.start("weir", machine.command(template, weir), machine.environ(template, weir))
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        path = weir[probe]["httpGet"]["path"]

        def passes(path: str = path) -> bool:
            assert process.poll() is None, machine.log("weir")
            try:
                return httpx.get(f"{machine.url}{path}", timeout=5).status_code == 200
            except httpx.HTTPError:
                return False

        eventually(passes, path)


def asked(machine: Machine, path: str) -> Any:
    key = machine.secret(f"{FULL}-keys", "admin-key")
    answer = httpx.get(f"{machine.url}{path}", headers={"Authorization": f"Bearer {key}"}, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_pods_of_the_chart_onboard_a_tenant_and_outlive_their_service(tmp_path: Path) -> None:
    with running(tmp_path) as machine:
        by_name = dict(pods(machine.objects))
        eventually(lambda: len(asked(machine, "/v1/system")["nodes"]) == len(WORKERS), "both workers")
        # The Job, twice: what is declared already is not declared again.
        for _ in range(2):
            done = machine.run(by_name[f"Job {FULL}-apply"])
            assert done.returncode == 0, done.stderr.decode()
        (tenant,) = asked(machine, "/v1/tenants")["items"]
        assert (tenant["document"]["name"], tenant["document"]["priority_class"]) == ("acme", "gold")
        # `helm test`.
        done = machine.run(by_name[f"Pod {FULL}-test"])
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
        assert b"read a result" in done.stdout
        assert [one["document"]["name"] for one in asked(machine, "/v1/tenants")["items"]] == ["acme"]
        # The key of metrics is for metrics.
        metrics = machine.secret(f"{FULL}-keys", "metrics-key")
        answer = httpx.get(
            f"{machine.url}/metrics", headers={"Authorization": f"Bearer {metrics}"}, timeout=30
        )
        assert (answer.status_code, "weir_" in answer.text) == (200, True)
        # A container of the head pod ends; the system does not.
        before = asked(machine, "/v1/system")
        assert machine.end("weir") == 128 + signal.SIGTERM
        start_service(machine)
        after = asked(machine, "/v1/system")
        assert (after["name"], {one["name"] for one in after["nodes"]}) == (
            before["name"],
            {one["name"] for one in before["nodes"]},
        )
