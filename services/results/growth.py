"""Announcements of new answers by the gateways on this machine, for one event loop.

Example:

    growth = Growth()
    growth.follow(place)          # request announcements for a unit
    await growth.wait(within_s)
    growth.take()                 # classes with new answers since the last call

Numbered properties:
1. Without announcements nothing is done. New answers of a unit are announced once, and again only after `take`.
2. After `follow` has returned True, new answers are announced if the unit's host is connected to the gateway.
3. If the connection to a gateway breaks, its classes count as having new answers. `follow` then tries to connect again, at most once per RETRY_S.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from actors.messages.gateway_messages import NO_GROWTH, AwaitGrowth, Grew, decode, encode
from actors.messages.turn_messages import NotUnderstood
from actors.messages.unit_messages import class_of
from actors.runtime.unix_channel import Channel, connect
from services.results.places import AnswersPlace

RETRY_S = 0.25


@dataclass(slots=True)
class GatewayLink:
    """Connection to a gateway, which announces new answers of followed units."""

    channel: Channel
    loop: asyncio.AbstractEventLoop
    announced: dict[str, int] = field(default_factory=dict)
    """Number of answers in the last announcement, by unit."""
    unsent: set[str] = field(default_factory=set)
    """Units for which the next announcement must still be requested."""

    def send(self) -> None:
        """Request announcements for the units in `unsent`, as long as the socket has room. Raise OSError if the gateway is gone."""
        with suppress(BlockingIOError):
            for unit in tuple(self.unsent):
                self.channel.send(encode(AwaitGrowth(unit, self.announced[unit])))
                self.unsent.discard(unit)

    def close(self) -> None:
        if not self.loop.is_closed():
            self.loop.remove_reader(self.channel.fileno())
        self.channel.close()


class Growth:
    """Connections to the gateways on this machine, and the classes with new answers that these gateways have announced."""

    def __init__(self) -> None:
        self._links: dict[Path, GatewayLink] = {}
        self._connect_at: dict[Path, float] = {}
        self._grown: set[str] = set()
        self._news = asyncio.Event()

    def follow(self, place: AnswersPlace) -> bool:
        """Request announcements for a unit; return False if no gateway on this machine announces its new answers."""
        if place.dirs is None:
            return False
        path = place.dirs.gateway_socket
        link = self._links.get(path) or self._connect(path)
        if link is None:
            return False
        if place.unit not in link.announced:
            link.announced[place.unit] = NO_GROWTH
            link.unsent.add(place.unit)
        return self._send(path, link) and not link.unsent

    def keep(self, places: Iterable[AnswersPlace]) -> None:
        """Request announcements from now on only for units in `places`; stop following all other units."""
        kept = {(place.dirs.gateway_socket, place.unit) for place in places if place.dirs is not None}
        for path, link in list(self._links.items()):
            link.announced = {unit: number for unit, number in link.announced.items() if (path, unit) in kept}
            link.unsent.intersection_update(link.announced)
            if not link.announced:
                self._links.pop(path).close()

    async def wait(self, within_s: float) -> None:
        """Wait until new answers are announced, for at most `within_s` seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), within_s)

    def wake(self) -> None:
        """End the present call of `wait`, even if no new answers were announced."""
        self._news.set()

    def take(self) -> set[str]:
        """Return the classes with new answers since the last call. Request the next announcement for each unit of these classes."""
        self._news.clear()
        grown, self._grown = self._grown, set()
        for path, link in list(self._links.items()):
            self._send(path, link)
        return grown

    def close(self) -> None:
        while self._links:
            self._links.popitem()[1].close()

    def _connect(self, path: Path) -> GatewayLink | None:
        now = time.monotonic()
        if now < self._connect_at.get(path, 0.0):
            return None
        self._connect_at[path] = now + RETRY_S
        try:
            channel = connect(path)
        except OSError:
            return None
        link = self._links[path] = GatewayLink(channel, asyncio.get_running_loop())
        link.loop.add_reader(channel.fileno(), self._receive, path, link)
        return link

    def _send(self, path: Path, link: GatewayLink) -> bool:
        try:
            link.send()
        except OSError:
            self._lose(path)
            return False
        return True

    def _receive(self, path: Path, link: GatewayLink) -> None:
        with suppress(BlockingIOError):
            try:
                while (packet := link.channel.receive()) is not None:
                    message = decode(packet)
                    if isinstance(message, Grew) and message.name in link.announced:
                        link.announced[message.name] = message.next
                        link.unsent.add(message.name)
                        self._hear([message.name])
            except NotUnderstood:
                pass  # The gateway has another version of Weir, so its announcements are not used, and answers are polled instead.
            self._lose(path)

    def _hear(self, units: Iterable[str]) -> None:
        self._grown.update(class_of(unit) for unit in units)
        self._news.set()

    def _lose(self, path: Path) -> None:
        link = self._links.pop(path)
        link.close()
        self._hear(link.announced)
