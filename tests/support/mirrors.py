"""Receiver of mirrored rows, and functions that wait for the progress of mirrors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from configs.documents.declarations import Document, MirrorDeclaration
from engine.sql import Mirror
from services.mirror.mirror_threads import Mirrors
from services.mirror.poll_loop import MirrorProgress

HTTP = "FROM HTTP 'http://127.0.0.1:1/{key}' KEYS ('a', 'b') BANDWIDTH 5 PER SECOND"


HUNG_S = 30.0


def mirror(columns: str = "item string, price float64", rest: str = HTTP, name: str = "prices") -> Document:
    sql = f"CREATE MIRROR {name} ({columns}) {rest}"
    return Document(MirrorDeclaration(kind="Mirror", name=name, sql=sql))


@dataclass
class Told:
    """Receiver that keeps the rows that a mirror publishes, listed by stream."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def publish(self, mirror: Mirror, table: pa.Table, batch: str) -> Mapping[str, int]:
        with self.changed:
            self.rows.setdefault(mirror.name, []).extend(table.to_pylist())
            self.changed.notify_all()
        return {}

    def answers(self, query: str, stop: threading.Event) -> Iterator[Sequence[Mapping[str, Any]]]:
        while not stop.wait(0.01):
            yield ({"ITEM": "a", "price": 1.0}, {"item": "nobody", "price": 2.0})

    def until(self, holds: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(holds, HUNG_S), self.rows


def seen(mirrors: Mirrors, name: str, holds: Callable[[MirrorProgress], bool]) -> MirrorProgress:
    """Wait until `holds` is true for the progress of a mirror, and return that progress."""
    pause, found = threading.Event(), None
    for _ in range(int(HUNG_S / 0.01)):
        found = {one.mirror: one for one in mirrors.progress()}[name]
        if holds(found):
            return found
        pause.wait(0.01)
    raise AssertionError(found)
