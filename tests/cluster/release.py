"""A release of the chart in a separate namespace, on a real control plane."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.cluster.api import Object, Refused, wait_until_none
from tests.cluster.control_plane import ControlPlane
from tests.cluster.pods import PodWatch, is_done_or_ready, watched_pods

CHART = Path(__file__).parents[2] / "helm" / "weir"
PREREQUISITES = Path(__file__).parent / "prerequisites"
NAME = "east"
HELM_WITHIN = "150s"
REMEDIES = {"spec.authOptions.secretName": ["--set", "ray.auth.existingSecret="]}
"""Options to install the chart with an operator that does not know a field, by field."""
HANGS_S = 30.0
KEPT = "helm.sh/resource-policy"
RAY = ("ray.io/v1", "RayCluster")
RAY_PODS = "app.kubernetes.io/instance=east,app.kubernetes.io/component in (head,worker)"
# Kinds of objects that only record what happened; no controller acts on such an object.
RECORDS = {"Event"}


def key_of(document: Object) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


def chart_values() -> list[str]:
    """Names of the values files of `helm/weir/ci`."""
    return [file.name.removesuffix("-values.yaml") for file in sorted((CHART / "ci").glob("*-values.yaml"))]


@dataclass
class Release:
    plane: ControlPlane
    namespace: str
    values: str
    watch: PodWatch
    before: set[str]
    """Objects of the namespace before the installation."""
    remedies: list[str] = field(default_factory=list)
    """Options without which the chart refuses this version of the operator."""

    def helm(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        program = shutil.which("helm", path=str(Path(sys.executable).parent))
        assert program is not None, "helm is missing: make setup"
        return subprocess.run(
            [program, "--kubeconfig", self.plane.kubeconfig, "--namespace", self.namespace, *arguments],
            env={"HOME": str(self.plane.folder), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )

    def run_helm(self, *arguments: str) -> str:
        """Run helm and return its output. If helm fails, fail with the message of helm and the problems of the namespace."""
        done = self.helm(*arguments)
        problems = "" if done.returncode == 0 else "\n".join([*self.problems(), *self.warnings()])
        assert done.returncode == 0, f"helm {arguments[0]}: {done.stderr}{problems}"
        return done.stdout

    def deploy(self, command: str, *options: str) -> None:
        self.run_helm(command, *self.chart, *self.remedies, "--timeout", HELM_WITHIN, *options)

    @property
    def chart(self) -> list[str]:
        """Arguments of helm that name the release, the chart and its values."""
        return [NAME, str(CHART), "--values", str(CHART / "ci" / f"{self.values}-values.yaml")]

    def install(self) -> None:
        """Install the chart. If the operator does not know a field, set the values that the chart's error message recommends."""
        self.remedies = [option for name in self.unknown_fields() for option in REMEDIES[name]]
        self.deploy("install")
        self.wait_until_ready()

    def unknown_fields(self) -> list[str]:
        """Return the fields of the rendered RayCluster that the installed version of the operator does not know."""
        text = self.run_helm("template", *self.chart)
        (cluster,) = [found for found in yaml.safe_load_all(text) if found and found["kind"] == RAY[1]]
        return re.findall(r'unknown field "([^"]+)"', "\n".join(self.refusals(cluster)))

    def refusals(self, document: Object) -> list[str]:
        """Return the error that names the unknown fields of the document, or nothing if the server knows all fields."""
        try:
            self.plane.api.create(document, self.namespace, dryRun="All", fieldValidation="Strict")
        except Refused as problem:
            return [f"{key_of(document)}: {problem}"] if "strict decoding error" in str(problem) else []
        return []

    def documents(self) -> list[Object]:
        """Return all objects that Helm sent to the server, including the objects of hooks."""
        sent = [self.run_helm("get", what, NAME) for what in ("manifest", "hooks")]
        return [document for text in sent for document in yaml.safe_load_all(text) if document]

    # -- what a release runs: its pods, and whether they are ready ---------------------------------

    def items(self, version: str, kind: str, labels: str = "") -> list[Object]:
        return self.plane.api.items(version, kind, self.namespace, labels)

    def ray_pods(self) -> list[Object]:
        return [
            pod for pod in self.items("v1", "Pod", RAY_PODS) if "deletionTimestamp" not in pod["metadata"]
        ]

    def head_pod(self) -> Object:
        (head,) = [pod for pod in self.ray_pods() if pod["metadata"]["labels"]["ray.io/node-type"] == "head"]
        return head

    def problems(self) -> list[str]:
        """Return the clusters, deployments and pods that are not ready, with the reasons."""
        found = []
        for cluster in self.items(*RAY):
            status = cluster.get("status", {})
            if status.get("state") != "ready" or len(self.ray_pods()) != pods_wanted(cluster):
                found.append(f"{key_of(cluster)} is {status.get('state')}: {status.get('reason', status)}")
        for deployment in self.items("apps/v1", "Deployment"):
            status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
            current = status.get("observedGeneration") == deployment["metadata"]["generation"]
            if not current or {status.get("availableReplicas"), status.get("replicas")} != {wanted}:
                found.append(f"{key_of(deployment)}: {status.get('conditions', status)}")
        pods = [pod for pod in self.items("v1", "Pod") if not is_done_or_ready(pod)]
        return [*found, *(f"{key_of(pod)}: {pod['status']}" for pod in pods)]

    def warnings(self) -> list[str]:
        events = self.items("v1", "Event")
        return list(
            dict.fromkeys(
                f"{event['involvedObject']['kind']} {event['involvedObject']['name']}: {event['message']}"
                for event in events
                if event.get("type") == "Warning"
            )
        )

    def wait_until_ready(self) -> None:
        wait_until_none(self.problems, context=self.warnings)

    # -- objects that stay after an uninstallation ------------------------------------------------

    def objects(self) -> dict[str, Object]:
        return objects_of(self.plane, self.namespace)

    def left_over(self) -> list[str]:
        """Return the objects that still exist after an uninstallation, except those that the chart keeps on purpose."""
        return [
            f"{key} is left" + (f", held by {held}" if (held := found["metadata"].get("finalizers")) else "")
            for key, found in self.objects().items()
            if key not in self.before and found["metadata"].get("annotations", {}).get(KEPT) != "keep"
        ]


