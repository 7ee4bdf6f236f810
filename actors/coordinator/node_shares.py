"""The shares of the units on every node. Each node has a core that decides about its shares; lent capacity is summed over all nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from actors.coordinator.placement_state import Seating, weight
from actors.messages.unit_messages import class_of
from configs.classes.managers import Manager, scales_headroom
from loadshed.build import class_account
from loadshed.records import Core, CoreName
from scheduler.capacity.core import CapacityCommand, CapacityCore, CapacityEvent, ClassesSet, ShareMove
from scheduler.capacity.redistribution import ClassAccount, entitled

# Function that records a decision of a core: event, time, commands.
Record = Callable[[Any, float, Sequence[Any]], None]
# Function that gets a new core before the core's first event, and returns the function that records the core's decisions.
OpenRecord = Callable[[CoreName, str, Core], Record]


def not_recorded(kind: CoreName, name: str, core: Core) -> Record:
    return lambda event, now, commands: None


@dataclass
class NodeCores:
    manager: Manager
    redistribution_s: float
    open_record: OpenRecord
    _cores: dict[str, CapacityCore] = field(init=False, default_factory=dict)
    # For each node: the capacity to which its units are entitled, as last sent to the core of the node.
    _accounts: dict[str, dict[str, ClassAccount]] = field(init=False, default_factory=dict)
    _records: dict[str, Record] = field(init=False, default_factory=dict)
    # Processor-seconds that were lent on nodes which no longer exist, by lender and borrower.
    _lent_s: dict[tuple[str, str], float] = field(init=False, default_factory=dict)

    @property
    def nodes(self) -> list[str]:
        return list(self._cores)

    def shares(self) -> dict[str, dict[str, float]]:
        """Return the shares of all units, by node."""
        return {node: core.shares for node, core in self._cores.items()}

    def original(self, node: str, unit: str) -> float:
        return self._accounts[node][unit].original

    def handle(self, node: str, event: CapacityEvent, now: float) -> tuple[CapacityCommand, ...]:
        commands = self._cores[node].handle(event, now)
        self._records[node](event, now, commands)
        return commands

    def changes(self, seating: Seating, now: float) -> Iterator[tuple[str, ClassesSet]]:
        """Add cores of new nodes, and remove cores of lost nodes. Yield an event for each node on which the units have changed."""
        for node in [node for node in self._cores if node not in seating.nodes]:
            for lender, borrower, seconds in lent_by(self._cores.pop(node), now):
                self._lent_s[lender, borrower] = self._lent_s.get((lender, borrower), 0.0) + seconds
            self._accounts.pop(node, None)
            del self._records[node]
        for node, lanes in seating.nodes.items():
            accounts = accounts_on(node, seating, self.manager)
            if node not in self._cores:
                scales = scales_headroom(self.manager)
                self._add_core(node, CapacityCore((), lanes, scales, self.redistribution_s))
            if self._accounts.get(node, {}) != accounts:
                self._accounts[node] = accounts
                yield node, ClassesSet(tuple(accounts.values()))

    def _add_core(self, node: str, core: CapacityCore) -> None:
        self._cores[node] = core
        self._records[node] = self.open_record("capacity", node, core)

    def state(self) -> dict[str, Any]:
        return {
            "cores": {node: core.state() for node, core in self._cores.items()},
            "lent_s": [[lender, borrower, seconds] for (lender, borrower), seconds in self._lent_s.items()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        for node, saved in state["cores"].items():
            accounts = [ClassAccount(**account) for account in saved["accounts"]]
            self._accounts[node] = {account.name: account for account in entitled(accounts)}
            self._add_core(node, CapacityCore.restored(saved))
        self._lent_s = {(lender, borrower): seconds for lender, borrower, seconds in state["lent_s"]}

    def lending(self, now: float) -> dict[str, dict[str, float]]:
        """Return the processor-seconds that classes have lent on all nodes, as a mapping from lender to borrower to seconds."""
        lent = [(*pair, seconds) for pair, seconds in self._lent_s.items()]
        for core in self._cores.values():
            lent += lent_by(core, now)
        total: dict[str, dict[str, float]] = {}
        for lender, borrower, seconds in sorted(lent):
            row = total.setdefault(class_of(lender), {})
            row[class_of(borrower)] = row.get(class_of(borrower), 0.0) + seconds
        return total

    def moves(self, nodes: Iterable[str]) -> list[ShareMove]:
        """Return the last moves of shares on the given nodes, with the oldest move first."""
        moves = [move for node in nodes for move in self._cores[node].moves]
        return sorted(moves, key=lambda move: move.at)

    def last_moves(self, last: int) -> list[ShareMove]:
        """Return the last moves of all nodes that have changed a share, with the oldest move first."""
        moved = (move for move in reversed(self.moves(self.nodes)) if move.is_any)
        return list(islice(moved, last))[::-1]


def lent_by(core: CapacityCore, now: float) -> Iterator[tuple[str, str, float]]:
    """Yield lender, borrower and lent processor-seconds for each pair of units on a node."""
    for lender, borrowers in core.lending(now).items():
        for borrower, seconds in borrowers.items():
            yield lender, borrower, seconds


def accounts_on(node: str, seating: Seating, manager: Manager) -> dict[str, ClassAccount]:
    """Return the capacity to which each unit on a node is entitled.

    The lanes of a node are divided among the units on the node by priority. So a unit on a node with few units gets more.
    Its minimum share grows in proportion. The borrow limit of a class is divided among its units on the node.
    """
    units = seating.units()
    here = [unit for unit, seat in seating.seats.items() if seat.node == node]
    total, total_here = sum(map(weight, units.values())), sum(weight(units[unit]) for unit in here)
    siblings = Counter(map(class_of, here))
    accounts = []
    for name in here:
        declared, heavy = units[name].declared, weight(units[name])
        account = class_account(declared, heavy / total_here, manager)
        accounts.append(
            replace(
                account,
                name=name,
                priority=heavy,
                min_share=min(account.min_share / declared.shards * total / total_here, account.original),
                borrow_limit=account.borrow_limit / siblings[declared.name],
            )
        )
    return {account.name: account for account in entitled(accounts)}
