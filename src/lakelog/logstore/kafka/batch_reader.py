"""Reader that fetches whole record batches and decodes them by columns.

It *follows* the requested buckets: fetched batches wait, compressed, until they are read, so that a reader that goes
on at its last offset fetches nothing twice. It has at most one request on its way to each broker, and sends the next
one before it decodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]
from kafka import errors
from kafka.protocol.consumer import FetchRequest

from lakelog.io.clock import monotonic_s
from lakelog.logstore.base import RECORDS_SCHEMA, LogLocation
from lakelog.logstore.kafka.connections import Answer, Connections, error_of
from lakelog.logstore.kafka.topic import (
    TIMEOUT_S,
    expired,
    unavailable,
)
from lakelog.logstore.kafka.topic_client import TopicReader
from lakelog.logstore.record_batch.batch import RecordBatch, parse_batches
from lakelog.logstore.record_batch.decoder import READ_BYTES, decode, unpacked

_WAIT_MS: Final = 50
"""Time a broker holds a request without records. Another bucket's request waits for it, so it must not be long; an idle
reader sends a request each time, so it must not be too short."""
_FOLLOW_BYTES: Final = 1 << 20
_READ_BYTES: Final = 8 << 20
"""Size of an answer, for a bucket that is followed and for one that is read to an end."""
_HELD_BYTES: Final = 64 << 20
"""Size of waiting batches above which the reader forgets the buckets that are not read now."""
_RETRY_S: Final = 0.02
_FETCH_VERSION: Final = 12
"""Later versions name a topic by its id."""
_COMMITTED: Final = 1
"""Isolation level: no records of open and aborted transactions, which other producers may have written."""

_Topic = FetchRequest.FetchTopic
_Partition = _Topic.FetchPartition


@dataclass(eq=False)
class _Bucket:
    """State of one bucket: ``at`` is the next offset to read, ``fetch_at`` the next one to fetch."""

    at: int
    fetch_at: int
    epoch: int = -1
    batches: deque[RecordBatch] = field(default_factory=deque)
    rest: pa.Table | None = None
    size: int = 0
    bytes_seen: int = 0
    records_seen: int = 0

    @property
    def has_records(self) -> bool:
        return self.rest is not None or bool(self.batches)

    def add(self, batch: RecordBatch) -> None:
        self.batches.append(batch)
        self.size += len(batch.payload)
        self.bytes_seen += len(batch.payload)
        self.records_seen += batch.count

    def skip_to(self, start: int) -> bool:
        """Skips to a later offset; returns False if it was not fetched."""
        if not self.at <= start <= self.fetch_at:
            return False
        if self.rest is not None:
            self.rest = _between(self.rest, start, None)
        while self.rest is None and self.batches and self.batches[0].next_offset <= start:
            self.size -= len(self.batches.popleft().payload)
        self.at = start
        return True

    def take(self, end: int | None, most: int) -> list[pa.Table]:
        """Removes at most ``most`` records below ``end``."""
        taken: list[pa.Table] = []
        while most and sum(part.nbytes for part in taken) < READ_BYTES and self._decode_next(end, most):
            part = _between(self.rest, self.at, end)
            if part is None:
                break
            part = part.slice(0, most)
            taken.append(part)
            most -= part.num_rows
            self.at = part.column("offset")[part.num_rows - 1].as_py() + 1
            self.rest = _between(self.rest, self.at, None)
        return taken

    def _decode_next(self, end: int | None, most: int) -> bool:
        """Decodes batches until there are records in ``rest``: about ``most``, none of a batch at or after ``end``."""
        while self.rest is None:
            batches: list[RecordBatch] = []
            size = 0
            while self.batches and most > 0 and (end is None or self.batches[0].base_offset < end):
                self.size -= len(self.batches[0].payload)
                batches.append(unpacked(self.batches.popleft()))
                most -= batches[-1].count
                size += len(batches[-1].payload)
                if size >= READ_BYTES:
                    break
            if not batches:
                return False
            self.rest = _between(decode(batches), self.at, None)
        return True

    @property
    def known_to(self) -> int:
        """All records between ``at`` and this offset have been taken."""
        if self.rest is not None:
            first: int = self.rest.column("offset")[0].as_py()
            return first
        return self.batches[0].base_offset if self.batches else self.fetch_at

    def is_past(self, offset: int) -> bool:
        """Returns whether records at or after an offset have been fetched."""
        return self.fetch_at > offset

    def bytes_to(self, end: int) -> int:
        """The likely size of the batches from ``fetch_at`` to an offset, so that few later ones come with them."""
        if not self.records_seen:
            return _FOLLOW_BYTES
        expected = (end - self.fetch_at) * self.bytes_seen // self.records_seen
        return min(max(expected + expected // 8, _FOLLOW_BYTES // 16), _READ_BYTES)


@dataclass(eq=False)
class _Sent:
    answer: Answer
    offsets: dict[int, int]


class BatchReader(TopicReader):
    """A consumer that starts at explicit offsets and commits none, so that it needs no consumer group."""

    def __init__(self, location: LogLocation) -> None:
        super().__init__(location, lambda: self._connections.check_same_topic())
        self._connections = Connections(location)
        self._buckets: dict[int, _Bucket] = {}
        self._sent: dict[int, _Sent] = {}
        self._retry_s = 0.0

    def read(self, bucket: int, start: int, end: int | None = None, max_records: int = 100_000) -> pa.Table:
        self._watch.check()
        followed = self._follow(bucket, start)
        if end is None:
            if not followed.has_records:
                self._take_answers()
                self._request({bucket: _FOLLOW_BYTES}, _WAIT_MS)
            parts = followed.take(None, max_records)
        else:
            parts = self._read_to(bucket, followed, end, max_records)
        return pa.concat_tables(parts) if parts else RECORDS_SCHEMA.empty_table()

    def wait(self, positions: Mapping[int, int], timeout_s: float) -> None:
        self._watch.check()
        for bucket, start in positions.items():
            self._follow(bucket, start)
        sizes = dict.fromkeys(positions, _FOLLOW_BYTES)
        self._wait_for(lambda: any(self._buckets[b].has_records for b in positions), sizes, timeout_s)

    def ready_offsets(self, positions: Mapping[int, int]) -> dict[int, int]:
        self._watch.check()
        followed = {bucket: self._follow(bucket, start) for bucket, start in positions.items()}
        if sum(bucket.size for bucket in followed.values()) > _FOLLOW_BYTES:
            return self.end_offsets(list(positions))
        # A request on its way has no records yet, if it asks for all buckets: otherwise it would be answered.
        self._take_answers()
        on_way = [sent.offsets for sent in self._sent.values()]
        if not all(any(sent.get(b) == bucket.fetch_at for sent in on_way) for b, bucket in followed.items()):
            self._connections.poll(TIMEOUT_S, lambda: all(sent.answer.is_done for sent in self._sent.values()))
            self._take_answers()
            self._request(dict.fromkeys(followed, _FOLLOW_BYTES), 0)
            self._connections.poll(TIMEOUT_S, lambda: all(sent.answer.is_done for sent in self._sent.values()))
            self._take_answers()
            self._check_after_errors()
        return {b: max(bucket.fetch_at, positions[b]) for b, bucket in followed.items()}

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        ends = self.end_offsets()
        offsets = self._offsets(OffsetSpec.for_timestamp(timestamp_ms), None)
        return {bucket: ends[bucket] if offset < 0 else offset for bucket, offset in offsets.items()}

    def close(self) -> None:
        self._buckets, self._sent = {}, {}
        self._connections.close()

    def _follow(self, number: int, start: int) -> _Bucket:
        bucket = self._buckets.get(number)
        if bucket is None or not bucket.skip_to(start):
            bucket = self._buckets[number] = _Bucket(start, start)
        return bucket

    def _read_to(self, number: int, bucket: _Bucket, end: int, most: int) -> list[pa.Table]:
        """At most ``most`` of the records below ``end``, which exist; fetches the missing ones."""
        parts: list[pa.Table] = []
        stop = min(end, bucket.at + most)
        deadline = monotonic_s() + TIMEOUT_S
        while bucket.at < stop:
            fetched = bucket.fetch_at
            if fetched < end:
                self._request(
                    {number: bucket.bytes_to(end)}, _WAIT_MS
                )  # the next answer comes while this one is decoded
            parts += bucket.take(stop, most)
            if sum(part.nbytes for part in parts) >= READ_BYTES:
                break
            if bucket.known_to >= stop:
                if parts or stop == end:
                    break
                stop = min(end, stop + most)  # nothing but markers of transactions
                continue
            self._wait_for(partial(bucket.is_past, fetched), {number: bucket.bytes_to(end)}, 0.05)
            if bucket.fetch_at > fetched:
                deadline = monotonic_s() + TIMEOUT_S
            elif monotonic_s() > deadline:
                self._buckets.clear()
                raise unavailable(self._location, f"bucket {number} should have records from offset {bucket.at} on")
        return parts

    def _wait_for(self, is_ready: Callable[[], bool], sizes: Mapping[int, int], timeout_s: float) -> None:
        """Fetches records of the buckets (bucket → size of an answer) until the condition holds or the timeout."""
        deadline = monotonic_s() + timeout_s
        self._take_answers()
        while not is_ready():
            self._request(sizes, _WAIT_MS)
            left = deadline - monotonic_s()
            if left <= 0:
                break
            if self._sent:
                self._connections.poll(left, self._is_answered)
            else:
                self._connections.poll(min(left, _RETRY_S), lambda: False)
            self._take_answers()
            self._check_after_errors()

    def _request(self, sizes: Mapping[int, int], wait_ms: int) -> None:
        """Asks each leader that has no request on its way for the records of these buckets."""
        if monotonic_s() < self._retry_s:
            return
        by_node: dict[int, dict[int, int]] = {}
        for number in sizes:
            bucket = self._buckets[number]
            node = self._connections.leader(number)
            if node is None:
                self._retry_later()
            elif node not in self._sent and bucket.size < _READ_BYTES:
                by_node.setdefault(node, {})[number] = bucket.fetch_at
        for node, offsets in by_node.items():
            partitions = [
                _Partition(
                    partition=number,
                    current_leader_epoch=-1,
                    fetch_offset=offset,
                    last_fetched_epoch=self._buckets[number].epoch,
                    log_start_offset=-1,
                    partition_max_bytes=sizes[number],
                )
                for number, offset in sorted(offsets.items(), key=lambda item: self._buckets[item[0]].size)
            ]
            request = FetchRequest(
                max_wait_ms=wait_ms,
                min_bytes=1,
                max_bytes=_READ_BYTES,
                isolation_level=_COMMITTED,
                session_id=0,
                session_epoch=-1,
                topics=[_Topic(topic=self._location.topic, partitions=partitions)],
                max_version=_FETCH_VERSION,
            )
            self._sent[node] = _Sent(self._connections.send(request, node), offsets)

    def _is_answered(self) -> bool:
        return any(sent.answer.is_done for sent in self._sent.values())

    def _take_answers(self) -> None:
        """Receives the answers of the brokers; does not wait."""
        if self._sent:
            self._connections.poll(0, self._is_answered)
        for node in [node for node, sent in self._sent.items() if sent.answer.is_done]:
            sent = self._sent.pop(node)
            if sent.answer.exception is not None:
                self._missed(sent.answer.exception)
                continue
            self._error_since_s = None
            for topic in sent.answer.value.responses:
                for partition in topic.partitions:
                    bucket = self._buckets.get(partition.partition_index)
                    if bucket is not None and bucket.fetch_at == sent.offsets[partition.partition_index]:
                        self._take_in(partition, bucket)
        if sum(bucket.size for bucket in self._buckets.values()) > _HELD_BYTES:
            largest = max(self._buckets, key=lambda number: self._buckets[number].size)
            del self._buckets[largest]

    def _take_in(self, partition: Any, bucket: _Bucket) -> None:
        number = partition.partition_index
        if partition.error_code:
            error = errors.for_code(partition.error_code)()
            if isinstance(error, errors.OffsetOutOfRangeError):
                self._raise_expired(number, bucket)
            if isinstance(error, errors.UnknownTopicOrPartitionError):
                self._topic.check_same()
            self._missed(error)
        elif partition.diverging_epoch is not None and partition.diverging_epoch.epoch >= 0:
            self._raise_expired(number, bucket)  # an unclean election has cut off records that were read
        elif partition.records:
            for batch, is_committed in _committed(
                parse_batches(partition.records), partition.aborted_transactions or ()
            ):
                bucket.fetch_at, bucket.epoch = batch.next_offset, batch.leader_epoch
                if is_committed:
                    bucket.add(batch)

    def _raise_expired(self, number: int, bucket: _Bucket) -> None:
        self._buckets.clear()
        raise expired(self._location, number, bucket.fetch_at, self.first_offsets([number])[number])

    def _missed(self, error: Any) -> None:
        """Prepares another try after an error. Raises the error if that does not help."""
        if not error.retriable:
            self._watch.check_next_time()
            raise error_of(self._location, error)
        self._note_error()
        self._retry_later()

    def _retry_later(self) -> None:
        self._retry_s = monotonic_s() + _RETRY_S
        self._connections.refresh()


def _between(records: pa.Table, start: int, end: int | None) -> pa.Table | None:
    """The records with start ≤ offset < end; None if there are none."""
    if not records.num_rows:
        return None
    offsets = records.column("offset")
    if offsets[0].as_py() >= start and (end is None or offsets[-1].as_py() < end):
        return records
    is_wanted = pc.greater_equal(offsets, start)
    if end is not None:
        is_wanted = pc.and_(is_wanted, pc.less(offsets, end))
    chosen = records.filter(is_wanted)
    return chosen if chosen.num_rows else None


def _committed(batches: Iterator[RecordBatch], aborted: Iterable[Any]) -> Iterator[tuple[RecordBatch, bool]]:
    """Each batch of an answer and whether its records count: those of aborted transactions and markers do not.

    ``aborted`` are the transactions that the broker names with the batches, by producer and first offset.
    """
    later = sorted(((found.first_offset, found.producer_id) for found in aborted), reverse=True)
    is_open: set[int] = set()
    for batch in batches:
        while later and later[-1][0] < batch.next_offset:
            is_open.add(later.pop()[1])
        if batch.is_control:
            is_open.discard(batch.producer_id)
        yield batch, not batch.is_control and not (batch.is_transactional and batch.producer_id in is_open)
