"""Local servers of the demo: a Kafka broker from its jars."""

from __future__ import annotations

from lakelog.options.registry import Registry
from lakelog.service.servers.server_process import ServerProcess

SERVERS: Registry[ServerProcess] = Registry(
    "local server of the log system",
    {"kafka": "lakelog.service.servers.server_process:KafkaBroker"},
    {"confluent_kafka": "kafka"},
)
"""Log system → the class of the demo's server, constructed with a directory."""
