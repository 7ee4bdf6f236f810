"""`weir config`: what this command goes by, and where each setting comes from. Secrets are not shown."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from services.catalog.hidden import HIDDEN
from services.catalog.home import CATALOG, ENDPOINT, HOME, PEPPER, PEPPER_FILE, Home, home_of
from services.cli.catalog_views import OutputOption, lines_table, show
from services.remote.wire import CA_FILE, KEY, checked_endpoint

ENVIRONMENT, DEFAULT, ABSENT = "environment", "default", "nowhere"


@dataclass(frozen=True, slots=True)
class Setting:
    """One of them."""

    name: str
    value: str | None
    source: str
    meaning: str


def config(output: OutputOption = "table") -> None:
    """Show the settings of this command, and where each comes from."""
    found = list(settings(os.environ))
    heads = ("name", "value", "from")
    show(
        output,
        [asdict(one) for one in found],
        lambda: lines_table(heads, ((one.name, one.value or "–", one.source) for one in found)),
    )


def settings(environ: Mapping[str, str]) -> Iterator[Setting]:
    home = home_of(environ)
    yield Setting(HOME, str(home.folder), source_of(environ, HOME), "folder of catalog, keys and endpoint")
    catalog = shown_dsn(home.dsn) if home.dsn else str(home.database)
    yield Setting(CATALOG, catalog, source_of(environ, CATALOG), "database of the catalog")
    yield pepper(home)
    yield from of_service(environ, home)
    ca_file = environ.get(CA_FILE) or None
    yield Setting(
        CA_FILE, ca_file, source_of(environ, CA_FILE, ABSENT), "certificates the service's is checked with"
    )


def pepper(home: Home) -> Setting:
    path = home.folder / PEPPER_FILE
    source = ENVIRONMENT if home.given_pepper else str(path) if path.is_file() else "made with the first key"
    is_there = home.given_pepper is not None or path.is_file()
    return Setting(PEPPER, HIDDEN if is_there else None, source, "what keys are hashed with")


def of_service(environ: Mapping[str, str], home: Home) -> Iterator[Setting]:
    """Whom commands call, and with which key."""
    given, is_here = environ.get(ENDPOINT), home.endpoint.is_file()
    if given:
        endpoint, source = checked_endpoint(given), ENVIRONMENT
        meaning = "service that all commands call"
    elif is_here:
        endpoint, source = home.endpoint.read_text(encoding="utf-8").strip(), str(home.endpoint)
        meaning = "service for what runs; declarations are changed in the catalog here"
    else:
        endpoint, source, meaning = (
            None,
            ABSENT,
            "no service is known; declarations are changed in the catalog here",
        )
    yield Setting(ENDPOINT, endpoint, source, meaning)
    key_source = ABSENT
    if environ.get(KEY):
        key_source = ENVIRONMENT
    elif is_here and not given and home.admin_key.is_file():
        key_source = str(home.admin_key)
    yield Setting(KEY, None if key_source is ABSENT else HIDDEN, key_source, "key that is shown to it")


def shown_dsn(dsn: str) -> str:
    """Without what may be secret in it."""
    try:
        return make_url(dsn).set(query={}).render_as_string(hide_password=True)
    except sa.exc.ArgumentError:
        return HIDDEN


def source_of(environ: Mapping[str, str], name: str, otherwise: str = DEFAULT) -> str:
    return ENVIRONMENT if environ.get(name) else otherwise
