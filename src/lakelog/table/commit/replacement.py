"""Commits that replace files: the snapshot decides, and the log follows with the changes (RFC 21)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lakelog.errors import LakelogError
from lakelog.filestore.commit.request import CommitRequest
from lakelog.io.logs import fields
from lakelog.paimon.metadata.snapshot import COMPACT, Snapshot
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.markers import append_markers
from lakelog.table.maintenance.publish import publish_best_effort
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import carried_state, newest_state, state_from
from lakelog.table.model.registrations import REPLACEMENT
from lakelog.table.model.waiting_epochs import waiting_epochs
from lakelog.table.staging.backfill import is_backfilling

_LOG: Final = logging.getLogger("lakelog.publish")


def commit_replacement(table: DynamicTable, request: CommitRequest) -> Snapshot:
    """Commits a request that replaces files, and appends the changed rows to the log.

    ``request.user`` is a name that is used once. A failure to append is only logged, because the rows are in the table:
    the next commit of any process appends them. Raises as ``TableCommit.commit``.
    """
    writer = f"{REPLACEMENT}{request.user}"

    def properties(latest: Snapshot | None) -> Mapping[str, str]:
        base = carried_state(table.store, latest) if request.prepare is None else request.prepare(latest)
        state = state_from(base)
        assert state is not None
        return {
            **base,
            **state.with_missing(writer, 1 if latest is None else latest.id + 1).to_properties(),
        }

    if request.kind == COMPACT or not _needs_changes(table):
        snapshot = table.store.commit(request)
        publish_best_effort(table)
    else:
        snapshot = table.store.commit(replace(request, prepare=properties))
        try:
            append_missing_changes(table)
        except LakelogError as failure:
            about = fields(table=table.name)
            _LOG.warning("table %s: changes are not in the log yet: %s", table.name, failure, extra=about)
    return snapshot


def append_missing_changes(table: DynamicTable) -> None:
    """Appends the changes of snapshots that the log lacks. Called by commits and by maintenance. Raises Unavailable."""
    if table.log is None or table.publishes:
        return
    missing = newest_state(table.store)[1].missing
    if missing:
        epochs = waiting_epochs(table)
        append_markers(Committer(table.whole, min(missing)), epochs.sealed, (), epochs.state)


def _needs_changes(table: DynamicTable) -> bool:
    """True if the readers of a log without a key need each changed row."""
    return table.emits_log and not table.publishes and not table.schema.is_keyed and not is_backfilling(table)
