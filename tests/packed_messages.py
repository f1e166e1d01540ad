"""A consumer of a table's topic on Pulsar, written from the description of its messages alone.

A message with the property ``lakelog-pack`` is an Arrow stream with the columns ``key`` and ``value`` (and ``header``):
many records. One without is one record.
"""

from __future__ import annotations

from collections.abc import Iterator

import pulsar
import pyarrow as pa

_SILENCE_MS = 30_000


def values(service_url: str, topic: str, partitions: int) -> Iterator[bytes | None]:
    """The values of all records that the topic has now, each partition in its order."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        for partition in range(partitions):
            reader = client.create_reader(f"{topic}-partition-{partition}", pulsar.MessageId.earliest)
            while reader.has_message_available():
                message = reader.read_next(_SILENCE_MS)
                if "lakelog-pack" not in message.properties():
                    yield message.data() or None
                    continue
                for batch in pa.ipc.open_stream(message.data()):
                    yield from batch.column("value").to_pylist()
            reader.close()
    finally:
        client.close()
