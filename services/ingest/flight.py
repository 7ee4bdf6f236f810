"""The door of a node over the network: an Arrow Flight server in the process of the gateway.

    get_schema  a stream's columns (path stream, NAME), or a query's (path query, CLASS, QUERY)
    do_put      one part of a producer's batch; staged, or published at once if it is the only one
    do_action   commit, abort, committed; results
    do_get      rows of a query's answers

What is said is in `services.ingest.messages`. Every call shows a key. A call that repeating does not cure ends with
FlightServerError, one that it will cure later with FlightUnavailableError; what is more to know is JSON in `extra_info`.

Guarantees:
1. When a commit has been answered, the batch is in the stream's log, whole; repeated, it is not published again. The same
   holds for a part that is published at once. `abort` and `committed` may be repeated.
2. Whatever a producer sends, or does not go on to send, holds up no other stream.
3. Where a lossless reader is behind, producers are told to come again; classes that shed hold nobody back.

gRPC's threads take the calls; a call without a key is answered before its rows are read.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import pyarrow as pa
from pyarrow import flight

from actors.gateway.stream import Stream
from actors.gateway.streams import RETRY_AFTER_S, Streams
from actors.log.segment_log import LogFull
from actors.log.train_format import BatchId, mark_of
from actors.messages.gateway_messages import RefusedBatch
from actors.messages.unit_messages import class_of
from actors.runtime.run_dirs import RunDirs
from configs.errors import InvalidInput, WeirError
from configs.service.up_settings import NODE
from engine.data.train import Train
from services.ingest import answers
from services.ingest.columns import Mapped, mapped
from services.ingest.deadletters import DEAD_BYTES, DeadLetters, DeadRows
from services.ingest.keys import KeyRecord, KeyRing, PublishedKeys, new_key
from services.ingest.messages import (
    CommitParts,
    OfBatch,
    OfProducer,
    Put,
    ResultsRequest,
    RowsRequest,
    parsed,
)
from services.ingest.staging import (
    STAGED_BYTES,
    BatchKey,
    Held,
    NotStaged,
    StagedPart,
    Staging,
    StagingFull,
)

FRAME_ROWS = 100_000
# Of one record batch. Nothing keeps gRPC from receiving a larger one before it is refused.
MESSAGE_BYTES = 64 << 20
# Parts that are received at a time, each in a thread of gRPC's; and those of one stream, so that others have some.
PUTS = 256
STREAM_PUTS = 64
# What goes on at the end may go on without us.
CLOSE_S = 1.0
NOT_SERVED = (OSError, pa.ArrowException)
EVERYWHERE = ("0.0.0.0", "[::]")
KEY = "key"
AUTHORIZATION, BEARER = "authorization", "Bearer "
ACTIONS = {
    "commit": "publish the staged parts of a batch",
    "abort": "drop what is staged of a batch",
    "committed": "the last batch of a producer",
    "results": "which rows of a query are kept",
}

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class FlightSettings:
    """Where the door is, and who may come in."""

    host: str = "127.0.0.1"
    """NODE: the address by which Ray knows the machine of the gateway."""
    port: int = 0
    """0: one that is free."""
    keys: KeyRing = field(default=KeyRing(), repr=False)
    """Beside those that are published in the node's folder while it runs."""
    message_bytes: int = MESSAGE_BYTES
    staged_bytes: int = STAGED_BYTES
    dead_bytes: int = DEAD_BYTES

    def with_key(self, key: str) -> FlightSettings:
        """Who shows the key may do everything."""
        return replace(self, keys=self.keys.with_key(key))

    def with_new_key(self) -> tuple[FlightSettings, str]:
        key = new_key()
        return self.with_key(key), key

    def open(self, streams: Streams, dirs: RunDirs) -> FlightDoor:
        return FlightDoor(replace(self, host=here(self.host)), streams, dirs)


