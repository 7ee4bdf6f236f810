"""Parser of request bodies in JSON or YAML, strict because anyone with a key may send anything.

Guarantees for the data that `read_data` returns:
1. No key occurs twice, no number is infinite, and no text holds characters that a database or a terminal cannot take.
2. Its depth and its number of values are limited, also if YAML aliases make the data larger than the text.

A body that violates a guarantee is refused with Malformed, or with InvalidInput if the body could be parsed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from pydantic import ValidationError

from configs.base import Settings
from configs.errors import InvalidInput, WeirError
from configs.yaml_loading import parse_documents, problem_of
from services.api.problems import Malformed, TooLarge, UnsupportedMedia

Model = TypeVar("Model", bound=Settings)

JSON = "application/json"
YAML = ("application/yaml", "text/yaml", "application/x-yaml", "text/x-yaml")
HINT = f"send `Content-Type: {JSON}` or `{YAML[0]}`"
# YAML parsing is a hundred times slower than JSON parsing, so YAML bodies must be smaller.
YAML_BYTES_MAX = 1 << 20
DEPTH_MAX = 64
NODES_MAX = 2_000_000


async def content_of(request: Request) -> bytes:
    return await request.body()


Content = Annotated[bytes, Depends(content_of)]


def media_type(request: Request) -> str:
    """Return the media type of the body, without parameters; JSON if there is no Content-Type."""
    media = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    return JSON if media.endswith("+json") else media


def read_data(request: Request, content: bytes) -> Any:
    """Return the only document in the body, and store it in `request.state` so that problems can point to its invalid values."""
    documents = read_all(request, content)
    if len(documents) != 1:
        raise InvalidInput(
            "the body must contain one document",
            value=len(documents),
            hint="send one document, or use /v1/apply for several documents",
        )
    request.state.body = documents[0]
    return documents[0]


def read_all(request: Request, content: bytes) -> list[Any]:
    """Return the documents of a YAML body, or the one value of a JSON body."""
    media = media_type(request)
    if media != JSON and media not in YAML:
        raise UnsupportedMedia("the body is neither JSON nor YAML", "header Content-Type", media, HINT)
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise UnsupportedMedia(
            "compressed bodies are not supported",
            "header Content-Encoding",
            encoding,
            "send the body uncompressed",
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise Malformed(
            f"byte {problem.start + 1} of the body is not UTF-8 text", hint="send UTF-8"
        ) from None
    documents = [of_json(text)] if media == JSON else of_yaml(text)
    check_data(documents)
    return documents


def read_model(model: type[Model], request: Request, content: bytes) -> Model:
    """Return the body as a pydantic model."""
    data = read_data(request, content)
    if not isinstance(data, dict):
        raise InvalidInput("the body must be an object of keys and values", value=data, hint="send an object")
    try:
        return model.model_validate(data)
    except ValidationError as problem:
        raise problem_of(problem, model, "") from None


def of_json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=without_repetition, parse_constant=no_number)
    except json.JSONDecodeError as problem:
        where = f"line {problem.lineno}, column {problem.colno}"
        raise Malformed(
            f"the body is not valid JSON: {problem.msg}", where, hint="send one JSON value"
        ) from None
    except RecursionError:
        raise Malformed(
            "the body is nested too deeply", hint=f"send at most {DEPTH_MAX} levels of nesting"
        ) from None
    except ValueError as problem:  # `json.loads` refuses, for example, a number with thousands of digits.
        why = str(problem).partition(";")[0].partition(" (")[0]
        raise Malformed(
            f"the body contains a value out of range: {why}", hint="send smaller numbers"
        ) from None


def without_repetition(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise Malformed("the key occurs twice in one object", value=key, hint="remove one of the entries")
        mapping[key] = value
    return mapping


def no_number(name: str) -> float:
    raise Malformed("NaN and Infinity are not JSON numbers", value=name, hint="send a finite number, or null")


def of_yaml(text: str) -> list[Any]:
    if len(text) > YAML_BYTES_MAX:
        raise TooLarge(
            f"the YAML body has more than {YAML_BYTES_MAX:,} characters",
            value=len(text),
            hint="send the documents as JSON",
        )
    try:
        return [document for document in parse_documents(text) if document is not None]
    except WeirError as problem:
        raise Malformed(problem.title, problem.field, problem.value, problem.hint) from None


# Path of a value in the body: the path of the enclosing object or list, and the key or index of the value. None stands for the whole body.
Way = tuple[Any, str | int] | None


def check_data(data: Sequence[Any]) -> None:
    """Raise Malformed if the documents are too deep or too large, and InvalidInput if a text in them is not valid Unicode."""
    left = NODES_MAX

    def check(here: object, depth: int, way: Way) -> None:
        nonlocal left
        left -= 1
        if depth > DEPTH_MAX or left < 0:
            what = (
                "the body is nested too deeply"
                if depth > DEPTH_MAX
                else "too many values with all aliases expanded"
            )
            raise Malformed(what, hint="send smaller documents")
        match here:
            case str():
                check_text(here, way)
            case Mapping():
                for key, value in here.items():
                    check_text(str(key), way)
                    check(value, depth + 1, (way, str(key)))
            case list():
                for place, item in enumerate(here):
                    check(item, depth + 1, (way, place))

    for document in data:
        check(document, 1, None)


def path_of(way: Way) -> str:
    """Return the path as text, as problems show it. To save time, paths become text only for errors, not for every value of a body."""
    parts = []
    while way is not None:
        way, part = way
        parts.append(f"[{part}]" if isinstance(part, int) else f".{part}")
    return "".join(reversed(parts)).lstrip(".")


def check_text(text: str, way: Way) -> None:
    if text.isprintable():
        return
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidInput(
            "the text contains the character NUL or half of a surrogate pair",
            path_of(way),
            text,
            "remove the character",
        )
