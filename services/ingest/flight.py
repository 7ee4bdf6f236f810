"""Arrow Flight server of a node, for producers and readers on the network. The server runs in the gateway's process.

- The call `get_schema` returns the columns of a stream (path stream, NAME) or of a query (path query, CLASS, QUERY).
- The call `do_put` receives one part of a producer's batch, and stages the part. An only part is published at once.
- The call `do_action` has four actions: `commit` and `abort` end a batch, `committed` returns the last batch of a producer, and
  `results` returns the range of rows that are kept of a query's answers.
- The call `do_get` returns rows of a query's answers.

The requests are defined in `services.ingest.messages`. Every call must have a key. A call that would fail again ends with
FlightServerError, and a call that may succeed later with FlightUnavailableError. Details of an error are JSON in `extra_info`.

Guarantees:
1. When the response to a commit is sent, the whole batch is in the stream's log. A repeated commit does not publish the batch
   again. Both are true also for a part that is published at once. `abort` and `committed` may be repeated.
2. A producer that sends wrong data, or stops in the middle of a call, delays no other stream.
3. If a lossless class has not read enough of a stream, producers are asked to retry later. Classes that shed do not delay producers.

Calls run on gRPC's threads. A call without a key is refused before its rows are read.
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
from services.common.gateway_trust import readable
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
# Maximum bytes of a record batch. A larger batch is refused after gRPC has received it.
MESSAGE_BYTES = 64 << 20
# Maximum number of parts that are received at the same time, for all streams together (PUTS) and for each stream (STREAM_PUTS).
# Each part that is being received occupies a gRPC thread, so the limit per stream leaves threads for other streams.
PUTS = 256
STREAM_PUTS = 64
# Maximum seconds for which `close` waits for calls that are in progress.
CLOSE_S = 1.0
NOT_SERVED = (OSError, pa.ArrowException)
EVERYWHERE = ("0.0.0.0", "[::]")
KEY = "key"
AUTHORIZATION, BEARER = "authorization", "Bearer "
ACTIONS = {
    "commit": "publish the staged parts of a batch",
    "abort": "drop the staged parts of a batch",
    "committed": "return the number of a producer's last committed batch",
    "results": "return the range of a query's rows that is kept",
}

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class FlightSettings:
    """Address, keys and limits of the Flight server."""

    host: str = "127.0.0.1"
    """Address at which the server listens; NODE stands for the address that this machine has in Ray."""
    port: int = 0
    """Port at which the server listens; 0 for any free port."""
    certificate: Path | None = None
    """PEM file of the certificate with its chain. Without a certificate, the server uses no TLS."""
    private_key: Path | None = None
    """PEM file of the certificate's private key."""
    keys: KeyRing = field(default=KeyRing(), repr=False)
    """Keys that are valid in addition to the keys that are published in the folder of the node."""
    message_bytes: int = MESSAGE_BYTES
    staged_bytes: int = STAGED_BYTES
    dead_bytes: int = DEAD_BYTES

    def with_key(self, key: str) -> FlightSettings:
        """Return these settings of the Flight server with one more accepted key, which has the scope `admin`."""
        return replace(self, keys=self.keys.with_key(key))

    def with_new_key(self) -> tuple[FlightSettings, str]:
        key = new_key()
        return self.with_key(key), key

    @property
    def scheme(self) -> str:
        return "grpc" if self.certificate is None else "grpc+tls"

    def certificates(self) -> list[tuple[bytes, bytes]]:
        """Return the contents of the certificate file and the key file, or an empty list without TLS.

        Raise InvalidInput if a file cannot be read.
        """
        if self.certificate is None or self.private_key is None:
            return []
        return [
            (
                readable(self.certificate, "gateway.tls.certificate"),
                readable(self.private_key, "gateway.tls.key"),
            )
        ]

    def open(self, streams: Streams, dirs: RunDirs) -> FlightDoor:
        return FlightDoor(replace(self, host=here(self.host)), streams, dirs)


class FlightDoor:
    """Flight server of a node, with its published address. The server accepts calls as soon as the object is constructed."""

    def __init__(self, settings: FlightSettings, streams: Streams, dirs: RunDirs) -> None:
        self._endpoint = dirs.endpoint
        self._server = served(settings, streams, dirs)
        host = socket.getfqdn() if settings.host in EVERYWHERE else settings.host
        self.address = f"{settings.scheme}://{host}:{self._server.port}"
        draft = dirs.endpoint.with_suffix(".draft")
        draft.write_text(self.address, encoding="utf-8")
        os.replace(draft, dirs.endpoint)

    def status(self) -> dict[str, Any]:
        return {"endpoint": self.address, **self._server.status()}

    def close(self) -> None:
        """Stop the server. Calls that still run after CLOSE_S fail, because the streams are closed next."""
        self._endpoint.unlink(missing_ok=True)
        ending = threading.Thread(target=self._server.shutdown, name="flight-end", daemon=True)
        ending.start()
        ending.join(CLOSE_S)
        self._server.dead.close()


