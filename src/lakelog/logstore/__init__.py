"""The append-only log per bucket: append → offsets, read from an offset."""

from __future__ import annotations

from lakelog.logstore.base import LogSystem
from lakelog.options.registry import Registry

LOG_SYSTEMS: Registry[LogSystem] = Registry(
    "log system",
    {
        "embedded": "lakelog.logstore.systems.embedded:EmbeddedLogSystem",
        "kafka": "lakelog.logstore.systems.kafka:KafkaLogSystem",
        "pulsar": "lakelog.logstore.systems.pulsar:PulsarLogSystem",
    },
    extras={"confluent_kafka": "kafka", "pulsar": "pulsar", "urllib3": "pulsar"},
)
