"""`weir down` ends the system of its own home, and another system only with `--address` and a confirmation."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.cli.main import main
from services.common.weir_home import Home, OwnSystem, held

# Stand-in for `weir up`: it holds the lock of the home until SIGTERM ends it.
HOLDER = """
import signal, sys
from pathlib import Path
from services.common.weir_home import Home, held
signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
with held(Home(Path(sys.argv[1]))):
    print("held", flush=True)
    signal.pause()
"""


@contextmanager
def holding(home: Home) -> Iterator[subprocess.Popen[str]]:
    arguments = [sys.executable, "-c", HOLDER, str(home.folder)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "mine"))
    return Home(tmp_path / "mine")


def down(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["weir", "down", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def test_down_prints_one_line_if_nothing_runs(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert down(monkeypatch, capsys) == (0, f"nothing runs from {home.folder}\n", "")
    home.made().note_system(OwnSystem("gone", "127.0.0.1:1", None, on_cluster=False))
    assert down(monkeypatch, capsys) == (0, f"nothing runs from {home.folder}\n", "")


def test_down_ends_only_the_system_of_its_own_home(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with holding(home) as mine, holding(Home(tmp_path / "theirs")) as theirs:
        assert down(monkeypatch, capsys) == (0, f"the system of {home.folder} has ended\n", "")
        assert mine.wait(60) == 128 + signal.SIGTERM
        assert down(monkeypatch, capsys) == (0, f"nothing runs from {home.folder}\n", "")
        assert theirs.poll() is None


def test_weir_down_with_an_address_needs_a_terminal_for_a_confirmation_or_the_option_yes(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with (Path("/dev/null")).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        code, out, err = down(monkeypatch, capsys, "--address", "127.0.0.1:1")
    assert (code, out) == (2, "")
    assert err.splitlines()[0] == (
        "error: --address: other users may use this system, and there is no terminal to ask for a confirmation (got '127.0.0.1:1')"
    )
    assert "add --yes" in err
    code, out, err = down(monkeypatch, capsys, "--address", "127.0.0.1:1", "--yes")
    assert (code, out) == (2, "")
    assert (
        err.splitlines()[0] == "error: --address: no Ray cluster answers at this address (got '127.0.0.1:1')"
    )


def test_auto_is_not_accepted_as_an_address(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = down(monkeypatch, capsys, "--address", "auto", "--yes")
    assert (code, err.splitlines()[0]) == (
        2,
        "error: --address: this is not the address of a Ray cluster (got 'auto')",
    )


def test_a_start_removes_files_that_a_killed_system_left_in_the_home(home: Home) -> None:
    with holding(home) as killed:
        home.endpoint.write_text("http://127.0.0.1:1", encoding="utf-8")
        home.note_system(OwnSystem("killed", "127.0.0.1:1", None, on_cluster=False))
        assert (home.holder(), home.served_at()) == (killed.pid, "http://127.0.0.1:1")
        assert home.system() == OwnSystem("killed", "127.0.0.1:1", None, on_cluster=False)
        killed.kill()
        killed.wait()
        assert (home.holder(), home.served_at(), home.system()) == (None, None, None)
    with held(home):
        assert (home.served_at(), home.system(), home.endpoint.exists()) == (None, None, False)


def test_the_home_remembers_its_system_on_a_cluster_after_weir_up_has_ended(home: Home) -> None:
    clustered = OwnSystem("one", "10.0.0.1:6379", "token", on_cluster=True)
    with held(home):
        home.note_system(clustered)
    with held(home):
        assert home.system() == clustered
    assert home.system() == clustered


def test_a_start_waits_while_another_command_checks_the_home(home: Home) -> None:
    with held(home):
        pass
    program = "import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_SH)\n"
    program += "print('checking', flush=True); sys.stdin.read(1)"
    arguments = [sys.executable, "-c", program, str(home.lock)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as checking:
        assert checking.stdin is not None
        assert checking.stdout is not None
        assert checking.stdout.readline() == "checking\n"
        checking.stdin.close()
        with held(home):
            checking.wait()
