"""Loading of YAML files into settings models, with errors that name file, field, value and remedy.

Only one problem is reported. An unknown key is reported first, because a misspelt key often causes other
problems. Hints are made from the model's schema, so that hints always match the rules of the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from configs.base import Settings
from configs.errors import Contradiction, InvalidInput, UnknownName, nearest

Model = TypeVar("Model", bound=Settings)
Schema = Mapping[str, Any]

# Maximum size of a settings file, which is written by hand: 10 MB.
FILE_BYTES_MAX = 10_000_000
# Maximum number of keys that merges (`<<`) add in all: nested merges can multiply the keys of a short text.
MERGED_MAX = 200_000
# Maximum number of characters of a number; longer numbers would take long to parse.
NUMBER_MAX = 400

A_NAME = "a letter, then letters, digits, `_`, `.` or `-`; 63 characters at most"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")
QUOTE_IT = "put the value in quotes if text is meant"

# Message for each type of pydantic's validation errors, for users who do not know pydantic.
COMPLAINTS: Mapping[str, str] = {
    "greater_than": "the value must be above {gt:g}",
    "greater_than_equal": "the value must be at least {ge:g}",
    "less_than": "the value must be below {lt:g}",
    "less_than_equal": "the value must be at most {le:g}",
    "finite_number": "the value must be a finite number",
    "float_type": "the value must be a number",
    "float_parsing": "the value must be a number",
    "int_type": "the value must be a whole number",
    "int_parsing": "the value must be a whole number",
    "int_parsing_size": "the value must be a whole number of fewer digits",
    "int_from_float": "the value must be a whole number",
    "bool_type": "the value must be true or false",
    "bool_parsing": "the value must be true or false",
    "string_type": "the value must be text",
    "string_too_short": "this is not a valid name",
    "string_too_long": "this is not a valid name",
    "string_pattern_mismatch": "this is not a valid name",
    "tuple_type": "the value must be a list",
    "dict_type": "the value must hold keys and values",
    "mapping_type": "the value must hold keys and values",
    "model_type": "the value must hold keys and values",
    "model_attributes_type": "the value must hold keys and values",
    "timezone_aware": "the value must have a time zone",
    "datetime_from_date_parsing": "this is not a valid time",
    "datetime_parsing": "this is not a valid time",
    "datetime_type": "this is not a valid time",
    "too_short": "the value must not be empty",
    "too_long": "the value must have at most {max_length} entries",
}

# Messages for errors about the length of a text, unless the text is a name.
TEXT_LENGTHS: Mapping[str, str] = {
    "string_too_short": "the value must not be empty",
    "string_too_long": "the value must have at most {max_length:,} characters",
}


def read_model(model: type[Model], path: Path) -> Model:
    """Return the settings of a YAML file as an object of the class `model`; raise InvalidInput for the first problem."""
    return parse_model(model, read_data(path), str(path))


def read_data(path: Path) -> object:
    """Return the data of a YAML file without validating it."""
    return parse_yaml(read_text(path), str(path))


def read_text(path: Path) -> str:
    """Return the text of a file; raise InvalidInput if it is larger than a settings file can be."""
    file = str(path)
    try:
        size = path.stat().st_size
        if size > FILE_BYTES_MAX:
            hint = "give a settings file of at most 10 MB, not a file of data"
            raise InvalidInput(
                f"the file has more than {FILE_BYTES_MAX:,} bytes", value=size, file=file, hint=hint
            )
        return path.read_text(encoding="utf-8")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        hint = "check the path and its permissions"
        raise InvalidInput(f"the file cannot be read: {why}", file=file, hint=hint) from None
    except UnicodeDecodeError as error:
        title = f"the file cannot be read: byte {error.start + 1} is not UTF-8 text"
        raise InvalidInput(title, file=file, hint="save the file as UTF-8") from None


def parse_model(model: type[Model], data: object, file: str = "") -> Model:
    """Return settings from the data of a file as an object of the class `model`; raise InvalidInput for the first problem."""
    if not isinstance(data, dict):
        required = ", ".join(name for name, field in model.model_fields.items() if field.is_required())
        title = "the file is empty" if data is None else "the file must be a map of keys to values"
        raise InvalidInput(title, value=data, file=file, hint=f"add the required keys: {required}")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise problem_of(error, model, file) from None


def is_name(text: str) -> bool:
    """Return True if `text` is a valid name."""
    return NAME.fullmatch(text) is not None


def parse_yaml(text: str, file: str = "") -> object:
    """Return the data of a YAML text."""
    with yaml_problems(file):
        return yaml.load(text, Loader=StrictLoader)


def parse_documents(text: str, file: str = "") -> list[object]:
    """Return the data of each document of a YAML text."""
    with yaml_problems(file):
        return list(yaml.load_all(text, Loader=StrictLoader))


def line_of(text: str, document: int, path: str) -> int:
    """Return the line of a field of a document. If the field is missing, return the line of the part in which the field belongs."""
    node = list(yaml.compose_all(text, Loader=StrictLoader))[document]
    line = node.start_mark.line + 1
    for part in re.findall(r"[^.\[\]]+", path):
        inside = entries(node)
        if part not in inside:
            break
        key, node = inside[part]
        line = key.start_mark.line + 1
    return line


def entries(node: yaml.Node | None) -> dict[str, tuple[yaml.Node, yaml.Node]]:
    """Return the entries of a YAML mapping or list, by key or number. Each entry is a pair: the node at which it begins, and its value."""
    match node:
        case yaml.MappingNode():
            return {str(key.value): (key, value) for key, value in node.value}
        case yaml.SequenceNode():
            return {str(number): (value, value) for number, value in enumerate(node.value)}
    return {}


@contextmanager
def yaml_problems(file: str) -> Iterator[None]:
    """Context that converts errors of the YAML parser into InvalidInput."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark, why = error.problem_mark, error.problem or error.context or "the file cannot be parsed"
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InvalidInput(
            f"the file is not valid YAML: {why}", where, hint=yaml_hint(why), file=file
        ) from None
    except yaml.YAMLError as error:
        why = str(error).splitlines()[0]
        hint = "the file must be plain text without control characters"
        raise InvalidInput(f"the file is not valid YAML: {why}", hint=hint, file=file) from None
    except RecursionError:
        hint = "use at most about ten levels"
        raise InvalidInput(
            "the file is not valid YAML: its values are nested too deeply", hint=hint, file=file
        ) from None
    except ValueError as error:  # The file has a date or a number that Python cannot represent.
        why = str(error).partition(";")[0]
        raise InvalidInput(
            f"the file contains a value out of range: {why}", hint=QUOTE_IT, file=file
        ) from None


