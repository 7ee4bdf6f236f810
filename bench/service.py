"""Cost of the service: reading small resources, listing all tenants and queries, changing a query, and starting.

The service runs in another process, and only that process's processor time counts. Callers keep their connections open.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from bench.measure import TRIES, Figure
from configs.documents.declarations import (
    Document,
    QueryDeclaration,
    StreamDeclaration,
    TenantDeclaration,
)
from configs.service.service_settings import ServiceSettings
from services.api.server import Serving
from services.api.service import service_of
from services.catalog.catalog import Catalog, opened
from services.common.weir_home import Home

TENANTS, QUERIES = 1000, 5
READERS, READS = 16, 3000
LISTS, CHANGES = 10, 50
USED, END = "used", "end"


def figures() -> list[Figure]:
    with served() as there:
        reads_s = best(there, lambda _: small_reads(), READERS) / READS
        lists = ("/v1/tenants?limit=10000", "/v1/queries?limit=10000")
        lists_s = best(there, lambda _: [("GET", path, "") for path in lists] * LISTS) / LISTS
        change_s = best(there, changes) / CHANGES
    everything = f"{TENANTS:,} tenants with {QUERIES} queries each"
    return [
        Figure("reads of small resources by REST per processor-second", 1 / reads_s, "/s", least=2000.0),
        Figure(f"lists of {everything}, by REST", 1e3 * lists_s, "ms", limit=200.0),
        Figure(f"a change of one query by REST, among {everything}", 1e3 * change_s, "ms", limit=15.0),
        Figure("`weir up` to ready, by the clock", ready_s(), "s", limit=20.0),
    ]


Request = tuple[str, str, str]
"""Request: method, path and body."""


def small_reads() -> list[Request]:
    paths = ("/v1/tenants/t{}", "/v1/tenants/t{}/queries/q3", "/v1/streams/s", "/v1/priority-classes/gold")
    return [("GET", paths[place % len(paths)].format(place % TENANTS), "") for place in range(READS)]


def changes(attempt: int) -> list[Request]:
    sql = f"SELECT * FROM s WHERE v < {attempt}"
    return [("PUT", f"/v1/tenants/t{place}/queries/q0", f'{{"sql": "{sql}"}}') for place in range(CHANGES)]


UP = (
    sys.executable,
    "-c",
    "from services.cli.main import main; main()",
    "up",
    "-o",
    "json",
    "--api-port",
    "0",
)


def ready_s() -> float:
    """Return the seconds until `weir up` with one tenant and one query is ready."""
    with TemporaryDirectory() as folder:
        with opened(Home(Path(folder))) as catalog:
            catalog.apply(documents(1, 1), "bench")
        environ = {**os.environ, "WEIR_HOME": folder}
        began = time.monotonic()
        with subprocess.Popen(UP, env=environ, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            # `weir up` prints its first line when the system is ready.
            assert "api" in process.stdout.readline()
            took_s = time.monotonic() - began
            process.send_signal(signal.SIGTERM)
            process.communicate()
    return took_s


@dataclass(frozen=True)
class There:
    """Address of the service, a key for it, and the connection to its process."""

    host: str
    port: int
    key: str
    process: Connection

    def used_s(self) -> float:
        """Return the processor-seconds that the service's process has used."""
        self.process.send(USED)
        used: float = self.process.recv()
        return used


def best(there: There, requests: Callable[[int], Sequence[Request]], readers: int = 1) -> float:
    """Send all requests in each of several tries, and return the service's processor-seconds in the cheapest try."""
    found = []
    for attempt in range(TRIES):
        before = there.used_s()
        asyncio.run(called(there, requests(attempt), readers))
        found.append(there.used_s() - before)
    return min(found)


async def called(there: There, requests: Sequence[Request], readers: int) -> None:
    await asyncio.gather(*(one_after_another(there, requests[first::readers]) for first in range(readers)))


async def one_after_another(there: There, requests: Sequence[Request]) -> None:
    """Send requests one after another over one connection."""
    reader, writer = await asyncio.open_connection(there.host, there.port)
    told = f"Host: weir\r\nAuthorization: Bearer {there.key}\r\nContent-Type: application/json\r\n"
    for method, path, body in requests:
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        writer.write(f"{method} {path} HTTP/1.1\r\n{told}{length}\r\n{body}".encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 2"), answer
        await reader.readexactly(int(answer.lower().partition(b"content-length: ")[2].split(b"\r", 1)[0]))
    writer.close()
    await writer.wait_closed()


@contextmanager
def served() -> Iterator[There]:
    """Run a service with a full catalog in another process while this context lasts."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with TemporaryDirectory() as folder:
        process = context.Process(target=serve, args=(folder, theirs), daemon=True)
        process.start()
        try:
            url, key = ours.recv()
            where = urlsplit(url)
            assert where.hostname is not None
            assert where.port is not None
            yield There(where.hostname, where.port, key, ours)
        finally:
            ours.send(END)
            process.join()


def serve(folder: str, pipe: Connection) -> None:
    """Run the service in this process: send its address, then its processor time on request, until END is received."""
    catalog = Catalog(Home(Path(folder)))
    catalog.apply(documents(), "bench")
    key, _ = catalog.keys.create("bench", ["admin"], "bench")
    settings = ServiceSettings(port=0, requests_per_s=1e6, requests_burst=1_000_000)
    with Serving(service_of(catalog, settings)) as serving:
        pipe.send((serving.url, key))
        while pipe.recv() == USED:
            pipe.send(time.process_time())
    catalog.close()


def documents(tenant_count: int = TENANTS, query_count: int = QUERIES) -> list[Document]:
    """Return all declared documents: a stream, tenants and their queries."""
    stream = StreamDeclaration(kind="Stream", name="s", columns={"ts": "timestamp", "v": "int64"}, time="ts")
    tenants = [
        TenantDeclaration(kind="Tenant", name=f"t{number}", priority_class="gold")
        for number in range(tenant_count)
    ]
    queries = [
        QueryDeclaration(
            kind="Query", tenant=one.name, name=f"q{place}", sql=f"SELECT * FROM s WHERE v > {place}"
        )
        for one in tenants
        for place in range(query_count)
    ]
    return [Document(stream), *map(Document, tenants), *map(Document, queries)]
