"""An HTTP store of objects on a free port of this machine, with ETags and many kinds of failure."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from gzip import compress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar


@dataclass
class Store:
    """Objects of the server, which a test may change while the server runs."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    etags: bool = True
    modified: datetime | None = None
    """Last-Modified of all objects. Without ETags, a request that sends this time gets 304 Not Modified."""
    salt: str = ""
    """Part of all ETags; another salt changes the ETags of unchanged objects."""
    credentials: str = ""
    """Required credentials, as USER:PASSWORD."""
    elsewhere: str = ""
    shown: Counter[str] = field(default_factory=Counter)
    """Number of requests per Authorization header."""
    asked: Counter[str] = field(default_factory=Counter)
    answered: Counter[int] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""
    over: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    """Handler of requests: /items/KEY is an object, /items is the list of keys, and some keys cause failures."""

    store: ClassVar[Store]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        key = self.path.removeprefix("/items").strip("/")
        with self.store.lock:
            self.store.asked[key] += 1
            self.store.shown[self.headers.get("Authorization", "")] += 1
            found = dict(self.store.objects.get(key, {}))
            keys = list(self.store.objects)
        wanted = f"Basic {b64encode(self.store.credentials.encode()).decode()}"
        match key:
            case _ if self.store.credentials and self.headers.get("Authorization") != wanted:
                self._answer(401, b"")
            case "":
                self._answer(200, json.dumps(keys).encode())
            case "broken":
                self._answer(500, b"no")
            case "loop":
                self._answer(302, b"", {"Location": "/items/loop"})
            case "moved":
                self._answer(301, b"", {"Location": "/items/a"})
            case "elsewhere":
                self._answer(302, b"", {"Location": self.store.elsewhere})
            case "never":
                self._answer(304, b"")
            case "garbage":
                self._answer(200, b"<html>")
            case "list":
                self._answer(200, b"[1]")
            case "large":
                self._answer(200, b'"' + b"x" * (1 << 21) + b'"')
            case "error":
                self._answer(500, b"x" * (1 << 21))
            case "drip" | "slow":
                self._drip(key == "drip")
            case "flood":
                self._answer(302, b"x" * (1 << 22), {"Location": "/items/a"})
            case "packed":
                self._answer(200, compress(b'{"price": 3}'), {"Content-Encoding": "gzip"})
            case "bomb":
                self._answer(200, compress(b" " * (1 << 24)), {"Content-Encoding": "gzip"})
            case "text":
                self._answer(200, b'{"price": "much"}')
            case _ if not found:
                self._answer(404, b"")
            case _:
                body = json.dumps(found).encode()
                etag = f'"{hash(body)}{self.store.salt}"'
                modified = format_datetime(self.store.modified, usegmt=True) if self.store.modified else None
                if self.store.etags and self.headers.get("If-None-Match") == etag:
                    self._answer(304, b"")
                elif modified is not None:
                    is_known = self.headers.get("If-Modified-Since") == modified
                    self._answer(304 if is_known else 200, body, {"Last-Modified": modified})
                else:
                    heads = {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
                    self._answer(200, body, ({"ETag": etag} | heads) if self.store.etags else {})

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        with self.store.lock:
            self.store.answered[status] += 1
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status != 304:
            self.wfile.write(body)

    def _drip(self, has_begun: bool) -> None:
        """Send the body or the head one byte at a time, for as long as the client reads."""
        self.close_connection = True
        self.wfile.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n" + (b"\r\n" if has_begun else b"X: ")
        )
        with suppress(OSError):
            while not self.store.over.wait(0.01):
                self.wfile.write(b"x")

    def log_message(self, *_: object) -> None: ...


class Server(ThreadingHTTPServer):
    """Server that ignores errors of clients that close the connection."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None: ...


@contextmanager
def object_store(**objects: dict[str, Any]) -> Iterator[Store]:
    store = Store(dict(objects))
    handler = type("HandlerOfOne", (Handler,), {"store": store})
    with Server(("127.0.0.1", 0), handler) as server:
        store.url = f"http://127.0.0.1:{server.server_address[1]}/items/"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield store
        finally:
            store.over.set()
            server.shutdown()
            thread.join()
