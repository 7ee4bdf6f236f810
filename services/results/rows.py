"""Rows that callers bring, published through the door of the node at which the stream comes in.

    rows = Rows(endpoint, key)
    told = rows.bring(stream, from_json(stream, body), "acme", idempotency_key)

With an idempotency key the rows are published once, however often they are brought: the door remembers the last ones of a
stream (`actors.gateway.producer_dedup`). Without one they are published once if the call is answered.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import pyarrow as pa
from pyarrow import flight

from configs.errors import Away, InvalidInput, WeirError
from engine.data.schema import StreamSchema
from services.ingest.columns import mapped
from services.results.row_parsing import Brought

TIMEOUT_S = 30.0
BRINGERS_MAX = 8
CLIENTS_MAX = 1000
RETRY_AFTER_S = 1.0
NOT_DECLARED = "no such stream"


@dataclass(eq=False)
class NoRoom(WeirError):
    """The stream takes no more at the moment."""

    retry_after_s: float = RETRY_AFTER_S


@dataclass(frozen=True, slots=True)
class RowsOutcome:
    """What has become of the rows."""

    accepted: int
    rejected: int
    reasons: dict[str, int]
    repeated: bool = False
    """Whether they had been brought before, and so were not published again."""


@dataclass(frozen=True, slots=True)
class Sender:
    """A producer, as the door knows it, and its next batch."""

    producer: str
    batch: int = 0


class RowDelivery:
    """May be called by several threads."""

    def __init__(self, endpoint: Callable[[str], str | None], key: Callable[[], str]) -> None:
        """Where the door of the gateway is at which a stream comes in, and what opens it."""
        self._endpoint, self._key = endpoint, key
        self._clients: dict[str, flight.FlightClient] = {}
        self._free: list[Sender] = []
        self._lock = threading.Lock()
        self._bringers = 0

    def bring(
        self, stream: StreamSchema, sql: str, brought: Brought, principal: str, idempotency_key: str | None
    ) -> RowsOutcome:
        """InvalidInput if its columns are not the stream's; NoRoom if they are to be brought later; Away if nobody takes them."""
        rejected = brought.rejected.copy()
        if brought.rows:
            # As the door will do it, which keeps the rows that cannot be and tells no reasons.
            mapping = mapped(stream, sql, brought.batches[0].schema, None, None)
            for batch in brought.batches:
                for dead in mapping.take(batch)[1]:
                    rejected[f"{dead.reason}: {dead.column}"] += dead.rows
        accepted = brought.rows - (sum(rejected.values()) - sum(brought.rejected.values()))
        is_again = False
        if brought.rows:
            with self._bringing():
                is_again = self._publish(stream.name, brought.batches, principal, idempotency_key)
        return RowsOutcome(accepted, sum(rejected.values()), dict(rejected), is_again)

    def _publish(
        self, stream: str, batches: list[pa.RecordBatch], principal: str, idempotency_key: str | None
    ) -> bool:
        if idempotency_key is not None:
            return self._put(stream, batches, Sender(producer_of(principal, idempotency_key)))
        sender = self._sender()
        try:
            outcome = self._put(stream, batches, sender)
        except NoRoom:
            self._give_back(sender)
            raise
        # One whose call had no answer is not used again: whether its batch was published is not known.
        self._give_back(Sender(sender.producer, sender.batch + 1))
        return outcome

    def _put(self, stream: str, batches: list[pa.RecordBatch], sender: Sender) -> bool:
        """Whether the door has had it before."""
        command = {"v": 1, "stream": stream, "producer": sender.producer, "batch": sender.batch}
        command |= {"partition": 0, "attempt": "", "commit": True}
        descriptor = flight.FlightDescriptor.for_command(json.dumps(command).encode())
        with as_ours(stream):
            client, call = self._connected(stream)
            writer, answers = client.do_put(descriptor, batches[0].schema, call)
            with writer:
                for batch in batches:
                    writer.write_batch(batch)
                writer.done_writing()
                answer = json.loads(answers.read().to_pybytes())
        return bool(answer["again"])

    def _connected(self, stream: str) -> tuple[flight.FlightClient, flight.FlightCallOptions]:
        endpoint = self._endpoint(stream)
        if endpoint is None:
            raise Away("the gateway cannot be reached", hint="it is about to come up; bring the rows again")
        with self._lock:
            client = self._clients.get(endpoint)
            if client is None:
                # Of gateways that were there once.
                if len(self._clients) >= CLIENTS_MAX:
                    self._clients.clear()
                client = self._clients[endpoint] = flight.connect(endpoint)
        headers = [(b"authorization", f"Bearer {self._key()}".encode())]
        return client, flight.FlightCallOptions(timeout=TIMEOUT_S, headers=headers)

    def _sender(self) -> Sender:
        with self._lock:
            return self._free.pop() if self._free else Sender(f"rows/{secrets.token_hex(8)}")

    def _give_back(self, sender: Sender) -> None:
        with self._lock:
            self._free.append(sender)

    @contextmanager
    def _bringing(self) -> Iterator[None]:
        with self._lock:
            if self._bringers >= BRINGERS_MAX:
                raise NoRoom("as many rows as fit are being brought", hint="bring them again")
            self._bringers += 1
        try:
            yield
        finally:
            with self._lock:
                self._bringers -= 1


def producer_of(principal: str, idempotency_key: str) -> str:
    """One of its own, so that keys need no order."""
    identity = json.dumps([principal, idempotency_key]).encode()
    return f"rows/key/{blake2b(identity, digest_size=16).hexdigest()}"


@contextmanager
def as_ours(stream: str) -> Iterator[None]:
    """Errors of the door, as they are for who brings rows."""
    try:
        yield
    except flight.FlightUnavailableError as problem:
        extra = extra_of(problem)
        if "retry_after_s" not in extra:
            hint = "bring the rows again, with the same Idempotency-Key"
            raise Away("the gateway does not answer", "stream", stream, hint) from None
        after_s = float(extra["retry_after_s"])
        raise NoRoom(
            extra["reason"], "stream", stream, "bring the rows again", retry_after_s=after_s
        ) from None
    except flight.FlightServerError as problem:
        text = str(problem).partition(". gRPC client debug context")[0]
        if NOT_DECLARED in text:
            raise Away("the stream is about to begin", "stream", stream, "bring the rows again") from None
        raise InvalidInput(text, "stream", stream) from None
    except (flight.FlightError, pa.ArrowException, OSError) as problem:
        hint = "bring the rows again, with the same Idempotency-Key"
        raise Away(
            f"the gateway does not answer ({type(problem).__name__})", "stream", stream, hint
        ) from None


def extra_of(problem: flight.FlightError) -> dict[str, Any]:
    try:
        content = json.loads(problem.extra_info)
    except (TypeError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
