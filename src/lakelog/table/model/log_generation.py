"""The check that a commit of rows knows the log that the table has now (RFC 27).

ALTER TABLE adds a log to a table, or removes it, and others may have opened the table before. Each change has a number,
the generation, in the schema, in the epoch records and in the log state of each snapshot.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from lakelog.errors import CommitConflict, InvalidRequest, Unavailable
from lakelog.filestore.metadata.identity import IDENTITY_CHECK_S
from lakelog.filestore.metadata.paths import MAIN_BRANCH
from lakelog.io.clock import monotonic_s
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import LogState, newest_state, state_at
from lakelog.table.model.published_links import PublishedLinks


def checked_state(table: DynamicTable, latest: Snapshot | None) -> LogState:
    """The log state that a snapshot after ``latest`` continues, for a commit of rows without an epoch.

    Called in each round of the commit, so that the check and the snapshot are one decision. Raises CommitConflict if
    the log was added or removed since the table was opened: readers of the log would miss these rows. Raises
    Unavailable if the statement that does so has not ended.
    """
    state = state_at(table.store, latest)
    if table.branch != MAIN_BRANCH or state.log == table.log_generation:
        return state
    if state.log > table.log_generation:
        raise CommitConflict(
            f"the log of table {table.name} was added or removed after it was opened, and none of these rows are in "
            "the table: open the table again and write them"
        )
    if not table.publishes:
        raise _incomplete(table)
    return state


def carried_properties(table: DynamicTable, latest: Snapshot | None) -> Mapping[str, str]:
    """``checked_state`` as the properties of the snapshot. Raises as it."""
    return checked_state(table, latest).to_properties()


def check_begun(table: DynamicTable) -> None:
    """Checks that readers may start with the log: it has begun with a snapshot, and has not ended.

    Raises Unavailable before the first, and InvalidRequest after the second.
    """
    check_not_ended(table)
    if not table.log_generation:
        return
    has_begun = PublishedLinks.of(table).last().number if table.publishes else newest_state(table.store)[1].log
    if not has_begun or (not table.publishes and has_begun < table.log_generation):
        raise _incomplete(table)


def check_not_ended(table: DynamicTable) -> None:
    """Raises InvalidRequest if the log with which the table was opened has been removed since; the files go on."""
    newest = table.with_newest_schema()
    if table.branch == MAIN_BRANCH and table.log is not None and newest.log_generation > table.log_generation:
        raise InvalidRequest(
            f"the log of table {table.name} was removed after it was opened, so it has no later rows: open the table "
            "again, and read the changes of its files (read_stream, stream_plan) or start with its new log"
        )


class LogWatch:
    """The check of a reader that its table and log are still there, at most every few seconds."""

    def __init__(self, table: DynamicTable) -> None:
        self._table, self._checked_s = table, monotonic_s()

    def check(self) -> None:
        """Raises TableReplaced, and InvalidRequest after the end of the log (``check_not_ended``)."""
        self._table.check_identity(IDENTITY_CHECK_S)
        if monotonic_s() < self._checked_s + IDENTITY_CHECK_S:
            return
        self._checked_s = monotonic_s()
        with contextlib.suppress(Unavailable):
            check_not_ended(self._table)


def _incomplete(table: DynamicTable) -> Unavailable:
    return Unavailable(
        f"the statement that adds or removes the log of table {table.name} has not ended: try again. If it has failed, "
        "run it again"
    )
