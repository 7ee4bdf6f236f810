"""The chart rendered by the real helm, and schemas that check the rendered objects."""

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
# Parts of schemas for objects of other projects. Kubernetes' own schemas do not describe these objects.
POD_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"
TEXT, NUMBER, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
NAME: Object = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
NAMED_TEXT: Object = {"type": "object", "additionalProperties": TEXT}


def helm(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the helm of the package `helm-binary`, which is installed next to this Python."""
    program = shutil.which("helm", path=str(Path(sys.executable).parent))
    assert program is not None, "helm is missing: make setup"
    return subprocess.run([program, *arguments], input=stdin, capture_output=True, text=True, check=False)


def template(
    *files: Path, values: Mapping[str, Any] | None = None, version: str = VERSIONS[-1], chart: Path = CHART
) -> subprocess.CompletedProcess[str]:
    given = [argument for file in files for argument in ("--values", str(file))]
    given += ["--values", "-"] if values is not None else []
    text = None if values is None else yaml.safe_dump(dict(values))
    return helm(
        "template", RELEASE, str(chart), "-n", NAMESPACE, "--kube-version", f"{version}.0", *given, stdin=text
    )


def rendered(
    *files: Path, values: Mapping[str, Any] | None = None, version: str = VERSIONS[-1]
) -> list[Object]:
    done = template(*files, values=values, version=version)
    assert done.returncode == 0, done.stderr
    return [obj for obj in yaml.safe_load_all(done.stdout) if obj is not None]


@cache
def rendered_ci(file: Path) -> list[Object]:
    return rendered(file)


def of_kind(objects: Iterable[Object], kind: str) -> list[Object]:
    return [obj for obj in objects if obj["kind"] == kind]


def named(objects: Iterable[Object], kind: str, name: str) -> Object:
    (found,) = [obj for obj in of_kind(objects, kind) if obj["metadata"]["name"] == name]
    return found


def pods(objects: Iterable[Object]) -> Iterator[tuple[str, Object]]:
    """Yield each object's pod or pod template, with the name of the object."""
    for obj in objects:
        name, spec = f"{obj['kind']} {obj['metadata']['name']}", obj.get("spec", {})
        match obj["kind"]:
            case "Pod":
                yield name, obj
            case "Deployment" | "Job":
                yield name, spec["template"]
            case "RayCluster":
                yield f"{name} head", spec["headGroupSpec"]["template"]
                for group in spec["workerGroupSpecs"]:
                    yield f"{name} {group['groupName']}", group["template"]


def containers(pod: Object) -> list[Object]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


# -- schemas against which rendered objects are checked --------------------------------------------------------


def problems(obj: Object, version: str) -> list[str]:
    """Return the mistakes for which Kubernetes of this version would refuse the object or drop some of its fields."""
    match obj["apiVersion"].partition("/")[0]:
        case "ray.io":
            return against(envelope(RAY_CLUSTER), obj, version)
        case "gateway.networking.k8s.io":
            return against(HTTP_ROUTE, obj, version)
        case "monitoring.coreos.com":
            return against(monitoring_schema(obj["kind"]), obj, version)
    try:
        kubernetes_validate.validate(obj, version, strict=True)
    except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as problem:
        why = str(problem).partition("\n")[0] or type(problem).__name__
        return [f"{obj['kind']} {obj['metadata']['name']}: {why}"]
    return []


def against(schema: Object, obj: Object, version: str) -> list[str]:
    found = [
        f"{obj['kind']}.{'.'.join(map(str, error.absolute_path))}: {error.message}"
        for error in Draft7Validator(schema).iter_errors(obj)
    ]
    for name, pod in pods([obj]):
        # With a kind and a name, a pod template is a pod, which the schema of pods can check.
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
    upgradeStrategy=closed(["type"], type={"enum": ["Recreate", "None"]}),
    enableInTreeAutoscaling=FLAG,
    autoscalerOptions=closed(
        [],
        version={"enum": ["v1", "v2"]},
        upscalingMode={"enum": ["Default", "Aggressive", "Conservative"]},
        idleTimeoutSeconds=NUMBER,
        imagePullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
        resources={"type": "object"},
        securityContext={"type": "object"},
        volumeMounts={"type": "array"},
    ),
    gcsFaultToleranceOptions=closed(
        ["redisAddress"],
        redisAddress=TEXT,
        redisUsername=closed(["valueFrom"], valueFrom=closed(["secretKeyRef"], secretKeyRef=SECRET_KEY)),
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
    """Return the Prometheus operator's schema for a kind of object. The schema is changed to refuse unknown keys."""
    found: Object = deepcopy(getattr(monitoring, kind).model_json_schema(by_alias=True))
    for obj in (found, *found.get("$defs", {}).values()):
        if "properties" in obj:
            obj.setdefault("additionalProperties", False)
    return found


def quantity(text: str) -> float:
    """Convert a quantity of Kubernetes, such as `500m` or `2Gi`, into a number."""
    parts = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", text)
    assert parts is not None, text
    units = {"": 1.0, "m": 1e-3} | {
        unit: base ** (power + 1)
        for base, names in ((1000.0, ("k", "M", "G", "T")), (1024.0, ("Ki", "Mi", "Gi", "Ti")))
        for power, unit in enumerate(names)
    }
    return float(parts[1]) * units[parts[2]]
