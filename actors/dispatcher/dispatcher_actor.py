"""The dispatcher of a node as a Ray actor: a process around `actors.dispatcher.turn_loop.TurnLoop`.

Guarantees:
1. It gives turns from its making on, with the shares that `recall` knows; without, classes wait until shares are set.
2. Ray starts a killed dispatcher anew, and hosts come back to it by themselves. What it loses is the debts of the round.
   If its loop fails, it takes its process down with it, so that the same follows.
3. `ping` and `status` answer whatever the other calls do. Every call may be repeated.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.dispatcher.turn_loop import Record, TurnLoop, TurnStatus
from actors.runtime.cpu_pinning import Cores, cores_of_process, keep_process_off, lane_cores
from actors.runtime.idle_throttle import Rest, unchanged
from actors.runtime.names import NAMESPACE

# The loop shares its process with Ray's threads: how long one of them may keep the interpreter when the loop wants it.
SWITCH_S = 1e-4

NodeShares = tuple[Mapping[str, float], Mapping[str, str]]
"""Shares of the lanes by class, and the host of each class."""


@dataclass(frozen=True, slots=True)
class DispatcherSettings:
    path: Path
    round_s: float
    lanes: int
    pinned: bool = True
    """Keep the lanes' cores for turns, where that works."""
    cores: Cores | None = None
    """Which they are, where another has put this process off them already; None: the last of those it may use."""
    rests: bool = False
    """Whether lanes have a part of their cores only."""


@dataclass(frozen=True, slots=True)
class DispatcherStatus:
    pid: int
    recalled: str
    """What came of asking for the shares at the start: 'found', 'nothing', or why it failed."""
    turns: TurnStatus


class Dispatcher:
    """Made by `start`. Its constructor starts the loop: after a crash, Ray calls nothing else."""

    def __init__(
        self,
        settings: DispatcherSettings,
        recall: Callable[[], NodeShares | None],
        recorder: Callable[[], Record] | None = None,
    ) -> None:
        cores = settings.cores or lane_cores(settings.lanes, cores_of_process() if settings.pinned else ())
        cores = keep_process_off(cores)
        record = recorder() if recorder is not None else None
        self._loop = TurnLoop(
            path=settings.path,
            round_s=settings.round_s,
            lanes=settings.lanes,
            record=record,
            cores=cores,
            rests=settings.rests,
        )
        self._recalled = self._recall(recall)
        # What Ray has loaded stays; a full collection would take milliseconds of some turn to find that out.
        gc.freeze()
        sys.setswitchinterval(SWITCH_S)
        self._thread = threading.Thread(target=self._serve, name="turns", daemon=True)
        self._thread.start()
        Rest(unchanged(self._loop.slices))

    @ray.method(concurrency_group="health")
    def ping(self) -> int:
        """The process that answers."""
        return os.getpid()

    @ray.method(concurrency_group="health")
    def status(self) -> DispatcherStatus:
        return DispatcherStatus(os.getpid(), self._recalled, self._loop.status())

    def set_shares(self, shares: Mapping[str, float], hosts: Mapping[str, str]) -> None:
        """In force from the next turn on."""
        self._loop.set_shares(shares, hosts)

    def stop(self) -> None:
        """No more turns; hosts try to come back until they are stopped too."""
        self._loop.stop()
        self._thread.join()

    def _recall(self, recall: Callable[[], NodeShares | None]) -> str:
        try:
            shares = recall()
        except Exception as problem:
            # Without shares it is of use again as soon as they are set; with a constructor that fails it never is.
            traceback.print_exc()
            return repr(problem)
        if shares is None:
            return "nothing"
        self._loop.set_shares(*shares)
        return "found"

    def _serve(self) -> None:
        try:
            self._loop.run()
        except BaseException:
            traceback.print_exc()
            os._exit(1)


def start(
    name: str,
    node_id: str,
    settings: DispatcherSettings,
    recall: Callable[[], NodeShares | None],
    recorder: Callable[[], Record] | None = None,
) -> Any:
    """The handle of the actor `name`, which lives on the node until it is killed; the one that is there, if there is one."""
    # Ray's types do not know concurrency groups.
    remote = cast(Any, ray.remote)
    actor = remote(num_cpus=0, max_restarts=-1, concurrency_groups={"health": 2})(Dispatcher)
    return actor.options(
        name=name,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
    ).remote(settings, recall, recorder)
