"""What a request brings: JSON or YAML, read with care, since anybody who has a key may send anything.

Numbered properties of what `read_data` returns:
1. No key is given twice, no number is infinite, and no text holds what a database or a terminal cannot take.
2. It is no larger than it looks: neither deep nesting nor YAML's aliases make more of it.
Everything else is Malformed, or InvalidInput where it could be read.
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
# YAML is read a hundred times slower than JSON.
YAML_BYTES_MAX = 1 << 20
DEPTH_MAX = 64
NODES_MAX = 2_000_000


async def content_of(request: Request) -> bytes:
    return await request.body()


Content = Annotated[bytes, Depends(content_of)]


def media_type(request: Request) -> str:
    """Without its parameters; JSON where nothing is said."""
    media = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    return JSON if media.endswith("+json") else media


def read_data(request: Request, content: bytes) -> Any:
    """What the body holds; kept for the pointers of problems."""
    documents = read_all(request, content)
    if len(documents) != 1:
        raise InvalidInput(
            "one document is wanted here", value=len(documents), hint="send one, or use /v1/apply"
        )
    request.state.body = documents[0]
    return documents[0]


def read_all(request: Request, content: bytes) -> list[Any]:
    """The documents of YAML, or the one of JSON."""
    media = media_type(request)
    if media != JSON and media not in YAML:
        raise UnsupportedMedia("neither JSON nor YAML", "header Content-Type", media, HINT)
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise UnsupportedMedia(
            "bodies are not unpacked", "header Content-Encoding", encoding, "send it as it is"
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise Malformed(f"byte {problem.start + 1} is not UTF-8 text", hint="send UTF-8") from None
    documents = [of_json(text)] if media == JSON else of_yaml(text)
    check_data(documents)
    return documents


def read_model(model: type[Model], request: Request, content: bytes) -> Model:
    """What the body says, as a model."""
    data = read_data(request, content)
    if not isinstance(data, dict):
        raise InvalidInput("the body must hold keys and values", value=data, hint="send a JSON object")
    try:
        return model.model_validate(data)
    except ValidationError as problem:
        raise problem_of(problem, model, "") from None


def of_json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=without_repetition, parse_constant=no_number)
    except json.JSONDecodeError as problem:
        where = f"line {problem.lineno}, column {problem.colno}"
        raise Malformed(f"not valid JSON: {problem.msg}", where, hint="send one JSON value") from None
    except RecursionError:
        raise Malformed("nested too deeply", hint="no document needs more than some ten levels") from None
    except ValueError as problem:  # a number of thousands of digits
        why = str(problem).partition(";")[0].partition(" (")[0]
        raise Malformed(f"a value is out of its range: {why}", hint="send smaller numbers") from None


def without_repetition(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise Malformed("the key is given twice", value=key, hint="keep one of the two")
        mapping[key] = value
    return mapping


def no_number(name: str) -> float:
    raise Malformed("not a number that JSON has", value=name, hint="send a finite number, or null")


def of_yaml(text: str) -> list[Any]:
    if len(text) > YAML_BYTES_MAX:
        raise TooLarge(
            f"YAML may have {YAML_BYTES_MAX:,} characters here", value=len(text), hint="send the same as JSON"
        )
    try:
        return [document for document in parse_documents(text) if document is not None]
    except WeirError as problem:
        raise Malformed(problem.title, problem.field, problem.value, problem.hint) from None


# To a value from the whole: the way to what holds it, and its key or place in that.
Way = tuple[Any, str | int] | None


def check_data(data: Sequence[Any]) -> None:
    """Nothing in the documents harms anybody who takes them for what they look like."""
    left = NODES_MAX

    def check(here: object, depth: int, way: Way) -> None:
        nonlocal left
        left -= 1
        if depth > DEPTH_MAX or left < 0:
            what = "nested too deeply" if depth > DEPTH_MAX else "too many values, once aliases are followed"
            raise Malformed(what, hint="send less at a time")
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
    """As problems tell it. Made where there is one: of every value of a long list it would be far more than the list."""
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
            "not text: it holds NUL or half a character", path_of(way), text, "send Unicode text"
        )
