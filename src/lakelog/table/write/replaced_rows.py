"""An overwrite of a table with a primary key and a log of input rows: one epoch of deletes and new rows.

Readers of such a log see rows one by one. So the log gets a delete of each replaced row, then the new rows, and the
files get the same rows. The epoch is the decision: after any failure, both stores have all of it or nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Final

from lakelog.errors import CommitConflict, UnsupportedFeature
from lakelog.filestore.read.plan import Split
from lakelog.io.lease import Leases
from lakelog.options.log import EMIT_MODE
from lakelog.paimon.metadata.data_file import BucketFiles
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.row_kind import with_kind
from lakelog.table.commit.seal import seal_decided
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.union_scan import merged_on_read
from lakelog.table.write.dml_support import check_row_changes
from lakelog.table.write.table_writer import TableWriter

_WAIT_S: Final = 600.0
"""Maximum time that an overwrite waits for another one."""


def replaces_rows(table: DynamicTable) -> bool:
    """True if an overwrite must write a delete for each replaced row, because readers of the log need it."""
    return table.emits_log and table.schema.is_keyed


def check_overwrite(table: DynamicTable) -> None:
    """Called before a statement replaces files or partitions.

    Raises UnsupportedFeature for a use that writes only the log, and for a merge engine that ignores deletes if a log
    of input rows needs them.
    """
    table.check_rows_writable()
    if not table.emits_log:
        return
    check_row_changes(table, "DELETE")
    if not table.emits_files:
        raise UnsupportedFeature(
            f"option '{EMIT_MODE.key}' = '{table.options.need(EMIT_MODE)}' does not go with an overwrite of table "
            f"{table.name}, which replaces rows of the files: leave it out"
        )


@contextlib.contextmanager
def one_overwrite(table: DynamicTable) -> Iterator[None]:
    """Context of an overwrite, which follows all epochs that are decided now.

    If overwrites write rows it keeps others away, because both would find the same old rows. Raises CommitConflict if
    another one runs for longer than ten minutes, Unavailable, and the errors of ``check_overwrite``.
    """
    check_overwrite(table)
    if not replaces_rows(table):
        seal_decided(table)
        yield
        return
    busy = CommitConflict(f"another overwrite of table {table.name} is running. Try again when it has ended")
    with Leases(table.io, f"{table.path}/lakelog/overwrite").holding("rows", _WAIT_S, busy):
        seal_decided(table)
        yield


def files_alone(table: DynamicTable) -> DynamicTable:
    """The table for tasks of an overwrite: they stage files, and the commit writes the log."""
    return table.with_hints({EMIT_MODE.key: "file"}) if table.emits_log else table


def replace_rows(
    table: DynamicTable, partitions: Collection[bytes] | None, made: Collection[BucketFiles] = ()
) -> Snapshot | None:
    """Deletes the rows of some partitions (None: all) and writes the rows of new files, in one epoch.

    ``made`` are level-0 files that no snapshot references; the caller deletes them. Rows are read and written in
    batches. Returns the newest snapshot, None if there was nothing to write. A row that another writer commits
    meanwhile stays if its key is new. Raises the errors of ``TableWriter``.
    """
    old = merged_on_read(table).store.plan(partitions=partitions)
    table = table.with_newest_schema()  # an ALTER TABLE may have given these rows columns while this one waited
    shown = merged_on_read(table).store
    new = [Split(b.partition, b.bucket, b.total_buckets, b.new_files, needs_merge=True) for b in made]
    with TableWriter(table) as writer:
        for kind, splits in (("-D", old), ("+I", new)):
            for batch in (batch for split in splits for batch in shown.read_split(split)):
                writer.write(with_kind(batch, kind))
    return table.store.latest_snapshot() if writer.counts["num_affected_rows"] else None