def served(settings: FlightSettings, streams: Streams, dirs: RunDirs) -> FlightServer:
    """Start a Flight server on the configured port.

    Without a configured port, the server first tries the port of the previous server, because producers know that port.
    """
    if not settings.port and (before := port_in(dirs.endpoint)):
        try:
            return FlightServer(settings, before, streams, dirs)
        except NOT_SERVED:
            log.warning("port %d is now in use by another process", before)
    try:
        return FlightServer(settings, settings.port, streams, dirs)
    except NOT_SERVED as problem:
        where = f"{settings.host}:{settings.port}"
        raise InvalidInput(
            "no server can be started at this address", "endpoint", where, str(problem)
        ) from None


def here(host: str) -> str:
    """Return the address of `host` at which the server listens. The host NODE stands for the address of this machine in the cluster."""
    if host != NODE:
        return host
    # Importing the module `cluster` also imports Ray, so the module is imported only if the host is NODE.
    from actors.runtime.cluster import address_here

    return address_here()


def port_in(path: Path) -> int | None:
    """Return the port in the address file of an earlier gateway; None without such a file."""
    try:
        return int(path.read_text(encoding="utf-8").rpartition(":")[2])
    except (FileNotFoundError, ValueError):
        return None


class ShownKey(flight.ServerMiddleware):
    """Middleware of one call, with the record of the key that the caller has sent."""

    def __init__(self, record: KeyRecord) -> None:
        super().__init__()
        self.record = record


class FlightKeys(flight.ServerMiddlewareFactory):
    """Check of the key that is sent with each call, with the time at which each key was last used."""

    def __init__(self, own: KeyRing, published: PublishedKeys) -> None:
        super().__init__()
        self._own, self._published = own, published
        self.used: dict[str, float] = {}
        """Time at which each published key was last used, in seconds since 1970, by the key's id."""

    def start_call(self, info: flight.CallInfo, headers: dict[str, list[str]]) -> ShownKey:
        shown = headers.get(AUTHORIZATION, [])
        if len(shown) != 1 or not str(shown[0]).startswith(BEARER):
            raise flight.FlightUnauthenticatedError("the call has no key: set the option apiKey")
        key, now = str(shown[0]).removeprefix(BEARER), time.time()
        record = self._own.record_of(key, now) or self._published.ring().record_of(key, now)
        if record is None:
            raise flight.FlightUnauthenticatedError(
                "this key is not valid for this gateway: check the option apiKey"
            )
        if record.id:
            self.used[record.id] = now
        return ShownKey(record)


def answering(method: Callable[..., Answer]) -> Callable[..., Answer]:
    """Decorate a method so that all its exceptions become Flight errors. Unexpected exceptions show only their type."""

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
    log.error("a call of the Flight server has failed", exc_info=problem)
    what = f"internal error of the gateway: {type(problem).__name__}; see its log"
    return cast(Exception, flight.FlightInternalError(what))


def refused(text: str, **extra: Any) -> Exception:
    return cast(Exception, flight.FlightServerError(text, as_json(extra)))


def later(text: str, after_s: float = RETRY_AFTER_S) -> Exception:
    extra = as_json({"retry_after_s": after_s, "reason": text})
    return cast(Exception, flight.FlightUnavailableError(text, extra))


def as_json(found: Any) -> bytes:
    return json.dumps(found).encode()


