"""The one base of all settings: frozen, closed (an unknown key is an error), finite numbers only."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Settings(BaseModel):
    """Frozen and closed; field names are the YAML keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True)


Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$")]


def off_for_false(value: object) -> object:
    return "off" if value is False else value


BareOff = BeforeValidator(off_for_false)
"""Of a choice that `off` is one of: YAML takes it for false where it has no quotes."""
