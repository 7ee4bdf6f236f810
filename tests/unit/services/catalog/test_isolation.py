"""Permissions: every route of the service is called with every kind of key, and a tenant learns nothing about other tenants.

The routes are read from the service's OpenAPI description. A new route is therefore tested at once, and fails until RULES says
which keys it admits. If it has a body or a new parameter, BODIES or NAMES must provide a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from actors.gateway.streams import Streams
from actors.runtime.run_dirs import RunDirs
from bench.local_places import LocalPlaces
from configs.classes.live_class import LiveSettings
from configs.documents.declarations import StreamDeclaration, documents_of
from engine.network.one_time import OneTimeAnswer
from services.api.routes.results import results_of
from services.catalog.catalog import Catalog
from services.common.weir_home import Home
from services.ingest.flight import FlightSettings
from services.ingest.keys import new_key
from services.plan.planner import Planner
from services.results.places import endpoint_in
from services.results.rows import RowDelivery
from services.watch.watch import Watch
from tests.support.answer_logs import ClassLog
from tests.support.served import Served, served
from tests.support.watched import InProcess, declared

SECRET, BROKER = "hunter2hunter2", "broker.example:9092"
DOCUMENTS = f"""
{{kind: PriorityClass, name: brass, priority: 2, delay_target_ms: 450}}
---
{{kind: PriorityClass, name: copper, priority: 2, delay_target_ms: 450}}
---
{{kind: Stream, name: ticks, columns: {{ts: timestamp, value: int64}}, time: ts, source: {{format: kafka,
 sql: "SELECT timestamp AS ts, 1 AS value FROM source", options: {{subscribe: t, kafka.bootstrap.servers: "{BROKER}", kafka.sasl.jaas.config: {SECRET}}}}}}}
---
{{kind: Stream, name: hot, columns: {{ts: timestamp, temp: float64}}, time: ts}}
---
{{kind: Feed, name: sensors, streams: {{hot: {{}}}}, source: {{format: kafka, sql: "SELECT timestamp AS ts, 1.0 AS temp FROM source",
 options: {{subscribe: t, kafka.bootstrap.servers: "{BROKER}", kafka.sasl.jaas.config: {SECRET}}}}}}}
