"""The simulation's calls of the log protocol, and the replaced parts of the code under test."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

import pyarrow as pa
from greenlet import getcurrent, greenlet
from simulated_process import Scheduler, Threading

from lakelog.catalog.base import Catalog, Identifier
from lakelog.errors import CommitConflict, Fenced, LakelogError, TableReplaced
from lakelog.filestore.metadata import identity, table_memory
from lakelog.filestore.metadata.table_memory import TableMemory
from lakelog.filestore.skipping.predicate import In
from lakelog.io import lease
from lakelog.options.log import SCAN_DATA_FILES
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.paimon.schema.changes import AddColumn, RenameColumn, SetOption
from lakelog.paimon.types.types import BIGINT
from lakelog.spark.write import batch_writer
from lakelog.table.alter import alter_table, rename_table
from lakelog.table.commit import committer, replay, seal_thread, seal_turn, take_over
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.replay import should_write_epoch
from lakelog.table.commit.seal import seal, seal_staged
from lakelog.table.commit.take_over import end_writer
from lakelog.table.create import drop_table
from lakelog.table.log.position import LogPosition, SnapshotCutover
from lakelog.table.log.register import register_writer
from lakelog.table.log.scan import LogScan
from lakelog.table.maintenance.retention import expire_snapshots
from lakelog.table.model import registrations, waiting_epochs
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import newest_state
from lakelog.table.model.partition_selection import overwrite_target
from lakelog.table.model.registrations import BATCH, REPLACEMENT
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.snapshot_switch import SnapshotPart, start_position
from lakelog.table.read.union_scan import union_scan
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write import replace_files, restore
from lakelog.table.write.overwrite import OverwriteWriter, truncate
from lakelog.table.write.replace_files import files_to_rewrite
from lakelog.table.write.replaced_rows import files_alone
from lakelog.table.write.table_writer import TableWriter

_SHARED_FAULT_RATE = 0.01
"""Schedules with this rate, the smaller of two, are that half; another random choice would change all schedules."""


class _OwnNumbers:
    """The module ``os`` with a process number of each simulated process."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def getpid(self) -> int:
        here = self._scheduler.here()
        return 0 if here is None else here.program.number


class _OwnWorkers(_OwnNumbers):
    """In half of the schedules all tasks of a query's run share a process, as in Spark."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self._number_of: dict[str, int] = {}

    def getpid(self) -> int:
        here, number = self._scheduler.here(), super().getpid()
        if here is None or self._scheduler.fault_rate > _SHARED_FAULT_RATE:
            return number
        return self._number_of.setdefault(here.program.name.partition("/")[0], number)


class _NoWorker:
    """The worker of a table whose option ``write-only`` leaves compactions to others."""

    def take_failure(self) -> None:
        return None


class _Everything(set[int]):
    """A set that contains everything, so that no schedule is the first to try something."""

    def __contains__(self, _: object) -> bool:
        return True


def seams(scheduler: Scheduler) -> Iterator[tuple[Any, str, Any]]:
    """(module, name, what stands there instead): what processes keep for themselves, and who knows which of them live.

    Called for each schedule.
    """
    replay._SEEN.clear()
    threading, numbers = Threading(scheduler), _OwnNumbers(scheduler)
    yield committer, "threading", threading
    yield seal_thread, "threading", threading
    yield seal_thread, "os", numbers
    yield seal_thread, "_SEALERS", {}
    yield seal_thread, "worker_for", lambda table: _NoWorker()
    yield replay, "os", _OwnWorkers(scheduler)
    yield identity, "os", numbers
    yield lease, "os", numbers
    yield lease, "threading", threading
    yield lease, "DURATION_MS", int(scheduler.lease_s * 1000)
    yield lease, "has_ended", lambda machine, process: process is not None and not scheduler.is_running(process)
    keeper = lease.LeaseKeeper()
    keeper._lock, keeper._wake = threading.Lock(), threading.Event()
    yield lease, "KEEPER", keeper
    yield registrations, "KEEPER", keeper
    yield table_memory, "_MEMORIES", {}
    yield table_memory, "TableMemory", partial(TableMemory, tried_schemas=_Everything())
    yield seal_turn, "_CLOSED", deque()
    yield restore, "TableWriter", _RollbackWriter
    yield restore, "state_changes", _state_changes


class StreamCommits:
    """The driver of a streaming query in one process, like ``spark.stream_writer``."""

    def __init__(self, table: DynamicTable, writer: str, run: str) -> None:
        self._committer = Committer(table, writer)
        self._run = run

    def commit(self, epoch: int, results: Sequence[AttemptResult]) -> None:
        """Decides and heals an epoch; the return acknowledges it."""
        self._committer.begin_run(self._run)
        self._committer.commit(epoch, results)

    def seal(self) -> None:
        """Runs the sealer's work of one ``commit.interval``."""
        seal(self._committer)
        take_over.take_over_best_effort(self._committer.table)


