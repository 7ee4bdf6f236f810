"""Policies and schedules as texts for options and claims: a kind, and the settings that differ from the defaults.

Examples: `hr`, `fas:beta=0.25`, `hybrid:late=off,meetings=false`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from pydantic import AfterValidator, TypeAdapter, ValidationError

from configs.base import Settings
from configs.errors import Contradiction, InvalidInput, UnknownName, nearest
from configs.yaml_loading import problem_of

Member = TypeVar("Member", bound=Settings)


def settings_of_text(
    text: str,
    union: TypeAdapter[Member],
    kinds: Sequence[str],
    what: str,
    example: str,
    usual: Mapping[str, object],
) -> Member:
    """Return the settings that a text names. `usual` has the default values of settings; `what` names the option in errors."""
    option = f"--{what}"
    kind, _, rest = text.partition(":")
    if kind not in kinds:
        raise UnknownName(f"there is no {what} of this name", option, kind, nearest(kind, kinds))
    settings: dict[str, object] = {"kind": kind}
    for part in rest.split(",") if rest else ():
        key, equals, value = part.partition("=")
        if not equals:
            raise InvalidInput("a setting is not of the form NAME=VALUE", option, part, f"write {example}")
        settings[key] = value
    model = type(union.validate_python({"kind": kind}))
    try:
        return union.validate_python(model.model_validate({**usual, **settings}))
    except ValidationError as error:
        problem = problem_of(error, model, "")
        if problem.field in settings.keys() - model.model_fields:
            names = ", ".join(name for name in model.model_fields if name != "kind")
            problem.hint = f"{kind} has the settings {names or 'none'}"
        problem.field = f"{option} {kind}:{problem.field}"
        raise problem from None


def text_of(kind: str, settings: Mapping[str, object]) -> str:
    """Return the text that names a kind with these settings."""
    words = ",".join(f"{name}={value}" for name, value in settings.items())
    return f"{kind}:{words}" if words else kind


def checked_text(parse: Callable[[str], object], what: str) -> AfterValidator:
    """Return a validator for texts from files, where the name of the command-line option would be wrong in an error."""

    def check(text: str) -> str:
        try:
            parse(text)
        except InvalidInput as problem:
            field = problem.field.removeprefix(f"--{what}").strip()
            title = f"{field}: {problem.title}" if field else problem.title
            raise Contradiction(title, value=problem.value, hint=problem.hint) from None
        return text

    return AfterValidator(check)
