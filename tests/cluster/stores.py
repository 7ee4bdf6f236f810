"""Stores outside of Kubernetes that pods call: Redis and PostgreSQL on the node's machine, with a password."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.api import wait_until_none
from tests.cluster.control_plane import process, tail
from tests.cluster.machine import INNER, PODS, Machine, run
from tests.support.postgresql import programs

PASSWORD = "of-the-tests"
USER = ("nobody", "nogroup")
"""User and group of PostgreSQL, which refuses to run as root."""
FOLDER = Path("/var/lib/node/postgresql")
"""PostgreSQL's folder on the node's machine."""


@dataclass(frozen=True)
class Redis:
    machine: Machine

    def keys(self) -> list[str]:
        command = ("redis-cli", "-h", INNER, "-a", PASSWORD, "--no-auth-warning", "keys", "*")
        return self.machine.run(*command).split()


@contextmanager
def redis(machine: Machine) -> Iterator[Redis]:
    """Run a Redis server on the node's machine."""
    options = ("--bind", INNER, "--requirepass", PASSWORD, "--save", "", "--appendonly", "no")
    log = machine.folder / "redis.log"
    with process([*machine.entry, "redis-server", *options], log):
        wait_until_none(lambda: [] if "Ready to accept connections" in log.read_text() else [tail(log)])
        yield Redis(machine)


@dataclass(frozen=True)
class PostgreSQL:
    machine: Machine

    def query(self, sql: str) -> list[str]:
        """Return the rows of the answer as text."""
        options = ("--host", FOLDER, "--username", "weir", "--dbname", "postgres", "--no-psqlrc")
        return self.machine.run(program("psql"), *options, "-tAc", sql).splitlines()


@contextmanager
def postgresql(machine: Machine) -> Iterator[PostgreSQL]:
    """Run a PostgreSQL server with user `weir` on the node's machine."""
    folder, log = machine.folder / "lib" / "node" / "postgresql", machine.folder / "postgresql.log"
    folder.mkdir()
    (folder / "password").write_text(PASSWORD)
    for path in (folder, folder / "password"):
        shutil.chown(path, *USER)
    entry = machine.entry_as(*USER)
    methods = ("--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={FOLDER / 'password'}")
    options = ("--username=weir", "--locale=C", "--encoding=UTF8", "--no-sync")
    run(*entry, program("initdb"), f"--pgdata={FOLDER / 'data'}", *methods, *options)
    with (folder / "data" / "pg_hba.conf").open("a") as rules:
        rules.write(f"host all all {PODS} scram-sha-256\n")
    settings = (f"--listen_addresses={INNER}", f"--unix_socket_directories={FOLDER}", "--fsync=off")
    with process([*entry, program("postgres"), "-D", FOLDER / "data", *settings], log):
        ready = "database system is ready to accept connections"
        wait_until_none(lambda: [] if ready in log.read_text() else [tail(log)])
        yield PostgreSQL(machine)


def program(name: str) -> Path:
    folder = programs()
    assert folder is not None
    return folder / name
