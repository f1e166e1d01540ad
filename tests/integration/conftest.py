"""One real Kafka broker for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakelog.service.kafka_broker import KafkaBroker


@pytest.fixture(scope="session")
def kafka(tmp_path_factory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker
