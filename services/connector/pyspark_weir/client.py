"""Client of a gateway over Arrow Flight, with retries.

If the gateway cannot be reached or has no room, a call is repeated until timeoutSeconds have passed. With several endpoints,
the next endpoint is tried without a pause. Every call can safely be repeated: each upload has a new attempt id, a commit
publishes only the attempts that it names, and the gateway publishes each batch once.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import flight

from pyspark_weir.errors import DataLoss, GatewayAway, Refused, WeirError
from pyspark_weir.options import Connection, WriteOptions

Answer = TypeVar("Answer")
Json = dict[str, Any]
VERSION: Json = {"v": 1}
# Errors after which a call is repeated: the gateway cannot be reached or has no room.
AWAY = (flight.FlightUnavailableError, flight.FlightTimedOutError)
ERRORS = (flight.FlightError, pa.ArrowException)
PAUSE_S = 0.1
PAUSE_MAX_S = 2.0
# Minimum time limit of a single call in seconds, even if timeoutSeconds is shorter.
CALL_S = 10.0
# Maximum seconds for which an abort is repeated. A failed abort is harmless: the next commit removes the staged parts from memory.
ABORT_S = 5.0
# Maximum bytes of a message. The limit of the gateway is several times larger.
MESSAGE_BYTES = 16 << 20
# Pauses of gRPC before it connects again, in milliseconds. By default, calls may fail for two minutes after the gateway is back.
CHANNEL = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
]
# Patterns of the texts that pyarrow adds to an error message of the server: one before the message, and one after it.
INTRODUCTION = re.compile(r"^(?:Flight error|Flight returned [a-z ]+ error, with message|Unknown error): ")
ACCOUNT = re.compile(r"\.? ?(?:Detail|gRPC client debug context|Client context): .*", re.DOTALL)


@dataclass(frozen=True)
class Batch:
    """Identity of a batch: its producer and its number. A stream publishes each batch of a producer once."""

    producer: str
    number: int


@dataclass(frozen=True)
class ShardAnswers:
    """Rows of one shard's answers that the gateway still stores: the rows numbered `first` to `next - 1`."""

    name: str
    first: int
    next: int


