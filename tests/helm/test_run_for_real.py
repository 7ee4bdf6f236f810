"""Pods of the chart, run on this machine (`machine`): a head and two workers, then the Job and the script of `helm test`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from configs.documents.declarations import documents_of
from configs.errors import WeirError
from services.client import Client
from tests.helm.chart import NAMESPACE, pods
from tests.helm.isolation import Container, is_possible
from tests.helm.machine import FULL, HEAD, WORKERS, Machine, Pod, machine
from tests.support.served import certificate_in
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.live,
    pytest.mark.helm,
    pytest.mark.skipif(not is_possible(), reason="pods need root, or namespaces of users, to be isolated"),
]

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


CERTIFICATE = "gateway-certificate"


@contextmanager
def running(**values: Any) -> Iterator[tuple[Machine, Pod, Container]]:
    """Start a head, two workers and the service; yield the machine, the head pod and the service's container."""
    with machine(workerGroups={"default": {"replicas": len(WORKERS)}}, **values) as here:
        head = here.start_head()
        for address in WORKERS:
            here.start_worker(address)
        yield here, head, here.start_service(head)


def asked(machine: Machine, path: str) -> Any:
    key = machine.secret(f"{FULL}-keys", "admin-key")
    answer = httpx.get(f"{machine.url}{path}", headers={"Authorization": f"Bearer {key}"}, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


def down(machine: Machine, head: Pod) -> int:
    """Run `weir down` next to the service, and return its exit code."""
    weir = head.container("weir")["command"]
    return head.start("weir", [*weir[:1], "down", "--yes", "--address", f"{HEAD}:{machine.gcs_port}"]).wait()


def seen(machine: Machine) -> tuple[str, set[str]]:
    """Return the name of the running system, and the addresses of its nodes' gateways."""
    system = asked(machine, "/v1/system")
    return system["name"], {node["endpoint"] for node in system["nodes"]}


def is_answered(weir: Client, value: int) -> bool:
    """Push a row with this value. Return True if any row with this value has an answer already."""
    with suppress(WeirError):
        weir.put_rows("ticks", [{"ts": "2026-01-01T00:00:00Z", "value": value}])
        return value in values(weir)
    return False


def values(weir: Client) -> list[int]:
    return [row["value"] for row in weir.results("acme/all", patience_s=0.0)]


def test_pods_of_the_chart_serve_a_tenant_and_survive_a_restart_of_the_service() -> None:
    with running() as (machine, head, service), ExitStack() as stack:
        by_name = dict(pods(machine.objects))
        eventually(lambda: len(seen(machine)[1]) == len(WORKERS), "both workers")
        # The Job runs twice; the second run changes nothing.
        for number in range(2):
            code, log = machine.run(f"apply-{number}", by_name[f"Job {FULL}-apply"])
            assert code == 0, log
        key = machine.secret(f"{FULL}-keys", "admin-key")
        weir = stack.enter_context(Client(machine.url, key))
        assert [one.ref.name for one in weir.all("Tenant")] == ["acme"]
        # Run the script of `helm test`.
        code, log = machine.run("test", by_name[f"Pod {FULL}-test"])
        assert (code, "read a result" in log) == (0, True), log
        assert [one.ref.name for one in weir.all("Tenant")] == ["acme"]
        # The metrics key can read nothing but metrics.
        metrics = {"Authorization": f"Bearer {machine.secret(f'{FULL}-keys', 'metrics-key')}"}
        answer = httpx.get(f"{machine.url}/metrics", headers=metrics, timeout=30)
        assert (answer.status_code, "weir_" in answer.text) == (200, True)
        assert httpx.get(f"{machine.url}/v1/tenants", headers=metrics, timeout=30).status_code == 403
        # After a restart of the service's container, the same system runs, and its answers are still there.
        weir.apply(documents_of(DECLARED))
        eventually(lambda: is_answered(weir, 1), "an answer")
        before = seen(machine)
        assert {one.rpartition(":")[0] for one in before[1]} == {f"grpc://{one}" for one in WORKERS}
        assert service.end() == 128 + signal.SIGTERM
        service = machine.start_service(head)
        assert seen(machine) == before
        assert values(weir)[0] == 1
        # If the service starts with other settings, a new system starts with the same declarations.
        assert service.end() == 128 + signal.SIGTERM
        service = machine.start_service(head, "--manager", "common")
        assert seen(machine)[0] != before[0]
        eventually(lambda: is_answered(weir, 2), "an answer of the new system")
        assert set(values(weir)) == {2}
        assert service.end() == 128 + signal.SIGTERM
        assert [down(machine, head) for _ in range(2)] == [0, 2]


def gateway_tls(folder: Path) -> dict[str, Any]:
    """Return chart values that give the gateways TLS, with the Secret of their certificate."""
    name = f"{FULL}-gateway.{NAMESPACE}.svc"
    certificate, key = certificate_in(folder, f"DNS:{name}")
    files = {"tls.crt": certificate, "tls.key": key, "ca.crt": certificate}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": CERTIFICATE},
        "stringData": {name: file.read_text(encoding="utf-8") for name, file in files.items()},
    }
    tls = {"enabled": True, "existingSecret": CERTIFICATE, "serverName": name}
    return {"gateway": {"tls": tls}, "extraObjects": [secret]}


@pytest.mark.spark
@pytest.mark.parametrize("scheme", ["grpc", "grpc+tls"])
def test_the_spark_pod_delivers_each_stream_to_the_node_of_its_reader(scheme: str, tmp_path: Path) -> None:
    values = gateway_tls(tmp_path) if scheme == "grpc+tls" else {}
    with running(**values) as (machine, _, _), ExitStack() as stack:
        pod = machine.pod("ingest", dict(pods(machine.objects))[f"Deployment {FULL}-ingest"])
        ingest = pod.start("ingest")
        weir = stack.enter_context(Client(machine.url, machine.secret(f"{FULL}-keys", "admin-key")))
        weir.apply(documents_of(FED))
        for query in ("acme/even", "globex/odd"):
            eventually(partial(has_answers, weir, query, ingest, pod), f"answers of {query}")
        metrics = {"Authorization": f"Bearer {machine.secret(f'{FULL}-keys', 'metrics-key')}"}

        def runs() -> bool:
            text = httpx.get(f"{machine.url}/metrics", headers=metrics, timeout=30).text
            return 'weir_feed_running{stream="numbers"} 1' in text

        eventually(runs, "a metric of the running feed")
        # The feed delivers each of its two streams to one node: the node of the class that reads the stream.
        with Client(machine.url, machine.secret(f"{FULL}-keys", "feeds-key")) as spark:
            doors = set(spark.to_bring().endpoints.values())
        assert {one.rpartition(":")[0] for one in doors} == {f"{scheme}://{one}" for one in WORKERS}
        alive = pod.volume("checkpoints") / "ingest" / "alive"
        assert alive.exists()
        assert ingest.end() == 128 + signal.SIGTERM


def has_answers(weir: Client, query: str, ingest: Container, pod: Pod) -> bool:
    assert not ingest.has_ended(), pod.log("ingest")
    with suppress(WeirError):
        return any(True for _ in weir.results(query, patience_s=0.0))
    return False
