"""The chart on a real node: the project's own images, started by KubeRay, the kubelet and containerd.

The tests of a test class run in order on one release, and check what docs/operations.md promises.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from tests.cluster.conftest import operator_of
from tests.cluster.control_plane import ControlPlane
from tests.cluster.kubelet import Node
from tests.cluster.machine import PARTS
from tests.cluster.programs import operator_versions
from tests.cluster.release import CHART, NAME, add_namespace, release, remove_namespace
from tests.cluster.service import PORT, Reader, Service, is_contiguous
from tests.cluster.steps import Steps
from tests.cluster.stores import PostgreSQL, Redis, postgresql, redis

pytestmark = pytest.mark.node

# On a busy machine, Ray needs some minutes to start.
WITHIN = "8m"
ELSEWHERE, STRANGER = "elsewhere", "stranger"
RAY_PORT = 6379
CLAIM = "persistentVolumeClaim"
# Rows of one micro-batch of stream `ticks`, and a number of rows for which several micro-batches are necessary.
BATCH, MANY = 5, 30
# Python program that fails if it gets no connection within some seconds.
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3]))"
# A refused connection gets no answer, so each of these tests waits for the whole time. An allowed connection may be slow on a busy machine.
REFUSED_S, ALLOWED_S = 5, 60
VALUES = ("--values", str(PARTS / "values.yaml"), "--timeout", WITHIN)


@pytest.fixture(scope="module")
def operated(weir_node: Node) -> Iterator[ControlPlane]:
    """The node's control plane with the newest KubeRay operator."""
    with operator_of(weir_node.plane, operator_versions()[-1]):
        yield weir_node.plane


@pytest.fixture(scope="class")
def options() -> list[str]:
    """Options of helm for the release of a test class."""
    return []


@pytest.fixture(scope="class")
def service(operated: ControlPlane, weir_node: Node, options: list[str], steps: Steps) -> Iterator[Service]:
    """An installed release."""
    with release(operated, "weir", "node", is_real=True) as made:
        installed = Service(made, weir_node, [*VALUES, *options])
        with steps.step("helm install, with the Job that declares the tenants"):
            made.run_helm("install", NAME, str(CHART), *installed.options)
        with steps.step("all pods are ready"):
            installed.wait_until_ready()
        yield installed


@dataclass(frozen=True, kw_only=True)
class Connection:
    """A connection from a pod, which network policies allow or refuse."""

    plane: ControlPlane = field(repr=False)
    caller: tuple[str, str]
    """Namespace and name of the pod."""
    host: str
    port: int
    allowed: bool

    def problems(self) -> list[str]:
        address = (self.host, str(self.port), str(ALLOWED_S if self.allowed else REFUSED_S))
        namespace, pod = self.caller
        program = ("python", "-c", CONNECT, *address)
        done = self.plane.kubectl("--namespace", namespace, "exec", pod, "--", *program)
        expected = done.returncode == 0 if self.allowed else "timed out" in done.stderr
        return [] if expected else [f"{self}: {done.stderr or 'connected'}"]


@pytest.fixture
def strangers(service: Service) -> Iterator[dict[str, str]]:
    """Addresses of pods that do not belong to the release, by namespace: in the release's namespace and elsewhere."""
    plane, namespaces = service.release.plane, (service.release.namespace, ELSEWHERE)
    add_namespace(plane, ELSEWHERE)
    file = str(PARTS / "stranger.yaml")
    try:
        for namespace in namespaces:
            done = plane.kubectl("--namespace", namespace, "apply", "--filename", file)
            assert done.returncode == 0, done.stderr
        for namespace in namespaces:
            wait = ("wait", "--for=condition=Ready", f"--timeout={WITHIN}", "--filename", file)
            done = plane.kubectl("--namespace", namespace, *wait)
            assert done.returncode == 0, done.stderr
        found = {name: plane.api.find("v1", "Pod", STRANGER, name) for name in namespaces}
        yield {name: pod["status"]["podIP"] for name, pod in found.items() if pod}
    finally:
        plane.kubectl("--namespace", namespaces[0], "delete", "--filename", file)
        remove_namespace(plane, ELSEWHERE)


@pytest.fixture(scope="class")
def ticked(service: Service) -> Reader:
    """Reader of the answers of query `ticked`, which gets its input from Spark."""
    return Reader(service, "acme/ticked")


@pytest.fixture(scope="class")
def ordered(service: Service) -> Reader:
    """Reader of the answers of query `ordered`, which gets its input from the tests."""
    return Reader(service, "acme/ordered")