class FlightDoor:
    """The server, which serves from its making on."""

    def __init__(self, settings: FlightSettings, streams: Streams, dirs: RunDirs) -> None:
        self._streams, self._dirs = streams, dirs
        self._staging = Staging(settings.staged_bytes)
        self._dead = DeadLetters(settings.dead_bytes)
        self._keys = FlightKeys(settings.keys, PublishedKeys(dirs.keys))
        self._server = self._served(settings)
        host = socket.getfqdn() if settings.host in EVERYWHERE else settings.host
        self.address = f"grpc://{host}:{self._server.port}"
        draft = dirs.endpoint.with_suffix(".draft")
        draft.write_text(self.address, encoding="utf-8")
        os.replace(draft, dirs.endpoint)

    def _served(self, settings: FlightSettings) -> FlightServer:
        """Where the one before it was, if it can be: producers look for it there."""
        parts = (self._streams, self._dirs, self._staging, self._dead, self._keys)
        if not settings.port and (before := port_in(self._dirs.endpoint)):
            try:
                return FlightServer(settings, before, *parts)
            except NOT_SERVED:
                log.warning("port %d is another's now", before)
        try:
            return FlightServer(settings, settings.port, *parts)
        except NOT_SERVED as problem:
            where = f"{settings.host}:{settings.port}"
            raise InvalidInput("no server can be opened there", "endpoint", where, str(problem)) from None

    def status(self) -> dict[str, Any]:
        dead = {stream.name: dict(self._dead.counts(stream)) for stream in self._streams.all()}
        keys = self._keys.used()
        return {"endpoint": self.address, "staged": self._staging.status(), "dead": dead, "keys_used": keys}

    def close(self) -> None:
        """Calls that do not end in time are refused by the streams, which close after this."""
        self._dirs.endpoint.unlink(missing_ok=True)
        ending = threading.Thread(target=self._server.shutdown, name="flight-end", daemon=True)
        ending.start()
        ending.join(CLOSE_S)
        self._dead.close()


def here(host: str) -> str:
    """On a cluster each node has an address of its own."""
    if host != NODE:
        return host
    # Only where there is a cluster.
    from actors.runtime.cluster import address_here

    return address_here()


def port_in(path: Path) -> int | None:
    """Of the address that a gateway has left behind."""
    try:
        return int(path.read_text(encoding="utf-8").rpartition(":")[2])
    except (FileNotFoundError, ValueError):
        return None


class ShownKey(flight.ServerMiddleware):
    """Whose call it is."""

    def __init__(self, record: KeyRecord) -> None:
        super().__init__()
        self.record = record


class FlightKeys(flight.ServerMiddlewareFactory):
    """Lets in who shows a key, and remembers when it was shown last."""

    def __init__(self, own: KeyRing, published: PublishedKeys) -> None:
        super().__init__()
        self._own, self._published = own, published
        self._used: dict[str, float] = {}

    def used(self) -> dict[str, float]:
        """By published key."""
        return dict(self._used)

    def start_call(self, info: flight.CallInfo, headers: dict[str, list[str]]) -> ShownKey:
        shown = headers.get(AUTHORIZATION, [])
        if len(shown) != 1 or not str(shown[0]).startswith(BEARER):
            raise flight.FlightUnauthenticatedError("the call shows no key: give one with the option apiKey")
        key, now = str(shown[0]).removeprefix(BEARER), time.time()
        record = self._own.record_of(key, now) or self._published.ring().record_of(key, now)
        if record is None:
            raise flight.FlightUnauthenticatedError("nobody knows this key here: look at the option apiKey")
        if record.id:
            self._used[record.id] = now
        return ShownKey(record)


def answering(method: Callable[..., Answer]) -> Callable[..., Answer]:
    """Whatever goes wrong becomes an error of Flight's; what is our own mistake says no more than that it is."""

    @wraps(method)
    def called(*arguments: Any) -> Answer:
        try:
            return method(*arguments)
        except Exception as problem:
            raise as_flight(problem) from None

    return called


def as_flight(problem: Exception) -> Exception:
    if isinstance(problem, flight.FlightError):
        return cast(Exception, problem)
    match problem:
        case StagingFull() | LogFull():
            return later(str(problem))
        case NotStaged():
            return refused(problem.title, code="not_staged", part=problem.value)
        case answers.AnswersForgotten():
            return refused(str(problem), next=problem.next)
        case WeirError():
            return refused(str(problem))
    log.error("a call of the door has failed", exc_info=problem)
    what = f"a mistake of the gateway's own: {type(problem).__name__}; its log tells more"
    return cast(Exception, flight.FlightInternalError(what))


def refused(text: str, **extra: Any) -> Exception:
    return cast(Exception, flight.FlightServerError(text, as_json(extra)))


def later(text: str, after_s: float = RETRY_AFTER_S) -> Exception:
    extra = as_json({"retry_after_s": after_s, "reason": text})
    return cast(Exception, flight.FlightUnavailableError(text, extra))


def as_json(found: Any) -> bytes:
    return json.dumps(found).encode()


