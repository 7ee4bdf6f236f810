"""Announcements of a gateway wake readers of answers. Without a gateway, logs are polled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Thread

import pytest

from actors.gateway.gateway_loop import Gateway
from actors.messages.gateway_messages import Grew, encode
from actors.runtime.run_dirs import RunDirs
from actors.runtime.unix_channel import Channel, connect
from bench.local_places import LocalPlaces
from services.results import growth as growth_module
from services.results import topics
from services.results.events import HEARTBEAT, events
from services.results.growth import Growth
from services.results.log_reader import QueryAddress
from services.results.places import AnswersPlace
from services.results.results import Results
from tests.support.answer_logs import ClassLog

KIB = 1024
NEVER_S = 1e6
ASKED = QueryAddress("gold", "q")


@contextmanager
def running(dirs: RunDirs) -> Iterator[Gateway]:
    gateway = Gateway(dirs)
    thread = Thread(target=gateway.run)
    thread.start()
    try:
        yield gateway
    finally:
        gateway.stop()
        thread.join()


@contextmanager
def host_channel(dirs: RunDirs) -> Iterator[Channel]:
    channel = connect(dirs.gateway_socket)
    yield channel
    channel.close()


@asynccontextmanager
async def following(*places: AnswersPlace) -> AsyncIterator[Growth]:
    growth = Growth()
    for place in places:
        assert growth.follow(place)
    yield growth
    growth.close()


@pytest.fixture
def unpolled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "REST_S", NEVER_S)


@pytest.fixture
def log(dirs: RunDirs) -> Iterator[ClassLog]:
    log = ClassLog(dirs.class_log("gold"), 1024 * KIB)
    yield log
    log.close()


async def next_announced(growth: Growth) -> set[str]:
    await growth.wait(NEVER_S)
    return growth.take()


async def wait_until_announced(growth: Growth, name: str) -> None:
    """Wait until new answers of the class are announced."""
    while name not in await next_announced(growth):
        pass


def test_reader_is_woken_by_an_announcement(dirs: RunDirs, log: ClassLog, unpolled: None) -> None:
    async def read(host: Channel) -> list[bytes]:
        results = Results(LocalPlaces(dirs))
        stream = events(results, ASKED, None)
        assert await anext(stream) == HEARTBEAT
        received = []
        for _ in range(20):
            log.commit(2)
            host.send(encode(Grew("gold", log.log.next)))
            received.append(await anext(stream))
        await stream.aclose()
        results.close()
        return received

    with running(dirs), host_channel(dirs) as host:
        received = asyncio.run(read(host))
    assert [event.count(b"_seq") for event in received] == [2] * 20


def test_a_request_that_waits_for_a_page_of_answers_is_woken_by_an_announcement(
    dirs: RunDirs, log: ClassLog, unpolled: None
) -> None:
    async def read(host: Channel) -> int:
        results = Results(LocalPlaces(dirs))
        page = asyncio.create_task(results.page(ASKED, None, 10, wait_s=NEVER_S))
        while ASKED not in results.topics._topics or not results.topics._topics[ASKED].view:
            await asyncio.sleep(0)
        log.commit(3)
        host.send(encode(Grew("gold", log.log.next)))
        rows = (await page).rows
        results.close()
        return rows

    with running(dirs), host_channel(dirs) as host:
        assert asyncio.run(read(host)) == 3


def test_logs_are_polled_while_the_gateway_is_away(
    dirs: RunDirs, log: ClassLog, unpolled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth_module, "RETRY_S", 0.0)

    async def read() -> list[bytes]:
        results = Results(LocalPlaces(dirs))
        stream = events(results, ASKED, None)
        with running(dirs), host_channel(dirs) as host:
            assert await anext(stream) == HEARTBEAT
            log.commit(1)
            host.send(encode(Grew("gold", log.log.next)))
            received = [await anext(stream)]
        log.commit(2)
        received.append(await anext(stream))
        with running(dirs), host_channel(dirs) as host:
            while not results.topics._growth._links:
                await asyncio.sleep(0)
            while results.topics._all_at < topics.clock() + 1:
                await asyncio.sleep(0)
            log.commit(3)
            host.send(encode(Grew("gold", log.log.next)))
            received.append(await anext(stream))
        await stream.aclose()
        results.close()
        return received

    assert [event.count(b"_seq") for event in asyncio.run(read())] == [1, 2, 3]


def test_new_answers_of_a_class_are_announced_once_until_its_reader_asks_again(dirs: RunDirs) -> None:
    async def read(host: Channel) -> None:
        async with following(AnswersPlace("gold", dirs), AnswersPlace("jade#1", dirs)) as growth:
            for unit, number in (("silver", 4), ("jade#0", 1), ("gold", 1)):
                host.send(encode(Grew(unit, number)))
            assert await next_announced(growth) == {"gold"}
            for unit, number in (("gold", 1), ("jade#1", 7)):
                host.send(encode(Grew(unit, number)))
            assert await next_announced(growth) == {"jade"}
            for number in range(2, 100):
                host.send(encode(Grew("gold", number)))
            while growth._links[dirs.gateway_socket].announced != {"gold": 99, "jade#1": 7}:
                assert await next_announced(growth) == {"gold"}

    with running(dirs), host_channel(dirs) as host:
        asyncio.run(read(host))


def test_class_with_a_restarted_log_is_announced(dirs: RunDirs) -> None:
    async def read(host: Channel) -> None:
        async with following(AnswersPlace("gold", dirs)) as growth:
            for number in (900, 1, 2):
                host.send(encode(Grew("gold", number)))
                await wait_until_announced(growth, "gold")

    with running(dirs), host_channel(dirs) as host:
        asyncio.run(read(host))


def test_after_a_gateway_is_lost_all_its_classes_are_announced_to_readers(
    dirs: RunDirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth_module, "RETRY_S", 0.0)
    place = AnswersPlace("gold", dirs)

    async def read() -> None:
        with running(dirs):
            growth = Growth()
            assert growth.follow(place)
        assert await next_announced(growth) == {"gold"}
        assert not growth.follow(place)
        with running(dirs), host_channel(dirs) as host:
            assert growth.follow(place)
            host.send(encode(Grew("gold", 1)))
            assert await next_announced(growth) == {"gold"}
            growth.close()

    asyncio.run(read())


def test_followed_units_that_overfill_the_socket_are_sent_to_the_gateway_later(dirs: RunDirs) -> None:
    places = [AnswersPlace(f"gold#{shard}", dirs) for shard in range(2000)]

    async def read() -> None:
        gateway = Gateway(dirs)
        growth = Growth()
        followed = [growth.follow(place) for place in places]
        assert followed[0]
        assert not followed[-1]
        thread = Thread(target=gateway.run)
        thread.start()
        while growth._links[dirs.gateway_socket].unsent:
            growth.take()
            await asyncio.sleep(0)
        assert all(growth.follow(place) for place in places)
        with host_channel(dirs) as host:
            host.send(encode(Grew("gold#1999", 1)))
            assert await next_announced(growth) == {"gold"}
        growth.keep(places[:1])
        assert growth._links[dirs.gateway_socket].announced == {"gold#0": -1}
        growth.keep([])
        assert not growth._links
        gateway.stop()
        thread.join()

    asyncio.run(read())


def test_class_on_another_node_is_not_announced() -> None:
    assert not Growth().follow(AnswersPlace("gold", None, "grpc://10.0.0.2:1"))
