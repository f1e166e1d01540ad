"""Appends rows to a table without a log as one snapshot. The snapshot is the decision, so no epoch is needed.

Tasks write data files that no snapshot references. After a crash before the snapshot, orphan cleaning removes them.
After the snapshot, every row is in the table. A log needs the two steps of RFC 2, see ``committer`` and ``seal``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakelog.errors import CommitConflict
from lakelog.filestore.commit.request import CommitRequest
from lakelog.io.clock import now_ms
from lakelog.io.metrics import METER
from lakelog.options.metrics import ROWS_REJECTED
from lakelog.paimon.metadata.snapshot import APPEND, Snapshot
from lakelog.table.commit.seal import level0_files_of, seal_staged
from lakelog.table.maintenance.publish import publish_best_effort
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import carried_state
from lakelog.table.runs.dynamic_buckets import AssignedFiles, IndexReplaced, forget_unassigned
from lakelog.table.staging.watermark import watermark_of

_ATTEMPTS = 8


def commit_append(
    table: DynamicTable, writer: str, results: Sequence[AttemptResult], number: int = 0
) -> Snapshot | None:
    """Commits the rows of the accepted attempts as one snapshot; None if there are none.

    1 if the table has a key, seal all decided epochs, which precede these rows · 2 take the files of the attempts, and
    write their small runs as level-0 files · 3 commit, if the dynamic bucket assignment has not changed. ``number``
    counts the commits of a writer. Raises CommitConflict (nothing was added, the files are deleted), CommitUnknown (the
    rows are in the newest snapshots, or never will be), Unavailable.
    """
    record = EpochRecord(writer, number, now_ms(), tuple(results))
    # 1
    if table.schema.is_keyed:
        seal_staged(table)
    for _ in range(_ATTEMPTS):
        latest = table.store.latest_snapshot()
        # 2
        ready = level0_files_of(table, [record], latest)
        if not any(b.new_files for b in ready.made.files):
            METER.add(ROWS_REJECTED, record.rejected_count, table=table.name)
            return None
        # 3
        try:
            snapshot = _commit(ready.table, writer, number, ready.made, watermark_of(record.attempts))
        except IndexReplaced:
            ready.made.delete(ready.table)
            continue
        except CommitConflict:
            ready.made.delete(ready.table)
            forget_unassigned(ready.table, ready.runs)
            raise
        forget_unassigned(ready.table, ready.runs)
        METER.add(ROWS_REJECTED, record.rejected_count, table=table.name)
        publish_best_effort(table)
        return snapshot
    raise CommitConflict(f"table {table.name}: other writers assign buckets to new keys at the same time. Try again")


def _commit(table: DynamicTable, writer: str, number: int, made: AssignedFiles, watermark: int | None) -> Snapshot:
    def properties(latest: Snapshot | None) -> Mapping[str, str]:
        made.check_index(table, latest)
        # Written even if empty, so that the next commit need not search for it.
        return carried_state(table.store, latest)

    request = CommitRequest(writer, number, APPEND, made.files, prepare=properties, first_try=True, index=made.index)
    return table.store.commit(replace(request, watermark=watermark))
