"""One system, or one Ray, for all live tests of a module, because Ray takes seconds to start and a process can have only one Ray."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ray

from actors.runtime.names import NAMESPACE
from actors.system import System, start
from configs.classes.live_class import LiveSettings


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Start Ray for tests of single actors, without a system."""
    ray.init(num_cpus=2, namespace=NAMESPACE, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    """Start a system without classes, which further nodes can join; each test adds its own classes and removes them at its end.

    Threads are not pinned to processors, because tests share the machine.
    """
    # By default Ray notices the death of a node only after 15 s, so the period is shortened.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_health_check_period_ms", "500")
        patch.setenv("RAY_health_check_failure_threshold", "6")
        with start(LiveSettings(), [], pinned=False, loopback=False) as running:
            yield running
