"""Where scenarios stand, and of which kind they are: presets by name, files by path, each perhaps laid over another.

A scenario is of classes (`configs.scenario.scenario`) or of periodic queries (`configs.scenario.periodic_scenario`); `configs.scenario.scenarios` reads either.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from configs.errors import InvalidInput, UnknownName, nearest
from configs.yaml_loading import read_data

PRESETS = Path(__file__).parent / "presets"
EXTENDS_MAX = 5

ScenarioKind = Literal["classes", "periodic"]
SCENARIO_KINDS: tuple[ScenarioKind, ...] = get_args(ScenarioKind)
# Keys by which a file without `kind` shows that it is not of classes.
ONLY_PERIODIC = ("synopses", "groups", "drawn", "aggregates", "schedule")


@dataclass(frozen=True, slots=True)
class ScenarioData:
    """A scenario's file, and what it extends, not yet looked at but for its kind."""

    kind: ScenarioKind
    data: object
    file: str


def preset_names() -> list[str]:
    """Of scenarios of every kind."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def scenario_data(source: str) -> ScenarioData:
    """Of a preset by name, or a YAML file by path."""
    path = scenario_path(source, "SCENARIO", Path())
    data = extended(path)
    return ScenarioData(kind_of(data, str(path)), data, str(path))


def kind_of(data: object, file: str) -> ScenarioKind:
    """Classes, unless it says something else."""
    if not isinstance(data, dict):
        return "classes"
    if "kind" not in data and "classes" not in data:
        for key in ONLY_PERIODIC:
            if key in data:
                hint = f"add `kind: periodic`, which `{key}` belongs to"
                raise InvalidInput("required, but missing", "kind", hint=hint, file=file)
    stated = data.get("kind", "classes")
    for kind in SCENARIO_KINDS:
        if stated == kind:
            return kind
    raise UnknownName("no such kind", "kind", stated, nearest(str(stated), SCENARIO_KINDS), file)


def scenario_path(source: str, field: str, beside: Path) -> Path:
    """Where a scenario stands: among the presets by name, else at the path, relative to `beside`."""
    presets = preset_names()
    if source in presets:
        return PRESETS / f"{source}.yaml"
    path = beside / source
    if os.path.isfile(path) or "/" in source or source.endswith((".yaml", ".yml")):
        return path
    hint = f"give a preset's name or the path of a .yaml file; {nearest(source, presets)}"
    raise UnknownName("no such preset", field, source, hint)


def extended(path: Path, depth: int = 0) -> object:
    """The file's data laid over what it extends: mappings are merged, everything else is replaced."""
    data = read_data(path)
    if not isinstance(data, dict) or "extends" not in data:
        return data
    base = data.pop("extends")
    if not isinstance(base, str):
        hint = "give a preset's name or the path of a .yaml file"
        raise InvalidInput("must be one name", "extends", base, hint, str(path))
    if depth >= EXTENDS_MAX:
        hint = "let one scenario extend another that stands alone; perhaps two extend each other"
        raise InvalidInput(
            f"more than {EXTENDS_MAX} scenarios extend one another", "extends", base, hint, str(path)
        )
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
