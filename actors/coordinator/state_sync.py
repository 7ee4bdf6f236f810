"""What hosts, dispatchers and gateways were told last, so that each hears of what has changed, and of nothing else.

Who began anew is forgotten (`forget_…`): it is told everything the next time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from actors.coordinator.effects import Effects, Stream
from actors.messages.unit_messages import Copy, Unit
from scheduler.capacity.placement import Seat

Value = TypeVar("Value")


@dataclass
class Telling:
    effects: Effects
    _units: dict[str, list[Unit]] = field(init=False, default_factory=dict)
    _keeps: dict[str, dict[str, float]] = field(init=False, default_factory=dict)
    _shares: dict[str, tuple[dict[str, float], dict[str, str]]] = field(init=False, default_factory=dict)
    _streams: dict[str, dict[str, Stream]] = field(init=False, default_factory=dict)
    _copies: dict[str, dict[str, Copy]] = field(init=False, default_factory=dict)

    def forget_host(self, host: str) -> None:
        self._units.pop(host, None)
        self._keeps.pop(host, None)

    def forget_dispatcher(self, node: str) -> None:
        self._shares.pop(node, None)

    def forget_gateway(self, node: str) -> None:
        self._streams.pop(node, None)
        self._copies.pop(node, None)

    def forget_node(self, node: str) -> None:
        self.forget_dispatcher(node)
        self.forget_gateway(node)

    def forget_copies(self) -> None:
        self._copies.clear()

    def nodes_with_copies(self, unit: str) -> set[str]:
        return {node for node, copies in self._copies.items() if unit in copies}

    def streams(self, wanted: Mapping[str, dict[str, Stream]]) -> None:
        for node, streams in changed(self._streams, wanted):
            self.effects.set_streams(node, streams)

    def copies(self, wanted: Mapping[str, dict[str, Copy]]) -> None:
        for node, copies in changed(self._copies, wanted):
            self.effects.set_copies(node, copies)

    def units(self, wanted: Mapping[str, list[Unit]], nodes: Mapping[str, str]) -> None:
        """All hosts there are to be, with their nodes."""
        for host in [host for host in self._units if host not in nodes]:
            self.forget_host(host)
            self.effects.stop_host(host)
        for host, units in wanted.items():
            if host not in self._units:
                self.effects.start_host(host, nodes[host])
            # Of a share that has moved, the host knows by `scale_headroom`.
            unshared = [replace(unit, share=0.0) for unit in units]
            if self._units.get(host) != unshared:
                self._units[host] = unshared
                self.effects.set_units(host, units)

    def shares(self, node: str, shares: dict[str, float], hosts: dict[str, str]) -> None:
        if self._shares.get(node) != (shares, hosts):
            self._shares[node] = shares, hosts
            self.effects.set_shares(node, shares, hosts)

    def keep(self, seats: Mapping[str, Seat], keep: float) -> None:
        """The same for all units, as the one load manager for everybody has decided."""
        for unit, seat in seats.items():
            told = self._keeps.setdefault(seat.host, {})
            if told.get(unit, 1.0) != keep:
                told[unit] = keep
                self.effects.set_keep(seat.host, unit, keep)


def changed(told: dict[str, Value], wanted: Mapping[str, Value]) -> Iterator[tuple[str, Value]]:
    """What differs from what was told; from here on it counts as told."""
    for name, value in wanted.items():
        if told.get(name) != value:
            told[name] = value
            yield name, value
