"""HTTP server of the service: uvicorn in a thread of this process, with an event loop of its own.

Guarantees:
1. When `start` returns, the service listens and its address is known. `start` raises InvalidInput if it cannot listen.
2. `stop` returns soon, even while callers read: it ends the responses to waiting readers, and other requests have a moment to
   finish. Nothing listens afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from configs.errors import InvalidInput
from configs.service.service_settings import ServiceSettings
from services.api.app import make_app
from services.api.http_protocol import BoundedProtocol
from services.api.problems import NotRunning, problem_response
from services.api.service import Service

BACKLOG = 1024
KEEP_ALIVE_S = 30
# Maximum seconds to send the end of a response, so that a reader that no longer reads does not delay the stop.
LAST_WORDS_S = 0.2
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
READS = ("GET", "HEAD")


class Serving:
    """HTTP server of one service; it can be started once and stopped once."""

    def __init__(self, service: Service) -> None:
        self._service, self.settings = service, service.settings
        self._socket: socket.socket | None = None
        self.app = make_app(service)
        self._ending = Ending(self.app)
        self._server: ApiServer | None = None
        self._thread = threading.Thread(target=self._run, name="service", daemon=True)
        self._problem: BaseException | None = None

    @property
    def url(self) -> str:
        """URL of the service for callers on this machine."""
        assert self._socket is not None
        host, port = self._address
        host = EVERYWHERE.get(host, f"[{host}]" if ":" in host else host)
        return f"{self.settings.scheme}://{host}:{port}"

    def start(self) -> None:
        check_tls(self.settings)
        self._socket = listening(self.settings)
        self._address: tuple[str, int] = self._socket.getsockname()[:2]
        # Uvicorn does not log errors in routes, because the service logs them itself, with the route.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._server = ApiServer(config_of(self._ending, self.settings))
        self._service.snapshot.start()
        self._thread.start()
        self._server.listens.wait()
        if self._problem is not None:
            raise self._problem

    def stop(self) -> None:
        """Stop the server, if it has not stopped already."""
        if self._server is not None:
            self._server.end(self._ending)
        if self._thread.is_alive():
            self._thread.join()
        self._service.snapshot.stop()

    def __enter__(self) -> Serving:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        assert self._server is not None
        assert self._socket is not None
        try:
            self._server.run([self._socket])
        except BaseException as problem:
            self._problem = problem
        finally:
            self._server.listens.set()


class ApiServer(uvicorn.Server):
    """Uvicorn server with an event that is set once the server listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self.listens.set()

    def end(self, ending: Ending) -> None:
        """Stop serving; this method is called from another thread than the server's."""
        self.should_exit = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # The event loop has already ended.
                self._loop.call_soon_threadsafe(ending.end)


class Ending:
    """ASGI application around the routes. When the service stops, reads are ended at once, and changes may finish."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._ending = threading.Event()
        self._reading: set[asyncio.Task[object]] = set()

    def end(self) -> None:
        self._ending.set()
        for task in self._reading:
            task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._ending.is_set():
            await sent_away(scope, receive, send)
            return
        if scope.get("method") not in READS:
            await self._app(scope, receive, send)
            return
        task = asyncio.current_task()
        assert task is not None
        has_begun = False

        async def send_noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        self._reading.add(task)
        try:
            await self._app(scope, receive, send_noted)
        except asyncio.CancelledError:
            if not self._ending.is_set():
                raise
            task.uncancel()
            await last_words(has_begun, scope, receive, send)
        finally:
            self._reading.discard(task)


async def last_words(has_begun: bool, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the end of the response if it has begun, otherwise a problem as the response."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LAST_WORDS_S):
            if has_begun:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await sent_away(scope, receive, send)


async def sent_away(scope: Scope, receive: Receive, send: Send) -> None:
    problem = NotRunning("the service is stopping", hint="try again later", headers={"Connection": "close"})
    await problem_response(problem)(scope, receive, send)


def config_of(app: ASGIApp, settings: ServiceSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        limit_concurrency=settings.connections,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=settings.stop_s,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )


def listening(settings: ServiceSettings) -> socket.socket:
    """Return a socket bound to the service's address; a name with both IPv4 and IPv6 addresses is bound to IPv4."""
    try:
        addresses = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as problem:
        hint = "give a name or an address of this machine"
        why = getattr(problem, "strerror", None) or str(problem)
        raise InvalidInput(
            f"the value is not an address of this machine: {why}", "--api-host", settings.host, hint
        ) from None
    family, _, _, _, address = min(addresses, key=lambda one: one[0] != socket.AF_INET)
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as problem:
        listener.close()
        why = (problem.strerror or str(problem)).lower()
        hint = "check for another running `weir up`, or give another port (0 for any free port)"
        raise InvalidInput(
            f"the service cannot listen at this address: {why}",
            "--api-port",
            f"{settings.host}:{settings.port}",
            hint,
        ) from None
    return listener


def check_tls(settings: ServiceSettings) -> None:
    """Raise InvalidInput unless the TLS certificate and key can be read and belong together."""
    if settings.tls_certificate is None or settings.tls_key is None:
        return
    for field, path in (("--tls-certificate", settings.tls_certificate), ("--tls-key", settings.tls_key)):
        try:
            path.read_bytes()
        except OSError as problem:
            why = (problem.strerror or str(problem)).lower()
            raise InvalidInput(
                f"the file cannot be read: {why}", field, str(path), "give a PEM file"
            ) from None
    try:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # An empty password prevents OpenSSL from asking for a passphrase at the terminal.
        context.load_cert_chain(settings.tls_certificate, settings.tls_key, password="")
    except (ssl.SSLError, ValueError) as problem:
        why = getattr(problem, "reason", None) or str(problem)
        hint = "give a PEM certificate with its chain, and its key without a passphrase"
        raise InvalidInput(
            f"the files are not a certificate with its key: {why}",
            "--tls-certificate",
            str(settings.tls_certificate),
            hint,
        ) from None
