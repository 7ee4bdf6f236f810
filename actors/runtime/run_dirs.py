"""Folders for the files that the processes of a running system share: `<shared memory>/weir-<uid>-<system>/<node>/`.

On the machine where the system was started, cluster.json is next to the folders of the nodes. The folder of a node has these files
and folders:

    gateway.sock  gateway-door.sock  dispatcher.sock      sockets
    endpoint  ingest.key  keys.json                       the node's address in the network, and keys for it
    streams/<stream>/  classes/<class>/                   logs (`actors.log.segment_log`)

Every process of a system holds a shared lock on the system's lock file; the lock ends with the process. A system without a
lock holder is dead. Its files still occupy memory, so the next system that starts removes them. Gateway and hosts also hold a lock
on their node's folder. When a container restarts, its node gets a new name, and the new gateway removes the folder of the old node.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from actors.runtime.private_dirs import make_private
from configs.errors import InvalidInput

SHARED_MEMORY = Path("/dev/shm")
LOCK, CLUSTER = "system.lock", "cluster.json"
# Folder in which the kernel lists processes by number.
PROCESSES = Path("/proc")
# Prefix of the names of temporary folders with Ray's files of a local system.
TEMPORARY = "weir-"
# Valid names of folders. The name of a unit has a # between class and shard.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.#-]{0,79}")


def shared_memory() -> Path:
    """Return the folder for files in shared memory, or the temporary folder if the machine has no such folder."""
    return SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


@dataclass(frozen=True, slots=True)
class Cluster:
    """Ray cluster on which a system runs."""

    address: str
    auth_mode: str | None
    """Value that a joining process needs in Ray's environment variable for the authentication mode."""
    home: str | None = None
    """Folder of the catalog that the system follows; None for a system without a catalog."""


class NodePath:
    """Property of RunDirs: the path of a file or folder in the node's folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, dirs: RunDirs, _: object) -> Path:
        return dirs.folder / self._name


@dataclass(frozen=True, slots=True)
class RunDirs:
    """Folders of one node of a system; `base` contains the folders of all systems."""

    base: Path
    system: str
    node: str

    @property
    def root(self) -> Path:
        return self.base / f"{prefix()}{checked(self.system)}"

    @property
    def folder(self) -> Path:
        return self.root / checked(self.node)

    dispatcher_socket = NodePath("dispatcher.sock")
    gateway_socket = NodePath("gateway.sock")
    door_socket = NodePath("gateway-door.sock")
    endpoint = NodePath("endpoint")
    ingest_key = NodePath("ingest.key")
    keys = NodePath("keys.json")
    streams = NodePath("streams")
    classes = NodePath("classes")

    def stream(self, name: str) -> Path:
        """Return the folder of a stream; the case of its name does not matter."""
        return self.streams / checked(name.lower())

    def class_log(self, name: str) -> Path:
        return self.classes / checked(name)

    def hold(self) -> int:
        """Create the folders and return an open lock file; the system counts as alive until the file is closed."""
        file = hold_folder(self.root)
        for folder in (self.folder, self.streams, self.classes):
            make_private(folder)
        return file

    def hold_node(self) -> int:
        """Return an open lock file. The node's folder is kept until the file is closed. Call `hold` for the system first."""
        file = hold_folder(self.folder)
        for folder in (self.streams, self.classes):
            make_private(folder)
        return file

    def remove_dead_nodes(self) -> list[Path]:
        """Remove the folder of each other node without a live process of this system; return the removed folders."""
        return remove_if_dead(folder for folder in listed(self.root) if folder != self.folder)

    def note_cluster(self, cluster: Cluster) -> None:
        """Write cluster.json, by which commands on this machine find the system."""
        (self.root / CLUSTER).write_text(json.dumps(asdict(cluster)), encoding="utf-8")

    def remove(self) -> None:
        """Remove the node's folder. If the system's folder then has no folder of another node, remove it too."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if not any(entry.is_dir() for entry in listed(self.root)):
            shutil.rmtree(self.root, ignore_errors=True)


def hold_folder(folder: Path) -> int:
    """Create a folder and return its open lock file, with a shared lock."""
    while True:
        make_private(folder)
        path = folder / LOCK
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_SH)
        # Another process may have removed the folder as dead before this process got the lock.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), path.stat()):
                return file
        os.close(file)


def remove_dead(base: Path) -> list[Path]:
    """Remove the folder of each system of this user that has no live process; return the removed folders."""
    return remove_if_dead(root for root in listed(base) if root.name.startswith(prefix()))


def remove_dead_temporary(base: Path) -> list[Path]:
    """Remove the folders of Ray's files that belong to killed systems; return the removed folders."""
    named = (root for root in listed(base) if root.name.startswith(TEMPORARY))
    return remove_if_dead(root for root in named if root.lstat().st_uid == os.getuid())


def remove_if_dead(folders: Iterable[Path]) -> list[Path]:
    """Remove each folder with a lock file that no process has locked; return the removed folders."""
    removed = []
    for folder in folders:
        if not folder.is_symlink():
            with lock_if_dead(folder) as dead:
                if dead:
                    shutil.rmtree(folder, ignore_errors=True)
                    removed.append(folder)
    return removed


def clusters(base: Path) -> dict[str, Cluster]:
    """Return the clusters of this user's live systems that were started on this machine, by system."""
    by_system = {}
    for root in listed(base):
        if root.name.startswith(prefix()) and (root / CLUSTER).is_file():
            with lock_if_dead(root) as dead:
                if not dead:
                    noted = json.loads((root / CLUSTER).read_text(encoding="utf-8"))
                    by_system[root.name.removeprefix(prefix())] = Cluster(**noted)
    return by_system


def kill_users(folder: Path) -> None:
    """Kill other processes that have a file of the folder open. These processes have outlived their Ray."""
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
    """Yield True if no process holds the lock of a folder. Inside the with block, no other process can get the lock."""
    try:
        file = os.open(root / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        # Without an accessible lock file, the folder is being created or removed, or belongs to another user.
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
    """Return the name if it is safe as the name of a folder; otherwise raise InvalidInput."""
    if NAME.fullmatch(name) is None:
        raise InvalidInput(
            "the name contains characters that are not allowed or is too long",
            "name",
            name,
            "use at most 80 letters, digits and _ . - #, beginning with a letter or digit",
        )
    return name


def listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
