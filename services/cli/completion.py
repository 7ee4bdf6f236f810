"""Shell completion of names of declarations. The names come from the service, or from the catalog of WEIR_HOME if no service runs.

The user waits for the completion and cannot see errors, so after an error or ANSWER_S seconds no names are offered.
"""

from __future__ import annotations

import os

import typer

from configs.documents.declarations import KINDS, kind_named, name_of
from configs.errors import WeirError
from services.cli.service_location import declarations
from services.common.weir_home import ENDPOINT, home_of
from services.remote.models import Declared

ANSWER_S = 1.0


def kinds(incomplete: str) -> list[str]:
    """Return the kinds that begin with the typed text. A text in lower case gets names in lower case, because a shell keeps typed letters."""
    names = [kind.lower() for kind in KINDS] if incomplete.islower() else list(KINDS)
    return [name for name in names if name.startswith(incomplete)]


def names_of_kind(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of declarations of the kind that was typed before the name, for example `tenant` in `weir get tenant ac`."""
    return names(str(ctx.params.get("kind")), incomplete)


def tenants(incomplete: str) -> list[str]:
    return names("Tenant", incomplete)


def queries(incomplete: str) -> list[str]:
    return names("Query", incomplete)


def streams(incomplete: str) -> list[str]:
    return names("Stream", incomplete)


def names(kind: str, incomplete: str) -> list[str]:
    try:
        full_names = (name_of(entry.ref) for entry in declared(kind_named(kind)))
        return [name for name in full_names if name.startswith(incomplete)]
    except WeirError:
        return []


def declared(kind: str) -> list[Declared]:
    home = home_of(os.environ)
    if os.environ.get(ENDPOINT) or home.served_at():
        # The client is imported when names are completed, so that the completion of options does not wait for this import.
        from services.client import Client

        with Client(timeout_s=ANSWER_S, tries=1) as client:
            return client.all(kind)
    # Opening the catalog would create it, and completion must not create anything.
    if home.dsn is None and not home.database.is_file():
        return []
    with declarations() as weir:
        return weir.all(kind)