def yaml_hint(why: str) -> str:
    if "given twice" in why:
        return "keep one of the two entries"
    if "'\\t'" in why:
        return "indent with spaces, not with tabs"
    if "end of stream" in why or "<stream end>" in why:
        return "close the bracket or the quote that this line opens"
    return "check indentation, brackets and quotes here and in the lines above"


class StrictLoader(yaml.SafeLoader):
    """Safe YAML loader that reports a key given twice instead of silently using the last value."""

    _merged = 0

    # Keys are checked before merged keys (`<<`) are added, because merged keys may repeat the mapping's own keys.
    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        keys: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in keys:
                    raise yaml.composer.ComposerError(
                        None, None, f"the key {key.value} is given twice", key.start_mark
                    )
                keys.add((key.tag, key.value))
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        for key, value in node.value:
            if key.tag != MERGE:
                continue
            for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if isinstance(source, yaml.MappingNode):
                    self.flatten_mapping(source)
                    self._merged += len(source.value) + 1
                if self._merged > MERGED_MAX:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the file has more than {MERGED_MAX:,} merged keys", node.start_mark
                    )
        super().flatten_mapping(node)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        check_digits(node)
        return int(super().construct_yaml_int(node))

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        check_digits(node)
        return float(super().construct_yaml_float(node))


