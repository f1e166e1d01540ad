"""Idempotent producer that sends whole record batches (``append_queue`` makes them).

The broker numbers the records of a producer by partition (producer id, sequence), so that a batch that is sent again is
stored once. A batch is sent again after an error that says that it may help, in order: while an earlier batch of a
bucket is not stored, the broker refuses the later ones. If the outcome stays unknown, the append fails, the producer
gets another id, and the healing decides about the records.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.compute as pc
from kafka import errors
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from lakelog.errors import LakelogError
from lakelog.io.clock import monotonic_s
from lakelog.logstore.base import LogLocation, PendingAppend, Records
from lakelog.logstore.kafka.append_queue import Acknowledged, AppendQueue, Unacknowledged
from lakelog.logstore.kafka.connections import Answer, Connections, error_of
from lakelog.logstore.kafka.topic import TIMEOUT_S, too_large, unavailable
from lakelog.logstore.kafka.topic_client import TopicAppender
from lakelog.logstore.record_batch.encoder import MAX_BYTES

_IN_FLIGHT: Final = 5
"""Maximum requests without an answer to one broker: it remembers this number of batches of a producer and partition."""
_REQUEST_BYTES: Final = 8 << 20
_QUEUE_BYTES: Final = 64 << 20
"""Size of unacknowledged records above which ``append`` waits."""
_REQUEST_TIMEOUT_MS: Final = 30_000
_PRODUCE_VERSION: Final = 12
"""Later versions name a topic by its id."""
_RETRY_S: Final = 0.05

_Topic = ProduceRequest.TopicProduceData
_Partition = _Topic.PartitionProduceData
_TOO_LARGE: Final = (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError)


@dataclass(eq=False)
class _Sent:
    answer: Answer
    batches: list[tuple[AppendQueue, Unacknowledged]]


class BatchAppender(TopicAppender):
    """An idempotent producer of whole batches that waits for all replicas."""

    def __init__(self, location: LogLocation) -> None:
        super().__init__(location, lambda: self._connected.check_same_topic())
        self._most = int(location.properties.get("message.max.bytes", MAX_BYTES))
        self._waiting: list[Acknowledged] = []
        self._reset()
        self._connections: Connections | None = Connections(location)

    def _reset(self) -> None:
        self._connections = None
        self._producer: tuple[int, int] | None = None
        self._queues: dict[int, AppendQueue] = {}
        self._sent: dict[int, deque[_Sent]] = {}
        self._retry_s = 0.0
        self._deadline_s = 0.0

    def append(self, bucket: int, records: Records) -> PendingAppend:
        return self.append_all([(bucket, records)])[0]

    def append_all(self, parts: Sequence[tuple[int, Records]]) -> list[PendingAppend]:
        self._watch.check()
        pending: list[PendingAppend] = []
        by_bucket: dict[int, list[tuple[Acknowledged, Records]]] = {}
        for bucket, records in parts:
            append = Acknowledged(bucket, len(records), self._location)
            pending.append(append)
            if len(records):
                self._check_sizes(records)
                self._waiting.append(append)
                by_bucket.setdefault(bucket, []).append((append, records))
        with self._ending_all():
            for bucket, appends in by_bucket.items():
                queue = self._queues.setdefault(bucket, AppendQueue(bucket))
                queue.add(appends, min(self._most, MAX_BYTES))
            self._work(_QUEUE_BYTES)
        return pending

    def flush(self) -> None:
        with self._ending_all():
            self._work(0)
        waiting, self._waiting = self._waiting, []
        self._watch.check()
        for pending in waiting:
            self._check_same_topic(pending)

    def close(self) -> None:
        if self._connections is not None:
            self._connections.close()
        self._reset()

    def _check_sizes(self, records: Records) -> None:
        """Raises InvalidRequest for a record above the limit of the client, as librdkafka does."""
        if records.keys.nbytes + records.values.nbytes <= self._most:
            return
        sizes = pc.add(*(pc.fill_null(pc.binary_length(part), 0) for part in (records.keys, records.values)))
        if (largest := pc.max(sizes).as_py()) > self._most:
            raise too_large(self._location, f"{largest} bytes, the client's limit is {self._most}")

    @contextlib.contextmanager
    def _ending_all(self) -> Iterator[None]:
        """Ends all appends without an answer if the body raises: of what was sent of them it is unknown whether it is
        stored, and the rest is not sent any more."""
        try:
            yield
        except LakelogError as error:
            for pending in self._waiting:
                if not pending.is_complete:
                    pending.failure = error
            self._waiting = []
            self._watch.check_next_time()
            self.close()
            raise

    def _work(self, most: int) -> None:
        """Sends and waits for answers, while there is progress, until at most ``most`` bytes are unacknowledged."""
        self._deadline_s = monotonic_s() + TIMEOUT_S
        while True:
            self._take_answers()
            self._send()
            if sum(queue.bytes for queue in self._queues.values()) <= most:
                return
            now = monotonic_s()
            if now > self._deadline_s:
                left = sum(len(queue.batches) for queue in self._queues.values())
                raise unavailable(self._location, f"{left} batches were not acknowledged, none for {TIMEOUT_S:.0f} s")
            wait_s = min(self._deadline_s - now, 1.0)
            if self._retry_s > now:
                wait_s = min(wait_s, self._retry_s - now)
            self._connected.poll(wait_s, lambda: any(sent and sent[0].answer.is_done for sent in self._sent.values()))

    @property
    def _connected(self) -> Connections:
        if self._connections is None:
            self._connections = Connections(self._location)
        return self._connections

    def _producer_id(self) -> tuple[int, int]:
        """The id and epoch of this producer; a new id after a failure."""
        deadline = monotonic_s() + TIMEOUT_S
        while self._producer is None:
            request = InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
            )
            error = self._connected.wait_for(answer := self._connected.send(request, None), TIMEOUT_S)
            if error is None and answer.value.error_code:
                error = errors.for_code(answer.value.error_code)()
            if error is None:
                self._producer = answer.value.producer_id, answer.value.producer_epoch
            elif not error.retriable or monotonic_s() > deadline:
                raise error_of(self._location, error)
            else:
                self._connected.poll(_RETRY_S, lambda: False)
        return self._producer

    def _send(self) -> None:
        """Sends the batches that may be sent, one of each bucket per request."""
        while monotonic_s() >= self._retry_s:
            requests: dict[int, list[tuple[AppendQueue, Unacknowledged]]] = {}
            for queue in self._queues.values():
                batch = queue.next_to_send()
                if batch is None:
                    continue
                node = self._connected.leader(queue.bucket)
                if node is None:
                    self._retry_later()
                elif len(self._sent.get(node, ())) < _IN_FLIGHT:
                    requests.setdefault(node, []).append((queue, batch))
            if not requests:
                return
            for node, batches in requests.items():
                self._send_to(node, batches)

    def _send_to(self, node: int, batches: list[tuple[AppendQueue, Unacknowledged]]) -> None:
        producer_id, epoch = self._producer_id()
        partitions, size = [], 0
        for queue, batch in batches:
            if size and size + batch.size > _REQUEST_BYTES:
                break
            queue.number(batch, producer_id, epoch)
            partitions.append(_Partition(index=queue.bucket, records=batch.batch.to_bytes()))
            size += batch.size
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=_REQUEST_TIMEOUT_MS,
            topic_data=[_Topic(name=self._location.topic, partition_data=partitions)],
            max_version=_PRODUCE_VERSION,
        )
        sent = _Sent(self._connected.send(request, node), batches[: len(partitions)])
        self._sent.setdefault(node, deque()).append(sent)

    def _retry_later(self) -> None:
        self._retry_s = monotonic_s() + _RETRY_S
        self._connected.refresh()

    def _take_answers(self) -> None:
        for sent in self._sent.values():
            while sent and sent[0].answer.is_done:
                self._take_answer(sent.popleft())

    def _take_answer(self, sent: _Sent) -> None:
        error, answers = sent.answer.exception, {}
        if error is None:
            answers = {p.index: p for topic in sent.answer.value.responses for p in topic.partition_responses}
        for queue, batch in sent.batches:
            queue.in_flight -= 1
            answer = answers.get(queue.bucket)
            if answer is not None and not answer.error_code and answer.base_offset >= 0:
                batch.offset = answer.base_offset
                self._deadline_s = monotonic_s() + TIMEOUT_S
            else:
                self._refused(queue, batch, errors.for_code(answer.error_code)() if answer is not None else error)
            queue.complete()

    def _refused(self, queue: AppendQueue, batch: Unacknowledged, error: Any) -> None:
        """Decides about a batch that is not stored, or of which that is unknown. Raises what ends the append."""
        if isinstance(error, _TOO_LARGE):
            if batch.batch.count == 1:
                raise too_large(self._location, str(error))
            queue.split(batch)
        elif isinstance(error, errors.OutOfOrderSequenceNumberError) and queue.is_broken:
            pass
        elif error is not None and error.retriable:
            if isinstance(error, errors.UnknownTopicOrPartitionError):
                self._topic.check_same()
            self._retry_later()
        else:
            raise error_of(self._location, error)
        queue.is_broken = True
