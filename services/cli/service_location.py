"""Commands go to the service that the environment names, or else to the one of this home, or else to the catalog itself.

with declarations() as weir: ...     declarations and keys: the catalog itself only where no service runs
with service() as weir: ...          what runs, of which only a service knows
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from configs.documents.declarations import Document, kind_named
from services.common.weir_home import ENDPOINT, home_of
from services.remote.models import Applied, AuditEntry, Declared, KeyInfo, NewKey

if TYPE_CHECKING:
    from services.client import Client


class Declarations(Protocol):
    """As `services.client.Client` has them."""

    def apply(self, documents: Sequence[Document]) -> Applied: ...

    def diff(self, documents: Sequence[Document]) -> Applied: ...

    def get(self, kind: str, name: str) -> Declared: ...

    def all(self, kind: str, tenant: str | None = None) -> list[Declared]: ...

    def delete(self, kind: str, name: str) -> None: ...

    def tenant(self) -> str: ...

    def users(self, kind: str, name: str) -> list[str]: ...

    def audit(self, kind: str, name: str) -> list[AuditEntry]: ...

    def list_keys(self) -> list[KeyInfo]: ...

    def create_key(self, principal: str, scopes: Iterable[str], expires_s: float | None = None) -> NewKey: ...

    def revoke_key(self, id_: str) -> None: ...


@contextmanager
def declarations() -> Iterator[Declarations]:
    """Yield the declarations of the service, which admits changes, or of the catalog itself where no service runs."""
    # What the one needs is not imported for the other, nor for who only asks for help.
    if os.environ.get(ENDPOINT) or home_of(os.environ).served_at():
        with service() as client:
            yield client
    else:
        from services.catalog.catalog import opened
        from services.cli.local_catalog import CatalogHere

        with opened(home_of(os.environ)) as catalog:
            yield CatalogHere(catalog, who())


def named_query(weir: Declarations, kind: str, name: str) -> str:
    """Return the whole name: a query without its tenant belongs to the only tenant that is visible."""
    is_whole = kind_named(kind) != "Query" or "/" in name
    return name if is_whole else f"{weir.tenant()}/{name}"


def service() -> Client:
    """The one that the environment names, or that runs from this home."""
    from services.client import Client

    return Client()


def who() -> str:
    """Whoever runs this, in the audit log."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user need have no name
        return f"uid {os.getuid()}"
