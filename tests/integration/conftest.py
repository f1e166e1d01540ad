"""One real Kafka broker for all tests of this folder; a Pulsar of its own for a test that kills it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from lakelog.logstore.clients import close_clients
from lakelog.service.servers.server_process import KafkaBroker
from servers.pulsar_server import PulsarServer


@pytest.fixture(scope="session")
def kafka(tmp_path_factory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="module", autouse=True)
def _closed_clients() -> Iterator[None]:
    """A client of a broker takes twenty file descriptors, and the gateway to Spark's JVM breaks beyond a thousand."""
    yield
    close_clients()


@pytest.fixture
def own_server(tmp_path) -> Iterator[PulsarServer]:
    with PulsarServer(tmp_path / "pulsar") as server:
        yield server


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name}-{time.time_ns()}".replace("[", "-").replace("]", "")
