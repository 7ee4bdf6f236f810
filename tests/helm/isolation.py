"""Containers of a pod, run as processes of this machine and isolated from each other as in a cluster.

A pod has a namespace of mounts, in which its volumes in memory are mounted. Each container has a separate root file system with
the volumes that the container mounts, and its own process namespace, unless the pod shares one (`shareProcessNamespace`). All
containers use this machine's network.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
# Folders that an image would contain: the code and the Python with its packages.
IMAGE = sorted({str(ROOT), sys.prefix, sys.base_prefix})
USER = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
ENDS_S = 60.0
# Changes to the root file system stay in memory, because overlay file systems cannot store them in another overlay file system.
LAYERS = """
mount -t tmpfs none {work}
mkdir {work}/upper {work}/work {work}/files
mount -t overlay -o lowerdir=/,upperdir={work}/upper,workdir={work}/work none {work}/files
for folder in proc sys dev; do mount --rbind "/$folder" {work}/files/"$folder"; done
mount -t tmpfs none {work}/files/tmp
mount -t tmpfs -o size=64m none {work}/files/dev/shm
"""


@cache
def is_possible() -> bool:
    """Return True if this user may make the namespaces that pods need."""
    mount = "mount -t tmpfs none /mnt && mkdir /mnt/a /mnt/b /mnt/c && "
    mount += "mount -t overlay -o lowerdir=/,upperdir=/mnt/a,workdir=/mnt/b none /mnt/c"
    command = ["unshare", *USER, "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", mount]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@dataclass(frozen=True)
class Mount:
    """Volume or file of a container: `source` is a path of this machine, `target` the path in the container."""

    source: Path
    target: str
    is_read_only: bool = False


class Sandbox:
    """Namespaces of a pod, which a waiting process keeps open."""

    def __init__(self, memory: Mapping[Path, int], shares_processes: bool) -> None:
        """`memory` contains the folder and the size in bytes of each volume that is kept in memory."""
        self._shares_processes = shares_processes
        mounts = [f"mount -t tmpfs -o size={size} none {quoted(path)}" for path, size in memory.items()]
        script = "\n".join(["set -e", *mounts, "echo ready", "exec sleep infinity"])
        spaces = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command = ["unshare", *USER, *spaces, "sh", "-c", script]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def command(self, work: Path, mounts: Iterable[Mount], command: Sequence[str]) -> list[str]:
        """Return a command line that runs `command` in a container of the pod. The folder `work` is for the container's files."""
        joined, made = ["--mount"], ["--mount", "--mount-proc"]
        if self._shares_processes:
            joined += ["--pid"]
        else:
            made += ["--pid", "--fork", "--kill-child"]
        user = ["--user", "--preserve-credentials"] if USER else []
        enter = ["nsenter", "--target", str(child(self._process)), *user, *joined]
        return [*enter, "unshare", *made, "sh", "-c", file_system(work, mounts), "sh", *command]

    def close(self) -> None:
        """End the pod, with all processes in its namespace."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Container:
    """Running container, controlled through the process that started the container."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: IO[bytes]) -> None:
        self._process = subprocess.Popen(
            command, env=dict(environ), stdout=log, stderr=log, start_new_session=True
        )

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def wait(self, timeout_s: float = 240.0) -> int:
        """Wait until the container ends by itself; return its exit code."""
        try:
            return self._process.wait(timeout_s)
        finally:
            self.kill()

    def end(self) -> int:
        """Terminate the container; return its exit code."""
        os.kill(child(self._process), signal.SIGTERM)
        return self.wait(ENDS_S)

    def kill(self) -> None:
        """Kill the container with all processes that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def child(process: subprocess.Popen[bytes]) -> int:
    """Return the id of the only child of a process, which is the process in the new namespace."""
    (found,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
    return int(found)


def file_system(work: Path, mounts: Iterable[Mount]) -> str:
    """Return a shell script that makes a container's file system and runs a command there. Only volumes are writable."""
    lines = ["set -e", LAYERS.format(work=quoted(work)).strip(), f"cd {quoted(work)}/files"]
    for mount in sorted(mounts, key=lambda mount: mount.target):
        source, target = quoted(mount.source), quoted(mount.target.lstrip("/"))
        lines.append(f"mkdir -p {target}" if mount.source.is_dir() else f"touch {target}")
        lines.append(f"mount --bind {source} {target}")
        if mount.is_read_only:
            lines.append(f"mount -o remount,bind,ro {target}")
    for folder in IMAGE:
        inside = quoted(folder.lstrip("/"))
        lines += [f"mkdir -p {inside}", f"mount --rbind {quoted(folder)} {inside}"]
    lines += [f"mount -o remount,bind,ro {quoted(work)}/files", 'exec chroot . "$@"']
    return "\n".join(lines)


def quoted(path: Path | str) -> str:
    return shlex.quote(str(path))
