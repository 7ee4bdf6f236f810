"""Sender of state: it sends each host, dispatcher and gateway the state that it should have, whenever that state has changed.

After an actor has restarted, its whole state is sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from actors.coordinator.common_manager import Common
from actors.coordinator.effects import Effects, NodeStream
from actors.coordinator.node_shares import NodeCores
from actors.coordinator.placement_state import Seating
from actors.coordinator.policy_tuners import Tunings
from actors.messages.unit_messages import Copy, Unit, class_of

Value = TypeVar("Value")


@dataclass(kw_only=True)
class StateSync:
    """Sender of changed state. Private attributes hold the state last sent to each host or node; other attributes are only read."""

    effects: Effects
    seating: Seating
    cores: NodeCores
    common: Common
    tunings: Tunings
    _units: dict[str, list[Unit]] = field(init=False, default_factory=dict)
    _keeps: dict[str, dict[str, float]] = field(init=False, default_factory=dict)
    _shares: dict[str, tuple[dict[str, float], dict[str, str]]] = field(init=False, default_factory=dict)
    _streams: dict[str, dict[str, NodeStream]] = field(init=False, default_factory=dict)
    _copies: dict[str, dict[str, Copy]] = field(init=False, default_factory=dict)
    # Nodes that still keep data of removed units, as pairs of node and unit.
    _gone: list[tuple[str, str]] = field(init=False, default_factory=list)

    def host_restarted(self, host: str) -> None:
        self._forget_host(host)
        self.send()

    def dispatcher_restarted(self, node: str) -> None:
        self._shares.pop(node, None)
        self.send()

    def gateway_restarted(self, node: str) -> None:
        self._forget_gateway(node)
        self.send()

    def forget_node(self, node: str) -> None:
        self._shares.pop(node, None)
        self._forget_gateway(node)

    def forget_copies(self) -> None:
        self._copies.clear()

    def forget_units(self, nodes: Mapping[str, str]) -> None:
        """Delete the data of removed units with the next `send`: on the node of each unit, and on nodes that have copies."""
        for unit, node in nodes.items():
            copied_to = {other for other, copies in self._copies.items() if unit in copies}
            self._gone += [(other, unit) for other in {node, *copied_to} & self.seating.nodes.keys()]

    def _forget_host(self, host: str) -> None:
        self._units.pop(host, None)
        self._keeps.pop(host, None)

    def _forget_gateway(self, node: str) -> None:
        self._streams.pop(node, None)
        self._copies.pop(node, None)

    def send(self) -> None:
        """Send all actors the state that has changed."""
        for node, streams in changed(self._streams, self.seating.streams_at()):
            self.effects.set_streams(node, streams)
        for node, copies in changed(self._copies, self.seating.copies_at()):
            self.effects.set_copies(node, copies)
        self.send_units()
        self.send_shares(self.cores.nodes)
        self.send_keep()
        while self._gone:
            self.effects.forget(*self._gone.pop())

    def send_units(self) -> None:
        """Start and stop hosts, and send each host the units that it should run."""
        nodes = self.seating.hosts
        for host in [host for host in self._units if host not in nodes]:
            self._forget_host(host)
            self.effects.stop_host(host)
        for host, units in self._units_by_host().items():
            if host not in self._units:
                self.effects.start_host(host, nodes[host])
            # Hosts receive moved shares by `scale_headroom`, so `set_units` is not called for a change of shares.
            unshared = [replace(unit, share=0.0) for unit in units]
            if self._units.get(host) != unshared:
                self._units[host] = unshared
                self.effects.set_units(host, units)

    def send_shares(self, nodes: Iterable[str]) -> None:
        """Send the dispatchers of these nodes the shares of their units."""
        by_node = self.cores.shares()
        for node in nodes:
            shares = by_node[node]
            hosts = {unit: self.seating.seats[unit].host for unit in shares}
            if self._shares.get(node) != (shares, hosts):
                self._shares[node] = shares, hosts
                self.effects.set_shares(node, shares, hosts)

    def send_keep(self) -> None:
        """Send all units the kept fraction, if a common load manager decides about the kept fraction."""
        keep = self.common.keep
        if keep is None:
            return
        for unit, seat in self.seating.seats.items():
            sent = self._keeps.setdefault(seat.host, {})
            if sent.get(unit, 1.0) != keep:
                sent[unit] = keep
                self.effects.set_keep(seat.host, unit, keep)

    def _units_by_host(self) -> dict[str, list[Unit]]:
        units: dict[str, list[Unit]] = {}
        shares = self.cores.shares()
        for name, unit in self.seating.units().items():
            seat = self.seating.seats.get(name)
            if seat is not None:
                original, share = self.cores.original(seat.node, name), shares[seat.node][name]
                choice = self.tunings.choice_of(class_of(name))
                shared = replace(unit, original=original, share=share, choice=choice)
                units.setdefault(seat.host, []).append(shared)
        return units


def changed(sent: dict[str, Value], state: Mapping[str, Value]) -> Iterator[tuple[str, Value]]:
    """Yield the entries of `state` that differ from `sent`, and add them to `sent`."""
    for name, value in state.items():
        if sent.get(name) != value:
            sent[name] = value
            yield name, value
