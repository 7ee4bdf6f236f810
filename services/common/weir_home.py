"""Location of the catalog: the user's folder and the database, as environment variables define them.

The variables are:
WEIR_HOME     folder of the catalog, the pepper and files of `weir up`; default ~/.weir
WEIR_CATALOG  database of the catalog, postgresql://USER@HOST/DATABASE; default: a SQLite file in the folder
WEIR_PEPPER   secret that API keys are hashed with; default: a file in the folder

If WEIR_ENDPOINT is set, commands call the service at that address instead (`services.remote.wire`).
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

from configs.errors import Away, InvalidInput

HOME, CATALOG, PEPPER, ENDPOINT = "WEIR_HOME", "WEIR_CATALOG", "WEIR_PEPPER", "WEIR_ENDPOINT"
PEPPER_FILE = "pepper"
PEPPER_BYTES = 32
PEPPER_LEAST = 16
# Maximum seconds that `weir up` waits for the lock. Other commands take the lock for a moment to check whether `weir up` runs.
LOCK_WAIT_S = 1.0
LOCK_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class OwnSystem:
    """Record of the running system that `weir up` has started or found for a home."""

    name: str
    address: str
    """Address of the system's Ray cluster."""
    auth_mode: str | None
    """Value of Ray's environment variable RAY_AUTH_MODE for processes that join."""
    on_cluster: bool
    """True if the system continues to run when `weir up` ends."""


@dataclass(frozen=True, slots=True)
class Home:
    """Folder WEIR_HOME with its files, and the values of environment variables that replace some of the files."""

    folder: Path
    dsn: str | None = field(default=None, repr=False)
    given_pepper: str | None = field(default=None, repr=False)

    def made(self) -> Home:
        """Create the folder if needed, readable only by its owner; raise InvalidInput if that is impossible."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            raise unusable(problem, "the folder of Weir cannot be created", self.folder) from None
        return self

    @property
    def database(self) -> Path:
        return self.folder / "catalog.db"

    @property
    def endpoint(self) -> Path:
        """File with the address of the service that runs from this home."""
        return self.folder / "endpoint"

    @property
    def admin_key(self) -> Path:
        """File with the administrator's API key."""
        return self.folder / "admin.key"

    @property
    def feeds(self) -> Path:
        """Folder of the checkpoints of feeds and of Spark's logs, unless a command names another folder."""
        return self.folder / "feeds"

    def ingest(self, file: Path | None) -> Path:
        """Return the folder for checkpoints of `weir ingest`. Each file of streams has its own folder; the feeds of a service share one folder."""
        if file is None:
            return self.folder / "ingest" / "service"
        path = file.absolute()
        return self.folder / "ingest" / f"{path.stem}-{sha256(bytes(path)).hexdigest()[:8]}"

    @property
    def lock(self) -> Path:
        """Lock file of the `weir up` that runs from this home. The process id in the file is valid only while the file is locked."""
        return self.folder / "up.lock"

    @property
    def system_file(self) -> Path:
        """File that describes the system of this home (`OwnSystem`)."""
        return self.folder / "system.json"

    def is_held(self) -> bool:
        """Return True while a `weir up` runs from this home. The lock decides, because a killed `weir up` leaves its files behind."""
        try:
            file = os.open(self.lock, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    def holder(self) -> int | None:
        """Return the process id of the `weir up` that runs from this home, or None if no `weir up` runs."""
        if not self.is_held():
            return None
        with suppress(OSError, ValueError):
            return int(self.lock.read_text(encoding="ascii"))
        return None

    def served_at(self) -> str | None:
        """Return the address of the service that runs from this home, or None if no service runs."""
        try:
            text = self.endpoint.read_text(encoding="utf-8").strip()
        except OSError:
            return None
        return text if self.is_held() else None

    def system(self) -> OwnSystem | None:
        """Return the system that belongs to this home, or None."""
        try:
            noted = OwnSystem(**json.loads(self.system_file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        return noted if noted.on_cluster or self.is_held() else None

    def must_not_be_killed(self) -> None:
        """Raise Away if the folder contains files of a killed `weir up`: its system is not running."""
        is_left = self.endpoint.exists() or self.system_file.exists()
        if is_left and not self.is_held() and self.system() is None:
            title = "the system of this home is not running: its `weir up` was killed"
            raise Away(title, HOME, str(self.folder), "start it with `weir up`")

    def note_system(self, system: OwnSystem) -> None:
        """Record the system for commands of this home (`weir top`, `weir down`)."""
        write_private(self.system_file, json.dumps(asdict(system)))

    def forget_system(self) -> None:
        """Remove the record of the system. Idempotent."""
        self.system_file.unlink(missing_ok=True)

    def pepper(self) -> bytes:
        """Return the secret with which API keys are hashed; create it at the first call. Without the secret, all keys are invalid."""
        if self.given_pepper is not None:
            if len(self.given_pepper) < PEPPER_LEAST:
                hint = f"use at least {PEPPER_LEAST} random characters"
                raise InvalidInput("the pepper, the secret for API keys, is too short", PEPPER, hint=hint)
            return self.given_pepper.encode()
        path = self.made().folder / PEPPER_FILE
        if not path.exists():
            make_secret(path)
        if path.stat().st_mode & 0o077:
            raise InvalidInput(
                "other users may read the pepper, the secret for API keys",
                PEPPER_FILE,
                str(path),
                "run chmod 600 on the file, and create new keys",
            )
        return path.read_bytes()


def unusable(
    problem: OSError, title: str, path: Path, option: str = HOME, hint: str = "choose another folder"
) -> InvalidInput:
    """Return the error for a file or folder that the operating system does not permit to use, with the system's reason."""
    why = (problem.strerror or str(problem)).lower()
    return InvalidInput(f"{title}: {why}", option, str(path), hint)


def home_of(environ: Mapping[str, str]) -> Home:
    """Return the home that the environment variables define."""
    folder = Path(environ.get(HOME) or "~/.weir").expanduser()
    return Home(folder.absolute(), environ.get(CATALOG) or None, environ.get(PEPPER) or None)


@contextmanager
def held(home: Home) -> Iterator[None]:
    """Lock the home for one service. The operating system releases the lock when the process ends, even if it is killed.

    Files of an earlier, killed `weir up` are removed first.
    """
    path = home.made().lock
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise unusable(problem, "the lock file of Weir cannot be locked", path) from None
    try:
        if not locked(file):
            hint = f"stop that `weir up`, or set {HOME} to another folder"
            raise InvalidInput("another `weir up` runs from this folder", HOME, str(home.folder), hint)
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        home.endpoint.unlink(missing_ok=True)
        if not (before := home.system()) or not before.on_cluster:
            home.forget_system()
        yield
    finally:
        os.close(file)


def locked(file: int) -> bool:
    """Lock an open file; return False if another process has locked the file and keeps the lock."""
    until = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
        else:
            return True
        time.sleep(LOCK_POLL_S)


def make_secret(path: Path) -> None:
    """Write a new secret to a file atomically. If two processes write a secret at the same time, the first secret stays."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    make_private(draft)
    draft.write_text(secrets.token_hex(PEPPER_BYTES), encoding="ascii")
    with suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()


def write_private(path: Path, text: str) -> None:
    """Write a file atomically in place of an old one; only its owner may read the new file."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        make_private(draft)
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    except OSError as problem:
        with suppress(OSError):
            draft.unlink()
        raise unusable(problem, "the file cannot be written", path) from None


def make_private(path: Path) -> None:
    """Create an empty file that only its owner may read, unless the file exists."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
