"""The input of a unit: which streams are read, and how their tuples reach the class."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import numpy as np

from actors.host.inbox import Feed, Inbox, Intake
from actors.host.recent_latency import RECENT_S
from actors.log.segment import LogMissing
from actors.log.segment_log import FrameForgotten, Reader
from actors.log.train_format import batch_of
from actors.messages.unit_messages import Unit
from actors.runtime.run_dirs import RunDirs
from configs.classes.live_class import LiveSettings
from configs.classes.managers import sheds
from engine.class_.class_queries import schemas_of
from engine.class_.door import Door
from engine.class_.hosted_class import HostedClass
from engine.class_.input_account import StreamPosition
from engine.data.schema import StreamSchema
from engine.data.train import Train
from loadshed.manager import LEAST_ROOM
from loadshed.shedder import Shedder


class UnitInput:
    """Streams that a unit reads, and the part of its inbox that the class thread uses."""

    def __init__(self, unit: Unit, settings: LiveSettings, dirs: RunDirs, hosted: HostedClass) -> None:
        declared = unit.declared
        self.inbox = Inbox()
        self.intake = Intake(unit.name, self.inbox, declared.holds_back, (unit.shard, declared.shards))
        self.reading: Mapping[str, StreamSchema] = {}
        self._settings, self.dirs, self._hosted = settings, dirs, hosted
        self._readers: dict[str, Reader] = {}
        # Reader (`Feed`) of each stream's log that the unit uses at present.
        self._feeds: dict[str, Feed] = {}
        self._taken: dict[str, int] = {}  # Number of tuples taken out of the inbox, by stream
        # Last time at which input waited in a stream's log because the queue was full.
        self._held_back_at = -math.inf
        self._held_back = False  # True if input waited in a stream's log during the current load cycle
        # True if input waited when the unit stopped reading a stream, so that its other streams must be read again.
        self._waited = False
        self.declare(unit)

    def declare(self, unit: Unit) -> None:
        """Read the streams of this declaration from now on."""
        self._unit, self._schemas = unit, schemas_of(unit.declared.streams)

    def streams_changed(self) -> tuple[list[Feed], list[str]] | None:
        """Return the streams that must be read from now on, and the names of streams that must no longer be read.

        A stream with new columns is in both results.
        While steps are repeated after a crash, some queries may run that are no longer declared; their streams are not read.
        A stream is not read either if it has no position after the last step: no query reads this stream at that step.
        """
        following, repeating = self._hosted.following(), self._hosted.repeating
        reads = {
            name: schema
            for schema in self._hosted.queries.streams()
            if self._schemas.get(name := schema.name.lower()) == schema
            and not (repeating and following[name] == StreamPosition())
        }
        before, self.reading = self.reading, reads
        was_whole, self.intake.is_whole = self.intake.is_whole, not repeating
        if reads == before and was_whole == self.intake.is_whole:
            return None
        less = sorted(name for name, schema in before.items() if reads.get(name) != schema)
        more = [
            self._feed(schema, following[name])
            for name, schema in reads.items()
            if before.get(name) != schema
        ]
        for name in less:
            self._feeds.pop(name, None)
        if less:
            # Input may have waited only in streams that are no longer read, so `held_back` is reset.
            # Waiting input of other streams sets `held_back` again.
            self._waited, self.inbox.held_back = self.inbox.held_back, False
            self._held_back_at = -math.inf
        self._feeds |= {feed.name: feed for feed in more}
        return more, less

    def _feed(self, schema: StreamSchema, start: StreamPosition) -> Feed:
        declared, stream = self._unit.declared, schema.name.lower()
        door = Door(
            stream=stream,
            shedder=Shedder(declared.victim, np.random.default_rng()),
            queue_max=self._settings.queue_max,
            key=None if declared.key is None else schema.schema.index(declared.key),
            shard=(self._unit.shard, declared.shards),
            lossless=declared.lossless,
            holds_back=declared.holds_back,
        )
        if sheds(self._settings.manager) == "each" and declared.holds_back:
            # The room of a stream is computed from the cost of a tuple, which is unknown before the first load cycle.
            self.inbox.rooms = {stream: LEAST_ROOM, **self.inbox.rooms}
        return Feed(self.intake, door, self.dirs.stream(stream), start.batch, start.rows)

    def fetch(self, stream: str, number: int) -> Train | None:
        """Read a batch from the stream's log again and return it; return None if the batch has been deleted."""
        try:
            if stream not in self._readers:
                self._readers[stream] = Reader(self.dirs.stream(stream))
            frame = next(self._readers[stream].frames(number), None)
        except (FrameForgotten, LogMissing):
            return None
        return None if frame is None else batch_of(frame[1])

    def _is_current(self, stream: str, feed: Feed | None) -> bool:
        """Return False for outdated input: the unit has stopped reading the stream since, or has begun to read the stream again."""
        return feed is None or self._feeds.get(stream) is feed

    def begin_streams(self) -> None:
        """Begin streams at the positions that the gateway has sent."""
        begun = self.inbox.begun
        while begun:
            stream, batch, rows, feed = begun.popleft()
            if self._is_current(stream, feed):
                self._hosted.begin(stream, batch, rows)

    def take(self) -> set[str]:
        """Move input that has arrived into the class's queues, and return the streams of this input."""
        inbox, streams = self.inbox, set[str]()
        for _ in range(len(inbox.arrived)):
            piece, upto, feed = inbox.arrived.popleft()
            if self._is_current(piece.stream, feed):
                self._hosted.take(piece, upto)
            self._taken[piece.stream] = self._taken.get(piece.stream, 0) + len(piece.train)
            streams.add(piece.stream)
            inbox.pieces_gone += 1
        return streams

    def account(self) -> None:
        """Update the counts of tuples that have left the queues; the doors read these counts."""
        hosted, inbox = self._hosted, self.inbox
        for stream in self.reading:
            waiting = hosted.input.queued(stream)
            if hosted.repeating:
                waiting += hosted.replay.held(stream)
            inbox.gone[stream] = self._taken.get(stream, 0) - waiting

    def makes_room(self) -> bool:
        """Return True if input waited in a stream's log because the queue was full. The stream is then read again after a slice."""
        waits = self.inbox.held_back
        if waits:
            self.inbox.held_back, self._held_back_at = False, time.monotonic()
            self._held_back = True
        waited, self._waited = self._waited, False
        return waits or waited

    def end_cycle(self) -> bool:
        """Return True if input waited in a stream's log in this load cycle because the queue was full."""
        held_back, self._held_back = self._held_back, False
        return held_back or self.inbox.held_back

    def is_held_back(self, now: float) -> bool:
        """Return True if input waits in a stream's log because the queue is full, or has waited in the last RECENT_S seconds."""
        # A class without turns does not check for room, so `held_back` stays True and its input still waits.
        return self.inbox.held_back or now - self._held_back_at < RECENT_S
