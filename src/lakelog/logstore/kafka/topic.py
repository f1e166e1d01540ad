"""A table's topic on Kafka: created with the table, one partition per bucket, identified by its topic id."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)
from confluent_kafka.cimpl import NewTopic

from lakelog.errors import (
    AlreadyExists,
    InvalidOption,
    InvalidRequest,
    LakelogError,
    NotFound,
    OffsetExpired,
    Unavailable,
)
from lakelog.io.clock import monotonic_s, sleep
from lakelog.logstore.base import RECORDS_SCHEMA, LogLocation
from lakelog.logstore.credentials import credentials_of
from lakelog.logstore.protocol.header import HEADER_KEY
from lakelog.logstore.topic_identity import check_identity, log_id_of, missing

_T = TypeVar("_T")
TIMEOUT_S: Final = 10.0
"""Seconds without a response after which the broker counts as unavailable."""
EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_NO_LEADER = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
_OLD_LEADER = (KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError._NOENT)
"""Errors of a client that caches the leader from before a broker restart until it requests the metadata again."""
NO_TOPIC: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_REFUSED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,
)
_TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)


def unavailable(location: LogLocation, why: object) -> Unavailable:
    """The error for a broker that does not respond."""
    return Unavailable(
        f"Kafka at {location.address} cannot be reached or does not answer ({why}): "
        f"check that the broker runs, 'log-store.address', and that its advertised listeners can be reached from here"
    )


@contextlib.contextmanager
def translated_errors(location: LogLocation) -> Iterator[None]:
    """Translates the client's errors into lakelog's."""
    try:
        yield
    except KafkaException as failed:
        raise error_of(location, failed.args[0]) from failed


def error_of(location: LogLocation, error: KafkaError) -> LakelogError:
    """An error of the client as one of lakelog."""
    code = error.code()
    if code in NO_TOPIC:
        return missing(location, f"(or one of its {location.buckets} partitions) does not exist")
    if code in _REFUSED:
        return InvalidOption(f"Kafka at {location.address} refuses the credentials in 'properties.*': {error.str()}")
    if code == KafkaError._INVALID_ARG:
        return InvalidOption(f"Kafka's client refuses an option of 'properties.*': {error.str()}")
    if code in _TOO_LARGE:
        return too_large(location, error.str())
    return unavailable(location, error.str())


def too_large(location: LogLocation, why: str) -> InvalidRequest:
    """The error for a row that the broker or the client does not take."""
    return InvalidRequest(
        f"a row is larger than a record of topic '{location.topic}' of Kafka at {location.address} may be "
        f"({why}): raise 'max.message.bytes' of the topic (or 'message.max.bytes' of the broker), and the "
        f"client's limit with 'properties.message.max.bytes'"
    )


def expired(location: LogLocation, bucket: int, at: int, first: int) -> OffsetExpired:
    """The error for a read before the first retained offset."""
    return OffsetExpired(
        f"offset {at} of bucket {bucket} is no longer in topic '{location.topic}'; the first offset "
        f"is {first}. Start at 'earliest', or read the files ('read.mode'='file'), which have all rows"
    )


def client(location: LogLocation, own: str = "") -> dict[str, Any]:
    """The settings of a client: the table's properties, overridden by ``own``."""
    properties = {"log_level": 0, "socket.connection.setup.timeout.ms": 5_000, **credentials_of(location)}
    settings = dict(setting.split("=", 1) for setting in own.split())
    return {**properties, "bootstrap.servers": location.address, **settings}


def with_leaders(location: LogLocation, question: Callable[[], _T], ask_who_leads: Callable[[], object]) -> _T:
    """The response of the partition leaders; waits for the leaders of a new topic and of a restarted broker.

    ``ask_who_leads`` makes the same client request the metadata from the brokers. Raises as ``error_of``.
    """
    deadline = monotonic_s() + TIMEOUT_S
    while True:
        with translated_errors(location):
            try:
                return question()
            except KafkaException as failed:
                if failed.args[0].code() not in (*_NO_LEADER, *_OLD_LEADER) or monotonic_s() > deadline:
                    raise
            ask_who_leads()
        sleep(0.02)


