"""Two helpers for tests of network failures: a server with prepared responses, and a relay that cuts connections."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Reply:
    """Send a response to a request. With `cut`, the connection ends in the middle of the response."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    """Number of bytes of the body after which the connection ends; −1 ends it before the status."""

    @classmethod
    def problem(
        cls, status: int, slug: str, headers: Mapping[str, str] | None = None, **members: object
    ) -> Reply:
        body = {"type": f"urn:weir:problem:{slug}", "title": "t", "status": status, **members}
        return cls(status, json.dumps(body).encode(), headers or {})


@dataclass
class Heard:
    """Endpoint of the server, and the requests that it received."""

    endpoint: str
    requests: list[tuple[str, str, Mapping[str, str], bytes]] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        return [f"{method} {path}" for method, path, _, _ in self.requests]


@contextmanager
def replying(replies: Sequence[Reply]) -> Iterator[Heard]:
    """Start a server on a free port. The server sends the prepared responses, one per request."""
    left = list(replies)
    heard = Heard("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            heard.requests.append((self.command, self.path, dict(self.headers), body))
            reply = left.pop(0)
            if reply.cut == -1:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body[: reply.cut])
            self.close_connection = reply.cut is not None

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing, because the tests compare recorded requests instead of a log."""

    for method in ("GET", "PUT", "POST", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.answer)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        heard.endpoint = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield heard
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def cutting(port: int, bytes_each: Sequence[int]) -> Iterator[int]:
    """Start a relay to the port. Each item of `bytes_each` is the number of response bytes after which a connection is cut.

    Later connections are not cut.
    """
    left = list(bytes_each)
    listener = socket.create_server(("127.0.0.1", 0))
    open_: list[socket.socket] = [listener]

    def relay(source: socket.socket, target: socket.socket, most: float) -> None:
        sent = 0
        with suppress(OSError):
            while sent < most and (part := source.recv(65_536)):
                part = part[: int(min(len(part), most - sent))]
                target.sendall(part)
                sent += len(part)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", port))
                open_.extend((near, far))
                most = left.pop(0) if left else float("inf")
                threading.Thread(target=relay, args=(near, far, float("inf")), daemon=True).start()
                threading.Thread(target=relay, args=(far, near, most), daemon=True).start()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        for one in open_:
            one.close()
