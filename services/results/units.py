"""Answers of one unit, read from a log on this machine or from the gateway of another node.

Objects of this module are for use by one thread. A unit that has not begun, or no longer exists, has no answers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import flight

from actors.host.answer_reader import AnswerReader
from actors.log.segment import LogMissing
from actors.messages.unit_messages import class_of
from actors.runtime.run_dirs import RunDirs
from configs.errors import UnknownName
from services.common.gateway_trust import DEFAULT_TRUST, GatewayTrust
from services.ingest.answers import batch_of, columns_of, schema_with
from services.results.places import AnswersPlace

# Minimum seconds between two requests to another node for the numbers of the first kept row and the next row of a query.
REMOTE_LOOK_S = 0.25
REMOTE_TIMEOUT_S = 10.0
NOT_THERE = (LogMissing, UnknownName, FileNotFoundError)
UNREACHED = (flight.FlightError, pa.ArrowException, OSError)


@dataclass(frozen=True, slots=True)
class KnownAnswers:
    """Number of a query's answers at one moment. The identifier `mark` differs from the marks of earlier queries of this name."""

    mark: str
    given: int
    """Number of answers since the query began."""


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows of a unit's answers with numbers from `first` up to, but not including, `following`; empty if no such rows are kept."""

    mark: str
    first: int
    following: int
    batches: Sequence[pa.RecordBatch]

    @property
    def size(self) -> int:
        return sum(batch.nbytes for batch in self.batches)


class UnitAnswers(Protocol):
    def seen(self, query: str) -> KnownAnswers | None:
        """Return the number and the identifier of the query's answers; None if the unit does not have the query."""

    def columns(self, query: str) -> list[tuple[str, str]]: ...

    def some(self, query: str, row: int, most: int) -> FoundRows | None:
        """Return up to `most` rows, beginning with number `row`, or with the first kept row if `row` is no longer kept."""

    def let_go(self) -> None:
        """Release memory and connections; the next read acquires them again."""


class LocalAnswers:
    """Answers of a unit in a log on this machine."""

    def __init__(self, dirs: RunDirs, unit: str) -> None:
        self._dirs, self._unit = dirs, unit
        self._reader: AnswerReader | None = None
        self._schema: tuple[str, pa.Schema] = ("", pa.schema([]))

    def seen(self, query: str) -> KnownAnswers | None:
        try:
            reader = self._opened()
            return KnownAnswers(reader.described(query).mark, reader.given(query))
        except NOT_THERE:
            self._reader = None
            return None

    def columns(self, query: str) -> list[tuple[str, str]]:
        try:
            return self._opened().columns(query)
        except NOT_THERE:
            return []

    def some(self, query: str, row: int, most: int) -> FoundRows | None:
        try:
            rows = self._opened().some(query, row, most)
            schema = self._schema_of(query, rows.mark)
        except NOT_THERE:
            self._reader = None
            return None
        batches = [batch_of(rows.answers, schema)] if rows.answers else []
        return FoundRows(rows.mark, rows.first, rows.following, batches)

    def let_go(self) -> None:
        try:
            if self._reader is not None:
                self._reader.let_go()
        except NOT_THERE:
            self._reader = None  # on another attempt, a new log may have replaced the missing log

    def _opened(self) -> AnswerReader:
        if self._reader is None:
            self._reader = AnswerReader(self._dirs, self._unit)
        return self._reader

    def _schema_of(self, query: str, mark: str) -> pa.Schema:
        if self._schema[0] != mark:
            self._schema = (mark, schema_with(self._opened().columns(query)))
        return self._schema[1]


class RemoteAnswers:
    """Answers of a unit, read over Arrow Flight from another node."""

    def __init__(self, endpoint: str, key: str, unit: str, trust: GatewayTrust = DEFAULT_TRUST) -> None:
        self._endpoint, self._unit, self._trust = endpoint, unit, trust
        headers = [(b"authorization", f"Bearer {key}".encode())]
        self._call = flight.FlightCallOptions(timeout=REMOTE_TIMEOUT_S, headers=headers)
        self._client: flight.FlightClient | None = None
        self._told: dict[str, tuple[float, UnitExtent | None]] = {}

    def seen(self, query: str) -> KnownAnswers | None:
        unit_state = self._asked(query)
        return None if unit_state is None else KnownAnswers(unit_state.mark, unit_state.next)

    def columns(self, query: str) -> list[tuple[str, str]]:
        try:
            return columns_of(self._schema_of(query))
        except UNREACHED:
            return []

    def some(self, query: str, row: int, most: int) -> FoundRows | None:
        try:
            unit_state = self._asked(query, at_once=True)
            if unit_state is None:
                return None
            first = max(row, unit_state.first)
            if first >= unit_state.next:
                return FoundRows(unit_state.mark, max(row, unit_state.next), max(row, unit_state.next), ())
            batches = self._rows(query, first, min(first + most, unit_state.next))
        except UNREACHED:
            return None
        rows = sum(batch.num_rows for batch in batches)
        return FoundRows(unit_state.mark, first, first + rows, batches)

    def let_go(self) -> None:
        self._client = None

    def _asked(self, query: str, at_once: bool = False) -> UnitExtent | None:
        now = time.monotonic()
        at, unit_state = self._told.get(query, (0.0, None))
        if at_once or now - at >= REMOTE_LOOK_S:
            unit_state = self._ask(query)
            self._told = {name: entry for name, entry in self._told.items() if now - entry[0] < REMOTE_LOOK_S}
            self._told[query] = (now, unit_state)
        return unit_state

    def _ask(self, query: str) -> UnitExtent | None:
        body = as_bytes({"v": 1, "class": class_of(self._unit), "query": query})
        try:
            (result,) = self._opened().do_action(flight.Action("results", body), self._call)
        except UNREACHED:
            return None
        units = json.loads(result.body.to_pybytes())["units"]
        return next((UnitExtent(**unit) for unit in units if unit["unit"] == self._unit), None)

    def _schema_of(self, query: str) -> pa.Schema:
        path = flight.FlightDescriptor.for_path("query", class_of(self._unit), query)
        return self._opened().get_schema(path, self._call).schema

    def _rows(self, query: str, first: int, following: int) -> list[pa.RecordBatch]:
        ticket = {"v": 1, "unit": self._unit, "query": query, "from": first, "to": following}
        table = self._opened().do_get(flight.Ticket(as_bytes(ticket)), self._call).read_all()
        batches: list[pa.RecordBatch] = table.to_batches()
        return batches

    def _opened(self) -> flight.FlightClient:
        if self._client is None:
            self._client = self._trust.connect(self._endpoint)
        return self._client


@dataclass(frozen=True, slots=True)
class UnitExtent:
    """Numbers of the first kept row and the next row of a unit's answers, and identifier of the answers, as the unit's node reports them."""

    unit: str
    first: int
    next: int
    mark: str


def as_bytes(told: dict[str, Any]) -> bytes:
    return json.dumps(told).encode()


def answers_at(place: AnswersPlace, key: Callable[[], str], trust: GatewayTrust) -> UnitAnswers | None:
    """Return a reader of a unit's answers at a location; None if there is neither a log on this machine nor an endpoint."""
    if place.dirs is not None:
        return LocalAnswers(place.dirs, place.unit)
    return None if place.endpoint is None else RemoteAnswers(place.endpoint, key(), place.unit, trust)
