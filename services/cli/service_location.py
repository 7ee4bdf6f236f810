"""Choice of the service that commands call: the service at WEIR_ENDPOINT, or else the service that runs from WEIR_HOME.

with declarations() as weir: ...     declarations and keys; without a service, the catalog of WEIR_HOME is opened directly
with service() as weir: ...          running classes and queries, which only a service can report
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
    """Methods for declarations and keys that `services.client.Client` and a catalog opened directly both have."""

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
    """Yield a client of the service. Without a service, yield the catalog of WEIR_HOME, which checks no delay targets."""
    # Each branch imports only what it uses: importing all modules would slow down every command, and even `--help`.
    if os.environ.get(ENDPOINT) or home_of(os.environ).served_at():
        with service() as client:
            yield client
    else:
        from services.catalog.catalog import opened
        from services.cli.local_catalog import CatalogHere

        with opened(home_of(os.environ)) as catalog:
            yield CatalogHere(catalog, who())


def named_query(weir: Declarations, kind: str, name: str) -> str:
    """Return the full name of a declaration. A query's name without a tenant is completed with the only tenant that the caller may see."""
    is_whole = kind_named(kind) != "Query" or "/" in name
    return name if is_whole else f"{weir.tenant()}/{name}"


def service() -> Client:
    """Return a client of the service at WEIR_ENDPOINT, or else of the service that runs from WEIR_HOME."""
    from services.client import Client

    return Client()


def who() -> str:
    """Return the name of the current user, for the audit log."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in a container the user may have no name
        return f"uid {os.getuid()}"
