"""How the service is served: where, by TLS or not, and what anybody may ask of it."""

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
    """One service; the same for all who call it."""

    host: Annotated[str, Field(min_length=1, max_length=253)] = "127.0.0.1"
    """Where it listens; a name or an address of this machine."""

    port: Annotated[int, Field(ge=0, le=65_535)] = PORT
    """0: one that is free."""

    tls_certificate: Path | None = None
    """PEM, with the chain; without it the service is served without TLS."""

    tls_key: Path | None = None
    """PEM, of the certificate."""

    admission: Admission = "warn"
    """What becomes of a tenant or a query with which a delay target would be missed."""

    body_bytes: Bytes = 1 << 20
    """Most that one request may bring."""

    documents_bytes: Bytes = 16 << 20
    """The same where it brings many documents."""

    rows_bytes: Bytes = 16 << 20
    """The same where it brings rows."""

    requests_per_s: Positive = 5000.0
    """Of one key, in the long run; a console page counts as its key."""

    requests_burst: Many = 10_000
    """Of one key, at once."""

    streams_per_key: Many = 100
    """Readers that one key may keep waiting at a time: streams of events and long polls."""

    failures_per_minute: Many = 600
    """Wrong keys that one address may show before it has to wait."""

    connections: Many = 2000
    """At a time, of all callers together."""

    look_s: Positive = 0.25
    """Between two looks for what others have changed in the catalog."""

    metrics_operators: bool = False
    """Whether metrics have detail by operator: some series for each, and a call a class now and then."""

    stop_s: Annotated[int, Field(ge=1, le=60)] = 2
    """What is being answered may go on for so long when the service ends; who waits for rows is sent away at once."""

    @model_validator(mode="after")
    def has_both_files(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            missing = "tls_key" if self.tls_key is None else "tls_certificate"
            raise Contradiction(
                "TLS needs a certificate and its key", missing, hint="give both files, or neither"
            )
        return self

    @property
    def scheme(self) -> str:
        return "http" if self.tls_certificate is None else "https"
