"""Effects that the control plane has on other actors. `actors.coordinator.ray_effects` carries them out on Ray; tests record them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from actors.messages.unit_messages import Copy, Unit

Part = Literal["declared", "shares"]
"""Part of the saved state: classes and placement, which change rarely and may be large, or shares, which change often."""


@dataclass(frozen=True, slots=True)
class NodeStream:
    """A stream on a node: the original on its home node, or a copy on another node."""

    sql: str
    home: str
    readers: Mapping[str, bool] = field(default_factory=dict)
    """Readers of the stream (units on this node, and nodes that copy it), with True for a reader that must not lose any row."""


class Effects(Protocol):
    """Effects on other actors. No method waits for an answer. Lost messages do no harm, because the control plane sends them again."""

    def start_host(self, host: str, node: str) -> None: ...

    def stop_host(self, host: str) -> None: ...

    def set_units(self, host: str, units: Sequence[Unit]) -> None: ...

    def scale_headroom(self, host: str, unit: str, factor: float, share: float, original: float) -> None: ...

    def set_keep(self, host: str, unit: str, keep: float) -> None: ...

    def set_shares(self, node: str, shares: Mapping[str, float], hosts: Mapping[str, str]) -> None: ...

    def set_streams(self, node: str, streams: Mapping[str, NodeStream]) -> None: ...

    def set_copies(self, node: str, copies: Mapping[str, Copy]) -> None:
        """Send a node the list of units that have their home at the node but run elsewhere, so that the node copies their logs."""

    def forget(self, node: str, unit: str) -> None:
        """Delete all data of the unit on the node."""

    def move(self, unit: str, host: str, origin: str, node: str) -> None:
        """Bring the unit to rest and copy its log to the node; then call `moved` or `stayed` of the control plane."""

    def save(self, part: Part, state: Any) -> None: ...
