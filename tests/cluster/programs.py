"""Programs of a Kubernetes cluster, built from pinned Go modules and kept in a cache.

Each folder of `modules/` is a Go module. Its go.mod pins versions, its go.sum pins contents, and its `tool` lines name the programs to build.
A folder with source code is a program, too.
Some folders also supply files of their modules: definitions of custom resources, or stages of kwok.

`python -m tests.cluster.programs` builds what the cache lacks. The cache is `~/.cache/weir/cluster` or `WEIR_CLUSTER_CACHE`. Its folders are
named after a hash of all that decides their contents, so a changed pin is built next to the old one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.support.build_cache import BuildError, cache_folder, hash_of, locked, run_go, work_folder

CACHE = "cluster"
MODULES = Path(__file__).parent / "modules"
# Go names a program after the last part of its path that is not a version.
RENAMED = {"server": "etcd"}
OPERATOR = "github.com/prometheus-operator/prometheus-operator"
FILES = {
    "kinds": [
        (OPERATOR, "example/prometheus-operator-crd/*_podmonitors.yaml"),
        (OPERATOR, "example/prometheus-operator-crd/*_prometheusrules.yaml"),
        ("sigs.k8s.io/gateway-api", "config/crd/standard/*_httproutes.yaml"),
    ],
    "kuberay": [("github.com/ray-project/kuberay/ray-operator", "config/crd/bases/*.yaml")],
    "kwok": [
        ("sigs.k8s.io/kwok", "kustomize/stage/node/fast/node-*.yaml"),
        ("sigs.k8s.io/kwok", "kustomize/stage/node/heartbeat-with-lease/node-*.yaml"),
        ("sigs.k8s.io/kwok", "kustomize/stage/pod/fast/pod-ready.yaml"),
        ("sigs.k8s.io/kwok", "kustomize/stage/pod/fast/pod-delete.yaml"),
    ],
}
"""Modules and patterns of the files to copy, for each group of module folders."""
GO = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
STRIPPED = "-s -w"


@dataclass(frozen=True)
class Module:
    """A folder of `modules/`, for example `kuberay-1.6.2`."""

    folder: Path

    @property
    def group(self) -> str:
        return self.folder.name.partition("-")[0]

    @cached_property
    def pins(self) -> str:
        return (self.folder / "go.mod").read_text("utf-8")

    @property
    def tools(self) -> list[str]:
        """Import paths of the programs to build."""
        block = re.search(r"^tool \((.*?)^\)", self.pins, re.DOTALL | re.MULTILINE)
        return block[1].split() if block else re.findall(r"^tool (\S+)", self.pins, re.MULTILINE)

    @property
    def built(self) -> Path:
        """Folder of the cache with the programs (`bin`) and files (`files`)."""
        parts = (
            self.pins,
            (self.folder / "go.sum").read_text("utf-8"),
            *(file.read_text("utf-8") for file in sorted(self.folder.glob("*.go"))),
            repr((FILES.get(self.group), GO, self.flags)),
        )
        return cache_folder(CACHE) / f"{self.folder.name}-{hash_of(part.encode() for part in parts)}"

    @property
    def flags(self) -> str:
        """Flags of the linker, which write the version of Kubernetes into the API server. Helm refuses a server without a version."""
        version = re.search(r"k8s\.io/kubernetes v((\d+)\.(\d+)\.\d+)", self.pins)
        if self.group != "kubernetes" or version is None:
            return STRIPPED
        named = {"gitVersion": f"v{version[1]}", "gitMajor": version[2], "gitMinor": version[3]}
        packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        return " ".join(
            [
                STRIPPED,
                *(f"-X {package}.{key}={value}" for package in packages for key, value in named.items()),
            ]
        )

    def program(self, name: str) -> Path:
        return self.built / "bin" / name

    @property
    def documents(self) -> Path:
        """Return the folder of the cache that contains the copied files."""
        return self.built / "files"

    def build(self) -> None:
        with work_folder(cache_folder(CACHE)) as work:
            made = work / "made"
            (made / "files").mkdir(parents=True)
            if self.tools:
                output = f"{made / 'bin'}{os.sep}"
                run_go(
                    self.folder, GO, "build", "-trimpath", "-ldflags", self.flags, "-o", output, *self.tools
                )
            for old, new in RENAMED.items():
                if (made / "bin" / old).exists():
                    (made / "bin" / old).rename(made / "bin" / new)
            for path, pattern in FILES.get(self.group, []):
                source = Path(json.loads(run_go(self.folder, GO, "mod", "download", "-json", path))["Dir"])
                for file in sorted(source.glob(pattern)):
                    shutil.copy(file, made / "files" / file.name)
            made.rename(self.built)


def modules() -> list[Module]:
    return [Module(file.parent) for file in sorted(MODULES.glob("*/go.mod"))]


def module(name: str) -> Module:
    return Module(MODULES / name)


def operator_versions() -> list[str]:
    """Versions of KubeRay that the tests use."""
    return [found.folder.name.partition("-")[2] for found in modules() if found.group == "kuberay"]


def build_missing() -> None:
    """Build the programs that are not in the cache. Raise BuildError if a program cannot be built."""
    with locked(cache_folder(CACHE)):
        missing = [found for found in modules() if not found.built.exists()]
        if missing and shutil.which("go") is None:
            raise BuildError("Go 1.26 or newer is missing; it builds Kubernetes, KubeRay and kwok")
        for found in missing:
            print(f"cluster: building {found.folder.name}", flush=True)
            found.build()


def main() -> int:
    try:
        build_missing()
    except BuildError as problem:
        print(f"cluster: {problem}", file=sys.stderr)
        return 1
    names = ", ".join(found.folder.name for found in modules())
    print(f"cluster: {names} are in {cache_folder(CACHE)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
