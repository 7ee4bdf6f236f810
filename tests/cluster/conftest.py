"""Fixtures of the tests on a control plane: one control plane for all tests, one KubeRay operator at a time, one release per test class.

Tests that need a real node share one node, which has a separate control plane. The log of these tests is printed at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.api import wait_until_none
from tests.cluster.control_plane import ControlPlane, control_plane, process, tail
from tests.cluster.kubelet import Node, busybox_image, joined_node
from tests.cluster.programs import BuildError, build_missing, cache_folder, module
from tests.cluster.release import Release, release
from tests.cluster.steps import Steps

IMAGES = ("weir", "weir-ingest")
STEPS = pytest.StashKey[Steps]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if STEPS in config.stash:
        terminalreporter.section("steps on the node")
        for line in config.stash[STEPS].lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def steps(pytestconfig: pytest.Config) -> Steps:
    return pytestconfig.stash.setdefault(STEPS, Steps())


@pytest.fixture(scope="session")
def joined(tmp_path_factory: pytest.TempPathFactory, steps: Steps) -> Iterator[Node]:
    """A real node with an image of BusyBox and a separate control plane."""
    with ExitStack() as running:
        with steps.step("start a control plane, containerd, kubelet, kube-proxy and CoreDNS"):
            made = joined_node(tmp_path_factory.mktemp("machine"), tmp_path_factory.mktemp("plane"))
            node = running.enter_context(made)
        node.add_image(busybox_image("cat", "grep", "httpd", "sleep", "wget"))
        yield node


@pytest.fixture(scope="session")
def weir_node(joined: Node, steps: Steps) -> Node:
    """The real node, which also has the images of Weir and volumes."""
    archives = [cache_folder() / "images" / f"{name}.tar" for name in IMAGES]
    if missing := [str(archive) for archive in archives if not archive.exists()]:
        pytest.skip(f"{', '.join(missing)} missing: make images")
    with steps.step("import the images"):
        for archive in archives:
            joined.import_images(archive)
    joined.add_volumes()
    return joined


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    try:
        build_missing()
    except BuildError as problem:
        pytest.exit(f"cluster: {problem}", returncode=1)
    with control_plane(tmp_path_factory.mktemp("control-plane")) as started:
        add_kinds(started, str(module("kinds").documents))
        yield started


@pytest.fixture(scope="module")
def operator(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """Version of the KubeRay operator that runs."""
    built = module(f"kuberay-{request.param}")
    command: list[str | Path] = [
        built.program("ray-operator"),
        "--enable-leader-election=false",
        "--metrics-addr=0",
        "--health-probe-bind-address=0",
    ]
    log = plane.folder / f"{built.folder.name}.log"
    add_kinds(plane, str(built.documents))
    with process(command, log, {"KUBECONFIG": str(plane.kubeconfig)}):
        wait_until_none(lambda: [] if "Starting workers" in log.read_text() else [tail(log)])
        yield request.param
    run(plane, "delete", "--wait", "--timeout=60s", "--filename", str(built.documents))


@pytest.fixture(scope="class")
def empty(plane: ControlPlane, operator: str, request: pytest.FixtureRequest) -> Iterator[Release]:
    """A namespace in which no release is installed yet."""
    values = request.param
    with release(plane, f"{values}-{operator.replace('.', '-')}", values) as made:
        yield made


@pytest.fixture(scope="class")
def installed(empty: Release) -> Release:
    empty.install()
    return empty


def run(plane: ControlPlane, *arguments: str) -> None:
    done = plane.kubectl(*arguments)
    assert done.returncode == 0, done.stderr


def add_kinds(plane: ControlPlane, files: str) -> None:
    """Add definitions of custom resources, and wait until the server accepts objects of these kinds."""
    # The definitions are created, not applied, because some definitions are too long for the annotation that `apply` adds.
    run(plane, "create", "--filename", files)
    run(plane, "wait", "--for=condition=Established", "--timeout=60s", "--filename", files)
