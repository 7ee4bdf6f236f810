"""Client of the Kubernetes API, and a function that waits until no problems remain."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import httpx

Object = dict[str, Any]
# Longest wait in seconds, enough for a busy machine. A test continues as soon as its condition holds.
WITHIN_S = 180.0
POLL_S = 0.2
# Status with which the server asks for the same request again later, for example while it prepares the storage of a new kind.
BUSY = {429, 503}
PROPAGATION = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}


class Refused(Exception):
    """Error for a request that the API server refused, with the message of the server."""


@dataclass(frozen=True)
class Resource:
    """A kind of objects, such as Pod, that the API server can store."""

    version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str]

    def path(self, namespace: str | None, name: str | None = None) -> str:
        base = f"/apis/{self.version}" if "/" in self.version else f"/api/{self.version}"
        within = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{base}{within}/{self.plural}" + (f"/{name}" if name else "")


@dataclass
class Api:
    """Client of the API server, with the rights of an administrator."""

    address: str
    ca: str
    token: str
    _resources: dict[tuple[str, str], Resource] = field(default_factory=dict)

    @cached_property
    def client(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.address,
            headers={"Authorization": f"Bearer {self.token}"},
            verify=ssl.create_default_context(cadata=self.ca),
            timeout=30.0,
            trust_env=False,
        )

    def request(self, method: str, path: str, body: Object | None = None, **parameters: str) -> Object:
        until = time.monotonic() + WITHIN_S
        answer = self.client.request(method, path, json=body, params=parameters)
        while answer.status_code in BUSY and time.monotonic() < until:
            time.sleep(POLL_S)
            answer = self.client.request(method, path, json=body, params=parameters)
        if answer.is_error:
            raise Refused(message_of(answer))
        found: Object = answer.json()
        return found

    def resource(self, version: str, kind: str) -> Resource:
        if (version, kind) not in self._resources:
            self._resources = {(found.version, found.kind): found for found in self.resources()}
        return self._resources[version, kind]

    def resources(self) -> Iterator[Resource]:
        """Yield every kind of object that the server stores, in the version that the server prefers."""
        groups = self.request("GET", "/apis")["groups"]
        for version in ("v1", *(group["preferredVersion"]["groupVersion"] for group in groups)):
            listed = self.request("GET", f"/apis/{version}" if "/" in version else f"/api/{version}")
            for entry in listed["resources"]:
                if "/" not in entry["name"]:
                    yield Resource(
                        version, entry["kind"], entry["name"], entry["namespaced"], frozenset(entry["verbs"])
                    )

    def create(self, document: Object, namespace: str | None = None, **parameters: str) -> Object:
        resource = self.resource(document["apiVersion"], document["kind"])
        return self.request("POST", resource.path(namespace), document, **parameters)

    def items(self, version: str, kind: str, namespace: str | None = None, labels: str = "") -> list[Object]:
        path = self.resource(version, kind).path(namespace)
        listed = self.request("GET", path, labelSelector=labels)["items"]
        # In a list, the server leaves out the kind of each object.
        return [{**found, "apiVersion": version, "kind": kind} for found in listed]

    def find(self, version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        try:
            return self.request("GET", self.resource(version, kind).path(namespace, name))
        except Refused as problem:
            if "not found" in str(problem):
                return None
            raise

    def delete(self, version: str, kind: str, name: str, namespace: str | None = None) -> None:
        self.request("DELETE", self.resource(version, kind).path(namespace, name), PROPAGATION)

    def patch(self, document: Object, change: Object, namespace: str | None = None) -> Object:
        """Merge `change` into the stored document."""
        resource = self.resource(document["apiVersion"], document["kind"])
        return self.patch_at(resource.path(namespace, document["metadata"]["name"]), change)

    def patch_at(self, path: str, change: Object) -> Object:
        kind = {"Content-Type": "application/merge-patch+json"}
        answer = self.client.patch(path, content=json.dumps(change), headers=kind)
        if answer.is_error:
            raise Refused(message_of(answer))
        found: Object = answer.json()
        return found


def message_of(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"{answer.status_code} {answer.text}"


def nothing() -> list[str]:
    return []


def wait_until_none(
    problems: Callable[[], list[str]], within_s: float = WITHIN_S, context: Callable[[], list[str]] = nothing
) -> None:
    """Poll until `problems` returns an empty list. After `within_s`, fail with the remaining problems and the lines of `context`."""
    until = time.monotonic() + within_s
    while remaining := problems():
        if time.monotonic() > until:
            raise AssertionError("\n".join([f"after {within_s:g} s:", *remaining, *context()]))
        time.sleep(POLL_S)
