"""Reads of a log in files, from any offset; waits by asking for the next segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from lakelog.errors import Corrupt, NotFound, UnsupportedFeature
from lakelog.io.clock import monotonic_s, sleep
from lakelog.logstore.base import LARGEST_OFFSET, RECORDS_SCHEMA, LogLocation, LogReader
from lakelog.logstore.files.chain import Floor, SegmentChain
from lakelog.logstore.files.segment import read_batch
from lakelog.logstore.local_log import expired
from lakelog.logstore.record_batch.batch import RecordBatch
from lakelog.logstore.record_batch.decoder import decode
from lakelog.logstore.topic_identity import IdentityWatch

_LOCAL_POLL_S = (0.0005, 0.01)
_REMOTE_POLL_S = (0.01, 1.0)
"""Shortest and longest pause between two requests for the next segment: it grows by half while nothing comes."""
_GROWTH = 1.5
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
        self._busy_until_s = 0.0

    @property
    def is_stale(self) -> bool:
        return self._watch.is_stale

    def read(self, bucket: int, start: int, end: int | None = None, max_records: int = 100_000) -> pa.Table:
        self._watch.check()
        if not 0 <= bucket < self._location.buckets:
            raise NotFound(f"the log in '{self._location.address}' has no bucket {bucket}")
        end = LARGEST_OFFSET if end is None else end
        newest, floor = self._chain.newest(), self._chain.floor
        first = floor.offsets[bucket]
        last = self._chain.held(lambda: self._chain.starts(newest + 1))[bucket]
        if start < first:
            raise expired(bucket, start, first)
        if start > last:
            raise NotFound(
                f"offset {start} of bucket {bucket} is after the end of the log in '{self._location.address}', {last}: "
                "an older copy replaced it, or the offset belongs to another log"
            )
        if start >= min(end, last):
            return RECORDS_SCHEMA.empty_table()
        is_next = self._rest is not None and self._rest[:2] == (bucket, start)
        found = self._rest[2] if self._rest is not None and is_next else RECORDS_SCHEMA.empty_table()
        held, left = start + found.num_rows, max_records - found.num_rows
        if held < min(end, last) and left > 0:
            try:
                found = pa.concat_tables([found, self._fetch(floor, bucket, held, min(end, last), left)])
            except (NotFound, Corrupt):
                self._check_not_expired(bucket, held)
                raise
            self._check_not_expired(bucket, held)
        low, high = np.searchsorted(found.column("offset").to_numpy(), [start, end])
        taken = found.slice(low, min(high - low, max_records))
        behind = low + taken.num_rows
        self._rest = (bucket, start + taken.num_rows, found.slice(behind)) if behind < found.num_rows else None
        return taken

    def wait(self, positions: Mapping[int, int], timeout_s: float) -> None:
        deadline = monotonic_s() + timeout_s
        is_remote = "://" in self._location.address
        pause, longest = _REMOTE_POLL_S if is_remote else _LOCAL_POLL_S
        while True:
            ends, now = self.end_offsets(list(positions)), monotonic_s()
            if any(ends[bucket] > offset for bucket, offset in positions.items()):
                self._busy_until_s = 0.0 if is_remote else now + _SOON_S
                return
            if now >= deadline:
                return
            sleep(min(pause, deadline - now))
            pause = pause if now < self._busy_until_s else min(longest, pause * _GROWTH)

    def end_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        self._watch.check()
        return self._chosen(self._chain.ends, buckets)

    def first_offsets(self, buckets: Sequence[int] | None = None) -> dict[int, int]:
        self._watch.check()
        return self._chosen(self._chain.floor.offsets, buckets)

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        self._watch.check()
        _ = self._chain.floor
        number = self._chain.first(lambda segment: segment.timestamp_ms >= timestamp_ms)
        return dict(enumerate(self._chain.starts(number)))

    def close(self) -> None:
        self._rest = None

    def _check_not_expired(self, bucket: int, start: int) -> None:
        """Raises OffsetExpired if records expired while they were read: others may have their numbers by then."""
        first = self._chain.floor.offsets[bucket]
        if start < first:
            raise expired(bucket, start, first)

    def _fetch(self, floor: Floor, bucket: int, start: int, end: int, limit: int) -> pa.Table:
        """The records of the batches with these offsets; the first and the last batch may have others, too."""
        batches = self._batches(floor, bucket, start, end, limit)
        try:
            found = decode(batches)
        except (Corrupt, UnsupportedFeature) as why:
            raise self._damaged(bucket, start) from why
        offsets = found.column("offset").to_numpy()
        if len(offsets) != sum(batch.count for batch in batches) or (np.diff(offsets) != 1).any():
            raise self._damaged(bucket, start)
        return found

    def _damaged(self, bucket: int, start: int) -> Corrupt:
        return Corrupt(
            f"the log in '{self._location.address}' is damaged after offset {start} of bucket {bucket}, in or before "
            f"'{self._chain.path(self._at.get(bucket, 0))}'. The rows are in the files; recreate the table to write to "
            "a log again"
        )

    def _batches(self, floor: Floor, bucket: int, start: int, end: int, limit: int) -> list[RecordBatch]:
        number = self._at.get(bucket, -1)
        is_next = number >= floor.number and self._chain.starts(number)[bucket] <= start
        if not is_next or self._chain.footer(number).ends[bucket] <= start:
            number = self._chain.first(lambda segment: segment.ends[bucket] > start)
        batches: list[RecordBatch] = []
        while limit > 0 and self._chain.starts(number)[bucket] < end:
            segment = self._chain.footer(number)
            parts = [
                p for p in segment.parts if p.bucket == bucket and p.first + p.count > start and p.first < end
            ]  # fmt: skip
            if parts:
                with self._chain.opened(number) as file:
                    for part in parts:
                        batches.append(read_batch(file, part, segment.timestamp_ms, self._chain.path(number)))
                        limit -= part.first + part.count - max(part.first, start)
                        if limit <= 0:
                            break
            self._at[bucket] = number
            number += 1
        return batches

    def _chosen(self, offsets: Sequence[int], buckets: Sequence[int] | None) -> dict[int, int]:
        return {bucket: offsets[bucket] for bucket in (range(len(offsets)) if buckets is None else buckets)}
