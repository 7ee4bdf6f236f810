"""Declarations as they are shown: without the secrets of sources, mirrors and sessions, which are never told to anybody again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from configs.documents.declarations import Declaration, Document, as_document, declared_in
from configs.documents.spark_streams import SECRET
from configs.errors import InvalidInput

if TYPE_CHECKING:
    from services.catalog.catalog import DeclarationChange

HIDDEN = "(hidden)"
# Mappings whose values may be secret.
SECRETIVE = ("options", "conf")


def shown_document(one: Declaration) -> dict[str, Any]:
    hidden: dict[str, Any] = without_secrets(as_document(one))
    return hidden


def without_secrets(data: Any, within: str = "") -> Any:
    """The same without the values that nobody is to read, which are options of sources and mirrors, and settings of Spark's."""
    if not isinstance(data, Mapping):
        return data
    return {
        key: HIDDEN if is_secret(key, within) else without_secrets(value, key) for key, value in data.items()
    }


def restored(one: Document, before: Declaration | None) -> Document:
    """With the secrets that were shown as hidden; the same if there are none of them."""
    written = as_document(one.declaration)
    try:
        whole = with_secrets(written, None if before is None else as_document(before))
    except InvalidInput as problem:
        problem.file = one.place
        raise
    return one if whole == written else declared_in(whole, one.place.partition(" (")[0])


def with_secrets(data: Any, before: Any, path: str = "") -> Any:
    """A document as it was shown, with the secrets that are there already; InvalidInput where there is none to keep."""
    if not isinstance(data, Mapping):
        return data
    old = before if isinstance(before, Mapping) else {}
    whole = {}
    for key, value in data.items():
        where = f"{path}.{key}".lstrip(".")
        if value == HIDDEN and is_secret(key, path.rpartition(".")[2]):
            if key not in old:
                hint = "say what it is; what is hidden stays as it is only where it is there already"
                raise InvalidInput("there is no secret to keep", where, HIDDEN, hint)
            whole[key] = old[key]
        else:
            whole[key] = with_secrets(value, old.get(key), where)
    return whole


def is_secret(key: object, within: str) -> bool:
    return within in SECRETIVE and SECRET.search(str(key)) is not None


# -- changes ---------------------------------------------------------------------------------------------------


def change_told(one: DeclarationChange) -> dict[str, Any]:
    """What has become of a declaration, field by field: before, and after."""
    ref = {
        "kind": one.ref.kind,
        **({"tenant": one.ref.tenant} if one.ref.tenant else {}),
        "name": one.ref.name,
    }
    before, after = without_secrets(one.before), without_secrets(one.after)
    changed = {field: [at(before, field), at(after, field)] for field in one.fields}
    return {**ref, "action": one.action, "fields": list(one.fields), "changes": changed}


def at(document: Any, field: str) -> Any:
    """The value at a path; keys of options have points of their own."""
    if not isinstance(document, dict):
        return None
    if field in document:
        return document[field]
    for key, value in document.items():
        if field.startswith(f"{key}."):
            return at(value, field.removeprefix(f"{key}."))
    return None
