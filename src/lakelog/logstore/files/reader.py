"""Reads of a log in files, from any offset; waits by asking for the next segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa

from lakelog.errors import Corrupt, NotFound, UnsupportedFeature
from lakelog.io.clock import monotonic_s, now_ms, sleep
from lakelog.logstore.base import RECORDS_SCHEMA, LogLocation, LogReader
from lakelog.logstore.files.chain import Floor, SegmentChain
from lakelog.logstore.files.segment import read_batch
from lakelog.logstore.local_log import expired, expiry_of
from lakelog.logstore.record_batch.batch import RecordBatch
from lakelog.logstore.record_batch.decoder import READ_BYTES, decode, unpacked
from lakelog.logstore.topic_identity import IdentityWatch

_LOCAL_POLL_S = (0.0005, 0.01)
_REMOTE_POLL_S = (0.01, 1.0)
"""Shortest and longest pause between two requests for the next segment: it grows by half while nothing comes."""
_GROWTH = 1.5
_NEAR = 16
"""Segments after the last one read in which an offset is looked for before a search of all."""
_SOON_S = 0.1
"""Seconds after a segment on a local disk in which the next one is expected, and the pause stays short."""


class FilesReader(LogReader):
    """Reads by offset. It lists nothing: it asks for the segment after the newest one that it knows."""

    def __init__(self, location: LogLocation) -> None:
        self._location = location
        self._chain = SegmentChain(location)
        self._watch = IdentityWatch(self._chain.check)
        self._at: dict[int, int] = {}
        self._rest: tuple[int, int, pa.Table] | None = None
        self._busy_until_s = self._pause_s = self._ask_at_s = 0.0
        self._asked: set[int] = set()
        """Buckets that were not read since ``wait`` has asked for their next segment."""

    @property
    def is_stale(self) -> bool:
        return self._watch.is_stale

    def read(self, bucket: int, start: int, end: int | None = None, max_records: int = 100_000) -> pa.Table:
        self._watch.check()
        if not 0 <= bucket < self._location.buckets:
            raise NotFound(f"the log in '{self._location.address}' has no bucket {bucket}")
        last = self._last(bucket, start, end)
        end = last if end is None else min(end, last)
        first = self._chain.known_floor.offsets[bucket]
        if start < first:
            raise expired(bucket, start, first)
        if start > last:
            raise NotFound(
                f"offset {start} of bucket {bucket} is after the end of the log in '{self._location.address}', {last}: "
                "an older copy replaced it, or the offset belongs to another log"
            )
        if start >= end:
            return RECORDS_SCHEMA.empty_table()
        is_next = self._rest is not None and self._rest[:2] == (bucket, start)
        records = self._rest[2] if self._rest is not None and is_next else RECORDS_SCHEMA.empty_table()
        at, left = start + records.num_rows, max_records - records.num_rows
        if at < end and left > 0:
            records = pa.concat_tables([records, self._confirmed(bucket, at, end, left)])
        low, high = np.searchsorted(records.column("offset").to_numpy(), [start, end])
        taken = records.slice(low, min(high - low, max_records))
        behind = low + taken.num_rows
        self._rest = (bucket, start + taken.num_rows, records.slice(behind)) if behind < records.num_rows else None
        return taken

    def wait(self, positions: Mapping[int, int], timeout_s: float) -> None:
        deadline = monotonic_s() + timeout_s
        is_remote = "://" in self._location.address
        shortest, longest = _REMOTE_POLL_S if is_remote else _LOCAL_POLL_S
        if not is_remote:
            self._pause_s = self._ask_at_s = 0.0
        while True:
            self._watch.check()
            is_due = monotonic_s() >= self._ask_at_s
            while not (has_come := self._has_after(positions)) and is_due and self._chain.advance():
                pass
            now = monotonic_s()
            if has_come:
                self._pause_s = self._ask_at_s = 0.0
                self._busy_until_s = 0.0 if is_remote else now + _SOON_S
            elif is_due:
                is_soon = not self._pause_s or now < self._busy_until_s
                self._pause_s = shortest if is_soon else min(longest, self._pause_s * _GROWTH)
                self._ask_at_s = now + self._pause_s
            if has_come or now >= deadline:
                self._asked = set(positions) if has_come or is_remote else set()
                return
            sleep(min(self._ask_at_s, deadline) - now)

    def end_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        self._watch.check()
        return self._chosen(self._chain.ends, buckets)

    def first_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        self._watch.check()
        return self._chosen(self._chain.floor.offsets, buckets)

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        self._watch.check()
        _ = self._chain.floor

        def found() -> tuple[int, ...]:
            return self._chain.starts(self._chain.first(lambda segment: segment.timestamp_ms >= timestamp_ms))

        return dict(enumerate(self._chain.confirmed(found)))

    def mark(self, bucket: int, offset: int) -> str:
        self._watch.check()
        if offset <= self._chain.floor.offsets[bucket]:
            return ""
        number = self._chain.first(lambda segment: segment.ends[bucket] >= offset)
        with suppress(NotFound):  # there is none, or it has expired
            return self._chain.held(lambda: self._chain.footer(number)).token
        return ""

    def is_expirable(self, floors: Mapping[int, int], late_ms: int) -> bool:
        self._watch.check()
        return self._chain.is_expirable(*expiry_of(self._location, floors, now_ms() - late_ms))

    def close(self) -> None:
        self._rest = None

    def _last(self, bucket: int, start: int, end: int | None) -> int:
        """The end of a bucket as far as a read needs it; asks for later segments only if the known ones are too few."""
        if self._known_end(bucket) < (start if end is None else end):
            self._chain.newest()
        is_asked = bucket in self._asked
        self._asked.discard(bucket)
        has_advanced = False
        while end is None and not is_asked and self._known_end(bucket) <= start and self._chain.advance():
            has_advanced = True
        if has_advanced and self._known_end(bucket) <= start:
            self._chain.confirm()  # segments without records of the bucket may be below the floor
        return self._known_end(bucket)

    def _has_after(self, positions: Mapping[int, int]) -> bool:
        return any(self._known_end(bucket) > offset for bucket, offset in positions.items())

    def _known_end(self, bucket: int) -> int:
        return self._chain.held(lambda: self._chain.starts(self._chain.known + 1))[bucket]

    def _confirmed(self, bucket: int, start: int, end: int, limit: int) -> pa.Table:
        """``_fetch``, whose segments count: none of them expired before they were read."""
        while True:
            known = self._chain.known_floor
            try:
                records, number = self._fetch(known, bucket, start, end, limit)
            except (NotFound, Corrupt):
                floor, number = self._chain.confirm(is_gone=True), -1
                if floor == known.number:
                    raise
            else:
                floor = self._chain.confirm()
            first = self._chain.known_floor.offsets[bucket]
            if start < first:
                raise expired(bucket, start, first)
            if number >= floor:
                return records
            end = min(end, self._known_end(bucket))
            if start >= end:
                return RECORDS_SCHEMA.empty_table()

    def _fetch(self, floor: Floor, bucket: int, start: int, end: int, limit: int) -> tuple[pa.Table, int]:
        """The records of the batches with these offsets, and the first segment read.

        The first and the last batch may have other offsets, too.
        """
        batches, first = self._batches(floor, bucket, start, end, limit)
        try:
            records = decode(batches)
        except (Corrupt, UnsupportedFeature) as why:
            raise self._damaged(bucket, start) from why
        offsets = records.column("offset").to_numpy()
        if len(offsets) != sum(batch.count for batch in batches) or (np.diff(offsets) != 1).any():
            raise self._damaged(bucket, start)
        return records, first

    def _damaged(self, bucket: int, start: int) -> Corrupt:
        return Corrupt(
            f"the log in '{self._location.address}' is damaged after offset {start} of bucket {bucket}, in or before "
            f"'{self._chain.path(self._at.get(bucket, 0))}'. The rows are in the files; recreate the table to write to "
            "a log again"
        )

    def _batches(self, floor: Floor, bucket: int, start: int, end: int, limit: int) -> tuple[list[RecordBatch], int]:
        number = self._at.get(bucket, -1)
        is_near = number >= floor.number and self._chain.starts(number)[bucket] <= start
        steps = min(_NEAR, self._chain.known - number) if is_near else 0
        while steps > 0 and self._chain.footer(number).ends[bucket] <= start:
            number, steps = number + 1, steps - 1
        if not is_near or self._chain.footer(number).ends[bucket] <= start:
            number = self._chain.first(lambda segment: segment.ends[bucket] > start)
        first, size = number, 0
        batches: list[RecordBatch] = []
        while limit > 0 and size < READ_BYTES and self._chain.starts(number)[bucket] < end:
            segment = self._chain.footer(number)
            parts = [
                p for p in segment.parts if p.bucket == bucket and p.first + p.count > start and p.first < end
            ]  # fmt: skip
            if parts:
                with self._chain.opened(number) as file:
                    for part in parts:
                        path = self._chain.path(number)
                        batches.append(unpacked(read_batch(file, part, segment.timestamp_ms, path)))
                        limit -= part.first + part.count - max(part.first, start)
                        size += len(batches[-1].payload)
                        if limit <= 0 or size >= READ_BYTES:
                            break
            self._at[bucket] = number
            number += 1
        return batches, first

    def _chosen(self, offsets: Sequence[int], buckets: Sequence[int] | None) -> dict[int, int]:
        return {bucket: offsets[bucket] for bucket in (range(len(offsets)) if buckets is None else buckets)}
