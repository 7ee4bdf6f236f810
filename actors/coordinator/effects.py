"""Effects that the control plane asks for. `actors.coordinator.ray_effects` carries them out on Ray; tests record them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from actors.messages.unit_messages import Copy, Unit

Part = Literal["declared", "shares"]
"""What is saved: classes and placement, which change seldom and may be long; shares, which change often."""


@dataclass(frozen=True, slots=True)
class NodeStream:
    """A stream as a node has it: its own, or a copy of another node's."""

    sql: str
    home: str
    readers: Mapping[str, bool] = field(default_factory=dict)
    """Units that read it here, and nodes that have a copy of it; True for those that may lose nothing of it."""


class Effects(Protocol):
    """Nothing here waits, and nothing is missed if it gets lost: it is told again."""

    def start_host(self, host: str, node: str) -> None: ...

    def stop_host(self, host: str) -> None: ...

    def set_units(self, host: str, units: Sequence[Unit]) -> None: ...

    def scale_headroom(self, host: str, unit: str, factor: float, share: float, original: float) -> None: ...

    def set_keep(self, host: str, unit: str, keep: float) -> None: ...

    def set_shares(self, node: str, shares: Mapping[str, float], hosts: Mapping[str, str]) -> None: ...

    def set_streams(self, node: str, streams: Mapping[str, NodeStream]) -> None: ...

    def set_copies(self, node: str, copies: Mapping[str, Copy]) -> None:
        """These units that run elsewhere have their home at the node."""

    def forget(self, node: str, unit: str) -> None:
        """Nothing of the unit is needed at the node any more."""

    def move(self, unit: str, host: str, origin: str, node: str) -> None:
        """Bring the unit to rest and its log to the node; the answer is `moved` or `stayed`."""

    def save(self, part: Part, state: Any) -> None: ...
