"""The ``commit`` control records of sealed epochs (RFC 2, step 5), in the order of the snapshots.

A transactional reader returns rows in the order of the commit records, and the files keep the row of the newest
snapshot. Both end with the same row of a key only if both orders are the same. In a table with a key, the driver
therefore marks epochs in the order of their chain, regardless of the writer. Without a key the order of insertions has
no meaning. There the sealer marks the epochs of its snapshot, and if it dies before, each writer marks its own. Only
the changes of a statement that replaces files follow all earlier epochs, because they delete rows of them (RFC 21).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence

from lakelog.errors import LakelogError
from lakelog.io.logs import fields
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.missing_changes import append_missing
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import LogState

_LOG = logging.getLogger("lakelog.seal")


def append_markers(
    committer: Committer, before: Sequence[EpochRecord], records: Sequence[EpochRecord], state: LogState
) -> None:
    """Appends the commit records of epochs that snapshots contain, then deletes their epoch records.

    ``before`` are remaining records of older snapshots. Their commit records may be missing and are appended first, one
    snapshot after the other, each acknowledged by the log before the next. ``records`` are those of the newest
    snapshot; ``state`` is its state. Changes that the log lacks are appended in the same order. After a crash
    at any point, the epoch records remain for the next seal, which may mark an epoch again; readers return it once. A
    failure is only logged, and the next seal retries.
    """
    table = committer.table
    older = [r for r in before if state.missing or table.schema.is_keyed or r.writer == committer.writer]
    unmarked = sorted(
        (r for r in older if _is_unmarked(r, state)), key=lambda r: (_sealed_in(r, state), r.number, r.epoch)
    )
    if not older and not records and not state.missing:
        return
    committer.lacks_markers = bool(unmarked or records)
    changes = sorted(state.missing.items(), key=lambda item: item[1])
    try:
        # A stalled driver may create a record of an epoch that was decided, sealed and forgotten.
        table.decided.forget([r for r in older if not _is_unmarked(r, state)])
        if unmarked:
            table.check_identity()  # before records of another table are marked in the log of this one
        for number, marked in itertools.groupby([*unmarked, *records], key=lambda r: _sealed_in(r, state)):
            group = list(marked)
            while changes and changes[0][1] < number:
                append_missing(table, *changes.pop(0))
            committer.append_commit(group)
            table.decided.forget(group)
        for writer, snapshot in changes:
            append_missing(table, writer, snapshot)
    except LakelogError as failure:  # the rows are committed: a missing control record is no write failure
        about = fields(table=table.name, writer=committer.writer)
        _LOG.warning("table %s: control records of sealed epochs are missing: %s", table.name, failure, extra=about)
        return
    committer.lacks_markers = False


def _is_unmarked(record: EpochRecord, state: LogState) -> bool:
    known = state.writers.get(record.writer)
    return known is not None and known.unmarked.get(record.epoch) == record.digest


def _sealed_in(record: EpochRecord, state: LogState) -> int:
    known = state.writers.get(record.writer)
    return 0 if known is None else known.sealed_in.get(record.epoch, 0)
