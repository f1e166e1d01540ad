"""Appends the ``commit`` control records of sealed epochs to the log (RFC 2, step 5): in the order of the snapshots.

A transactional reader gives rows in the order of the commit records, the files keep the row of the newest snapshot:
both end with the same row of a key only when both orders are one. So the epochs of a table with a key are marked in the
order of their chain, whoever made them. Without a key the order means nothing, and each writer marks its own.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence

from lakelog.errors import LakelogError
from lakelog.io.logs import fields
from lakelog.table.commit.committer import Committer
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import LogState

_LOG = logging.getLogger("lakelog.seal")


def append_markers(
    committer: Committer, before: Sequence[EpochRecord], records: Sequence[EpochRecord], state: LogState
) -> None:
    """Appends the commit records of epochs that snapshots hold, then forgets their epoch records.

    ``before`` are records of older snapshots that are still there: their commit records may be missing, and come first,
    one snapshot after the other, each acknowledged by the log before the next. ``records`` are those of the newest one;
    ``state`` is its state. A crash anywhere leaves epoch records for the next seal, which perhaps marks an epoch again;
    readers show it once. A failure is logged only, and left to the next seal.
    """
    table = committer.table
    owed = [r for r in before if table.schema.is_keyed or r.writer == committer.writer]
    debts = sorted((r for r in owed if _is_owed(r, state)), key=lambda r: (_sealed_in(r, state), r.number, r.epoch))
    if not owed and not records:
        return
    committer.owes = bool(debts or records)
    try:
        # a driver that was away may create a record of an epoch that was decided, sealed and forgotten
        table.decided.forget([r for r in owed if not _is_owed(r, state)])
        for _, marked in itertools.groupby([*debts, *records], key=lambda r: _sealed_in(r, state)):
            group = list(marked)
            committer.append_commit(group)
            table.decided.forget(group)
    except LakelogError as failure:  # the rows are in: a missing control record is no failure of the write
        about = fields(table=table.name, writer=committer.writer)
        _LOG.warning("table %s: control records of sealed epochs are missing: %s", table.name, failure, extra=about)
        return
    committer.owes = False


def _is_owed(record: EpochRecord, state: LogState) -> bool:
    known = state.writers.get(record.writer)
    return known is not None and known.telling.get(record.epoch) == record.digest


def _sealed_in(record: EpochRecord, state: LogState) -> int:
    known = state.writers.get(record.writer)
    return 0 if known is None else known.sealed_in.get(record.epoch, 0)