class TestRelease:
    def test_installation_declares_the_tenants_of_the_values(self, service: Service) -> None:
        with service.client() as client:
            kinds = ("PriorityClass", "Tenant")
            names = {kind: {found.declaration.name for found in client.all(kind)} for kind in kinds}
        assert {"exact", "gold", "silver", "bronze"} == names["PriorityClass"]
        assert {"acme"} == names["Tenant"]
        assert service.release.items("batch/v1", "Job") == []

    def test_installed_chart_passes_its_own_test(self, service: Service, steps: Steps) -> None:
        run_chart_test(service, steps)

    def test_every_row_of_a_spark_source_arrives_in_weir(
        self, service: Service, ticked: Reader, steps: Steps
    ) -> None:
        with steps.step("weir apply, until Spark's rows are answered"):
            service.apply((PARTS / "streams.yaml").read_text())
            values = ticked.wait_for_more()
        assert values[0] == 0
        assert is_contiguous(values)

    def test_network_policies_refuse_connections_of_pods_outside_the_release(
        self, service: Service, strangers: dict[str, str], steps: Steps
    ) -> None:
        head, worker = (service.pod(name)["status"]["podIP"] for name in ("head", "worker"))
        namespace = service.release.namespace
        stranger, own = strangers[namespace], (namespace, service.pod("worker")["metadata"]["name"])
        inside, outside = (namespace, STRANGER), (ELSEWHERE, STRANGER)
        # Pods without policies reach each other, and the REST service is open to its namespace.
        allowed = [(outside, stranger, 8080), (inside, head, PORT), (own, head, RAY_PORT)]
        refused = [
            (outside, head, PORT),
            *((inside, head, port) for port in (RAY_PORT, 8265, 10001)),
            (inside, worker, 8815),
            (own, stranger, 8080),
        ]
        connections = [
            Connection(
                plane=service.release.plane, caller=caller, host=host, port=port, allowed=group is allowed
            )
            for group in (allowed, refused)
            for caller, host, port in group
        ]
        with (
            steps.step("connections of other pods: allowed and refused"),
            ThreadPoolExecutor(len(connections)) as pool,
        ):
            problems = list(pool.map(Connection.problems, connections))
        assert [problem for some in problems for problem in some] == []

    def test_new_ingest_pod_continues_from_the_checkpoints(
        self, service: Service, ticked: Reader, ordered: Reader, steps: Steps
    ) -> None:
        old, before = service.uids("ingest"), len(ticked.read())
        with steps.step("delete the ingest pod, until the new pod's rows are answered"):
            service.delete_pods("ingest")
            # While Spark is not running, queries over other streams still answer.
            assert service.send("orders", range(10)) == 10
            assert ordered.wait_for_values(lambda values: len(values) == 10) == list(range(10))
            service.wait_until_ready()
            # The old pod may have sent rows that were unread until now, so the test waits for rows of the new pod.
            ticked.wait_for_more()
        assert service.uids("ingest").isdisjoint(old)
        assert is_contiguous(ticked.values)
        assert (ticked.values[0], ticked.restarts) == (0, 0)
        assert len(ticked.values) > before

    def test_killing_the_service_loses_no_row_and_no_answer(
        self, service: Service, ticked: Reader, ordered: Reader, steps: Steps
    ) -> None:
        before = service.restarts("head", "weir")
        head = service.pod("head")["metadata"]["name"]
        with steps.step("kill the container weir, until rows are answered again"):
            service.run_kubectl(
                "exec", head, "-c", "weir", "--", "sh", "-c", 'kill -9 $(pgrep -f "[w]eir up")'
            )
            service.wait_for(
                lambda: [] if service.restarts("head", "weir") > before else ["weir has not restarted"]
            )
            service.wait_until_running()
            assert service.send("orders", range(10, 20)) == 10
            assert ordered.wait_for_values(lambda values: len(values) == 20) == list(range(20))
        ticked.wait_for_more()
        assert is_contiguous(ticked.values)
        assert (ticked.values[0], ticked.restarts, ordered.restarts) == (0, 0, 0)

    def test_queries_answer_again_after_the_only_worker_pod_is_deleted(
        self, service: Service, ticked: Reader, ordered: Reader, steps: Steps
    ) -> None:
        old, last = service.uids("worker"), ticked.read()[-1]
        with steps.step("delete the only worker pod, until all queries answer again"):
            service.delete_pods("worker")
            assert service.send("orders", range(20, 30)) == 10
            ordered.wait_for_values(lambda values: values == list(range(20, 30)))
            service.wait_until_running()
            ticked.wait_for_values(lambda values: len(values) > MANY and values[0] > last - BATCH)
        assert service.uids("worker").isdisjoint(old)
        # The answers of the old pod are gone. Spark continues after the last rows that it has sent.
        assert is_contiguous(ticked.values)

    def test_class_declared_after_a_worker_is_added_runs_on_the_new_worker(
        self, service: Service, ticked: Reader, steps: Steps
    ) -> None:
        with steps.step("helm upgrade to two workers, until both have classes"):
            service.upgrade("--set", "workerGroups.default.replicas=2")
            service.wait_until_running()
            service.wait_for(lambda: [] if len(service.nodes()) == 2 else [str(service.nodes())])
            service.apply((PARTS / "second-tenant.yaml").read_text())
            service.wait_for(lambda: [] if len(service.places()) == 2 else [str(service.places())])
            places = service.places()
            assert service.send("visits", range(10)) == 10
            visited = Reader(service, "beta/visited")
            visited.wait_for_values(lambda values: values == list(range(10)))
        assert places["acme"] != places["beta"]
        ticked.wait_for_more()
        assert is_contiguous(ticked.values)

    def test_classes_of_a_lost_worker_continue_on_the_remaining_worker(
        self, service: Service, ticked: Reader, ordered: Reader, steps: Steps
    ) -> None:
        visited, last = Reader(service, "beta/visited"), ticked.read()[-1]
        assert visited.read() == list(range(10))
        places, pods = service.places(), service.pods_of_nodes()
        lost, other = places["acme"], places["beta"]
        with steps.step("delete the worker pod of a class, until its queries answer on the other worker"):
            service.run_kubectl("delete", "pod", pods[lost])
            service.wait_for(lambda: [] if service.places().get("acme") == other else [str(service.places())])
            assert service.send("orders", range(30, 40)) == 10
            ordered.wait_for_values(lambda values: values == list(range(30, 40)))
            ticked.wait_for_values(lambda values: len(values) > MANY and values[0] > last - BATCH)
        assert is_contiguous(ticked.values)
        # The class that already ran on the other worker has lost no row and no answer.
        assert service.send("visits", range(10, 20)) == 10
        assert visited.wait_for_values(lambda values: len(values) == 20) == list(range(20))
        assert visited.restarts == 0
        service.wait_until_running()

    def test_upgrade_with_a_new_ray_head_starts_everything_that_is_declared(
        self, service: Service, ticked: Reader, ordered: Reader, steps: Steps
    ) -> None:
        old, restarts, last = service.uids("head"), ordered.restarts, ticked.read()[-1]
        with steps.step("helm upgrade with a changed value, a new head pod, until all queries answer"):
            service.upgrade("--set", "api.extraEnv[0].name=CHANGED", "--set", "api.extraEnv[0].value=yes")
            service.delete_pods("head")
            service.wait_until_running()
            assert service.send("orders", range(40, 50)) == 10
            ordered.wait_for_values(lambda values: values == list(range(40, 50)))
            ticked.wait_for_values(lambda values: len(values) > MANY and values[0] > last - BATCH)
        assert service.uids("head").isdisjoint(old)
        assert service.environment("head", "weir")["CHANGED"] == "yes"
        # Windows and answers are lost, and Spark continues from its checkpoints.
        assert ordered.restarts == restarts + 1
        assert is_contiguous(ticked.values)
        run_chart_test(service, steps)

    def test_upgrade_of_the_image_starts_a_new_system(
        self, service: Service, weir_node: Node, ticked: Reader, ordered: Reader, steps: Steps
    ) -> None:
        version = weir_node.machine.run("ctr", "--namespace=k8s.io", "images", "list", "--quiet")
        (image,) = [name for name in version.split() if name.startswith("localhost/weir:")]
        weir_node.machine.run("ctr", "--namespace=k8s.io", "images", "tag", image, "localhost/weir:next")
        last = ticked.read()[-1]
        with steps.step("weir down, helm upgrade to another image, new Ray pods, until rows are answered"):
            head = service.pod("head")["metadata"]["name"]
            service.run_kubectl("exec", head, "-c", "weir", "--", "weir", "down")
            service.upgrade("--set", "image.tag=next")
            service.delete_pods("head", "worker")
            service.wait_until_running()
            assert service.send("orders", range(50, 60)) == 10
            ordered.wait_for_values(lambda values: values == list(range(50, 60)))
            ticked.wait_for_values(lambda values: len(values) > MANY and values[0] > last - BATCH)
        assert service.images("head", "worker") == {"localhost/weir:next"}
        assert is_contiguous(ticked.values)

    def test_uninstall_leaves_nothing(self, service: Service, steps: Steps) -> None:
        with steps.step("helm uninstall, until no object, process, mount or cgroup is left"):
            service.release.run_helm("uninstall", NAME, "--timeout", WITHIN)
            service.wait_for(service.left_over)


