"""What went wrong, as RFC 9457 has it: a WeirError becomes `application/problem+json`.

    type    urn:weir:problem:SLUG, by which programs tell one from another
    title   the same for all of a type
    detail  what is wrong here, with the offending value;  hint  what to do
    errors  where in the body (`pointer`), or which parameter or header

What is no problem on purpose is 500 and told to the log alone: the caller learns nothing of our insides.
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
# Fields that are no part of a body begin so.
PARAMETERS = ("?", "header ")
LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A type of problem."""

    slug: str
    status: int
    title: str


KINDS: Mapping[str, ProblemKind] = {
    kind.slug: kind
    for kind in (
        ProblemKind("malformed", 400, "The request cannot be read"),
        ProblemKind("unauthenticated", 401, "A valid key is needed"),
        ProblemKind("forbidden", 403, "The key may not do that"),
        ProblemKind("not-found", 404, "There is no such thing"),
        ProblemKind("method-not-allowed", 405, "That cannot be done with it"),
        ProblemKind("not-acceptable", 406, "It cannot be answered in that form"),
        ProblemKind("in-use", 409, "Something else needs it"),
        ProblemKind("would-miss-target", 409, "A delay target would be missed"),
        ProblemKind("rows-forgotten", 410, "Rows after that cursor are no longer kept"),
        ProblemKind("version-differs", 412, "It was changed meanwhile"),
        ProblemKind("too-large", 413, "The body has too many bytes"),
        ProblemKind("unsupported-media", 415, "The body is not of a kind that is read"),
        ProblemKind("invalid", 422, "The request says something that cannot be"),
        ProblemKind("too-many-requests", 429, "Too many requests"),
        ProblemKind("head-too-large", 431, "Path and headers have too many bytes"),
        ProblemKind("internal", 500, "Something went wrong within Weir"),
        ProblemKind("not-running", 503, "Nothing runs that could answer"),
        ProblemKind("catalog-away", 503, "The catalog does not answer"),
    )
}
# Of what the framework refuses by itself.
BY_STATUS = {400: "malformed", 401: "unauthenticated", 403: "forbidden", 404: "not-found"} | {
    405: "method-not-allowed",
    406: "not-acceptable",
    413: "too-large",
    415: "unsupported-media",
}


@dataclass(eq=False)
class ApiProblem(WeirError):
    """A problem of the service's own."""

    extra: Mapping[str, object] = field(default_factory=dict)
    """Members beside those that every problem has."""
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
    """`extra` holds the plan."""

    slug = "would-miss-target"


class RowsForgottenProblem(ApiProblem):
    """`extra` holds `next`, the cursor to go on from."""

    slug = "rows-forgotten"


class TooLarge(ApiProblem):
    slug = "too-large"


class UnsupportedMedia(ApiProblem):
    slug = "unsupported-media"


class TooManyRequests(ApiProblem):
    """`headers` say when to come again."""

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
    """The header, in whole seconds."""
    return {"Retry-After": str(max(RETRY_AFTER_S, int(-(-seconds // 1))))}


# -- as it is sent ---------------------------------------------------------------------------------------------


def problem_response(problem: WeirError, body: object = None) -> Response:
    """As the caller sees it; with the body as it was parsed, pointers are exact."""
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
    # A value that is shown may hold what is no text.
    return Response(
        orjson.dumps(encodable(content)), kind.status, headers=dict(headers or {}), media_type=MEDIA_TYPE
    )


def encodable(value: Any) -> Any:
    """The same without what cannot be in JSON."""
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


# How the document of a body is called, and those of a body that holds several.
BODY = "body"
IN_BODY = re.compile(r"documents\[(\d+)\](?: \(.*\))?", re.DOTALL)


def is_of_body(file: str) -> bool:
    """Whether it is about the only document there is, which needs no name."""
    return file == BODY or file.startswith(f"{BODY} (")


def errors_of(problem: WeirError, body: object) -> Iterator[dict[str, str | int]]:
    """Where it is; nothing for what is not about a place in the body."""
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
    """As a pointer; the whole body is meant where it does not agree with something else."""
    match = IN_BODY.fullmatch(problem.file)
    if match is not None:
        place, documents = int(match[1]), body.get("documents") if isinstance(body, Mapping) else None
        within = documents[place] if isinstance(documents, list) and place < len(documents) else None
        return f"/documents/{place}" + pointer_of(problem.field, within)
    return "" if problem.file and not is_of_body(problem.file) else pointer_of(problem.field, body)


def pointer_of(field_: str, document: object = None) -> str:
    """`a.b[2]` as a JSON pointer; keys may hold points of their own, which the document tells."""
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
    """The longest key of the document that the path goes on with."""
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


# -- what the framework finds ----------------------------------------------------------------------------------


def install(app: FastAPI) -> None:
    """Whatever goes wrong in a route is told as a problem."""

    async def told(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, WeirError)
        if slug_of(problem) == "internal":
            LOG.error("%s %s", request.method, request.url.path, exc_info=problem)
            return told_as(KINDS["internal"], {"detail": "it is in the log of the service"})
        return problem_response(problem, getattr(request.state, "body", None))

    async def invalid(_: Request, problem: Exception) -> Response:
        assert isinstance(problem, RequestValidationError)
        return told_as(*of_validation(problem))

    async def http(_: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        slug = BY_STATUS.get(problem.status_code, "malformed" if problem.status_code < 500 else "internal")
        return told_as(KINDS[slug], {"detail": str(problem.detail)}, problem.headers)

    async def internal(request: Request, problem: Exception) -> Response:
        LOG.error("%s %s", request.method, request.url.path, exc_info=problem)
        return told_as(KINDS["internal"], {"detail": "it is in the log of the service"})

    app.add_exception_handler(WeirError, told)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, internal)


def of_validation(problem: RequestValidationError) -> tuple[ProblemKind, dict[str, Any]]:
    """What pydantic has found in parameters and bodies that a route has declared."""
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


# -- as it is described ----------------------------------------------------------------------------------------


PROBLEM_SCHEMA = {"$ref": "#/components/schemas/Problem"}


def responses(*slugs: str) -> dict[int | str, dict[str, Any]]:
    """For the description of a route: the problems that it has beside those that all have."""
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
"""Problems of a route that reads a body."""
