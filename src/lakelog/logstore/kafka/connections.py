"""Connections to the brokers of a cluster, through kafka-python: leaders, TLS, SASL, requests and responses.

kafka-python's connection layer runs in the calling thread, within ``poll``. lakelog gives it whole record batches, so
that no record is a Python object.
"""

from __future__ import annotations

import base64
import logging
import os
import ssl
import threading
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from kafka.errors import KafkaError, KafkaTimeoutError, NodeNotReadyError
from kafka.future import Future
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.structs import TopicPartition

from lakelog.errors import InvalidOption, LakelogError
from lakelog.io.clock import monotonic_s
from lakelog.logstore.base import LogLocation
from lakelog.logstore.credentials import credentials_of
from lakelog.logstore.kafka.topic import TIMEOUT_S, KafkaTopic, unavailable
from lakelog.logstore.topic_identity import check_identity

Request = Any
Response = Any
Answer = Any
"""A future of kafka-python: ``is_done``, then either ``exception`` or ``value``."""

_RESPONSE_BYTES: Final = 1 << 30
_METADATA_S: Final = 2.0
_PASSES: Final = 2
"""Passes of the event loop that hand a request to the socket: wait for it, write."""

logging.getLogger("kafka").addHandler(logging.NullHandler())  # lakelog raises errors of the broker itself

_PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_UNDERSTOOD: Final = """
    client.id message.max.bytes security.protocol sasl.mechanism sasl.mechanisms sasl.username sasl.password
    ssl.ca.location ssl.ca.pem
    ssl.certificate.location ssl.key.location ssl.key.password ssl.crl.location ssl.endpoint.identification.algorithm
"""


def understands(location: LogLocation) -> bool:
    """True if these connections know all client properties of the table; if not, confluent-kafka does the work."""
    properties = location.properties
    if not properties.keys() <= set(_UNDERSTOOD.split()):
        return False
    protocol, mechanism = _protocol(location), _mechanism(location)
    return protocol in _PROTOCOLS and (not protocol.startswith("sasl") or mechanism in _MECHANISMS)


class Connections:
    """The connections of one client. Used by one thread, which must call ``poll`` for anything to happen."""

    def __init__(self, location: LogLocation) -> None:
        """Connects, and waits for the metadata. Raises Unavailable, InvalidOption (credentials, certificates)."""
        self._location = location
        self._loop = NetworkSelector(slow_task_threshold_secs=0)
        self._manager = KafkaConnectionManager(
            self._loop,
            bootstrap_servers=location.address.split(","),
            receive_message_max_bytes=_RESPONSE_BYTES,
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=500,
            socket_connection_setup_timeout_ms=5_000,
            max_in_flight_requests_per_connection=1_000,  # the callers have limits of their own
            **_settings(location),
        )
        self._end = weakref.finalize(
            self, _close_unused, self._manager, self._loop, os.getpid(), threading.current_thread()
        )
        cluster = self._manager.cluster
        cluster.config["allow_auto_create_topics"] = False
        cluster.set_topics([location.topic])
        try:
            self._manager.bootstrap(timeout_ms=TIMEOUT_S * 1000)
        except KafkaError as failed:
            self.close()
            raise error_of(location, failed) from failed

    def leader(self, bucket: int) -> int | None:
        """The node that leads the partition of a bucket, as last heard; None if it has none now."""
        node: int | None = self._manager.cluster.leader_for_partition(TopicPartition(self._location.topic, bucket))
        return None if node is None or node < 0 else node

    def refresh(self) -> None:
        """Requests the metadata again; ``leader`` changes during a later ``poll``."""
        self._manager.cluster.request_update()

    def check_same_topic(self) -> None:
        """Raises NotFound if the topic was deleted or replaced. Does nothing if no broker answers soon.

        Unlike an administration request it needs no controller, which may be the broker that has just died.
        """
        cluster = self._manager.cluster
        answer = cluster.request_update()
        if self.poll(_METADATA_S, lambda: answer.is_done) and answer.exception is None:
            topic_id = cluster.topic_id(self._location.topic)
            if topic_id is None:
                KafkaTopic(self._location).check_same()
            else:
                check_identity(self._location, base64.b64encode(topic_id.bytes).decode().rstrip("="))

    def send(self, request: Request, node: int | None) -> Answer:
        """Sends a request to a node (any node: None). Requests to one node are answered in their order."""
        try:
            if node is None and (node := self._manager.least_loaded_node()) is None:
                raise NodeNotReadyError("no broker is known")
            answer = self._manager.send(request, node)
        except KafkaError as failed:
            return Future().failure(failed)
        for _ in range(_PASSES):
            self._loop.poll(0)
        return answer

    def poll(self, timeout_s: float, ready: Callable[[], bool]) -> bool:
        """Processes network events until ``ready`` or the timeout; returns ``ready()``."""
        deadline = monotonic_s() + timeout_s
        left = timeout_s
        while not ready():
            self._loop.poll(max(left, 0.0) * 1000)
            if left <= 0:
                return ready()
            left = deadline - monotonic_s()
        return True

    def wait_for(self, answer: Answer, timeout_s: float) -> Any:
        """Waits for an answer; returns its error, or None after success."""
        if not self.poll(timeout_s, lambda: answer.is_done):
            return KafkaTimeoutError(f"no answer for {timeout_s:.0f} s")
        return answer.exception

    def close(self) -> None:
        """Closes all connections; requests without an answer fail."""
        if self._end.detach():
            _close(self._manager, self._loop)


