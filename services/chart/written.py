"""values.yaml, values.schema.json and README.md of the chart, from one model.

Every key of values.yaml has its docstring above it; the README lists all keys, also those that values.yaml need not say.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from configs.service.chart_values import ChartValues

FOLDER = Path(__file__).parents[2] / "helm" / "weir"
DRAFT_07 = "http://json-schema.org/draft-07/schema#"
WIDTH = 118
WRITTEN_BY = "Written by `make chart` from configs/service/chart_values.py."
# Lists of documents, and what a group of workers may say again; the README tells of them in words.
IN_WORDS = ("PriorityClassValues", "TenantValues", "MirrorValues", "WorkerGroup")
INTRODUCTION = """# The chart of Weir

A Ray cluster whose head runs the coordinator, the service and its metrics, workers that run queries, and Spark that brings
streams. `docs/operations.md` leads from installing it to running it for years.

Needed before: Kubernetes 1.29 or newer and the KubeRay operator 1.6 or newer with its CRDs; for `monitoring`, Prometheus'
operator. The chart is tested with Helm 3.17; Helm 4 reads such charts too, and was not tried.

```console
$ helm install weir helm/weir --namespace weir --create-namespace -f values.yaml
$ helm test weir --namespace weir
```

Files for a start: `ci/minimal-values.yaml` (one worker, SQLite), `ci/production-values.yaml` (PostgreSQL, TLS, monitoring,
network policies), `ci/ha-values.yaml` (Redis for Ray's tables, spread workers, an autoscaler), `ci/no-spark-values.yaml`.

A secret is never in a ConfigMap: wherever one is needed, `existingSecret` names yours.

## Values
"""


def written() -> dict[str, str]:
    """By file of the chart."""
    return {
        "values.yaml": f"# {WRITTEN_BY}\n" + "".join(as_yaml(ChartValues())),
        "values.schema.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
        "README.md": readme(),
    }


# -- the schema ------------------------------------------------------------------------------------------------


def schema() -> dict[str, Any]:
    """Draft 7, which is what Helm reads."""
    schema_ = ChartValues.model_json_schema(by_alias=True)
    # Helm adds `global` to the values of every chart.
    schema_["properties"]["global"] = {"type": "object"}
    cleaned: dict[str, Any] = without_titles(schema_)
    return {"$schema": DRAFT_07, **cleaned, "title": "Values of the chart of Weir"}


def without_titles(node: Any) -> Any:
    """Nor what only OpenAPI knows. A property may be called `title`."""
    if isinstance(node, list):
        return [without_titles(item) for item in node]
    if not isinstance(node, dict):
        return node
    node_ = {
        key: {name: without_titles(part) for name, part in value.items()}
        if key in ("properties", "$defs")
        else without_titles(value)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str)) and key != "discriminator"
    }
    if "patternProperties" in node_:
        # Keys that are no names.
        node_.setdefault("additionalProperties", False)
    if "$ref" in node_:
        # Beside a reference draft 7 reads nothing else.
        return {"$ref": node_["$ref"]}
    return node_


# -- values.yaml -----------------------------------------------------------------------------------------------


def as_yaml(one: BaseModel, depth: int = 0) -> Iterator[str]:
    indent = "  " * depth
    docs = docs_of(type(one))
    for name, info in type(one).model_fields.items():
        value = getattr(one, name)
        if value is None or (is_foreign(type(one)) and name not in one.model_fields_set):
            continue
        said = docs.get(name) or doc_of(value)
        for line in said.splitlines():
            yield f"{indent}# {line}\n"
        key = info.alias or name
        if isinstance(value, BaseModel) and (nested := list(as_yaml(value, depth + 1))):
            yield f"{indent}{key}:\n"
            yield from nested
        elif (
            isinstance(value, dict) and value and all(isinstance(part, BaseModel) for part in value.values())
        ):
            yield f"{indent}{key}:\n"
            for part, settings in value.items():
                yield f"{indent}  {part}:\n"
                yield from as_yaml(settings, depth + 2)
        else:
            shown = yaml.safe_dump({key: plain(value)}, sort_keys=False, width=WIDTH, allow_unicode=True)
            yield from (f"{indent}{line}\n" for line in shown.splitlines())


def is_foreign(model: type[BaseModel]) -> bool:
    """What `weir up` has a default for need not be said here again."""
    return model.__module__ in (
        "configs.service.up_settings",
        "configs.classes.live_class",
        "configs.service.service_settings",
        "configs.classes.load_manager",
    )


def plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


# -- the README ------------------------------------------------------------------------------------------------


def readme() -> str:
    rows = "".join(f"| `{key}` | {default} | {meaning} |\n" for key, default, meaning in all_rows())
    return f"{INTRODUCTION}\n{WRITTEN_BY}\n\n| key | default | meaning |\n|---|---|---|\n{rows}"


def all_rows() -> Iterator[tuple[str, str, str]]:
    """Of every value: its key, its default, what it means."""
    yield from rows_of(ChartValues, ChartValues(), "")


def rows_of(model: type[BaseModel], one: BaseModel, before: str) -> Iterator[tuple[str, str, str]]:
    docs = docs_of(model)
    for name, info in model.model_fields.items():
        value, key = getattr(one, name), f"{before}{info.alias or name}"
        said = " ".join((docs.get(name) or doc_of(value) or elsewhere(model)).split())
        inner = model_in(info)
        if isinstance(value, BaseModel):
            yield from rows_of(type(value), value, f"{key}.")
        elif inner is not None and inner.__name__ in IN_WORDS:
            yield key, shown(plain(value)), f"{said} Keys: {', '.join(keys_of(inner))}"
        else:
            yield key, shown(plain(value)), said


def elsewhere(model: type[BaseModel]) -> str:
    """What a scenario has, too, is described with it."""
    return "see `docs/scenarios.md`" if is_foreign(model) else ""


def keys_of(model: type[BaseModel]) -> list[str]:
    return [f"`{info.alias or name}`" for name, info in model.model_fields.items() if name != "kind"]


def model_in(info: FieldInfo) -> type[BaseModel] | None:
    """Of a list or a mapping."""
    for part in get_args(info.annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None


def shown(value: object) -> str:
    if value is None:
        return "none"
    text = json.dumps(value, ensure_ascii=False)
    return f"`{text}`"


# -- docstrings ------------------------------------------------------------------------------------------------


def doc_of(value: object) -> str:
    """Of a part, what its model says of itself."""
    return inspect.cleandoc(type(value).__doc__ or "") if isinstance(value, BaseModel) else ""


@cache
def docs_of(model: type[BaseModel]) -> Mapping[str, str]:
    """What stands under each field, also of the models before it."""
    docs: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if base in (BaseModel, object) or not issubclass(base, BaseModel):
            continue
        (body,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(base))).body
        assert isinstance(body, ast.ClassDef)
        for field, after in zip(body.body, body.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                match after:
                    case ast.Expr(ast.Constant(str(text))):
                        docs[field.target.id] = inspect.cleandoc(text)
    return docs
