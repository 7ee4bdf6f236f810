"""What the chart's pods would run is run: a head and two workers as processes of this machine, with the rendered command
lines, configuration and Secrets, and then the Job and the script of `helm test` against them.

Nodes differ by address (127.0.0.x). Of what is rendered, only the folders of volumes and the service's name are replaced: there is
no kubelet here, and no DNS.
"""

from __future__ import annotations

import base64
import os
import random
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
from functools import partial
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

from configs.documents.declarations import documents_of
from configs.errors import WeirError
from services.client import Client
from tests.helm.chart import CHART, RELEASE, Object, containers, named, of_kind, pods, rendered
from tests.support.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.helm]

FULL = f"{RELEASE}-weir"
DECLARED = """
{kind: Stream, name: ticks, columns: {ts: timestamp, value: int64}, time: ts}
---
{kind: Query, tenant: acme, name: all, sql: SELECT value FROM ticks}
"""
FED = """
{kind: Stream, name: evens, columns: {ts: timestamp, value: int64}, time: ts}
---
{kind: Stream, name: odds, columns: {ts: timestamp, value: int64}, time: ts}
---
kind: Feed
name: numbers
source: {format: rate, options: {rowsPerSecond: 100}, sql: "SELECT timestamp AS ts, value FROM source"}
streams: {evens: {where: value % 2 = 0}, odds: {where: value % 2 = 1}}
---
{kind: Tenant, name: acme, priority_class: gold}
---
{kind: Query, tenant: acme, name: even, sql: SELECT value FROM evens}
---
{kind: Tenant, name: globex, priority_class: gold}
---
{kind: Query, tenant: globex, name: odd, sql: SELECT value FROM odds}
"""
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


# Below those that the system gives to connections, above those that Ray gives to its workers.
FREE = iter(random.sample(range(20_000, 32_000), 2000))


def free_port() -> int:
    """Free at all addresses, and given once."""
    return next(port for port in FREE if all(is_free(host, port) for host in (HEAD, *WORKERS)))


