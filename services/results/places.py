"""Where the answers of a class are: in a log on this machine, or behind the endpoint of another node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from actors.messages.unit_messages import class_of
from actors.runtime.run_dirs import RunDirs
from configs.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class AnswersPlace:
    """Of one unit's answers."""

    unit: str
    dirs: RunDirs | None
    """Of the unit's home, if its folders are on this machine."""
    endpoint: str | None = None
    """Where the unit's home is reached over the network."""

    @property
    def shard(self) -> int:
        return shard_of(self.unit)


class Places(Protocol):
    def places(self, class_name: str) -> Sequence[AnswersPlace]:
        """Of the units of a class that have begun, in order of shards; none if it does not run.

        Asked for often, by a thread of its own: to be answered from memory.
        """


@dataclass(frozen=True)
class LocalPlaces:
    """Of a system whose one node is this machine."""

    dirs: RunDirs

    def places(self, class_name: str) -> Sequence[AnswersPlace]:
        try:
            folder = self.dirs.class_log(class_name)
        except InvalidInput:
            return ()
        if folder.is_dir():
            return (AnswersPlace(class_name, self.dirs, endpoint_in(self.dirs)),)
        names = (path.name for path in folder.parent.glob(f"{class_name}#*"))
        units = sorted((name for name in names if class_of(name) == class_name), key=shard_of)
        return tuple(AnswersPlace(unit, self.dirs, endpoint_in(self.dirs)) for unit in units)


@dataclass(frozen=True)
class SystemPlaces:
    """Of a system of several nodes."""

    homes: Callable[[str], Sequence[tuple[str, str]]]
    """The units of a class, in order of shards, each with the node where its answers are read."""
    endpoint: Callable[[str], str | None]
    """Of a node."""
    base: Path
    system: str

    def places(self, class_name: str) -> Sequence[AnswersPlace]:
        places = []
        for unit, node in self.homes(class_name):
            dirs = RunDirs(self.base, self.system, node)
            places.append(AnswersPlace(unit, dirs if dirs.folder.is_dir() else None, self.endpoint(node)))
        return tuple(places)


def shard_of(unit: str) -> int:
    return int(unit.partition("#")[2] or 0)


def endpoint_in(dirs: RunDirs) -> str | None:
    """As the node's gateway has noted it, if it has one."""
    try:
        return dirs.endpoint.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
