"""Appends rows to a table without a log as one snapshot. The snapshot is the decision, so no epoch is needed.

Tasks write data files that no snapshot references. After a crash before the snapshot, orphan cleaning removes them.
After the snapshot, every row is in the table. A log needs the two steps of RFC 2, see ``committer`` and ``seal``.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.errors import CommitConflict
from lakelog.filestore.commit.lost_race import until_won
from lakelog.io.clock import now_ms
from lakelog.io.metrics import METER
from lakelog.options.metrics import ROWS_REJECTED
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.commit.file_commit import FileCommit
from lakelog.table.commit.seal import seal_staged
from lakelog.table.maintenance.publish import publish_best_effort
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_generation import carried_properties
from lakelog.table.runs.runs import delete_runs


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

    # 2, 3
    def attempt() -> Snapshot | None:
        # Written even if empty, so that the next commit need not search for it.
        files = FileCommit(table, [record], lambda latest: carried_properties(table, latest), keeps_runs=True)
        return files.run(table.store.latest_snapshot())

    try:
        snapshot = until_won(table.name, attempt)
    except CommitConflict:
        delete_runs(table, [run for result in results for run in result.runs])
        raise
    METER.add(ROWS_REJECTED, record.rejected_count, table=table.name)
    if snapshot is not None:
        publish_best_effort(table)
    return snapshot