---
{{kind: Mirror, name: prices, options: {{password: {SECRET}}}, sql: "CREATE MIRROR prices (item string, price float64) FROM HTTP
 'http://reader@{BROKER}/{{{{key}}}}' KEYS ('a') BANDWIDTH 5 PER SECOND"}}
---
{{kind: Session, conf: {{spark.hadoop.fs.s3a.secret.key: {SECRET}}}}}
---
{{kind: Tenant, name: acme, priority_class: brass}}
---
{{kind: Query, tenant: acme, name: q, sql: SELECT value FROM ticks WHERE value > 17}}
---
{{kind: Tenant, name: globex, priority_class: copper}}
---
{{kind: Notice, name: upgrade, text: Gateways are upgraded on Monday}}
---
{{kind: Query, tenant: globex, name: q, sql: SELECT value FROM ticks WHERE value > 23}}
"""
# Names that replace parameters in paths, listed by the parameter with the preceding part of the path, such as `/tenants/{name}`.
NAMES: Mapping[str, str] = {
    "/priority-classes/{name}": "brass",
    "/tenants/{name}": "acme",
    "/streams/{name}": "ticks",
    "/feeds/{name}": "sensors",
    "/mirrors/{name}": "prices",
    "/notices/{name}": "upgrade",
    "/keys/{id}": "spare",
    "/tenants/{tenant}": "acme",
    "/queries/{query}": "q",
    "/streams/{stream}": "ticks",
}
NONE = "nothing"
# Valid body of each operation that has a body, so that a call is refused only for lack of permission.
KAFKA = {"format": "kafka", "options": {"subscribe": "t", "kafka.bootstrap.servers": "b:1"}}
QUERY = {"kind": "Query", "tenant": "acme", "name": "q", "sql": "SELECT value FROM ticks WHERE value > 99"}
BODIES: Mapping[str, object] = {
    "putPriorityClass": {"priority": 3, "delay_target_ms": 450},
    "putTenant": {"priority_class": "copper"},
    "putStream": {"columns": {"ts": "timestamp", "value": "int64"}, "time": "ts"},
    "putFeed": {
        "source": {**KAFKA, "sql": "SELECT timestamp AS ts, 1.0 AS temp FROM source"},
        "streams": {"hot": {}},
    },
    "putMirror": {
        "sql": "CREATE MIRROR prices (item string, price float64) FROM HTTP 'http://x/{key}' KEYS ('b') "
        "BANDWIDTH 5 PER SECOND"
    },
    "putNotice": {"text": "Gateways are upgraded on Tuesday"},
    "putSession": {"conf": {"spark.sql.shuffle.partitions": "2"}},
    "putQuery": {"sql": QUERY["sql"]},
    "apply": {"documents": [QUERY]},
    "plan": {"documents": [QUERY]},
    "createKey": {"principal": "made", "scopes": ["ingest:hot"]},
    "tellFeedProgress": {"feeds": [{"feed": "ticks"}]},
    "ask": {"sql": "SELECT COUNT(*) AS n FROM ticks [RANGE 4 SECONDS]"},
    "postRows": [{"ts": "2026-01-01T00:00:00Z", "value": 1}],
}

# -- expected outcomes -----------------------------------------------------------------------------------------

IN, UNKNOWN, FORBIDDEN, NOT_THERE = "let in", 401, 403, 404
Outcome = str | int
WITHOUT_KEY = ("no key", "wrong", "expired", "revoked")
# Scopes of each caller's key. The routes are called for tenant acme and for stream ticks.
SCOPES: Mapping[str, Sequence[str]] = {
    "admin": ["admin"],
    "acme": ["tenant:acme"],
    "globex": ["tenant:globex"],
    "feeder of ticks": ["ingest:ticks"],
    "feeder of hot": ["ingest:hot"],
    "spark": ["feeds"],
}


def outcomes(**admitted: Outcome) -> dict[str, Outcome]:
    """Return the expected outcome for each caller. Callers that are not named are forbidden, and administrators are allowed."""
    names = {"feeder_of_ticks": "feeder of ticks", "feeder_of_hot": "feeder of hot"}
    named = {names.get(caller, caller): outcome for caller, outcome in admitted.items()}
    return {**dict.fromkeys(SCOPES, FORBIDDEN), **named, "admin": IN}


EVERY_CALLER = dict.fromkeys((*SCOPES, *WITHOUT_KEY), IN)
EVERY_KEY = dict.fromkeys(SCOPES, IN)
ADMINISTRATORS = outcomes()
TENANTS = outcomes(acme=IN, globex=IN)
THE_TENANT = outcomes(acme=IN, globex=NOT_THERE)
FEEDERS = outcomes(feeder_of_ticks=IN)
# Routes for Spark show secrets of sources, so they refuse even administrators.
SPARK: Mapping[str, Outcome] = {**dict.fromkeys(SCOPES, FORBIDDEN), "spark": IN}
READERS = outcomes(acme=IN, globex=IN, feeder_of_ticks=IN)
# Outcome per caller, by route. The first pattern that matches the route counts.
RULES: Sequence[tuple[str, Mapping[str, Outcome]]] = (
    (r"GET /(healthz|readyz)", EVERY_CALLER),
    (r".* /v1/ingest(/progress)?", SPARK),
    (r".* /v1/tenants/{tenant}(/.*)?", THE_TENANT),
    (r"(PUT|DELETE) .*", ADMINISTRATORS),
    (r"GET /v1/(mirroring|feeding|(mirrors|feeds)/{name}/status)", TENANTS),
    (r".* /v1/(feeds|mirrors|session|keys|audit|system|lending)(/.*)?", ADMINISTRATORS),
    (r"GET /v1/(tenants|priority-classes)/{name}", THE_TENANT),
    (r"POST /v1/streams/{stream}/rows", FEEDERS),
    (r"GET /v1/streams/{name}", READERS),
    (r"GET /v1/(streams|caller)", EVERY_KEY),
    (r"GET /v1/notices(/{name})?", TENANTS),
    (r"GET /v1/(tenants|priority-classes|queries|classes|ledger|history)", TENANTS),
)
# Routes that take the tenant's name from the body of the request instead of from the path.
TENANT_IN_BODY = r"POST /v1/(apply|plan)"


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    operation: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def has_dry_run(self) -> bool:
        return any(parameter["name"] == "dry_run" for parameter in self.operation.get("parameters", ()))

    @property
    def body(self) -> object:
        """Valid request body, or None if the route has no body."""
        return BODIES[self.operation["operationId"]] if "requestBody" in self.operation else None

    def expected(self, caller: str) -> Outcome:
        if re.fullmatch(TENANT_IN_BODY, self.name):
            return THE_TENANT.get(caller, UNKNOWN)
        rules = (rule for pattern, rule in RULES if re.fullmatch(pattern, self.name))
        return next(rules).get(caller, UNKNOWN)

    def called(self, names: Mapping[str, str]) -> str:
        """Return the route's path with its parameters replaced by names."""

        def named(found: re.Match[str]) -> str:
            return found[0].replace(f"{{{found[1]}}}", names[found[0]])

        return re.sub(r"/[a-z-]+/{(\w+)}", named, self.path)


@dataclass
class Callers:
    """Served system with two running tenants, and a caller for each kind of key."""

    served: Served
    http: httpx.Client
    keys: dict[str, str | None] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=lambda: dict(NAMES))

    def routes(self) -> list[Route]:
        paths = self.ask("GET", "/openapi.json", "admin").json()["paths"]
        return [
            Route(method.upper(), path, operation)
            for path, methods in paths.items()
            for method, operation in methods.items()
        ]

    def ask(self, method: str, path: str, caller: str, body: object = None, **params: str) -> httpx.Response:
        """Send a request and return the response; of an event stream, read only the headers."""
        key = self.keys[caller]
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        if body is not None:
            return self.http.request(method, path, params=params, headers=headers, json=body)
        with self.http.stream(method, path, params=params, headers=headers) as answer:
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                answer.read()
            return answer

    def call(
        self,
        route: Route,
        caller: str,
        is_dry: bool,
        names: Mapping[str, str] | None = None,
        is_forced: bool = False,
    ) -> httpx.Response:
        params = {"dry_run": "true"} if is_dry and route.has_dry_run else {}
        if is_forced and route.path.endswith("/rows"):
            # The stream has a feed, so it accepts other rows only with `force`.
            params["force"] = "true"
        return self.ask(route.method, route.called(names or self.names), caller, route.body, **params)

    def is_let_in(self, answer: httpx.Response) -> bool:
        # Status 409 means that a declaration in use is not deleted, though the caller may delete it.
        return answer.status_code < 400 or answer.status_code == 409

    def declared(self) -> list[Any]:
        return [(item.ref, item.version, item.declaration) for item in self.served.catalog.all()]


@pytest.fixture
def callers(dirs: RunDirs, tmp_path: Path) -> Iterator[Callers]:
    with ExitStack() as stack:
        found = stack.enter_context(served(tmp_path / "home"))
        found.catalog.apply(documents_of(DOCUMENTS), "test")
        run(found, dirs, stack)
        http = stack.enter_context(httpx.Client(base_url=found.url, timeout=60))
        here = Callers(found, http, {caller: found.key(*scopes) for caller, scopes in SCOPES.items()})
        create, revoke = found.catalog.keys.create, found.catalog.keys.revoke
        revoked, info = create("gone", ["admin"], "test")
        revoke(info.id, "test")
        with closing(Catalog(Home(tmp_path / "home"), clock=lambda: 0.0)) as long_ago:
            expired, _ = long_ago.keys.create("over", ["admin"], "test", expires_at=1.0)
        _, spare = create("spare", ["admin"], "test")
        here.names["/keys/{id}"] = spare.id
        here.keys |= {"no key": None, "wrong": new_key(), "expired": expired, "revoked": revoked}
        found.service.snapshot.refresh()
        yield here


def answered_once(unit: str, _: str) -> dict[str, OneTimeAnswer]:
    return {unit: OneTimeAnswer(pa.record_batch({"n": [5]}), (("n", "int64"),), "ticks", 4_000_000)}


def run(found: Served, dirs: RunDirs, stack: ExitStack) -> None:
    """Connect the service to a system in this process, with two classes of which one lends to the other."""
    system = InProcess().declare(declared("acme", 6.0), declared("globex", 3.0))
    for _ in range(3):
        system.cycle("acme", 0.02)
        system.cycle("globex", 0.9)
    system.redistribute()
    system.now += 1
    service = found.service
    for item in found.catalog.all():
        if isinstance(stream := item.declaration, StreamDeclaration):
            system.world.plane.declare_stream(stream.declaration(stream.name), system.now)
    service.watch = stack.enter_context(Watch(system))
    service.mirrors = list
    service.planner = Planner(found.catalog, LiveSettings())
    service.results = results_of(service, LocalPlaces(dirs), lambda: "")
    stack.callback(service.results.close)
    for tenant in ("acme", "globex"):
        system.answers_once[tenant] = partial(answered_once, tenant)
        log = ClassLog(dirs.class_log(tenant), 1 << 20)
        stack.callback(log.close)
        log.commit(5)
    streams = Streams(dirs, lambda: 1.0, bytes_max=8 << 20)
    stack.callback(streams.close)
    for item in found.catalog.all():
        if isinstance(stream := item.declaration, StreamDeclaration):
            streams.declare(stream.declaration(stream.name))
    streams.keep_for("reader", ["ticks", "hot"], lossless=True)
    key = new_key()
    stack.callback(FlightSettings().with_key(key).open(streams, dirs).close)
    service.rows = RowDelivery(lambda _: endpoint_in(dirs), lambda: key)


# -- every route with every key --------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_route_admits_exactly_the_permitted_keys(callers: Callers) -> None:
    before = callers.declared()
    found: dict[tuple[str, str], Outcome] = {}
    expected: dict[tuple[str, str], Outcome] = {}
    for route in callers.routes():
        for caller in callers.keys:
            outcome = route.expected(caller)
            # A caller that must be refused requests a real change. An allowed caller requests a dry run, so that nothing changes.
            answer = callers.call(route, caller, is_dry=outcome == IN, is_forced=True)
            found[route.name, caller] = IN if callers.is_let_in(answer) else answer.status_code
            expected[route.name, caller] = outcome
    assert {call: outcome for call, outcome in found.items() if outcome != expected[call]} == {}
    assert callers.declared() == before


def test_declarations_of_another_tenant_answer_like_missing_declarations(callers: Callers) -> None:
    responses: dict[tuple[str, str], list[Any]] = {}
    for route in (route for route in callers.routes() if "{" in route.path):
        for caller in ("globex", "feeder of hot"):
            if route.expected(caller) == IN:
                continue
            for names in (callers.names, dict.fromkeys(callers.names, NONE)):
                answer = callers.call(route, caller, is_dry=False, names=names)
                responses.setdefault((route.name, caller), []).append(anonymous(answer, names))
    assert {call: answers for call, answers in responses.items() if answers[0] != answers[1]} == {}
    assert len(responses) > 30


def anonymous(answer: httpx.Response, names: Mapping[str, str]) -> tuple[int, dict[str, str], str]:
    """Return status, headers and text of a response, without the date, and with NAME in place of each name that the caller sent."""
    headers = {
        name: value for name, value in answer.headers.items() if name not in ("date", "content-length")
    }
    text = answer.text
    for name in sorted(set(names.values()), key=len, reverse=True):
        text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "NAME", text)
    return answer.status_code, headers, text


