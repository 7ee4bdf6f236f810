"""Locations of the answers of one node, for benchmarks and tests that have no coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.messages.unit_messages import class_of
from actors.runtime.run_dirs import RunDirs
from configs.errors import InvalidInput
from services.results.places import AnswersPlace, endpoint_in, shard_of


@dataclass(frozen=True)
class LocalPlaces:
    """Locations of answers in a system with one node, which is this machine."""

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
