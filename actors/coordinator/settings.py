"""What a coordinator is started with, and keeps for whatever it starts in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.gateway.endpoint import EndpointSettings
from actors.runtime.cpu_pinning import Cores
from actors.runtime.event_log import LogWriter
from actors.runtime.run_dirs import RunDirs
from configs.classes.live_class import LiveSettings

# Makes a host on a node (by Ray's id), or finds it.
StartHost = Callable[[str, str, RunDirs, LiveSettings, Cores | None, Path | None], Any]


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """What a system is started with."""

    live: LiveSettings
    start_host: StartHost
    base: Path
    system: str
    cores: Cores | None = None
    """Which cores are lanes, where the starter has reserved them; None: each node's dispatcher sees to it."""
    data_folder: Path | None = None
    """Where the records of all decisions go; None: nowhere."""
    events_bytes: int = 256 << 20
    endpoint: EndpointSettings | None = None
    """The door over the network that each node's gateway opens; None: none does."""

    def dirs(self, node: str) -> RunDirs:
        return RunDirs(self.base, self.system, node)

    @property
    def events(self) -> Path | None:
        return None if self.data_folder is None else self.data_folder / "events" / self.system

    def log_writer(self) -> LogWriter | None:
        return None if self.events is None else LogWriter(self.events, self.events_bytes)
