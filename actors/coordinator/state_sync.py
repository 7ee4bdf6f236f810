"""Sends to hosts, dispatchers and gateways the state that each of them should have, whenever that has changed.

After an actor has restarted, everything is sent to it again.
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
    """The other attributes are read only; what was sent is by host or node."""

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
    # Units that are no more, and where they were.
    _gone: list[tuple[str, str]] = field(init=False, default_factory=list)

    # -- what actors no longer have -------------------------------------------------------------------

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
        """Have what is kept of units that are no more removed: on the node of each, and where it has copies."""
        for unit, node in nodes.items():
            copied_to = {other for other, copies in self._copies.items() if unit in copies}
            self._gone += [(other, unit) for other in {node, *copied_to} & self.seating.nodes.keys()]

    def _forget_host(self, host: str) -> None:
        self._units.pop(host, None)
        self._keeps.pop(host, None)

    def _forget_gateway(self, node: str) -> None:
        self._streams.pop(node, None)
        self._copies.pop(node, None)

    # -- sending what differs -------------------------------------------------------------------------

    def send(self) -> None:
        """Send everything that differs, to all actors."""
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
        """Start and stop hosts, and send each the units that it is to run."""
        nodes = self.seating.hosts
        for host in [host for host in self._units if host not in nodes]:
            self._forget_host(host)
            self.effects.stop_host(host)
        for host, units in self._units_by_host().items():
            if host not in self._units:
                self.effects.start_host(host, nodes[host])
            # Of a share that has moved, the host knows by `scale_headroom`.
            unshared = [replace(unit, share=0.0) for unit in units]
            if self._units.get(host) != unshared:
                self._units[host] = unshared
                self.effects.set_units(host, units)

    def send_shares(self, nodes: Iterable[str]) -> None:
        """Send the dispatchers of these nodes the shares of their units."""
        for node in nodes:
            shares = self.cores.shares_on(node)
            hosts = {unit: self.seating.seats[unit].host for unit in shares}
            if self._shares.get(node) != (shares, hosts):
                self._shares[node] = shares, hosts
                self.effects.set_shares(node, shares, hosts)

    def send_keep(self) -> None:
        """Send all units the part of their input to keep, if one load manager decides on it for all."""
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
    """Yield what differs from what was sent; from here on it counts as sent."""
    for name, value in state.items():
        if sent.get(name) != value:
            sent[name] = value
            yield name, value
