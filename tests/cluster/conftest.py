"""Fixtures of the tests on a control plane: one control plane for all tests, one KubeRay operator at a time, one release per test class.

Tests that need a real node share one node, which has a separate control plane. The log of these tests is printed at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import pytest

from tests.cluster.api import wait_until_none
from tests.cluster.archives import archives
from tests.cluster.control_plane import ControlPlane, control_plane, process, tail
from tests.cluster.kubelet import Node, busybox_image, joined_node
from tests.cluster.machine import check_tools
from tests.cluster.programs import Module, build_missing, module
from tests.cluster.release import Release, release
from tests.cluster.steps import Steps
from tests.support.build_cache import BuildError

STEPS = pytest.StashKey[Steps]()
Value = TypeVar("Value")


def value_or_exit(call: Callable[[], Value]) -> Value:
    """Return the result of the call. If the call raises BuildError, end all tests with one line."""
    try:
        return call()
    except BuildError as problem:
        pytest.exit(f"cluster: {problem}", returncode=1)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if STEPS in config.stash:
        terminalreporter.section("steps on the node")
        for line in config.stash[STEPS].lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def steps(pytestconfig: pytest.Config) -> Steps:
    return pytestconfig.stash.setdefault(STEPS, Steps())


@pytest.fixture(scope="session")
def node_tools() -> None:
    """The programs and rights that a node needs."""
    value_or_exit(check_tools)


@pytest.fixture(scope="session")
def joined(node_tools: None, tmp_path_factory: pytest.TempPathFactory, steps: Steps) -> Iterator[Node]:
    """A real node with an image of BusyBox and a separate control plane."""
    value_or_exit(build_missing)
    with ExitStack() as running:
        with steps.step("start a control plane, containerd, kubelet, kube-proxy and CoreDNS"):
            made = joined_node(tmp_path_factory.mktemp("machine"), tmp_path_factory.mktemp("plane"))
            node = running.enter_context(made)
        node.add_image(busybox_image("cat", "grep", "httpd", "sleep", "wget"))
        yield node


@pytest.fixture(scope="session")
def weir_node(joined: Node, steps: Steps) -> Node:
    """The real node, which also has the images of Weir and volumes."""
    files = value_or_exit(archives)
    with steps.step("import the images"), ThreadPoolExecutor() as pool:
        list(pool.map(joined.import_images, files))
    joined.add_volumes()
    return joined


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    value_or_exit(build_missing)
    with control_plane(tmp_path_factory.mktemp("control-plane")) as started:
        add_kinds(started, str(module("kinds").documents))
        yield started


@contextmanager
def operator_of(plane: ControlPlane, version: str) -> Iterator[Module]:
    """Run a KubeRay operator, and yield its module. The definitions of its custom resources stay."""
    built = module(f"kuberay-{version}")
    options = ("--enable-leader-election=false", "--metrics-addr=0", "--health-probe-bind-address=0")
    log = plane.folder / f"{built.folder.name}.log"
    add_kinds(plane, str(built.documents))
    with process([built.program("ray-operator"), *options], log, {"KUBECONFIG": str(plane.kubeconfig)}):
        wait_until_none(lambda: [] if "Starting workers" in log.read_text() else [tail(log)])
        yield built


@pytest.fixture(scope="module")
def operator(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """Version of the KubeRay operator that runs."""
    with operator_of(plane, request.param) as built:
        yield request.param
    run(plane, "delete", "--wait", "--timeout=180s", "--filename", str(built.documents))


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
    run(plane, "wait", "--for=condition=Established", "--timeout=180s", "--filename", files)
