"""Declarations as they are shown: without the secrets of sources, mirrors and sessions, which are never shown again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from configs.documents.declarations import Declaration, Document, as_document, declared_in
from configs.documents.spark_streams import SECRET
from configs.errors import InvalidInput

if TYPE_CHECKING:
    from services.catalog.catalog import DeclarationChange

HIDDEN = "(hidden)"
# Fields that hold a mapping of options to values; some of these values are secret.
SECRETIVE = ("options", "conf")


def shown_document(one: Declaration) -> dict[str, Any]:
    hidden: dict[str, Any] = without_secrets(as_document(one))
    return hidden


def without_secrets(data: Any, within: str = "") -> Any:
    """Return the data with secret values hidden: options of sources and mirrors, and settings of Spark."""
    if not isinstance(data, Mapping):
        return data
    return {
        key: HIDDEN if is_secret(key, within) else without_secrets(value, key) for key, value in data.items()
    }


def restored(one: Document, before: Declaration | None) -> Document:
    """Return the document with each hidden value replaced by the stored secret."""
    written = as_document(one.declaration)
    try:
        whole = with_secrets(written, None if before is None else as_document(before))
    except InvalidInput as problem:
        problem.file = one.place
        raise
    return one if whole == written else declared_in(whole, one.place.partition(" (")[0])


def with_secrets(data: Any, before: Any, path: str = "") -> Any:
    """Return data with each hidden value replaced by the value at the same path in `before`; raise InvalidInput if `before` has no such value."""
    if not isinstance(data, Mapping):
        return data
    old = before if isinstance(before, Mapping) else {}
    whole = {}
    for key, value in data.items():
        where = f"{path}.{key}".lstrip(".")
        if value == HIDDEN and is_secret(key, path.rpartition(".")[2]):
            if key not in old:
                hint = "write the secret itself; the placeholder stands only for a secret that was declared before"
                raise InvalidInput(
                    "the field has the placeholder for a hidden secret, but the catalog stores no secret for this field",
                    where,
                    HIDDEN,
                    hint,
                )
            whole[key] = old[key]
        else:
            whole[key] = with_secrets(value, old.get(key), where)
    return whole


def is_secret(key: object, within: str) -> bool:
    return within in SECRETIVE and SECRET.search(str(key)) is not None


def change_told(one: DeclarationChange) -> dict[str, Any]:
    """Return a change as JSON: the values of each changed field before and after the change, with secrets hidden."""
    ref = {
        "kind": one.ref.kind,
        **({"tenant": one.ref.tenant} if one.ref.tenant else {}),
        "name": one.ref.name,
    }
    before, after = without_secrets(one.before), without_secrets(one.after)
    changed = {field: [at(before, field), at(after, field)] for field in one.fields}
    return {**ref, "action": one.action, "fields": list(one.fields), "changes": changed}


def at(document: Any, field: str) -> Any:
    """Return the value at a dotted path; keys of options may themselves contain dots."""
    if not isinstance(document, dict):
        return None
    if field in document:
        return document[field]
    for key, value in document.items():
        if field.startswith(f"{key}."):
            return at(value, field.removeprefix(f"{key}."))
    return None
