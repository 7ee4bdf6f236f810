"""Problem responses (RFC 9457): a WeirError becomes a response of type `application/problem+json` with these members:

- `type`: `urn:weir:problem:SLUG`, which programs compare
- `title`: one text for all problems of a type
- `detail`: what is wrong with this request, with the offending value
- `hint`: how to correct the request
- `errors`: place of each error, as a JSON pointer into the body (`pointer`), or as a name of a parameter or header (`parameter`)

Unexpected exceptions become status 500 without details, so that callers learn nothing about the internals; the log has the details.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, ClassVar

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from configs.errors import Away, Busy, InUse, InvalidInput, VersionDiffers, WeirError, shown
from engine.sql import PlanningError
from services.catalog.database import CatalogAway

MEDIA_TYPE = "application/problem+json"
URN = "urn:weir:problem:"
RETRY_AFTER_S = 1
# Prefixes that mark the `field` of a WeirError as a query parameter or a header; a field without a prefix is in the body.
PARAMETERS = ("?", "header ")
LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """Type of problem documents: slug, title and HTTP status."""

    slug: str
    status: int
    title: str


KINDS: Mapping[str, ProblemKind] = {
    kind.slug: kind
    for kind in (
        ProblemKind("malformed", 400, "The request cannot be read"),
        ProblemKind("unauthenticated", 401, "A valid key is needed"),
        ProblemKind("forbidden", 403, "The key does not allow this request"),
        ProblemKind("not-found", 404, "The resource does not exist"),
        ProblemKind("method-not-allowed", 405, "The resource does not support this method"),
        ProblemKind("not-acceptable", 406, "The requested media type is not available"),
        ProblemKind("in-use", 409, "The resource is in use"),
        ProblemKind("would-miss-target", 409, "A delay target would be missed"),
        ProblemKind("rows-forgotten", 410, "Rows after the given cursor are no longer kept"),
        ProblemKind("version-differs", 412, "The resource is not at the expected version"),
        ProblemKind("too-large", 413, "The body is too large"),
        ProblemKind("unsupported-media", 415, "The body's media type is not supported"),
        ProblemKind("invalid", 422, "The request holds an invalid value"),
        ProblemKind("too-many-requests", 429, "Too many requests"),
        ProblemKind("head-too-large", 431, "Path and headers are too large"),
        ProblemKind("internal", 500, "Internal error in Weir"),
        ProblemKind("not-running", 503, "The running system is not available"),
        ProblemKind("catalog-away", 503, "The catalog does not answer"),
    )
}


@dataclass(eq=False)
class ApiProblem(WeirError):
    """Problem that the service itself raises; `slug` names its type."""

    extra: Mapping[str, object] = field(default_factory=dict)
    """Additional members of the problem document."""
    headers: Mapping[str, str] = field(default_factory=dict)

    slug: ClassVar[str] = "internal"


class Malformed(ApiProblem):
    slug = "malformed"


class Unauthenticated(ApiProblem):
    slug = "unauthenticated"


class Forbidden(ApiProblem):
    slug = "forbidden"


class NotFound(ApiProblem):
    slug = "not-found"


class NotAcceptable(ApiProblem):
    slug = "not-acceptable"


class WouldMissTargetProblem(ApiProblem):
    """Refusal of a declaration that would miss a delay target; `extra` holds the plan."""

    slug = "would-miss-target"


class RowsForgottenProblem(ApiProblem):
    """Refusal of a cursor that points to rows that are no longer kept; `extra` holds `next`, the cursor to continue with."""

    slug = "rows-forgotten"


class TooLarge(ApiProblem):
    slug = "too-large"


class UnsupportedMedia(ApiProblem):
    slug = "unsupported-media"


class TooManyRequests(ApiProblem):
    """Refusal of a caller that exceeds a limit; `headers` say when to try again."""

    slug = "too-many-requests"


class NotRunning(ApiProblem):
    slug = "not-running"


def slug_of(problem: WeirError) -> str:
    match problem:
        case ApiProblem():
            return problem.slug
        case InUse():
            return "in-use"
        case VersionDiffers():
            return "version-differs"
        case Busy():
            return "too-many-requests"
        case CatalogAway():
            return "catalog-away"
        case Away():
            return "not-running"
        case InvalidInput():
            return "invalid"
    return "internal"


def retry_after(seconds: float) -> dict[str, str]:
    """Return the Retry-After header, rounded up to whole seconds."""
    return {"Retry-After": str(max(RETRY_AFTER_S, int(-(-seconds // 1))))}


def problem_response(problem: WeirError, body: object = None) -> Response:
    """Return the response for a problem. Its JSON pointers into the body are exact only if the parsed body is given."""
    kind = KINDS[slug_of(problem)]
    members: dict[str, Any] = {"detail": detail_of(problem), "hint": problem.hint}
    errors = list(errors_of(problem, body))
    headers: dict[str, str] = {}
    if isinstance(problem, InUse):
        members["users"] = list(problem.users)
    if isinstance(problem, ApiProblem):
        members |= problem.extra
        headers |= problem.headers
    if kind.status == HTTPStatus.UNAUTHORIZED:
        headers.setdefault("WWW-Authenticate", "Bearer")
    if kind.status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        headers.setdefault("Retry-After", str(RETRY_AFTER_S))
    if errors:
        members["errors"] = errors
    return told_as(kind, members, headers)


def told_as(kind: ProblemKind, told: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    head = {"type": URN + kind.slug, "title": kind.title, "status": kind.status}
    content = head | {key: value for key, value in told.items() if value not in ("", None)}
    # The text contains the offending value, which may hold characters that cannot be encoded.
    return Response(
        orjson.dumps(encodable(content)), kind.status, headers=dict(headers or {}), media_type=MEDIA_TYPE
    )


def encodable(value: Any) -> Any:
    """Return the value for JSON in UTF-8: characters that cannot be encoded are replaced, integers beyond 64 bits become floats."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case Mapping():
            return {encodable(str(key)): encodable(part) for key, part in value.items()}
        case list() | tuple():
            return [encodable(part) for part in value]
        case int() if not -(1 << 63) <= value < 1 << 64:
            return float(value)
    return value


