"""Spark in a child process, which ends when its parent ends.

The context manager `IngestProcess(job)` starts the child process, which starts the JVM. After `change(another_job)`, feeds with
equal settings in both jobs continue without a restart.

The child reads jobs as lines of JSON from its standard input: one when it starts, and one whenever the job changes. The child
writes reports as lines of JSON to its standard output, and stops at the end of its input. So the child also stops if its parent is
killed: when the parent, the child or the JVM ends, the other two see the end of a pipe. Secrets are sent through the pipe, not on a
command line.

Guarantees:
1. When `start` returns, the Spark session runs and its feeds are being started. When it raises, no process is left.
2. If the child dies, it is started again, after 0.5 s to 30 s; its queries continue from their checkpoints. If its session
   cannot be started, the next try is after 2 s to 120 s, or when the job changes.
3. A change of the job restarts the feeds that differ, and no others. The session continues.
4. After `stop`, which takes at most ten seconds, neither the child nor the JVM runs. If this process is killed, both end
   within ten seconds.
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
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from actors.runtime.backoff import Backoff
from configs.errors import InvalidInput, WeirError
from services.ingest.job import JOB_JSON, OUTPUT, IngestJob
from services.ingest.progress import FeedProgress, State, brief

if TYPE_CHECKING:
    from services.ingest.spark import Inbox

# Maximum seconds from the start of the child until its session runs. The child may have to download a connector first.
START_S = 300.0
# Seconds of the first pause and of the longest pause after a failed start. Each try starts a JVM, which takes much processor time.
START_BACKOFF_LEAST_S, START_BACKOFF_MOST_S = 2.0, 120.0
# Maximum seconds of a stop in the child and in the parent. Queries take up to three seconds, session and JVM up to three more.
CHILD_STOP_S = 7.5
PARENT_STOP_S = 9.0
# Maximum seconds until killed processes have ended. A killed JVM needs time to free its memory.
KILLED_S = 9.0
LOCK = "lock"
LAST_WORDS = re.compile(r"^(?:Exception in thread \S+ [\w.$]+: |Error: )(.+)$", re.MULTILINE)

Told = dict[str, Any]


class SparkFailed(WeirError):
    """Failure to start the Spark session. All processes of the failed start have ended."""


class IngestProcess:
    """Child process that runs Spark, with a thread that starts the child again when the child dies."""

    def __init__(self, job: IngestJob) -> None:
        self.job = job
        """Job that the child runs, or that the next child will run."""
        self._child: Child | None = None
        self._progress = {name: FeedProgress(name) for name in job.file.all_feeds()}
        self._before = dict(self._progress)
        """Progress of each feed up to the end of the previous child process, by the feed's name."""
        self._backoff = Backoff()
        self._start_backoff = Backoff(START_BACKOFF_LEAST_S, START_BACKOFF_MOST_S)
        self._retry_at = 0.0
        self._wake = threading.Event()
        """Event that ends the pause before the next start. The event is set by `stop`, and by a change of the job."""
        self._stopping = threading.Event()
        self._first: Future[None] = Future()
        """Result of the first start of the child: None, or the error because of which the start failed."""
        self._lock = threading.RLock()
        self._keeper = threading.Thread(target=self._keep, name="ingest", daemon=True)

    def start(self) -> None:
        """Start the child and wait until its session runs; raise an error if the session cannot be started."""
        self.begin()
        try:
            self._first.result()
        except BaseException:
            self.stop()
            raise

    def begin(self) -> None:
        """Start the child without waiting for its session. After a failed start, `progress` shows the reason, and the start is repeated."""
        self.job.folder.mkdir(parents=True, exist_ok=True)
        self._keeper.start()

    def change(self, job: IngestJob) -> None:
        """Replace the job by another job that has the same session, folder and Java."""
        with self._lock:
            self.job = job
            self._progress, self._before = (
                {name: progress_of.get(name) or FeedProgress(name) for name in job.file.all_feeds()}
                for progress_of in (self._progress, self._before)
            )
            if self._child is not None:
                self._child.send(job)
            self._start_backoff.succeeded()
            self._wake.set()

    def progress(self) -> list[FeedProgress]:
        """Return the last reported progress of each feed. Restarts of the process count as restarts of the feed.

        Rows that a killed process has published but not reported are missing. Only the gateway's counts include such rows.
        """
        with self._lock:
            left_s = self._retry_at - time.monotonic()
            if left_s <= 0.0:
                return list(self._progress.values())
            return [replace(feed, next_try_s=left_s) for feed in self._progress.values()]

    @property
    def pid(self) -> int:
        """Process id of the current child."""
        assert self._child is not None
        return self._child.pid

    def stop(self) -> None:
        """Stop the child and wait for its end. A second call has no effect."""
        self._stopping.set()
        self._wake.set()
        with self._lock:
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
            state, why = self._run_child()
            if self._stopping.is_set():
                break
            pause_s = (self._start_backoff if state == "failed" else self._backoff).failed()
            self._wake.clear()
            self._note_end(state, why, pause_s)
            if not self._stopping.is_set():
                self._wake.wait(pause_s)
            self._retry_at = 0.0
        if not self._first.done():
            self._first.set_exception(SparkFailed("Spark was stopped before it was ready"))

    def _run_child(self) -> tuple[State, str]:
        """Run one child until it ends. Return the new state of the feeds, and the reason why the child has ended."""
        try:
            with self._lock:
                if self._stopping.is_set():
                    return "stopped", ""
                child = self._child = Child(self.job)
        except OSError as problem:
            return "failed", f"Spark's process cannot be started: {problem.strerror or problem}"
        try:
            child.wait_ready()
        except WeirError as problem:
            child.stop()
            if not self._first.done():
                self._first.set_exception(problem)
            return "failed", str(problem).partition("\n")[0]
        self._start_backoff.succeeded()
        if not self._first.done():
            self._first.set_result(None)
        self._hear(child)
        child.stop()
        return "waiting", f"Spark's process has ended ({child.why_ended()}) and was started again"

    def _hear(self, child: Child) -> None:
        """Process the child's reports until the child ends."""
        while (message := child.told()) is not None:
            if "progress" in message:
                here = [FeedProgress(**feed) for feed in message["progress"]]
                with self._lock:
                    for feed in here:
                        if feed.feed in self._progress:
                            self._progress[feed.feed] = self._since_start(feed)
                if any(feed.batch is not None for feed in here):
                    self._backoff.succeeded()

    def _since_start(self, here: FeedProgress) -> FeedProgress:
        before = self._before[here.feed]
        return replace(
            here,
            rows=before.rows + here.rows,
            restarts=before.restarts + here.restarts,
            last_error=here.last_error or before.last_error,
            last_error_at=here.last_error_at or before.last_error_at,
            batch_at=here.batch_at or before.batch_at,
            event_time=before.event_time if here.event_time is None else here.event_time,
        )

    def _note_end(self, state: State, why: str, pause_s: float) -> None:
        with self._lock:
            self._retry_at = time.monotonic() + pause_s
            self._progress = {
                name: replace(
                    feed,
                    state=state,
                    rows_per_s=0.0,
                    restarts=feed.restarts + 1,
                    last_error=why,
                    last_error_at=time.time(),
                    next_try_s=None,
                    run=None,
                )
                for name, feed in self._progress.items()
            }
            self._before = dict(self._progress)


