"""Writes files from the rows that reached the log first, exactly once (*log first*).

A real-time query, or any other producer, appends rows that belong to no writer and no epoch. The follower reads the log
from the offsets in the newest snapshot, and commits one snapshot of the writerless rows that it finds. The offsets of
that snapshot are its new position. A follower may therefore die at any point, or run twice. Of several snapshots that
start at the same offsets only one is committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidRequest, InvalidSchema, NotFound, OffsetExpired
from lakelog.filestore.commit.lost_race import LostRace, until_won
from lakelog.io.clock import monotonic_s, now_ms, sleep
from lakelog.io.metrics import METER
from lakelog.io.names import new_uuid
from lakelog.logstore.clients import reader_for
from lakelog.logstore.protocol.header import are_unowned, schema_ids
from lakelog.options.log import CHANGELOG_MODES, COMMIT_INTERVAL, EMIT_MODE
from lakelog.options.metrics import ROWS_REJECTED
from lakelog.options.table import WRITE_ONLY
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.commit.file_commit import FileCommit
from lakelog.table.commit.seal import seal_staged
from lakelog.table.log.key_moves import with_moved_keys
from lakelog.table.log.register import register_follower
from lakelog.table.log.scan import LogScan
from lakelog.table.maintenance.background import worker_for
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_generation import checked_state
from lakelog.table.model.log_state import FOLLOWER, WriterState, newest_state
from lakelog.table.rejected.entries import RejectedEntries
from lakelog.table.rejected.rows import Rejects
from lakelog.table.rejected.sources import LogRecords
from lakelog.table.staging.task_writer import TaskWriter

_MOST_RECORDS: Final = 1_000_000
"""Maximum number of records in one snapshot; they are read in parts, and rows above the write buffer become files."""
_PASSED: Final = 1_000_000
"""Number of passed records without a writerless row after which a snapshot without rows stores the offsets.

