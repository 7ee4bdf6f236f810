"""Two systems on one machine: commands of a home reach the system of that home, and each system listens only on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from actors.runtime.run_dirs import clusters, shared_memory
from services.common.weir_home import Home
from tests.live.listening import descendants, listening, name_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

WEIR = (sys.executable, "-c", "from services.cli.main import main; main()")
HUNG_S = 120.0
START_S = 300.0
POLL_S = 0.1
DOCUMENTS = """
{kind: Stream, name: ticks, columns: {ts: timestamp, value: int64}, time: ts,
 source: {format: rate, options: {rowsPerSecond: 10}, sql: "SELECT timestamp AS ts, value FROM source"}}
---
{kind: Tenant, name: acme, priority_class: gold}
---
{kind: Query, tenant: acme, name: all, sql: SELECT value FROM ticks}
"""


class Running:
    """Process of `weir up`, with a home, a folder, and files for its output."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder, self.process = folder, process
        self.home = Home(folder / "home")

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text("utf-8")

    @property
    def errors(self) -> str:
        return (self.folder / "err").read_text("utf-8")

    def ready(self) -> bool:
        assert self.process.poll() is None, self.errors
        url = self.home.served_at()
        return url is not None and httpx.get(f"{url}/readyz").status_code == 200

    def wait_ready(self) -> None:
        """Wait until all declarations run. The wait takes minutes if Spark runs on a busy machine."""
        until = time.monotonic() + START_S
        while not self.ready():
            assert time.monotonic() < until, self.out + self.errors
            time.sleep(POLL_S)

    def weir(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another command with the same home, without a terminal."""
        return subprocess.run(
            [*WEIR, *arguments],
            env=environ(self.home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HUNG_S,
            check=False,
        )


def environ(home: Home) -> dict[str, str]:
    named = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
    return {**named, "WEIR_HOME": str(home.folder)}


@contextmanager
def up(folder: Path, *arguments: str) -> Iterator[Running]:
    folder.mkdir(exist_ok=True)
    home = Home(folder / "home")
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as errors:
        command = [*WEIR, "up", "--api-port", "0", *arguments]
        process = subprocess.Popen(command, env=environ(home), cwd=folder, stdout=out, stderr=errors)
    try:
        found = Running(folder, process)
        found.wait_ready()
        yield found
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(HUNG_S)


def test_each_home_has_its_own_system_that_listens_only_on_loopback(tmp_path: Path) -> None:
    documents = tmp_path / "documents.yaml"
    documents.write_text(DOCUMENTS, encoding="utf-8")
    with up(tmp_path / "mine", "-f", str(documents)) as mine, up(tmp_path / "theirs") as theirs:
        shown = json.loads(mine.weir("top", "--json").stdout)
        assert ([view["name"] for view in shown["classes"]], shown["endpoint"]) == (
            ["acme"],
            mine.home.served_at(),
        )
        eventually(lambda: "feed ticks: running" in mine.out, "the feed")
        pids = descendants(mine.process.pid)
        sockets = listening(pids)
        assert {name for name, _ in sockets} >= {"gcs_server", "raylet", "ray::GatewayAct"}
        assert {address for _, address in sockets} == {"127.0.0.1"}
        # Check that the log shows a state once, however long the state lasts.
        assert mine.out.count("class acme: running") == 1
        done = mine.weir("down")
        assert (done.returncode, done.stdout, done.stderr) == (
            0,
            f"the system of {mine.home.folder} has ended\n",
            "",
        )
        assert mine.process.wait(HUNG_S) == 128 + signal.SIGTERM
        assert alive(pids) == []
        assert theirs.ready()
        own = theirs.home.system()
        assert own is not None
        refused = mine.weir("down", "--address", own.address)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert theirs.ready()
        # Check that `weir up` reports and exits if another command ends its system.
        done = mine.weir("down", "--address", own.address, "--yes")
        assert (done.returncode, done.stdout) == (0, f"system {own.name} has ended\n")
        assert theirs.process.wait(HUNG_S) == 3
        assert theirs.errors.splitlines()[0] == f"error: the system {own.name} has ended"
        assert "Failed to look up actor" not in theirs.out + theirs.errors


def left_by(name: str) -> list[Path]:
    """Return the folders of a system that have not been removed."""
    return [*Path(tempfile.gettempdir()).glob(f"weir-{name}-*"), *shared_memory().glob(f"weir-*-{name}")]


def test_start_removes_the_files_of_a_killed_system(tmp_path: Path) -> None:
    with up(tmp_path / "mine") as killed:
        own = killed.home.system()
        assert own is not None
        pids = descendants(killed.process.pid)
        killed.process.kill()
        # The end of two of Ray's agents is not awaited, because these agents try for a minute to report to the dead head.
        eventually(
            lambda: not {"gcs_server", "raylet", "ray::GatewayAct"} & set(alive(pids)), "the end of Ray"
        )
        assert len(left_by(own.name)) == 2
    done = killed.weir("ledger")
    assert done.stderr.startswith("error: WEIR_HOME: the system of this home is not running")
    with up(tmp_path / "mine") as again:
        assert left_by(own.name) == []
        assert again.home.served_at() is not None
        assert own.name not in clusters(shared_memory())


def test_no_process_or_file_is_left_when_all_processes_of_weir_up_are_terminated_at_once(
    tmp_path: Path,
) -> None:
    with up(tmp_path / "mine") as ended:
        own = ended.home.system()
        assert own is not None
        pids = descendants(ended.process.pid)
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        assert ended.process.wait(HUNG_S) == 128 + signal.SIGTERM
        assert (alive(pids), left_by(own.name), ended.home.served_at()) == ([], [], None)


def test_weir_up_reports_the_end_of_ray_and_exits(tmp_path: Path) -> None:
    with up(tmp_path / "mine") as running:
        own = running.home.system()
        assert own is not None
        pids = descendants(running.process.pid)
        (head,) = (pid for pid in pids if name_of(pid) == "gcs_server")
        os.kill(head, signal.SIGKILL)
        assert running.process.wait(HUNG_S) == 3
        assert running.errors.splitlines()[0] == f"error: the system {own.name} has ended"
        assert (alive(pids), left_by(own.name)) == ([], [])


def alive(pids: list[int]) -> list[str]:
    """Return the names of the processes that still run."""
    return [name_of(pid) for pid in pids if Path(f"/proc/{pid}/exe").exists()]


def test_sockets_that_listen_beyond_loopback_are_detected() -> None:
    with socket.create_server(("127.0.0.1", 0)), socket.create_server(("", 0)):
        assert {address for _, address in listening([os.getpid()])} >= {"127.0.0.1", "0.0.0.0"}
