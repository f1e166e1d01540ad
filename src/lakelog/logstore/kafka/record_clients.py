"""Appender and reader through confluent-kafka, record by record: for client properties that the batches do not know."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from lakelog.io.clock import monotonic_s
from lakelog.io.collector import collector_paused
from lakelog.logstore.base import LogLocation, PendingAppend, Records
from lakelog.logstore.kafka.topic import (
    TIMEOUT_S,
    client,
    error_of,
    expired,
    record_offset,
    records_table,
    translated_errors,
    unavailable,
    with_leaders,
)
from lakelog.logstore.kafka.topic_client import TopicAppender, TopicReader
from lakelog.logstore.protocol.header import HEADER_KEY

_LONG_READ = 50_000
"""Size of a read, in records, above which the reader stops following other buckets."""

_MANY_HELD = 10_000
"""Maximum records per poll; if this number is buffered, the reader requests the end offsets from the broker."""

_POLL_EVERY = 10_000
"""Records between two polls of the delivery reports, so that the client's queue does not fill up."""

_PRODUCER = """enable.idempotence=true acks=all linger.ms=0 compression.type=lz4 message.timeout.ms=60000
    queue.buffering.max.messages=2000000 queue.buffering.max.kbytes=262144"""
_CONSUMER = """group.id=lakelog enable.auto.commit=false enable.partition.eof=false auto.offset.reset=error
    fetch.wait.max.ms=50 fetch.queue.backoff.ms=1 fetch.error.backoff.ms=5
    queued.min.messages=200000 queued.max.messages.kbytes=131072"""
"""lakelog's own settings of the clients. A newly assigned partition waits for the fetch in progress, so the fetch wait
must not be long. It must not be too short either, because an idle client polls the broker at this interval. At 5 ms
the clients of two queries used a quarter of a core of a broker."""

_Headers = list[tuple[str, str | bytes | None]]


class _Delivered(PendingAppend):
    """Offsets from delivery reports, in the order in which the records were appended."""

    def __init__(self, bucket: int, count: int, location: LogLocation) -> None:
        self.bucket, self._count, self._location = bucket, count, location
        self._offsets: list[int] = []
        self.failure: KafkaError | None = None

    def report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failure = error
        else:
            self._offsets.append(record_offset(message))

    @property
    def entries(self) -> int:
        return self._count

    @property
    def ends(self) -> tuple[int, int] | None:
        """The first and the last offset."""
        return (self._offsets[0], self._offsets[-1]) if self._offsets else None

    def offsets(self) -> pa.Int64Array:
        if self.failure is not None:
            raise error_of(self._location, self.failure)
        if len(self._offsets) != self._count:
            raise unavailable(self._location, "records are not acknowledged")
        return pa.array(self._offsets, pa.int64())


