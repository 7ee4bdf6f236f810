"""Who may do what: every route of the service with every kind of key, and what a tenant learns of the others, which is nothing.

The routes are those of the service's own description. One that is new is in the matrix by itself, and fails it until a rule
says whose it is, and a body or a name how it is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from actors.gateway.streams import Streams
from actors.runtime.run_dirs import RunDirs
from configs.classes.live_class import LiveSettings
from configs.documents.declarations import StreamDeclaration, documents_of
from services.api.routes.results import results_of
from services.catalog.catalog import Catalog
from services.common.weir_home import Home
from services.ingest.flight import FlightSettings
from services.ingest.keys import new_key
from services.plan.planner import Planner
from services.results.places import LocalPlaces, endpoint_in
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
# What a name in a path stands for, by what stands before it, and what the matrix calls it with.
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
# One each is to be refused or let in; what is let in is let in with these.
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
    "postRows": [{"ts": "2026-01-01T00:00:00Z", "value": 1}],
}

# -- the rules -------------------------------------------------------------------------------------------------

IN, UNKNOWN, FORBIDDEN, NOT_THERE = "let in", 401, 403, 404
Told = str | int
WITHOUT_KEY = ("nobody", "wrong", "expired", "revoked")
# The route is called for what is acme's, or for stream ticks.
SCOPES: Mapping[str, Sequence[str]] = {
    "admin": ["admin"],
    "acme": ["tenant:acme"],
    "globex": ["tenant:globex"],
    "feeder of ticks": ["ingest:ticks"],
    "feeder of hot": ["ingest:hot"],
    "spark": ["feeds"],
}


def those(**told: Told) -> dict[str, Told]:
    """Administrators may do everything."""
    names = {"feeder_of_ticks": "feeder of ticks", "feeder_of_hot": "feeder of hot"}
    said = {names.get(who, who): one for who, one in told.items()}
    return {**dict.fromkeys(SCOPES, FORBIDDEN), **said, "admin": IN}


EVERYBODY = dict.fromkeys((*SCOPES, *WITHOUT_KEY), IN)
WHO_HAS_A_KEY = dict.fromkeys(SCOPES, IN)
ADMINISTRATORS = those()
TENANTS = those(acme=IN, globex=IN)
THE_TENANT = those(acme=IN, globex=NOT_THERE)
FEEDERS = those(feeder_of_ticks=IN)
# Also administrators see no secrets of sources.
SPARK: Mapping[str, Told] = {**dict.fromkeys(SCOPES, FORBIDDEN), "spark": IN}
READERS = those(acme=IN, globex=IN, feeder_of_ticks=IN)
# The first that fits.
RULES: Sequence[tuple[str, Mapping[str, Told]]] = (
    (r"GET /(healthz|readyz)", EVERYBODY),
    (r".* /v1/ingest(/progress)?", SPARK),
    (r".* /v1/tenants/{tenant}(/.*)?", THE_TENANT),
    (r"(PUT|DELETE) .*", ADMINISTRATORS),
    (r"GET /v1/(mirroring|feeding|(mirrors|feeds)/{name}/status)", TENANTS),
    (r".* /v1/(feeds|mirrors|session|keys|audit|system|lending)(/.*)?", ADMINISTRATORS),
    (r"GET /v1/(tenants|priority-classes)/{name}", THE_TENANT),
    (r"POST /v1/streams/{stream}/rows", FEEDERS),
    (r"GET /v1/streams/{name}", READERS),
    (r"GET /v1/(streams|caller)", WHO_HAS_A_KEY),
    (r"GET /v1/notices(/{name})?", TENANTS),
    (r"GET /v1/(tenants|priority-classes|queries|classes|ledger|history)", TENANTS),
)
# Whose query it is, the body says.
OF_ITS_BODY = r"POST /v1/(apply|plan)"


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
        return any(one["name"] == "dry_run" for one in self.operation.get("parameters", ()))

    @property
    def body(self) -> object:
        """None if it takes none."""
        return BODIES[self.operation["operationId"]] if "requestBody" in self.operation else None

    def told(self, who: str) -> Told:
        if re.fullmatch(OF_ITS_BODY, self.name):
            return THE_TENANT.get(who, UNKNOWN)
        rules = (rule for pattern, rule in RULES if re.fullmatch(pattern, self.name))
        return next(rules).get(who, UNKNOWN)

    def called(self, names: Mapping[str, str]) -> str:
        """Its path, with names in it."""

        def named(found: re.Match[str]) -> str:
            return found[0].replace(f"{{{found[1]}}}", names[found[0]])

        return re.sub(r"/[a-z-]+/{(\w+)}", named, self.path)


@dataclass
class There:
    """Two tenants that run, and everybody who calls."""

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

    def ask(self, method: str, path: str, who: str, body: object = None, **params: str) -> httpx.Response:
        """An answer that has no end is read as far as its head."""
        key = self.keys[who]
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
        who: str,
        is_dry: bool,
        names: Mapping[str, str] | None = None,
        is_forced: bool = False,
    ) -> httpx.Response:
        params = {"dry_run": "true"} if is_dry and route.has_dry_run else {}
        if is_forced and route.path.endswith("/rows"):
            # A feed brings the rows of the stream.
            params["force"] = "true"
        return self.ask(route.method, route.called(names or self.names), who, route.body, **params)

    def is_let_in(self, answer: httpx.Response) -> bool:
        # What is in use is not deleted, whoever asks.
        return answer.status_code < 400 or answer.status_code == 409

    def declared(self) -> list[Any]:
        return [(one.ref, one.version, one.declaration) for one in self.served.catalog.all()]


@pytest.fixture
def there(dirs: RunDirs, tmp_path: Path) -> Iterator[There]:
    with ExitStack() as stack:
        found = stack.enter_context(served(tmp_path / "home"))
        found.catalog.apply(documents_of(DOCUMENTS), "test")
        run(found, dirs, stack)
        http = stack.enter_context(httpx.Client(base_url=found.url, timeout=60))
        here = There(found, http, {who: found.key(*scopes) for who, scopes in SCOPES.items()})
        create, revoke = found.catalog.keys.create, found.catalog.keys.revoke
        gone, told = create("gone", ["admin"], "test")
        revoke(told.id, "test")
        with closing(Catalog(Home(tmp_path / "home"), clock=lambda: 0.0)) as long_ago:
            over, _ = long_ago.keys.create("over", ["admin"], "test", expires_at=1.0)
        _, spare = create("spare", ["admin"], "test")
        here.names["/keys/{id}"] = spare.id
        here.keys |= {"nobody": None, "wrong": new_key(), "expired": over, "revoked": gone}
        found.service.snapshot.refresh()
        yield here


def run(found: Served, dirs: RunDirs, stack: ExitStack) -> None:
    """What answers for the system, over two classes of which one lends to the other."""
    system = InProcess().declare(declared("acme", 6.0), declared("globex", 3.0))
    for _ in range(3):
        system.cycle("acme", 0.02)
        system.cycle("globex", 0.9)
    system.redistribute()
    system.now += 1
    service = found.service
    for one in found.catalog.all():
        if isinstance(one.declaration, StreamDeclaration):
            system.world.plane.declare_stream(one.declaration.declaration(one.declaration.name), system.now)
    service.watch = stack.enter_context(Watch(system))
    service.mirrors = list
    service.planner = Planner(found.catalog, LiveSettings())
    service.results = results_of(service, LocalPlaces(dirs), lambda: "")
    stack.callback(service.results.close)
    for tenant in ("acme", "globex"):
        log = ClassLog(dirs.class_log(tenant), 1 << 20)
        stack.callback(log.close)
        log.commit(5)
    streams = Streams(dirs, lambda: 1.0, bytes_max=8 << 20)
    stack.callback(streams.close)
    for one in found.catalog.all():
        if isinstance(one.declaration, StreamDeclaration):
            streams.declare(one.declaration.declaration(one.declaration.name))
    streams.keep_for("reader", ["ticks", "hot"], lossless=True)
    key = new_key()
    stack.callback(FlightSettings().with_key(key).open(streams, dirs).close)
    service.rows = RowDelivery(lambda _: endpoint_in(dirs), lambda: key)


# -- the matrix ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_route_lets_in_whom_it_is_for_and_nobody_else(there: There) -> None:
    before = there.declared()
    found: dict[tuple[str, str], Told] = {}
    expected: dict[tuple[str, str], Told] = {}
    for route in there.routes():
        for who in there.keys:
            told = route.told(who)
            # Who is refused is refused a change, not a look at what it would be.
            answer = there.call(route, who, is_dry=told == IN, is_forced=True)
            found[route.name, who] = IN if there.is_let_in(answer) else answer.status_code
            expected[route.name, who] = told
    assert {one: told for one, told in found.items() if told != expected[one]} == {}
    assert there.declared() == before


def test_what_is_anothers_answers_as_what_is_not_there(there: There) -> None:
    told: dict[tuple[str, str], list[Any]] = {}
    for route in (one for one in there.routes() if "{" in one.path):
        for who in ("globex", "feeder of hot"):
            if route.told(who) == IN:
                continue
            for names in (there.names, dict.fromkeys(there.names, NONE)):
                answer = there.call(route, who, is_dry=False, names=names)
                told.setdefault((route.name, who), []).append(anonymous(answer, names))
    assert {one: answers for one, answers in told.items() if answers[0] != answers[1]} == {}
    assert len(told) > 30


def anonymous(answer: httpx.Response, names: Mapping[str, str]) -> tuple[int, dict[str, str], str]:
    """All of the answer but the names that the caller has said itself, and when."""
    headers = {name: one for name, one in answer.headers.items() if name not in ("date", "content-length")}
    text = answer.text
    for name in sorted(set(names.values()), key=len, reverse=True):
        text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "NAME", text)
    return answer.status_code, headers, text


@pytest.mark.parametrize("path", ["/v1/apply", "/v1/plan"])
def test_documents_of_another_answer_as_of_nobody(there: There, path: str) -> None:
    told = []
    for tenant in ("acme", NONE):
        document = {**QUERY, "tenant": tenant}
        answer = there.ask("POST", path, "globex", {"documents": [document]})
        told.append(anonymous(answer, {"tenant": tenant}))
    assert told[0] == told[1]
    assert told[0][0] == NOT_THERE


def test_nobody_but_administrators_is_told_of_others_or_of_secrets(there: There) -> None:
    """Each asks for everything that it may."""
    own = {one: {"acme": "globex", "brass": "copper"}.get(name, name) for one, name in there.names.items()}
    others = {
        "globex": ("acme", "brass", "value > 17"),
        "feeder of ticks": ("acme", "globex", "brass", "copper", "hot"),
    }
    found = {}
    for who, hidden in others.items():
        for route in there.routes():
            answer = there.call(route, who, is_dry=True, names=own)
            if (
                not answer.headers["content-type"].startswith("text/event-stream")
                and answer.status_code != 403
            ):
                text = f"{answer.headers} {answer.text}"
                # What the body of these names has been said by the caller.
                said = hidden if not re.fullmatch(OF_ITS_BODY, route.name) else hidden[1:]
                found[who, route.name] = [one for one in (*said, SECRET, BROKER, "kafka") if one in text]
    assert {one: told for one, told in found.items() if told} == {}
    assert len(found) > 20


def test_feeds_and_where_they_go_are_told_with_their_secrets_to_who_brings_them(there: There) -> None:
    answer = there.ask("GET", "/v1/ingest", "spark")
    told = answer.json()
    assert told["file"] == streams_told(there)
    assert answer.text.count(SECRET) == 3
    assert answer.headers["Cache-Control"] == "no-store"
    assert told["endpoints"] == dict.fromkeys(["hot", "ticks"], "grpc://127.0.0.1:2")


def streams_told(there: There) -> object:
    file = there.served.catalog.desired().file
    assert file is not None
    return file.model_dump(mode="json", by_alias=True)


def test_sources_are_told_to_administrators_without_their_secrets(there: There) -> None:
    told = [
        there.ask("GET", path, "admin").text
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
    assert [BROKER in one for one in told] == [True] * 6 + [False] * 2
    assert SECRET not in "".join(told)


# -- what is not offered ---------------------------------------------------------------------------------------


def test_what_cannot_be_done_with_a_thing_is_told_as_a_problem(there: There) -> None:
    offered: dict[str, set[str]] = {}
    for route in there.routes():
        offered.setdefault(route.called(there.names), set()).add(route.method)
    found = {}
    for path, methods in offered.items():
        for method in {"GET", "PUT", "POST", "DELETE", "PATCH"} - methods:
            answer = there.ask(method, path, "admin")
            found[method, path] = (answer.status_code, answer.headers["content-type"], answer.json()["type"])
    problem = (405, "application/problem+json", "urn:weir:problem:method-not-allowed")
    assert {one: told for one, told in found.items() if told != problem} == {}


def test_without_a_session_the_console_has_its_sign_in_alone(there: There) -> None:
    told = {path: there.http.get(path) for path in ("/", "/console", "/console/")}
    assert {path: (one.status_code, one.headers["location"]) for path, one in told.items()} == {
        "/": (303, "/console/"),
        "/console": (303, "/console/"),
        "/console/": (303, "/console/sign-in"),
    }
    page = there.http.get("/console/sign-in")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    (assets,) = set(re.findall(r"/console/assets/\w+/", page.text))
    closed = ["/console/session", f"{assets}main.js", "/console/none", "/console/../v1/tenants"]
    assert [there.http.get(path).status_code for path in closed] == [401, 401, 404, 401]
