"""Ledger for users: the fate of every offered tuple, by class and stream.

All counts in a unit's ledger are taken at the same moment, the end of the unit's last load cycle. The counts must therefore
add up; otherwise Weir has a defect. The ledger of a sleeping class does not change, since no tuples arrive or leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from actors.coordinator.control_plane import SystemStatus
from configs.classes.live_class import LiveClass
from engine.sql import parse_create_stream
from loadshed.ledger import TupleLedger


@dataclass(frozen=True, slots=True)
class StreamAccount:
    """Counts of the tuples of one stream that were offered to one class, by fate."""

    tenant: str
    stream: str
    ledger: TupleLedger
    queued: int
    ended: bool = False
    """True if no query of the class reads the stream any more."""

    @property
    def closes(self) -> bool:
        """True if the fates and the queued tuples add up to the offered tuples."""
        return self.ledger.closes(self.queued)


def accounts(system: SystemStatus, classes: Iterable[str] | None = None) -> list[StreamAccount]:
    """Return the account of each stream of these classes, or of all classes, in the order in which the classes were declared."""
    names = None if classes is None else set(classes)
    declared = [class_ for class_ in system.classes if names is None or class_.name in names]
    accounts_by_class: dict[str, dict[str, tuple[TupleLedger, int]]] = {
        class_.name: {} for class_ in declared
    }
    for unit in system.units.values():
        streams = accounts_by_class.get(unit.class_name)
        if streams is None or unit.report is None:
            continue
        for stream, (ledger, queued) in unit.report.accounts.items():
            total, waiting = streams.get(stream, (TupleLedger(), 0))
            streams[stream] = (total + ledger, waiting + queued)
    return [account for class_ in declared for account in told(class_, accounts_by_class[class_.name])]


def told(declared: LiveClass, streams: dict[str, tuple[TupleLedger, int]]) -> Iterator[StreamAccount]:
    """Yield the accounts of the declared streams, then the accounts of streams that the class no longer reads."""
    names = {name.lower(): name for name in map(name_of, declared.streams)}
    for stream, name in names.items():
        if stream in streams:
            yield StreamAccount(declared.name, name, *streams[stream])
    for stream in sorted(streams.keys() - names):
        yield StreamAccount(declared.name, stream, *streams[stream], ended=True)


@lru_cache(maxsize=4096)
def name_of(sql: str) -> str:
    return parse_create_stream(sql).name
