"""Files of scenarios: presets are found by name, other files by path, and a file may extend another scenario.

A scenario describes classes (`configs.scenario.scenario`) or periodic queries (`configs.scenario.periodic_scenario`).
`configs.scenario.scenarios` reads both kinds.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from configs.errors import InvalidInput, UnknownName, nearest
from configs.yaml_loading import Model, parse_model, read_data

PRESETS = Path(__file__).parent / "presets"
EXTENDS_MAX = 5

ScenarioKind = Literal["classes", "periodic"]
SCENARIO_KINDS: tuple[ScenarioKind, ...] = get_args(ScenarioKind)
# Keys that occur only in scenarios of periodic queries. A file that has such a key needs `kind: periodic`.
ONLY_PERIODIC = ("synopses", "groups", "drawn", "aggregates", "schedule")


@dataclass(frozen=True, slots=True)
class ScenarioData:
    """Data of a scenario's file, merged with the scenario that it extends; only its kind has been checked."""

    kind: ScenarioKind
    data: object
    file: str


def preset_names() -> list[str]:
    """Return the names of all presets, whether of classes or of periodic queries."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def scenario_data(source: str) -> ScenarioData:
    """Return the data of a preset, given by name, or of a YAML file, given by path."""
    path = scenario_path(source, "SCENARIO", Path())
    data = extended(path)
    return ScenarioData(kind_of(data, str(path)), data, str(path))


def checked(
    model: type[Model], contradictions: Callable[[Model], Iterator[InvalidInput]], found: ScenarioData
) -> Model:
    """Return the scenario that a file contains; raise InvalidInput if a setting is invalid or contradicts another setting."""
    scenario = parse_model(model, found.data, found.file)
    for problem in contradictions(scenario):
        problem.file = found.file
        raise problem
    return scenario


def kind_of(data: object, file: str) -> ScenarioKind:
    """Return the kind of a scenario: the value of its key `kind`, or `classes` if the key is missing."""
    if not isinstance(data, dict):
        return "classes"
    if "kind" not in data and "classes" not in data:
        for key in ONLY_PERIODIC:
            if key in data:
                hint = f"add `kind: periodic`, since only such scenarios have `{key}`"
                raise InvalidInput("a required value is missing", "kind", hint=hint, file=file)
    stated = data.get("kind", "classes")
    for kind in SCENARIO_KINDS:
        if stated == kind:
            return kind
    raise UnknownName(
        "there is no kind of scenario with this name",
        "kind",
        stated,
        nearest(str(stated), SCENARIO_KINDS),
        file,
    )


def scenario_path(source: str, field: str, folder: Path) -> Path:
    """Return the path of the scenario `source`: the name of a preset, or else a path relative to `folder`."""
    presets = preset_names()
    if source in presets:
        return PRESETS / f"{source}.yaml"
    path = folder / source
    if os.path.isfile(path) or "/" in source or source.endswith((".yaml", ".yml")):
        return path
    hint = f"give a preset's name or the path of a .yaml file; {nearest(source, presets)}"
    raise UnknownName("there is no preset and no file of this name", field, source, hint)


def extended(path: Path, depth: int = 0) -> object:
    """Return a file's data merged into the scenario that the file extends: mappings are merged, all other values are replaced."""
    data = read_data(path)
    if not isinstance(data, dict) or "extends" not in data:
        return data
    base = data.pop("extends")
    if not isinstance(base, str):
        hint = "give a preset's name or the path of a .yaml file"
        raise InvalidInput("`extends` must be the name of one scenario", "extends", base, hint, str(path))
    if depth >= EXTENDS_MAX:
        hint = (
            "check whether two scenarios extend each other; end the chain with a scenario without `extends`"
        )
        title = f"the scenario extends a chain of more than {EXTENDS_MAX} scenarios"
        raise InvalidInput(title, "extends", base, hint, str(path))
    try:
        below = scenario_path(base, "extends", path.parent)
    except UnknownName as problem:
        problem.file = str(path)
        raise
    return overlaid(extended(below, depth + 1), data)


def overlaid(below: object, above: object) -> object:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {
        key: overlaid(below[key], value) if key in below else value for key, value in above.items()
    }
