"""Settings with which a coordinator is started; they also apply to the actors that the coordinator starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from actors.gateway.endpoint import EndpointSettings
from actors.runtime.cpu_pinning import Cores
from actors.runtime.event_log import LogWriter
from actors.runtime.run_dirs import RunDirs
from configs.classes.live_class import LiveSettings


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """Settings of a whole system."""

    live: LiveSettings
    base: Path
    system: str
    cores: Cores | None = None
    """Processors of the lanes if the starting process has reserved some; None if the dispatcher of each node chooses them."""
    data_folder: Path | None = None
    """Folder for the records of all decisions; None to record nothing."""
    endpoint: EndpointSettings | None = None
    """Network endpoint that the gateway of each node opens; None to open none."""

    def dirs(self, node: str) -> RunDirs:
        return RunDirs(self.base, self.system, node)

    @property
    def events(self) -> Path | None:
        return None if self.data_folder is None else self.data_folder / "events" / self.system

    def log_writer(self) -> LogWriter | None:
        return None if self.events is None else LogWriter(self.events)