@pytest.mark.parametrize("path", ["/v1/apply", "/v1/plan"])
def test_documents_of_another_tenant_answer_like_documents_of_a_missing_tenant(
    callers: Callers, path: str
) -> None:
    responses = []
    for tenant in ("acme", NONE):
        document = {**QUERY, "tenant": tenant}
        answer = callers.ask("POST", path, "globex", {"documents": [document]})
        responses.append(anonymous(answer, {"tenant": tenant}))
    assert responses[0] == responses[1]
    assert responses[0][0] == NOT_THERE


def test_tenants_and_feeders_see_no_other_tenants_and_no_secrets(callers: Callers) -> None:
    """Each caller calls every route, and no response may contain texts that are hidden from the caller."""
    own = {
        path: {"acme": "globex", "brass": "copper"}.get(name, name) for path, name in callers.names.items()
    }
    others = {
        "globex": ("acme", "brass", "value > 17"),
        "feeder of ticks": ("acme", "globex", "brass", "copper", "hot"),
    }
    found = {}
    for caller, hidden in others.items():
        for route in callers.routes():
            answer = callers.call(route, caller, is_dry=True, names=own)
            if (
                not answer.headers["content-type"].startswith("text/event-stream")
                and answer.status_code != 403
            ):
                text = f"{answer.headers} {answer.text}"
                # The caller named the first tenant in the body, so the response may repeat that name.
                texts = hidden if not re.fullmatch(TENANT_IN_BODY, route.name) else hidden[1:]
                found[caller, route.name] = [
                    shown for shown in (*texts, SECRET, BROKER, "kafka") if shown in text
                ]
    assert {call: shown for call, shown in found.items() if shown} == {}
    assert len(found) > 20


