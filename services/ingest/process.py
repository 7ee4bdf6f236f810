"""Spark in a process of its own, which ends with the one that has started it.

    with IngestProcess(job) as ingest:        # a child; its child is the JVM
        ingest.progress()

The child is told its job as one line of JSON on its standard input, tells of itself in lines of JSON on its standard
output, and stops at the end of its input: so it stops however its parent ends. Whoever of the three is killed, the others
see the end of a pipe. Secrets go through the pipe, not onto a command line.

Guarantees:
1. When `start` returns, all queries have been started. When it raises, nothing is left.
2. If the child dies, it is started again, after 0.5 s to 30 s; its queries go on from their checkpoints.
3. After `stop`, which takes no more than ten seconds, there is neither child nor JVM. The same holds that long after this
   process has been killed.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, replace
from typing import IO, Any

from configs.problems import InvalidInput, WeirError
from services.ingest.job import Job, job_of
from services.ingest.progress import Backoff, FeedProgress, brief

# The first time, a connector and what it needs may have to be fetched.
START_S = 300.0
# Queries take up to three seconds, session and JVM up to three more.
CHILD_STOP_S = 7.5
PARENT_STOP_S = 9.0
OUTPUT = "spark.out"
LOCK = "lock"
LAST_WORDS = re.compile(r"^(?:Exception in thread \S+ [\w.$]+: |Error: )(.+)$", re.MULTILINE)
RESTARTED = "Spark's process has ended ({why}) and was started again"

Told = dict[str, Any]


class SparkFailed(WeirError):
    """The session could not be started; nothing is left of it."""


# -- the parent ------------------------------------------------------------------------------------------------


class IngestProcess:
    """The child, started again when it dies."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._child: Child | None = None
        self._progress = [FeedProgress(name) for name in job.file.all_feeds()]
        self._backoff = Backoff()
        # What children that have died had told, of each feed.
        self._before = {one.feed: one for one in self._progress}
        self._stopping = threading.Event()
        self._beginning = threading.Lock()
        self._keeper = threading.Thread(target=self._keep, name="ingest", daemon=True)

    def start(self) -> None:
        self._job.folder.mkdir(parents=True, exist_ok=True)
        self._child = Child(self._job)
        try:
            self._child.wait_ready()
        except BaseException:
            self._child.stop()
            raise
        self._keeper.start()

    def progress(self) -> list[FeedProgress]:
        """Of each feed, as it was last told; a restart of the process is one of each of its feeds. Rows that a process had
        brought and not told of when it was killed are missing: the gateway knows them."""
        return self._progress

    @property
    def pid(self) -> int:
        """Of the child that is there now."""
        assert self._child is not None
        return self._child.pid

    def stop(self) -> None:
        """Idempotent."""
        self._stopping.set()
        with self._beginning:
            child = self._child
        if child is not None:
            child.stop()
        if self._keeper.ident is not None:
            self._keeper.join()

    def __enter__(self) -> IngestProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _keep(self) -> None:
        while not self._stopping.is_set():
            assert self._child is not None
            self._hear(self._child)
            if self._stopping.is_set():
                return
            self._child.stop()
            self._begin_again(RESTARTED.format(why=self._child.why_ended()))
            self._stopping.wait(self._backoff.failed())
            # Where no process can be started now, the one that has ended has ended again.
            with self._beginning, suppress(OSError):
                if not self._stopping.is_set():
                    self._child = Child(self._job)

    def _hear(self, child: Child) -> None:
        """What the child tells, until it has nothing more to tell."""
        while (told := child.told()) is not None:
            if "progress" in told:
                here = [FeedProgress(**one) for one in told["progress"]]
                self._progress = [self._since_start(one) for one in here]
                if any(one.batch is not None for one in here):
                    self._backoff.succeeded()

    def _since_start(self, here: FeedProgress) -> FeedProgress:
        before = self._before[here.feed]
        return replace(
            here,
            rows=before.rows + here.rows,
            restarts=before.restarts + here.restarts,
            last_error=here.last_error or before.last_error,
        )

    def _begin_again(self, why: str) -> None:
        self._progress = [
            replace(one, state="waiting", rows_per_s=0.0, restarts=one.restarts + 1, last_error=why)
            for one in self._progress
        ]
        self._before = {one.feed: one for one in self._progress}


