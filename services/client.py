"""Python client of the service, with everything that the `weir` command can do.

    with Client() as weir:
        weir.put(QueryDeclaration(kind="Query", tenant="acme", name="odd", sql="SELECT …"))
        for row in weir.results("odd", follow=True): ...
        weir.live.status()                       # the running system: `services.remote.live_views`

WEIR_ENDPOINT and WEIR_API_KEY name the service and the key; without them, the client uses the service that `weir up` runs
from WEIR_HOME. A query is named "acme/odd"; with a key of one tenant, "odd" is enough. Errors are those of a local catalog
(InvalidInput, UnknownName, InUse, VersionDiffers), NotAllowed, and Away if the service does not answer.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode

import orjson

from configs.documents.declarations import (
    RESOURCES,
    Declaration,
    Document,
    Ref,
    as_document,
    kind_named,
    ref_named,
    ref_of,
)
from configs.errors import Away, InUse, InvalidInput, UnknownName, WeirError
from services.common.weir_home import ENDPOINT, home_of
from services.ingest.progress import FeedProgress
from services.remote.given import (
    ARROW,
    DocumentLike,
    Rows,
    document_in,
    documents_in,
    rows_content,
)
from services.remote.live_views import LiveViews
from services.remote.models import Applied, AuditEntry, Declared, KeyInfo, NewKey, RowsPut, ToBring
from services.remote.results import PATIENCE_S, ROWS_PAGE, RemoteResults, Tell
from services.remote.wire import TIMEOUT_S, TRIES, Wire, address_of, quoted

if TYPE_CHECKING:
    import pyarrow as pa

PAGE = 1000
DRY_RUN = "?dry_run=true"
ROWS_MOST = 1_000_000
JSON = {"Content-Type": "application/json"}


Documents = DocumentLike | Sequence[DocumentLike]


class Client:
    """Client of one service with one key; thread-safe."""

    def __init__(
        self,
        endpoint: str | None = None,
        key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        tries: int = TRIES,
    ) -> None:
        address = address_of(os.environ, endpoint, key)
        if address is None:
            home_of(os.environ).must_not_be_killed()
            raise Away(
                "the address of the Weir service is not known",
                hint=f"set {ENDPOINT}, or start a service here with `weir up`",
            )
        self._wire = Wire(address, timeout_s, tries)
        self.live = LiveViews(self._get, self.tenant)

    @property
    def endpoint(self) -> str:
        return self._wire.endpoint

    @property
    def key(self) -> str:
        """API key that is sent with each call. The key is not part of any text or representation."""
        return self._wire.key

    def __repr__(self) -> str:
        """Return a text with the endpoint, but without the key."""
        return f"Client({self.endpoint!r})"

    def close(self) -> None:
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Ctrl-C during a call may leave the connection pool locked, and closing a locked pool would hang.
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            self.close()

    def apply(self, documents: Documents, dry_run: bool = False) -> Applied:
        """Declare all documents, or none if one document is refused. With `dry_run`, only return the changes that would be made."""
        documents = documents_in(documents)
        path = f"/v1/apply{DRY_RUN if dry_run else ''}"
        with located(documents):
            return Applied.model_validate(self._post(path, body_of(documents)))

    def diff(self, documents: Documents) -> Applied:
        """Return the changes that `apply` would make with the same documents."""
        return self.apply(documents, dry_run=True)

    def plan(self, documents: Documents, rates: Mapping[str, float] | None = None) -> dict[str, Any]:
        """Forecast the delay targets as if the documents were declared. `rates` are expected rows per second by stream."""
        documents = documents_in(documents)
        said = urlencode([("rate", f"{stream}:{rows!r}") for stream, rows in (rates or {}).items()])
        with located(documents):
            return self._post(f"/v1/plan?{said}" if said else "/v1/plan", body_of(documents))

    def get(self, kind: str, name: str) -> Declared:
        """Return the declaration with this kind and name. The name of a query is TENANT/QUERY."""
        ref = ref_named(kind, name)
        answer = self._wire.call("GET", place_of(ref))
        return declared(answer.headers, answer.content, ref)

    def all(self, kind: str, tenant: str | None = None) -> list[Declared]:
        """Return all declarations of a kind, in the order in which they were declared. With `tenant`, return the tenant's queries."""
        kind = kind_named(kind)
        if kind == "Session":
            try:
                return [self.get(kind, "spark")]
            except UnknownName:
                return []
        path = f"/v1/tenants/{quoted(tenant)}/queries" if tenant else f"/v1/{RESOURCES[kind].path}"
        return [Declared.model_validate(item) for item in self._items(path)]

    def put(self, declaration: DocumentLike, version: int | None = None) -> Declared:
        """Declare or change a document. With `version`, the declaration must have this version. Version 0: it must not exist."""
        document = document_in(declaration)
        declaration = document.declaration if isinstance(document, Document) else document
        ref = ref_of(declaration)
        content = orjson.dumps(as_document(declaration))
        headers = JSON | condition(version)
        answer = self._wire.call(
            "PUT", place_of(ref), content=content, headers=headers, again=version is None
        )
        return declared(answer.headers, answer.content, ref)

    def delete(self, kind: str, name: str, version: int | None = None, dry_run: bool = False) -> None:
        """Delete a declaration; raise UnknownName if no such declaration exists, InUse if other declarations use the declaration."""
        path = place_of(ref_named(kind, name)) + (DRY_RUN if dry_run else "")
        self._wire.call("DELETE", path, headers=condition(version), again=dry_run)

    def users(self, kind: str, name: str) -> list[str]:
        """Return the names of the declarations that use this declaration, and so prevent its deletion."""
        try:
            self.delete(kind, name, dry_run=True)
        except InUse as problem:
            return list(problem.users)
        return []

    def audit(self, kind: str | None = None, name: str | None = None, most: int = 100) -> list[AuditEntry]:
        """Return the changes of the catalog that the audit log contains, latest first."""
        page = self._get("/v1/audit", kind=kind, name=name, limit=most)
        return [AuditEntry.model_validate(entry) for entry in page["items"]]

    def list_keys(self) -> list[KeyInfo]:
        """Return information about all API keys, oldest first."""
        return [KeyInfo.model_validate(item) for item in self._items("/v1/keys")]

    def create_key(self, principal: str, scopes: Iterable[str], expires_s: float | None = None) -> NewKey:
        """Create an API key. The returned object contains the secret of the key, which the service never shows again."""
        said: dict[str, Any] = {"principal": principal, "scopes": list(scopes)}
        if expires_s is not None:
            said["expires_s"] = expires_s
        return NewKey.model_validate(self._post("/v1/keys", said, again=False))

    def revoke_key(self, id_: str) -> None:
        """Revoke an API key, so that the service refuses calls with the key."""
        self._wire.call("DELETE", f"/v1/keys/{quoted(id_)}", again=False)

    def to_bring(self) -> ToBring:
        """Return the feeds that Spark must run, with the secrets of their sources. The call needs a key with the scope `feeds`."""
        return ToBring.model_validate(self._get("/v1/ingest"))

    def tell_progress(self, feeds: Sequence[FeedProgress]) -> None:
        """Report the progress of the feeds to the service."""
        said = orjson.dumps({"feeds": [asdict(feed) for feed in feeds]})
        self._wire.call("PUT", "/v1/ingest/progress", content=said, headers=JSON)

    def tenant(self) -> str:
        """Return the only tenant to which the key gives access; raise InvalidInput if the key gives access to no tenant or to several."""
        tenants = self._get("/v1/tenants", limit=2)["items"]
        if len(tenants) != 1:
            count = "no tenant" if not tenants else "several tenants"
            raise InvalidInput(
                f"the key gives access to {count}, so the tenant must be named",
                "tenant",
                hint="name the tenant; a query is TENANT/QUERY",
            )
        name: str = tenants[0]["document"]["name"]
        return name

    def put_rows(
        self,
        stream: str,
        rows: Rows,
        batch: str | None = None,
        *,
        force: bool = False,
    ) -> RowsPut:
        """Put rows into a stream. Rows with the same name `batch` are published only once; without a name, the rows get a random name.

        Rows are one dict, several dicts, or a table or data frame of PyArrow, polars or pandas.
        With `force`, a stream that is fed by a source or a feed accepts the rows, too.
        """
        content, media = rows_content(rows)
        headers = {"Content-Type": media, "Idempotency-Key": batch or uuid.uuid4().hex}
        path, params = f"/v1/streams/{quoted(stream)}/rows", {"force": True} if force else None
        answer = self._wire.call("POST", path, params=params, content=content, headers=headers)
        return RowsPut.model_validate_json(answer.content)

    def results(
        self,
        query: str,
        tenant: str | None = None,
        *,
        after: str | None = None,
        follow: bool = False,
        forgotten: Tell | None = None,
        patience_s: float = PATIENCE_S,
        limit: int | None = None,
        tail: int | None = None,
    ) -> RemoteResults:
        """Return an iterator over a query's rows, from the oldest stored row on, or after the cursor `after` (`latest`: only new rows).

        The iteration ends with the last row that exists now; with `follow`, it continues with new rows until the query is
        deleted. `limit` is the maximum number of rows. With `tail`, reading begins with the last `tail` stored rows.
        If rows are no longer stored, the callback `forgotten` receives the error, and the iteration continues with the next
        stored row.
        """
        for name, count in (("limit", limit), ("tail", tail)):
            if count is not None and count < 1:
                raise InvalidInput("the value must be at least 1", name, count)
        if tail is not None and after is not None:
            raise InvalidInput(
                "this argument cannot be combined with `after`", "tail", tail, "give either `tail` or `after`"
            )
        path = self._results_path(query, tenant)
        return RemoteResults(
            wire=self._wire,
            path=path,
            after=after,
            follow=follow,
            forgotten=forgotten,
            patience_s=patience_s,
            limit=limit,
            tail=tail,
        )

    def ask(self, sql: str, tenant: str | None = None) -> dict[str, Any]:
        """Return the answer to a one-time query, from what the running queries of the tenant keep in memory."""
        return self._post(f"/v1/tenants/{quoted(tenant or self.tenant())}/ask", {"sql": sql})

    def results_table(
        self, query: str, tenant: str | None = None, *, after: str | None = None, most: int = ROWS_MOST
    ) -> pa.Table:
        """Return the stored rows of a query's results as an Arrow table with at most `most` rows."""
        import pyarrow as pa

        path, parts, rows = self._results_path(query, tenant), [], 0
        while rows < most:
            limit = min(ROWS_PAGE, most - rows)
            answer = self._wire.call(
                "GET", path, params={"after": after, "limit": limit}, headers={"Accept": ARROW}
            )
            parts.append(pa.ipc.open_stream(answer.content).read_all())
            after, rows = answer.headers.get("Weir-Next", after), rows + len(parts[-1])
            if not len(parts[-1]):
                break
        return pa.concat_tables(parts)

    def _results_path(self, query: str, tenant: str | None) -> str:
        first, slash, last = query.partition("/")
        owner, name = (first, last) if slash else (tenant or self.tenant(), query)
        return f"{place_of(Ref('Query', name, owner))}/results"

    def _get(self, path: str, **params: object) -> dict[str, Any]:
        resource: dict[str, Any] = orjson.loads(self._wire.call("GET", path, params=params).content)
        return resource

    def _post(self, path: str, said: Mapping[str, Any], again: bool = True) -> dict[str, Any]:
        answer = self._wire.call("POST", path, content=orjson.dumps(said), headers=JSON, again=again)
        content: dict[str, Any] = orjson.loads(answer.content)
        return content

    def _items(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield all items of a list that the service returns in pages."""
        after: str | None = None
        while True:
            page = self._get(path, limit=PAGE, after=after)
            yield from page["items"]
            after = page.get("next")
            if after is None:
                return


def place_of(ref: Ref) -> str:
    """Return the path of a declaration in the URLs of the service."""
    match ref.kind:
        case "Session":
            return "/v1/session"
        case "Query":
            return f"/v1/tenants/{quoted(ref.tenant)}/queries/{quoted(ref.name)}"
    return f"/v1/{RESOURCES[ref.kind].path}/{quoted(ref.name)}"


def condition(version: int | None) -> dict[str, str]:
    if version is None:
        return {}
    return {"If-None-Match": "*"} if version == 0 else {"If-Match": f'"{version}"'}


def declared(headers: Mapping[str, str], content: bytes, ref: Ref) -> Declared:
    """Return the declaration in an HTTP response. The header ETag of the response has the version of the declaration."""
    document = {"kind": ref.kind, "name": ref.name} | orjson.loads(content)
    version, warnings = int(headers["ETag"].strip('"')), headers.get("Weir-Warning", "")
    return Declared.model_validate({"version": version, "document": document, "warnings": warnings})


def body_of(documents: Sequence[Declaration | Document]) -> dict[str, Any]:
    declarations = (
        document.declaration if isinstance(document, Document) else document for document in documents
    )
    return {"documents": [as_document(declaration) for declaration in declarations]}


# Pattern of the start of an error message about one document of a request. The start contains the document's position.
IN_BODY = re.compile(r"documents\[([0-9]+)\](?: \(.*?\))?(?=: )", re.DOTALL)


@contextmanager
def located(documents: Sequence[Declaration | Document]) -> Iterator[None]:
    """Make errors that are raised in the `with` block name the wrong document by its file or name, instead of by its position."""
    try:
        yield
    except WeirError as problem:
        match = IN_BODY.match(problem.title)
        if match is not None and int(match[1]) < len(documents):
            document = documents[int(match[1])]
            place = (document.place or document.ref) if isinstance(document, Document) else ref_of(document)
            problem.title = str(place) + problem.title[match.end() :]
        raise
