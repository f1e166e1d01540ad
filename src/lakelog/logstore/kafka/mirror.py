"""A mirror on Kafka: plain records in a topic, exactly once, by transactions.

The position of the mirror is a record in a topic of its own (``<topic>.position``), which is compacted, in the same
transaction as the rows before it. Kafka keeps the newest record of a compacted topic without end. The alternatives lose
it: offsets of a consumer group expire a week after the last commit and hold 4 KiB at most, and a header of the last
record expires with that record. Kafka Connect stores the positions of its sources in the same way.

The transactional id is made of the topic's name. So a second mirror of a topic fences the first one, whichever table it
reads, and aborts the transaction that a killed one has left open.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from lakelog.errors import (
    AlreadyExists,
    Corrupt,
    Fenced,
    InvalidOption,
    InvalidRequest,
    LakelogError,
    NotFound,
    Unavailable,
)
from lakelog.io.clock import monotonic_s, sleep
from lakelog.logstore.base import LogLocation, LogMirror, Records
from lakelog.logstore.kafka.topic import LATEST, NO_TOPIC, TIMEOUT_S, KafkaTopic, client, error_of

POSITION_SUFFIX: Final = ".position"
"""What the name of the topic of the position has after the name of the mirror's topic."""
_KEY: Final = b"position"
_RECENT: Final = 1_000
"""Number of newest offsets of the position's topic that are read first; compaction leaves few others."""
_COMMIT_S: Final = 60.0
"""Seconds within which a transaction must be committed; the broker aborts it at about the same age."""
_POSITION_CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
_PRODUCER: Final = "enable.idempotence=true acks=all linger.ms=5 compression.type=lz4 transactional.id="
_CONSUMER: Final = """group.id=lakelog enable.auto.commit=false enable.partition.eof=true
    isolation.level=read_committed auto.offset.reset=earliest fetch.wait.max.ms=10"""
T = TypeVar("T")
_ELECTING: Final = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
"""Errors of a partition that is new or moves to another broker."""
_FENCED: Final = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)