class Child:
    """One process, with all that it starts in a group of its own."""

    def __init__(self, job: Job) -> None:
        with (job.folder / OUTPUT).open("ab") as output:
            self._said_from = output.tell()
            # A session of its own: Ctrl-C is for us, who end it in order.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "services.ingest.process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )
        self._stop = threading.Lock()
        self._job = job
        self._failed = ""
        with suppress(BrokenPipeError):  # it has died already, which `told` will find
            self._input.write(json.dumps(job.as_json()).encode() + b"\n")
            self._input.flush()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def wait_ready(self) -> None:
        """Until its queries have been started, or its problem raised here."""
        readable, _, _ = select.select([self._output], [], [], START_S)
        if not readable:
            raise SparkFailed(f"Spark was not ready after {START_S:g} s", hint=self._where_to_look())
        told = self.told()
        if told == {"ready": True}:
            return
        if told is not None and "wrong" in told:
            wrong: Told = told["wrong"]
            raise InvalidInput(**wrong)
        why = self._said() or self._failed or "its process has ended"
        raise SparkFailed(f"Spark did not start: {why}", hint=self._where_to_look())

    def _said(self) -> str:
        """Why there is no JVM, in its own words."""
        with (self._job.folder / OUTPUT).open("rb") as output:
            output.seek(self._said_from)
            said = LAST_WORDS.search(output.read().decode(errors="replace"))
        return brief(said[1], self._job.secrets()) if said else ""

    def _where_to_look(self) -> str:
        return f"{self._job.folder / OUTPUT} and the log beside it say more"

    def told(self) -> Told | None:
        """The next thing it tells; None when it has ended."""
        line = self._output.readline()
        if not line.endswith(b"\n"):
            return None
        told: Told = json.loads(line)
        self._failed = told.get("failed") or told.get("wrong", {}).get("title") or self._failed
        return told

    def why_ended(self) -> str:
        return self._failed or f"exit code {self._process.returncode}"

    def stop(self) -> None:
        """It and all of its group, in order if it can. Idempotent."""
        with self._stop:
            if self._process.returncode is not None:
                return
            with suppress(OSError):
                self._input.close()
            ended = os.pidfd_open(self.pid)
            select.select([ended], [], [], PARENT_STOP_S)
            os.close(ended)
            # Before anybody waits for it, so that the number is still its own.
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()


# -- the child -------------------------------------------------------------------------------------------------


def main() -> int:
    """Run the job of the first line of input until its end."""
    job = job_of(json.loads(sys.stdin.buffer.readline()))
    os.nice(job.niceness)
    tell = Teller()
    stopping = threading.Event()
    threading.Thread(target=wait_end, args=(stopping,), daemon=True).start()
    with (job.folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "end the other one, or use another folder: two would read from the same checkpoints"
            tell(
                wrong=fields(InvalidInput("an ingest runs there already", "--folder", str(job.folder), hint))
            )
            return 1
        return run(job, stopping, tell)


def run(job: Job, stopping: threading.Event, tell: Teller) -> int:
    # The parent need not import Spark.
    from services.ingest.spark import SparkIngest

    try:
        ingest = SparkIngest(job)
    except Exception as problem:
        tell(failed=brief(str(problem), job.secrets()))
        return 1
    try:
        ingest.start()
        tell(ready=True)
        ingest.run(stopping, lambda feeds: tell(progress=[asdict(one) for one in feeds]))
        return 0
    except InvalidInput as problem:
        tell(wrong=fields(problem))
    except Exception as problem:
        tell(failed=brief(str(problem), job.secrets()))
    finally:
        ingest.stop()
    return 1


def wait_end(stopping: threading.Event) -> None:
    """Until the parent closes our input or ends; what is not in order some seconds later is killed."""
    # Not through Python's buffer, whose lock the interpreter wants for itself at the end.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    stopping.set()
    time.sleep(CHILD_STOP_S)
    os.killpg(0, signal.SIGKILL)


class Teller:
    """Lines to the parent; nobody else writes there: what the JVM prints goes where errors go."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def __call__(self, **told: Any) -> None:
        with suppress(BrokenPipeError):  # the parent has ended, of which our input tells
            self._out.write(json.dumps(told).encode() + b"\n")
            self._out.flush()


def fields(problem: InvalidInput) -> Told:
    return {name: getattr(problem, name) for name in ("title", "field", "value", "hint", "file")}


if __name__ == "__main__":
    sys.exit(main())
