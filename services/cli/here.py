"""Whom a command is about: the service that the environment names, or the catalog of this user's home.

with declarations() as weir: ...     declarations and keys, at a service or here: the command need not know which
with service() as weir: ...          what runs, of which only a service knows
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from configs.declarations import Document
from services.catalog.home import ENDPOINT, home_of
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

    def users(self, kind: str, name: str) -> list[str]: ...

    def audit(self, kind: str, name: str) -> list[AuditEntry]: ...

    def list_keys(self) -> list[KeyInfo]: ...

    def create_key(self, principal: str, scopes: Iterable[str], expires_s: float | None = None) -> NewKey: ...

    def revoke_key(self, id_: str) -> None: ...


@contextmanager
def declarations() -> Iterator[Declarations]:
    """Of the service that the environment names; otherwise of the catalog here."""
    # What the one needs is not imported for the other, nor for who only asks for help.
    if os.environ.get(ENDPOINT):
        with service() as client:
            yield client
    else:
        from services.catalog.catalog import opened
        from services.cli.catalog_here import CatalogHere

        with opened(home_of(os.environ)) as found:
            yield CatalogHere(found, who())


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
