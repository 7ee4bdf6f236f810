"""What only each node's dispatcher and gateway know, and how often shares have moved: asked every few seconds, so that no scrape
waits for anybody.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from actors.dispatcher.dispatcher_actor import DispatcherStatus
from engine.class_.explain import PlanLine
from scheduler.capacity.core import ShareMove
from services.common.background_thread import BackgroundThread
from services.metrics.families import MOVES
from services.metrics.operators import OperatorLooks
from services.watch.losses import Intakes
from services.watch.source import Inflow, SourceAway
from services.watch.watch import Watch

LOG = logging.getLogger(__name__)
EVERY_S = 5.0
# A coordinator keeps as many of each node.
MOVES_MAX = 1000


class NodeSource(Protocol):
    """Every call may raise Away."""

    def turns(self, node: str) -> DispatcherStatus: ...

    def inflow(self, node: str) -> Inflow: ...

    def moves(self, last: int) -> tuple[list[ShareMove], float]: ...

    def plan(self, class_name: str) -> list[PlanLine]: ...


@dataclass(frozen=True)
class NodesSeen:
    """As they were when they answered last."""

    turns: Mapping[str, DispatcherStatus] = field(default_factory=dict)
    inflow: Mapping[str, Inflow] = field(default_factory=dict)
    moves: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(MOVES, 0))
    """By kind, since the first look."""


class Nodes(BackgroundThread):
    """From `start` to `stop` a thread looks; `seen` is what it has seen."""

    def __init__(
        self, source: NodeSource, watch: Watch, every_s: float = EVERY_S, with_operators: bool = False
    ) -> None:
        super().__init__("metrics")
        self.operators = OperatorLooks(source) if with_operators else None
        self._source, self._watch, self._every_s = source, watch, every_s
        self._moves: Counter[str] = Counter(dict.fromkeys(MOVES, 0))
        self._moved_at: float | None = None
        self.seen, self.intakes = NodesSeen(), Intakes()
        watch.intakes = lambda: self.intakes.by_stream

    def _run(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self.look()
            except Exception:
                # Ours; the next look may still succeed, and nobody else would look.
                LOG.exception("a look at the nodes has failed")
            self._stopping.wait(max(0.0, began + self._every_s - time.monotonic()))

    def look(self) -> None:
        """One look; by one thread."""
        try:
            view = self._watch.view(self._every_s)
        except SourceAway:
            return
        nodes = view.system.nodes
        turns = {node: turn for node, turn in self.seen.turns.items() if node in nodes}
        inflow = {node: inflow for node, inflow in self.seen.inflow.items() if node in nodes}
        for node in nodes:
            # Who begins anew is seen the next time.
            try:
                turns[node] = self._source.turns(node)
                inflow[node] = self._source.inflow(node)
            except SourceAway:
                continue
        with suppress(SourceAway):
            self._count(self._source.moves(MOVES_MAX)[0])
        self.intakes.note(time.monotonic(), [stream for node in inflow.values() for stream in node.streams])
        self.seen = NodesSeen(turns, inflow, dict(self._moves))
        if self.operators is not None:
            self.operators.look(view.classes)

    def _count(self, moves: list[ShareMove]) -> None:
        since = self._moved_at
        for move in moves:
            if since is not None and move.at > since:
                self._moves[kind_of(move)] += 1
        latest = max((move.at for move in moves), default=since)
        self._moved_at = float("-inf") if latest is None else latest


def kind_of(move: ShareMove) -> str:
    word = move.reason.partition(" ")[0]
    return word if word in MOVES else "classes"
