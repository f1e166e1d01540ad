"""Replays rejected rows: reads them again, writes the good ones, and rejects the others again (RFC 16).

One decision adds the rows and removes the entries. Where the rows go to files only, it is a snapshot. Where they go to
the log, too, it is an epoch of a batch writer with a name that is used once; a replay ends the others that are open
before it reads the entries, so that no two take the same rows.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakelog.errors import CommitConflict, Corrupt, Fenced, LakelogError, NotFound, after_decision
from lakelog.filestore.commit.lost_race import LostRace, until_won
from lakelog.io.clock import now_ms
from lakelog.io.logs import fields
from lakelog.io.names import new_uuid
from lakelog.options.log import EMIT_MODE
from lakelog.options.notebook import NotebookView
from lakelog.options.table import MISSING_AS_NULL
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.file_commit import FileCommit
from lakelog.table.commit.seal import seal, seal_staged
from lakelog.table.commit.take_over import end_writer, take_over_best_effort
from lakelog.table.log.register import register_writer
from lakelog.table.maintenance.publish import publish_best_effort
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_generation import checked_state
from lakelog.table.model.registrations import BATCH
from lakelog.table.rejected.entries import REPLAY_OF_LOG, REPLAY_OF_ROWS, RejectedEntries, RejectedEntry
from lakelog.table.rejected.rows import Rejects, rejected_rows
from lakelog.table.rejected.sources import RejectedBefore
from lakelog.table.staging.task_writer import TaskWriter

_LOG = logging.getLogger("lakelog.rejected")


@dataclass(frozen=True)
class ReplaySummary(NotebookView):
    """The number of rows that a replay has written, and of those that stay rejected."""

    written: int
    rejected: int


def replay_rejected(table: DynamicTable) -> ReplaySummary:
    """Writes the rows of ``t$rejected`` that fit the table by now, and removes them from there, exactly once.

    Replayed rows are newer than all rows of the table. Rows of programs are written as any write; records of the log
    are in the log already, and are written to files only. After a crash at any point, call it again. Raises
    CommitConflict if another replay has begun after this one, Unavailable, CommitUnknown, CommitDecided, TableReplaced.
    """
    # all replays go the same way, whatever the options of their sessions; after an ALTER, which adds columns, too
    table = table.whole.with_newest_schema().with_hints(MISSING_AS_NULL)
    take_over_best_effort(table)
    # a log that follows the files has no rows before they do
    in_files = table if table.publishes else table.with_hints({EMIT_MODE.key: "file"})
    into_log = table.emits_log and table.record_format.is_written
    rows = _replay_in_log(table) if into_log else _replay_in_files(in_files, REPLAY_OF_ROWS)
    records = _replay_in_files(in_files, REPLAY_OF_LOG)
    return ReplaySummary(rows.written + records.written, rows.rejected + records.rejected)


def _replay_in_files(table: DynamicTable, prefix: str) -> ReplaySummary:
    """1 seal all decided epochs · 2 read the entries and stage their rows · 3 commit one snapshot with them.

    The snapshot is made only if the one before it still has the entries.
    """

    def attempt() -> ReplaySummary:
        # 1
        seal_staged(table)
        # 2
        latest, writer = table.store.latest_snapshot(), f"{prefix}{new_uuid()}"
        done = _staged(table, writer, _chosen(table, prefix))
        if done.result is None:
            return done.summary
        # 3
        record, rejected = EpochRecord(writer, 0, now_ms(), (done.result,)), RejectedEntries(table)
        taken = set(done.result.replays)

        def properties(newest: Snapshot | None) -> Mapping[str, str]:
            state = checked_state(table, newest)
            if not taken <= rejected.of_states([state])[0].keys():
                raise LostRace("another process replays its rejected rows, or rolls it back")
            return rejected.following(state, [record]).to_properties()

        FileCommit(table, [record], properties, allow_empty=True).run(latest)
        publish_best_effort(table)
        return done.summary

    return until_won(table.name, attempt)


def _replay_in_log(table: DynamicTable) -> ReplaySummary:
    """1 register, then end the other replays · 2 seal all decided epochs, read the entries, stage their rows ·
    3 decide · 4 seal, which removes the entries.

    Of two replays that run at once, the one that has registered later ends the other: it decides the epoch of that one
    as empty, unless it is decided. Then it sees the entries gone.
    """
    committer = Committer(table, f"{REPLAY_OF_ROWS}{new_uuid()}", once=True)
    # 1
    if not RejectedEntries(table).visible().entries:
        return ReplaySummary(0, 0)
    # the seal of many epochs may take longer than a lease
    committer.origin = register_writer(table, committer.writer, BATCH, in_use=True)
    try:
        _end_others(table, committer.writer)
        # 2
        seal_staged(table)
        done = _staged(table, committer.writer, _chosen(table, REPLAY_OF_ROWS))
        if done.result is not None:
            # 3
            if not {*done.result.replays} <= {entry.file for entry in _chosen(table, REPLAY_OF_ROWS)}:  # rolled back
                raise _conflict(table)
            committer.commit(0, [done.result])
            # 4
            with after_decision(table.name):
                seal(committer)
        _forget(committer)
        return done.summary
    except BaseException as why:
        with contextlib.suppress(LakelogError):  # the next one takes over
            committer.commit(0, [])  # takes its rows back, unless the epoch is decided
            _forget(committer)
        if isinstance(why, Fenced):
            raise _conflict(table) from None
        raise
    finally:
        table.registered.drop(committer.writer)


def _forget(committer: Committer) -> None:
    """Ends the registration of a replay whose control records are in the log, or that has none."""
    if not committer.table.decided.of(committer.writer):
        committer.forget()


def _end_others(table: DynamicTable, own: str) -> None:
    """Ends the other replays that are registered. From then on they decide nothing, and take back their rows."""
    for writer in table.registered.writers():
        if writer.startswith(REPLAY_OF_ROWS) and writer != own:
            with contextlib.suppress(NotFound):  # it has just ended
                end_writer(table, writer)
            _forget(Committer(table, writer))


def _chosen(table: DynamicTable, prefix: str) -> Sequence[RejectedEntry]:
    """The entries of the newest snapshot: those of a waiting epoch would come back with its seal."""
    entries = RejectedEntries(table).visible(is_waiting_too=False).entries
    return [entry for entry in entries if entry.is_of_log == (prefix == REPLAY_OF_LOG)]


@dataclass(frozen=True)
class _Staged:
    """The rows of some entries as one attempt; None, and nothing staged, if none of them fits."""

    result: AttemptResult | None
    summary: ReplaySummary


def _staged(table: DynamicTable, writer: str, entries: Sequence[RejectedEntry]) -> _Staged:
    """Stages the good rows of entries. An entry without any stays as it is; one that cannot be read, too.

    The rest of another one becomes a file of its own, with the time of its first decision, so that no replay prolongs
    ``rejected.retention``.
    """
    rejects = Rejects(table, writer, 0, 0, keep=True)
    task = TaskWriter(table, writer, 0, lane=0, rejects=rejects)
    taken, left = [], 0
    try:
        for entry in entries:
            before = task.written
            parts = _read_whole(table, entry)
            if parts is None:
                left += entry.rows
                continue
            for part in parts:
                task.write_good(part)
            if task.written == before:
                rejects.drop_part()
                left += entry.rows
            else:
                rejects.end_part(entry.time_ms)
                taken.append(entry.file)
        if not taken:
            task.close()
            return _Staged(None, ReplaySummary(0, left))
        result = replace(task.finish(), replays=tuple(taken))
        left += sum(part.rows for part in result.rejected)
        return _Staged(result, ReplaySummary(result.written, left))
    except BaseException:
        task.close()
        raise


def _read_whole(table: DynamicTable, entry: RejectedEntry) -> Iterator[RejectedBefore] | None:
    """The rows of an entry; None, with a warning, unless all can be read: half of a file would lose the rest."""
    try:
        rows = sum(batch.num_rows for batch in rejected_rows(table, entry))
        if rows != entry.rows:
            raise Corrupt(f"'{RejectedEntries(table).path(entry.file)}' has {rows} rows, its entry {entry.rows}")
    except (Corrupt, NotFound) as why:
        about = fields(table=table.name)
        _LOG.warning("table %s: a file of rejected rows is not replayed: %s", table.name, why, extra=about)
        return None
    return RejectedBefore.parts(table, rejected_rows(table, entry), entry.is_of_log)


def _conflict(table: DynamicTable) -> CommitConflict:
    return CommitConflict(
        f"table {table.name}: another process replays its rejected rows, or rolls it back, at the same time. Try again"
    )
