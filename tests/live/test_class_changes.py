"""Declarations of classes change through the service's API while the classes run on Ray and processes are killed.

The events are those of `tests/support/changes.py`. `tests/property/test_class_changes.py` runs many more sequences of them, without
processes.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import ray

from actors.runtime.names import find, gateway_name, host_name
from actors.runtime.run_dirs import RunDirs, shared_memory
from actors.system import System, start
from bench.local_places import LocalPlaces
from configs.classes.live_class import LiveSettings
from configs.documents.declarations import Declaration, QueryDeclaration, Ref, as_document
from configs.errors import InvalidInput
from services.api.routes.results import results_of
from services.catalog.reconcile import Reconciling, steps
from services.cli.upkeep.machine import SystemMachine
from services.ingest.flight import FlightSettings
from services.mirror.mirror_threads import Mirrors
from services.results.places import endpoint_in
from services.results.rows import RowDelivery
from tests.live.runs import kill
from tests.live.test_catalog import up
from tests.support.changes import Course, Key, Row
from tests.support.served import Served, served
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

# With this seed two hosts and the gateway are killed, and a stream is dropped and declared again.
SEED = 2
EVENTS = 14
HUNG_S = 60.0
PATHS = {"PriorityClass": "priority-classes", "Tenant": "tenants", "Stream": "streams"}
NOT_YET = 503
# Key of probe rows, which no filter drops.
PROBE_KEY = 9
DOCUMENTS = """
{kind: Stream, name: a, columns: {ts: timestamp, v: float64}, time: ts}
---
{kind: Stream, name: b, columns: {ts: timestamp, v: float64}, time: ts}
---
{kind: Tenant, name: t, priority_class: gold}
---
{kind: Query, tenant: t, name: qa, sql: "SELECT v FROM a"}
---
{kind: Query, tenant: t, name: qb, sql: "SELECT v FROM b"}
"""


class Api:
    """Client of the service with a key that permits every call."""

    def __init__(self, url: str, key: str) -> None:
        self._http = httpx.Client(base_url=f"{url}/v1", timeout=HUNG_S)
        self._http.headers["Authorization"] = f"Bearer {key}"

    def close(self) -> None:
        self._http.close()

    def call(self, method: str, path: str, **more: Any) -> Any:
        """Send a request and return the response; raise InvalidInput for a refusal, ValueError if the service is not ready yet."""
        answer = self._http.request(method, path, **more)
        if answer.status_code == NOT_YET:
            raise ValueError(answer.text)
        if answer.is_error:
            problem = answer.json()
            raise InvalidInput(problem["title"], problem.get("field") or "", hint=answer.text)
        return answer.json() if answer.content else None

    def results(self, tenant: str, query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call(
            "GET", f"/tenants/{tenant}/queries/{query}/results?limit=1000"
        )["rows"]
        return found


def test_queries_of_a_class_continue_when_the_last_query_on_one_of_its_streams_is_deleted(
    tmp_path: Path,
) -> None:
    (tmp_path / "d.yaml").write_text(DOCUMENTS, encoding="utf-8")
    with up(tmp_path, "-f", "d.yaml") as running:
        status = running.until(lambda status: bool(status["classes"]) and "api" in status)
        api = Api(status["api"], Path(status["admin_key"]).read_text(encoding="utf-8").strip())

        def put(stream: str, number: int) -> bool:
            at = f"2026-01-01T00:00:{number:02d}Z"
            return bool(
                api.call("POST", f"/streams/{stream}/rows", json=[{"ts": at, "v": number}])["accepted"]
            )

        def answered(query: str) -> list[float]:
            return [row["v"] for row in api.results("t", query)]

        numbers = iter(range(1, 60))
        for stream in ("a", "b"):
            eventually(lambda: put(stream, next(numbers)) and answered(f"q{stream}"), stream)  # noqa: B023
        before = answered("qa")
        api.call("DELETE", "/tenants/t/queries/qb")
        eventually(
            lambda: put("a", next(numbers)) and len(answered("qa")) >= len(before) + 2, "an answer of qa"
        )
        assert answered("qa")[: len(before)] == before
        assert api.call("GET", "/system")["problems"] == []
        api.close()


@dataclass
class RunningService:
    """System on this machine, with its service."""

    system: System
    served: Served
    reconciling: Reconciling
    machine: SystemMachine
    api: Api
    node: str
    pages: dict[Key, list[list[tuple[int, ...]]]] = field(default_factory=lambda: defaultdict(list))
    """Rows read of each query; a new list begins when the numbering of its answers restarts."""
    is_unsure: bool = True
    """True because gateways are killed, and `look` does not wait until they expect their readers again."""

    def apply(self, *declarations: Declaration) -> None:
        for item in declarations:
            path = f"/{PATHS.get(item.kind)}/{item.name}"
            if isinstance(item, QueryDeclaration):
                path = f"/tenants/{item.tenant}/queries/{item.name}"
            document = {
                key: value
                for key, value in as_document(item).items()
                if key not in ("kind", "name", "tenant")
            }
            self.api.call("PUT", path, json=document)

    def delete(self, ref: Ref) -> None:
        self._collect()
        tenant = f"/tenants/{ref.tenant}/queries/{ref.name}"
        self.api.call("DELETE", tenant if ref.tenant else f"/{PATHS[ref.kind]}/{ref.name}")

    def break_a_query(self, tenant: str) -> bool:
        return False

    def look(self) -> None:
        self._collect()
        catalog = self.served.catalog
        eventually(
            lambda: not steps(catalog.desired(), self.machine.running()) and not self.reconciling.problems,
            f"what is declared; problems: {self.reconciling.problems}",
        )

    def publish(self, stream: str, rows: Sequence[Row], variant: int) -> None:
        body = [
            {"ts": row.ts, "k": row.k, "v": row.number} | ({"x": 0.5} if variant == 1 else {}) for row in rows
        ]
        answer = eventually(lambda: self.api.call("POST", f"/streams/{stream}/rows", json=body), "the rows")
        assert answer["accepted"] == len(rows), answer

    def settle(self) -> None:
        """Do nothing, because `LiveCourse` itself waits for each change to take effect."""

    def disturb(self, what: str, chance: random.Random) -> None:
        units = self.system.status().system.units
        match what:
            case "kill" if units:
                kill(host_name(chance.choice(sorted({unit.host for unit in units.values()}))))
            case "gateway":
                kill(gateway_name(self.node))

    def answers(self) -> Mapping[Key, Sequence[tuple[int, ...]]]:
        self._collect()
        return {key: [row for page in pages for row in page] for key, pages in self.pages.items()}

    def runs(self, tenant: str) -> set[str]:
        """Return the queries that the tenant's class runs now."""
        lines = ray.get(self.system.coordinator.plan.remote(tenant), timeout=HUNG_S)
        return {query for line in lines for query in line.outputs}

    def status(self, tenant: str) -> Any:
        """Return the status of the tenant's hosts, to be shown when a test fails."""
        units = self.system.status().system.units
        hosts = {unit.host for unit in units.values() if unit.class_name == tenant}
        return ray.get([find(host_name(host)).status.remote() for host in hosts], timeout=HUNG_S)

    def _collect(self) -> None:
        for item in self.served.catalog.all("Query"):
            key = item.ref.tenant, item.ref.name
            page: list[tuple[int, ...]] = eventually(lambda: (self._page(key),), "answers")[0]  # noqa: B023
            pages = self.pages[key]
            if pages and page[: len(pages[-1])] == pages[-1]:
                pages[-1] = page
            elif page:
                pages.append(page)

    def _page(self, key: Key) -> list[tuple[int, ...]]:
        rows = self.api.results(*key)
        names = ("wend", "n", "t", "v")
        return [tuple(int(row[name]) for name in names if name in row) for row in rows]


