"""Adds rows to a table without a log as one snapshot: the snapshot is the decision, so no epoch is needed.

Tasks write data files that nobody names. A crash before the snapshot leaves just those, which orphan cleaning removes;
after it every row is there. A log needs the two steps of RFC 2, see ``committer`` and ``seal``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakelog.errors import CommitConflict
from lakelog.filestore.commit.request import CommitRequest
from lakelog.io.clock import now_ms
from lakelog.paimon.metadata.snapshot import APPEND, Snapshot
from lakelog.table.commit.seal import level0_files_of, seal_staged
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import state_at
from lakelog.table.runs.dynamic_buckets import AssignedFiles, IndexReplaced, forget_unassigned
from lakelog.table.staging.watermark import watermark_of

_ATTEMPTS = 8


def commit_append(
    table: DynamicTable, writer: str, results: Sequence[AttemptResult], number: int = 0
) -> Snapshot | None:
    """Commits the rows of the accepted attempts as one snapshot; None when there are none.

    1 seal what is decided already, of a table with a key: these rows come after it · 2 take the files of the attempts,
    and write their small runs as level-0 files · 3 commit, if dynamic buckets are still those that were given.
    ``number`` counts the commits of a writer. Raises CommitConflict (nothing was added, the files are gone),
    CommitUnknown (the rows are in the newest snapshots, or will never be), Unavailable.
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
        return snapshot
    raise CommitConflict(f"table {table.name}: other writers keep giving new keys their buckets; try again")


def _commit(table: DynamicTable, writer: str, number: int, made: AssignedFiles, watermark: int | None) -> Snapshot:
    def properties(latest: Snapshot | None) -> Mapping[str, str]:
        made.check_index(table, latest)
        # written even when it is empty, so that the next one need not look for it
        return state_at(table.store, latest).without_old(table.registered).to_properties()

    request = CommitRequest(writer, number, APPEND, made.files, prepare=properties, first_try=True, index=made.index)
    return table.store.commit(replace(request, watermark=watermark))
