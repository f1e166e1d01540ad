"""Follows the log from any start, without Spark, with an optional first snapshot and optional whole changes."""

from __future__ import annotations

import contextlib
import shutil
import threading
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidRequest, NotFound, OffsetExpired
from lakelog.filestore.read.plan import Split
from lakelog.io.clock import monotonic_s
from lakelog.io.scratch import new_scratch
from lakelog.options.log import EXPIRED_OFFSETS
from lakelog.table.log.committed_reader import VisibleBatch
from lakelog.table.log.position import LogPosition, SnapshotCutover
from lakelog.table.log.scan import LogScan
from lakelog.table.model.log_generation import LogWatch
from lakelog.table.read.snapshot_switch import SnapshotPart, latest_full, start_position
from lakelog.table.tail.normalizer import Normalizer, StreamOrigin, StreamStates, normalizes
from lakelog.table.tail.tail import PartialProgress, ResumeRequest, Step, Tail, TailPosition

Stop = str | threading.Event | None

_WAIT_S: Final = 0.5
"""Maximum sleep of a tail between two polls; a record wakes it at once."""
_DELETE_INTERVAL_S: Final = 60.0
"""Minimum time after which an older requested position is dropped for a newer one."""


def follow(scan: LogScan, start: str | Mapping[int, int] | None, stop: Stop) -> Tail:
    """The changes from any start: a mode, offsets by bucket, or the position of a tail.

    The tail runs without end, or up to the log's end at the start (``stop='latest'``). If ``stop`` is an event, it is
    checked a few times a second. The call itself resolves the position. Raises InvalidRequest; OffsetExpired if the
    log has lost records (unless ``scan.expired-offsets`` sets a fallback), NotFound if the snapshot expires during the
    read, Unavailable for the log.
    """
    check_stop(stop)
    is_position = isinstance(start, str) and start.startswith("{")
    position = (
        TailPosition.from_text(str(start), scan) if is_position else _beginning(scan, start_position(scan, start))
    )
    asked = ResumeRequest(position.log.offsets if is_position else None)
    return Tail(scan, position, _steps(scan, position, stop, asked), asked, ends=stop is not None)


def _beginning(scan: LogScan, log: LogPosition) -> TailPosition:
    return TailPosition(log, origin=StreamOrigin.new(log.offsets, log.full) if normalizes(scan.table) else None)


def _steps(scan: LogScan, position: TailPosition, stop: Stop, asked: ResumeRequest) -> Generator[Step]:
    """The steps from a position; if its records have expired, from the newest snapshot if the options allow it."""
    restarts = scan.table.options.need(EXPIRED_OFFSETS) == "latest-full"
    while True:
        with _states(scan, position, asked) as states:
            try:
                full = position.log.full
                splits = () if full is None else _part(scan, states).splits(full[0])
                if full is None and states is not None:
                    states.begin(scan.available_offsets(position.log.offsets))
            except NotFound:
                if not restarts:
                    raise
                position = _beginning(scan, latest_full(scan.table))
                continue
            if full is not None:
                for step in _full_steps(scan, position, splits, states, asked, stop):
                    position = step[1]
                    yield step
                if is_set(stop):
                    return
            try:
                yield from _LogSteps(scan, position, states, asked).steps(stop)
                if states is not None and asked.offsets is None:
                    asked.save = states.save_all
                elif states is not None:
                    states.save_all()
                return
            except OffsetExpired:
                if not restarts:
                    raise
                position = _beginning(scan, latest_full(scan.table))


@contextlib.contextmanager
def _states(scan: LogScan, position: TailPosition, asked: ResumeRequest) -> Iterator[StreamStates | None]:
    """The states of a tail that makes whole changes, in a local directory until its position is requested.

    After the end of the tail, they are closed once no position can be requested.
    """
    if position.origin is None:
        yield None
        return
    normalizer = Normalizer(replace(scan, switch=position.log.switch))
    directory = new_scratch("lakelog-normalize-")
    states = StreamStates(normalizer, position.origin, None if asked.offsets is not None else directory)
    asked.states = states
    remove = weakref.finalize(states, shutil.rmtree, directory, ignore_errors=True)
    try:
        yield states
    finally:
        if asked.save is None:
            states.close()
            remove()


