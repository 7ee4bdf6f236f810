"""Fixtures of the tests with Kafka: one broker with its client for all tests of a process, and a gateway for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka.broker import Broker, started
from tests.kafka.client import Client, connected
from tests.kafka.jars import Jars, NoJars, jars
from tests.spark.gateways import RealGateway, opened


@pytest.fixture(scope="session")
def kafka_jars() -> Jars:
    try:
        return jars()
    except NoJars as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def broker(kafka_jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with started(kafka_jars.broker, tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture(scope="session")
def client(kafka_jars: Jars, broker: Broker) -> Iterator[Client]:
    with connected(kafka_jars.broker, broker.address) as found:
        yield found


@pytest.fixture
def gateway() -> Iterator[RealGateway]:
    with opened() as found:
        yield found
