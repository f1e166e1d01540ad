"""Reader of one partition of a Pulsar topic, which returns each pack once, in order, with limited buffering."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Final

import pulsar

from lakelog.errors import OffsetExpired
from lakelog.io.clock import monotonic_s
from lakelog.logstore.pulsar.access import translated_errors
from lakelog.logstore.pulsar.packs import Entry, Pack, entry_of, pack_of
from lakelog.logstore.pulsar.topic import PulsarTopic

_QUEUE: Final = 64
"""Messages that the client prefetches; a pack has 256 KB."""

_UNSEEN_S: Final = 30.0
"""Seconds since the last check within which no record can have expired; the shortest retention is a minute."""


class PartitionFollower:
    """A reader of one bucket from an offset on. ``next`` is the offset after the last received record.

    Raises OffsetExpired if the offset is no longer retained.
    """

    def __init__(self, client: pulsar.Client, topic: PulsarTopic, bucket: int, start: int) -> None:
        self._client, self._topic, self._bucket = client, topic, bucket
        self.packs: deque[Pack] = deque()
        self.held = 0
        self.low = self.next = start
        self._reader: pulsar.Reader | None = None
        self._open()

    def is_all(self) -> bool:
        """Returns whether the partition has no record after the received ones. Sends a request to the broker."""
        last = self._topic.states([self._bucket])[self._bucket].last
        return last is None or last <= self.has_all_of

    @property
    def is_connected(self) -> bool:
        """True if the client is connected to the broker that serves the partition."""
        return self._reader is not None and bool(self._reader.is_connected())

    @property
    def has_all_of(self) -> Entry:
        """The last entry that was received completely."""
        entry = entry_of(self.next)
        return entry if self.next > entry.offset() else entry.before

    def take(self, timeout_s: float) -> bool:
        """Receives one message within the timeout. Returns whether there was one."""
        with translated_errors(self._topic.location):
            message = self._received(timeout_s)
        if message is None:
            self._checked_s = monotonic_s()
            return False
        message_id = message.message_id()
        entry = Entry(message_id.ledger_id() - self._topic.base, message_id.entry_id())
        pack = _pack(message, entry, message_id.batch_index())
        if pack.last >= self.next and self._follows(entry):
            self.packs.append(pack)
            self.held += pack.size
            self._is_fresh = False
            # after the whole entry; a batch of another client may contain more messages
            self.next = entry.next.offset() if message_id.batch_index() < 0 else pack.last + 1
        return True

    def drop_before(self, offset: int) -> None:
        """Discards the buffered records before an offset, which is within the buffer or at its end."""
        while self.packs and self.packs[0].before(offset) == self.packs[0].count:
            self.held -= self.packs.popleft().size
        self.low = max(self.low, offset)

    def close(self) -> None:
        if self._reader is not None:
            with contextlib.suppress(pulsar.PulsarException):
                self._reader.close()
            self._reader = None

    def _open(self) -> None:
        self.close()
        self._check_retained()
        self._checked_s = monotonic_s()
        self._is_fresh = True
        entry = entry_of(self.next)
        start = pulsar.MessageId(-1, entry.ledger + self._topic.base, entry.number, -1)
        with translated_errors(self._topic.location):
            self._reader = self._client.create_reader(
                self._topic.partition(self._bucket),
                start,
                start_message_id_inclusive=True,
                receiver_queue_size=_QUEUE,
            )

    def _received(self, timeout_s: float) -> pulsar.Message | None:
        if self._reader is None:  # an earlier attempt to open it failed
            self._open()
        assert self._reader is not None
        try:
            return self._reader.read_next(round(timeout_s * 1000))
        except pulsar.Timeout:
            return None

    def _follows(self, entry: Entry) -> bool:
        """Returns whether an entry is the next one. If it appears not to be, reopens the reader once.

        A lost connection or an expired ledger leaves a gap that is indistinguishable from the end of a ledger.
        """
        if entry == entry_of(self.next) or entry == self.has_all_of.next:
            return True
        if not self._is_fresh:
            self._open()
            return False
        if monotonic_s() > self._checked_s + _UNSEEN_S:
            self._check_retained()
        return True

    def _check_retained(self) -> None:
        first = self._topic.states([self._bucket])[self._bucket].first.offset()
        if self.next < first:
            raise OffsetExpired(
                f"offset {self.next} of bucket {self._bucket} is no longer in topic '{self._topic.location.topic}'; "
                f"the first offset is {first}. Start at 'earliest', or read the files ('read.mode'='file'), which "
                "have all rows"
            )


def _pack(message: pulsar.Message, entry: Entry, batch_index: int) -> Pack:
    content = None if message.has_null_value() else message.data()
    key = message.partition_key()
    return pack_of(
        entry, batch_index, message.publish_timestamp(), message.properties(), key.encode() if key else None, content
    )