def _part(scan: LogScan, states: StreamStates | None) -> SnapshotPart:
    return SnapshotPart(scan.table, scan.columns if states is None else states.normalizer.read_scan.columns)


def _full_steps(
    scan: LogScan,
    position: TailPosition,
    splits: Sequence[Split],
    states: StreamStates | None,
    asked: ResumeRequest,
    stop: Stop,
) -> Iterator[Step]:
    """The rest of the snapshot; the states receive all of it.

    They are saved before the position after it, if positions are requested, because the snapshot may then expire.
    """
    assert position.log.full is not None
    (snapshot, part), skipped_rows = position.log.full, 0 if position.partial is None else position.partial.rows
    for number, split in enumerate(splits):
        if number < part and states is None:
            continue
        rows = 0
        for batch in _part(scan, states).read(split):
            if is_set(stop):
                return
            if states is not None:
                states.take(split, batch)
            skipped = min(batch.num_rows, max(0, skipped_rows - rows)) if number == part else 0
            rows += batch.num_rows
            if number >= part and skipped < batch.num_rows:
                at = replace(
                    position, log=replace(position.log, full=(snapshot, number)), partial=PartialProgress(rows)
                )
                yield batch.slice(skipped).select(scan.schema.names), at
        if number >= part:
            yield None, replace(position, log=replace(position.log, full=(snapshot, number + 1)), partial=None)
    if states is not None and asked.offsets is not None:
        states.begin(position.log.offsets)
        states.save()
    yield None, replace(position, log=replace(position.log, full=None), partial=None)


