"""Where a catalog is: the folder of this user, and the database.

WEIR_HOME     folder of the catalog and of the pepper; ~/.weir without it
WEIR_CATALOG  postgresql://USER@HOST/DATABASE; a file in the folder without it
WEIR_PEPPER   what keys are hashed with; a file in the folder without it

WEIR_ENDPOINT says that it is not here at all, but at a service (`services.remote.wire`).
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from configs.problems import InvalidInput

HOME, CATALOG, PEPPER, ENDPOINT = "WEIR_HOME", "WEIR_CATALOG", "WEIR_PEPPER", "WEIR_ENDPOINT"
DATABASE_FILE, PEPPER_FILE = "catalog.db", "pepper"
ENDPOINT_FILE, ADMIN_KEY_FILE = "endpoint", "admin.key"
LOCK_FILE = "up.lock"
PEPPER_BYTES = 32
PEPPER_LEAST = 16


@dataclass(frozen=True, slots=True)
class Home:
    """The folder and what the environment says instead of its files."""

    folder: Path
    dsn: str | None = field(default=None, repr=False)
    given_pepper: str | None = field(default=None, repr=False)

    def made(self) -> Home:
        """The folder is there, for its owner alone."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            why = (problem.strerror or str(problem)).lower()
            raise InvalidInput(
                f"cannot be a folder: {why}", HOME, str(self.folder), "choose another place"
            ) from None
        return self

    @property
    def database(self) -> Path:
        return self.folder / DATABASE_FILE

    @property
    def endpoint(self) -> Path:
        """Says where the service that runs from this home is, while it runs."""
        return self.folder / ENDPOINT_FILE

    @property
    def admin_key(self) -> Path:
        """Holds the key of whoever runs the service."""
        return self.folder / ADMIN_KEY_FILE

    @property
    def lock(self) -> Path:
        """Locked by the service that runs from this home; the file says nothing by itself."""
        return self.folder / LOCK_FILE

    def pepper(self) -> bytes:
        """Made when it is asked for first; who loses it has no keys any more."""
        if self.given_pepper is not None:
            if len(self.given_pepper) < PEPPER_LEAST:
                hint = f"give {PEPPER_LEAST} characters or more, of chance"
                raise InvalidInput("too short", PEPPER, hint=hint)
            return self.given_pepper.encode()
        path = self.made().folder / PEPPER_FILE
        if not path.exists():
            make_secret(path)
        if path.stat().st_mode & 0o077:
            raise InvalidInput(
                "others may read the pepper", PEPPER_FILE, str(path), "chmod 600, and make new keys"
            )
        return path.read_bytes()


def home_of(environ: Mapping[str, str]) -> Home:
    """As the environment says."""
    folder = Path(environ.get(HOME) or "~/.weir").expanduser()
    return Home(folder.absolute(), environ.get(CATALOG) or None, environ.get(PEPPER) or None)


@contextmanager
def held(home: Home) -> Iterator[None]:
    """By one service at a time; the lock ends with the process, however that ends."""
    path = home.made().lock
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        why = (problem.strerror or str(problem)).lower()
        raise InvalidInput(f"cannot be locked: {why}", HOME, str(path), "choose another place") from None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = f"end that `weir up`, or set {HOME} to another folder"
            raise InvalidInput("a service runs from it already", HOME, str(home.folder), hint) from None
        yield
    finally:
        os.close(file)


def make_secret(path: Path) -> None:
    """Whole or not at all; of two who make it at a time, the first has made it."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    make_private(draft)
    draft.write_text(secrets.token_hex(PEPPER_BYTES), encoding="ascii")
    with suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()


def write_private(path: Path, text: str) -> None:
    """For its owner alone; whoever reads it meanwhile has the whole of it, before or after."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        make_private(draft)
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    except OSError as problem:
        with suppress(OSError):
            draft.unlink()
        why = (problem.strerror or str(problem)).lower()
        raise InvalidInput(f"cannot be written: {why}", HOME, str(path), "choose another place") from None


def make_private(path: Path) -> None:
    """A file of its owner's alone, which is empty unless it was there."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
