"""Base class of all settings: immutable, with known keys only (an unknown key is an error), and with finite numbers only."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Settings(BaseModel):
    """Immutable settings that reject unknown keys; field names are the YAML keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True)


Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$")]


def off_for_false(value: object) -> object:
    return "off" if value is False else value


BareOff = BeforeValidator(off_for_false)
"""Validator for fields with the choice `off`, because YAML reads an unquoted `off` as false."""
