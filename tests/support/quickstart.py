"""The page for beginners, block by block, as somebody follows it: what is typed in terminals, and what comes."""

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
# Of a command that hangs; one that is done is not waited for.
HUNG_S = 60.0
# What only looks is looked at again by who sees nothing yet: classes report some times a second, and a reader types slower.
LOOKS = ("weir explain", "weir ledger")
LOOKS_MAX = 5
BLOCK = re.compile(r"^```([a-z ]+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    language: str
    text: str

    @property
    def commands(self) -> list[tuple[str, str]]:
        """Each with what it prints."""
        return [(command, printed) for command, _, printed in (one.partition("\n") for one in self._pieces())]

    def _pieces(self) -> Sequence[str]:
        return re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]


def sections() -> dict[str, str]:
    """By what is written over them."""
    _, *parts = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {head: text for head, _, text in (one.partition("\n") for one in parts)}


def section(name: str) -> str:
    return sections()[name]


def blocks(names: Sequence[str] = ()) -> list[Block]:
    """Of these sections, or of all."""
    text = "".join(map(section, names or sections()))
    return [Block(*found.groups()) for found in BLOCK.finditer(text)]


def environ(home: Path) -> dict[str, str]:
    """Of somebody who has never heard of Weir, and whose home this is."""
    mine = {
        name: value for name, value in os.environ.items() if not name.startswith(("WEIR_", "MAKE", "MFLAGS"))
    }
    programs = f"{Path(sys.executable).parent}:{mine['PATH']}"
    return {**mine, "HOME": str(home), "WEIR_HOME": str(home / ".weir"), "PATH": programs, "COLUMNS": "120"}


class Terminal:
    """A shell, in a folder, which keeps what is set. What it prints is taken as it comes: nobody in it waits for a reader."""

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
        """What it prints."""
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
        """As they come, until the shell ends."""
        while True:
            try:
                line = self._printed.get(timeout=HUNG_S)
            except queue.Empty:
                raise AssertionError(f"nothing has come for {HUNG_S:g} s") from None
            if line is None:
                return
            yield line

    def interrupt(self) -> None:
        """As by Ctrl-C, which reaches all that was started here; until all of it has ended."""
        with suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGINT)
        for _ in self.lines():
            pass
        assert self._shell.stdin is not None
        with suppress(BrokenPipeError):
            self._shell.stdin.close()
        self._shell.wait(HUNG_S)


def pattern(told: str) -> re.Pattern[str]:
    """What matches lines of the page; spaces at their ends are not seen."""
    parts = (re.escape(one) for one in "\n".join(map(str.rstrip, told.splitlines())).split(ANYTHING))
    return re.compile("(?s:.*)".join(parts))


def seen(printed: str) -> str:
    """As a reader sees it."""
    return "\n".join(line.rstrip() for line in printed.splitlines()).strip("\n")


class Reader:
    """Somebody who does what the page says."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._home = folder, folder / "home"
        self._home.mkdir()
        self._own: list[Terminal] = []
        self._port = PORT
        self._terminal = Terminal(folder, self._home)

    def at(self, text: str) -> str:
        """The same of the service that runs here: another may run on this machine."""
        return text.replace(PORT, self._port)

    @property
    def admin_key(self) -> str:
        return (self._home / ".weir" / "admin.key").read_text(encoding="utf-8").strip()

    def follow(self, block: Block) -> None:
        """Do as it says; what it tells must come."""
        text = self.at(block.text)
        if block.language in FILES:
            name = text.splitlines()[0].removeprefix("# ")
            (self._folder / name).write_text(text, encoding="utf-8")
        elif block.language == OWN_TERMINAL:
            self._in_own_terminal(Block(block.language, text))
        else:
            for command, told in Block(block.language, text).commands:
                printed = seen(self._in_place(command))
                for _ in range(LOOKS_MAX if command.startswith(LOOKS) else 0):
                    if pattern(told).fullmatch(printed):
                        break
                    printed = seen(self._in_place(command))
                assert pattern(told).fullmatch(printed), f"{command}\nprints\n{printed}\nbut not\n{told}"

    def _in_place(self, command: str) -> str:
        if not command.startswith("make "):
            return self._terminal.run(command)
        checkout = Terminal(ROOT, self._home)
        try:
            return checkout.run(command)
        finally:
            checkout.interrupt()

    def _in_own_terminal(self, block: Block) -> None:
        """Until what is told has come; it goes on by itself."""
        ((command, told),) = block.commands
        terminal = Terminal(self._folder, self._home)
        self._own.append(terminal)
        is_service = command == "weir up"
        terminal.begin(f"exec {command} --api-port 0" if is_service else command)
        awaited, printed = told.splitlines(), list[str]()
        for line in terminal.lines():
            printed.append(line.rstrip())
            if is_service and len(printed) == 1:
                self._port = line.rstrip().rpartition(":")[2]
                awaited = list(map(self.at, awaited))
            if pattern(awaited[0]).fullmatch(printed[-1]):
                awaited.pop(0)
            if not awaited:
                return
        raise AssertionError(f"{command}: {awaited} has not come; it printed {printed}")

    def leave(self) -> None:
        """Ctrl-C in all terminals, the last one first."""
        for one in (*reversed(self._own), self._terminal):
            one.interrupt()
