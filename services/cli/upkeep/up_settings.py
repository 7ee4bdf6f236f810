"""The settings of `weir up`: a file of settings, overridden by the options of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from configs.errors import InvalidInput
from configs.service.up_settings import UpSettings
from configs.yaml_loading import parse_model, read_data

Told = dict[str, tuple[str, Any]]
"""Mapping from an option to the path of the setting that it overrides and the given value, None if the option was not given."""


def settings_of(config: Path | None, options: Told) -> UpSettings:
    """Return the settings of the file and the options; an error names the option or the field with the wrong value."""
    given_values = {place: (option, value) for option, (place, value) in options.items() if value is not None}
    data = {} if config is None else read_data(config)
    if data is None:
        data = {}
    if not isinstance(data, dict):
        return parse_model(UpSettings, data, str(config))
    for place, (_, value) in given_values.items():
        part, name = place.split(".")
        said = data.get(part)
        data = {**data, part: {**(said if isinstance(said, dict) else {}), name: value}}
    try:
        return parse_model(UpSettings, data, "" if config is None else str(config))
    except InvalidInput as problem:
        if problem.field in given_values:
            problem.field, problem.file = given_values[problem.field][0], ""
        elif config is None:
            problem.field = next(
                (option for option, (place, _) in options.items() if place == problem.field), problem.field
            )
        raise
