"""Supervision of the Spark processes that run the declared feeds: start and stop of the processes, and changes of their jobs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from actors.runtime.backoff import Backoff
from configs.documents.spark_streams import StreamsFile
from configs.errors import Away, WeirError
from services.ingest.java import find_java
from services.ingest.job import CHECKPOINTS, GatewayAddress, IngestJob
from services.ingest.process import IngestProcess
from services.ingest.progress import FeedProgress

LOOK_S = 5.0


class Brings:
    """Spark processes: one for feeds with a connector to download, and one for all other feeds. A process without feeds is not started."""

    def __init__(self, door: GatewayAddress, folder: Path) -> None:
        self._door, self._folder = door, folder
        self._processes: dict[str, IngestProcess] = {}
        self._lock = threading.Lock()
        self._stopped = False
        self._declared: Sequence[str] = ()
        self._problem = ""

    def bring(self, file: StreamsFile | None, endpoints: Mapping[str, str] | None = None) -> None:
        """Run exactly the feeds in `file`, without waiting for their start.

        A running feed is restarted if its declaration or the declaration of the session has changed. `endpoints` has the addresses
        of the gateways on other nodes, by the names of the streams that these gateways receive.
        """
        self._declared = () if file is None else tuple(file.all_feeds())
        try:
            jobs = {} if file is None else self._jobs(file, endpoints)
        except WeirError as problem:
            self._problem = str(problem).partition("\n")[0]
            raise
        self._problem = ""
        for name, job in jobs.items():
            if name in self._processes and same_session(self._processes[name].job, job):
                self._processes[name].change(job)
            else:
                self._end(name)
                self._begin(name, job)
        for name in self._processes.keys() - jobs.keys():
            self._end(name)

    def progress(self) -> Sequence[FeedProgress]:
        """Return the progress of each declared feed, in the order of their declaration."""
        with self._lock:
            progress_by_feed = {
                feed.feed: feed for process in self._processes.values() for feed in process.progress()
            }
        unknown = FeedProgress(
            "", last_error=self._problem or None, state="failed" if self._problem else "starting"
        )
        return [progress_by_feed.get(name) or replace(unknown, feed=name) for name in self._declared]

    def stop(self) -> None:
        """Stop all processes, and start none afterwards. A second call has no effect."""
        with self._lock:
            self._stopped = True
            ending = list(self._processes)
        for name in ending:
            self._end(name)

    def _jobs(self, file: StreamsFile, endpoints: Mapping[str, str] | None) -> dict[str, IngestJob]:
        java = find_java(file.session.java_home, os.environ)
        door = self._door if endpoints is None else replace(self._door, endpoints=dict(endpoints))
        root = self._folder.absolute()
        return {
            connector: IngestJob(part, door, root / connector, java.home, checkpoints=root / CHECKPOINTS)
            for connector, part in file.by_connector().items()
        }

    def _begin(self, name: str, job: IngestJob) -> None:
        with self._lock:
            if self._stopped:
                return
            self._processes[name] = IngestProcess(job)
            self._processes[name].begin()

    def _end(self, name: str) -> None:
        with self._lock:
            process = self._processes.pop(name, None)
        if process is not None:
            process.stop()


def same_session(one: IngestJob, other: IngestJob) -> bool:
    """Return True if both jobs can run in the same Spark session."""
    first, second = (
        (job.file.session, job.file.packages(), job.folder, job.java_home) for job in (one, other)
    )
    return first == second


class WantedFeeds(Protocol):
    """Feeds that a service has declared, with the endpoint of the gateway of each stream."""

    @property
    def file(self) -> StreamsFile | None: ...

    @property
    def endpoints(self) -> Mapping[str, str]: ...


class Bringing(Protocol):
    def bring(self, file: StreamsFile | None, endpoints: Mapping[str, str]) -> None: ...

    def progress(self) -> Sequence[FeedProgress]: ...


class FollowedFeeds:
    """Runner of the feeds that a remote service declares. While the service does not answer, the feeds of its last response continue."""

    def __init__(
        self,
        ask: Callable[[], WantedFeeds],
        tell: Callable[[Sequence[FeedProgress]], None],
        brings: Bringing,
        alive: Path | None = None,
    ) -> None:
        """Store the functions that request the declared feeds and report progress. Each call of `look` touches the file `alive`."""
        self._ask, self._tell, self._brings, self._alive = ask, tell, brings, alive
        self._said: WantedFeeds | None = None
        self._due = float("-inf")
        self._backoff = Backoff()
        self.problem = ""
        """Reason why the feeds do not run as the service declares; empty without a problem."""

    def look(self, now: float) -> None:
        """Ask the service at most every LOOK_S seconds for its feeds, and run them; raise NotAllowed if the key lacks the scope `feeds`."""
        if self._alive is not None:
            self._alive.touch()
        if now < self._due:
            return
        self._due = now + LOOK_S
        try:
            said = self._ask()
            self._tell(self._brings.progress())
        except Away as problem:
            self.problem = str(problem)
            return
        if self._said is not None and (said.file, said.endpoints) == (self._said.file, self._said.endpoints):
            self.problem = ""
            return
        self._said = None
        try:
            self._brings.bring(said.file, said.endpoints)
        except WeirError as problem:
            self.problem = str(problem)
            self._due = now + self._backoff.failed()
        else:
            self._backoff.succeeded()
            self._said, self.problem = said, ""
