"""Apache Kafka as the log."""

from __future__ import annotations

from typing import Final

from lakelog.logstore.factory import FILE, VALUE, LogFactory

_PROPERTIES: Final = """
    acks api.version.request batch.num.messages batch.size broker.address.family check.crcs client.dns.lookup client.id
    client.rack compression.codec compression.level compression.type connections.max.idle.ms delivery.timeout.ms
    fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms
    fetch.wait.max.ms group.id heartbeat.interval.ms isolation.level linger.ms max.in.flight.requests.per.connection
    max.partition.fetch.bytes max.poll.interval.ms message.max.bytes message.timeout.ms metadata.max.age.ms
    queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms queued.max.messages.kbytes
    queued.min.messages receive.message.max.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms
    retries retry.backoff.max.ms retry.backoff.ms sasl.kerberos.principal sasl.kerberos.service.name sasl.mechanism
    sasl.mechanisms sasl.password sasl.username security.protocol session.timeout.ms
    socket.connection.setup.timeout.ms socket.keepalive.enable socket.max.fails socket.nagle.disable
    socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms ssl.ca.pem ssl.certificate.pem
    ssl.cipher.suites ssl.curves.list ssl.endpoint.identification.algorithm ssl.key.password ssl.key.pem
    ssl.keystore.password ssl.sigalgs.list topic.metadata.refresh.interval.ms
"""
"""Excluded properties load libraries (plugin.library.paths, ssl.engine.location), run programs
(sasl.kerberos.kinit.cmd), load classes (sasl.jaas.config, interceptor.classes), contact other servers
(sasl.oauthbearer.token.endpoint.url) or print messages (debug)."""
_FILES: Final = """
    sasl.kerberos.keytab ssl.ca.location ssl.certificate.location ssl.crl.location ssl.key.location
    ssl.keystore.location
"""

KAFKA: Final = LogFactory(
    name="kafka",
    system="lakelog.logstore.kafka.system:KafkaLogSystem",
    address="the bootstrap servers, like 'localhost:9092'",
    schemes=("",),
    properties={**dict.fromkeys(_PROPERTIES.split(), VALUE), **dict.fromkeys(_FILES.split(), FILE)},
    speaks_kafka=True,
    extras={"confluent_kafka": "kafka", "kafka": "kafka"},
    mirror="lakelog.logstore.kafka.mirror:KafkaMirror",
)