def stream_task(
    table: DynamicTable, writer: str, epoch: int, run: str, lane: int, rows: pa.RecordBatch
) -> AttemptResult:
    """Runs a task of a streaming query."""
    if not should_write_epoch(table, writer, epoch, run):
        return AttemptResult(writer, epoch, "", row_count=rows.num_rows, replay=True)
    return batch_writer.write_attempt(table, writer, epoch, lane, iter((rows,))).result


def batch_task(table: DynamicTable, writer: str, lane: int, rows: pa.RecordBatch) -> AttemptResult:
    """Runs a task of a Spark batch job, possibly in another process than the driver."""
    register_writer(table, writer, BATCH)
    return batch_writer.write_attempt(table, writer, 0, lane, iter((rows,))).result


def plan_batch(table: DynamicTable) -> None:
    """Runs the part of a Spark batch job before its tasks."""
    take_over.take_over_best_effort(table)


def commit_batch(table: DynamicTable, writer: str, results: Sequence[AttemptResult], no_other_tries: bool) -> None:
    """Runs the part after the tasks; ``no_other_tries`` means that each task ran once."""
    batch_writer._commit(table, writer, results, no_other_tries)


def take_back_batch(table: DynamicTable, writer: str, results: Sequence[AttemptResult]) -> bool:
    """What it does when they have failed; whether the rows surely count for nothing."""
    return batch_writer._take_back(table, writer, results)


def files_with(table: DynamicTable, ids: Sequence[int]) -> list[str]:
    """The data files that UPDATE, DELETE or MERGE of rows with these ids has to replace."""
    return files_to_rewrite(table, In("id", tuple(ids)))


def rows_of_files(table: DynamicTable, names: Sequence[str]) -> pa.Table:
    """The rows of some data files. Raises CommitConflict if one is no longer live."""
    return Scan(table.with_hints({SCAN_DATA_FILES.key: ",".join(names)})).to_arrow()


def rewritten(table: DynamicTable, user: str, rows: Sequence[pa.RecordBatch]) -> AttemptResult:
    """Runs the task of a statement that replaces files: stages the remaining and the new rows."""
    task = TaskWriter(files_alone(table), user, 0, lane=0, replaces=True)
    for batch in rows:
        task.write(batch)
    return task.finish()


def commit_rewrite(table: DynamicTable, user: str, results: Sequence[AttemptResult], names: Sequence[str]) -> None:
    """Replaces the data files."""
    replace_files.commit_rewrite(table, user, results, names)


def open_overwrite(table: DynamicTable) -> OverwriteWriter:
    """INSERT OVERWRITE."""
    return OverwriteWriter(table, overwrite_target(table))


def empty(table: DynamicTable) -> None:
    """TRUNCATE."""
    truncate(table)


_NOTED: Final[WeakKeyDictionary[greenlet, dict[int, int | None]]] = WeakKeyDictionary()
"""What the rollback of each thread writes."""


def roll_back(table: DynamicTable, snapshot_id: int, written: dict[int, int | None]) -> None:
    """Rolls a table back, and notes what is written for it by key."""
    _NOTED[getcurrent()] = written
    restore.roll_back(table, snapshot_id)


class _RollbackWriter(TableWriter):
    """A writer that notes its rows."""

    def write(self, rows: Any, *given: Any, **options: Any) -> None:
        ids, values, kinds = (rows.column(name).to_pylist() for name in ("id", "v", ROW_KIND_COLUMN))
        for kind, key, value in zip(kinds, ids, values, strict=True):
            if kind != "-U":
                _NOTED[getcurrent()][key] = None if kind == "-D" else value
        super().write(rows, *given, **options)


