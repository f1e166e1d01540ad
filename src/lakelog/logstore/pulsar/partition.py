"""Follows one partition of a Pulsar topic: packs in order, none twice, none left out, and not too many at once."""

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
"""Messages that the client takes in by itself; a pack has 256 KB."""

_UNSEEN_S: Final = 30.0
"""No retention is shorter than a minute: what a reader waits for that looked so lately cannot have expired."""


class PartitionFollower:
    """A reader of one bucket from an offset on. ``next`` is the offset behind all that was taken in.

    Raises OffsetExpired when the offset is no longer held.
    """

    def __init__(self, client: pulsar.Client, topic: PulsarTopic, bucket: int, start: int) -> None:
        self._client, self._topic, self._bucket = client, topic, bucket
        self.packs: deque[Pack] = deque()
        self.held = 0
        self.low = self.next = start
        self._reader: pulsar.Reader | None = None
        self._open()

    def is_all(self) -> bool:
        """Whether the partition holds nothing behind what was taken in. Asks the broker."""
        last = self._topic.states([self._bucket])[self._bucket].last
        return last is None or last <= self.has_all_of

    @property
    def is_connected(self) -> bool:
        """Whether the client has a connection to the broker that serves the partition."""
        return self._reader is not None and bool(self._reader.is_connected())

    @property
    def has_all_of(self) -> Entry:
        """The entry up to which everything was taken in."""
        place = entry_of(self.next)
        return place if self.next > place.offset() else place.before

    def take(self, timeout_s: float) -> bool:
        """Takes in one message if there is one within the time; whether there was."""
        with translated_errors(self._topic.location):
            message = self._received(timeout_s)
        if message is None:
            self._looked_s = monotonic_s()
            return False
        found = message.message_id()
        entry = Entry(found.ledger_id() - self._topic.base, found.entry_id())
        pack = _pack(message, entry, found.batch_index())
        if pack.last >= self.next and self._follows(entry):
            self.packs.append(pack)
            self.held += pack.size
            self._is_fresh = False
            # behind the whole entry; one that another client has made may hold more
            self.next = entry.next.offset() if pack.is_packed else pack.last + 1
        return True

    def drop_before(self, offset: int) -> None:
        """Forgets the records before an offset that lies in what is held, or at its end."""
        while self.packs and self.packs[0].before(offset) == self.packs[0].count:
            self.held -= self.packs.popleft().size
        self.low = max(self.low, offset)

    def close(self) -> None:
        """Gives the reader back."""
        if self._reader is not None:
            with contextlib.suppress(pulsar.PulsarException):
                self._reader.close()
            self._reader = None

    def _open(self) -> None:
        self.close()
        self._check_held()
        self._looked_s = monotonic_s()
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
        if self._reader is None:  # it could not be opened when it had to be
            self._open()
        assert self._reader is not None
        try:
            return self._reader.read_next(round(timeout_s * 1000))
        except pulsar.Timeout:
            return None

    def _follows(self, entry: Entry) -> bool:
        """Whether an entry is the next one. If it seems not to be, the broker is asked once more from there on.

        A connection that was lost, or a ledger that has expired, leaves a hole that looks like the end of a ledger.
        """
        if entry == entry_of(self.next) or entry == self.has_all_of.next:
            return True
        if not self._is_fresh:
            self._open()
            return False
        if monotonic_s() > self._looked_s + _UNSEEN_S:
            self._check_held()
        return True

    def _check_held(self) -> None:
        first = self._topic.states([self._bucket])[self._bucket].first.offset()
        if self.next < first:
            raise OffsetExpired(
                f"offset {self.next} of bucket {self._bucket} is no longer in topic '{self._topic.location.topic}', "
                f"the first one is {first}: start at 'earliest', or read the files ('read.mode'='file'), which have "
                f"all rows"
            )


def _pack(message: pulsar.Message, entry: Entry, batch_index: int) -> Pack:
    content = None if message.has_null_value() else message.data()
    key = message.partition_key()
    return pack_of(
        entry, batch_index, message.publish_timestamp(), message.properties(), key.encode() if key else None, content
    )