class RecordAppender(TopicAppender):
    """An idempotent producer that waits for all replicas: no duplicate from the client's own retries, order kept."""

    def __init__(self, location: LogLocation) -> None:
        super().__init__(location)
        self._producer = self._new_producer()
        self._waiting: list[_Delivered] = []

    def append(self, bucket: int, records: Records) -> PendingAppend:
        self._watch.check()
        count = len(records)
        pending = _Delivered(bucket, count, self._location)
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
                    raise error_of(self._location, failed.args[0]) from failed
            if number % _POLL_EVERY == _POLL_EVERY - 1:
                self._producer.poll(0)
        self._producer.poll(0)
        return pending

    def flush(self) -> None:
        left = self._drain(0)
        waiting, self._waiting = self._waiting, []
        failed = next((p.failure for p in waiting if p.failure is not None), None)
        if left or failed is not None:
            self._discard_unsent()
        if failed is not None:
            raise error_of(self._location, failed)
        if left:
            raise unavailable(self._location, f"{left} records were not acknowledged, none for {TIMEOUT_S:.0f} s")
        self._watch.check()
        for pending in waiting:
            self._check_same_topic(pending)

    def close(self) -> None:
        self._producer.purge()

    def _make_room(self) -> None:
        """Waits until the client's queue is half empty."""
        full = len(self._producer)
        if self._drain(full // 2) >= full:
            self._discard_unsent()
            raise unavailable(self._location, f"{full} records wait, none was acknowledged for {TIMEOUT_S:.0f} s")

    def _drain(self, most: int) -> int:
        """Waits, while there is progress, until at most ``most`` records are unacknowledged; returns their number."""
        left, deadline = len(self._producer), monotonic_s() + TIMEOUT_S
        while left > most and monotonic_s() < deadline:
            now = self._producer.flush(0.2)
            if now < left:
                left, deadline = now, monotonic_s() + TIMEOUT_S
        return left

    def _discard_unsent(self) -> None:
        """Discards unsent records, so that the client does not send them during a later attempt."""
        self._watch.check_next_time()
        old, self._producer = self._producer, self._new_producer()
        old.purge()

    def _new_producer(self) -> Producer:
        with translated_errors(self._location):
            return Producer(client(self._location, _PRODUCER))


class RecordReader(TopicReader):
    """A consumer that starts at explicit offsets and commits none, so that it needs no consumer group.

    It *follows* the requested buckets. Arriving records wait in ``_held`` until they are read, so that a reader that
    resumes at its last offset needs no seek. A long read of one bucket stops following the others.
    """

    def __init__(self, location: LogLocation) -> None:
        with translated_errors(location):
            self._consumer = Consumer({**client(location, _CONSUMER), "error_cb": self._notice})
        super().__init__(location)
        self._held: dict[int, deque[Message]] = {}
        self._next: dict[int, int] = {}

    def read(self, bucket: int, start: int, end: int | None = None, max_records: int = 100_000) -> pa.Table:
        self._watch.check()
        with translated_errors(self._location):
            if end is not None and end - start > _LONG_READ:
                self._forget([b for b in self._next if b != bucket])
            self._follow(bucket, start)
            # records may be large, so the buffer is limited to the requested number
            if len(self._held[bucket]) < max_records:
                self._take_in(0)
            if end is not None:
                self._wait_for(bucket, min(end, start + max_records))
            waiting = self._held[bucket]
        many = min(len(waiting), max_records)
        if many and end is not None and record_offset(waiting[many - 1]) >= end:
            many = sum(record_offset(message) < end for message in islice(waiting, many))
        with collector_paused():
            return records_table([waiting.popleft() for _ in range(many)])

    def wait(self, positions: Mapping[int, int], timeout_s: float) -> None:
        self._watch.check()
        with translated_errors(self._location):
            for bucket, start in positions.items():
                self._follow(bucket, start)
            if not any(self._held[b] for b in positions) and not self._take_in(timeout_s):
                self._check_after_errors()

    def ready_offsets(self, positions: Mapping[int, int]) -> dict[int, int]:
        with translated_errors(self._location):
            for bucket, start in positions.items():
                self._follow(bucket, start)
            # also with buffered records: they must not hide records that arrived later
            if sum(map(len, self._held.values())) < _MANY_HELD and not self._take_in(0):
                self._check_after_errors()
        offsets = {b: record_offset(self._held[b][-1]) + 1 if self._held[b] else o for b, o in positions.items()}
        return offsets if sum(map(len, self._held.values())) < _MANY_HELD else self.end_offsets(list(positions))

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        asked = [TopicPartition(self._location.topic, b, timestamp_ms) for b in range(self._location.buckets)]
        offsets = with_leaders(
            self._location,
            lambda: self._consumer.offsets_for_times(asked, timeout=TIMEOUT_S),
            lambda: self._consumer.list_topics(self._location.topic, timeout=TIMEOUT_S),
        )
        ends = self.end_offsets()
        return {p.partition: p.offset if p.offset >= 0 else ends[p.partition] for p in offsets}

    def close(self) -> None:
        self._consumer.close()

    def _notice(self, error: KafkaError) -> None:
        """Callback of the client, called while it polls, if a broker does not respond."""
        self._note_error()

    def _follow(self, bucket: int, start: int) -> None:
        waiting = self._held.get(bucket)
        while waiting and record_offset(waiting[0]) < start:
            waiting.popleft()
        at = None if bucket not in self._next else (record_offset(waiting[0]) if waiting else self._next[bucket])
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
        """Moves fetched records to ``_held``; waits for the first record only. Returns whether there was one."""
        messages = self._arrived()
        if not messages and timeout_s > 0:
            message = self._consumer.poll(timeout_s)
            if message is not None:
                messages = [message, *self._arrived()]
        for message in messages:
            error = message.error()
            bucket = message.partition()
            if error is not None:
                self._raise(error, bucket)
            waiting = None if bucket is None else self._held.get(bucket)
            if waiting is not None:
                waiting.append(message)
        for bucket, waiting in self._held.items():
            if waiting:
                self._next[bucket] = record_offset(waiting[-1]) + 1
        return bool(messages)

    def _arrived(self) -> list[Message]:
        """The records that the client has fetched; does not wait."""
        with collector_paused():
            return self._consumer.consume(_MANY_HELD, 0)

    def _wait_for(self, bucket: int, end: int) -> None:
        """Fetches records until all records of the bucket below ``end``, which exist, are in ``_held``."""
        deadline = monotonic_s() + TIMEOUT_S
        while self._next[bucket] < end:
            if self._take_in(0.05):
                deadline = monotonic_s() + TIMEOUT_S
            elif monotonic_s() > deadline:
                at = self._next[bucket]
                self._forget(list(self._next))
                raise unavailable(self._location, f"bucket {bucket} should have records from offset {at} on")

    def _raise(self, error: KafkaError, bucket: int | None) -> None:
        at = -1 if bucket is None else self._next.get(bucket, -1)
        self._forget(list(self._next))
        self._watch.check_next_time()
        if bucket is not None and error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
            raise expired(self._location, bucket, at, self.first_offsets([bucket])[bucket])
        raise error_of(self._location, error)
