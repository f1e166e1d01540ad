"""Tells the log which epochs the snapshots hold (RFC 2, step 5): in the order of the snapshots, whoever made them.

A transactional reader gives rows in the order of the commit records, the files keep the row of the newest snapshot:
both end with the same row of a key only when both orders are one. So nobody tells an epoch before those that older
snapshots hold are told, and who finds that their writers have not told them does it.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from lakelog.errors import LakelogError
from lakelog.io.logs import fields
from lakelog.table.committer import Committer
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.epoch_record import EpochRecord
from lakelog.table.log_state import LogState, newest_state

_LOG = logging.getLogger("lakelog.seal")


@dataclass(frozen=True)
class _Debt:
    """An epoch that a snapshot holds and whose epoch record is there: its commit records may be missing."""

    snapshot: int
    record: EpochRecord


def tell(committer: Committer, records: Sequence[EpochRecord], state: LogState) -> None:
    """Appends the commit records of epochs of a writer that snapshots hold, then forgets their epoch records.

    What others owe of older snapshots comes first: one snapshot after the other, each acknowledged by the log before
    the next. A crash anywhere leaves epoch records for whoever comes next, who perhaps tells an epoch again; readers
    show it once. ``state`` is that of a snapshot that has all these epochs. A failure is logged only, and left to the
    next seal.
    """
    if not records:
        return
    committer.owes = True
    try:
        for (_, writer), debts in itertools.groupby(
            _debts(committer, records, state), key=lambda d: (d.snapshot, d.record.writer)
        ):
            told = [debt.record for debt in debts]
            committer.append_commit(told)
            if writer != committer.writer:
                committer.table.staged.forget(writer, [r.epoch for r in told])
    except LakelogError as failure:  # the rows are in: a missing control record is no failure of the write
        name = committer.table.name
        about = fields(table=name, writer=committer.writer)
        _LOG.warning("table %s: control records of sealed epochs are missing: %s", name, failure, extra=about)
        return
    committer.owes = False
    committer.table.staged.forget(committer.writer, [r.epoch for r in records])


def tell_sealed(committer: Committer) -> None:
    """Appends the ``commit`` control records of a writer that died between its snapshot and them."""
    state = newest_state(committer.table.store)[1]
    base = state.sealed_epoch(committer.writer)
    staged = committer.table.staged.records(committer.writer)
    tell(committer, owed(committer, [r for r in staged if r.epoch <= base], state), state)


def owed(committer: Committer, records: Sequence[EpochRecord], state: LogState) -> list[EpochRecord]:
    """Those records of sealed epochs whose control records may be missing; what else there is decides nothing.

    A driver that was away when its epoch was decided, sealed and forgotten by another one creates a record of its own,
    and may die before it notices.
    """
    known = state.writers.get(committer.writer)
    telling = {} if known is None else known.telling
    void = [r.epoch for r in records if telling.get(r.epoch) != r.digest]
    if void:
        committer.table.staged.forget(committer.writer, void)
    return [r for r in records if r.epoch not in void]


def _debts(committer: Committer, records: Sequence[EpochRecord], state: LogState) -> list[_Debt]:
    """These epochs, and those of others that are to be told before the last of them, in the order of the snapshots."""
    known = state.writers.get(committer.writer)
    sealed_in = {} if known is None else known.sealed_in
    own = [_Debt(sealed_in.get(r.epoch, 0), r) for r in records]
    others = _debts_of_others(committer.table, committer.writer, state, max(debt.snapshot for debt in own))
    return sorted([*own, *others], key=lambda d: (d.snapshot, d.record.writer, d.record.epoch))


def _debts_of_others(table: DynamicTable, writer: str, state: LogState, newest: int) -> list[_Debt]:
    """What other writers owe of snapshots up to ``newest``; looks at storage only when another one may owe something.

    An epoch record that has gone meanwhile is one whose commit records are in the log. One that the snapshot does not
    know belongs to a newer snapshot, or decides nothing: it is left to its writer.
    """
    telling = {
        name: {epoch for epoch in known.telling if known.sealed_in.get(epoch, 0) <= newest}
        for name, known in state.writers.items()
        if name != writer
    }
    if table.log is None or not any(telling.values()):
        return []
    out = []
    for name in table.staged.writers():
        epochs = telling.get(name, set())
        for epoch in epochs.intersection(table.staged.epochs(name)) if epochs else ():
            record = table.staged.read(name, epoch)
            if record is not None and state.writers[name].telling[epoch] == record.digest:
                out.append(_Debt(state.writers[name].sealed_in.get(epoch, 0), record))
    return out
