"""One system, or one cluster, for all live tests of a module: a local Ray takes seconds to start, and a process has one at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ray

from actors.runtime.names import NAMESPACE
from actors.system import System, start
from configs.classes.live_class import LiveSettings


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A Ray of the module's own, for actors by themselves."""
    ray.init(num_cpus=2, namespace=NAMESPACE, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    """Without classes; each test adds its own and removes them. Its threads are not pinned: tests share the machine. Nodes can join."""
    # Of a node that dies Ray hears after a quarter of a minute otherwise.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_health_check_period_ms", "500")
        patch.setenv("RAY_health_check_failure_threshold", "6")
        with start(LiveSettings(), [], pinned=False, loopback=False) as running:
            yield running
