"""The chart, rendered by the real helm, and schemas that what comes out of it must keep to."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml
from cloudcoil.models.prometheus_operator import v1 as monitoring
from jsonschema import Draft7Validator

CHART = Path(__file__).parents[2] / "helm" / "weir"
CI = sorted((CHART / "ci").glob("*-values.yaml"))
VERSIONS = ("1.29", "1.30", "1.31", "1.32", "1.33", "1.34")
RELEASE, NAMESPACE = "east", "streams"
Object = dict[str, Any]
# Kinds of others, which Kubernetes' own schemas do not know.
POD_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"
TEXT, NUMBER, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
NAME: Object = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
NAMED_TEXT: Object = {"type": "object", "additionalProperties": TEXT}


def helm(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """The program of the package `helm-binary`, which lies beside this Python."""
    program = shutil.which("helm", path=str(Path(sys.executable).parent))
    assert program is not None, "helm is missing: make setup"
    return subprocess.run([program, *arguments], input=stdin, capture_output=True, text=True, check=False)


def template(
    *files: Path, values: Mapping[str, Any] | None = None, version: str = VERSIONS[-1], chart: Path = CHART
) -> subprocess.CompletedProcess[str]:
    given = [argument for file in files for argument in ("--values", str(file))]
    given += ["--values", "-"] if values is not None else []
    said = None if values is None else yaml.safe_dump(dict(values))
    return helm(
        "template", RELEASE, str(chart), "-n", NAMESPACE, "--kube-version", f"{version}.0", *given, stdin=said
    )


def rendered(
    *files: Path, values: Mapping[str, Any] | None = None, version: str = VERSIONS[-1]
) -> list[Object]:
    done = template(*files, values=values, version=version)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one is not None]


@cache
def of_ci(file: Path) -> list[Object]:
    return rendered(file)


def of_kind(objects: Iterable[Object], kind: str) -> list[Object]:
    return [one for one in objects if one["kind"] == kind]


def named(objects: Iterable[Object], kind: str, name: str) -> Object:
    (found,) = [one for one in of_kind(objects, kind) if one["metadata"]["name"] == name]
    return found


def pods(objects: Iterable[Object]) -> Iterator[tuple[str, Object]]:
    """All pods or templates of them, each with its metadata and spec, by what they are of."""
    for one in objects:
        name, spec = f"{one['kind']} {one['metadata']['name']}", one.get("spec", {})
        match one["kind"]:
            case "Pod":
                yield name, one
            case "Deployment" | "Job":
                yield name, spec["template"]
            case "RayCluster":
                yield f"{name} head", spec["headGroupSpec"]["template"]
                for group in spec["workerGroupSpecs"]:
                    yield f"{name} {group['groupName']}", group["template"]


def containers(pod: Object) -> list[Object]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


# -- schemas ---------------------------------------------------------------------------------------------------


def problems(one: Object, version: str) -> list[str]:
    """Why a cluster of this version would refuse it, or drop a part of it; a kind that nobody knows is a problem."""
    match one["apiVersion"].partition("/")[0]:
        case "ray.io":
            return against(envelope(RAY_CLUSTER), one, version)
        case "gateway.networking.k8s.io":
            return against(HTTP_ROUTE, one, version)
        case "monitoring.coreos.com":
            return against(monitoring_schema(one["kind"]), one, version)
    try:
        kubernetes_validate.validate(one, version, strict=True)
    except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as problem:
        why = str(problem).partition("\n")[0] or type(problem).__name__
        return [f"{one['kind']} {one['metadata']['name']}: {why}"]
    return []


def against(schema: Object, one: Object, version: str) -> list[str]:
    found = [
        f"{one['kind']}.{'.'.join(map(str, error.absolute_path))}: {error.message}"
        for error in Draft7Validator(schema).iter_errors(one)
    ]
    for name, pod in pods([one]):
        # A pod is a template with a kind.
        whole = {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {"name": "any", **pod["metadata"]}}
        found += [f"{name}: {problem}" for problem in problems(whole, version)]
    return found


def closed(required: Iterable[str], **properties: Object) -> Object:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def envelope(spec: Object) -> Object:
    return closed(
        ["apiVersion", "kind", "metadata", "spec"],
        apiVersion=TEXT,
        kind=TEXT,
        metadata=closed(["name"], name=NAME, namespace=NAME, labels=NAMED_TEXT, annotations=NAMED_TEXT),
        spec=spec,
    )


SECRET_KEY = closed(["name", "key"], name=TEXT, key=TEXT)
RAY_CLUSTER = closed(
    ["rayVersion", "headGroupSpec", "workerGroupSpecs"],
    rayVersion=TEXT,
    authOptions=closed(["mode"], mode={"enum": ["disabled", "token"]}, secretName=NAME),
    enableInTreeAutoscaling=FLAG,
    autoscalerOptions=closed(
        [],
        version={"enum": ["v1", "v2"]},
        upscalingMode={"enum": ["Default", "Aggressive", "Conservative"]},
        idleTimeoutSeconds=NUMBER,
        imagePullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
        resources={"type": "object"},
        securityContext={"type": "object"},
    ),
    gcsFaultToleranceOptions=closed(
        ["redisAddress"],
        redisAddress=TEXT,
        redisPassword=closed(["valueFrom"], valueFrom=closed(["secretKeyRef"], secretKeyRef=SECRET_KEY)),
        externalStorageNamespace=TEXT,
    ),
    headGroupSpec=closed(
        ["rayStartParams", "template"], rayStartParams=NAMED_TEXT, template={"type": "object"}
    ),
    workerGroupSpecs={
        "type": "array",
        "minItems": 1,
        "items": closed(
            ["groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"],
            groupName=NAME,
            replicas=NUMBER,
            minReplicas=NUMBER,
            maxReplicas=NUMBER,
            rayStartParams=NAMED_TEXT,
            template={"type": "object"},
        ),
    },
)
HTTP_ROUTE = envelope(
    closed(
        ["parentRefs", "rules"],
        parentRefs={
            "type": "array",
            "items": closed(["name"], name=NAME, namespace=NAME, sectionName=TEXT),
        },
        hostnames={"type": "array", "items": TEXT},
        rules={
            "type": "array",
            "items": closed(
                ["backendRefs"],
                matches={
                    "type": "array",
                    "items": closed(
                        ["path"], path=closed(["type", "value"], type={"enum": ["PathPrefix"]}, value=TEXT)
                    ),
                },
                backendRefs={"type": "array", "items": closed(["name", "port"], name=NAME, port=NUMBER)},
            ),
        },
    )
)


@cache
def monitoring_schema(kind: str) -> Object:
    """The operator's, with every key that it does not know refused."""
    found: Object = deepcopy(getattr(monitoring, kind).model_json_schema(by_alias=True))
    for one in (found, *found.get("$defs", {}).values()):
        if "properties" in one:
            one.setdefault("additionalProperties", False)
    return found


def quantity(text: str) -> float:
    """Of Kubernetes', as a number."""
    parts = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", text)
    assert parts is not None, text
    units = {"": 1.0, "m": 1e-3} | {
        unit: base ** (power + 1)
        for base, names in ((1000.0, ("k", "M", "G", "T")), (1024.0, ("Ki", "Mi", "Gi", "Ti")))
        for power, unit in enumerate(names)
    }
    return float(parts[1]) * units[parts[2]]