class FlightServer(flight.FlightServerBase):
    """Implementation of the calls of the Flight server, with staged parts and dead letters."""

    def __init__(self, settings: FlightSettings, port: int, streams: Streams, dirs: RunDirs) -> None:
        self._streams, self._dirs = streams, dirs
        self._staging = Staging(settings.staged_bytes)
        self.dead = DeadLetters(settings.dead_bytes)
        self._keys = FlightKeys(settings.keys, PublishedKeys(dirs.keys))
        self._message_bytes = settings.message_bytes
        self._lock = threading.Lock()
        self._puts: Counter[str] = Counter()
        # The base class is initialised last, because the server accepts calls as soon as the base class is initialised.
        location = f"{settings.scheme}://{settings.host}:{port}"
        super().__init__(location, tls_certificates=settings.certificates(), middleware={KEY: self._keys})

    def status(self) -> dict[str, Any]:
        dead = {stream.name: dict(self.dead.counts(stream)) for stream in self._streams.all()}
        return {"staged": self._staging.status(), "dead": dead, "keys_used": dict(self._keys.used)}

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
        hint = "write [stream, NAME] or [query, CLASS, QUERY]"
        raise InvalidInput("the path names neither a stream nor a query", "path", hint=hint)

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
                # All rows of a repeated batch are read, because a producer reads the response only after the whole upload.
                rows = sum(batch.num_rows for batch in batches_of(reader))
                writer.write(as_json(again(rows, put.commit)))
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
                results = parsed(ResultsRequest, body)
                self._check_reads(context, results.class_name)
                units = answers.units(self._dirs, results.class_name, results.query)
                return [as_json({"units": [asdict(unit) for unit in units]})]
        raise InvalidInput(
            "the gateway has no action of this name", "type", action.type, f"known: {', '.join(ACTIONS)}"
        )

    @answering
    def list_actions(self, context: flight.ServerCallContext) -> list[tuple[str, str]]:
        return list(ACTIONS.items())

    @answering
    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.GeneratorStream:
        request = parsed(RowsRequest, ticket.ticket)
        self._check_reads(context, class_of(request.unit))
        schema = answers.schema_of(self._dirs, request.unit, request.query)
        batches = answers.rows(self._dirs, request.unit, request.query, request.first, request.next)
        # The first batch is read before the response begins, so that an error is raised before anything is sent.
        first = next(batches, None)
        return flight.GeneratorStream(schema, following(first, batches))

    def _received(
        self, mapping: Mapped, reader: flight.MetadataRecordBatchReader, held: Held
    ) -> tuple[int, StagedPart]:
        """Receive all rows of a part. Return the number of rows, and the part in the form in which it is staged or published."""
        rows, good = 0, list[pa.RecordBatch]()
        dead: list[DeadRows] = []
        for received in batches_of(reader):
            if received.nbytes > self._message_bytes:
                what = f"a record batch has {received.nbytes:,} bytes; the maximum is {self._message_bytes:,} bytes"
                raise InvalidInput(what, hint="send smaller batches: set the option batchRows")
            check_sound(received)
            rows += received.num_rows
            batch, bad = mapping.take(received)
            self._staging.hold(held, max(received.nbytes, batch.nbytes))
            good.append(batch)
            dead += bad
        trains = trains_of(held.batch.stream, pa.Table.from_batches(good, mapping.arrow))
        return rows, StagedPart(tuple(trains), tuple(dead))

    def _commit(self, context: flight.ServerCallContext, asked: CommitParts) -> dict[str, Any]:
        batch = BatchKey(self._stream(context, asked.stream), asked.producer, asked.batch)
        if self._is_committed(batch):
            self._staging.drop_until(batch)
            return again()
        try:
            parts = self._staging.parts(batch, asked.parts)
        except NotStaged:
            # The parts are also missing if an earlier try of this call has committed the batch, because a commit removes the staged parts.
            if self._is_committed(batch):
                return again()
            raise
        return self._published(batch, parts)

    def _published(self, batch: BatchKey, parts: list[StagedPart]) -> dict[str, Any]:
        trains = [train for part in parts for train in part.trains]
        dead = [rows for part in parts for rows in part.dead]
        answer = self._streams.publish(
            batch.stream,
            trains,
            BatchId(mark_of(batch.producer), batch.number),
            lambda: self.dead.keep(batch.stream, batch.producer, batch.number, dead),
        )
        if isinstance(answer, RefusedBatch):
            if answer.retry_after_s is None:
                raise refused(answer.reason)
            raise later(answer.reason, answer.retry_after_s)
        self._staging.drop_until(batch)
        if answer.again:
            return again()
        return {
            "published": sum(map(len, trains)),
            "dead": sum(rows.rows for rows in dead),
            "again": False,
        }

    def _last(self, stream: Stream, producer: str) -> int | None:
        with self._streams.lock:
            return stream.producers.of(mark_of(producer))

    def _is_committed(self, batch: BatchKey) -> bool:
        last = self._last(batch.stream, batch.producer)
        return last is not None and batch.number <= last

    def _stream(self, context: flight.ServerCallContext, name: str) -> Stream:
        record: KeyRecord = context.get_middleware(KEY).record
        if not record.writes(name):
            raise flight.FlightUnauthorizedError(
                f"the key may not write to stream {name}: check the option apiKey"
            )
        with self._streams.lock:
            stream = self._streams.find(name)
        if stream.origin is not None:
            what = f"stream {stream.name} is received at node {stream.origin}: write to that node's endpoint"
            raise InvalidInput(what, "stream", hint="set the option endpoint")
        return stream

    def _check_reads(self, context: flight.ServerCallContext, class_name: str) -> None:
        record: KeyRecord = context.get_middleware(KEY).record
        if not record.reads(class_name):
            raise flight.FlightUnauthorizedError(
                f"the key may not read class {class_name}: check the option apiKey"
            )

    @contextmanager
    def _putting(self, stream: Stream) -> Iterator[None]:
        name = stream.name.lower()
        with self._lock:
            if self._puts.total() >= PUTS or self._puts[name] >= STREAM_PUTS:
                raise later("too many uploads are in progress; retry later")
            self._puts[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._puts[name] -= 1


def again(rows: int | None = None, commit: bool = True) -> dict[str, Any]:
    """Return the response to a call about a batch that was already committed."""
    answer = {} if rows is None else {"rows": rows}
    return answer | {"again": True} | ({"published": 0, "dead": 0} if commit else {})


def described(stream: Stream) -> pa.Schema:
    """Return the columns of the stream, with the event-time column, the time unit and the SQL as metadata."""
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


def check_sound(batch: pa.RecordBatch) -> None:
    """Raise InvalidInput if the record batch is corrupt. Later code reads the memory of the batch without another check."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as problem:
        raise InvalidInput("the record batch is corrupt", hint=str(problem)) from None


def trains_of(stream: Stream, table: pa.Table) -> Iterator[Train]:
    """Yield the rows of the table as trains, each of which becomes a frame of the stream's log."""
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