def test_key_with_scope_feeds_reads_sources_with_their_secrets(callers: Callers) -> None:
    answer = callers.ask("GET", "/v1/ingest", "spark")
    ingest = answer.json()
    assert ingest["file"] == declared_streams(callers)
    assert answer.text.count(SECRET) == 3
    assert answer.headers["Cache-Control"] == "no-store"
    assert ingest["endpoints"] == dict.fromkeys(["hot", "ticks"], "grpc://127.0.0.1:2")


def declared_streams(callers: Callers) -> object:
    file = callers.served.catalog.desired().file
    assert file is not None
    return file.model_dump(mode="json", by_alias=True)


def test_administrators_read_sources_without_their_secrets(callers: Callers) -> None:
    texts = [
        callers.ask("GET", path, "admin").text
        for path in (
            "/v1/streams",
            "/v1/streams/ticks",
            "/v1/feeds",
            "/v1/feeds/sensors",
            "/v1/mirrors",
            "/v1/mirrors/prices",
            "/v1/session",
            "/v1/audit",
        )
    ]
    assert [BROKER in text for text in texts] == [True] * 6 + [False] * 2
    assert SECRET not in "".join(texts)


# -- methods and pages that do not exist -----------------------------------------------------------------------


def test_unsupported_methods_answer_with_a_problem(callers: Callers) -> None:
    offered: dict[str, set[str]] = {}
    for route in callers.routes():
        offered.setdefault(route.called(callers.names), set()).add(route.method)
    found = {}
    for path, methods in offered.items():
        for method in {"GET", "PUT", "POST", "DELETE", "PATCH"} - methods:
            answer = callers.ask(method, path, "admin")
            found[method, path] = (answer.status_code, answer.headers["content-type"], answer.json()["type"])
    problem = (405, "application/problem+json", "urn:weir:problem:method-not-allowed")
    assert {call: answer for call, answer in found.items() if answer != problem} == {}


def test_console_without_a_session_shows_only_the_sign_in_page(callers: Callers) -> None:
    pages = {path: callers.http.get(path) for path in ("/", "/console", "/console/")}
    assert {path: (page.status_code, page.headers["location"]) for path, page in pages.items()} == {
        "/": (303, "/console/"),
        "/console": (303, "/console/"),
        "/console/": (303, "/console/sign-in"),
    }
    page = callers.http.get("/console/sign-in")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    (assets,) = set(re.findall(r"/console/assets/\w+/", page.text))
    closed = ["/console/session", f"{assets}main.js", "/console/none", "/console/../v1/tenants"]
    assert [callers.http.get(path).status_code for path in closed] == [401, 401, 404, 401]