class GrowingPauses:
    """Pauses between tries of a call, until the time limit has passed. Each pause is twice as long as the previous pause."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self.renew()

    def renew(self) -> None:
        self._until = time.monotonic() + self._timeout_s
        self._pause_s = PAUSE_S

    def call_s(self) -> float:
        return max(CALL_S, self._until - time.monotonic())

    def wait(self, error: Exception) -> None:
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise GatewayAway(
                f"the gateway did not accept the call within {self._timeout_s:g} s: {text_of(error)}; "
                "check that the gateway runs and has room, or set a larger timeoutSeconds"
            ) from None
        time.sleep(min(told(error).get("retry_after_s", self._pause_s), PAUSE_MAX_S, left_s))
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)


class GatewayClient:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def stage(
        self, options: WriteOptions, batch: Batch, partition: int, rows: Sequence[pa.RecordBatch]
    ) -> str:
        """Upload rows for a later commit, and return the id of the attempt, which the commit must name."""
        return self._put(options, batch, partition, pa.Table.from_batches(rows), commit=False)

    def publish(self, options: WriteOptions, batch: Batch, rows: pa.Table) -> None:
        """Publish the rows as a batch of one part. When this method returns, the rows are in the stream."""
        self._put(options, batch, 0, rows, commit=True)

    def _put(self, options: WriteOptions, batch: Batch, partition: int, rows: pa.Table, commit: bool) -> str:
        def put(client: flight.FlightClient, call: flight.FlightCallOptions) -> str:
            # Each try has a new id. So the rows of an earlier try, which may be staged although it has failed, are never committed.
            attempt = uuid.uuid4().hex
            command = {
                **of_batch(options.stream, batch),
                "partition": partition,
                "attempt": attempt,
                "timestamp_column": options.timestamp_column,
                "schema_policy": options.schema_policy,
                "commit": commit,
            }
            descriptor = flight.FlightDescriptor.for_command(as_bytes(command))
            writer, answers = client.do_put(descriptor, rows.schema, call)
            with writer:
                for message in messages(rows.to_batches(), options.batch_rows):
                    writer.write_batch(message)
                writer.done_writing()
                answers.read()
            return attempt

        return self._try(put)

    def commit(self, stream: str, batch: Batch, parts: Sequence[tuple[int, str]]) -> None:
        self._act("commit", {**of_batch(stream, batch), "parts": [list(part) for part in parts]})

    def abort(self, stream: str, batch: Batch) -> None:
        """Drop the staged parts of a batch. If the gateway cannot be reached, the next commit of the batch drops these parts."""
        with suppress(WeirError):
            self._act("abort", of_batch(stream, batch), min(ABORT_S, self._connection.timeout_s))

    def schema(self, class_: str, query: str) -> pa.Schema:
        descriptor = flight.FlightDescriptor.for_path("query", class_, query)
        return self._try(lambda client, call: client.get_schema(descriptor, call).schema)

    def units(self, class_: str, query: str) -> list[ShardAnswers]:
        answer = self._act("results", {**VERSION, "class": class_, "query": query})
        return [ShardAnswers(unit["unit"], unit["first"], unit["next"]) for unit in answer["units"]]

    def rows(self, unit: str, query: str, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows numbered `begin` to `end - 1`. Each row is yielded once, even if the connection breaks in between."""
        patience = GrowingPauses(self._connection.timeout_s)
        while begin < end:
            stream = self._stream({**VERSION, "unit": unit, "query": query, "from": begin, "to": end})
            try:
                for chunk in stream:
                    if chunk.data.num_rows:
                        begin = chunk.data.column("_seq")[-1].as_py() + 1
                        patience.renew()
                        yield chunk.data
                assert begin >= end, f"the gateway sent rows up to {begin}, {end} was requested"
            except AWAY as error:
                patience.wait(error)
            except ERRORS as error:
                raise refusal(error) from None

    def _stream(self, request: Json) -> Iterable[flight.FlightStreamChunk]:
        ticket = flight.Ticket(as_bytes(request))
        return self._try(lambda client, call: client.do_get(ticket, call))

    def _act(self, action: str, body: Json, timeout_s: float | None = None) -> Json:
        request = flight.Action(action, as_bytes(body))
        (result,) = self._try(lambda client, call: list(client.do_action(request, call)), timeout_s)
        answer: Json = json.loads(result.body.to_pybytes())
        return answer

    def _try(
        self,
        work: Callable[[flight.FlightClient, flight.FlightCallOptions], Answer],
        timeout_s: float | None = None,
    ) -> Answer:
        patience = GrowingPauses(self._connection.timeout_s if timeout_s is None else timeout_s)
        headers = [(b"authorization", f"Bearer {self._connection.api_key}".encode())]
        while True:
            late: Exception | None = None
            for endpoint in self._connection.endpoints:
                try:
                    call = flight.FlightCallOptions(timeout=patience.call_s(), headers=headers)
                    trust = (self._connection.authorities, self._connection.server_name)
                    return work(client(endpoint, *trust), call)
                except AWAY as error:
                    late = error
                except ERRORS as error:
                    raise refusal(error) from None
            assert late is not None
            patience.wait(late)


@cache
def client(endpoint: str, authorities: bytes | None, server_name: str | None) -> flight.FlightClient:
    """Return the Flight client of an endpoint. All tasks of a worker process share the client, because Spark runs many short tasks."""
    given = {"tls_root_certs": authorities, "override_hostname": server_name}
    trust = {name: value for name, value in given.items() if value is not None}
    return flight.connect(endpoint, generic_options=CHANNEL, **trust)


def messages(rows: Sequence[pa.RecordBatch], rows_max: int) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        most = max(1, min(rows_max, MESSAGE_BYTES * batch.num_rows // max(1, batch.nbytes)))
        for begin in range(0, batch.num_rows, most):
            yield batch.slice(begin, most)


def of_batch(stream: str, batch: Batch) -> Json:
    return {**VERSION, "stream": stream, "producer": batch.producer, "batch": batch.number}


def as_bytes(body: Json) -> bytes:
    return json.dumps(body).encode()


def refusal(error: Exception) -> WeirError:
    kept = told(error).get("next")
    if isinstance(kept, int):
        return DataLoss(text_of(error), kept)
    if told(error).get("code") == "not_staged":
        return Refused(f"{text_of(error)}; start the query again, so that it repeats the batch")
    return Refused(text_of(error))


def told(error: Exception) -> Json:
    """Return the JSON fields that the gateway attached to an error."""
    try:
        fields = json.loads(getattr(error, "extra_info", b"") or b"{}")
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def text_of(error: Exception) -> str:
    """Return the gateway's message without the texts that pyarrow adds."""
    return INTRODUCTION.sub("", ACCOUNT.sub("", str(error)))
