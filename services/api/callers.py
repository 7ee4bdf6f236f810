"""Authentication and authorization: the caller of a request, by its key, and what the key allows.

`Gatekeeper` runs before all routes: without a live key, a caller reaches only the health checks and the console's sign-in
page. Each route then checks what the key must allow:

    caller.must_be_admin()          for everything that concerns all tenants
    caller.must_see_tenant(name)    a tenant that the caller may not see is reported as missing
    caller.must_ingest(stream)
    caller.must_see_metrics()
    caller.must_bring_feeds()
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Receive, Scope, Send

from configs.documents.declarations import Ref
from configs.errors import WeirError, nearest
from services.api.problems import KINDS, Forbidden, NotFound, Unauthenticated, problem_response, told_as
from services.api.rate_limits import bounded, bytes_max
from services.api.service import Service
from services.api.sessions import COOKIE, HEADER
from services.catalog.keys import Holder
from services.ingest.keys import ADMIN, FEEDS, INGEST, METRICS, TENANT

HEALTH = ("/healthz", "/readyz")
CONSOLE = "/console"
READS = ("GET", "HEAD", "OPTIONS")
BEARER = b"bearer "


@dataclass(frozen=True)
class Caller:
    """Caller of a request: the principal and scopes of its key."""

    principal: str
    """Name of the caller in the audit log."""
    key_id: str
    scopes: frozenset[str]
    is_admin: bool = field(init=False)
    tenants: frozenset[str] = field(init=False)
    streams: frozenset[str] = field(init=False)
    """Streams to which the key may write, in lower case."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_admin", ADMIN in self.scopes)
        object.__setattr__(self, "tenants", self._named(TENANT))
        object.__setattr__(self, "streams", self._named(INGEST))

    def _named(self, prefix: str) -> frozenset[str]:
        return frozenset(scope.removeprefix(prefix) for scope in self.scopes if scope.startswith(prefix))

    def sees_tenant(self, name: str) -> bool:
        return self.is_admin or name in self.tenants

    def sees_stream(self, name: str) -> bool:
        """Return True if the key may see the stream: a tenant sees all streams, a producer only the streams that it writes to."""
        return self.is_admin or bool(self.tenants) or name.lower() in self.streams

    def must_be_admin(self) -> None:
        must(self.is_admin, "the key is not an administrator's", ADMIN)

    def must_have_tenant(self) -> None:
        """Raise Forbidden unless the key is for a tenant (any tenant) or for administrators."""
        must(self.is_admin or bool(self.tenants), "the key is not for a tenant", f"{TENANT}NAME or {ADMIN}")

    def must_see_tenant(self, name: str) -> None:
        self.must_have_tenant()
        if not self.sees_tenant(name):
            raise not_there("Tenant", name, self.tenants)

    def must_see_stream(self, name: str) -> None:
        must(self.sees_stream(name), "the key is not for that stream", f"{INGEST}{name}", name)

    def must_ingest(self, stream: str) -> None:
        is_allowed = self.is_admin or stream.lower() in self.streams
        must(is_allowed, "the key may not write to that stream", f"{INGEST}{stream}", stream)

    def must_see_metrics(self) -> None:
        is_allowed = self.is_admin or METRICS in self.scopes
        must(is_allowed, "the key is not for metrics", f"{METRICS} or {ADMIN}")

    def must_bring_feeds(self) -> None:
        """Raise Forbidden unless the key has the scope `feeds`. An administrator's key is refused, because administrators must not read the secrets of sources."""
        must(FEEDS in self.scopes, "the key is not for feeds", FEEDS)


def must(is_allowed: bool, title: str, scope: str, stream: str | None = None) -> None:
    """Raise Forbidden unless the request is allowed; the hint names the scope that allows the request."""
    if not is_allowed:
        field = "" if stream is None else "stream"
        raise Forbidden(title, field, stream, f"use a key with the scope {scope}")


def not_live() -> Unauthenticated:
    return Unauthenticated(
        "the key is not live", hint="check the API key: it is wrong, has expired or was revoked"
    )


# Maximum number of known names to compare with a wrong name for the hint of its error; with more names the hint is empty.
COMPARED_MOST = 2000