@pytest.fixture(scope="class")
def tables(weir_node: Node) -> Iterator[Redis]:
    """Store for the tables of Ray."""
    with redis(weir_node.machine) as store:
        yield store


@pytest.fixture(scope="class")
def catalog(weir_node: Node) -> Iterator[PostgreSQL]:
    """Store for the declarations."""
    with postgresql(weir_node.machine) as store:
        yield store


class TestReleaseWithStoresAndExecutors:
    @pytest.fixture(scope="class")
    @classmethod
    def options(cls, tables: Redis, catalog: PostgreSQL) -> list[str]:
        files = [str(PARTS / f"{name}-values.yaml") for name in ("stores", "executors")]
        return [option for file in files for option in ("--values", file)]

    def test_catalog_is_in_postgresql_and_not_on_a_volume(
        self, service: Service, catalog: PostgreSQL
    ) -> None:
        assert catalog.query("SELECT count(*) > 0 FROM pg_stat_user_tables") == ["t"]
        assert [volume for volume in service.pod("head")["spec"]["volumes"] if CLAIM in volume] == []

    def test_rows_arrive_from_an_executor_pod_that_belongs_to_the_ingest_pod(
        self, service: Service, steps: Steps
    ) -> None:
        with steps.step("weir apply, until rows of a Spark executor are answered"):
            service.apply((PARTS / "counts.yaml").read_text())
            values = Reader(service, "acme/counted").wait_for_more()
        assert values[0] == 0
        assert is_contiguous(values)
        owners = service.pod("executor")["metadata"]["ownerReferences"]
        assert {owner["uid"] for owner in owners} == service.uids("ingest")

    def test_upgrade_with_a_new_ray_head_loses_nothing(
        self, service: Service, ticked: Reader, ordered: Reader, steps: Steps
    ) -> None:
        service.apply((PARTS / "streams.yaml").read_text() + "---\n" + (PARTS / "windows.yaml").read_text())
        summed = Reader(service, "acme/summed")
        service.wait_until_running()
        assert service.send("orders", range(7)) == 7
        ordered.wait_for_values(lambda values: len(values) == 7)
        ticked.wait_for_more()
        workers, head = service.uids("worker"), service.uids("head")
        with steps.step("helm upgrade with Redis and PostgreSQL, a new head pod, until rows are answered"):
            service.upgrade("--set", "api.extraEnv[0].name=CHANGED", "--set", "api.extraEnv[0].value=yes")
            service.delete_pods("head")
            service.wait_until_running()
            assert service.send("orders", range(7, 10)) == 3
            ordered.wait_for_values(lambda values: values == list(range(10)))
            ticked.wait_for_more()
        assert service.uids("head").isdisjoint(head)
        assert service.environment("head", "weir")["CHANGED"] == "yes"
        assert service.uids("worker") == workers
        assert service.restarts("worker", "ray-worker") == 0
        # The window still has the two rows from before the upgrade, and gets three more.
        assert summed.wait_for_values(lambda values: len(values) == 2) == [10, 35]
        assert is_contiguous(ticked.values)
        assert (ticked.values[0], ticked.restarts, ordered.restarts) == (0, 0, 0)

    def test_uninstall_removes_the_tables_of_ray_from_redis(
        self, service: Service, tables: Redis, steps: Steps
    ) -> None:
        assert tables.keys()
        with steps.step("helm uninstall with Redis and PostgreSQL, until nothing is left"):
            service.release.run_helm("uninstall", NAME, "--timeout", WITHIN)
            service.wait_for(service.left_over)
        assert tables.keys() == []


def run_chart_test(service: Service, steps: Steps) -> None:
    with steps.step("helm test"):
        answer = service.release.run_helm("test", NAME, "--timeout", WITHIN)
    assert "Phase:          Succeeded" in answer, service.diagnosis()
