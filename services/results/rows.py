"""Delivery of rows from callers to the gateway of the node that takes the stream.

Example:

    rows = RowDelivery(endpoint, key)
    outcome = rows.bring(stream, sql, from_json(stream, body), "acme", idempotency_key)

With an idempotency key, rows are published once, however often they are sent: the gateway remembers the last keys of each
stream (`actors.gateway.producer_dedup`). Without a key, rows are published once if the call is answered.
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
from services.common.gateway_trust import DEFAULT_TRUST, GatewayTrust
from services.ingest.columns import mapped
from services.results.row_parsing import Brought

TIMEOUT_S = 30.0
BRINGERS_MAX = 8
CLIENTS_MAX = 1000
RETRY_AFTER_S = 1.0
NOT_DECLARED = "the gateway has no stream of this name"


@dataclass(eq=False)
class NoRoom(WeirError):
    """Error raised when a stream or the service can take no more rows at the moment."""

    retry_after_s: float = RETRY_AFTER_S


@dataclass(frozen=True, slots=True)
class RowsOutcome:
    """Numbers of accepted and rejected rows of one call, and the reasons for rejections."""

    accepted: int
    rejected: int
    reasons: dict[str, int]
    repeated: bool = False
    """True if the rows had been sent before with the same key, so that the gateway did not publish the rows again."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Name of a producer at the gateway, and the number of its next batch."""

    producer: str
    batch: int = 0


class RowDelivery:
    """Sender of rows to the gateways; thread-safe."""

    def __init__(
        self,
        endpoint: Callable[[str], str | None],
        key: Callable[[], str],
        trust: GatewayTrust = DEFAULT_TRUST,
    ) -> None:
        """Create a sender; `endpoint` returns the address of the gateway that takes a stream, and `key` returns the key for gateways."""
        self._endpoint, self._key, self._trust = endpoint, key, trust
        self._clients: dict[str, flight.FlightClient] = {}
        self._free: list[Sender] = []
        self._lock = threading.Lock()
        self._bringers = 0

    def bring(
        self, stream: StreamSchema, sql: str, brought: Brought, principal: str, idempotency_key: str | None
    ) -> RowsOutcome:
        """Publish the rows. Raise InvalidInput for wrong columns, NoRoom if a later try may succeed, Away if there is no gateway."""
        rejected = brought.rejected.copy()
        if brought.rows:
            # The gateway does not report why it rejects rows. So the service makes the same checks, to count rows by reason.
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
        # After any other error it is unknown whether the batch was published, so the sender is not used again.
        self._give_back(Sender(sender.producer, sender.batch + 1))
        return outcome

    def _put(self, stream: str, batches: list[pa.RecordBatch], sender: Sender) -> bool:
        """Send the batches to the gateway; return True if the gateway had already published the batches."""
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
            raise Away("the gateway cannot be reached yet", hint="send the rows again in a few seconds")
        with self._lock:
            client = self._clients.get(endpoint)
            if client is None:
                # All connections are closed when there are many, because some may lead to gateways that no longer exist.
                if len(self._clients) >= CLIENTS_MAX:
                    self._clients.clear()
                client = self._clients[endpoint] = self._trust.connect(endpoint)
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
                raise NoRoom("too many uploads of rows are in progress", hint="send the rows again")
            self._bringers += 1
        try:
            yield
        finally:
            with self._lock:
                self._bringers -= 1


def producer_of(principal: str, idempotency_key: str) -> str:
    """Return a producer name for an idempotency key. Each key has a producer of its own, so keys may arrive in any order."""
    identity = json.dumps([principal, idempotency_key]).encode()
    return f"rows/key/{blake2b(identity, digest_size=16).hexdigest()}"


@contextmanager
def as_ours(stream: str) -> Iterator[None]:
    """Convert Flight errors of the gateway into errors for the sender of rows."""
    try:
        yield
    except flight.FlightUnavailableError as problem:
        extra = extra_of(problem)
        if "retry_after_s" not in extra:
            hint = "send the rows again with the same Idempotency-Key"
            raise Away("the gateway does not answer", "stream", stream, hint) from None
        after_s = float(extra["retry_after_s"])
        raise NoRoom(
            extra["reason"], "stream", stream, "send the rows again", retry_after_s=after_s
        ) from None
    except flight.FlightServerError as problem:
        text = str(problem).partition(". gRPC client debug context")[0]
        if NOT_DECLARED in text:
            raise Away("the stream is starting", "stream", stream, "send the rows again") from None
        raise InvalidInput(text, "stream", stream) from None
    except (flight.FlightError, pa.ArrowException, OSError) as problem:
        hint = "send the rows again with the same Idempotency-Key"
        raise Away(
            f"the gateway does not answer ({type(problem).__name__})", "stream", stream, hint
        ) from None


def extra_of(problem: flight.FlightError) -> dict[str, Any]:
    try:
        content = json.loads(problem.extra_info)
    except (TypeError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