def detail_of(problem: WeirError) -> str:
    place = "" if is_of_body(problem.file) else problem.file
    where = ": ".join(part for part in (place, problem.field) if part)
    if isinstance(problem, PlanningError):
        where = f"{where}: line {problem.line}, column {problem.column}".removeprefix(": ")
    text = f"{where}: {problem.title}" if where else problem.title
    return text if problem.value is None else f"{text} (got {shown(problem.value)})"


# Values of a problem's `file` for a document in a request body: BODY for a single document, IN_BODY for a document in a list.
BODY = "body"
IN_BODY = re.compile(r"documents\[(\d+)\](?: \(.*\))?", re.DOTALL)


def is_of_body(file: str) -> bool:
    """Return True if the problem is about the only document in the body, so that its message need not name the document."""
    return file == BODY or file.startswith(f"{BODY} (")


def errors_of(problem: WeirError, body: object) -> Iterator[dict[str, str | int]]:
    """Yield the entry of `errors` with the location of the invalid value. Yield nothing for a problem that is not about a value."""
    if slug_of(problem) != "invalid":
        return
    error: dict[str, str | int] = {"detail": problem.title}
    if isinstance(problem, PlanningError):
        error |= {"line": problem.line, "column": problem.column}
    if problem.field.startswith(PARAMETERS):
        yield {"parameter": problem.field.removeprefix("?"), **error}
    else:
        yield {"pointer": "#" + place_of(problem, body), **error}


def place_of(problem: WeirError, body: object) -> str:
    """Return the JSON pointer to the value that the problem is about; empty if the problem concerns the whole body."""
    match = IN_BODY.fullmatch(problem.file)
    if match is not None:
        place, documents = int(match[1]), body.get("documents") if isinstance(body, Mapping) else None
        within = documents[place] if isinstance(documents, list) and place < len(documents) else None
        return f"/documents/{place}" + pointer_of(problem.field, within)
    return "" if problem.file and not is_of_body(problem.file) else pointer_of(problem.field, body)


