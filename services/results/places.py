"""Location of the answers of a class: a log on this machine, or the network address (endpoint) of another node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from actors.runtime.run_dirs import RunDirs


@dataclass(frozen=True, slots=True)
class AnswersPlace:
    """Location of one unit's answers: the log on this machine, or the endpoint of the node that has the log."""

    unit: str
    dirs: RunDirs | None
    """Directories of the node that holds the unit's log; None if they are not on this machine."""
    endpoint: str | None = None
    """Arrow Flight endpoint of the node that holds the unit's log."""

    @property
    def shard(self) -> int:
        return shard_of(self.unit)


class Places(Protocol):
    def places(self, class_name: str) -> Sequence[AnswersPlace]:
        """Return the locations of the answers of a class's started units, in the order of shards; empty if the class does not run.

        The thread that reads answers calls this method often, so the method should return what is in memory.
        """


@dataclass(frozen=True)
class SystemPlaces:
    """Locations of answers in a system of several nodes."""

    homes: Callable[[str], Sequence[tuple[str, str]]]
    """Function that returns the units of a class in order of shards, each with the node that holds its log."""
    endpoint: Callable[[str], str | None]
    """Function that returns the Arrow Flight endpoint of a node."""
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
    """Return the endpoint that the node's gateway has written to its file; None if there is no file."""
    try:
        return dirs.endpoint.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
