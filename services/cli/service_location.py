"""Choice of the service that commands call: the service at WEIR_ENDPOINT, or else the service that runs from WEIR_HOME.

Use:
with declarations() as weir: ...     declarations and keys; without a service, the catalog of WEIR_HOME is opened directly
with service() as weir: ...          running classes and queries, which only a service can report
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from configs.documents.declarations import kind_named
from services.common.weir_home import ENDPOINT, home_of

if TYPE_CHECKING:
    from services.cli.local_catalog import CatalogHere
    from services.client import Client

    Declarations = Client | CatalogHere
    """Service, or catalog that is opened directly: both have the methods for declarations and keys."""


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
    except KeyError:  # In a container, the user may have no name.
        return f"uid {os.getuid()}"