class KafkaMirror(LogMirror):
    """See the module."""

    def __init__(self, location: LogLocation) -> None:
        self._location, self._positions = location, location.topic + POSITION_SUFFIX
        self._transactional_id, self._topic_id = f"lakelog-mirror-{location.topic}", ""
        self._producer: Producer | None = None
        with self._translated():
            self._admin = AdminClient(client(location))

    def position(self) -> str | None:
        ids = self._ids()
        if self._positions not in ids:
            return None
        return self._checked(self._read(), ids.get(self._location.topic, ""))

    def begin(self) -> str | None:
        topic, known = self._location.topic, self._ids()
        self._ensure(topic, self._location.buckets, {"cleanup.policy": "delete"}, topic in known)
        self._ensure(self._positions, 1, _POSITION_CONFIG, self._positions in known)
        if self._positions in known:
            self._check_policy()
        self._topic_id = self._ids()[topic]
        with self._translated():
            self._producer = Producer(client(self._location, _PRODUCER + self._transactional_id))
            self._repeated(lambda seconds: self._open.init_transactions(seconds))
        position = self._checked(self._read(), self._topic_id)
        shape = KafkaTopic(self._location).offsets(LATEST, range(self._location.buckets))
        if position is None and any(shape.values()):
            raise AlreadyExists(
                f"topic '{topic}' on {self._location.address} holds or held records, but no position of a mirror: name "
                "another topic, or delete this one"
            )
        return position

    def commit(self, parts: Sequence[tuple[int, Records]], position: str) -> None:
        producer, topic = self._open, self._location.topic
        stored = json.dumps({"table": self._location.owner, "topic": self._topic_id, "position": position}).encode()
        with self._translated():
            producer.begin_transaction()
            for partition, records in parts:
                rows = zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True)
                for key, value in rows:
                    self._produce(topic, partition, key, value)
            self._produce(self._positions, 0, _KEY, stored)
            self._repeated(producer.commit_transaction)

    def close(self) -> None:
        if self._producer is not None:
            with contextlib.suppress(KafkaException):  # no transaction is open, or another mirror has fenced this one
                self._producer.abort_transaction(TIMEOUT_S)

    @property
    def _open(self) -> Producer:
        assert self._producer is not None
        return self._producer

    def _produce(self, topic: str, partition: int, key: bytes | None, value: bytes) -> None:
        try:
            self._open.produce(topic, value, key, partition)
        except BufferError:
            self._make_room()
            self._open.produce(topic, value, key, partition)
        except KafkaException as failed:
            if failed.args[0].code() == KafkaError._FATAL:
                self._open.commit_transaction(TIMEOUT_S)  # raises the cause
            raise

    def _make_room(self) -> None:
        """Waits until the client's queue is half empty."""
        most, deadline = len(self._open) // 2, monotonic_s() + _COMMIT_S
        while len(self._open) > most:
            if monotonic_s() > deadline:
                raise self._unavailable(f"{len(self._open)} records wait")
            self._open.poll(0.1)

    def _repeated(self, request: Callable[[float], T]) -> T:
        """Sends a request (seconds → answer) again while its error allows it."""
        deadline = monotonic_s() + _COMMIT_S
        while True:
            try:
                return request(TIMEOUT_S)
            except KafkaException as failed:
                if not _is_retriable(failed.args[0]) or monotonic_s() > deadline:
                    raise
                sleep(0.02)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as failed:
            raise self._error(failed.args[0]) from failed

    def _error(self, error: KafkaError) -> LakelogError:
        topic, address, code = self._location.topic, self._location.address, error.code()
        if code in _FENCED:
            return Fenced(
                f"another process mirrors a log into topic '{topic}' on {address} and continues where this one has "
                "stopped, or this one was suspended for about a minute within a transaction. Run one process for each "
                "topic; if this was the only one, start it again"
            )
        if code in NO_TOPIC:
            return NotFound(
                f"topic '{topic}' or '{self._positions}' on {address} was deleted while a mirror wrote to it: to start "
                "again, delete both"
            )
        if code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return InvalidOption(
                f"Kafka at {address} does not allow this user the transactional id '{self._transactional_id}': grant "
                "WRITE and DESCRIBE on it"
            )
        failure = error_of(self._location, error)
        return self._unavailable(error.str()) if isinstance(failure, Unavailable) else failure

    def _unavailable(self, why: str) -> Unavailable:
        return Unavailable(
            f"Kafka at {self._location.address} cannot be reached or does not answer ({why}): check that the broker "
            "runs, the address of the mirror, and that its advertised listeners can be reached from here"
        )

    def _ids(self) -> dict[str, str]:
        """The ids of the two topics, by name; without a topic that does not exist."""
        names = (self._location.topic, self._positions)
        answers = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=TIMEOUT_S)
        ids: dict[str, str] = {}
        for name, answer in answers.items():
            with self._translated():
                try:
                    ids[name] = str(answer.result(TIMEOUT_S * 2).topic_id)
                except KafkaException as failed:
                    if failed.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
        return ids

    def _ensure(self, name: str, partitions: int, config: dict[str, str], exists: bool) -> None:
        """Creates a topic that does not exist, or checks an existing one; returns once the brokers know it."""
        with self._translated(), _created_elsewhere():
            if not exists:
                topic = NewTopic(name, num_partitions=partitions, config=config)
                answers = self._admin.create_topics([topic], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)
                answers[name].result(TIMEOUT_S * 2)
        found = self._partitions(name)
        if found != partitions:
            raise AlreadyExists(
                f"topic '{name}' on {self._location.address} has {found} partitions, but the mirror needs "
                f"{partitions}, as the log: name another topic, or delete this one"
            )

    def _check_policy(self) -> None:
        """Raises InvalidOption if the position would expire. A user who may not read the configuration is trusted."""
        resource = ConfigResource(ResourceType.TOPIC, self._positions)
        with self._translated():
            try:
                found = self._admin.describe_configs([resource], request_timeout=TIMEOUT_S)[resource].result(
                    TIMEOUT_S * 2
                )
            except KafkaException as failed:
                if failed.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    return
                raise
        policy, kept = str(found["cleanup.policy"].value), str(found["retention.ms"].value)
        if "delete" in policy.split(",") and kept != "-1":
            raise InvalidOption(
                f"topic '{self._positions}' on {self._location.address} has 'cleanup.policy' = '{policy}', so that the "
                f"position of the mirror expires after {kept} ms: set it to 'compact'"
            )

    def _partitions(self, name: str) -> int:
        """The number of partitions; waits because the brokers learn of a new topic with a delay."""
        deadline = monotonic_s() + TIMEOUT_S
        while True:
            try:
                with self._translated():
                    answers = self._admin.describe_topics(TopicCollection([name]), request_timeout=TIMEOUT_S)
                    return len(answers[name].result(TIMEOUT_S * 2).partitions)
            except LakelogError:
                if monotonic_s() > deadline:
                    raise
                sleep(0.02)

    def _checked(self, value: bytes | None, topic_id: str) -> str | None:
        """The position in a stored record. Raises InvalidRequest for that of another table or another topic."""
        if value is None:
            return None
        topic, address = self._location.topic, self._location.address
        try:
            values = json.loads(value)
            table, stored_id, position = str(values["table"]), str(values["topic"]), str(values["position"])
        except (ValueError, KeyError, TypeError) as why:
            raise Corrupt(f"topic '{self._positions}' on {address} has no position of a mirror: {why}") from why
        if table != self._location.owner:
            raise InvalidRequest(
                f"topic '{topic}' on {address} is the mirror of another table: this one was dropped and created again, "
                f"or has another mirror. Name another topic, or delete the topics '{topic}' and '{self._positions}'"
            )
        if stored_id != topic_id:
            raise InvalidRequest(
                f"topic '{topic}' on {address} was deleted, and perhaps created again, since the mirror wrote it: its "
                f"rows are lost. To start again, delete the topics '{topic}' and '{self._positions}'"
            )
        return position

    def _read(self) -> bytes | None:
        """The newest committed position."""
        with self._translated(), contextlib.closing(Consumer(client(self._location, _CONSUMER))) as consumer:
            place = TopicPartition(self._positions, 0)
            first, end = self._repeated(lambda seconds: consumer.get_watermark_offsets(place, timeout=seconds))
            recent = self._last(consumer, max(first, end - _RECENT))
            return recent if recent is not None or end - _RECENT <= first else self._last(consumer, OFFSET_BEGINNING)

    def _last(self, consumer: Consumer, start: int) -> bytes | None:
        consumer.assign([TopicPartition(self._positions, 0, start)])
        last, deadline = None, monotonic_s() + TIMEOUT_S
        while monotonic_s() < deadline:
            message = consumer.poll(0.5)
            if message is None:
                continue
            error = message.error()
            if error is None:
                last, deadline = message.value(), monotonic_s() + TIMEOUT_S
            elif error.code() == KafkaError._PARTITION_EOF:
                return last
            elif not _is_retriable(error):
                raise KafkaException(error)
        raise self._unavailable(f"topic '{self._positions}' does not answer")


def _is_retriable(error: KafkaError) -> bool:
    return error.retriable() or error.code() in _ELECTING


@contextlib.contextmanager
def _created_elsewhere() -> Iterator[None]:
    """Accepts that another process has created the topic."""
    try:
        yield
    except KafkaException as failed:
        if failed.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
