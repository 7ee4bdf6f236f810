"""Settings of the REST server: address, TLS, and limits for callers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from configs.base import BareOff, Positive, Settings
from configs.errors import Contradiction

AdmissionKind = Literal["off", "warn", "refuse"]
Admission = Annotated[AdmissionKind, BareOff]
ADMISSIONS: tuple[str, ...] = get_args(AdmissionKind)
Bytes = Annotated[int, Field(ge=1024, le=1 << 30)]
Many = Annotated[int, Field(ge=1, le=1_000_000)]
PORT = 8642


class ServiceSettings(Settings):
    """Settings of one REST server, which hold for all callers."""

    host: Annotated[str, Field(min_length=1, max_length=253)] = "127.0.0.1"
    """Address at which the service listens: a name or an address of this machine."""

    port: Annotated[int, Field(ge=0, le=65_535)] = PORT
    """Port at which the service listens; 0 chooses a free port."""

    tls_certificate: Path | None = None
    """PEM file of the certificate with its chain. Without a certificate, the service runs without TLS."""

    tls_key: Path | None = None
    """PEM file of the certificate's private key."""

    admission: Admission = "warn"
    """Action for a tenant or a query that would make a class miss its delay target: off, warn or refuse."""

    body_bytes: Bytes = 1 << 20
    """Maximum body size of a request in bytes."""

    documents_bytes: Bytes = 16 << 20
    """Maximum body size in bytes of a request with several documents."""

    rows_bytes: Bytes = 16 << 20
    """Maximum body size in bytes of a request with rows."""

    requests_per_s: Positive = 5000.0
    """Maximum mean rate of requests per second for each key. Requests of a console page count for its key."""

    requests_burst: Many = 10_000
    """Maximum number of requests that a key may send at once."""

    streams_per_key: Many = 100
    """Maximum number of waiting readers for each key: event streams and long polls."""

    failures_per_minute: Many = 600
    """Maximum number of requests per minute with a wrong key from one address; further requests have to wait."""

    connections: Many = 2000
    """Maximum number of connections at the same time, for all callers together."""

    look_s: Positive = 0.25
    """Seconds between two checks for changes that other processes have made in the catalog."""

    metrics_operators: bool = False
    """Add metrics for each operator. This adds several series per operator, and a regular call per class."""

    stop_s: Annotated[int, Field(ge=1, le=60)] = 2
    """Seconds that requests in progress may continue when the service ends. Readers that wait for rows are disconnected at
    once."""

    @model_validator(mode="after")
    def has_both_files(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            missing = "tls_key" if self.tls_key is None else "tls_certificate"
            title = "TLS needs both a certificate and its key, but only one is given"
            hint = "give both files, or neither"
            raise Contradiction(title, missing, hint=hint)
        return self

    @property
    def scheme(self) -> str:
        return "http" if self.tls_certificate is None else "https"