class Child:
    """One child process, which forms a process group with all processes that it starts."""

    def __init__(self, job: IngestJob) -> None:
        with (job.folder / OUTPUT).open("ab") as output:
            self._said_from = output.tell()
            # The child has its own process session. So only the parent receives Ctrl-C, and can stop the child in order.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "services.ingest.process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._stop = threading.Lock()
        self._job = job
        self._failed = ""
        self.send(job)

    def send(self, job: IngestJob) -> None:
        """Send the child a job, which replaces its current job."""
        # An OSError or a ValueError means that the child has died or is being stopped; `_hear` notices the end of the child.
        with suppress(OSError, ValueError):
            self._input.write(job.as_json() + b"\n")
            self._input.flush()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self) -> None:
        """Wait until the child's session runs; raise an error if the session cannot be started."""
        readable, _, _ = select.select([self._output], [], [], START_S)
        if not readable:
            raise SparkFailed(f"Spark was not ready after {START_S:g} s", hint=self._where_to_look())
        message = self.told()
        if message == {"ready": True}:
            return
        if message is not None and "wrong" in message:
            raise InvalidInput(**message["wrong"])
        why = self._said() or self._failed or "its process has ended"
        raise SparkFailed(f"Spark did not start: {why}", hint=self._where_to_look())

    def _said(self) -> str:
        """Return the JVM's message about why the JVM could not start, or an empty text if there is no such message."""
        with (self._job.folder / OUTPUT).open("rb") as output:
            output.seek(self._said_from)
            said = LAST_WORDS.search(output.read().decode(errors="replace"))
        return brief(said[1], self._job.secrets()) if said else ""

    def _where_to_look(self) -> str:
        return f"see {self._job.folder / OUTPUT} and the log in the same folder"

    def told(self) -> Told | None:
        """Return the next message of the child; None when the child has ended."""
        line = self._output.readline()
        if not line.endswith(b"\n"):
            return None
        message: Told = json.loads(line)
        self._failed = message.get("failed") or message.get("wrong", {}).get("title") or self._failed
        return message

    def why_ended(self) -> str:
        return self._failed or f"exit code {self._process.returncode}"

    def stop(self) -> None:
        """Ask the child to stop, and then kill all processes of its group that still run. A second call has no effect."""
        with self._stop:
            if self._process.returncode is not None:
                return
            with suppress(OSError):
                self._input.close()
            wait_ended([os.pidfd_open(self.pid)], PARENT_STOP_S)
            members = group_members(self.pid)
            # The group is killed before `wait` is called, because after `wait` the process id may belong to another process.
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
            wait_ended(members, KILLED_S)


