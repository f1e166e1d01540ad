"""The log on Apache Kafka: one topic a table, one partition a bucket, through confluent-kafka."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from lakelog.errors import AlreadyExists, InvalidOption, LakelogError, NotFound, OffsetExpired, Unavailable
from lakelog.io.clock import monotonic_s, sleep
from lakelog.io.names import new_uuid
from lakelog.logstore.base import (
    LogAppender,
    LogLocation,
    LogReader,
    LogSystem,
    PendingAppend,
    Records,
)
from lakelog.logstore.header import HEADER_KEY
from lakelog.logstore.messages import record_offset, records_table

_TIMEOUT_S = 10.0
"""How long the broker may be silent before it is taken to be away."""

_TROUBLE_S = 3.0
"""How long after a lost connection a waiting reader asks the broker whether it is there."""

_EARLIEST, _LATEST = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
_NO_LEADER = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)

_LONG_READ = 50_000
"""Records of one read for which the reader gives up following other buckets."""

_MANY_HELD = 10_000
"""Records taken in at once; with as many waiting, the broker is asked where the log ends."""

_POLL_EVERY = 10_000
"""Records between two looks at the delivery reports, so that the client's queue does not fill up."""

_PRODUCER = """enable.idempotence=true acks=all linger.ms=0 compression.type=lz4 message.timeout.ms=60000
    queue.buffering.max.messages=2000000 queue.buffering.max.kbytes=262144"""
_CONSUMER = """group.id=lakelog enable.auto.commit=false enable.partition.eof=false auto.offset.reset=error
    fetch.wait.max.ms=5 fetch.queue.backoff.ms=1 fetch.error.backoff.ms=5
    queued.min.messages=200000 queued.max.messages.kbytes=131072"""
"""What is ours in the clients; the short waits keep an empty partition from holding up the fetch of another one."""

_Headers = list[tuple[str, str | bytes | None]]


def _away(location: LogLocation, why: object) -> Unavailable:
    return Unavailable(
        f"Kafka at {location.address} cannot be reached or does not answer ({why}): "
        f"check that the broker runs, 'log-store.address', and that its advertised listeners can be reached from here"
    )


@contextlib.contextmanager
def _mapped(location: LogLocation) -> Iterator[None]:
    """The one place in which the client's errors become lakelog's."""
    try:
        yield
    except KafkaException as failed:
        error = failed.args[0]
        raise _error(location, error) from failed


def _error(location: LogLocation, error: KafkaError) -> LakelogError:
    code = error.code()
    if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION):
        return NotFound(
            f"topic '{location.topic}' (or one of its {location.buckets} partitions) does not exist on "
            f"{location.address}: "
            f"it was deleted behind the table's back. The rows are in the files; make the table anew to log again"
        )
    if code in (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,
    ):
        return InvalidOption(f"Kafka at {location.address} refuses the credentials in 'properties.*': {error.str()}")
    if code == KafkaError._INVALID_ARG:
        return InvalidOption(f"Kafka's client refuses an option of 'properties.*': {error.str()}")
    return _away(location, error.str())


def _client(location: LogLocation, own: str = "") -> dict[str, Any]:
    given = {"log_level": 0, "socket.connection.setup.timeout.ms": 5_000, **location.properties}
    settings = dict(setting.split("=", 1) for setting in own.split())
    return {**given, "bootstrap.servers": location.address, **settings}


