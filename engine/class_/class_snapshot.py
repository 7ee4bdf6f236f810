"""State of a class's network at one moment, stored by the key of each operator; the key says what the operator computes."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from configs.errors import InvalidInput
from engine.class_.class_answers import ClassAnswers
from engine.data.held_state import Lot, StateAccount, train_bytes
from engine.data.train import Train
from engine.network.network import ClassNetwork
from engine.network.node import QueuedOperator


@dataclass(frozen=True)
class ClassSnapshot:
    """State of a class at one moment: operators, queues and answers."""

    states: Mapping[Hashable, Any]
    queues: Mapping[Hashable, tuple[Train, ...]]
    answered: Mapping[str, int]
    unsettled: tuple[tuple[str, Train], ...] = ()
    pane_lengths: Mapping[Hashable, int] = field(default_factory=dict)

    @classmethod
    def of(cls, network: ClassNetwork, answers: ClassAnswers) -> ClassSnapshot:
        """Return the state without copying; the caller must copy or save the state before any operator runs again."""
        return cls(
            states={node.key: node.operator.snapshot() for node in network.nodes},
            queues={node.key: tuple(node.queue) for node in network.nodes},
            answered=dict(answers.counts),
            unsettled=tuple(answers.unsettled),
            pane_lengths=network.pane_lengths,
        )

    def restore(self, network: ClassNetwork, answers: ClassAnswers) -> None:
        """Restore the state into a network with the same queries; raise InvalidInput if the snapshot lacks an operator."""
        missing = [node.name for node in network.nodes if node.key not in self.states]
        if missing:
            hint = "restore the snapshot into a class with exactly the queries of the class from which it was taken"
            raise InvalidInput("the snapshot lacks the state of some operators", "snapshot", missing, hint)
        for node in network.nodes:
            node.operator.restore(self.states[node.key])
            node.queue = deque(self.queues.get(node.key, ()))
            node.tuples = sum(map(len, node.queue))
            node.leave_lots()
            node.lots = lots(node, network.account)
        answers.counts = dict(self.answered)
        answers.unsettled = list(self.unsettled)


def lots(node: QueuedOperator, account: StateAccount) -> deque[Lot | None]:
    """Return an entry of the memory account for each queued train of an operator.

    A train that waits in several queues is counted once for each queue.
    """
    trains = () if node.source else node.queue
    return deque([Lot(account, train_bytes(train), 1) if len(train) else None for train in trains])
