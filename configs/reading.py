"""Reading a YAML file into a settings model, with errors that name file, field, value and remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from configs.base import Settings
from configs.problems import InvalidInput, UnknownName, nearest

Model = TypeVar("Model", bound=Settings)

# A settings file is written by hand; anything larger is not one.
FILE_BYTES_MAX = 10_000_000


def read_model(model: type[Model], path: Path) -> Model:
    """The validated model, or InvalidInput for the first thing that is wrong."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise InvalidInput(
                "the file is too large", value=path.stat().st_size, file=str(path), hint="at most 10 MB"
            )
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise InvalidInput("not valid YAML", file=str(path), hint=" ".join(str(error).split())) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot be read: {error}", file=str(path)) from None
    if not isinstance(data, dict):
        raise InvalidInput(
            "the file must hold keys and values", value=data, file=str(path), hint="start with `name: …`"
        )
    return parse_model(model, data, str(path))


def parse_model(model: type[Model], data: dict[str, Any], file: str = "") -> Model:
    """As `read_model`, of data already read."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise problem_of(error, model, data, file) from None


def problem_of(
    error: ValidationError, model: type[BaseModel], data: dict[str, Any], file: str
) -> InvalidInput:
    """The first error in our own words; unknown keys first, since they are usually the cause of the others."""
    found = sorted(error.errors(), key=lambda one: one["type"] != "extra_forbidden")[0]
    field = field_path(found["loc"], data)
    match found["type"]:
        case "extra_forbidden":
            key = str(found["loc"][-1])
            siblings = known_keys(model, found["loc"][:-1], data)
            return UnknownName("unknown key", field, key, nearest(key, siblings), file)
        case "missing":
            return InvalidInput("required, but missing", field, hint="add it", file=file)
        case "union_tag_invalid" | "union_tag_not_found":
            context = found.get("ctx", {})
            tag = context.get("tag")
            expected = [
                one.strip(" '") for one in str(context.get("expected_tags", "")).split(",") if one.strip()
            ]
            return UnknownName("no such kind", f"{field}.kind", tag, nearest(str(tag), expected), file)
        case "value_error":
            return InvalidInput(str(found["ctx"]["error"]), field, hint="change one of the two", file=file)
        case _:
            return InvalidInput(found["msg"][0].lower() + found["msg"][1:], field, found["input"], file=file)


def field_path(location: tuple[int | str, ...], data: object) -> str:
    """classes[0].streams.readings, without the union tags that pydantic puts between."""
    path, node = "", data
    for place, part in enumerate(location):
        last = place == len(location) - 1
        if isinstance(part, int):
            path += f"[{part}]"
            node = node[part] if isinstance(node, list) and part < len(node) else None
        elif isinstance(node, dict) and part in node:
            path += f".{part}"
            node = node[part]
        elif last and not (isinstance(node, dict) and node.get("kind") == part):
            path += f".{part}"
    return path.lstrip(".")


def known_keys(model: type[BaseModel], location: tuple[int | str, ...], data: object) -> list[str]:
    """The keys that would have been understood beside an unknown one."""
    schema = model.model_json_schema()
    definitions, node = schema.get("$defs", {}), schema
    for part in location:
        node = child_schema(resolved(node, definitions), part, definitions)
    return sorted(resolved(node, definitions).get("properties", {}))


def resolved(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        node = definitions[node["$ref"].rsplit("/", 1)[-1]]
    return node


def child_schema(node: dict[str, Any], part: int | str, definitions: dict[str, Any]) -> dict[str, Any]:
    if "oneOf" in node:  # a union: this part of the path is its tag
        target = node.get("discriminator", {}).get("mapping", {}).get(str(part))
        return {"$ref": target} if target else {}
    if isinstance(part, int):
        items: dict[str, Any] = node.get("items", {})
        return items
    properties = node.get("properties", {})
    child: dict[str, Any] = properties.get(part, {})
    if child:
        return child
    for key in ("additionalProperties", "patternProperties"):
        extra = node.get(key)
        if isinstance(extra, dict):
            value: dict[str, Any] = next(iter(extra.values())) if key == "patternProperties" else extra
            return value
    return {}