class FlightServer(flight.FlightServerBase):
    """The calls."""

    def __init__(
        self,
        settings: FlightSettings,
        port: int,
        streams: Streams,
        dirs: RunDirs,
        staging: Staging,
        dead: DeadLetters,
        keys: FlightKeys,
    ) -> None:
        self._streams, self._dirs, self._staging, self._dead = streams, dirs, staging, dead
        self._message_bytes = settings.message_bytes
        self._lock = threading.Lock()
        self._puts: Counter[str] = Counter()
        # Last: it serves from here on.
        super().__init__(f"grpc://{settings.host}:{port}", middleware={KEY: keys})

    @answering
    def get_schema(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.SchemaResult:
        match [part.decode(errors="replace") for part in descriptor.path or ()]:
            case ["stream", name]:
                return flight.SchemaResult(described(self._stream(context, name)))
            case ["query", class_name, query]:
                self._check_reads(context, class_name)
                first = answers.units(self._dirs, class_name, query)[0]
                return flight.SchemaResult(answers.schema_of(self._dirs, first.unit, query))
        raise InvalidInput("there is a schema of [stream, NAME] and of [query, CLASS, QUERY]", "path")

    @answering
    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        put = parsed(Put, descriptor.command or b"")
        stream = self._stream(context, put.stream)
        batch = BatchKey(stream, put.producer, put.batch)
        with self._putting(stream):
            if self._is_committed(batch):
                writer.write(as_json(again(rest_of(reader), put.commit)))
                return
            mapping = mapped(
                stream.schema, stream.sql, reader.schema, put.schema_policy, put.timestamp_column
            )
            with self._staging.receiving(batch) as held:
                rows, part = self._received(mapping, reader, held)
                if put.commit:
                    answer = {"rows": rows, **self._published(batch, [part])}
                else:
                    self._staging.put(held, (put.partition, put.attempt), part)
                    answer = {"rows": rows, "again": False}
        writer.write(as_json(answer))

    @answering
    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> list[bytes]:
        body = action.body.to_pybytes()
        match action.type:
            case "commit":
                return [as_json(self._commit(context, parsed(CommitParts, body)))]
            case "abort":
                request = parsed(OfBatch, body)
                stream = self._stream(context, request.stream)
                self._staging.drop(BatchKey(stream, request.producer, request.batch))
                return [as_json({})]
            case "committed":
                of = parsed(OfProducer, body)
                return [as_json({"batch": self._last(self._stream(context, of.stream), of.producer)})]
            case "results":
                results_request = parsed(ResultsRequest, body)
                self._check_reads(context, results_request.class_name)
                units = answers.units(self._dirs, results_request.class_name, results_request.query)
                return [as_json({"units": [asdict(unit) for unit in units]})]
        raise InvalidInput("no such action", "type", action.type, f"known: {', '.join(ACTIONS)}")

    @answering
    def list_actions(self, context: flight.ServerCallContext) -> list[tuple[str, str]]:
        return list(ACTIONS.items())

    @answering
    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.GeneratorStream:
        rows_request = parsed(RowsRequest, ticket.ticket)
        self._check_reads(context, class_of(rows_request.unit))
        schema = answers.schema_of(self._dirs, rows_request.unit, rows_request.query)
        batches = answers.rows(
            self._dirs, rows_request.unit, rows_request.query, rows_request.first, rows_request.next
        )
        # What cannot be had from the beginning is an error before anything is sent.
        first = next(batches, None)
        return flight.GeneratorStream(schema, following(first, batches))

    # -- publishing ------------------------------------------------------------------------------------------------

    def _received(
        self, mapping: Mapped, reader: flight.MetadataRecordBatchReader, held: Held
    ) -> tuple[int, StagedPart]:
        """All rows that come, as they will be in the log."""
        rows, good = 0, []
        dead: dict[tuple[str, str], DeadRows] = {}
        for received in batches_of(reader):
            if received.nbytes > self._message_bytes:
                what = (
                    f"{received.nbytes:,} bytes in a record batch, where {self._message_bytes:,} are the most"
                )
                raise InvalidInput(what, hint="send smaller ones: option batchRows")
            check_sound(received)
            rows += received.num_rows
            batch, bad = mapping.take(received)
            self._staging.hold(held, max(received.nbytes, batch.nbytes))
            good.append(batch)
            for rows_apart in bad:
                dead.setdefault(
                    (rows_apart.reason, rows_apart.column), DeadRows(rows_apart.reason, rows_apart.column)
                ).batches += rows_apart.batches
        trains = trains_of(held.batch.stream, pa.Table.from_batches(good, mapping.arrow))
        return rows, StagedPart(tuple(trains), tuple(dead.values()))

    def _commit(self, context: flight.ServerCallContext, asked: CommitParts) -> dict[str, Any]:
        batch = BatchKey(self._stream(context, asked.stream), asked.producer, asked.batch)
        if self._is_committed(batch):
            self._staging.drop_until(batch)
            return again()
        try:
            parts = self._staging.parts(batch, asked.parts)
        except NotStaged:
            if self._is_committed(batch):  # meanwhile, by a call that this one repeats
                return again()
            raise
        return self._published(batch, parts)

    def _published(self, batch: BatchKey, parts: list[StagedPart]) -> dict[str, Any]:
        dead = [rows for part in parts for rows in part.dead]
        answer = self._streams.publish(
            batch.stream,
            [train for part in parts for train in part.trains],
            BatchId(mark_of(batch.producer), batch.number),
            lambda: self._dead.keep(batch.stream, batch.producer, batch.number, dead),
        )
        if isinstance(answer, RefusedBatch):
            if answer.retry_after_s is None:
                raise refused(answer.reason)
            raise later(answer.reason, answer.retry_after_s)
        self._staging.drop_until(batch)
        if answer.again:
            return again()
        rows = sum(part.rows for part in parts)
        return {"published": rows, "dead": sum(part.dead_rows for part in parts), "again": False}

    def _last(self, stream: Stream, producer: str) -> int | None:
        with self._streams.lock:
            return stream.producers.of(mark_of(producer))

    def _is_committed(self, batch: BatchKey) -> bool:
        last = self._last(batch.stream, batch.producer)
        return last is not None and batch.number <= last

    # -- who may do what -------------------------------------------------------------------------------------------

    def _stream(self, context: flight.ServerCallContext, name: str) -> Stream:
        record: KeyRecord = context.get_middleware(KEY).record
        if not record.writes(name):
            raise flight.FlightUnauthorizedError(
                f"the key may not write to stream {name}: look at the option apiKey"
            )
        with self._streams.lock:
            stream = self._streams.find(name)
        if stream.origin is not None:
            what = f"stream {stream.name} comes in at node {stream.origin}: write to its endpoint"
            raise InvalidInput(what, "stream", hint="option endpoint")
        return stream

    def _check_reads(self, context: flight.ServerCallContext, class_name: str) -> None:
        record: KeyRecord = context.get_middleware(KEY).record
        if not record.reads(class_name):
            raise flight.FlightUnauthorizedError(
                f"the key may not read class {class_name}: look at the option apiKey"
            )

    @contextmanager
    def _putting(self, stream: Stream) -> Iterator[None]:
        name = stream.name.lower()
        with self._lock:
            if self._puts.total() >= PUTS or self._puts[name] >= STREAM_PUTS:
                raise later("as many parts as fit are being received")
            self._puts[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._puts[name] -= 1


def again(rows: int | None = None, commit: bool = True) -> dict[str, Any]:
    """The answer to what was committed before."""
    answer = {} if rows is None else {"rows": rows}
    return answer | {"again": True} | ({"published": 0, "dead": 0} if commit else {})


def described(stream: Stream) -> pa.Schema:
    """The columns, with what else is to know about the stream."""
    schema = stream.schema
    time = "" if schema.time is None else schema.schema.fields[schema.time].name
    metadata = {
        "weir.time_column": time,
        "weir.time_unit_us": str(schema.time_unit_us),
        "weir.sql": stream.sql,
    }
    return stream.arrow.with_metadata(metadata)


def batches_of(reader: flight.MetadataRecordBatchReader) -> Iterator[pa.RecordBatch]:
    for chunk in reader:
        if chunk.data is not None:
            yield chunk.data


def rest_of(reader: flight.MetadataRecordBatchReader) -> int:
    """What a producer sends that need not: it reads the answer only after that. How many rows it was."""
    return sum(batch.num_rows for batch in batches_of(reader))


def check_sound(batch: pa.RecordBatch) -> None:
    """To the last byte: every class reads it where it lies."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as problem:
        raise InvalidInput("not a sound record batch", hint=str(problem)) from None


def trains_of(stream: Stream, table: pa.Table) -> Iterator[Train]:
    """One a frame."""
    for begin in range(0, table.num_rows, FRAME_ROWS):
        for batch in table.slice(begin, FRAME_ROWS).combine_chunks().to_batches():
            yield stream.train(batch)


def following(first: pa.RecordBatch | None, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if first is not None:
        yield first
    try:
        yield from others
    except Exception as problem:
        raise as_flight(problem) from None
