"""Reader of the quickstart page that types the commands of each block in terminals, and compares their output with the page."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.checkout import ROOT

PAGE = ROOT / "docs" / "quickstart.md"
OWN_TERMINAL = "console terminal"
FILES = ("yaml", "bash", "python")
PORT = "8642"
ANYTHING = "…"
DONE = "--done--"
# Maximum seconds of a command. A command that takes longer counts as hanging.
HUNG_S = 60.0
# Commands that only read. Such a command is repeated until the expected output appears, because a person would type more slowly.
LOOKS = ("weir explain", "weir ledger")
LOOKS_MAX = 5
BLOCK = re.compile(r"^```([a-z ]+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    language: str
    text: str

    @property
    def commands(self) -> list[tuple[str, str]]:
        """Return each command of a block with the output that the page shows for it."""
        return [(command, printed) for command, _, printed in (one.partition("\n") for one in self._pieces())]

    def _pieces(self) -> Sequence[str]:
        return re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]


def sections() -> dict[str, str]:
    """Return the sections of the page by their headings."""
    _, *parts = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {head: text for head, _, text in (one.partition("\n") for one in parts)}


def section(name: str) -> str:
    return sections()[name]


def blocks(names: Sequence[str] = ()) -> list[Block]:
    """Return the blocks of these sections, or of all sections."""
    text = "".join(map(section, names or sections()))
    return [Block(*found.groups()) for found in BLOCK.finditer(text)]


def environ(home: Path) -> dict[str, str]:
    """Return the environment variables of a new user with this home folder."""
    mine = {
        name: value for name, value in os.environ.items() if not name.startswith(("WEIR_", "MAKE", "MFLAGS"))
    }
    programs = f"{Path(sys.executable).parent}:{mine['PATH']}"
    return {**mine, "HOME": str(home), "WEIR_HOME": str(home / ".weir"), "PATH": programs, "COLUMNS": "120"}


class Terminal:
    """Shell in a folder. A thread reads the output of the shell, so that no command is blocked by a full pipe."""

    def __init__(self, folder: Path, home: Path) -> None:
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=environ(home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._printed: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            self._printed.put(line)
        self._printed.put(None)

    def run(self, command: str) -> str:
        """Run a command and return its output."""
        self.begin(f"{command}\necho; echo {DONE}")
        printed: list[str] = []
        for line in self.lines():
            if line == f"{DONE}\n":
                return "".join(printed).removesuffix("\n")
            printed.append(line)
        raise AssertionError(f"{command} has ended the shell; it printed {''.join(printed)}")

    def begin(self, command: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{command}\n")
        self._shell.stdin.flush()

    def lines(self) -> Iterator[str]:
        """Yield each line when the shell prints it, until the shell ends."""
        while True:
            try:
                line = self._printed.get(timeout=HUNG_S)
            except queue.Empty:
                raise AssertionError(f"the command has printed nothing for {HUNG_S:g} s") from None
            if line is None:
                return
            yield line

    def interrupt(self) -> None:
        """Interrupt all processes that were started in the shell, as Ctrl-C does, and wait until they have ended."""
        with suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGINT)
        for _ in self.lines():
            pass
        assert self._shell.stdin is not None
        with suppress(BrokenPipeError):
            self._shell.stdin.close()
        self._shell.wait(HUNG_S)


def pattern(shown: str) -> re.Pattern[str]:
    """Return a pattern for output that the page shows. Spaces at the ends of lines are ignored."""
    parts = (re.escape(one) for one in "\n".join(map(str.rstrip, shown.splitlines())).split(ANYTHING))
    return re.compile("(?s:.*)".join(parts))


def seen(printed: str) -> str:
    """Return the output without spaces at line ends, and without empty lines at the beginning and the end."""
    return "\n".join(line.rstrip() for line in printed.splitlines()).strip("\n")


class Reader:
    """Simulated beginner, which follows the page block by block."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._home = folder, folder / "home"
        self._home.mkdir()
        self._own: list[Terminal] = []
        self._port = PORT
        self._terminal = Terminal(folder, self._home)

    def at(self, text: str) -> str:
        """Replace the port in a text of the page by the port of the service under test, because another service may run on this machine."""
        return text.replace(PORT, self._port)

    @property
    def admin_key(self) -> str:
        return (self._home / ".weir" / "admin.key").read_text(encoding="utf-8").strip()

    def follow(self, block: Block) -> None:
        """Follow a block of the page, and check that the commands print the output that the page shows."""
        text = self.at(block.text)
        if block.language in FILES:
            name = text.splitlines()[0].removeprefix("# ")
            (self._folder / name).write_text(text, encoding="utf-8")
        elif block.language == OWN_TERMINAL:
            self._in_own_terminal(Block(block.language, text))
        else:
            for command, shown in Block(block.language, text).commands:
                printed = seen(self._in_place(command))
                for _ in range(LOOKS_MAX if command.startswith(LOOKS) else 0):
                    if pattern(shown).fullmatch(printed):
                        break
                    printed = seen(self._in_place(command))
                assert pattern(shown).fullmatch(printed), f"{command}\nprints\n{printed}\nbut not\n{shown}"

    def _in_place(self, command: str) -> str:
        if not command.startswith("make "):
            return self._terminal.run(command)
        checkout = Terminal(ROOT, self._home)
        try:
            return checkout.run(command)
        finally:
            checkout.interrupt()

    def _in_own_terminal(self, block: Block) -> None:
        """Run a command in a new terminal, and wait for the output that the page shows. The command continues to run."""
        ((command, shown),) = block.commands
        terminal = Terminal(self._folder, self._home)
        self._own.append(terminal)
        is_service = command == "weir up"
        terminal.begin(f"exec {command} --api-port 0" if is_service else command)
        awaited, printed = shown.splitlines(), list[str]()
        for line in terminal.lines():
            printed.append(line.rstrip())
            if is_service and len(printed) == 1:
                self._port = line.rstrip().rpartition(":")[2]
                awaited = list(map(self.at, awaited))
            if pattern(awaited[0]).fullmatch(printed[-1]):
                awaited.pop(0)
            if not awaited:
                return
        raise AssertionError(f"{command} did not print {awaited}; it printed {printed}")

    def leave(self) -> None:
        """Press Ctrl-C in all terminals, the last one first."""
        for one in (*reversed(self._own), self._terminal):
            one.interrupt()