It does so earlier if the last one is as old as ``LogLocation.note_every_s``, so that the position neither lags nor
expires.
"""
_READ_BYTES: Final = 32 << 20
"""Size of the records that are read at a time, if bad ones are rejected: both are then in memory."""
_FIRST_RECORDS: Final = 1_000
"""Number of records of the first of these reads; the size of each is an estimate for the next one."""
_LONGEST_READ_S: Final = 10.0
"""Time after which a step commits what it has read, so that a follower that is killed often makes progress."""
_WAIT_S: Final = 0.5
"""Maximum sleep of the follower between two polls; a record wakes it at once."""

Offsets = dict[int, int]


class LogMaterializer:
    """Follows the log of one table; not for several threads.

    If the next record is missing, ``skip_missing`` continues with the first existing one: the log has expired it, or
    was recreated. Without it that is an error, because the files will not have those rows.
    """

    def __init__(self, table: DynamicTable, skip_missing: bool = False) -> None:
        self._table = table.with_hints({EMIT_MODE.key: "file", CHANGELOG_MODES.key: "all-kinds"})
        self._skip_missing = skip_missing
        self._reader, self._note_every_s = reader_for(LogScan(table).location), LogScan(table).location.note_every_s
        self._base: WriterState | None = None
        self._offsets: Offsets = {}
        self._passed = self._since_ms = 0

    def follow(self, stop: str | None = None) -> Iterator[Snapshot]:
        """Commits snapshots and yields them, one per ``commit.interval`` while rows arrive.

        It runs without end or (``stop='latest'``) up to the current end of the log. It also compacts and expires unless
        ``write-only``. Raises OffsetExpired, NotFound (a recreated log), Unavailable, InvalidSchema for rows that do
        not fit the table, CommitConflict and CommitUnknown; the next follower resumes where it stopped.
        """
        if stop not in (None, "latest"):
            raise InvalidRequest(f"stop={stop!r} is not known; use None (follow without end) or 'latest'")
        register_follower(self._table)
        last = None if stop is None else self._reader.end_offsets()
        interval = self._table.options.need(COMMIT_INTERVAL).total_seconds()
        worker = None if self._table.options.need(WRITE_ONLY) else worker_for(self._table)
        while True:
            started = monotonic_s()
            if worker is not None:
                worker.wait_for_room(self._table)
                failure = worker.take_failure()
                if failure is not None:
                    raise failure
            ends = last or self._reader.end_offsets()
            snapshot = self._step(ends)
            if snapshot is not None:
                if worker is not None:
                    worker.notify(self._table)
                yield snapshot
            if any(self._offsets[bucket] < end for bucket, end in ends.items()):
                continue
            if last is not None:
                break
            if snapshot is not None:
                sleep(max(0.0, started + interval - monotonic_s()))
            else:
                self._reader.wait(self._offsets, _WAIT_S)
        if worker is not None:
            worker.wait()

    def _step(self, ends: Mapping[int, int]) -> Snapshot | None:
        """Reads towards ``ends`` and commits one snapshot of the rows it finds, None if it finds none.

        1 seal all decided epochs, and read the follower's position from the newest snapshot · 2 stage the writerless
        rows from there on · 3 commit them with the new offsets and the entries of rejected records, if the position has
        not changed. A crash leaves at most unreferenced files.
        """
        return until_won(self._table.name, lambda: self._attempt(ends))

    def _attempt(self, ends: Mapping[int, int]) -> Snapshot | None:
        try:
            # 1
            seal_staged(self._table)
            latest, state = newest_state(self._table.store)
            self._resume(state.writers.get(FOLLOWER), ends)
            # 2
            table = self._table.with_newest_schema()
            record = self._read(table, ends)
            if not record.row_count and not self._is_far():
                return None
            # 3
            snapshot = self._commit(table, record, latest)
            METER.add(ROWS_REJECTED, record.rejected_count, table=table.name)
            return snapshot
        except BaseException:
            self._offsets = {}  # uncommitted records are read again
            raise

    def _resume(self, base: WriterState | None, ends: Mapping[int, int]) -> None:
        """The offsets to resume from; offsets passed by this process count unless another follower was active."""
        if self._offsets and base == self._base:
            return
        first = self._reader.first_offsets()
        self._base, self._passed = base, 0
        self._since_ms = self._table.registered.all()[FOLLOWER].time_ms if base is None else base.time_ms
        self._offsets = {bucket: (base.verified if base else first).get(bucket, first[bucket]) for bucket in ends}

    def _is_far(self) -> bool:
        """True if the passed records without a row justify a snapshot, by number or by age in wall time."""
        is_old = now_ms() >= self._since_ms + self._note_every_s * 1000
        return self._passed >= _PASSED or (self._passed > 0 and is_old)

    def _read(self, table: DynamicTable, ends: Mapping[int, int]) -> EpochRecord:
        """Stages the writerless rows, up to the record limit; advances ``_offsets``."""
        scan, left, until_s = LogScan(table), _MOST_RECORDS, monotonic_s() + _LONGEST_READ_S
        epoch = 0 if self._base is None else self._base.epoch + 1
        rejects, offsets = Rejects.of(table, FOLLOWER, epoch, 0), dict(self._offsets)
        most_records = _MOST_RECORDS if rejects is None else _FIRST_RECORDS
        task = TaskWriter(table, FOLLOWER, epoch, lane=0, rejects=rejects)
        try:
            for bucket, end in ends.items():
                offsets[bucket] = self._next_available(bucket, offsets[bucket], end)
                while offsets[bucket] < end and left > 0 and monotonic_s() < until_s:
                    most = min(left, scan.most_records, most_records)
                    records = self._reader.read(bucket, offsets[bucket], end, most)
                    if records.num_rows == 0:  # the offsets below the end have a gap
                        offsets[bucket] = end
                        break
                    offsets[bucket] = records.column("offset")[records.num_rows - 1].as_py() + 1
                    left -= records.num_rows
                    if rejects is not None:
                        most_records = max(1, _READ_BYTES * records.num_rows // max(1, records.nbytes))
                    records = scan.known(bucket, records)
                    unowned = records.filter(are_unowned(records.column("header")))
                    ids = schema_ids(unowned.column("header"))
                    is_newer = ids is not None and ids.max() > table.schema.id
                    if is_newer and table.with_newest_schema().schema.id > table.schema.id:
                        raise LostRace("its schema changes")  # columns of the record would be lost
                    valued = unowned.filter(pc.is_valid(unowned.column("value")))
                    if rejects is not None:
                        task.write_good(LogRecords(table, valued, bucket))
                        continue
                    for lacks, part in scan.by_columns(valued):
                        rows = with_moved_keys(scan.decode(part, bucket), table).drop_columns(sorted(lacks))
                        with _naming(part if lacks else None, bucket):
                            for batch in rows.to_batches():
                                task.write(batch)
            result = task.finish()
        except BaseException:
            task.close()
            raise
        self._offsets = offsets
        self._passed += _MOST_RECORDS - left
        return EpochRecord(FOLLOWER, epoch, now_ms(), (result,))

    def _next_available(self, bucket: int, position: int, end: int) -> int:
        """The position, or with ``skip_missing`` the first existing one after it."""
        first = self._reader.first_offsets([bucket])[bucket]
        if first <= position and (position <= end or position <= self._reader.end_offsets([bucket])[bucket]):
            return position
        if self._skip_missing:
            return first
        how = "skip the expired records with skip_missing (--skip-missing on the command line)"
        if first > position:
            raise OffsetExpired(
                f"the log of table {self._table.name} expired records that are not in the files yet: bucket {bucket} "
                f"starts at offset {first}, the follower is at {position}. To avoid this, raise "
                f"'log-store.retention'; {how}"
            )
        raise NotFound(
            f"the log of table {self._table.name} ends before offset {position} of bucket {bucket}, the position of "
            f"the follower: the log was recreated. Its rows are in the files; to follow the new log, {how}"
        )

    def _commit(self, table: DynamicTable, record: EpochRecord, latest: Snapshot | None) -> Snapshot:
        base, rejected = self._base, RejectedEntries(table)
        reached = WriterState(record.epoch, dict(self._offsets), now_ms())

        def properties(newest: Snapshot | None) -> Mapping[str, str]:
            state = checked_state(table, newest)
            if state.writers.get(FOLLOWER) != base:  # or an unacknowledged commit of this one has advanced
                raise LostRace("other processes follow its log (run only one)")
            return rejected.following(state, [record]).with_writer(FOLLOWER, reached).to_properties()

        # A separate commit user, so that no commit of another follower is mistaken for this one.
        user = f"{FOLLOWER}-{new_uuid()}"
        snapshot = FileCommit(table, [record], properties, allow_empty=True, user=user).run(latest)
        assert snapshot is not None
        self._base, self._passed, self._since_ms = reached, 0, reached.time_ms
        return snapshot


@contextmanager
def _naming(records: pa.Table | None, bucket: int) -> Iterator[None]:
    """Context whose InvalidSchema names the first of some records."""
    try:
        yield
    except InvalidSchema as why:
        if records is None:
            raise
        offset = records.column("offset")[0].as_py()
        raise InvalidSchema(f"the record at offset {offset} of bucket {bucket} of the log: {why}") from None