def pods_wanted(cluster: Object) -> int:
    return 1 + sum(int(group["replicas"]) for group in cluster["spec"]["workerGroupSpecs"])


def objects_of(plane: ControlPlane, namespace: str) -> dict[str, Object]:
    """Return all objects of the namespace, except objects that only record what happened."""
    kinds = [found for found in plane.api.resources() if found.namespaced and "list" in found.verbs]
    return {
        key_of(found): found
        for kind in kinds
        if kind.kind not in RECORDS
        for found in plane.api.items(kind.version, kind.kind, namespace)
    }


def add_namespace(plane: ControlPlane, name: str) -> None:
    """Add a namespace that accepts only restricted pods, and wait until controllers have added their objects to the namespace."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    own = {"ServiceAccount default", "ConfigMap kube-root-ca.crt"}
    wait_until_none(lambda: sorted(own - objects_of(plane, name).keys()))


def is_deleted_with(volume: Object, namespace: str) -> bool:
    """Return True if controllers delete this volume when its claim in the namespace is deleted."""
    spec: Object = volume["spec"]
    is_claimed = spec.get("claimRef", {}).get("namespace") == namespace
    return is_claimed and bool(spec["persistentVolumeReclaimPolicy"] == "Delete")


def remove_namespace(plane: ControlPlane, name: str) -> None:
    """Remove the namespace with all its objects. If finalizers block the removal, delete these finalizers first."""
    plane.api.delete("v1", "Namespace", name)

    def remaining() -> list[str]:
        found = plane.api.find("v1", "Namespace", name)
        volumes = plane.api.items("v1", "PersistentVolume")
        own = [volume for volume in volumes if is_deleted_with(volume, name)]
        return [str(there["status"]) for there in (found, *own) if there]

    try:
        wait_until_none(remaining, HANGS_S)
    except AssertionError:
        for found in objects_of(plane, name).values():
            if found["metadata"].get("finalizers"):
                plane.api.patch(found, {"metadata": {"finalizers": None}}, name)
        wait_until_none(remaining)


@contextmanager
def release(plane: ControlPlane, namespace: str, values: str, is_real: bool = False) -> Iterator[Release]:
    """Make a namespace with the Secrets and other objects that the values file names. Remove the namespace at the end.

    If `is_real`, a real node runs the pods. Otherwise this machine runs the scripts of pods.
    """
    add_namespace(plane, namespace)
    try:
        file = PREREQUISITES / f"{values}.yaml"
        if file.exists():
            done = plane.kubectl("--namespace", namespace, "apply", "--filename", str(file))
            assert done.returncode == 0, done.stderr
        with watched_pods(plane.api, namespace, plane.folder, is_real) as watch:
            yield Release(plane, namespace, values, watch, set(objects_of(plane, namespace)))
    finally:
        remove_namespace(plane, namespace)
