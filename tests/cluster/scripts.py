"""Scripts of pods that call the Kubernetes API. They run as processes of this machine, with the rights of the pod's ServiceAccount.

kwok only marks pods as running. The pod of the Job that removes the RayCluster before an uninstallation has to do its work: its command
runs here with the files of its ConfigMaps, and its exit code becomes the pod's phase.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from tests.cluster.api import Api, Object

COMPONENT = "app.kubernetes.io/component"
RUN_HERE = {"uninstall"}
WITHIN_S = 300.0


def is_run_here(pod: Object) -> bool:
    component = pod["metadata"].get("labels", {}).get(COMPONENT)
    return component in RUN_HERE and pod["status"].get("phase") == "Running"


@dataclass
class ScriptRuns:
    """Substitute for the containers of simulated pods: runs the scripts of the chart's Jobs on this machine, each in a thread."""

    api: Api
    folder: Path
    outputs: dict[str, str] = field(default_factory=dict)
    """Output of each run that has ended, by pod."""
    threads: dict[str, Thread] = field(default_factory=dict)

    def add(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        if is_run_here(pod) and name not in self.threads:
            self.threads[name] = Thread(target=self.run, args=(pod,))
            self.threads[name].start()

    def join(self) -> None:
        for thread in self.threads.values():
            thread.join()

    def run(self, pod: Object) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        (container,) = pod["spec"]["containers"]
        with TemporaryDirectory(dir=self.folder) as folder:
            paths = self.write_files(pod, container, Path(folder))
            arguments = [located(argument, paths) for argument in container["command"]]
            assert arguments[0] == "python", arguments
            done = subprocess.run(
                [sys.executable, *arguments[1:]],
                env={"PATH": os.environ["PATH"], **self.environment(pod, Path(folder))},
                capture_output=True,
                text=True,
                check=False,
                timeout=WITHIN_S,
            )
        self.outputs[name] = done.stdout + done.stderr
        phase = "Succeeded" if done.returncode == 0 else "Failed"
        path = self.api.resource("v1", "Pod").path(namespace, name) + "/status"
        self.api.patch_at(path, {"status": {"phase": phase}})

    def write_files(self, pod: Object, container: Object, folder: Path) -> dict[str, Path]:
        """Write the container's ConfigMaps to folders. Return the folder for each path in the container."""
        paths = {}
        sources = {volume["name"]: volume.get("configMap") for volume in pod["spec"]["volumes"]}
        for mount in container["volumeMounts"]:
            if source := sources.get(mount["name"]):
                paths[mount["mountPath"]] = folder / mount["name"]
                paths[mount["mountPath"]].mkdir()
                found = self.api.find("v1", "ConfigMap", source["name"], pod["metadata"]["namespace"])
                assert found is not None, source
                for key, text in found["data"].items():
                    (paths[mount["mountPath"]] / key).write_text(text)
        return paths

    def environment(self, pod: Object, folder: Path) -> dict[str, str]:
        """Return the variables by which a pod finds the API, with a token of its ServiceAccount."""
        account = pod["spec"]["serviceAccountName"]
        path = self.api.resource("v1", "ServiceAccount").path(pod["metadata"]["namespace"], account)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self.api.request("POST", f"{path}/token", request)["status"]["token"]
        (folder / "token").write_text(token)
        (folder / "ca.crt").write_text(self.api.ca)
        host, _, port = self.api.address.rpartition("//")[2].partition(":")
        return {
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            "WEIR_ACCOUNT_FOLDER": str(folder),
        }


def located(argument: str, paths: dict[str, Path]) -> str:
    for place, folder in paths.items():
        if argument.startswith(place + "/"):
            return str(folder / argument.removeprefix(place + "/"))
    return argument
