"""Isolated machine inside this machine, for a Kubernetes node. The processes, mounts and network are separate from this machine's.

When the first process of the isolated machine ends, all its processes, mounts and networks end. Its groups of processes (cgroups) are
in one folder of this machine's cgroups, which is removed at the end.

`python -m tests.cluster.machine` checks that this machine has what a node needs.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.cluster.api import wait_until_none
from tests.cluster.control_plane import tail
from tests.support import postgresql
from tests.support.build_cache import BuildError

PARTS = Path(__file__).parent / "node"
LINK = "weir-node"
OUTER, INNER, PODS = "10.97.0.1", "10.97.0.2", "10.98.0.0/24"
"""Addresses of this machine and of the inner one on the link between them, and of pods."""
TOOLS = (
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "runc",
    "ip",
    "unshare",
    "nsenter",
    "setpriv",
    "gcc",
    "nft",
    "iptables",
    "redis-server",
    "redis-cli",
)
PACKAGES = (Path("/usr/lib/cni/bridge"), Path("/bin/busybox"))


def check_tools() -> None:
    """Raise BuildError if this machine lacks programs, packages or rights that a node needs."""
    missing = [name for name in TOOLS if shutil.which(name) is None]
    missing += [str(path) for path in PACKAGES if not path.exists()]
    if os.geteuid() != 0:
        missing.append("the rights of root")
    if postgresql.programs() is None:
        missing.append("PostgreSQL")
    if not group_folders(""):
        missing.append("cgroups")
    if not missing:
        tried = subprocess.run(
            ["unshare", "--mount", "--net", "--pid", "--fork", "true"], capture_output=True
        )
        missing += ["the right to isolate processes"] if tried.returncode else []
    if missing:
        raise BuildError(f"a node needs {', '.join(missing)}; `.ci/tools node` installs packages")


@dataclass(frozen=True)
class Machine:
    folder: Path
    pid: int
    """Its first process, as this machine numbers it."""
    group: str

    @cached_property
    def entry(self) -> list[str]:
        """Beginning of a command line. The command that is appended runs in the machine."""
        return [*self._entering, "--"]

    def entry_as(self, user: str, group: str) -> list[str]:
        """Return the beginning of a command line. The command that is appended runs in the machine as this user."""
        return [*self._entering, f"--reuid={user}", f"--regid={group}", "--clear-groups", "--"]

    @property
    def _entering(self) -> list[str]:
        entering = ["nsenter", f"--target={self.pid}", "--mount", "--net", "--pid", "--"]
        # The command runs as a child of nsenter. When nsenter is killed, `setpriv` ends the command as well.
        return [*entering, "setpriv", "--pdeathsig=TERM"]

    def run(self, *command: str | Path) -> str:
        done = subprocess.run([*self.entry, *map(str, command)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def processes(self) -> dict[int, str]:
        """Return the command lines of all processes of the machine by process id, including processes in the machine's containers."""
        children = children_of_processes()
        own = namespace_of(self.pid)
        left = [pid for pids in children.values() for pid in pids if namespace_of(pid) == own]
        found: dict[int, str] = {}
        while left:
            pid = left.pop()
            found[pid] = command_line(pid)
            left += [child for child in children.get(pid, []) if child not in found]
        return found

    def mounts(self) -> set[str]:
        lines = Path(f"/proc/{self.pid}/mountinfo").read_text().splitlines()
        return {line.split()[4] for line in lines}

    def groups(self) -> set[str]:
        """Return the folders of the machine's cgroups."""
        return {
            str(folder)
            for top in group_folders(self.group)
            for folder in (top, *top.rglob("*"))
            if folder.is_dir()
        }


def children_of_processes() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name of a process stands in parentheses and may contain spaces.
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(entry.parent.name))
    return children


def namespace_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return ""


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """Start an isolated machine with its data in `folder`. At the end, remove the machine with all its processes and cgroups."""
    pause = folder / "pause"
    run("gcc", "-static", "-O2", "-o", pause, PARTS / "pause.c")
    group_name = f"{LINK}-{secrets.token_hex(4)}"
    with process_group(group_name) as group, first_process(folder, pause) as pid, link(pid):
        yield Machine(folder, pid, group)


@contextmanager
def first_process(folder: Path, pause: Path) -> Iterator[int]:
    # When the test process ends or is killed, the kernel kills the isolated machine.
    isolated = ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--net", "--pid", "--fork"]
    log = folder / "machine.log"
    with log.open("wb") as output:
        started = subprocess.Popen(
            [*isolated, "--kill-child", "--mount-proc", str(PARTS / "start"), str(folder), str(pause)],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until_none(lambda: [] if (folder / "started").exists() else [tail(log)])
        (pid,) = children_of_processes()[started.pid]
        yield pid
    finally:
        for child in children_of_processes().get(started.pid, [started.pid]):
            os.kill(child, signal.SIGKILL)
        # The machine's first process counts as ended only after all other processes of the machine have ended.
        started.wait()


@contextmanager
def link(pid: int) -> Iterator[None]:
    """Connect the isolated machine to this machine's network. The link has a fixed name, so only one node runs at a time."""
    inner = ["nsenter", f"--target={pid}", "--net", "--"]
    run("ip", "link", "add", LINK, "type", "veth", "peer", "name", "outside", "netns", str(pid))
    try:
        run("ip", "address", "add", f"{OUTER}/30", "dev", LINK)
        run("ip", "link", "set", LINK, "up")
        run(*inner, "ip", "address", "add", f"{INNER}/30", "dev", "outside")
        run(*inner, "ip", "link", "set", "outside", "up")
        run(*inner, "ip", "route", "add", "default", "via", OUTER)
        run("ip", "route", "add", PODS, "via", INNER)
        yield
    finally:
        # Deleting this end of the link also deletes the other end, and the route.
        run("ip", "link", "delete", LINK)


def run(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"


@contextmanager
def process_group(name: str) -> Iterator[str]:
    """Make a cgroup in each hierarchy. At the end, remove these cgroups and all cgroups inside them."""
    for folder in group_folders(name):
        folder.mkdir()
    try:
        yield f"/{name}"
    finally:
        for top in group_folders(name):
            inner = sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True)
            for folder in (*inner, top):
                folder.rmdir()


def group_folders(name: str) -> list[Path]:
    """Return the folders of a cgroup: one in each hierarchy of cgroups version 1, or the only folder of version 2."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(mount[1]) / name.lstrip("/") for mount in mounts if mount[2] in ("cgroup", "cgroup2")]


def main() -> int:
    try:
        check_tools()
    except BuildError as problem:
        print(f"node: {problem}", file=sys.stderr)
        return 1
    print("node: this machine can run a node")
    return 0


if __name__ == "__main__":
    sys.exit(main())
