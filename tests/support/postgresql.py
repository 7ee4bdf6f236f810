"""Real PostgreSQL server in a temporary folder, which clients reach through a socket in this folder."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

DEBIAN = Path("/usr/lib/postgresql")
OPTIONS = "-c listen_addresses= -c fsync=off -c shared_buffers=1MB -c max_connections=30"


@contextmanager
def postgresql() -> Iterator[str]:
    """Yield the DSN of the server. PostgreSQL refuses to run as root, so tests that run as root start it as another user."""
    folder_of_programs = programs()
    if folder_of_programs is None:
        pytest.skip("needs PostgreSQL: apt-get install postgresql (make tools does, as root)")
    user = pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    with TemporaryDirectory(prefix="pg-") as name:
        folder = Path(name)
        os.chown(folder, user.pw_uid, user.pw_gid)

        def run(program: str, *arguments: str) -> None:
            subprocess.run(
                [folder_of_programs / program, "-D", folder / "data", *arguments],
                check=True,
                user=user.pw_uid,
                group=user.pw_gid,
                extra_groups=[],
                cwd=folder,
                stdout=subprocess.DEVNULL,
            )

        run("initdb", "-U", "weir", "--auth=trust", "--no-sync", "--locale=C", "-E", "UTF8")
        log = folder / "data" / "log"
        run("pg_ctl", "-w", "-l", str(log), "-o", f"{OPTIONS} -k {folder}", "start")
        try:
            yield f"postgresql://weir@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")


def programs() -> Path | None:
    """Return the folder that contains PostgreSQL's programs, or None if PostgreSQL is missing."""
    here = shutil.which("pg_ctl")
    folders = [*sorted(DEBIAN.glob("*/bin"), reverse=True), *([Path(here).parent] if here else [])]
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists():
            return folder
    return None
