"""The chart on a real node: the project's own images, started by KubeRay, the kubelet and containerd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import add_kinds
from tests.cluster.control_plane import ControlPlane, process, tail
from tests.cluster.kubelet import Node, joined_node
from tests.cluster.machine import PARTS
from tests.cluster.programs import cache_folder, module, operator_versions
from tests.cluster.release import CHART, NAME, Release, release

pytestmark = pytest.mark.node

IMAGES = ("weir",)
# Ray starts in some minutes on a busy machine.
WITHIN = "8m"


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    archives = [cache_folder() / "images" / f"{name}.tar" for name in IMAGES]
    if missing := [str(archive) for archive in archives if not archive.exists()]:
        pytest.skip(f"{', '.join(missing)} missing: make images")
    with joined_node(tmp_path_factory.mktemp("machine"), tmp_path_factory.mktemp("plane")) as started:
        for archive in archives:
            started.import_images(archive)
        yield started


@pytest.fixture(scope="module")
def operated(joined: Node) -> Iterator[ControlPlane]:
    """The node's control plane with the newest KubeRay operator."""
    plane, built = joined.plane, module(f"kuberay-{operator_versions()[-1]}")
    command: list[str | Path] = [
        built.program("ray-operator"),
        "--enable-leader-election=false",
        "--metrics-addr=0",
        "--health-probe-bind-address=0",
    ]
    add_kinds(plane, str(built.documents))
    with process(command, plane.folder / "operator.log", {"KUBECONFIG": str(plane.kubeconfig)}):
        yield plane


@pytest.fixture
def empty(operated: ControlPlane) -> Iterator[Release]:
    with release(operated, "weir", "node") as made:
        yield made


def test_installed_chart_passes_its_own_test(empty: Release, joined: Node) -> None:
    values = ["--values", str(PARTS / "values.yaml"), "--timeout", WITHIN]
    empty.run_helm("install", NAME, str(CHART), *values)
    empty.wait_until_ready()
    answer = empty.run_helm("test", NAME, "--timeout", WITHIN)
    assert "Phase:          Succeeded" in answer, tail(joined.machine.folder / "kubelet.log")
