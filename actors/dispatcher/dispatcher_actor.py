"""The dispatcher of a node as a Ray actor: a process around `actors.dispatcher.turn_loop.TurnLoop`.

Guarantees:
1. It grants turns from its construction on, with the saved shares that `recall` returns. Without saved shares, classes wait
   until `set_shares` is called.
2. Ray restarts a killed dispatcher, and hosts reconnect by themselves. Only the overruns that classes still had to pay
   back are lost. If the loop fails, it ends its process, so that Ray restarts the dispatcher too.
3. `ping` and `status` answer while other calls are running. Every call may be repeated.
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
from typing import Any

import ray

from actors.dispatcher.turn_loop import Record, TurnLoop, TurnStatus
from actors.runtime.cluster import run_or_exit, start_actor
from actors.runtime.cpu_pinning import Cores, cores_of_process, keep_process_off, lane_cores
from actors.runtime.idle_throttle import Rest, unchanged

# Switch interval of the interpreter, in seconds: longest time that a thread of Ray keeps the interpreter while the loop waits.
SWITCH_S = 1e-4

NodeShares = tuple[Mapping[str, float], Mapping[str, str]]
"""Share of the node's lanes for each class, and the host of each class."""


@dataclass(frozen=True, slots=True)
class DispatcherSettings:
    path: Path
    round_s: float
    lanes: int
    cores: Cores | None = None
    """Processors of the lanes if they are chosen already; None to take the last processors that this process may use."""
    rests: bool = False
    """True if queries may use only a part of each processor's time (`LiveSettings.lane_part` below 1)."""


@dataclass(frozen=True, slots=True)
class DispatcherStatus:
    pid: int
    turns: TurnStatus


class Dispatcher:
    """Ray actor of the dispatcher, made by `start`. The constructor starts the loop, since Ray calls nothing else after a crash."""

    def __init__(
        self,
        settings: DispatcherSettings,
        recall: Callable[[], NodeShares | None],
        recorder: Callable[[], Record] | None = None,
    ) -> None:
        cores = settings.cores or lane_cores(settings.lanes, cores_of_process())
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
        self._recall(recall)
        # Objects that Ray has loaded are excluded from garbage collection: a full collection would take milliseconds of a turn.
        gc.freeze()
        sys.setswitchinterval(SWITCH_S)
        self._thread = threading.Thread(target=run_or_exit, args=(self._loop.run,), name="turns", daemon=True)
        self._thread.start()
        Rest(unchanged(self._loop.slices))

    @ray.method(concurrency_group="health")
    def ping(self) -> int:
        """Return the id of the actor's process."""
        return os.getpid()

    @ray.method(concurrency_group="health")
    def status(self) -> DispatcherStatus:
        return DispatcherStatus(os.getpid(), self._loop.status())

    def set_shares(self, shares: Mapping[str, float], hosts: Mapping[str, str]) -> None:
        """Use these shares from the next turn on."""
        self._loop.set_shares(shares, hosts)

    def stop(self) -> None:
        """Grant no more turns. Hosts try to reconnect until they are stopped too."""
        self._loop.stop()
        self._thread.join()

    def _recall(self, recall: Callable[[], NodeShares | None]) -> None:
        try:
            shares = recall()
        except Exception:
            # The error is only reported, because an exception in the constructor would end the dispatcher.
            # Without saved shares, a dispatcher grants no turns until the coordinator has sent shares.
            traceback.print_exc()
            return
        if shares is not None:
            self._loop.set_shares(*shares)


def start(
    name: str,
    node_id: str,
    settings: DispatcherSettings,
    recall: Callable[[], NodeShares | None],
    recorder: Callable[[], Record] | None = None,
) -> Any:
    """Return the handle of the actor `name`, and start the actor on the node if it does not exist."""
    return start_actor(Dispatcher, name, node_id, {"health": 2}, (settings, recall, recorder))
