"""Topics: queries that have readers. When a topic gets new answers, their number is polled and waiting readers are woken.

Numbered properties:
1. Gateways on this machine announce new answers (`services.results.growth`). A poll follows at once if polling has used at most
   the fraction TAKES_MOST of a processor since the last poll; otherwise it follows after at most LOOK_S.
2. All topics are polled every REST_S, because some changes are not announced: queries that end, units that move.
3. Answers without announcements (on another node, or while the gateway is away) are polled every LOOK_S or less often.
4. Without readers and open logs there is no polling.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from configs.errors import Away
from services.results.growth import Growth
from services.results.log_reader import QueryAddress, View

LOG = logging.getLogger(__name__)
LOOK_S = 0.05
TAKES_MOST = 0.1
REST_S = 0.5

Look = Callable[[Sequence[QueryAddress]], Awaitable[tuple[list[View], bool]]]
"""Function that returns where each query's answers are and how many there are, and True if any log is still open."""


@dataclass(eq=False)
class Topic:
    """Query with at least one reader."""

    asked: QueryAddress
    view: View = field(default_factory=dict)
    readers: int = 0
    is_over: bool = False
    """True once the query is no longer declared."""
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, view: View, is_over: bool) -> None:
        if view != self.view or is_over != self.is_over:
            self.view, self.is_over = view, is_over
            self.wake()

    def wake(self) -> None:
        news, self.news = self.news, asyncio.Event()
        news.set()

    async def changed(self, view: View, within_s: float) -> None:
        """Wait until the topic's answers differ from `view`, for at most `within_s` seconds."""
        if self.view is view and not self.is_over:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.news.wait(), within_s)


class Topics:
    """Queries with readers, which one task of an event loop polls."""

    def __init__(self, look: Look, is_declared: Callable[[str, str], bool]) -> None:
        self._look, self._is_declared = look, is_declared
        self._topics: dict[QueryAddress, Topic] = {}
        self._growth = Growth()
        self._task: asyncio.Task[None] | None = None
        self._all_at = math.inf
        """Time of the next poll of all topics."""

    @property
    def is_idle(self) -> bool:
        """Return True if no polling task runs."""
        return self._task is None

    @contextmanager
    def following(self, asked: QueryAddress) -> Iterator[Topic]:
        """Poll the query's answers for one reader until the `with` block ends."""
        topic = self._topics.setdefault(asked, Topic(asked))
        topic.readers += 1
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._look_on())
        try:
            yield topic
        finally:
            topic.readers -= 1
            if not topic.readers:
                del self._topics[asked]

    async def look(self, topic: Topic) -> None:
        """Poll the topic's answers now."""
        (view,), _ = await self._look([topic.asked])
        self._hear(topic, view)

    def send_away(self) -> None:
        """Stop polling and wake all readers."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        for topic in self._topics.values():
            topic.wake()

    async def _look_on(self) -> None:
        """Poll until there are no readers and no open logs left."""
        self._all_at = clock() + LOOK_S
        looked_at, used_s = clock(), time.process_time()
        holds = True
        try:
            while self._topics or holds:
                await self._growth.wait(self._all_at - clock())
                while (left_s := looked_at + pause_after(used_s) - clock()) > 0:
                    await asyncio.sleep(left_s)
                looked_at, used_s, is_all = clock(), time.process_time(), clock() >= self._all_at
                grown = self._growth.take()
                topics = [
                    topic for topic in self._topics.values() if is_all or topic.asked.class_name in grown
                ]
                if is_all:
                    self._all_at = math.inf
                if is_all or topics:
                    holds = await self._look_at(topics)
                if is_all:
                    self._growth.keep([place for topic in topics for place, _ in topic.view.values()])
                    pause_s = max(REST_S, (clock() - looked_at) / TAKES_MOST)
                    self._all_at = min(self._all_at, clock() + pause_s)
        except Away:
            pass  # The service is stopping.
        finally:
            self._growth.close()
        self._task = None

    async def _look_at(self, topics: Sequence[Topic]) -> bool:
        """Poll the topics and update their views; return True if any log is still open."""
        try:
            views, holds = await self._look([topic.asked for topic in topics])
        except Away:
            raise
        except Exception:
            LOG.exception("cannot poll the answers of queries")
            return True
        for topic, view in zip(topics, views, strict=True):
            self._hear(topic, view)
        return holds

    def _hear(self, topic: Topic, view: View) -> None:
        topic.hear(view, not self._is_declared(topic.asked.class_name, topic.asked.query))
        announced = [self._growth.follow(place) for place, _ in view.values()]
        if not all(announced) and self._all_at > clock() + LOOK_S:
            self._all_at = clock() + LOOK_S
            self._growth.wake()


def pause_after(used_s: float) -> float:
    """Return the pause in seconds until the next poll. `used_s` is the processor time of this process at the start of the last poll."""
    return min(LOOK_S, (time.process_time() - used_s) / TAKES_MOST)


clock = time.monotonic