class _LogSteps:
    """The records after a position, bucket by bucket as they arrive."""

    def __init__(
        self, scan: LogScan, position: TailPosition, states: StreamStates | None, asked: ResumeRequest
    ) -> None:
        read = scan if states is None else states.normalizer.read_scan
        self._scan = replace(read, switch=position.log.switch)
        self._position, self._states, self._asked = position, states, asked
        self._offsets = dict(position.log.offsets)
        self._deleted_at, self._droppable = monotonic_s(), asked.offsets

    def steps(self, stop: Stop) -> Iterator[Step]:
        """The steps up to the current end, until an event, or without end. Raises as ``follow``."""
        offsets, partial, states = self._offsets, self._position.partial, self._states
        offsets.update(self._scan.available_offsets(offsets))
        if states is not None:
            states.begin(offsets)
        ends, watch = self._scan.reader.end_offsets() if stop == "latest" else None, LogWatch(self._scan.table)
        if partial is not None and offsets == self._position.log.offsets:
            yield from self._remainder(partial)
        while ends is None or any(offsets[b] < ends[b] for b in offsets):
            self._keep_states()
            if is_set(stop):
                return
            moved = False
            for bucket, offset in offsets.items():
                if ends is not None and offset >= ends[bucket]:
                    continue
                records = self._read_on(bucket, None if ends is None else ends[bucket])
                if records.num_rows:
                    moved = True
                    yield from self._emitted(bucket, self._scan.parts(bucket, records), _end_of(records))
                elif ends is not None:  # the offsets below the end have a gap
                    yield from self._emitted(bucket, (), ends[bucket])
            watch.check()
            if not moved:
                yield None, replace(self._position, log=self._position.log.at(offsets), partial=None)
                self._scan.reader.wait(offsets, _WAIT_S)
        self._keep_states()

    def _read_on(self, bucket: int, end: int | None) -> pa.Table:
        """The current records at a position; if it has expired, it is moved, or raises OffsetExpired."""
        reader, most = self._scan.reader, self._scan.most_records
        try:
            records = reader.read(bucket, self._offsets[bucket], end, most)
        except OffsetExpired:
            self._offsets.update(self._scan.available_offsets({bucket: self._offsets[bucket]}))
            records = reader.read(bucket, self._offsets[bucket], end, most)
        return self._scan.known(bucket, records)

    def _remainder(self, partial: PartialProgress) -> Iterator[Step]:
        """The rest of a part with the position inside it."""
        bucket, scan = partial.bucket, self._scan
        if partial.first and self._states is None:  # a state needs the rows emitted before
            switch = scan.switch or SnapshotCutover(starts={}, ends={})
            scan = replace(scan, switch=replace(switch, floor={**switch.floor, bucket: partial.first}))
        records = self._read_on(bucket, partial.end)
        if records.num_rows and _end_of(records) < partial.end:  # large records end a read sooner
            rest = scan.records_between(bucket, _end_of(records), partial.end)
            records = pa.concat_tables([records, *rest])
        parts = scan.parts(bucket, records) if records.num_rows else ()
        yield from self._emitted(bucket, parts, partial.end, partial.first, partial.rows)

    def _emitted(
        self, bucket: int, parts: Iterator[VisibleBatch] | tuple[()], end: int, first: int = 0, skipped_rows: int = 0
    ) -> Iterator[Step]:
        """Parts of a bucket that end at an offset, without the rows below ``first`` and the next ``skipped_rows``."""
        for part in parts:
            records = self._without_old(bucket, part.records, first)
            rows = self._scan.decode(records, bucket)
            if self._states is not None:
                rows = self._states.fold(bucket, rows)
            batches = [batch for batch in rows.to_batches() if batch.num_rows]
            done = 0
            for number, batch in enumerate(batches, 1):
                done += batch.num_rows
                if done > skipped_rows:
                    at = self._at(bucket, part.start, PartialProgress(done, bucket, part.end, max(first, part.first)))
                    if number == len(batches):
                        at = self._after_part(bucket, part)
                    yield batch.slice(max(0, batch.num_rows - (done - skipped_rows))), at
            skipped_rows = max(0, skipped_rows - done)
        self._offsets[bucket] = end
        if self._states is not None:
            self._states.advance_to(bucket, end)
        yield None, self._at(bucket, end)

    def _without_old(self, bucket: int, records: pa.Table, first: int) -> pa.Table:
        if not first:
            return records
        is_new = pc.greater_equal(records.column("offset"), first)
        if pc.all(is_new).as_py():
            return records
        if self._states is not None:
            self._states.fold(bucket, self._scan.decode(records.filter(pc.invert(is_new)), bucket))
        return records.filter(is_new)

    def _after_part(self, bucket: int, part: VisibleBatch) -> TailPosition:
        if part.is_whole:
            return self._at(bucket, part.end)
        return self._at(bucket, part.start, PartialProgress(0, bucket, part.end, part.next))

    def _at(self, bucket: int, offset: int, partial: PartialProgress | None = None) -> TailPosition:
        log = self._position.log.at({**self._offsets, bucket: offset})
        return replace(self._position, log=log, partial=partial)

    def _keep_states(self) -> None:
        """At intervals, saves states after the first request for the position; they are between two records."""
        if self._states is None or self._asked.offsets is None:
            return
        self._states.keep()
        self._states.save_old()
        if monotonic_s() > self._deleted_at + _DELETE_INTERVAL_S:
            self._deleted_at = monotonic_s()
            if self._droppable is not None:
                self._states.delete_old_saves(self._droppable)
            self._droppable = self._asked.offsets


def check_stop(stop: Stop) -> None:
    """Raises InvalidRequest for a text that is no end."""
    if stop not in (None, "latest") and not isinstance(stop, threading.Event):
        raise InvalidRequest(f"stop={stop!r} is not known; use None (follow without end), 'latest' or an Event")


def is_set(stop: Stop) -> bool:
    """True if ``stop`` of a tail is an event that was set."""
    return isinstance(stop, threading.Event) and stop.is_set()


def _end_of(records: pa.Table) -> int:
    last: int = records.column("offset")[records.num_rows - 1].as_py()
    return last + 1