MERGE, INT, FLOAT = (f"tag:yaml.org,2002:{name}" for name in ("merge", "int", "float"))
StrictLoader.add_constructor(INT, StrictLoader.construct_yaml_int)
StrictLoader.add_constructor(FLOAT, StrictLoader.construct_yaml_float)


def check_digits(node: yaml.ScalarNode) -> None:
    if len(node.value) > NUMBER_MAX:
        raise ValueError(f"the file contains a number of more than {NUMBER_MAX} characters")


# --- conversion of validation errors ----------------------------------------------------------------------------


def problem_of(error: ValidationError, model: type[BaseModel], file: str) -> InvalidInput:
    """Return the first unknown key of a validation error, or else its first error, as InvalidInput."""
    details = min(error.errors(), key=lambda one: one["type"] not in ("extra_forbidden", "invalid_key"))
    kind, location, value = details["type"], details["loc"], details["input"]
    context: Mapping[str, Any] = details.get("ctx", {})
    if location and location[-1] == "[key]":  # The key of a mapping is not a valid name.
        place = locate(model, location[:-2])
        return InvalidInput("this is not a valid name", place.path, value, A_NAME, file)
    place = locate(model, location)
    match kind:
        case "extra_forbidden" | "invalid_key":
            key, parent = str(location[-1]), locate(model, location[:-1]).schema
            return UnknownName("unknown key", place.path, key, nearest(key, properties(parent)), file)
        case "missing":
            hint = f"add `{location[-1]}:` with {wanted(place.schema)}"
            return InvalidInput("a required value is missing", place.path, hint=hint, file=file)
        case "union_tag_not_found":
            hint = f"add `kind:` with {wanted_kind(place.schema)}"
            return InvalidInput("a required value is missing", f"{place.path}.kind", hint=hint, file=file)
        case "union_tag_invalid":
            tag = str(context["tag"])
            return UnknownName(
                "there is no kind of this name",
                f"{place.path}.kind",
                tag,
                nearest(tag, kinds(place.schema)),
                file,
            )
        case "literal_error":
            hint = nearest(str(value), map(str, place.schema.get("enum", ())))
            return UnknownName("the value is not one of the allowed choices", place.path, value, hint, file)
        case "value_error" if isinstance(context["error"], Contradiction):
            contradiction: Contradiction = context["error"]
            return InvalidInput(
                contradiction.title,
                joined(place.path, contradiction.field),
                contradiction.value,
                contradiction.hint,
                file,
            )
    complaint = COMPLAINTS.get(kind, details["msg"][0].lower() + details["msg"][1:]).format(**context)
    if kind in TEXT_LENGTHS and "pattern" not in place.schema:
        complaint = TEXT_LENGTHS[kind].format(**context)
    if value is None:
        complaint = "the key has no value"
    return InvalidInput(complaint, place.path, value, hint_for(place.schema, value), file)


def joined(path: str, field: str) -> str:
    """Return a path extended by a field or by an entry of a list."""
    dot = "." if path and field and not field.startswith("[") else ""
    return f"{path}{dot}{field}"


@dataclass(frozen=True, slots=True)
class YamlPlace:
    """Field in which an error is, with the schema of the values that this field accepts."""

    path: str  # Path of the field, such as `classes[0].streams.readings`
    schema: Schema


