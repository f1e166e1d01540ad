"""Queue of one bucket: makes record batches of appended records, and holds them in order until the acknowledgement."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.errors import LakelogError
from lakelog.io.clock import now_ms
from lakelog.logstore.base import LogLocation, PendingAppend, Records
from lakelog.logstore.kafka.topic import unavailable
from lakelog.logstore.record_batch.batch import RecordBatch
from lakelog.logstore.record_batch.encoder import encode

_SEQUENCES: Final = 1 << 31


class Acknowledged(PendingAppend):
    """The offsets of one append, from the answers to its batches."""

    def __init__(self, bucket: int, count: int, location: LogLocation) -> None:
        self.bucket, self._count, self._location = bucket, count, location
        self._ranges: list[tuple[int, int]] = []
        self.failure: LakelogError | None = None

    def add(self, first: int, count: int) -> None:
        """Adds the offsets of some of the records, in order."""
        self._ranges.append((first, first + count))

    @property
    def is_complete(self) -> bool:
        """True if all records are acknowledged."""
        return sum(end - first for first, end in self._ranges) == self._count

    @property
    def entries(self) -> int:
        return self._count

    @property
    def ends(self) -> tuple[int, int] | None:
        """The first and the last offset."""
        return (self._ranges[0][0], self._ranges[-1][1] - 1) if self._ranges else None

    def offsets(self) -> pa.Int64Array:
        if self.failure is not None:
            raise self.failure
        if not self.is_complete:
            raise unavailable(self._location, "records are not acknowledged")
        parts = [np.arange(first, end) for first, end in self._ranges]
        return pa.array(np.concatenate(parts) if parts else np.zeros(0, np.int64), pa.int64())


@dataclass(eq=False)
class Unacknowledged:
    """A batch without an answer. ``records`` are kept to split it; ``owners`` are its appends with their counts."""

    batch: RecordBatch
    records: Records
    owners: list[tuple[Acknowledged, int]]
    offset: int | None = None
    is_sent: bool = False

    @property
    def size(self) -> int:
        """Compressed bytes."""
        return len(self.batch.payload)


@dataclass(eq=False)
class AppendQueue:
    """The batches of one bucket, in order; ``in_flight`` of them are on their way.

    ``is_broken``: one of them failed, so that the broker refuses all later ones. They are sent again when all have an
    answer. ``bytes`` are those of all batches. The broker takes any sequence from a producer that is new to it, so the
    first batch is alone on its way: otherwise, the second could be stored when the first is refused.
    """

    bucket: int
    batches: deque[Unacknowledged] = field(default_factory=deque)
    bytes: int = 0
    in_flight: int = 0
    is_broken: bool = False
    _sequence: int = 0
    _is_known: bool = False

    def add(self, appends: Sequence[tuple[Acknowledged, Records]], max_bytes: int) -> None:
        """Adds the records of appends as batches of at most ``max_bytes``, across their borders."""
        records = _joined([part for _, part in appends])
        owners, start = deque((append, len(part)) for append, part in appends), 0
        for batch in encode(records, now_ms(), max_bytes=max_bytes):
            part = _slice(records, start, batch.count)
            self.batches.append(Unacknowledged(batch, part, _taken(owners, batch.count)))
            self.bytes += len(batch.payload)
            start += batch.count

    def next_to_send(self) -> Unacknowledged | None:
        if self.is_broken or (self.in_flight and not self._is_known):
            return None
        return next((batch for batch in self.batches if not batch.is_sent and batch.offset is None), None)

    def number(self, waiting: Unacknowledged, producer_id: int, epoch: int) -> None:
        """Marks a batch as sent; it gets its sequence number when it is sent first, and keeps it."""
        batch = waiting.batch
        if batch.base_sequence < 0:
            waiting.batch = replace(batch, producer_id=producer_id, producer_epoch=epoch, base_sequence=self._sequence)
            self._sequence = (self._sequence + batch.count) % _SEQUENCES
        waiting.is_sent = True
        self.in_flight += 1

    def complete(self) -> None:
        """Passes on the offsets of stored batches in order; sends the others again once all have an answer."""
        while self.batches and (first := self.batches[0].offset) is not None:
            done = self.batches.popleft()
            self._is_known = True
            for pending, count in done.owners:
                pending.add(first, count)
                first += count
            self.bytes -= done.size
        if self.is_broken and not self.in_flight:
            self.is_broken = False
            for batch in self.batches:
                batch.is_sent = False

    def split(self, large: Unacknowledged) -> None:
        """Replaces a batch by two of half the records, with the same sequence numbers."""
        position, whole = self.batches.index(large), large.batch
        owners, start = deque(large.owners), 0
        del self.batches[position]
        self.bytes -= large.size
        for count in (whole.count // 2, whole.count - whole.count // 2):
            part = _slice(large.records, start, count)
            (batch,) = encode(part, whole.base_timestamp, max_bytes=_SEQUENCES)
            sequence = (whole.base_sequence + start) % _SEQUENCES
            batch = replace(
                batch,
                producer_id=whole.producer_id,
                producer_epoch=whole.producer_epoch,
                base_sequence=sequence,
            )
            self.batches.insert(position, Unacknowledged(batch, part, _taken(owners, count)))
            self.bytes += len(batch.payload)
            position, start = position + 1, start + count


def _joined(parts: list[Records]) -> Records:
    """The records of several appends as one."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0].headers
    if isinstance(first, bytes) and all(part.headers == first for part in parts):
        headers: bytes | list[bytes] = first
    else:
        headers = [h for p in parts for h in ([p.headers] * len(p) if isinstance(p.headers, bytes) else p.headers)]
    keys, values = (pa.concat_arrays(arrays) for arrays in ([p.keys for p in parts], [p.values for p in parts]))
    return Records(keys, values, headers)


def _slice(records: Records, start: int, count: int) -> Records:
    headers = records.headers if isinstance(records.headers, bytes) else records.headers[start : start + count]
    return Records(records.keys.slice(start, count), records.values.slice(start, count), headers)


def _taken(owners: deque[tuple[Acknowledged, int]], count: int) -> list[tuple[Acknowledged, int]]:
    """Removes the owners of the first ``count`` records."""
    taken = []
    while count:
        owner, has = owners.popleft()
        taken.append((owner, min(has, count)))
        if has > count:
            owners.appendleft((owner, has - count))
        count -= min(has, count)
    return taken