class LiveCourse(Course):
    """Sequence of random events in which each event waits until the system runs what is declared."""

    there: RunningService

    def _settle(self) -> None:
        tenants = {tenant for tenant, _ in self.queries}
        self._look()
        for tenant in tenants:
            wanted = {query for other, query in self.queries if other == tenant}
            eventually(lambda: self._runs(tenant, wanted), f"the queries of {tenant}")  # noqa: B023
        first = self.numbers + 1

        def has_begun() -> bool:
            """Return True once every new query answers rows that are published now."""
            self._probe()
            found = self.there.answers()
            return all(
                any(row[-1] >= first for row in found.get(key, ()))
                for key, query in self.model.running.items()
                if query.unsure and query.query.kind != "window"
            )

        eventually(has_begun, "answers of new queries")
        eventually(self._is_answered, "answers")
        super()._settle()

    def _runs(self, tenant: str, wanted: set[str]) -> bool:
        found = self.there.runs(tenant)
        if found != wanted:
            # The caller ignores the error and tries again.
            raise ValueError(f"{found} where {wanted} are declared; {self.there.status(tenant)}")
        return True

    def _is_answered(self) -> bool:
        try:
            self.model.check(self.there.answers())
        except AssertionError as problem:
            # The caller ignores the error and tries again.
            raise ValueError(problem.args) from None
        return True

    def _probe(self) -> None:
        for name, variant in self.model.streams.items():
            rows = []
            for _ in range(3):
                self.numbers, self.clock = self.numbers + 1, self.clock + 1
                self.clock += self.clock % 1000 == 0
                rows.append(Row(self.numbers, self.clock, PROBE_KEY))
            self.there.publish(name, rows, variant)
            self.model.publish(name, rows)


@contextmanager
def running_service(folder: Path) -> Iterator[RunningService]:
    settings = LiveSettings(idle_after_s=None, classes_per_host=2)
    with (
        start(settings, [], pinned=False, endpoint=FlightSettings()) as system,
        served(folder) as found,
    ):
        (node,) = system.status().system.nodes
        dirs = RunDirs(shared_memory(), system.name, node)
        found.service.results = results_of(found.service, LocalPlaces(dirs), lambda: "")
        found.service.rows = RowDelivery(lambda _: endpoint_in(dirs), lambda: system.ingest_key)
        machine = SystemMachine(system, system.ingest_key, Mirrors(cast(Any, None)))
        api = Api(found.url, found.key("admin"))
        with Reconciling(found.catalog, machine, look_s=0.1) as reconciling:
            yield RunningService(system, found, reconciling, machine, api, node)
        api.close()


def test_each_answer_comes_once_although_queries_change_and_processes_are_killed(tmp_path: Path) -> None:
    with running_service(tmp_path) as running:
        course = LiveCourse(random.Random(SEED), running, ("kill", "kill", "gateway"))
        try:
            course.run(EVENTS)
        finally:
            print(*course.story, sep="\n")
