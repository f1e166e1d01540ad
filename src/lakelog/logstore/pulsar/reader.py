"""Reader of the log of a Pulsar topic, with one follower per requested bucket and cached record counts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pulsar
import pyarrow as pa

from lakelog.errors import Unavailable
from lakelog.io.clock import monotonic_s, sleep
from lakelog.logstore.base import LogLocation, LogReader
from lakelog.logstore.pulsar.access import TIMEOUT_S, client_for, translated_errors, unavailable
from lakelog.logstore.pulsar.packs import Entry, Pack, entries_between, entry_of, unpacked
from lakelog.logstore.pulsar.partition import PartitionFollower
from lakelog.logstore.pulsar.topic import PulsarTopic
from lakelog.logstore.topic_identity import IdentityWatch

_MOST_HELD: Final = 32 * 1024 * 1024
"""Maximum bytes of prefetched packs; further messages wait in the client's queues."""

_SILENT_S: Final = 0.05
"""Seconds without a message after which the reader requests the end of the partition from the broker."""

_ERRORS_S: Final = 3.0
"""Seconds after a lost connection until a waiting reader checks that the broker is available."""

_POLL_S: Final = 0.001
_MOST_SPANS: Final = 200_000


class PulsarReader(LogReader):
    """Readers without a subscription, which start at explicit offsets, acknowledge nothing and block no expiry."""

    def __init__(self, location: LogLocation) -> None:
        self._location, self._topic = location, PulsarTopic(location)
        self._topic.check()
        self._watch = IdentityWatch(self._topic.check_same)
        self._client = client_for(self._topic.access)
        self._followed: dict[int, PartitionFollower] = {}
        self._tallies: dict[int, _Tally] = {}
        self._error_since_s: float | None = None

    @property
    def is_stale(self) -> bool:
        return self._watch.is_stale

    def read(self, bucket: int, start: int, end: int | None = None, max_records: int = 100_000) -> pa.Table:
        self._watch.check()
        followed = self._follow(bucket, start)
        parts: list[tuple[Pack, int, int]] = []
        left, deadline = max_records, monotonic_s() + TIMEOUT_S
        while True:
            left -= _move(followed, start, end, left, parts)
            if left <= 0 or (end is not None and followed.next >= end):
                break
            if followed.take(0 if end is None else _SILENT_S):
                deadline = monotonic_s() + TIMEOUT_S
            elif end is None or _is_all(followed):
                break
            elif monotonic_s() > deadline:
                self._forget(bucket)
                raise unavailable(self._location, f"bucket {bucket} has no records from offset {followed.next}")
        return unpacked(parts)

    def wait(self, positions: Mapping[int, int], timeout_s: float) -> None:
        self._watch.check()
        followed = [self._follow(bucket, start) for bucket, start in positions.items()]
        deadline = monotonic_s() + timeout_s
        while not any(part.packs for part in followed):
            if len(followed) == 1:
                came = followed[0].take(max(0.0, deadline - monotonic_s()))
            else:
                came = sum(part.take(0) for part in followed) > 0
            if came:
                continue
            if monotonic_s() >= deadline:
                self._check_after_errors(followed)
                return
            sleep(_POLL_S)

    def ready_offsets(self, positions: Mapping[int, int]) -> dict[int, int]:
        followed = {bucket: self._follow(bucket, start) for bucket, start in positions.items()}
        while sum(part.held for part in followed.values()) < _MOST_HELD:
            if not sum(part.take(0) for part in followed.values()):
                return {bucket: part.next for bucket, part in followed.items()}
        return self.end_offsets(list(positions))

    def entries(self, bucket: int, start: int, end: int) -> int | None:
        return entries_between(start, end)

    def count(self, bucket: int, start: int, end: int, most: int) -> int:
        total = 0
        for pack in self._spans(bucket, start, end):
            total += max(0, pack.before(end) - pack.before(start))
            if total >= most:
                return most
        return total

    def last_start(self, bucket: int, end: int) -> int | None:
        entry = entry_of(end)
        if end > entry.offset():
            return entry.offset()
        if entry.number:
            return entry.before.offset()
        last = self._topic.states([bucket])[bucket].last  # of an earlier ledger, whose number only the broker has
        return last.offset() if last is not None and last < entry else None

    def skip(self, bucket: int, start: int, end: int, count: int) -> int:
        left = count
        for pack in self._spans(bucket, start, end):
            begin = pack.before(start)
            here = max(0, pack.before(end) - begin)
            if here >= left:
                return pack.offset(begin + left - 1) + 1
            left -= here
        return end

    def end_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        return {bucket: state.end.offset() for bucket, state in self._topic.states(buckets).items()}

    def first_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        return {bucket: state.first.offset() for bucket, state in self._topic.states(buckets).items()}

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        return {bucket: self._offset_at(bucket, timestamp_ms) for bucket in range(self._location.buckets)}

    def close(self) -> None:
        for part in [*self._followed.values(), *(tally.followed for tally in self._tallies.values())]:
            part.close()
        self._followed.clear()
        self._tallies.clear()

    def _follow(self, bucket: int, start: int) -> PartitionFollower:
        """The follower of a bucket, positioned at the first record from ``start`` on."""
        follower = self._followed.get(bucket)
        if follower is None or not follower.low <= start <= follower.next:
            self._forget(bucket)
            follower = self._followed[bucket] = PartitionFollower(self._client, self._topic, bucket, start)
        follower.drop_before(start)
        return follower

    def _forget(self, bucket: int) -> None:
        follower = self._followed.pop(bucket, None)
        if follower is not None:
            follower.close()

    def _check_after_errors(self, followed: Sequence[PartitionFollower]) -> None:
        """Checks the topic after a lost connection, because a waiting reader detects no outage.

        Raises Unavailable, NotFound.
        """
        if all(part.is_connected for part in followed):
            self._error_since_s = None
        elif self._error_since_s is None:
            self._error_since_s = monotonic_s()
        elif monotonic_s() - self._error_since_s > _ERRORS_S:
            self._error_since_s = None
            self._topic.check()

    def _spans(self, bucket: int, start: int, end: int) -> Iterator[Pack]:
        """The packs from ``start`` to ``end``, without their content, from the buffer or else from the broker.

        The result is cached, because the next count often concerns a part of the same range.
        """
        followed = self._followed.get(bucket)
        if followed is not None and followed.low <= start and end <= followed.next:
            yield from list(followed.packs)
            return
        tally = self._tallies.get(bucket)
        if tally is None or not tally.start <= start <= tally.followed.next:
            if tally is not None:
                tally.followed.close()
            first = self.first_offsets([bucket])[bucket]
            tally = _Tally(PartitionFollower(self._client, self._topic, bucket, max(start, first)))
            self._tallies[bucket] = tally
        yield from tally.upto(end)

    def _offset_at(self, bucket: int, timestamp_ms: int) -> int:
        end = self.end_offsets([bucket])[bucket]
        with translated_errors(self._location):
            reader = self._client.create_reader(self._topic.partition(bucket), pulsar.MessageId.earliest)
            try:
                reader.seek(max(0, timestamp_ms))
                while reader.has_message_available():
                    message = reader.read_next(round(TIMEOUT_S * 1000))
                    if message.publish_timestamp() >= timestamp_ms:
                        message_id = message.message_id()
                        entry = Entry(message_id.ledger_id() - self._topic.base, message_id.entry_id())
                        return min(end, entry.offset(max(0, message_id.batch_index())))
            finally:
                reader.close()
        return end