def is_free(host: str, port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind((host, port))
        except OSError:
            return False
    return True


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

    def end(self, name: str) -> int:
        """Its exit code."""
        process = self.processes.pop(name)
        process.terminate()
        return waited(process)

    def end_all(self) -> None:
        """At once: each node of Ray's waits for what runs on it."""
        for process in self.processes.values():
            process.terminate()
        for name in reversed(list(self.processes)):
            waited(self.processes.pop(name))


def waited(process: subprocess.Popen[bytes]) -> int:
    """Its exit code; whoever it has started ends with it, or is killed."""
    try:
        return process.wait(ENDS_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def ray_start(machine: Machine, group: Object, address: str, *more: str) -> list[str]:
    """What KubeRay makes of a group: its parameters, and processors of the container's limit."""
    (container,) = [one for one in group["template"]["spec"]["containers"] if one["name"].startswith("ray-")]
    said = {"num-cpus": container["resources"]["limits"]["cpu"], **group["rayStartParams"]}
    options = [f"--{name}={value}" for name, value in said.items()]
    options += [f"{port}={free_port()}" for port in PORTS]
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
    gcs_port, api_port, gateway_port = free_port(), free_port(), free_port()
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
        start_node(
            machine, "head", ray_start(machine, head, HEAD, *first), machine.environ(template, ray_head)
        )
        for number, address in enumerate(WORKERS):
            (worker,) = containers(group["template"])
            command = ray_start(machine, group, address, f"--address={HEAD}:{gcs_port}")
            environ = machine.environ(group["template"], worker)
            start_node(machine, f"worker-{number}", command, environ)
        stack.callback(down, machine)
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


def start_node(machine: Machine, name: str, command: Sequence[str], environ: Mapping[str, str]) -> None:
    """One after the other: two that begin at a time on one machine take each other for themselves."""
    process = machine.start(name, command, environ)

    def has_started() -> bool:
        assert process.poll() is None, machine.log(name)
        return "Ray runtime started." in machine.log(name)

    eventually(has_started, f"a node of Ray's, {name}")


def start_service(machine: Machine, *more: str) -> None:
    """Until its probes pass."""
    (cluster,) = of_kind(machine.objects, "RayCluster")
    template = cluster["spec"]["headGroupSpec"]["template"]
    (weir,) = [one for one in containers(template) if one["name"] == "weir"]
    command = [*machine.command(template, weir), *more]
    process = machine.start("weir", command, machine.environ(template, weir))
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


def down(machine: Machine) -> subprocess.CompletedProcess[bytes]:
    """In the head pod: what runs on a node keeps it from ending for half a minute."""
    template = named(machine.objects, "RayCluster", FULL)["spec"]["headGroupSpec"]["template"]
    (ray_head, weir) = containers(template)
    command = [
        *machine.command(template, weir)[:3],
        "down",
        "--yes",
        "--address",
        f"{HEAD}:{machine.gcs_port}",
    ]
    environ = machine.environ(template, ray_head)
    return subprocess.run(command, env=environ, capture_output=True, timeout=60, check=False)


def seen(machine: Machine) -> tuple[str, set[str]]:
    """The system, and its nodes with their doors."""
    told = asked(machine, "/v1/system")
    return told["name"], {one["endpoint"] for one in told["nodes"]}


def brought(weir: Client, value: int) -> bool:
    """Whether a row that is brought now, or was before, has an answer."""
    with suppress(WeirError):
        weir.put_rows("ticks", [{"ts": "2026-01-01T00:00:00Z", "value": value}])
        return value in values(weir)
    return False


def values(weir: Client) -> list[int]:
    return [row["value"] for row in weir.results("acme/all", patience_s=0.0)]


def test_pods_of_the_chart_onboard_a_tenant_and_outlive_their_service(tmp_path: Path) -> None:
    with running(tmp_path) as machine, ExitStack() as stack:
        by_name = dict(pods(machine.objects))
        eventually(lambda: len(seen(machine)[1]) == len(WORKERS), "both workers")
        # The Job, twice: what is declared already is not declared again.
        for _ in range(2):
            done = machine.run(by_name[f"Job {FULL}-apply"])
            assert done.returncode == 0, done.stderr.decode()
        key = machine.secret(f"{FULL}-keys", "admin-key")
        weir = stack.enter_context(Client(machine.url, key))
        assert [one.ref.name for one in weir.all("Tenant")] == ["acme"]
        # `helm test`.
        done = machine.run(by_name[f"Pod {FULL}-test"])
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
        assert b"read a result" in done.stdout
        assert [one.ref.name for one in weir.all("Tenant")] == ["acme"]
        # The key of metrics is for metrics.
        metrics = {"Authorization": f"Bearer {machine.secret(f'{FULL}-keys', 'metrics-key')}"}
        answer = httpx.get(f"{machine.url}/metrics", headers=metrics, timeout=30)
        assert (answer.status_code, "weir_" in answer.text) == (200, True)
        assert httpx.get(f"{machine.url}/v1/tenants", headers=metrics, timeout=30).status_code == 403
        # A container of the head pod ends; the system, and what it has answered, does not.
        weir.apply(documents_of(DECLARED))
        eventually(lambda: brought(weir, 1), "an answer")
        before = seen(machine)
        assert {one.rpartition(":")[0] for one in before[1]} == {f"grpc://{one}" for one in WORKERS}
        assert machine.end("weir") == 128 + signal.SIGTERM
        start_service(machine)
        assert seen(machine) == before
        assert values(weir)[0] == 1
        # Other settings are another system, with the same declarations.
        assert machine.end("weir") == 128 + signal.SIGTERM
        start_service(machine, "--manager", "common")
        assert seen(machine)[0] != before[0]
        eventually(lambda: brought(weir, 2), "an answer of the new system")
        assert set(values(weir)) == {2}
        assert machine.end("weir") == 128 + signal.SIGTERM
        assert [down(machine).returncode for _ in range(2)] == [0, 2]


@pytest.mark.spark
def test_pod_of_spark_brings_what_the_catalog_says_to_the_node_at_which_it_comes_in(tmp_path: Path) -> None:
    with running(tmp_path) as machine, ExitStack() as stack:
        pod = dict(pods(machine.objects))[f"Deployment {FULL}-ingest"]
        (container,) = containers(pod)
        ingest = machine.start("ingest", machine.command(pod, container), machine.environ(pod, container))
        weir = stack.enter_context(Client(machine.url, machine.secret(f"{FULL}-keys", "admin-key")))
        weir.apply(documents_of(FED))
        for query in ("acme/even", "globex/odd"):
            eventually(partial(has_answers, weir, query, ingest, machine), f"answers of {query}")
        metrics = {"Authorization": f"Bearer {machine.secret(f'{FULL}-keys', 'metrics-key')}"}

        def runs() -> bool:
            told = httpx.get(f"{machine.url}/metrics", headers=metrics, timeout=30).text
            return 'weir_feed_running{stream="numbers"} 1' in told

        eventually(runs, "news of the feed")
        # One feed, and a stream of it at each node: at that of the class that reads it.
        with Client(machine.url, machine.secret(f"{FULL}-keys", "feeds-key")) as spark:
            doors = set(spark.to_bring().endpoints.values())
        assert {one.rpartition(":")[0] for one in doors} == {f"grpc://{one}" for one in WORKERS}
        alive = machine.volume(pod, "checkpoints") / "ingest" / "alive"
        assert alive.exists()
        assert machine.end("ingest") == 128 + signal.SIGTERM


def has_answers(weir: Client, query: str, ingest: subprocess.Popen[bytes], machine: Machine) -> bool:
    assert ingest.poll() is None, machine.log("ingest")
    with suppress(WeirError):
        return any(True for _ in weir.results(query, patience_s=0.0))
    return False
