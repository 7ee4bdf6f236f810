"""The ledger as it is told: what has become of every tuple that was offered, by class and stream.

A class's account is as of the end of its last load cycle, and of each of its units at one moment: so it closes, or something
is wrong. A class that sleeps has none since; nothing has come or gone.
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
    """Of a stream in a class."""

    tenant: str
    stream: str
    ledger: TupleLedger
    queued: int
    ended: bool = False
    """True if no query of the class reads the stream any more."""

    @property
    def closes(self) -> bool:
        return self.ledger.closes(self.queued)


def accounts(system: SystemStatus, classes: Iterable[str] | None = None) -> list[StreamAccount]:
    """Of these classes, or of all, in the order in which they were declared."""
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
    """Yield the accounts with the names as they were declared, then those of streams that the class has left."""
    names = {name.lower(): name for name in map(name_of, declared.streams)}
    for stream, name in names.items():
        if stream in streams:
            yield StreamAccount(declared.name, name, *streams[stream])
    for stream in sorted(streams.keys() - names):
        yield StreamAccount(declared.name, stream, *streams[stream], ended=True)


@lru_cache(maxsize=4096)
def name_of(sql: str) -> str:
    return parse_create_stream(sql).name