class _Tally:
    """Cached record counts of a bucket's entries, from a start offset to the last counted one."""

    def __init__(self, followed: PartitionFollower) -> None:
        self.followed, self.start = followed, followed.next
        self._spans: list[Pack] = []

    def upto(self, end: int) -> Iterator[Pack]:
        """The packs that begin before ``end``; reads those that are not cached."""
        for span in list(self._spans):
            if span.first >= end:
                return
            yield span
        deadline = monotonic_s() + TIMEOUT_S
        while self.followed.next < end:
            if self.followed.take(_SILENT_S):
                deadline = monotonic_s() + TIMEOUT_S
            elif _is_all(self.followed) or monotonic_s() > deadline:
                return
            while self.followed.packs:
                pack = self.followed.packs.popleft()
                self.followed.held -= pack.size
                self._keep(replace(pack, content=None))
                yield self._spans[-1]

    def _keep(self, span: Pack) -> None:
        if len(self._spans) >= _MOST_SPANS:
            del self._spans[: _MOST_SPANS // 2]
            self.start = self._spans[0].first
        self._spans.append(span)


def _move(
    followed: PartitionFollower, start: int, end: int | None, most: int, parts: list[tuple[Pack, int, int]]
) -> int:
    """Moves buffered records with start ≤ offset < ``end`` to ``parts``; returns their number, at most ``most``."""
    moved = 0
    while followed.packs and moved < most:
        pack = followed.packs[0]
        first = pack.before(max(start, followed.low))
        last = min(pack.count if end is None else pack.before(end), first + most - moved)
        if last > first:
            parts.append((pack, first, last))
            moved += last - first
            followed.drop_before(pack.offset(last - 1) + 1)
        elif last < pack.count:
            break
        else:
            followed.drop_before(pack.last + 1)
    return moved


def _is_all(followed: PartitionFollower) -> bool:
    """Returns whether there are no more records; False while a restarted broker is unavailable."""
    with contextlib.suppress(Unavailable):
        return followed.is_all()
    return False
