"""Control plane with a stand-in for hosts and gateways, which records the effects of the control plane."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.coordinator.control_plane import ControlPlane
from actors.coordinator.effects import NodeStream, Part
from actors.messages.unit_messages import Copy, Figures, Unit, UnitReport
from configs.classes.live_class import LiveClass, LiveSettings
from loadshed.cycle import CycleEnded

READINGS = "CREATE STREAM readings (ts timestamp, sensor int32, temp float64, WATERMARK FOR ts AS ts)"


ALERTS = "CREATE STREAM alerts (ts timestamp, sensor int32, text string, WATERMARK FOR ts AS ts)"


BY_SENSOR = "SELECT sensor, avg(temp) FROM readings [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY sensor"


@dataclass
class World:
    """Stand-in for a running system, which carries out the effects of a control plane at once and records them."""

    settings: LiveSettings = field(default_factory=LiveSettings)
    hosts: dict[str, str] = field(default_factory=dict)
    units: dict[str, list[Unit]] = field(default_factory=dict)
    shares: dict[str, dict[str, float]] = field(default_factory=dict)
    homes: dict[str, dict[str, str]] = field(default_factory=dict)
    readers: dict[str, dict[str, dict[str, bool]]] = field(default_factory=dict)
    copies: dict[str, dict[str, str]] = field(default_factory=dict)
    hosts_of: dict[str, dict[str, str]] = field(default_factory=dict)
    saved: dict[str, str] = field(default_factory=dict)
    keeps: dict[str, float] = field(default_factory=dict)
    story: list[Any] = field(default_factory=list)
    plane: ControlPlane = field(init=False)

    def __post_init__(self) -> None:
        self.plane = ControlPlane(self.settings, self)

    def start_host(self, host: str, node: str) -> None:
        self.hosts[host] = node

    def stop_host(self, host: str) -> None:
        del self.hosts[host], self.units[host]

    def set_units(self, host: str, units: Sequence[Unit]) -> None:
        assert host in self.hosts
        self.units[host] = list(units)

    def scale_headroom(self, host: str, unit: str, factor: float, share: float, original: float) -> None:
        self.story.append(("scale", host, unit, round(factor, 6), round(share, 6)))

    def set_keep(self, host: str, unit: str, keep: float) -> None:
        self.keeps[unit] = keep

    def set_shares(self, node: str, shares: Mapping[str, float], hosts: Mapping[str, str]) -> None:
        self.shares[node], self.hosts_of[node] = dict(shares), dict(hosts)
        self.story.append(("shares", node))

    def set_streams(self, node: str, streams: Mapping[str, NodeStream]) -> None:
        self.homes[node] = {name: one.home for name, one in streams.items()}
        self.readers[node] = {name: dict(one.readers) for name, one in streams.items()}

    def set_copies(self, node: str, copies: Mapping[str, Copy]) -> None:
        self.copies[node] = {unit: one.origin for unit, one in copies.items()}

    def forget(self, node: str, unit: str) -> None:
        self.story.append(("forget", node, unit))

    def move(self, unit: str, host: str, origin: str, node: str) -> None:
        self.story.append(("move", unit, host, origin, node))

    def save(self, part: Part, state: Any) -> None:
        self.saved[part] = json.dumps(state, allow_nan=False)

    def begin_again(self, now: float, lanes: Mapping[str, int] | None = None) -> World:
        """Replace the control plane, as after a kill of the coordinator. Hosts and gateways stay the same."""
        again = World(self.settings, saved=dict(self.saved))
        declared, shares = (json.loads(self.saved[part]) for part in ("declared", "shares"))
        again.plane.restore(declared, shares, {"n1": 1} if lanes is None else lanes, now)
        return again

    @property
    def placed(self) -> dict[str, str]:
        return {unit.name: self.hosts[host] for host, units in self.units.items() for unit in units}

    def report(self, now: float, **usage: float) -> None:
        """Report the given usage for some units. At a usage of 1, the load of a unit equals its share."""
        for name, used in usage.items():
            host = self.plane.units_of(name)[name]
            load = used * self.shares[self.hosts[host]][name]
            self.plane.report(host, [report_of(name, used, load)], now)


def report_of(
    unit: str,
    usage: float,
    load: float,
    *,
    reclaim: bool = False,
    asleep: bool = False,
    cycle: CycleEnded | None = None,
) -> UnitReport:
    return UnitReport(unit, usage, load, reclaim, asleep, Figures(), cycle)


def declared(name: str, priority: float = 1.0, **more: Any) -> LiveClass:
    given = {"delay_target_ms": 100.0, "streams": (READINGS,), "queries": {"q": BY_SENSOR}} | more
    return LiveClass(name=name, priority=priority, **given)
