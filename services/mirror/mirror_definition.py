"""Checks of a mirror's declaration: its SQL, its stream, its addresses and password, and its keys.

`read_mirror(declaration)` returns the mirror, or raises an InvalidInput that names the wrong field. `profile_of(mirror, keys)`
returns the interest in each object that is assumed before any use of an object is known, and `floors_of(mirror, keys)` the least
freshness of each object.

These checks contact no other system. Facts that only the store of the objects knows are checked when the mirror starts.
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
DATABASE_HINT = "write sqlite:///FILE or postgresql://USER@HOST/DATABASE"
# Maximum number of patterns of a clause. Each pattern is compared with every key.
PATTERNS_MAX = 100
# Accepted form of an integer key. 01 and +1 are refused: 01 and 1 would be two HTTP addresses, but one row of a table.
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
# Parsed statements are cached, because each change of the catalog checks all statements again.
parsed = lru_cache(maxsize=500)(parse_create_mirror)


def read_mirror(one: MirrorDeclaration) -> Mirror:
    try:
        mirror = parsed(one.sql)
    except PlanningError as problem:
        raise replace(problem, field="sql") from None
    if mirror.name != one.name:
        hint = "use the same name in the document and in CREATE MIRROR"
        raise InvalidInput(
            "the name in CREATE MIRROR differs from the name of the declared mirror", "sql", mirror.name, hint
        )
    try:
        check_addresses(mirror, one.password)
        if mirror.keys:
            keys = checked_keys(mirror, mirror.keys)
            profile_of(mirror, keys)
            floors_of(mirror, keys)
    except InvalidInput as problem:
        field = problem.field if problem.field.startswith("options") else "sql"
        raise replace(problem, field=field) from None
    return mirror


def stream_of(mirror: Mirror) -> StreamDeclaration:
    """Return the declaration of the stream that gets the changes of the mirror's objects."""
    return StreamDeclaration(kind="Stream", name=mirror.name, sql=mirror.stream_sql)


def check_addresses(mirror: Mirror, password: str) -> None:
    """Raise InvalidInput if an address contains a password, because addresses are shown, or if there is a password but no user."""
    secrets_there = list(credentials(mirror))
    if any(secret for _, secret in secrets_there):
        hint = "remove the password from the address, and set options.password"
        raise InvalidInput(
            "an address in the SQL contains a password, which every reader of the declaration would see",
            "sql",
            hint=hint,
        )
    if password and not any(user for user, _ in secrets_there):
        hint = "name the user in the address, as in postgresql://USER@HOST/DATABASE"
        raise InvalidInput(
            "a password is given, but no address in the SQL contains a user name",
            "options.password",
            hint=hint,
        )


def check_hosts(mirror: Mirror) -> None:
    """Raise InvalidInput if an address of the mirror is not valid."""
    for _ in credentials(mirror):
        pass


def credentials(mirror: Mirror) -> Iterator[tuple[str | None, str | None]]:
    """Yield the user and the password in each address of the mirror; raise InvalidInput if an address is not valid."""
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
            # The wrong address is not shown, because an address may contain a password.
            raise InvalidInput(
                "this is not a valid HTTP address",
                "FROM HTTP",
                hint="write an address such as 'http://host/items/{key}'",
            ) from None


def database_url(address: str) -> URL:
    try:
        url = make_url(address)
    except (sa.exc.ArgumentError, ValueError):
        # The wrong address is not shown, because an address may contain a password.
        raise InvalidInput(
            "this is not a valid database address", "FROM DATABASE", hint=DATABASE_HINT
        ) from None
    if url.drivername.partition("+")[0] not in DATABASES:
        raise InvalidInput(
            "this kind of database is not supported", "FROM DATABASE", url.drivername, DATABASE_HINT
        )
    return url


def checked_keys(mirror: Mirror, keys: Sequence[str]) -> list[str]:
    if not keys:
        raise InvalidInput("the mirror has no objects", "KEYS", hint="name at least one key")
    if len(keys) > KEYS_MAX:
        raise InvalidInput(
            f"the mirror has more than {KEYS_MAX:,} objects", "KEYS", len(keys), "declare several mirrors"
        )
    field = mirror.columns.fields[0]
    if field.type.kind is not TypeKind.STRING:
        most = 1 << (31 if field.type.kind is TypeKind.INT32 else 63)
        for key in keys:
            if not (WHOLE.fullmatch(key) and -most <= int(key) < most):
                hint = f"declare {field.name} as string, or remove the key"
                raise InvalidInput(f"the key is not a valid {field.type}", "KEYS", key, hint)
    return list(dict.fromkeys(keys))


def profile_of(mirror: Mirror, keys: Sequence[str]) -> list[float]:
    """Return the weight of each key: the weight of the first pattern that matches the key, or 1 if no pattern matches."""
    return numbers_of("PROFILE", mirror.profile, keys, 1.0)


def floors_of(mirror: Mirror, keys: Sequence[str]) -> list[float]:
    """Return the least freshness of each key: that of the first pattern that matches the key, or 0 if no pattern matches."""
    return numbers_of("MIN FRESHNESS", mirror.floors, keys, 0.0)


def numbers_of(
    clause: str, patterns: Sequence[tuple[str, float]], keys: Sequence[str], usual: float
) -> list[float]:
    """Return the number of each key: the number of the first pattern that matches the key, or `usual` if no pattern matches."""
    numbers, met = dict.fromkeys(keys, usual), set[str]()
    several = sum(pattern not in numbers for pattern, _ in patterns)
    if several > PATTERNS_MAX:
        title = f"the clause has more than {PATTERNS_MAX} patterns that are not keys"
        raise InvalidInput(title, clause, several, "write keys instead of patterns, or fewer patterns")
    for pattern, number in patterns:
        expression = re.compile(fnmatch.translate(pattern))
        matching = [pattern] if pattern in numbers else [key for key in keys if expression.match(key)]
        if not matching:
            raise UnknownName(
                "the pattern matches no key of the mirror", clause, pattern, nearest(pattern, keys)
            )
        for key in matching:
            if key not in met:
                met.add(key)
                numbers[key] = number
    return [numbers[key] for key in keys]
