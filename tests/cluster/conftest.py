"""Fixtures of the tests on a control plane: one control plane for all tests, one KubeRay operator at a time, one release per class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.api import wait_until_none
from tests.cluster.control_plane import ControlPlane, control_plane, process, tail
from tests.cluster.programs import BuildError, build_missing, module
from tests.cluster.release import Release, release


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
    """A namespace in which a release is about to be installed."""
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
    """Add custom resources, and wait until the server has them."""
    # The definitions are created, not applied, because some are too long for the annotation that `apply` adds.
    run(plane, "create", "--filename", files)
    run(plane, "wait", "--for=condition=Established", "--timeout=60s", "--filename", files)
