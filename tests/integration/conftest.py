"""A broker and a Pulsar for tests that kill them; the shared ones are in ``tests/conftest.py``."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lakelog.logstore.clients import close_clients
from lakelog.service.servers.server_process import KafkaBroker
from lakelog.spark.session.session import local_session
from servers.pulsar_server import PulsarServer


@pytest.fixture(scope="module", autouse=True)
def _closed_clients() -> Iterator[None]:
    """A client of a broker takes twenty file descriptors, and the gateway to Spark's JVM breaks beyond a thousand."""
    yield
    close_clients()


@pytest.fixture(scope="session")
def _broker_to_kill(tmp_path_factory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def _server_to_kill(tmp_path_factory) -> Iterator[PulsarServer]:
    with PulsarServer(tmp_path_factory.mktemp("pulsar")) as server:
        yield server


@pytest.fixture
def own_broker(_broker_to_kill: KafkaBroker) -> KafkaBroker:
    """A running broker that no other process uses, so that a test may kill it."""
    return _broker_to_kill if _broker_to_kill.process else _broker_to_kill.start()


@pytest.fixture
def own_server(_server_to_kill: PulsarServer) -> PulsarServer:
    """A running Pulsar that no other process uses, so that a test may kill it."""
    return _server_to_kill if _server_to_kill.process else _server_to_kill.start()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name}-{time.time_ns()}".replace("[", "-").replace("]", "")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One local session for all tests of this folder."""
    session = local_session()
    yield session
    session.stop()
