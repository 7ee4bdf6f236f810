"""What a service tells a client, as types; what it comes to tell later is not for this client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from configs.documents.declarations import Declaration, Ref, ref_of
from configs.documents.spark_streams import StreamsFile


class ServiceModel(BaseModel):
    """Frozen; what is not known is left out."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Declared(ServiceModel):
    """A declaration as it is now."""

    version: int
    declaration: Declaration = Field(alias="document", discriminator="kind")
    warnings: str = ""
    """Of a change: which promise may not hold with it."""

    @property
    def ref(self) -> Ref:
        return ref_of(self.declaration)


class Change(ServiceModel):
    """What became, or would become, of a declaration."""

    kind: str
    name: str
    tenant: str = ""
    action: str
    changes: Mapping[str, tuple[Any, Any]] = {}
    """Before and after, by field."""

    @property
    def ref(self) -> Ref:
        return Ref(self.kind, self.name, self.tenant)


class Applied(ServiceModel):
    """What came of documents."""

    changes: Sequence[Change]
    warnings: Sequence[str] = ()


class ToBring(ServiceModel):
    """What Spark is to bring."""

    file: StreamsFile | None = Field(repr=False)
    """None where nothing has a source."""
    endpoints: Mapping[str, str]
    """Where its streams come in, by name."""


class KeyInfo(ServiceModel):
    """What may be seen of a key."""

    id: str
    principal: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    used_at: datetime | None = None
    revoked_at: datetime | None = None


class NewKey(KeyInfo):
    """A key that was just made; it is not told again."""

    key: str = Field(repr=False)


class AuditEntry(ServiceModel):
    """One change, and by whom."""

    id: int
    at: datetime
    who: str
    action: str
    kind: str
    name: str
    fields: tuple[str, ...] = ()


class RowsPut(ServiceModel):
    """What became of rows that were brought."""

    accepted: int
    rejected: int
    reasons: Mapping[str, int] = {}
    repeated: bool = False
    """Whether the batch had been brought before."""
