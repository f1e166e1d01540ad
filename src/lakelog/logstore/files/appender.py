"""Appends to a log in files: one segment for each flush."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.errors import CommitUnknown, NotFound, TableReplaced, Unavailable
from lakelog.io.clock import now_ms, pause
from lakelog.io.names import new_attempt
from lakelog.logstore.base import LogAppender, LogLocation, PendingAppend, Records
from lakelog.logstore.files.chain import SegmentChain
from lakelog.logstore.files.segment import encode_segment
from lakelog.logstore.record_batch.encoder import encode
from lakelog.logstore.topic_identity import IdentityWatch

_EXPIRE_EVERY = 256
"""Segments between two checks for expired ones."""
_LARGEST: Final = 16 << 20
"""Bytes of batches after which a segment is written before the flush."""
_QUICK_TRIES: Final = 3
_MOST_UNANSWERED: Final = 6
"""Attempts to create one segment without a clear answer, before the append raises Unavailable."""


class _Pending(PendingAppend):
    def __init__(self, bucket: int, batches: list[tuple[int, bytes]]) -> None:
        self.bucket, self.batches = bucket, batches
        self.first: int | None = None

    @property
    def entries(self) -> int:
        return sum(count for count, _ in self.batches)

    def offsets(self) -> pa.Int64Array:
        if self.first is None:
            raise Unavailable("the records were not appended: the flush failed, or did not happen")
        return pa.array(np.arange(self.first, self.first + self.entries, dtype=np.int64))


class FilesAppender(LogAppender):
    """Collects record batches and creates the next segment of them when it is flushed, or has 16 MiB."""

    def __init__(self, location: LogLocation) -> None:
        self._location = location
        self._chain = SegmentChain(location)
        self._watch = IdentityWatch(self._chain.check)
        self._waiting: list[_Pending] = []
        self._bytes = self._segments = 0

    @property
    def is_stale(self) -> bool:
        return self._watch.is_stale

    def end_offsets(self) -> dict[int, int]:
        self._watch.check()
        return dict(enumerate(self._chain.ends))

    def append(self, bucket: int, records: Records) -> PendingAppend:
        if not 0 <= bucket < self._location.buckets:
            raise NotFound(f"the log in '{self._location.address}' has no bucket {bucket}")
        batches = [(batch.count, batch.to_bytes()) for batch in encode(records, now_ms())]
        pending = _Pending(bucket, batches)
        self._waiting.append(pending)
        self._bytes += sum(len(data) for _, data in batches)
        if self._bytes >= _LARGEST:
            self.flush()
        return pending

    def flush(self) -> None:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        batches = [(p.bucket, count, data) for p in waiting for count, data in p.batches]
        with self._noticed():
            self._watch.check()
            starts = self._create(batches) if batches else self._chain.ends if waiting else ()
            if batches and self._location.retention_ms is not None and self._segments % _EXPIRE_EVERY == 0:
                with suppress(NotFound, Unavailable):  # it is tried again later
                    self._chain.expire(self._chain.stored_now_ms() - self._location.retention_ms)
        ends = list(starts)
        for pending in waiting:
            pending.first = ends[pending.bucket]
            ends[pending.bucket] += pending.entries

    def close(self) -> None:
        self._waiting = []

    def _create(self, batches: list[tuple[int, int, bytes]]) -> tuple[int, ...]:
        """Creates a segment of the batches; returns the end offsets of all buckets before it."""
        token, tries, unknown, unanswered, reason = new_attempt(), 0, -1, 0, ""
        while True:
            is_first_try = not tries and self._chain.is_recent
            newest = self._chain.known if is_first_try else self._chain.newest()
            if 0 <= unknown <= newest and self._exists(unknown, token):
                number = unknown
                break
            unanswered = unanswered + 1 if unknown == newest + 1 else 0
            if unanswered == _MOST_UNANSWERED:
                raise Unavailable(f"'{self._chain.path(unknown)}' cannot be created: {reason}")
            floor = (self._chain.known_floor if is_first_try else self._chain.floor).number
            number = newest + 1
            if number < floor:
                continue
            starts = self._chain.starts(number)
            before = 0 if newest < floor else self._chain.footer(newest).timestamp_ms
            data, segment = encode_segment(token, max(now_ms(), before), starts, batches)
            try:
                if self._chain.create(number, data, segment):
                    break
                reason = "storage says that it exists, but there is no such file"
            except CommitUnknown as why:
                reason = str(why)
            unknown, tries = number, tries + 1
            if tries > _QUICK_TRIES:
                pause(tries, first_s=0.0005, longest_s=0.05)
        self._segments = number + 1  # of all writers, because many make few of them
        return starts

    def _exists(self, number: int, token: str) -> bool:
        """True if this append created the segment. Raises Unavailable if it expired: the outcome is unknown."""
        with suppress(NotFound):
            found = self._chain.footer(number).token
            if number >= self._chain.floor.number:
                return found == token
        if number >= self._chain.floor.number:
            return False
        raise Unavailable(f"'{self._chain.path(number)}' expired during an append, which may have created it")

    @contextmanager
    def _noticed(self) -> Iterator[None]:
        """Notices a log that was deleted with its table."""
        try:
            yield
        except (NotFound, TableReplaced) as why:
            self._watch.check_next_time()
            self._watch.check()
            raise Unavailable(f"the log in '{self._location.address}' cannot be used now: {why}") from why