def locate(model: type[BaseModel], location: tuple[int | str, ...]) -> YamlPlace:
    """Return the field and schema of pydantic's error location, without the tags that pydantic inserts for members of unions."""
    schema = model.model_json_schema()
    definitions: Schema = schema.get("$defs", {})
    path, node = "", resolved(schema, definitions)
    for part in location:
        if "oneOf" in node:
            child = node["discriminator"]["mapping"].get(part, "")
            node = resolved({"$ref": child}, definitions) if child else {}
            continue
        if "items" in node:
            path, child = f"{path}[{part}]", node["items"]
        else:
            path, child = f"{path}.{part}", child_schema(node, str(part))
        node = resolved(child, definitions)
    return YamlPlace(path.lstrip("."), node)


def child_schema(node: Schema, key: str) -> Schema:
    """Return the schema of a key's value: the key's own schema, or else the schema for values of any key of the mapping."""
    if key in properties(node):
        child: Schema = node["properties"][key]
        return child
    values = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
    return next((value for value in values if isinstance(value, dict)), {})


def resolved(node: Schema, definitions: Schema) -> Schema:
    """Return the schema that a reference or an optional type (`… or null`) stands for, with the default value that the field has."""
    default = {"default": node["default"]} if "default" in node else {}
    while True:
        if "$ref" in node:
            node = definitions[node["$ref"].rsplit("/", 1)[-1]]
        elif "anyOf" in node:
            node = next(option for option in node["anyOf"] if option.get("type") != "null")
        else:
            return {**node, **default}


def properties(node: Schema) -> list[str]:
    return list(node.get("properties", {}))


def kinds(node: Schema) -> list[str]:
    return list(node.get("discriminator", {}).get("mapping", {}))


# --- texts that say what to write instead ----------------------------------------------------------------------------------------


def hint_for(node: Schema, value: object) -> str:
    """Return a hint that says what to write instead of a wrong value."""
    if isinstance(value, str) and value in kinds(node):
        return f"write {{kind: {value}}}"
    hint = f"give {wanted(node)}"
    match node.get("default"):
        case bool(default):
            hint += f"; {str(default).lower()} if left out"
        case float(default):
            hint += f"; {default:g} if left out"
        case int(default):
            hint += f"; {default} if left out"
        case None | "":
            pass
        case _:
            hint += ", or leave it out"
    return hint


def wanted(node: Schema) -> str:
    """Return a description of the values that the schema accepts."""
    if "oneOf" in node:
        return "`kind:` and what that kind needs; " + wanted_kind(node)
    if "enum" in node:
        return "one of " + ", ".join(map(str, node["enum"]))
    if node.get("format") == "date-time":
        return "a time with its zone, such as 2027-01-04T06:00:00Z"
    match node.get("type"):
        case "number":
            return "a number" + bounds(node)
        case "integer":
            return "a whole number" + bounds(node)
        case "boolean":
            return "true or false"
        case "array":
            most = node.get("maxItems", 0)
            return "a list, each entry after a `-`" + (f", at most {most} entries" if 0 < most <= 10 else "")
        case "object":
            if not properties(node):
                return "one name or more, each with its own keys under it"
            required = node.get("required", ())
            keys = (
                "required are " + ", ".join(required)
                if required
                else "possible are " + ", ".join(properties(node))
            )
            return f"keys and values: {keys}"
        case "string":
            return f"a name: {A_NAME}" if "pattern" in node else "text, in quotes if it looks like a number"
    return "a value"


def wanted_kind(node: Schema) -> str:
    return "one of " + ", ".join(kinds(node))


def bounds(node: Schema) -> str:
    """Return the range of a number as a text: " from 0 to 1", " above 0", …"""
    least, above = node.get("minimum"), node.get("exclusiveMinimum")
    most, below = node.get("maximum"), node.get("exclusiveMaximum")
    if least is not None and most is not None:
        return f" from {least:g} to {most:g}"
    lower = f"above {above:g}" if above is not None else f"of at least {least:g}" if least is not None else ""
    upper = f"below {below:g}" if below is not None else f"at most {most:g}" if most is not None else ""
    words = " and ".join(part for part in (lower, upper) if part)
    return f" {words}" if words else ""
