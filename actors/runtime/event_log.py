"""Recording of the events and commands of a process's decision cores on disk, so that a run can be replayed.

Each log covers one core from its start until its process ends: a header, then one line for each decision (`loadshed.records`).
The file is named `<core>-<name>-<number>.jsonl` and readable only by its owner. `weir sim --replay` repeats the decisions from it.

Guarantees:
1. `record` only queues the decision, which must not be changed afterwards. `flush` encodes and writes it; the owner calls
   `flush` at a quiet moment, or the thread of a `LogWriter` does.
2. Lines are complete and in the order of the decisions. A process that is killed loses decisions that were not flushed, and may
   leave an incomplete last line.
3. A log takes at most `most_bytes`, and at most `PENDING_MAX` decisions are queued. Beyond these limits, or after a disk error,
   recording stops without blocking the core. `stopped` has the reason, and so does the last line if it can be written.
"""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import quote

from loadshed.records import KINDS, Core, CoreName, Header, cut_line, decision_line, header_line, header_of

PENDING_MAX = 100_000
# Number of decisions written at a time. The interpreter lock is released in between, so that other threads do not wait long.
CHUNK = 64
# Seconds for which the writer thread collects decisions before it writes to disk.
GATHER_S = 0.2
# Bytes reserved for the last line, which has the reason why the log ends.
CUT_BYTES = 1000
# Maximum size of one log, in bytes.
EVENTS_BYTES = 256 << 20


class EventLog:
    """Log of the decisions of one core, from its start until its process ends."""

    def __init__(
        self, folder: Path, header: Header, most_bytes: int, news: Callable[[], None] | None = None
    ) -> None:
        self.stopped = ""
        self.path, self._file = _created(folder, f"{header.core}-{quote(header.name, safe='#')}")
        self._kind = KINDS[header.core]
        self._news = news
        self._pending: deque[tuple[float, Any, Sequence[Any]]] = deque()
        self._writing = Lock()
        begin = _text(header_line(header))
        self._room = most_bytes - len(begin) - CUT_BYTES
        self._put(begin)

    @property
    def is_open(self) -> bool:
        """Return True while the log can be written."""
        return self._file >= 0

    def record(self, event: Any, now: float, commands: Sequence[Any]) -> None:
        """Queue a decision: the event that the core handled and the commands it returned."""
        if self.stopped:
            return
        if len(self._pending) >= PENDING_MAX:
            self.stopped = "decisions came faster than they were written"
        else:
            self._pending.append((now, event, commands))
        if self._news is not None:
            self._news()

    def flush(self) -> None:
        """Write all queued decisions."""
        with self._writing:
            while self._file >= 0 and self._pending:
                self._write([self._pending.popleft() for _ in range(min(CHUNK, len(self._pending)))])
            if self.stopped and self._file >= 0:
                self._put(_text(cut_line(self.stopped)))
                self._end()

    def close(self) -> None:
        self.flush()
        with self._writing:
            self._end("closed")

    def _write(self, decisions: Sequence[tuple[float, Any, Sequence[Any]]]) -> None:
        chunk = bytearray()
        for now, event, commands in decisions:
            try:
                line = _text(decision_line(self._kind, now, event, commands))
            except Exception as problem:  # An event that cannot be written must not stop the core.
                self._cut(chunk, f"an event could not be written: {problem!r:.100}")
                return
            if len(line) > self._room:
                self._cut(chunk, "the log has reached its maximum size")
                return
            self._room -= len(line)
            chunk += line
        self._put(chunk)

    def _cut(self, chunk: bytearray, why: str) -> None:
        """End the log early with a line that has the reason."""
        self.stopped = self.stopped or why
        self._put(chunk + _text(cut_line(why)))
        self._end()

    def _put(self, data: bytes | bytearray) -> None:
        left = memoryview(data)
        try:
            while left and self._file >= 0:
                left = left[os.write(self._file, left) :]
        except OSError as problem:
            self._end(f"the disk reported an error: {problem.strerror}")

    def _end(self, why: str = "") -> None:
        self.stopped = self.stopped or why
        self._pending.clear()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def machine_clock() -> str:
    """Return the name of the clock that `time.monotonic` reads. All processes share this clock until the machine restarts."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def _text(line: Any) -> bytes:
    return json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _created(folder: Path, name: str) -> tuple[Path, int]:
    """Create a core's log file with the next unused number; return its path and its descriptor."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lives = re.compile(re.escape(name) + r"-(\d+)\.jsonl")
    matches = (lives.fullmatch(file.name) for file in folder.iterdir())
    life = max((int(match[1]) for match in matches if match), default=0)
    while True:
        life += 1
        path = folder / f"{name}-{life}.jsonl"
        with suppress(FileExistsError):
            return path, os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600
            )


class LogWriter:
    """Thread that writes the logs of a process; it sleeps until a decision is recorded."""

    def __init__(self, folder: Path, most_bytes: int = EVENTS_BYTES) -> None:
        self._folder, self._most_bytes = folder, most_bytes
        self._logs: list[EventLog] = []
        self._recorded, self._closing = Event(), Event()
        self._thread = Thread(target=self._run, name="event-log", daemon=True)
        self._thread.start()

    def open(self, kind: CoreName, name: str, core: Core) -> EventLog:
        """Open the log of a core that has not handled an event yet."""
        header = header_of(kind, name, machine_clock(), core)
        log = EventLog(self._folder, header, self._most_bytes, self._tell)
        self._logs = [*(other for other in self._logs if other.is_open), log]
        return log

    def close(self) -> None:
        """Write all queued decisions to disk, then close every log."""
        self._closing.set()
        self._recorded.set()
        self._thread.join()
        for log in self._logs:
            log.close()

    def _tell(self) -> None:
        if not self._recorded.is_set():
            self._recorded.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._recorded.wait()
            self._closing.wait(GATHER_S)
            self._recorded.clear()
            for log in self._logs:
                log.flush()
