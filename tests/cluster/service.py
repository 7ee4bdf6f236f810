"""A release on a real node, as its users see it: declarations, answers, running units, and the pods behind the service."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx

from configs.documents.declarations import documents_of
from configs.errors import WeirError
from services.client import Client
from tests.cluster.api import Object, wait_until_none
from tests.cluster.kubelet import Node
from tests.cluster.release import CHART, NAME, Release

PORT = 8642
INSTANCE = f"app.kubernetes.io/instance={NAME}"
# Longest wait in seconds for pods that start Ray or Spark on a busy machine.
START_S = 600.0
CALL_S = 30.0
ROWS = 10_000
LOG_LINES = 25


@dataclass
class Service:
    release: Release
    node: Node
    options: list[str]
    """Options of helm, to which each upgrade adds its own."""

    def __post_init__(self) -> None:
        self.before = self.traces()

    def upgrade(self, *options: str) -> None:
        self.options += options
        self.release.run_helm("upgrade", NAME, str(CHART), *self.options)

    def traces(self) -> set[str]:
        """Return the programs, mounts and cgroups of pods on the node."""
        machine = self.node.machine
        # Only cgroups of pods count, because the kubelet's own cgroups stay.
        groups = [folder for folder in machine.groups() if "/pod" in folder.rpartition("/kubepods")[2]]
        return {*machine.processes().values(), *machine.mounts(), *groups}

    def left_over(self) -> list[str]:
        """Return the objects, programs, mounts and cgroups that remain after the release was removed."""
        return [*self.release.left_over(), *sorted(self.traces() - self.before)]

    # -- the pods of the release ------------------------------------------------------------------

    def pods(self, component: str) -> list[Object]:
        found = self.release.items("v1", "Pod", f"{INSTANCE},app.kubernetes.io/component={component}")
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def pod(self, component: str) -> Object:
        (found,) = self.pods(component)
        return found

    def kubectl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.release.plane.kubectl("--namespace", self.release.namespace, *arguments)

    def run_kubectl(self, *arguments: str) -> str:
        done = self.kubectl(*arguments)
        assert done.returncode == 0, f"kubectl {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def delete_pods(self, *components: str) -> None:
        """Delete the pods of some components, and wait until the last of these pods is gone."""
        names = ",".join(components)
        selector = f"{INSTANCE},app.kubernetes.io/component in ({names})"
        self.run_kubectl("delete", "pod", "--selector", selector)

    def wait_until_ready(self) -> None:
        wait_until_none(self.release.problems, START_S, context=self.diagnosis)

    def diagnosis(self) -> list[str]:
        """Return the warnings of the namespace and the last lines of the logs of all its containers."""
        found = self.release.warnings()
        for pod in self.release.items("v1", "Pod"):
            name = pod["metadata"]["name"]
            for container in pod["spec"]["containers"]:
                log = self.kubectl("logs", name, "--container", container["name"], f"--tail={LOG_LINES}")
                found.append(f"--- {name}/{container['name']}\n{log.stdout}{log.stderr}")
        return found

    def uids(self, component: str) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.pods(component)}

    def environment(self, component: str, container: str) -> dict[str, str]:
        found = [entry for entry in self.pod(component)["spec"]["containers"] if entry["name"] == container]
        return {variable["name"]: variable.get("value", "") for variable in found[0]["env"]}

    def images(self, *components: str) -> set[str]:
        pods = [pod for component in components for pod in self.pods(component)]
        return {container["image"] for pod in pods for container in pod["spec"]["containers"]}

    def restarts(self, component: str, container: str) -> int:
        """Return how often Kubernetes has restarted a container of the component's only pod."""
        statuses = self.pod(component)["status"]["containerStatuses"]
        return sum(int(found["restartCount"]) for found in statuses if found["name"] == container)

    # -- the REST service, at the address of the head pod -----------------------------------------

    @property
    def address(self) -> str:
        return f"http://{self.pod('head')['status']['podIP']}:{PORT}"

    @property
    def key(self) -> str:
        secret = self.release.plane.api.find("v1", "Secret", f"{NAME}-weir-keys", self.release.namespace)
        assert secret is not None
        return base64.b64decode(secret["data"]["admin-key"]).decode()

    @contextmanager
    def client(self) -> Iterator[Client]:
        with Client(self.address, self.key, timeout_s=CALL_S, tries=1) as client:
            yield client

    def apply(self, text: str) -> None:
        """Declare documents, and repeat the request until the service accepts it."""
        documents = list(documents_of(text))

        def problems() -> list[str]:
            with self.client() as client:
                client.apply(documents)
            return []

        self.wait_for(problems)

    def wait_for(self, problems: Callable[[], list[str]]) -> None:
        """Wait until `problems` returns an empty list. A failed call counts as a problem."""
        wait_until_none(lambda: tried(problems), START_S, context=self.diagnosis)

    def wait_until_running(self) -> None:
        """Wait until the pods are ready and all declared classes run."""
        self.wait_until_ready()
        self.wait_for(self.problems)

    def problems(self) -> list[str]:
        with self.client() as client:
            system = client.live.system()
        return [*system["problems"], *system["unplaced"], *([] if system["units"] else ["no units"])]

    def places(self) -> dict[str, str]:
        """Return the name of the node on which each unit runs."""
        with self.client() as client:
            return {unit["unit"]: unit["node"] for unit in client.live.system()["units"]}

    def nodes(self) -> dict[str, str]:
        """Return the address of the gateway for the name of each node."""
        with self.client() as client:
            return {node["name"]: node["endpoint"] or "" for node in client.live.system()["nodes"]}

    def pods_of_nodes(self) -> dict[str, str]:
        """Return the name of the worker pod for the name of each node."""
        pods = {pod["status"]["podIP"]: pod["metadata"]["name"] for pod in self.pods("worker")}
        return {node: pods[str(httpx.URL(address).host)] for node, address in self.nodes().items()}

    def send(self, stream: str, values: range) -> int:
        """Send a batch of rows to a stream, repeatedly until the service answers. Return the number of accepted rows."""
        # Rows with an older time would be late, because event time advances with the clock while no rows are sent.
        now = datetime.now(UTC).isoformat()
        rows = [{"ts": now, "value": value} for value in values]
        accepted: list[int] = []

        def problems() -> list[str]:
            with self.client() as client:
                accepted.append(client.put_rows(stream, rows, batch=f"{stream}-{values}").accepted)
            return []

        self.wait_for(problems)
        return accepted[-1]