def _close(manager: KafkaConnectionManager, loop: NetworkSelector) -> None:
    manager.close()
    loop.close()


def _close_unused(
    manager: KafkaConnectionManager, loop: NetworkSelector, process: int, owner: threading.Thread
) -> None:
    """Closes the connections of a client that was not closed.

    Not in a forked process, whose parent uses them, and not for a thread that may be in ``poll`` as the process ends.
    A thread that ends frees its clients when it is no longer ``current_thread``, but counts as alive.
    """
    if os.getpid() == process and (owner.ident == threading.get_ident() or not owner.is_alive()):
        _close(manager, loop)


def error_of(location: LogLocation, error: Any) -> LakelogError:
    """An error of kafka-python that a client cannot repair, as one of lakelog."""
    name = type(error).__name__
    if "Authorization" in name or "Authentication" in name or "Sasl" in name:
        return InvalidOption(f"Kafka at {location.address} refuses the credentials in 'properties.*': {name}")
    return unavailable(location, f"{name}: {error}" if str(error) else name)


def _protocol(location: LogLocation) -> str:
    return location.properties.get("security.protocol", "plaintext").lower()


def _mechanism(location: LogLocation) -> str:
    properties = location.properties
    return properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "GSSAPI"))


def _settings(location: LogLocation) -> dict[str, Any]:
    properties, protocol = credentials_of(location), _protocol(location)
    settings: dict[str, Any] = {
        "security_protocol": protocol.upper(),
        "client_id": properties.get("client.id", "lakelog"),
    }
    if protocol.startswith("sasl"):
        settings["sasl_mechanism"] = _mechanism(location)
        settings["sasl_plain_username"] = properties.get("sasl.username", "")
        settings["sasl_plain_password"] = properties.get("sasl.password", "")
    if protocol.endswith("ssl"):
        settings["ssl_context"] = _tls(properties)
    return settings


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    """The TLS settings, as librdkafka understands the same properties. Raises InvalidOption."""
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = properties.get("ssl.endpoint.identification.algorithm", "https").lower() == "https"
        ca_path = properties.get("ssl.ca.location")
        if ca_path is not None:
            load = partial(context.load_verify_locations, **{"capath" if Path(ca_path).is_dir() else "cafile": ca_path})
            load()
        if "ssl.ca.pem" in properties:
            context.load_verify_locations(cadata=properties["ssl.ca.pem"])
        if ca_path is None and "ssl.ca.pem" not in properties:
            context.load_default_certs()
        if "ssl.certificate.location" in properties:
            context.load_cert_chain(
                properties["ssl.certificate.location"],
                properties.get("ssl.key.location"),
                properties.get("ssl.key.password"),
            )
        if "ssl.crl.location" in properties:
            context.load_verify_locations(properties["ssl.crl.location"])
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    except OSError as wrong:
        raise InvalidOption(f"'properties.ssl.*' of the table cannot be used: {wrong}") from wrong
    return context
