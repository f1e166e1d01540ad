"""The log on Apache Pulsar: one partitioned topic per table, one partition per bucket, through pulsar-client.

A message costs some 20 µs in Python regardless of its size, so records are sent in packs
(``logstore/pulsar/packs.py``). The producers do not batch, so a message is one entry of Pulsar's storage.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable

import numpy as np
import pulsar
import pyarrow as pa

from lakelog.errors import InvalidRequest, LakelogError
from lakelog.io.clock import monotonic_s
from lakelog.io.names import new_uuid
from lakelog.logstore.base import LogAppender, LogLocation, LogReader, LogServer, LogSystem, PendingAppend, Records
from lakelog.logstore.pulsar.access import TIMEOUT_S, client_for, error_of, translated_errors, unavailable
from lakelog.logstore.pulsar.packs import Entry, Message, packed, single
from lakelog.logstore.pulsar.probe import probe
from lakelog.logstore.pulsar.reader import PulsarReader
from lakelog.logstore.pulsar.topic import PulsarTopic
from lakelog.logstore.topic_identity import IdentityWatch

_MOST_BYTES = 64 * 1024 * 1024
_MOST_MESSAGES = 10_000
"""Maximum unacknowledged messages; an append waits while this limit is reached."""


class PulsarLogSystem(LogSystem):
    """Topics of a Pulsar cluster."""

    def create(self, location: LogLocation, adopt: bool = False) -> LogLocation:
        topic = PulsarTopic(location)
        return topic.create(client_for(topic.access), adopt)

    def set_retention(self, location: LogLocation) -> None:
        PulsarTopic(location).set_retention()

    def drop(self, location: LogLocation) -> None:
        PulsarTopic(location).drop()

    def check(self, location: LogLocation, spread: bool = False) -> None:
        PulsarTopic(location).check()

    def probe(self, location: LogLocation) -> LogServer:
        return probe(location)

    def appender(self, location: LogLocation) -> LogAppender:
        return PulsarAppender(location)

    def reader(self, location: LogLocation) -> LogReader:
        return PulsarReader(location)


class _Acknowledged(PendingAppend):
    """The entries from acknowledgements, in the order in which the messages were sent."""

    def __init__(self, location: LogLocation, records: Records) -> None:
        self._location, self._changes = location, records.changes
        self._counts: list[int] = []
        self._found: dict[int, Entry] = {}

    @property
    def entries(self) -> int:
        return len(self._counts)

    def sent(self, count: int) -> int:
        """Reserves the number of the next message."""
        self._counts.append(count)
        return len(self._counts) - 1

    def acknowledged(self, number: int, entry: Entry) -> None:
        """Records the entry of a message that the broker has stored."""
        self._found[number] = entry

    def offsets(self) -> pa.Int64Array:
        if len(self._found) != len(self._counts):
            raise unavailable(self._location, "records are not acknowledged")
        parts = [
            self._found[number].offset() + self._changes * np.arange(count, dtype=np.int64)
            for number, count in enumerate(self._counts)
        ]
        return pa.array(np.concatenate(parts) if parts else np.array([], np.int64))

    def orders(self, changes: int) -> np.ndarray:
        # the offsets reserve numbers for the changes of each record
        return self.offsets().to_numpy(zero_copy_only=False) if changes == self._changes else super().orders(changes)


class PulsarAppender(LogAppender):
    """One producer per bucket, with a unique name by which the broker deduplicates the client's retries."""

    def __init__(self, location: LogLocation) -> None:
        self._location, self._topic = location, PulsarTopic(location)
        self._topic.check()
        self._watch = IdentityWatch(self._topic.check_same)
        self._client = client_for(self._topic.access)
        self._changed = threading.Condition()
        self._producers: dict[int, pulsar.Producer] = {}
        self._sending = _Sending()

    @property
    def is_stale(self) -> bool:
        return self._watch.is_stale

    def end_offsets(self) -> dict[int, int]:
        return {bucket: state.end.offset() for bucket, state in self._topic.states().items()}

    def append(self, bucket: int, records: Records) -> PendingAppend:
        self._watch.check()
        pending = _Acknowledged(self._location, records)
        for message in packed(records) if self._topic.access.has_packs else single(records):
            self._wait(_MOST_BYTES - message.size, _MOST_MESSAGES - 1)
            self._send(bucket, message, functools.partial(pending.acknowledged, pending.sent(message.count)))
        return pending

    def flush(self) -> None:
        self._wait(0, 0)
        self._watch.check()

    def close(self) -> None:
        producers, self._producers = self._producers, {}
        for producer in producers.values():
            with contextlib.suppress(pulsar.PulsarException):
                producer.close()

    def _send(self, bucket: int, message: Message, stored: Callable[[Entry], None]) -> None:
        producer, sending, size = self._producer(bucket), self._sending, message.size

        def answered(result: pulsar.Result, message_id: pulsar.MessageId) -> None:
            """Called by a thread of the client."""
            with self._changed:
                sending.bytes -= size
                sending.messages -= 1
                if result != pulsar.Result.Ok:
                    sending.failure = sending.failure or str(result)
                elif message_id.ledger_id() < 0:
                    sending.failure = sending.failure or "a message was sent again, and its offset is unknown"
                else:
                    stored(Entry(message_id.ledger_id() - self._topic.base, message_id.entry_id()))
                self._changed.notify()

        with self._changed:
            sending.bytes += size
            sending.messages += 1
        try:
            producer.send_async(message.content, answered, message.properties, message.key)
        except pulsar.PulsarException as failed:
            self._discard_unsent()
            raise _failed(self._location, str(failed), error_of(self._location, failed)) from failed

    def _wait(self, most_bytes: int, most_messages: int) -> None:
        """Waits, while there is progress, until at most this number is unacknowledged. Raises Unavailable."""
        sending = self._sending
        with self._changed:
            deadline, left = monotonic_s() + TIMEOUT_S, sending.messages
            while sending.messages and (sending.bytes > most_bytes or sending.messages > most_messages):
                if sending.failure is not None or monotonic_s() > deadline:
                    break
                self._changed.wait(0.2)
                if sending.messages < left:
                    deadline, left = monotonic_s() + TIMEOUT_S, sending.messages
            failure = sending.failure
            if failure is None and sending.messages and monotonic_s() > deadline:
                failure = f"{sending.messages} messages were not acknowledged, none for {TIMEOUT_S:.0f} s"
        if failure is not None:
            self._discard_unsent()
            raise _failed(self._location, failure, unavailable(self._location, failure))

    def _discard_unsent(self) -> None:
        """Discards unsent messages, so that the client does not send them during a later attempt."""
        self._watch.check_next_time()
        self._sending = _Sending()
        self.close()

    def _producer(self, bucket: int) -> pulsar.Producer:
        producer = self._producers.get(bucket)
        if producer is None:
            self._topic.check()  # a broker may have re-created the topic for the last client
            with translated_errors(self._location):
                producer = self._producers[bucket] = self._client.create_producer(
                    self._topic.partition(bucket),
                    producer_name=f"lakelog-{new_uuid()}",
                    send_timeout_millis=int(TIMEOUT_S * 1000),
                    compression_type=pulsar.CompressionType.LZ4,
                    max_pending_messages=_MOST_MESSAGES,
                    batching_enabled=False,
                )
        return producer


class _Sending:
    """The unacknowledged messages, and their first error."""

    def __init__(self) -> None:
        self.bytes = self.messages = 0
        self.failure: str | None = None


def _failed(location: LogLocation, why: str, otherwise: LakelogError) -> LakelogError:
    if "TooBig" in why:
        return InvalidRequest(
            f"a record for topic '{location.topic}' is larger than what Pulsar at {location.address} takes: raise "
            f"maxMessageSize on brokers and bookies, or write smaller rows"
        )
    return otherwise