def group_members(group: int) -> list[int]:
    """Return a file descriptor of each process of a group. The caller must close the descriptors."""
    members = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if os.getpgid(int(folder.name)) == group:
                members.append(os.pidfd_open(int(folder.name)))
    return members


def wait_ended(processes: Iterable[int], at_most_s: float) -> None:
    """Wait at most `at_most_s` seconds until the processes of these file descriptors have ended. Then close the descriptors."""
    until = time.monotonic() + at_most_s
    for process in processes:
        select.select([process], [], [], max(0.0, until - time.monotonic()))
        os.close(process)


def main() -> int:
    """Run the latest job until standard input ends. Each line of standard input is a job, which replaces the previous job."""
    lines = input_lines()
    job = JOB_JSON.validate_json(next(lines))
    os.nice(job.niceness)
    tell = Teller()
    inbox: Inbox = SimpleQueue()
    inbox.put(job)
    threading.Thread(target=read_jobs, args=(lines, inbox), daemon=True).start()
    with (job.folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            title = "another ingest already uses this folder"
            hint = (
                "end the other ingest, or use another folder, because two processes cannot share checkpoints"
            )
            tell(wrong={"title": title, "field": "--folder", "value": str(job.folder), "hint": hint})
            return 1
        return run(job, inbox, tell)


def run(job: IngestJob, inbox: Inbox, tell: Teller) -> int:
    # Only the child imports `services.ingest.spark`, because this import loads Spark, which the parent does not need.
    from services.ingest.spark import SparkIngest

    ingest: SparkIngest | None = None
    try:
        ingest = SparkIngest(job, inbox)
        tell(ready=True)
        ingest.run(lambda feeds: tell(progress=[asdict(feed) for feed in feeds]))
        return 0
    except Exception as problem:
        tell(failed=brief(str(problem), job.secrets()))
        return 1
    finally:
        if ingest is not None:
            ingest.stop()


def input_lines() -> Iterator[bytes]:
    """Yield the lines of standard input as they arrive."""
    # The buffer of sys.stdin is not used, because a blocked read would hold its lock, which the interpreter needs to exit.
    rest = b""
    while some := os.read(sys.stdin.fileno(), 65_536):
        *lines, rest = (rest + some).split(b"\n")
        yield from lines


def read_jobs(lines: Iterator[bytes], inbox: Inbox) -> None:
    """Put jobs into the inbox until standard input ends. If this process group still runs CHILD_STOP_S later, kill the group."""
    for line in lines:
        inbox.put(JOB_JSON.validate_json(line))
    inbox.put(None)
    time.sleep(CHILD_STOP_S)
    os.killpg(0, signal.SIGKILL)


class Teller:
    """Writer of messages to the parent. All other output, such as the JVM's, is redirected to standard error."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def __call__(self, **told: Any) -> None:
        # If the pipe is broken, the parent has ended. The child then stops, because its standard input ends.
        with suppress(BrokenPipeError):
            self._out.write(json.dumps(told).encode() + b"\n")
            self._out.flush()


if __name__ == "__main__":
    sys.exit(main())
