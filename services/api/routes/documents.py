"""Routes of declarations: priority classes, tenants, queries, streams, feeds, mirrors, notices and the session, singly or in bulk.

Reads are answered from memory. A document is returned as it was declared, without secrets; its version is its ETag.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import orjson
from fastapi import APIRouter, Depends, Header, Path, Query, Request
from starlette.responses import Response

from configs.documents.declarations import (
    DOCUMENTS_MAX,
    KINDS,
    RESOURCES,
    Document,
    Ref,
    TenantDeclaration,
    declared_in,
)
from configs.errors import InvalidInput
from services.api.callers import Caller, CallerOf, must_know_tenant, unknown
from services.api.catalog_changes import Declaring, check_name, document_at, is_fresh, wanted_version
from services.api.catalog_snapshot import SnapshotEntry, page
from services.api.problems import BODY_PROBLEMS, responses
from services.api.request_bodies import JSON, Content, media_type, read_all, read_data
from services.api.schemas import (
    APPLY_BODY,
    CHANGES,
    DELETED,
    document_answers,
    document_body,
    list_answer,
    put_answers,
)
from services.api.service import Service
from services.catalog.redaction import without_secrets
from services.catalog.run_times import runs_of

SESSION = Ref("Session", "spark")
LIMIT, LIMIT_MAX = 100, 10_000

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Maximum number of items in the answer.")]
After = Annotated[
    str | None,
    Query(pattern="^[0-9]{1,18}$", description="Cursor to continue from: `next` of the previous answer."),
]
PathName = Annotated[str, Path(max_length=200)]
DryRun = Annotated[bool, Query(description="Check the request without changing anything.")]
IfMatch = Annotated[
    str | None,
    Header(
        description="Condition of the change: an ETag requires that the document has this version; `*` requires that the document exists."
    ),
]
IfNew = Annotated[
    str | None,
    Header(
        alias="If-None-Match",
        description="Condition of the change: `*` requires that the document does not exist yet.",
    ),
]
IfNoneMatch = Annotated[str | None, Header(description="ETags of the versions that the caller already has.")]
READ = responses("forbidden", "not-found") | {
    304: {"description": "The caller has the current version already."}
}
CHANGED = BODY_PROBLEMS | responses("forbidden", "not-found", "version-differs", "would-miss-target")
GONE = responses("forbidden", "not-found", "in-use", "version-differs")


@dataclass(frozen=True, kw_only=True)
class PutRequest:
    """Request that declares one document."""

    request: Request
    caller: CallerOf
    content: Content
    if_match: IfMatch = None
    if_none_match: IfNew = None
    dry_run: DryRun = False


Put = Annotated[PutRequest, Depends()]


class VisibleKind:
    """Declarations of one kind that callers may list and read."""

    def __init__(self, service: Service, kind: str) -> None:
        self._service, self._kind = service, kind

    def one(self, caller: Caller, ref: Ref) -> SnapshotEntry:
        entry = self._service.snapshot.now.get(ref)
        self._check(caller, ref.name)
        if entry is None or not self._sees(caller)(entry):
            raise unknown(self._service, caller, ref)
        return entry

    def all(self, caller: Caller) -> Sequence[SnapshotEntry]:
        """Return the entries that the caller may see, in the order in which they were declared."""
        self._check(caller)
        entries = self._service.snapshot.now.of_kind.get(self._kind, ())
        return entries if caller.is_admin else list(filter(self._sees(caller), entries))

    def shown(self, caller: Caller, entry: SnapshotEntry) -> bytes:
        """Return the document as the caller may see it: only administrators see the source of a stream."""
        return entry.document if caller.is_admin else entry.public

    def runs(self, entries: Sequence[SnapshotEntry]) -> dict[Ref, bytes]:
        """Return the JSON field `run` of each query that has a start or an end."""
        refs = [entry.ref for entry in entries]
        return {
            ref: b',"run":%b' % orjson.dumps(run, option=orjson.OPT_UTC_Z)
            for ref, run in runs_of(self._service.snapshot.now.state, refs, time.time()).items()
        }

    def _check(self, caller: Caller, name: str | None = None) -> None:
        match self._kind:
            case kind if RESOURCES[kind].for_admins:
                caller.must_be_admin()
            case "Stream" if name is not None:
                caller.must_see_stream(name)
            case "Stream":
                pass
            case _:
                caller.must_have_tenant()

    def _sees(self, caller: Caller) -> Callable[[SnapshotEntry], bool]:
        if caller.is_admin or RESOURCES[self._kind].for_all:
            return lambda _: True
        match self._kind:
            case "PriorityClass":
                names = classes_of(self._service, caller)
                return lambda one: one.ref.name in names
            case "Tenant":
                return lambda one: caller.sees_tenant(one.ref.name)
            case "Stream":
                return lambda one: caller.sees_stream(one.ref.name)
        return lambda one: caller.sees_tenant(one.ref.tenant)


def classes_of(service: Service, caller: Caller) -> set[str]:
    """Return the priority classes of the tenants that the key is for."""
    entries = (service.snapshot.now.get(Ref("Tenant", name)) for name in caller.tenants)
    declared = (entry.stored.declaration for entry in entries if entry is not None)
    return {tenant.priority_class for tenant in declared if isinstance(tenant, TenantDeclaration)}


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["declarations"])
    for kind in KINDS:
        if kind not in ("Query", "Session"):
            add_kind(routes, service, kind, f"/{RESOURCES[kind].path}")
    add_queries(routes, service)
    add_session(routes, service)
    add_apply(routes, service)
    return routes


def add_kind(routes: APIRouter, service: Service, kind: str, path: str) -> None:
    reading, item_path = VisibleKind(service, kind), f"{path}/{{name}}"
    plural = f"{kind}es" if kind.endswith("s") else f"{kind}s"

    @routes.get(path, operation_id=f"list{plural}", summary=f"List {plural}", responses=list_answer(kind))
    async def list_all(caller: CallerOf, limit: Limit = LIMIT, after: After = None) -> Response:
        return listed(reading, caller, reading.all(caller), limit, after)

    @routes.get(
        item_path,
        operation_id=f"get{kind}",
        summary=f"Show a {kind}",
        responses=document_answers(kind) | READ,
    )
    async def get(caller: CallerOf, name: PathName, if_none_match: IfNoneMatch = None) -> Response:
        return shown(reading, caller, Ref(kind, name), if_none_match)

    @routes.put(
        item_path,
        operation_id=f"put{kind}",
        summary=f"Declare a {kind}",
        responses=put_answers(kind) | CHANGED,
        openapi_extra=document_body(kind),
    )
    def put(put: Put, name: PathName) -> Response:
        put.caller.must_be_admin()
        return put_one(service, put, Ref(kind, name))

    @routes.delete(
        item_path, operation_id=f"delete{kind}", summary=f"Delete a {kind}", responses=DELETED | GONE
    )
    def delete(
        caller: CallerOf, name: PathName, if_match: IfMatch = None, dry_run: DryRun = False
    ) -> Response:
        caller.must_be_admin()
        return delete_one(service, caller, Ref(kind, name), if_match, dry_run)


def add_queries(routes: APIRouter, service: Service) -> None:
    reading = VisibleKind(service, "Query")
    many, item_path = "/tenants/{tenant}/queries", "/tenants/{tenant}/queries/{query}"

    @routes.get("/queries", operation_id="listQueries", responses=list_answer("Query"))
    async def list_queries(caller: CallerOf, limit: Limit = LIMIT, after: After = None) -> Response:
        """List the queries of all tenants that the caller may see."""
        return listed(reading, caller, reading.all(caller), limit, after)

    @routes.get(many, operation_id="listTenantQueries", responses=list_answer("Query") | READ)
    async def list_tenant_queries(
        caller: CallerOf, tenant: PathName, limit: Limit = LIMIT, after: After = None
    ) -> Response:
        """List the queries of one tenant."""
        must_know_tenant(service, caller, tenant)
        return listed(reading, caller, service.snapshot.now.queries.get(tenant, ()), limit, after)

    @routes.get(item_path, operation_id="getQuery", responses=document_answers("Query") | READ)
    async def get_query(
        caller: CallerOf, tenant: PathName, query: PathName, if_none_match: IfNoneMatch = None
    ) -> Response:
        """Show a query."""
        must_know_tenant(service, caller, tenant)
        return shown(reading, caller, Ref("Query", query, tenant), if_none_match)

    @routes.put(
        item_path,
        operation_id="putQuery",
        responses=put_answers("Query") | CHANGED,
        openapi_extra=document_body("Query"),
    )
    def put_query(put: Put, tenant: PathName, query: PathName) -> Response:
        """Register a query, or change its SQL."""
        must_know_tenant(service, put.caller, tenant)
        return put_one(service, put, Ref("Query", query, tenant))

    @routes.delete(item_path, operation_id="deleteQuery", responses=DELETED | GONE)
    def delete_query(
        caller: CallerOf,
        tenant: PathName,
        query: PathName,
        if_match: IfMatch = None,
        dry_run: DryRun = False,
    ) -> Response:
        """Delete a query."""
        must_know_tenant(service, caller, tenant)
        return delete_one(service, caller, Ref("Query", query, tenant), if_match, dry_run)


def add_session(routes: APIRouter, service: Service) -> None:
    reading, path = VisibleKind(service, "Session"), "/session"

    @routes.get(path, operation_id="getSession", responses=document_answers("Session") | READ)
    async def get_session(caller: CallerOf, if_none_match: IfNoneMatch = None) -> Response:
        """Show the settings of the Spark session; 404 if no settings are declared, so that defaults apply."""
        return shown(reading, caller, SESSION, if_none_match)

    @routes.put(
        path,
        operation_id="putSession",
        responses=put_answers("Session") | CHANGED,
        openapi_extra=document_body("Session"),
    )
    def put_session(put: Put) -> Response:
        """Declare the settings of the Spark session."""
        put.caller.must_be_admin()
        return put_one(service, put, SESSION)

    @routes.delete(path, operation_id="deleteSession", responses=DELETED | GONE)
    def delete_session(caller: CallerOf, if_match: IfMatch = None, dry_run: DryRun = False) -> Response:
        """Delete the declared settings of the Spark session, so that defaults apply."""
        caller.must_be_admin()
        return delete_one(service, caller, SESSION, if_match, dry_run)


def add_apply(routes: APIRouter, service: Service) -> None:
    @routes.post(
        "/apply",
        operation_id="apply",
        responses=CHANGES | CHANGED,
        openapi_extra=APPLY_BODY,
    )
    def apply(request: Request, caller: CallerOf, content: Content, dry_run: DryRun = False) -> Response:
        """Declare all of the documents, or none if one document is refused. Tenants may declare only their own queries."""
        caller.must_have_tenant()
        documents = documents_of(request, content)
        for document in documents:
            must_declare(caller, document)
        changes = Declaring(service, caller, dry_run).declare(documents)
        return Response(orjson.dumps(changes.as_json()), headers=changes.headers, media_type=JSON)


def documents_of(request: Request, content: bytes) -> list[Document]:
    """Return the documents of a JSON body `{"documents": [...]}`, or of a YAML body in the format of declaration files."""
    documents = read_all(request, content)
    if media_type(request) == JSON:
        (body,) = documents
        if (
            not isinstance(body, dict)
            or set(body) != {"documents"}
            or not isinstance(body["documents"], list)
        ):
            raise InvalidInput(
                "the body is not a list of documents", value=body, hint='send {"documents": [...]}'
            )
        documents = body["documents"]
    elif len(documents) == 1 and isinstance(documents[0], dict) and set(documents[0]) == {"documents"}:
        documents = documents[0]["documents"]
        if not isinstance(documents, list):
            raise InvalidInput(
                "the body is not a list of documents",
                "documents",
                documents,
                "write a list, with each document after a `-`",
            )
    request.state.body = {"documents": documents}
    if not 1 <= len(documents) <= DOCUMENTS_MAX:
        hint = f"send 1 to {DOCUMENTS_MAX:,} documents"
        raise InvalidInput("the request has too few or too many documents", "documents", len(documents), hint)
    return [declared_in(document, f"documents[{place}]") for place, document in enumerate(documents)]


def must_declare(caller: Caller, one: Document) -> None:
    if caller.is_admin:
        return
    if one.ref.kind != "Query":
        caller.must_be_admin()
    caller.must_see_tenant(one.ref.tenant)


def listed(
    reading: VisibleKind, caller: Caller, entries: Sequence[SnapshotEntry], limit: int, after: str | None
) -> Response:
    shown_entries = page(entries, -1 if after is None else int(after), limit)
    is_last = not shown_entries or shown_entries[-1] is entries[-1]
    runs = reading.runs(shown_entries)
    items = b",".join(
        b'{"version":%d,"document":%b%b}'
        % (entry.stored.version, reading.shown(caller, entry), runs.get(entry.ref, b""))
        for entry in shown_entries
    )
    following = b"null" if is_last else b'"%d"' % shown_entries[-1].stored.place
    return Response(b'{"items":[%b],"next":%b}' % (items, following), media_type=JSON)


def shown(reading: VisibleKind, caller: Caller, ref: Ref, if_none_match: str | None) -> Response:
    entry = reading.one(caller, ref)
    headers = {"ETag": entry.etag}
    if is_fresh(entry, if_none_match):
        return Response(status_code=304, headers=headers)
    return Response(reading.shown(caller, entry), headers=headers, media_type=JSON)


def put_one(service: Service, put: PutRequest, ref: Ref) -> Response:
    for name, parameter in ((ref.tenant, "tenant"), (ref.name, "name")):
        if name:
            check_name(name, parameter)
    document = document_at(ref, read_data(put.request, put.content))
    version = wanted_version(service.snapshot.refresh().get(ref), put.if_match, put.if_none_match)
    versions = {} if version is None else {ref: version}
    changes = Declaring(service, put.caller, put.dry_run, versions).declare([document])
    if put.dry_run:
        return Response(orjson.dumps(changes.as_json()), headers=changes.headers, media_type=JSON)
    # Declaring a mirror may also declare its stream, so there may be two changes.
    (change,) = (change for change in changes.changes if change.ref == ref)
    headers = {"ETag": f'"{change.version}"', **changes.headers}
    status = 201 if change.action == "created" else 200
    return Response(orjson.dumps(without_secrets(change.after)), status, headers, JSON)


def delete_one(service: Service, caller: Caller, ref: Ref, if_match: str | None, dry_run: bool) -> Response:
    here = service.snapshot.refresh().get(ref)
    if here is None:
        raise unknown(service, caller, ref)
    version = wanted_version(here, if_match, None)
    changes = Declaring(service, caller, dry_run, {} if version is None else {ref: version}).delete(ref)
    if dry_run:
        return Response(orjson.dumps(changes.as_json()), media_type=JSON)
    return Response(status_code=204)
