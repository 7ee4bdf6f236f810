"""Objects that a kubelet would need to start a pod. kwok starts nothing, so kwok does not notice missing objects."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.cluster.api import Api, Object
from tests.cluster.scripts import ScriptRuns

READ_S = 5.0


def containers(pod: Object) -> list[Object]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def is_done_or_ready(pod: Object) -> bool:
    if pod["status"].get("phase") == "Succeeded":
        return True
    conditions = {entry["type"]: entry["status"] for entry in pod["status"].get("conditions", [])}
    return pod["status"].get("phase") == "Running" and conditions.get("Ready") == "True"


def references(pod: Object) -> Iterator[tuple[str, str, str | None]]:
    """Yield the kind and name of each object that the pod needs, with the needed key. None instead of a key means all keys."""
    for container in containers(pod):
        for variable in container.get("env", []):
            source = variable.get("valueFrom", {})
            yield from needed("Secret", source.get("secretKeyRef"))
            yield from needed("ConfigMap", source.get("configMapKeyRef"))
        for source in container.get("envFrom", []):
            yield from needed("Secret", source.get("secretRef"))
            yield from needed("ConfigMap", source.get("configMapRef"))
    for secret in pod["spec"].get("imagePullSecrets", []):
        yield "Secret", secret["name"], None
    for volume in pod["spec"].get("volumes", []):
        yield from of_volume(volume)
    yield "ServiceAccount", pod["spec"].get("serviceAccountName", "default"), None


def of_volume(volume: Object) -> Iterator[tuple[str, str, str | None]]:
    if claim := volume.get("persistentVolumeClaim"):
        yield "PersistentVolumeClaim", claim["claimName"], None
    yield from of_files("Secret", volume.get("secret"), "secretName")
    yield from of_files("ConfigMap", volume.get("configMap"), "name")
    for source in volume.get("projected", {}).get("sources", []):
        yield from of_files("Secret", source.get("secret"), "name")
        yield from of_files("ConfigMap", source.get("configMap"), "name")


def of_files(kind: str, source: Object | None, name: str) -> Iterator[tuple[str, str, str | None]]:
    if source and not source.get("optional"):
        yield kind, source[name], None
        for item in source.get("items", []):
            yield kind, source[name], item["key"]


def needed(kind: str, source: Object | None) -> Iterator[tuple[str, str, str | None]]:
    if source and not source.get("optional"):
        yield kind, source["name"], source.get("key")


def missing_references(api: Api, pod: Object) -> list[str]:
    """Return the missing objects without which a kubelet would not start the pod."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    missing = []
    for kind, wanted, key in dict.fromkeys(references(pod)):
        found = api.find("v1", kind, wanted, namespace)
        if found is None:
            missing.append(f"pod {name} needs {kind} {wanted}, which does not exist")
        elif key is not None and key not in found.get("data", {}):
            missing.append(f"pod {name} needs key {key} of {kind} {wanted}, which does not exist")
    return missing


@dataclass
class PodWatch:
    """Recorder of every pod of a namespace, even of pods that are deleted soon after their creation."""

    api: Api
    namespace: str
    runs: ScriptRuns
    is_real: bool
    """True if a node runs the pods; otherwise their scripts run here."""
    pods: dict[str, Object] = field(default_factory=dict)
    """Last seen state, by name."""
    missing: dict[str, list[str]] = field(default_factory=dict)
    """What a pod lacked each time that it was looked at. Empty if it could have started once."""
    stop: threading.Event = field(default_factory=threading.Event)

    def follow(self) -> None:
        path = self.api.resource("v1", "Pod").path(self.namespace)
        version = ""
        while not self.stop.is_set():
            parameters = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(int(READ_S))}
            with self.api.client.stream("GET", path, params=parameters) as answer:
                for line in answer.iter_lines():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        version = ""
                        break
                    version = event["object"]["metadata"]["resourceVersion"]
                    self.add(event["object"])

    def add(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        self.pods[name] = pod
        if not self.is_real:
            self.runs.add(pod)
        if "deletionTimestamp" not in pod["metadata"] and self.missing.get(name) != []:
            self.missing[name] = missing_references(self.api, pod)

    def problems(self) -> list[str]:
        return [problem for found in self.missing.values() for problem in found]


@contextmanager
def watched_pods(api: Api, namespace: str, folder: Path, is_real: bool) -> Iterator[PodWatch]:
    # Each thread needs a separate client, because a watch keeps the connection of its client busy.
    runs = ScriptRuns(Api(api.address, api.ca, api.token), folder)
    watch = PodWatch(Api(api.address, api.ca, api.token), namespace, runs, is_real)
    failures: list[Exception] = []

    def run() -> None:
        try:
            watch.follow()
        except (httpx.HTTPError, ValueError, KeyError) as problem:
            failures.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield watch
    finally:
        watch.stop.set()
        thread.join()
        runs.join()
        watch.api.client.close()
    assert not failures, failures
