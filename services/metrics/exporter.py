"""HTTP endpoint for the metrics of a demonstration, which has no service with such an endpoint."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from services.metrics.text import CONTENT_TYPE

PATH = "/metrics"
LOOPBACK = "127.0.0.1"
# Seconds after which a connection without a request is closed.
PATIENCE_S = 10.0


class Exporter:
    """HTTP server for `/metrics` on a free port of 127.0.0.1, which requires `token`. It runs inside a `with` block."""

    def __init__(self, text: Callable[[], bytes]) -> None:
        self.token = secrets.token_urlsafe(32)
        authorization = f"Bearer {self.token}".encode()

        class MetricsHandler(BaseHTTPRequestHandler):
            timeout = PATIENCE_S

            def do_GET(self) -> None:
                header = self.headers.get("Authorization", "").encode("latin-1", "replace")
                if not secrets.compare_digest(header, authorization):
                    self.send_error(401)
                elif self.path != PATH:
                    self.send_error(404)
                else:
                    self._send(text())

            def _send(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Drop the request log, which would be printed to stderr."""

        self._server = ThreadingHTTPServer((LOOPBACK, 0), MetricsHandler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="exporter", daemon=True)

    @property
    def address(self) -> str:
        """Address of the server as HOST:PORT."""
        return f"{LOOPBACK}:{self._server.server_address[1]}"

    def __enter__(self) -> Exporter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
