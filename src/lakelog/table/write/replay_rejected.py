"""Replays rejected rows: reads them again, writes the good ones in one epoch, and rejects the others again (RFC 16).

The epoch names the entries that it takes, so that the same decision adds the rows and removes the entries. Replays are
numbered. Two that run at once have the same number and therefore the same writer and epoch, of which one is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakelog.errors import CommitConflict, Fenced, after_decision
from lakelog.options.log import EMIT_MODE
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal, seal_staged
from lakelog.table.commit.take_over import take_over_best_effort
from lakelog.table.log.lease_keeper import drop_lease
from lakelog.table.log.register import register_writer
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.rejected_entries import REPLAY_OF_LOG, REPLAY_OF_ROWS, RejectedEntries, RejectedEntry
from lakelog.table.model.waiting_epochs import WaitingEpochs, waiting_epochs
from lakelog.table.staging.rejects import Rejects, rejected_rows
from lakelog.table.staging.sources import RejectedBefore
from lakelog.table.staging.task_writer import TaskWriter

_ATTEMPTS: Final = 8


@dataclass(frozen=True)
class ReplaySummary:
    """The number of rows that a replay has written, and of those that it has rejected again."""

    written: int
    rejected: int


def replay_rejected(table: DynamicTable) -> ReplaySummary:
    """Writes the rows of ``t$rejected`` that fit the table by now, and removes them from there, exactly once.

    Replayed rows are newer than all rows of the table. Rows of programs are written as any write; records of the log
    are in the log already, and are written to files only. After a crash at any point, call it again. Raises
    CommitConflict if other replays run at the same time, Unavailable, CommitUnknown, CommitDecided, TableReplaced.
    """
    rows = _replay(table, REPLAY_OF_ROWS)
    records = _replay(table.with_hints({EMIT_MODE.key: "file"}), REPLAY_OF_LOG)
    return ReplaySummary(rows.written + records.written, rows.rejected + records.rejected)


def _replay(table: DynamicTable, prefix: str) -> ReplaySummary:
    """1 read what is decided, then the entries · 2 stage their rows · 3 decide · 4 seal, which hides the entries.

    If no row fits, nothing is decided; with a log an empty epoch is, so that another replay with its number ends, too.
    """
    entries = RejectedEntries(table)
    for _ in range(_ATTEMPTS):
        # 1
        take_over_best_effort(table)
        moment = waiting_epochs(table)
        if any(record.writer.startswith(prefix) for record in moment.waiting):  # one that died after its decision
            seal_staged(table)
            moment = waiting_epochs(table)
        number = entries.newest_replay(moment, prefix) + 1
        _forget_former(table, prefix, number, moment)
        chosen = [entry for entry in entries.visible(moment) if entry.is_of_log == (prefix == REPLAY_OF_LOG)]
        if not chosen:
            return ReplaySummary(0, 0)
        # 2
        committer = Committer(table, f"{prefix}{number}")
        if table.emits_log:
            committer.origin = register_writer(table, committer.writer)
        try:
            result = _staged(table, committer.writer, chosen)
            if result is None and not table.emits_log:
                return ReplaySummary(0, sum(entry.rows for entry in chosen))
            # 3
            record = committer.commit(0, [] if result is None else [result])
        except Fenced:  # another replay with this number
            committer.commit(0, [])
            continue
        if result is not None and (record is None or result.attempt not in record.accepted):
            continue
        # 4
        with after_decision(table.name):
            seal(committer)
        _leave(committer)
        total = sum(entry.rows for entry in chosen)
        left = total if result is None else 0 if result.rejected is None else result.rejected.rows
        return ReplaySummary(total - left, left)
    raise CommitConflict(f"table {table.name}: other processes replay its rejected rows at the same time. Try again")


def _staged(table: DynamicTable, writer: str, entries: Sequence[RejectedEntry]) -> AttemptResult | None:
    """The rows of entries as one attempt; None, and nothing staged, if none of them fits."""
    rejects = Rejects(table, writer, 0, 0, keep=True)
    task = TaskWriter(table, writer, 0, lane=0, rejects=rejects)
    try:
        for entry in entries:
            for part in RejectedBefore.parts(table, rejected_rows(table, entry), entry.is_of_log):
                task.write_good(part)
        if not task.written:
            task.close()
            return None
        return replace(task.finish(), replays=tuple(entry.name for entry in entries))
    except BaseException:
        task.close()
        raise


def _leave(committer: Committer) -> None:
    """Ends the registration of a replay whose markers are in the log; ``_forget_former`` does so after a crash."""
    drop_lease(committer.table, committer.writer)
    if not committer.lacks_markers:
        committer.table.registered.forget(committer.writer)


def _forget_former(table: DynamicTable, prefix: str, number: int, moment: WaitingEpochs) -> None:
    """Forgets the registrations of replays before ``number`` that are sealed and marked."""
    open_writers = {record.writer for record in (*moment.waiting, *moment.sealed)}
    for writer in table.registered.writers():
        former = writer.removeprefix(prefix)
        if former != writer and former.isdigit() and int(former) < number and writer not in open_writers:
            table.registered.forget(writer)
