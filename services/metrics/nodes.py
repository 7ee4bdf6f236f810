"""Figures of each node's dispatcher and gateway, and the number of share moves.

A thread polls these figures every few seconds, so that no scrape waits for another process.
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
# Maximum number of share moves that a coordinator keeps for each node; older moves are dropped.
MOVES_MAX = 1000


class NodeSource(Protocol):
    """Interface to the figures of nodes; every call may raise SourceAway."""

    def turns(self, node: str) -> DispatcherStatus: ...

    def inflow(self, node: str) -> Inflow: ...

    def moves(self, last: int) -> tuple[list[ShareMove], float]: ...

    def plan(self, class_name: str) -> list[PlanLine]: ...


@dataclass(frozen=True)
class NodesSeen:
    """Latest figures of all nodes: what each node's dispatcher and gateway have last reported."""

    turns: Mapping[str, DispatcherStatus] = field(default_factory=dict)
    inflow: Mapping[str, Inflow] = field(default_factory=dict)
    moves: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(MOVES, 0))
    """Number of share moves by kind, since the first poll."""


class Nodes(BackgroundThread):
    """Thread that polls all nodes from `start` to `stop` and keeps the latest answers in `seen`."""

    def __init__(
        self, source: NodeSource, watch: Watch, every_s: float = EVERY_S, with_operators: bool = False
    ) -> None:
        super().__init__("metrics")
        self.operators = OperatorLooks(source.plan) if with_operators else None
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
                # Every exception is caught, so that a defect in our code does not end the thread: the next poll may succeed.
                LOG.exception("polling the nodes has failed")
            self._stopping.wait(max(0.0, began + self._every_s - time.monotonic()))

    def look(self) -> None:
        """Poll all nodes once; calls must not overlap."""
        try:
            view = self._watch.view(self._every_s)
        except SourceAway:
            return
        nodes = view.system.nodes
        turns = {node: turn for node, turn in self.seen.turns.items() if node in nodes}
        inflow = {node: inflow for node, inflow in self.seen.inflow.items() if node in nodes}
        for node in nodes:
            # A process that is restarting keeps its last figures until the next poll.
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
    """Return the label value for the reason of a share move, which is the first word of the reason's text."""
    word = move.reason.partition(" ")[0]
    return word if word in MOVES else "classes"
