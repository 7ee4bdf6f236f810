"""Models of the service's responses. Fields that a later version of the service adds are ignored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from configs.documents.declarations import Declaration, Ref, ref_of
from configs.documents.spark_streams import StreamsFile


class ServiceModel(BaseModel):
    """Base of the models: instances cannot be changed, and unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class QueryRun(ServiceModel):
    """State of a query with a start or an end: `waiting`, `active` or `ended`. The queries that it reads can limit both times."""

    state: str
    start: datetime | None = None
    stop: datetime | None = None


class Declared(ServiceModel):
    """Declaration with its present version."""

    version: int
    declaration: Declaration = Field(alias="document", discriminator="kind")
    warnings: str = ""
    """Warnings about a change, for example classes that would miss their delay targets."""
    run: QueryRun | None = None
    """Run time of a query in a list of queries; None without a start or an end."""

    @property
    def ref(self) -> Ref:
        return ref_of(self.declaration)


class Change(ServiceModel):
    """Change of one declaration that was made, or with `dry_run` would be made."""

    kind: str
    name: str
    tenant: str = ""
    action: str
    changes: Mapping[str, tuple[Any, Any]] = {}
    """Values before and after the change, by name of the changed field."""

    @property
    def ref(self) -> Ref:
        return Ref(self.kind, self.name, self.tenant)


class Applied(ServiceModel):
    """Result of declaring documents: changes and warnings."""

    changes: Sequence[Change]
    warnings: Sequence[str] = ()


class ToBring(ServiceModel):
    """Feeds that Spark should run, and the gateways that take their rows."""

    file: StreamsFile | None = Field(repr=False)
    """Streams and feeds in the format of the file for `weir ingest -f`; None if no stream has a source."""
    endpoints: Mapping[str, str]
    """Address of the gateway that takes the rows of a stream, by name of the stream."""


class KeyInfo(ServiceModel):
    """Key without its secret: ID, principal, scopes and times."""

    id: str
    principal: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    used_at: datetime | None = None
    revoked_at: datetime | None = None


class NewKey(KeyInfo):
    """Key that was just created; `key` is its secret, which the service shows only this once."""

    key: str = Field(repr=False)


class AuditEntry(ServiceModel):
    """Change of a declaration or key, with the principal that made it."""

    id: int
    at: datetime
    who: str
    action: str
    kind: str
    name: str
    fields: tuple[str, ...] = ()


class RowsPut(ServiceModel):
    """Outcome of putting rows into a stream."""

    accepted: int
    rejected: int
    reasons: Mapping[str, int] = {}
    repeated: bool = False
    """True if the batch had been sent before, so that it was not published again."""