class KafkaLogSystem(LogSystem):
    """Topics of a Kafka cluster."""

    def create(self, location: LogLocation) -> LogLocation:
        with _mapped(location):
            admin = AdminClient(_client(location))
            config = {"cleanup.policy": "delete"}
            if location.retention_ms is not None:
                config["retention.ms"] = str(location.retention_ms)
            topic = NewTopic(location.topic, num_partitions=location.buckets, config=config)
            made = admin.create_topics([topic], operation_timeout=_TIMEOUT_S, request_timeout=_TIMEOUT_S)
            try:
                made[location.topic].result(_TIMEOUT_S * 2)
            except KafkaException as failed:
                if failed.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                self._adopt(location)
        return replace(location, log_id=location.log_id or f"{location.topic}@{new_uuid()}")

    def drop(self, location: LogLocation) -> None:
        with _mapped(location):
            admin = AdminClient(_client(location))
            gone = admin.delete_topics([location.topic], operation_timeout=_TIMEOUT_S, request_timeout=_TIMEOUT_S)
            try:
                gone[location.topic].result(_TIMEOUT_S * 2)
            except KafkaException as failed:
                if failed.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise

    def check(self, location: LogLocation, spread: bool = False) -> None:
        found = self._partitions(location)
        if found is None:
            raise _error(location, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        if found != location.buckets:
            raise InvalidOption(
                f"topic '{location.topic}' has {found} partitions, but the table has {location.buckets} "
                f"buckets; one partition "
                f"belongs to one bucket: somebody changed the topic"
            )

    def appender(self, location: LogLocation) -> LogAppender:
        return KafkaAppender(location)

    def reader(self, location: LogLocation) -> LogReader:
        return KafkaReader(location)

    def _partitions(self, location: LogLocation) -> int | None:
        with _mapped(location):
            topics = AdminClient(_client(location)).list_topics(timeout=_TIMEOUT_S).topics
        return len(topics[location.topic].partitions) if location.topic in topics else None

    def _adopt(self, location: LogLocation) -> None:
        found = self._partitions(location)
        if found != location.buckets:
            raise AlreadyExists(
                f"topic '{location.topic}' exists with {found} partitions, the table has {location.buckets} "
                f"buckets: choose "
                f"another 'log-store.topic', or set 'bucket' = '{found}'"
            )
        with contextlib.closing(KafkaReader(location)) as reader:
            if reader.end_offsets() != reader.first_offsets():
                raise AlreadyExists(
                    f"topic '{location.topic}' exists and holds records; a table needs a topic of its own: "
                    f"choose another "
                    f"'log-store.topic', or delete the topic"
                )


class _Delivered(PendingAppend):
    """Offsets that delivery reports bring, in the order in which the records were given."""

    def __init__(self, count: int, location: LogLocation) -> None:
        self._count, self._location = count, location
        self._offsets: list[int] = []
        self.failure: KafkaError | None = None

    def report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failure = error
        else:
            self._offsets.append(record_offset(message))

    def offsets(self) -> pa.Int64Array:
        if self.failure is not None or len(self._offsets) != self._count:
            raise _away(self._location, self.failure or "records are not acknowledged")
        return pa.array(self._offsets, pa.int64())


class KafkaAppender(LogAppender):
    """An idempotent producer that waits for all replicas: no duplicate from the client's own retries, order kept."""

    def __init__(self, location: LogLocation) -> None:
        self._location = location
        self._producer = self._new_producer()
        self._waiting: list[_Delivered] = []

    def append(self, bucket: int, records: Records) -> PendingAppend:
        count = len(records)
        pending = _Delivered(count, self._location)
        self._waiting.append(pending)
        headers = records.headers
        same: _Headers = [(HEADER_KEY, headers)] if isinstance(headers, bytes) else []
        rows = zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True)
        produce, topic, report = self._producer.produce, self._location.topic, pending.report
        for number, (key, value) in enumerate(rows):
            header: _Headers = same if isinstance(headers, bytes) else [(HEADER_KEY, headers[number])]
            while True:
                try:
                    produce(topic, value, key, bucket, on_delivery=report, headers=header)
                    break
                except BufferError:
                    self._make_room()
                except KafkaException as failed:
                    raise _error(self._location, failed.args[0]) from failed
            if number % _POLL_EVERY == _POLL_EVERY - 1:
                self._producer.poll(0)
        self._producer.poll(0)
        return pending

    def flush(self) -> None:
        left = self._drain(0)
        waiting, self._waiting = self._waiting, []
        failed = next((p.failure for p in waiting if p.failure is not None), None)
        if left or failed is not None:
            self._start_anew()
        if failed is not None:
            raise _error(self._location, failed)
        if left:
            raise _away(self._location, f"{left} records were not acknowledged, none for {_TIMEOUT_S:.0f} s")

    def close(self) -> None:
        self._producer.purge()

    def _make_room(self) -> None:
        """Waits until the client's queue is half empty."""
        full = len(self._producer)
        if self._drain(full // 2) >= full:
            self._start_anew()
            raise _away(self._location, f"{full} records wait, none was acknowledged for {_TIMEOUT_S:.0f} s")

    def _drain(self, most: int) -> int:
        """Waits, as long as there is progress, until at most so many records are unacknowledged; returns how many."""
        left, deadline = len(self._producer), monotonic_s() + _TIMEOUT_S
        while left > most and monotonic_s() < deadline:
            now = self._producer.flush(0.2)
            if now < left:
                left, deadline = now, monotonic_s() + _TIMEOUT_S
        return left

    def _start_anew(self) -> None:
        """Forgets what was not sent, so that it is not sent in the middle of a later attempt."""
        old, self._producer = self._producer, self._new_producer()
        old.purge()

    def _new_producer(self) -> Producer:
        with _mapped(self._location):
            return Producer(_client(self._location, _PRODUCER))


class KafkaReader(LogReader):
    """A consumer without a group: it starts where it is told to and commits nothing.

    It *follows* the buckets that it was asked for: records that arrive wait in ``_held`` until they are read, so that
    a reader that goes on where it stopped pays no seek. A long read of one bucket stops following the others.
    """

    def __init__(self, location: LogLocation) -> None:
        self._location = location
        with _mapped(location):
            self._consumer = Consumer({**_client(location, _CONSUMER), "error_cb": self._notice})
            self._admin = AdminClient(_client(location))
        self._trouble_s: float | None = None
        self._held: dict[int, deque[Message]] = {}
        self._next: dict[int, int] = {}

    def read(self, bucket: int, start: int, end: int | None = None, max_records: int = 100_000) -> pa.Table:
        with _mapped(self._location):
            if end is not None and end - start > _LONG_READ:
                self._forget([b for b in self._next if b != bucket])
            self._follow(bucket, start)
            if len(self._held[bucket]) < max_records:  # records may be large: no more are held than are asked for
                self._take_in(0)
            if end is not None:
                self._wait_for(bucket, min(end, start + max_records))
            held = self._held[bucket]
            taken: list[Message] = []
            while held and len(taken) < max_records and (end is None or record_offset(held[0]) < end):
                taken.append(held.popleft())
        return records_table(taken)

    def wait(self, positions: Mapping[int, int], timeout_s: float) -> None:
        with _mapped(self._location):
            for bucket, start in positions.items():
                self._follow(bucket, start)
            if not any(self._held[b] for b in positions) and not self._take_in(timeout_s):
                self._check_trouble()

    def ready_offsets(self, positions: Mapping[int, int]) -> dict[int, int]:
        self.wait(positions, 0)
        held = {b: record_offset(self._held[b][-1]) + 1 if self._held[b] else o for b, o in positions.items()}
        return held if sum(map(len, self._held.values())) < _MANY_HELD else self.end_offsets(list(positions))

    def end_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        return self._offsets(_LATEST, buckets)

    def first_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        return self._offsets(_EARLIEST, buckets)

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        with _mapped(self._location):
            asked = [TopicPartition(self._location.topic, b, timestamp_ms) for b in range(self._location.buckets)]
            found = self._consumer.offsets_for_times(asked, timeout=_TIMEOUT_S)
        ends = self.end_offsets()
        return {p.partition: p.offset if p.offset >= 0 else ends[p.partition] for p in found}

    def close(self) -> None:
        self._consumer.close()

    def _offsets(self, spec: OffsetSpec, buckets: Sequence[int] | None) -> dict[int, int]:
        """One question to the broker for all buckets; waits for partitions that have no leader yet (a new topic)."""
        chosen = range(self._location.buckets) if buckets is None else buckets
        deadline = monotonic_s() + _TIMEOUT_S
        while True:
            asked = {TopicPartition(self._location.topic, b): spec for b in chosen}
            try:
                answers = self._admin.list_offsets(asked, request_timeout=_TIMEOUT_S)
                return {p.partition: answer.result().offset for p, answer in answers.items()}
            except KafkaException as failed:
                if failed.args[0].code() not in _NO_LEADER or monotonic_s() > deadline:
                    raise _error(self._location, failed.args[0]) from failed
                sleep(0.02)

    def _notice(self, error: KafkaError) -> None:
        """The client calls this, while it polls, when a broker does not answer."""
        if self._trouble_s is None:
            self._trouble_s = monotonic_s()

    def _check_trouble(self) -> None:
        """A reader that only waits would not learn that the broker is away: asks it. Raises Unavailable."""
        if self._trouble_s is not None and monotonic_s() - self._trouble_s > _TROUBLE_S:
            self._trouble_s = None
            self.end_offsets([0])

    def _follow(self, bucket: int, start: int) -> None:
        held = self._held.get(bucket)
        while held and record_offset(held[0]) < start:
            held.popleft()
        at = None if bucket not in self._next else (record_offset(held[0]) if held else self._next[bucket])
        if at == start:
            return
        self._forget([bucket] if bucket in self._next else [])
        self._consumer.incremental_assign([TopicPartition(self._location.topic, bucket, start)])
        self._held[bucket], self._next[bucket] = deque(), start

    def _forget(self, buckets: Sequence[int]) -> None:
        if buckets:
            self._consumer.incremental_unassign([TopicPartition(self._location.topic, b) for b in buckets])
        for bucket in buckets:
            del self._held[bucket], self._next[bucket]

    def _take_in(self, timeout_s: float) -> bool:
        """Moves what has arrived to ``_held``; waits for the first record only. Whether there was one."""
        found = self._consumer.consume(_MANY_HELD, 0)
        if not found and timeout_s > 0:
            message = self._consumer.poll(timeout_s)
            if message is not None:
                found = [message, *self._consumer.consume(_MANY_HELD, 0)]
        for message in found:
            bucket = message.partition()
            error = message.error()
            if error is not None:
                self._raise(error, bucket)
            if bucket in self._held and bucket is not None:
                self._held[bucket].append(message)
                self._next[bucket] = record_offset(message) + 1
        return bool(found)

    def _wait_for(self, bucket: int, end: int) -> None:
        """Takes in records until all of the bucket below ``end`` are here; they exist."""
        deadline = monotonic_s() + _TIMEOUT_S
        while self._next[bucket] < end:
            if self._take_in(0.05):
                deadline = monotonic_s() + _TIMEOUT_S
            elif monotonic_s() > deadline:
                at = self._next[bucket]
                self._forget(list(self._next))
                raise _away(self._location, f"bucket {bucket} should have records from offset {at} on")

    def _raise(self, error: KafkaError, bucket: int | None) -> None:
        at = -1 if bucket is None else self._next.get(bucket, -1)
        self._forget(list(self._next))
        if bucket is not None and error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
            first = self.first_offsets([bucket])[bucket]
            raise OffsetExpired(
                f"offset {at} of bucket {bucket} is no longer in topic '{self._location.topic}', the first one "
                f"is {first}: start "
                f"at 'earliest', or read the files ('read.mode'='file'), which have all rows"
            )
        raise _error(self._location, error)
