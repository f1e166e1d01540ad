"""Probe of a Kafka cluster: availability, retention and message size limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ResourceType,
)

from lakelog.io.clock import monotonic_s
from lakelog.io.quantities import format_bytes
from lakelog.logstore.base import LogLocation, LogProblem, LogServer
from lakelog.logstore.kafka.topic import TIMEOUT_S, client, translated_errors

_SMALL_MESSAGE: Final = 1 << 20
_HOUR_MS: Final = 3_600_000


def probe(location: LogLocation) -> LogServer:
    """Requests the brokers of a cluster and the settings of one; creates no topic. Raises as its use would."""
    with translated_errors(location):
        admin = AdminClient(client(location))
        started = monotonic_s()
        metadata = admin.list_topics(timeout=TIMEOUT_S)
        millis = (monotonic_s() - started) * 1000
    brokers = len(metadata.brokers)
    facts = {"answers in": f"{millis:.0f} ms", "brokers": str(brokers), "topics": str(len(metadata.topics))}
    settings = _settings(admin, next(iter(metadata.brokers), 0))
    retention = settings.get("log.retention.ms") or settings.get("log.retention.hours")
    if retention is not None:
        hours = int(retention) / (_HOUR_MS if "log.retention.ms" in settings else 1)
        facts["keeps records"] = "without limit" if hours < 0 else f"{hours:g} h"
    if "message.max.bytes" in settings:
        facts["largest message"] = format_bytes(int(settings["message.max.bytes"]))
    protocol = settings.get("inter.broker.protocol.version")
    if protocol is not None:
        facts["version"] = protocol
    return LogServer(f"Kafka at {location.address}", facts, tuple(_problems(settings, brokers)))


def _problems(settings: Mapping[str, str], brokers: int) -> Iterator[LogProblem]:
    if not settings:
        yield LogProblem(
            "the cluster does not report its settings: this user lacks the privilege to describe it",
            "if writes fail because of their size, ask for the value of 'message.max.bytes'",
        )
        return
    if int(settings.get("message.max.bytes", _SMALL_MESSAGE)) < _SMALL_MESSAGE // 2:
        yield LogProblem(
            f"a message may have at most {settings['message.max.bytes']} bytes: larger rows are refused",
            "raise 'message.max.bytes' of the brokers",
        )
    if settings.get("auto.create.topics.enable") == "true":
        yield LogProblem(
            "the brokers create topics automatically: a topic that is deleted by mistake would be created again, empty",
            "set 'auto.create.topics.enable' = 'false' on the brokers; lakelog creates its topics itself",
        )
    if brokers > 1 and settings.get("default.replication.factor") == "1":
        yield LogProblem(
            "new topics have one replica: if a broker is lost, its records are lost",
            "set 'default.replication.factor' = '3' and 'min.insync.replicas' = '2' on the brokers",
        )


def _settings(admin: AdminClient, broker: int) -> Mapping[str, str]:
    resource = ConfigResource(ResourceType.BROKER, str(broker))
    try:
        answers = admin.describe_configs([resource], request_timeout=TIMEOUT_S)
        entries = answers[resource].result(TIMEOUT_S * 2)
    except KafkaException:
        return {}
    return {name: entry.value for name, entry in entries.items() if entry.value is not None}
