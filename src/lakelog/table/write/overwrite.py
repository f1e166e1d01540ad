"""Replaces partitions or a whole table with new rows, or with none, as one snapshot.

An overwrite writes data files only and has no epoch, because its snapshot is the decision. It is therefore atomic, and
a crash before the snapshot leaves unreferenced files. Epochs that were decided before its commit are sealed first and
replaced with the rest; later ones follow it. If readers of a log need a delete of each row, it is an epoch instead
(``replaced_rows.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Literal, Self

from lakelog.errors import CommitConflict, CommitUnknown, InvalidRequest, LakelogError, NotFound, UnsupportedFeature
from lakelog.filestore.commit.lost_race import LostRace, until_won
from lakelog.filestore.commit.request import CommitRequest, Overwrite
from lakelog.filestore.read.changes import lowest_changelog_level
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.io.clock import now_ms
from lakelog.io.names import new_uuid
from lakelog.paimon.metadata.manifest import ManifestEntry
from lakelog.paimon.metadata.snapshot import COMPACT, OVERWRITE, Snapshot
from lakelog.table.commit.file_commit import level0_files
from lakelog.table.commit.replacement import commit_replacement
from lakelog.table.maintenance.retention import expire_best_effort
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_generation import carried_properties
from lakelog.table.model.partition_selection import (
    OverwriteTarget,
    existing_partitions,
    overwrite_target,
    partitions_meeting,
)
from lakelog.table.model.row_counts import RowCounts, WrittenRows, row_counts
from lakelog.table.read.union_scan import merged_on_read
from lakelog.table.rejected.rows import check_not_given
from lakelog.table.runs.dynamic_buckets import AssignedFiles, forget_unassigned
from lakelog.table.runs.sequencing import sequence_runs
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write.replaced_rows import (
    check_overwrite,
    files_alone,
    one_overwrite,
    replace_rows,
    replaces_rows,
)
from lakelog.table.write.table_writer import RowWriter

_COUNTED_ROWS: Final = 1_000_000
"""Maximum number of rows in overlapping files that a delete of whole partitions reads, to count its rows."""


def commit_overwrite(
    table: DynamicTable,
    writer: str,
    results: Sequence[AttemptResult],
    target: OverwriteTarget,
    since: int | None = None,
) -> Snapshot | None:
    """Replaces the target with the rows of the accepted attempts; None if there is nothing to replace.

    1 seal all epochs decided before · 2 write the small runs of the attempts as level-0 files · 3 commit, if no further
    partition has become part of the target. ``writer`` makes it happen once: it may have happened in a snapshot after
    ``since`` (None: it was not tried yet). Raises CommitConflict, CommitUnknown (retry), and InvalidRequest for rows
    outside of the target.
    """
    # 1
    with one_overwrite(table):
        return _overwritten(table, writer, results, target, since)


def _overwritten(
    table: DynamicTable, writer: str, results: Sequence[AttemptResult], target: OverwriteTarget, since: int | None
) -> Snapshot | None:
    # 2
    record = EpochRecord(writer, 0, now_ms(), tuple(results))
    runs = sequence_runs([record], {})
    files = level0_files(table, runs, None)
    written = {b.partition for b in files.files}

    # 3
    def attempt() -> Snapshot | None:
        replaced = target.replaced(_live_partitions(table, table.store.latest_snapshot()), written, table.schema)
        if replaced is None:
            return None
        if not replaces_rows(table):
            snapshot = _commit(table, writer, files, replaced, target, since)
            forget_unassigned(table, runs)
            return snapshot
        snapshot_of_rows = replace_rows(table, replaced.partitions, files.files)
        with contextlib.suppress(LakelogError):  # the rows are committed, and orphan cleaning finds the rest
            if not files.files:
                _drop_emptied(table, replaced.partitions)
            files.delete(table)
            forget_unassigned(table, runs)
        return snapshot_of_rows

    return until_won(table.name, attempt)


def truncate(table: DynamicTable, values: Mapping[str, object] | None = None) -> Snapshot | None:
    """Empties the table, or the partitions with these values. Raises NotFound if none has them."""
    table.check_rows_writable()
    if values:
        return drop_partitions(table, [values])
    return commit_overwrite(table, f"truncate-{new_uuid()}", (), OverwriteTarget())


def drop_partitions(
    table: DynamicTable, specs: Sequence[Mapping[str, object]], if_exists: bool = False
) -> Snapshot | None:
    """Removes the partitions with the values of one of the specs, all in one snapshot; None if there are none.

    Raises NotFound for a spec without a partition, unless ``if_exists``.
    """
    with one_overwrite(table):
        partitions = existing_partitions(
            table, _live_partitions(table, table.store.latest_snapshot()), specs, if_exists
        )
        return remove_partitions(table, partitions)


def remove_partitions(table: DynamicTable, partitions: frozenset[bytes]) -> Snapshot | None:
    """Removes partitions (serialised rows) in one snapshot; None if there are none. In ``one_overwrite``."""
    if not partitions:
        return None
    if replaces_rows(table):
        snapshot = replace_rows(table, partitions)
        with contextlib.suppress(LakelogError):  # the rows are deleted, and a compaction removes the files, too
            _drop_emptied(table, partitions)
        return snapshot
    return _drop_files(table, partitions, OVERWRITE, lambda latest: carried_properties(table, latest))


def _drop_emptied(table: DynamicTable, partitions: frozenset[bytes] | None) -> None:
    """Drops the files of those of some partitions (None: all) that have no visible row.

    Raises CommitConflict if they change meanwhile. As in a compaction, no row changes: readers of changes skip the
    snapshot. Files stay that a compaction reads to produce the changelog, because they have the deletes.
    """
    read, checked = merged_on_read(table).store, table.store.latest_snapshot()
    splits = read.plan(checked, partitions=partitions)
    kept = {s.partition for s in splits if any(batch.num_rows for batch in read.read_split(s))}
    files = table.store.live_entries(checked, partitions)
    kept |= {e.partition for e in files if e.file.level < lowest_changelog_level(table.schema)}
    emptied = frozenset(e.partition for e in files) - kept
    if not emptied:
        return

    def names(entries: Iterable[ManifestEntry]) -> set[tuple[bytes, str]]:
        return {(e.partition, e.file.file_name) for e in entries if e.partition in emptied}

    def unchanged(latest: Snapshot | None) -> Mapping[str, str]:
        if names(table.store.live_entries(latest, emptied)) != names(files):
            raise CommitConflict(f"table {table.name}: another writer has changed the partitions meanwhile")
        return carried_properties(table, latest)

    _drop_files(table, emptied, COMPACT, unchanged)


def _drop_files(
    table: DynamicTable,
    partitions: frozenset[bytes],
    kind: str,
    prepare: Callable[[Snapshot | None], Mapping[str, str]],
) -> Snapshot:
    request = CommitRequest(
        f"drop-{new_uuid()}", 0, kind, overwrite=Overwrite(partitions), prepare=prepare, first_try=True
    )
    return commit_replacement(table, request)


def delete_partitions(table: DynamicTable, condition: Predicate | None) -> RowCounts:
    """Deletes the partitions that match a condition on partition columns, or all rows without one, in one snapshot.

    Metadata counts the rows. The keys of files that overlap are read, if they are few; else the count is None. Raises
    UnsupportedFeature for a condition on other columns.
    """
    if condition is None:
        return _removed_rows(table, truncate(table), None)
    keys = table.schema.partition_keys
    others = sorted(condition.columns - set(keys))
    if others:
        raise UnsupportedFeature(
            f"cannot delete by {', '.join(others)} from table {table.name}: only whole partitions can be deleted, and "
            f"the partition columns are {', '.join(keys) or 'none'}. If the table has a primary key, write the rows "
            "with the row kind '-D'"
        )
    with one_overwrite(table):
        live = _live_partitions(table, table.store.latest_snapshot())
        partitions = partitions_meeting(table.schema, live, condition)
        return _removed_rows(table, remove_partitions(table, partitions), partitions)


def _removed_rows(table: DynamicTable, snapshot: Snapshot | None, partitions: Collection[bytes] | None) -> RowCounts:
    """The rows of these partitions (None: all) in the snapshot before the one that has removed them."""
    if snapshot is None:
        return row_counts()
    with contextlib.suppress(NotFound):  # expired meanwhile
        splits = table.store.plan(snapshot_id=snapshot.id - 1, partitions=partitions)
        exact = [split.exact_rows for split in splits]
        merged = [split for split, rows in zip(splits, exact, strict=True) if rows is None]
        if sum(split.row_count for split in merged) > _COUNTED_ROWS:
            return row_counts(deleted=None)
        column = (table.schema.primary_keys or table.schema.field_names)[:1]
        read = sum(batch.num_rows for split in merged for batch in table.store.read_split(split, column))
        return row_counts(deleted=read + sum(rows for rows in exact if rows is not None))
    return row_counts(deleted=None)


def _commit(
    table: DynamicTable,
    writer: str,
    files: AssignedFiles,
    replaced: Overwrite,
    target: OverwriteTarget,
    since: int | None,
) -> Snapshot:
    def properties(latest: Snapshot | None) -> Mapping[str, str]:
        if target.values and not target.by_rows:
            live = _live_partitions(table, latest)
            if any(target.matches(p, table.schema) and not replaced.covers(p) for p in live):
                raise LostRace("other writers add partitions that the overwrite covers")
        return carried_properties(table, latest)

    request = CommitRequest(
        writer,
        0,
        OVERWRITE,
        files.files,
        prepare=properties,
        first_try=since is None,
        since=since,
        overwrite=replaced,
        index=files.index,
    )
    return commit_replacement(table, request)


def _live_partitions(table: DynamicTable, snapshot: Snapshot | None) -> set[bytes]:
    return {e.partition for e in table.store.live_entries(snapshot)}


class OverwriteWriter(RowWriter):
    """Replaces the target with new rows; use it as a context manager.

    Nothing is visible before the block ends or ``commit`` is called; an exception in the block changes nothing. Failed
    calls of ``write`` are as in ``TableWriter``. Without rows the target becomes empty, but after ``abort`` it stays
    as it is. Raises UnsupportedFeature on creation as ``check_overwrite``. Several threads may share it.
    """

    def __init__(self, table: DynamicTable, target: OverwriteTarget) -> None:
        check_overwrite(table)
        check_not_given(table)
        super().__init__(table, "overwrite")
        self._target = target
        self._writer = f"overwrite-{new_uuid()}"
        self._task = self._first_task()
        self._result: AttemptResult | None = None
        self._since: int | None = None
        self._is_committed = False

    @property
    def counts(self) -> RowCounts:
        """The new rows, once they are committed; the replaced ones are not counted (None)."""
        done = (self._result,) if self._is_committed and self._result is not None else ()
        return WrittenRows.of(done).as_overwrite

    def commit(self) -> Snapshot | None:
        """Replaces the target with the rows so far; None if there is nothing to replace.

        Raises CommitConflict, CommitUnknown (retry: it checks the outcome first), InvalidRequest.
        """
        with self._lock:
            if self._result is None:
                self._check_open()
                if self._task is None:  # aborted
                    return None
                self._result = self._task.finish()
            elif self._is_closed:
                self._check_open()
            newest = self._table.store.snapshots.latest_id() or 0 if self._since is None else self._since
            try:
                snapshot = commit_overwrite(self._table, self._writer, [self._result], self._target, self._since)
            except CommitUnknown:
                self._since = newest
                raise
            self._is_committed = self._is_closed = True
            expire_best_effort(self._table)
            return snapshot

    def abort(self) -> None:
        """Drops the rows so far, also after a failure. Rows that come next replace the target; without any it stays.

        Raises InvalidRequest after a commit that may have replaced it.
        """
        with self._lock:
            if self._result is not None:
                raise InvalidRequest(f"{self._name} is complete: open a new writer")
            if self._task is not None:
                self._task.close()
            self._task, self._failure = None, None

    def close(self) -> None:
        """Drops uncommitted rows; the writer is then closed."""
        with self._lock:
            self._is_closed, self._failure = True, None
            if self._task is not None:
                self._task.close()

    def _first_task(self) -> TaskWriter:
        return TaskWriter(files_alone(self._table), self._writer, 0, lane=0, replaces=True)

    def _check_open(self) -> None:
        if self._is_closed or self._result is not None:
            raise InvalidRequest(f"{self._name} is complete: open a new writer")
        super()._check_open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and not self._is_closed:
                self.commit()
        except CommitUnknown:
            # unknown outcome: stays open, so that ``commit`` can be called again
            raise
        except BaseException:
            self.close()
            raise
        self.close()


def overwrite_writer(table: DynamicTable, overwrite: Literal[True] | Mapping[str, object]) -> OverwriteWriter:
    """A writer that replaces the partitions with these values, or, with True, those of ``overwrite_target``."""
    return OverwriteWriter(table, overwrite_target(table, None if overwrite is True else overwrite))