class KafkaTopic:
    """The topic of one location."""

    def __init__(self, location: LogLocation) -> None:
        self.location = location
        with translated_errors(location):
            self._admin = AdminClient(client(location))

    def create(self, adopt: bool = False) -> LogLocation:
        """Creates the topic, or adopts an empty one of the same shape; returns the location with its identity.

        With ``adopt`` the topic must exist and may contain records, and its settings stay.
        """
        if adopt:
            self._check_shape()
            return replace(self.location, log_id=log_id_of(self.location.topic, self._appeared()))
        location = self.location
        # times of the brokers, because retention goes by them: no writer's wrong clock removes or keeps a record
        config = {"cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime"}
        if location.retention_ms is not None:
            config["retention.ms"] = str(location.retention_ms)
        topic = NewTopic(location.topic, num_partitions=location.buckets, config=config)
        with translated_errors(location):
            answers = self._admin.create_topics([topic], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)
            try:
                answers[location.topic].result(TIMEOUT_S * 2)
            except KafkaException as failed:
                if failed.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                self._adopt()
        return replace(location, log_id=log_id_of(location.topic, self._appeared()))

    def drop(self) -> None:
        """Deletes the topic; does nothing if it does not exist or if another topic has its name."""
        with contextlib.suppress(NotFound):
            self.check_same()
            self._delete()

    def _delete(self) -> None:
        topic = self.location.topic
        with translated_errors(self.location):
            futures = self._admin.delete_topics([topic], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)
            try:
                futures[topic].result(TIMEOUT_S * 2)
            except KafkaException as failed:
                if failed.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise

    def check(self) -> None:
        """Raises NotFound if the topic was deleted or replaced, InvalidOption for another number of partitions."""
        location, topic = self.location, self.check_same()
        if len(topic.partitions) != location.buckets:
            raise InvalidOption(
                f"topic '{location.topic}' has {len(topic.partitions)} partitions, but the table has "
                f"{location.buckets} log partitions. For a new table, set 'log-store.partitions' = "
                f"'{len(topic.partitions)}'. For an existing table, copy the rows "
                "into a new one"
            )

    def check_same(self) -> TopicDescription:
        """The cluster's description of the topic. Raises NotFound if the topic was deleted or replaced."""
        topic = self._described()
        check_identity(self.location, str(topic.topic_id))
        return topic

    def set_retention(self) -> None:
        """Sets the retention of the location, or resets it to the cluster's default (None)."""
        kept = self.location.retention_ms
        operation = AlterConfigOpType.DELETE if kept is None else AlterConfigOpType.SET
        entry = ConfigEntry("retention.ms", "" if kept is None else str(kept), incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, self.location.topic, incremental_configs=[entry])
        with translated_errors(self.location):
            self._admin.incremental_alter_configs([resource], request_timeout=TIMEOUT_S)[resource].result(TIMEOUT_S * 2)

    def offsets(self, spec: OffsetSpec, buckets: range | list[int]) -> dict[int, int]:
        """The offsets of all buckets, with one request to the broker."""
        asked = {TopicPartition(self.location.topic, b): spec for b in buckets}

        def answered() -> dict[int, int]:
            answers = self._admin.list_offsets(asked, request_timeout=TIMEOUT_S)
            return {p.partition: answer.result().offset for p, answer in answers.items()}

        return with_leaders(self.location, answered, lambda: self._admin.list_topics(self.location.topic, TIMEOUT_S))

    def _described(self) -> TopicDescription:
        topic = self.location.topic
        with translated_errors(self.location):
            answers = self._admin.describe_topics(TopicCollection([topic]), request_timeout=TIMEOUT_S)
            description: TopicDescription = answers[topic].result(TIMEOUT_S * 2)
        return description

    def _appeared(self) -> str:
        """The id of a new topic; waits because the brokers learn of it with a delay."""
        deadline = monotonic_s() + TIMEOUT_S
        while True:
            try:
                return str(self._described().topic_id)
            except LakelogError:
                if monotonic_s() > deadline:
                    raise
                sleep(0.02)

    def _check_shape(self) -> int:
        location, partitions = self.location, len(self._described().partitions)
        if partitions != location.buckets:
            raise AlreadyExists(
                f"topic '{location.topic}' exists with {partitions} partitions, the table has {location.buckets} "
                f"log partitions: choose another 'log-store.topic', or set 'log-store.partitions' = '{partitions}'"
            )
        return partitions

    def _adopt(self) -> None:
        location, every = self.location, range(self._check_shape())
        if any(self.offsets(LATEST, every).values()):  # expired records count: they were another table's
            raise AlreadyExists(
                f"topic '{location.topic}' exists and holds or held records; a table needs its own topic: choose "
                "another 'log-store.topic', or delete the topic. If they are changes of a Debezium connector, set "
                "'log-store.adopt' = 'true'"
            )


def records_table(messages: Sequence[Any]) -> pa.Table:
    """Messages of one bucket as RECORDS_SCHEMA, in order.

    ``messages`` come from a client's ``consume``: each has offset(), timestamp(), key(), value(), headers().
    """
    offsets = np.fromiter((record_offset(m) for m in messages), np.int64, len(messages))
    times = np.fromiter((m.timestamp()[1] for m in messages), np.int64, len(messages))
    keys = pa.array([m.key() for m in messages], pa.large_binary())
    values = pa.array([m.value() for m in messages], pa.large_binary())
    headers = pa.array([_header(m) for m in messages], pa.binary())
    return pa.Table.from_arrays([pa.array(offsets), pa.array(times), keys, values, headers], schema=RECORDS_SCHEMA)


def record_offset(message: Any) -> int:
    """The offset of a sent message."""
    offset: int = message.offset()
    return offset


def _header(message: Any) -> bytes | None:
    for name, value in message.headers() or ():
        if name == HEADER_KEY and isinstance(value, bytes):
            return value
    return None
