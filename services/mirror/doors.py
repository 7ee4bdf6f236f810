"""Connections of a mirror to a running system, to publish rows and to read the answers of the lookups query.

The lookups query is a query of a tenant. Each of its answers names an object of the mirror, and counts as a use of this object.

`RemoteDoor` is for a client of a service. `SystemDoor` is for the process that runs the system's service.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from configs.errors import Away
from engine.sql import Mirror
from services.common.gateway_trust import DEFAULT_TRUST, GatewayTrust
from services.results.log_reader import Desk, QueryAddress
from services.results.places import Places
from services.results.row_parsing import Brought
from services.results.rows import RowDelivery

if TYPE_CHECKING:
    from services.client import Client

LOOK_S = 0.5
ANSWERS = 10_000
PRINCIPAL = "mirrors"
GONE = "the query was deleted, or has not started"

Answers = Sequence[Mapping[str, Any]]


class MirrorEnds(Protocol):
    """Interface to a running system. Implementations are thread-safe."""

    def publish(self, mirror: Mirror, table: pa.Table, batch: str) -> Mapping[str, int]:
        """Publish rows in the mirror's stream, and return the number of refused rows by reason. A repeated batch is not published again.

        Raise a WeirError if the batch was not published, so that the call must be repeated.
        """

    def answers(self, query: str, stop: threading.Event) -> Iterator[Answers]:
        """Poll the query TENANT/QUERY, and yield the new answers after each poll; raise WeirError if the query cannot be read."""


class RemoteDoor:
    """Connection to a running system through the REST API of its service."""

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
    """Connection to a system on this machine or cluster. Rows are sent to its gateways, and answers are read from its logs."""

    def __init__(
        self,
        places: Places,
        endpoint: Callable[[str], str | None],
        key: Callable[[], str],
        trust: GatewayTrust = DEFAULT_TRUST,
    ) -> None:
        """Store `places` (finds logs of answers), `endpoint` (returns a stream's gateway) and `key` (returns the gateways' key)."""
        self._places, self._key, self._trust = places, key, trust
        self._rows = RowDelivery(endpoint, key, trust)

    def publish(self, mirror: Mirror, table: pa.Table, batch: str) -> Mapping[str, int]:
        brought = Brought(table.to_batches())
        return self._rows.bring(mirror.stream, mirror.stream_sql, brought, PRINCIPAL, batch).reasons

    def answers(self, query: str, stop: threading.Event) -> Iterator[Answers]:
        tenant, _, name = query.partition("/")
        asked_query, desk = QueryAddress(tenant, name), Desk(self._places, self._key, trust=self._trust)
        # Reading position in each shard: the identifier (`mark`) of the shard's answers, and the number of the next row.
        spots: dict[int, tuple[str, int]] = {}
        has_begun = False
        while not stop.wait(LOOK_S):
            (view,), _ = desk.look([asked_query])
            if not view:
                raise Away(GONE)
            for shard, (place, unit_seen) in view.items():
                mark, row = spots.get(shard, ("", 0 if has_begun else unit_seen.given))
                # If the identifier of a shard's answers has changed, the query was declared again, so that its rows are numbered from 0.
                row = row if mark in ("", unit_seen.mark) else 0
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