def not_there(kind: str, name: str, known: Collection[str] | None = None) -> NotFound:
    """Return the NotFound for a name that does not exist. A name that the caller may not see gets the same NotFound.

    `known` has the names that the caller may see; the hint lists the most similar names in `known`.
    """
    hint = ""
    if known is not None and len(known) <= COMPARED_MOST:
        hint = nearest(name, set(known) - {name})
    return NotFound(f"there is no {kind} of this name", value=name, hint=hint)


def unknown(service: Service, caller: Caller, ref: Ref) -> NotFound:
    """Return the NotFound for a missing declaration; its hint lists the most similar names that the caller may see."""
    state = service.snapshot.now.state
    if ref.kind == "Query":
        queries = state.queries_of(ref.tenant) if caller.sees_tenant(ref.tenant) else ()
        return not_there(ref.kind, ref.name, [query.ref.name for query in queries])
    names = state.names(ref.kind)
    if not caller.is_admin:
        sees = {"Tenant": caller.sees_tenant, "Stream": caller.sees_stream}.get(ref.kind)
        if sees is None:
            return not_there(ref.kind, ref.name)
        names = list(filter(sees, names))
    return not_there(ref.kind, ref.name, names)


def must_know_tenant(service: Service, caller: Caller, name: str) -> None:
    """Raise NotFound unless the tenant exists and the caller may see it."""
    caller.must_see_tenant(name)
    if service.snapshot.now.get(Ref("Tenant", name)) is None:
        raise unknown(service, caller, Ref("Tenant", name))


async def caller_of(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


CallerOf = Annotated[Caller, Depends(caller_of)]


class Gatekeeper:
    """ASGI application around the routes, which admits only requests with a live key. It limits the rate of requests and the size of bodies."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service
        self._callers: dict[str, Caller] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        try:
            if path not in HEALTH:
                self._admit(scope, path)
            if scope["method"] not in READS:
                receive = bounded(scope, receive, bytes_max(self._service.settings, path))
        except WeirError as problem:
            await problem_response(problem)(scope, receive, send)
        except HTTPException as problem:
            refused = told_as(KINDS["too-large"], {"detail": problem.detail}, problem.headers)
            await refused(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _admit(self, scope: Scope, path: str) -> None:
        holder = self._holder(scope)
        if holder is None:
            if path == "/" or path == CONSOLE or path.startswith(f"{CONSOLE}/"):
                return
            raise Unauthenticated("the request has no API key", hint="send `Authorization: Bearer weir_…`")
        self._service.limits.check_request(holder.id)
        self._service.snapshot.note_used(holder.id)
        scope.setdefault("state", {})["caller"] = self._caller(holder)

    def _holder(self, scope: Scope) -> Holder | None:
        """Return the holder of the key or session in the headers; None if the headers have neither key nor session."""
        cookies = b""
        for name, value in scope["headers"]:
            if name == b"authorization":
                return self._of_key(scope, value)
            if name == b"cookie":
                cookies = value
        return self._of_session(scope, cookies) if cookies else None

    def _of_key(self, scope: Scope, value: bytes) -> Holder:
        holder = None
        if value[: len(BEARER)].lower() == BEARER:
            holder = self._service.snapshot.holder_of(value[len(BEARER) :].strip())
        if holder is None:
            client = scope.get("client")
            self._service.limits.check_failure(client[0] if client else "")
            raise not_live()
        return holder

    def _of_session(self, scope: Scope, cookies: bytes) -> Holder | None:
        token = cookie_parser(cookies.decode("latin-1")).get(COOKIE)
        key_id = self._service.sessions.key_id(token) if token else None
        holder = self._service.snapshot.holder(key_id) if key_id else None
        is_change = scope["method"] not in READS and not scope["path"].startswith(f"{CONSOLE}/")
        if holder is not None and is_change and not any(name == HEADER for name, _ in scope["headers"]):
            hint = f"send the header {HEADER.decode()}: 1, or a key instead of the cookie"
            raise Forbidden(f"a change from a console session needs the header {HEADER.decode()}", hint=hint)
        return holder

    def _caller(self, holder: Holder) -> Caller:
        caller = self._callers.get(holder.id)
        if caller is None:
            # The scopes of a key never change, so a cached caller stays correct.
            if len(self._callers) >= 10_000:
                self._callers.clear()
            caller = self._callers[holder.id] = Caller(holder.principal, holder.id, holder.scopes)
        return caller
