"""Where a running system keeps what its processes share: `<shared memory>/weir-<uid>-<system>/<node>/`.

    gateway.sock  gateway-door.sock  dispatcher.sock      sockets
    endpoint  ingest.key  keys.json                       where the node is reached over the network, and keys for it
    streams/<stream>/  classes/<class>/                   logs (`actors.log.segment_log`)

and beside the nodes' folders cluster.json, on the machine where the system was started.

Every process of a system holds a shared lock on the system's lock file, which goes with the process. A system whose
lock nobody holds is dead, and what it has left behind takes memory: whoever starts next removes it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from actors.runtime.private_dirs import make_private
from configs.errors import InvalidInput

SHARED_MEMORY = Path("/dev/shm")
LOCK, CLUSTER = "system.lock", "cluster.json"
# Where the kernel lists processes, by number.
PROCESSES = Path("/proc")
# Start of the name of a folder in the machine's temporary folder, which has Ray's files of a local system.
TEMPORARY = "weir-"
# Also of a unit: a class, with the shard behind a #.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.#-]{0,79}")


def shared_memory() -> Path:
    """Where files are memory, if there is such a place."""
    return SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


@dataclass(frozen=True, slots=True)
class Cluster:
    """The Ray cluster that a system is on."""

    address: str
    auth_mode: str | None
    """What a process that joins is to have in Ray's environment variable for it."""
    home: str | None = None
    """Folder of the catalog that the system follows; None for a system without a catalog."""


@dataclass(frozen=True, slots=True)
class RunDirs:
    """The folders of one node of a system; `base` holds those of all systems."""

    base: Path
    system: str
    node: str

    @property
    def root(self) -> Path:
        return self.base / f"{prefix()}{checked(self.system)}"

    @property
    def folder(self) -> Path:
        return self.root / checked(self.node)

    @property
    def dispatcher_socket(self) -> Path:
        return self.folder / "dispatcher.sock"

    @property
    def gateway_socket(self) -> Path:
        return self.folder / "gateway.sock"

    @property
    def door_socket(self) -> Path:
        return self.folder / "gateway-door.sock"

    @property
    def endpoint(self) -> Path:
        return self.folder / "endpoint"

    @property
    def ingest_key(self) -> Path:
        return self.folder / "ingest.key"

    @property
    def keys(self) -> Path:
        return self.folder / "keys.json"

    @property
    def streams(self) -> Path:
        return self.folder / "streams"

    @property
    def classes(self) -> Path:
        return self.folder / "classes"

    def stream(self, name: str) -> Path:
        """Names of streams are without regard to case."""
        return self.streams / checked(name.lower())

    def class_log(self, name: str) -> Path:
        return self.classes / checked(name)

    def hold(self) -> int:
        """Make the folders; the system counts as alive until the open file that is returned is closed."""
        while True:
            make_private(self.root)
            path = self.root / LOCK
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(file, fcntl.LOCK_SH)
            # Whoever took it for dead may have removed it before the lock was ours.
            if is_at(file, path):
                break
            os.close(file)
        for folder in (self.folder, self.streams, self.classes):
            make_private(folder)
        return file

    def note_cluster(self, cluster: Cluster) -> None:
        """For those who look for the system on this machine."""
        (self.root / CLUSTER).write_text(json.dumps(asdict(cluster)), encoding="utf-8")

    def remove(self) -> None:
        """Everything of this node, and of the system if no other node has anything here."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if not any(entry.is_dir() for entry in listed(self.root)):
            shutil.rmtree(self.root, ignore_errors=True)


def remove_dead(base: Path) -> list[Path]:
    """Remove what systems of this user have left behind of which no process is alive; the folders removed."""
    removed = []
    for root in listed(base):
        if root.name.startswith(prefix()) and not root.is_symlink():
            with lock_if_dead(root) as dead:
                if dead:
                    shutil.rmtree(root, ignore_errors=True)
                    removed.append(root)
    return removed


def remove_dead_temporary(base: Path) -> list[Path]:
    """Remove Ray's files of systems that were killed; return the folders."""
    removed = []
    for root in listed(base):
        if root.name.startswith(TEMPORARY) and root.lstat().st_uid == os.getuid() and not root.is_symlink():
            with lock_if_dead(root) as dead:
                if dead:
                    shutil.rmtree(root, ignore_errors=True)
                    removed.append(root)
    return removed


def clusters(base: Path) -> dict[str, Cluster]:
    """Of systems of this user that were started on this machine and are alive."""
    by_system = {}
    for root in listed(base):
        if root.name.startswith(prefix()) and (root / CLUSTER).is_file():
            with lock_if_dead(root) as dead:
                if not dead:
                    noted = json.loads((root / CLUSTER).read_text(encoding="utf-8"))
                    by_system[root.name.removeprefix(prefix())] = Cluster(**noted)
    return by_system


def kill_users(folder: Path) -> None:
    """Kill other processes that have a file of the folder open: those that have outlived the Ray that started them."""
    for process in PROCESSES.glob("[0-9]*"):
        pid = int(process.name)
        if pid != os.getpid() and has_open(process, folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def has_open(process: Path, folder: Path) -> bool:
    """Return True if a process has a file of the folder open; False for processes of other users."""
    with suppress(OSError):
        for file in (process / "fd").iterdir():
            with suppress(FileNotFoundError):
                if file.readlink().is_relative_to(folder):
                    return True
    return False


@contextmanager
def lock_if_dead(root: Path) -> Iterator[bool]:
    """Whether no process holds the system; none can begin to while this lasts."""
    try:
        file = os.open(root / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        # Without the lock file it is about to be made or removed, or another's.
        yield False
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        dead = True
    except BlockingIOError:
        dead = False
    try:
        yield dead
    finally:
        os.close(file)


def prefix() -> str:
    return f"weir-{os.getuid()}-"


def checked(name: str) -> str:
    """A name that is a folder's name and nothing else."""
    if NAME.fullmatch(name) is None:
        raise InvalidInput(
            "not a name for a folder", "name", name, "letters, digits, and _ . - # after the first"
        )
    return name


def is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
