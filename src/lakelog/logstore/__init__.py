"""The append-only log per bucket: append → offsets, read from an offset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakelog.logstore.base import LogLocation, LogServer, LogSystem
from lakelog.options.registry import Registry

_EXTRAS: Final = {"confluent_kafka": "kafka", "pulsar": "pulsar", "urllib3": "pulsar"}

LOG_SYSTEMS: Registry[LogSystem] = Registry(
    "log system",
    {
        "embedded": "lakelog.logstore.embedded.system:EmbeddedLogSystem",
        "kafka": "lakelog.logstore.kafka.system:KafkaLogSystem",
        "pulsar": "lakelog.logstore.pulsar.system:PulsarLogSystem",
    },
    extras=_EXTRAS,
)

LOG_PROBES: Registry[Callable[[LogLocation], LogServer]] = Registry(
    "probe of a log system",
    {
        "embedded": "lakelog.logstore.embedded.probe:probe",
        "kafka": "lakelog.logstore.kafka.probe:probe",
        "pulsar": "lakelog.logstore.pulsar.probe:probe",
    },
    extras=_EXTRAS,
)
"""Log system → what looks at a server of it; raises what using it would raise."""
