"""How a mirror reaches a running system: its rows go there, and the answers that tell of uses come from there.

`RemoteDoor` is a client's of a service, `SystemDoor` that of the process which runs the system's service.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from configs.errors import Away
from engine.sql import Mirror
from services.results.log_reader import Desk, QueryAddress
from services.results.places import Places
from services.results.row_parsing import Brought
from services.results.rows import RowDelivery

if TYPE_CHECKING:
    from services.client import Client

LOOK_S = 0.5
ANSWERS = 10_000
PRINCIPAL = "mirrors"
GONE = "the query is gone, or has not begun"


Answers = Sequence[Mapping[str, Any]]


class MirrorEnds(Protocol):
    """May be called by several threads."""

    def publish(self, mirror: Mirror, table: pa.Table, batch: str) -> Mapping[str, int]:
        """Rows of the mirror's stream, once a batch; how many were not taken, by reason. A WeirError if they may be later."""

    def answers(self, query: str, stop: threading.Event) -> Iterator[Answers]:
        """Of TENANT/QUERY, from now on, look by look, some with none; WeirError if there are none to be had."""


class RemoteDoor:
    """Of a service, by REST."""

    def __init__(self, weir: Client) -> None:
        self._weir = weir

    def publish(self, mirror: Mirror, table: pa.Table, batch: str) -> Mapping[str, int]:
        return self._weir.put_rows(mirror.name, table, batch).reasons

    def answers(self, query: str, stop: threading.Event) -> Iterator[Answers]:
        results = self._weir.results(query, after="latest", follow=True, forgotten=lambda lost: None)
        while not results.is_over:
            yield results.page()
        raise Away(GONE)


class SystemDoor:
    """Of a system that runs here or on this cluster: rows go to its gateways, answers are read where they are written."""

    def __init__(self, places: Places, endpoint: Callable[[str], str | None], key: Callable[[], str]) -> None:
        """Where answers are, where the gateway is at which a stream comes in, and what opens it."""
        self._places, self._key = places, key
        self._rows = RowDelivery(endpoint, key)

    def publish(self, mirror: Mirror, table: pa.Table, batch: str) -> Mapping[str, int]:
        brought = Brought(table.to_batches())
        return self._rows.bring(mirror.stream, mirror.stream_sql, brought, PRINCIPAL, batch).reasons

    def answers(self, query: str, stop: threading.Event) -> Iterator[Answers]:
        tenant, _, name = query.partition("/")
        asked_query, desk = QueryAddress(tenant, name), Desk(self._places, self._key)
        # By shard, with the mark of the answers that are counted.
        spots: dict[int, tuple[str, int]] = {}
        has_begun = False
        while not stop.wait(LOOK_S):
            (view,), _ = desk.look([asked_query])
            if not view:
                raise Away(GONE)
            for shard, (place, unit_seen) in view.items():
                mark, row = spots.get(shard, ("", 0 if has_begun else unit_seen.given))
                row = row if mark in ("", unit_seen.mark) else 0  # the query was declared again
                while row < unit_seen.given:
                    batch_found = desk.some(place, name, row, ANSWERS)
                    if (
                        batch_found is None
                        or batch_found.mark != unit_seen.mark
                        or batch_found.following <= row
                    ):
                        break
                    for batch in batch_found.batches:
                        yield batch.to_pylist()
                    row = batch_found.following
                spots[shard] = unit_seen.mark, row
            has_begun = True
            yield ()