def pointer_of(field_: str, document: object = None) -> str:
    """Return a path such as `a.b[2]` as a JSON pointer. The document is needed because its keys may contain dots."""
    path, rest, here = "", field_, document
    while rest:
        index = re.match(r"\[(\d+)\]\.?", rest)
        if index is not None:
            path, rest = f"{path}/{index[1]}", rest[index.end() :]
            at = int(index[1])
            here = here[at] if isinstance(here, list) and at < len(here) else None
            continue
        key = key_at(rest, here)
        path = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        rest = rest[len(key) :].removeprefix(".")
        here = here.get(key) if isinstance(here, Mapping) else None
    return path


def key_at(rest: str, here: object) -> str:
    """Return the first key in the path `rest`: the longest key of the object `here` with which `rest` begins."""
    if isinstance(here, Mapping):
        keys = [
            key
            for key in here
            if isinstance(key, str)
            and key
            and rest.startswith(key)
            and rest[len(key) :][:1] in ("", ".", "[")
        ]
        if keys:
            return max(keys, key=len)
    first = re.match(r"[^.\[]+", rest)
    return first[0] if first else rest


def install(app: FastAPI) -> None:
    """Register handlers with the application, which turn every error in a route into a problem response."""

    async def told(request: Request, problem: Exception) -> Response:
        if isinstance(problem, WeirError) and slug_of(problem) != "internal":
            return problem_response(problem, getattr(request.state, "body", None))
        LOG.error("%s %s", request.method, request.url.path, exc_info=problem)
        return told_as(KINDS["internal"], {"detail": "the error is in the log of the service"})

    async def invalid(_: Request, problem: Exception) -> Response:
        assert isinstance(problem, RequestValidationError)
        return told_as(*of_validation(problem))

    async def http(_: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        other = KINDS["malformed" if problem.status_code < 500 else "internal"]
        kind = next((kind for kind in KINDS.values() if kind.status == problem.status_code), other)
        return told_as(kind, {"detail": str(problem.detail)}, problem.headers)

    app.add_exception_handler(WeirError, told)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, told)


def of_validation(problem: RequestValidationError) -> tuple[ProblemKind, dict[str, Any]]:
    """Return the problem that lists pydantic's errors about the parameters or the body."""
    errors = [located(error) for error in problem.errors()[:20]]
    is_malformed = any(error["type"] == "json_invalid" for error in problem.errors())
    first = errors[0] if errors else {"detail": "not valid"}
    where = first.get("parameter") or first.get("pointer") or ""
    kind = KINDS["malformed" if is_malformed else "invalid"]
    return kind, {"detail": f"{where}: {first['detail']}", "errors": errors}


def located(error: Mapping[str, Any]) -> dict[str, str]:
    where, *path = error["loc"] or ("",)
    value = "" if error["type"] in ("missing", "json_invalid") else f" (got {shown(error['input'])})"
    detail = f"{error['msg']}{value}"
    if where == BODY:
        escaped = (str(part).replace("~", "~0").replace("/", "~1") for part in path)
        return {"pointer": "#" + "".join(f"/{part}" for part in escaped), "detail": detail}
    return {"parameter": ".".join(map(str, path)), "detail": detail}


PROBLEM_SCHEMA = {"$ref": "#/components/schemas/Problem"}


def responses(*slugs: str) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses for the problems with these slugs; `openapi.py` adds the problems common to all routes."""
    answers: dict[int | str, dict[str, Any]] = {}
    for slug in slugs:
        kind = KINDS[slug]
        answer = answers.setdefault(
            kind.status,
            {"description": "", "content": {MEDIA_TYPE: {"schema": PROBLEM_SCHEMA}}},
        )
        meaning = f"`{slug}`: {kind.title}."
        answer["description"] = f"{answer['description']} {meaning}".strip()
    return answers


BODY_PROBLEMS = responses("malformed", "too-large", "unsupported-media", "invalid")
"""OpenAPI responses for the problems of a route that reads a body."""
