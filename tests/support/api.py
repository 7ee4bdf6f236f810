"""Service in the process of the tests, with its own catalog and with callers that have API keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from configs.documents.declarations import documents_of
from configs.service.service_settings import ServiceSettings
from services.api.app import make_app
from services.api.service import Service, service_of
from services.catalog.catalog import Catalog
from services.common.weir_home import Home

DOCUMENTS = """
{kind: Stream, name: ticks, columns: {ts: timestamp, value: int64}, time: ts,
 source: {format: rate, options: {rowsPerSecond: 10}, sql: "SELECT timestamp AS ts, value FROM source"}}
---
{kind: Stream, name: hot, columns: {ts: timestamp, temp: float64}, time: ts}
---
{kind: Feed, name: sensors, source: {format: kafka, sql: "SELECT timestamp AS ts, 1.0 AS temp FROM source", options:
 {subscribe: t, kafka.bootstrap.servers: "broker:9092", kafka.sasl.jaas.config: hunter2hunter2}}, streams: {hot: {}}}
---
{kind: Session, conf: {spark.hadoop.fs.s3a.secret.key: hunter2hunter2}}
---
{kind: Tenant, name: acme, priority_class: gold}
---
{kind: Query, tenant: acme, name: odd, sql: SELECT * FROM ticks WHERE value % 2 = 1}
---
{kind: Tenant, name: other, priority_class: silver}
---
{kind: Query, tenant: other, name: all, sql: SELECT * FROM hot}
"""
SCOPES: Mapping[str, Sequence[str]] = {
    "admin": ["admin"],
    "acme": ["tenant:acme"],
    "feeder": ["ingest:ticks"],
}


class Api:
    """Client of the service. Each request uses the key of one of the callers."""

    def __init__(self, service: Service, client: httpx.AsyncClient, runner: asyncio.Runner) -> None:
        self.service, self._client, self._runner = service, client, runner
        create = service.catalog.keys.create
        self.keys = {who: create(who, scopes, "test")[0] for who, scopes in SCOPES.items()}
        service.snapshot.refresh()

    def __call__(
        self, method: str, path: str, body: object = None, who: str | None = "admin", **more: Any
    ) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.keys[who]}"} if who is not None else {}
        headers |= more.pop("headers", {})
        if body is not None:
            more["json"] = body
        return self._runner.run(self._client.request(method, path, headers=headers, **more))

    def declared(self) -> list[Any]:
        """Return all declarations with their versions."""
        return [(one.ref, one.version, one.declaration) for one in self.service.catalog.all()]


@contextmanager
def api_over(home: Home, documents: str = DOCUMENTS, **settings: Any) -> Iterator[Api]:
    catalog = Catalog(home)
    if documents:
        catalog.apply(documents_of(documents), "test")
    service = service_of(catalog, ServiceSettings.model_validate(settings))
    try:
        # Exceptions in the application become responses instead of test failures, as in a real server.
        transport = httpx.ASGITransport(make_app(service), raise_app_exceptions=False)
        client = httpx.AsyncClient(transport=transport, base_url="http://weir")
        with asyncio.Runner() as runner:
            yield Api(service, client, runner)
    finally:
        service.snapshot.stop()
        catalog.close()
