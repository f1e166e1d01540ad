"""Keeps a table's files few: compaction of the buckets that need it."""

from __future__ import annotations

import logging

from lakelog.errors import CommitConflict, LakelogError
from lakelog.filestore.commit_request import CommitRequest
from lakelog.filestore.compaction_result import CompactionResult, joined_index
from lakelog.io.names import new_uuid
from lakelog.spec.snapshot import COMPACT, Snapshot
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.log_state import state_at

_LOG = logging.getLogger("lakelog.compact")


def compact_where_needed(table: DynamicTable, full: bool = False) -> Snapshot | None:
    """Compacts every bucket that has too many sorted runs (all buckets with ``full``); None when none has.

    Called after a seal. Losing against another commit is no error: the files stay as they are and the next seal tries
    again.
    """
    store = table.store
    made: list[CompactionResult] = []
    for partition, bucket in store.buckets_to_compact(full=full):
        result = store.run_compaction(partition, bucket, full=full)
        if result is not None:
            made.append(result)
    if not made:
        return None
    request = CommitRequest(
        f"compact-{new_uuid()}",
        0,
        COMPACT,
        tuple(r.files for r in made),
        prepare=lambda s: carried_state(table, s),
        first_try=True,
        index=joined_index(made),
    )
    try:
        return store.commit(request)
    except CommitConflict as lost:
        _LOG.info("compaction of %s lost against another commit: %s", table.name, lost)
        return None


def compact_quietly(table: DynamicTable) -> None:
    """Compacts after a write; a failure is logged only, because the write is in the table already."""
    try:
        compact_where_needed(table)
    except LakelogError as failure:
        _LOG.warning("compaction of %s failed: %s", table.name, failure)


def carried_state(table: DynamicTable, latest: Snapshot | None) -> dict[str, str]:
    """The log state that a commit which is no seal carries on, so that expiry never loses it."""
    state = state_at(table.store, latest)
    return state.to_properties() if state.writers or state.offsets else {}