def tried(problems: Callable[[], list[str]]) -> list[str]:
    try:
        return problems()
    except (WeirError, httpx.HTTPError, OSError, KeyError, ValueError) as problem:
        return [repr(problem)]


@dataclass
class Reader:
    """Reader of the answers of one query. Each read continues after the last row of the previous read."""

    service: Service
    query: str
    cursor: str | None = None
    values: list[int] = field(default_factory=list)
    """Values since the query last began with row 0."""
    numbers: list[int] = field(default_factory=list)
    """Row numbers of these values."""
    restarts: int = 0
    """How often the query began with row 0 again."""

    def read(self) -> list[int]:
        """Read all available rows. Return the values of all rows since the query last began with row 0."""
        tenant, _, name = self.query.partition("/")
        url = f"{self.service.address}/v1/tenants/{tenant}/queries/{name}/results"
        headers = {"Authorization": f"Bearer {self.service.key}"}
        while True:
            parameters: dict[str, str | int] = {"limit": ROWS} | (
                {"after": self.cursor} if self.cursor else {}
            )
            answer = httpx.get(url, params=parameters, headers=headers, timeout=CALL_S, trust_env=False)
            answer.raise_for_status()
            page = answer.json()
            if page.get("restarted"):
                self.restarts += 1
                self.values, self.numbers = [], []
            self.values += [row["value"] for row in page["rows"]]
            self.numbers += [row["_seq"] for row in page["rows"]]
            self.cursor = page["next"] or self.cursor
            if not page["rows"]:
                return self.values

    def wait_for_values(self, wanted: Callable[[list[int]], bool]) -> list[int]:
        """Read until `wanted` returns True for the values, and return the values."""
        self.service.wait_for(
            lambda: (
                [] if wanted(self.read()) else [f"{self.query}: {len(self.values)} rows: {self.values[-5:]}"]
            )
        )
        return self.values

    def wait_for_more(self, rows: int = 30) -> list[int]:
        """Read until the query has `rows` more answers than now."""
        self.service.wait_for(lambda: [] if self.read() else [f"{self.query} has no rows"])
        many = len(self.values) + rows
        return self.wait_for_values(lambda values: len(values) >= many)


def is_contiguous(values: list[int]) -> bool:
    """Return True if each value is the previous value plus 1, so that no row is missing, repeated or in a wrong place."""
    return values == list(range(values[0], values[0] + len(values)))
