"""What a mirror is declared as: that its SQL means something, its stream, its keys, and the password it needs.

    read_mirror(declaration)        the mirror, or an InvalidInput that names the field
    profile_of(mirror, keys)        how much each object is wanted, before that is known

Nothing is asked of anybody here: what only the store of the objects knows is found out when the mirror begins.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from urllib.parse import urlsplit

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from configs.documents.declarations import MirrorDeclaration, StreamDeclaration
from configs.documents.spark_streams import SECRET
from configs.errors import InvalidInput, UnknownName, nearest
from engine.data.schema import TypeKind
from engine.sql import Mirror, PlanningError, parse_create_mirror
from engine.sql.create_mirror import KEYS_MAX, DatabaseOrigin

DATABASES = ("postgresql", "postgres", "sqlite")
DATABASE_HINT = "sqlite:///FILE or postgresql://USER@HOST/DATABASE"
# Each is held against every key.
PATTERNS_MAX = 100
# As it is in an address: 01 and 1 are one row of a table, and +1 is none.
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
# Of statements that many changes look at again.
parsed = lru_cache(maxsize=500)(parse_create_mirror)


def read_mirror(one: MirrorDeclaration) -> Mirror:
    try:
        mirror = parsed(one.sql)
    except PlanningError as problem:
        raise replace(problem, field="sql") from None
    if mirror.name != one.name:
        hint = "let the document and the CREATE MIRROR have one name"
        raise InvalidInput("the SQL declares a mirror of another name", "sql", mirror.name, hint)
    try:
        check_addresses(mirror, one.password)
        if mirror.keys:
            profile_of(mirror, checked_keys(mirror, mirror.keys))
    except InvalidInput as problem:
        field = problem.field if problem.field.startswith("options") else "sql"
        raise replace(problem, field=field) from None
    return mirror


def stream_of(mirror: Mirror) -> StreamDeclaration:
    """Of its changes."""
    return StreamDeclaration(kind="Stream", name=mirror.name, sql=mirror.stream_sql)


# -- addresses -----------------------------------------------------------------------------------------------------


def check_addresses(mirror: Mirror, password: str) -> None:
    """A declaration is shown to people: what is secret stands apart in it, where it can be hidden."""
    secrets_there = list(credentials(mirror))
    if any(secret for _, secret in secrets_there):
        hint = "leave it out there, and give it as options.password"
        raise InvalidInput("an address has a password", "sql", hint=hint)
    if password and not any(user for user, _ in secrets_there):
        hint = "name the user in the address, as in postgresql://USER@HOST/DATABASE"
        raise InvalidInput("nobody's password: no address names a user", "options.password", hint=hint)


def check_hosts(mirror: Mirror) -> None:
    """InvalidInput if one of its addresses is none."""
    for _ in credentials(mirror):
        pass


def credentials(mirror: Mirror) -> Iterator[tuple[str | None, str | None]]:
    """User and password of each address."""
    if isinstance(mirror.origin, DatabaseOrigin):
        url = database_url(mirror.origin.url)
        said = [value for name, value in url.query.items() if SECRET.search(name)]
        yield (
            url.username or str(url.query.get("user", "")),
            str(url.password or "") or "".join(map(str, said)),
        )
        return
    for address in filter(None, (mirror.origin.url, mirror.keys_url)):
        try:
            parts = urlsplit(address)
            if not parts.hostname or parts.port == 0:
                raise ValueError
            yield parts.username, parts.password
        except ValueError:
            # It may hold a password.
            raise InvalidInput(
                "not an address of HTTP", "FROM HTTP", hint="'http://host/items/{key}'"
            ) from None


def database_url(address: str) -> URL:
    try:
        url = make_url(address)
    except (sa.exc.ArgumentError, ValueError):
        # The value may hold a password.
        raise InvalidInput("not the address of a database", "FROM DATABASE", hint=DATABASE_HINT) from None
    if url.drivername.partition("+")[0] not in DATABASES:
        raise InvalidInput("not a database that is read", "FROM DATABASE", url.drivername, DATABASE_HINT)
    return url


# -- keys ----------------------------------------------------------------------------------------------------------


def checked_keys(mirror: Mirror, keys: Sequence[str]) -> list[str]:
    if not keys:
        raise InvalidInput("the mirror has no objects", "KEYS", hint="name one at least")
    if len(keys) > KEYS_MAX:
        raise InvalidInput(
            f"a mirror has {KEYS_MAX:,} objects at most", "KEYS", len(keys), "make several mirrors"
        )
    field = mirror.columns.fields[0]
    if field.type.kind is not TypeKind.STRING:
        most = 1 << (31 if field.type.kind is TypeKind.INT32 else 63)
        for key in keys:
            if not (WHOLE.fullmatch(key) and -most <= int(key) < most):
                title, hint = f"a key is no {field.type}", f"let {field.name} be a string, or leave it out"
                raise InvalidInput(title, "KEYS", key, hint)
    return list(dict.fromkeys(keys))


def profile_of(mirror: Mirror, keys: Sequence[str]) -> list[float]:
    """The weight of the first pattern that each key meets; 1 if it meets none."""
    weights, met = dict.fromkeys(keys, 1.0), set[str]()
    several = sum(pattern not in weights for pattern, _ in mirror.profile)
    if several > PATTERNS_MAX:
        title = f"a profile has {PATTERNS_MAX} patterns at most that are no keys"
        raise InvalidInput(title, "PROFILE", several, "write the keys themselves, or wider patterns")
    for pattern, weight in mirror.profile:
        expression = re.compile(fnmatch.translate(pattern))
        matching = [pattern] if pattern in weights else [key for key in keys if expression.match(key)]
        if not matching:
            raise UnknownName("the profile names no object", "PROFILE", pattern, nearest(pattern, keys))
        for key in matching:
            if key not in met:
                met.add(key)
                weights[key] = weight
    return [weights[key] for key in keys]