def _state_changes(
    table: DynamicTable, before: Snapshot | None, after: Snapshot, is_chain: bool
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """As ``state_changes``, of a table with a key."""
    store, names = table.store, table.schema.field_names
    sides = []
    for snapshot in (before, after):
        batches = [] if snapshot is None else [b for s in store.plan(snapshot) for b in store.read_split(s)]
        sides.append({row["id"]: row for batch in batches for row in batch.to_pylist()})
    old, new = sides
    rows = []
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            kinds = ("-U", "+U") if key in old and key in new else ("-D", "+I")
            pairs = zip(kinds, (old.get(key), new.get(key)), strict=True)
            rows += [{**row, ROW_KIND_COLUMN: kind} for kind, row in pairs if row is not None]
    if rows:
        fields = [pa.field(name, pa.int64()) for name in names] + [pa.field(ROW_KIND_COLUMN, pa.string())]
        yield 0, pa.RecordBatch.from_pylist(rows, pa.schema(fields))


def outcome_of_replacement(error: LakelogError) -> str:
    """The conclusion of a client from an error of a statement that replaces rows."""
    is_refused = isinstance(error, CommitConflict | Fenced) and not isinstance(error, TableReplaced)
    return "failed" if is_refused else "unknown"


def open_writer(table: DynamicTable) -> TableWriter:
    """``table.writer()`` without Spark."""
    return TableWriter(table)


def outcome_of(error: LakelogError) -> str:
    """The conclusion of a client from a commit error: ``failed`` (certainly not committed) or ``unknown``."""
    if isinstance(error, Fenced) and "was ended" in str(error):
        return "failed"
    return "unknown"


def maintain(table: DynamicTable) -> None:
    """Runs the optimizer once over abandoned epochs."""
    for _ in take_over.take_over(table):
        pass
    take_over.seal_abandoned(table)


def expire(table: DynamicTable, keep: int) -> None:
    """Expires all but the newest snapshots, whatever their age."""
    expire_snapshots(table, keep, 1, timedelta(0))


def add_column(catalog: Catalog, name: str) -> None:
    """ALTER TABLE … ADD COLUMN w."""
    alter_table(catalog, Identifier("db", name), [AddColumn(("w",), BIGINT)])


def rename_column(catalog: Catalog, name: str, adds: bool) -> None:
    """ALTER TABLE … RENAME COLUMN w TO x; with ``adds`` another column takes the name in the same statement."""
    added = [AddColumn(("w",), BIGINT)] if adds else []
    alter_table(catalog, Identifier("db", name), [RenameColumn(("w",), "x"), *added])


def swap_columns(catalog: Catalog, name: str) -> None:
    """ALTER TABLE …: w and x exchange their names."""
    renames = [RenameColumn((old,), new) for old, new in (("w", "y"), ("x", "w"), ("y", "x"))]
    alter_table(catalog, Identifier("db", name), renames)


def set_option(catalog: Catalog, name: str, value: int) -> None:
    """ALTER TABLE … SET."""
    alter_table(catalog, Identifier("db", name), [SetOption("snapshot.num-retained.max", str(value))])


def rename(catalog: Catalog, name: str, new: str) -> None:
    """ALTER TABLE … RENAME TO."""
    rename_table(catalog, Identifier("db", name), Identifier("db", new))


def drop(catalog: Catalog, name: str) -> None:
    """DROP TABLE IF EXISTS."""
    drop_table(catalog, Identifier("db", name), if_exists=True)


def seal_all(table: DynamicTable) -> None:
    """``Table.seal()``: for streams that have stopped."""
    seal_staged(table)


def end_stream(table: DynamicTable, writer: str) -> None:
    """Ends a streaming writer whose query continues with a new checkpoint, or never."""
    end_writer(table, writer)


def come_to_rest(table: DynamicTable) -> None:
    """The final pass, after which both stores are equal; no process lives, and all leases have expired."""
    maintain(table)


def decisions_left(table: DynamicTable) -> list[tuple[str, int]]:
    """(writer, epoch) of the epoch records that are not sealed and marked; none in an idle table.

    A void link after the last sealed one, of an epoch that was decided before, is deleted by the next seal.
    """
    found = waiting_epochs.waiting_epochs(table)
    left = {(r.writer, r.epoch) for r in (*found.waiting, *found.sealed)}
    return sorted(left)


def replacements_left(table: DynamicTable) -> list[str]:
    """The snapshots whose changes the log lacks, and the writers of such changes; none in an idle table."""
    open_writers = {name for name, r in table.registered.all().items() if name.startswith(REPLACEMENT) and r.is_open}
    return sorted(open_writers | newest_state(table.store)[1].missing.keys())


def batch_read(table: DynamicTable) -> pa.Table:
    """A batch read of the newest state."""
    return Scan(table).to_arrow()


def union_read(table: DynamicTable) -> pa.Table:
    """A batch read of both stores."""
    return union_scan(table).to_arrow()


def transactional(table: DynamicTable) -> DynamicTable:
    """A transactional read of the table."""
    return table.with_hints({"log.consistency": "transactional"})


def begin_reading(table: DynamicTable, start: str) -> LogPosition:
    """The start position of a new reader of the log."""
    return start_position(LogScan(table), start)


def log_scan(table: DynamicTable, switch: SnapshotCutover | None = None) -> LogScan:
    """A read of the log, without the rows of a snapshot."""
    return LogScan(table, switch=switch)


def full_rows(table: DynamicTable, snapshot: int) -> Iterator[pa.RecordBatch]:
    """The first snapshot of a reader of the log."""
    part = SnapshotPart(table)
    for split in part.splits(snapshot):
        yield from part.read(split)
