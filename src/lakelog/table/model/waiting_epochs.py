"""A consistent view of a table's decided epochs and the snapshot under them: waiting epochs in order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.errors import NotFound
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import COPY_AGAIN, LogState, WriterState, newest_state, sealed_before

_ATTEMPTS: Final = 20
"""Number of times that the records and the snapshot are read, if expiry deletes a state in between."""


@dataclass(frozen=True)
class WaitingEpochs:
    """The newest snapshot with its state, and the epoch records.

    ``waiting`` are decided and not in the snapshot, in commit order; ``sealed`` are in it, or decide nothing. ``void``
    are links after the sealed ones that decide nothing. A proposed epoch is in none of them before its snapshot.
    ``tip`` is the last link of the chain, sealed or not.
    """

    snapshot: Snapshot | None
    state: LogState
    waiting: tuple[EpochRecord, ...]
    sealed: tuple[EpochRecord, ...]
    tip: int
    void: tuple[EpochRecord, ...] = ()

    def find(self, writer: str, epoch: int) -> EpochRecord | None:
        """The record of an epoch, None if it is undecided or sealed."""
        return next((r for r in self.waiting if (r.writer, r.epoch) == (writer, epoch)), None)

    def newest(self) -> dict[str, int]:
        """Writer → its newest decided epoch."""
        out = {name: known.epoch for name, known in self.state.writers.items()}
        for record in self.waiting:
            out[record.writer] = max(record.epoch, out.get(record.writer, -1))
        return out


def waiting_epochs(table: DynamicTable, writer: str | None = None) -> WaitingEpochs:
    """Reads the records first, then the snapshot: an epoch that is sealed in between is then in the snapshot.

    With ``writer``, in a table without a key, reads only the records of that writer. Raises Unavailable.
    """
    for _ in range(_ATTEMPTS):
        # a record that was forgotten meanwhile may be sealed in a snapshot that has expired
        with contextlib.suppress(NotFound):
            return _read_once(table, writer)
    return _read_once(table, writer)


def sealed_elsewhere(table: DynamicTable, snapshot: Snapshot | None, record: EpochRecord) -> WriterState | None:
    """As ``sealed_before``; raises NotFound only if the record is forgotten, too.

    A state keeps a writer as long as its records exist. So an existing one that the newest state does not know is in no
    snapshot.
    """
    try:
        return sealed_before(table.store, snapshot, record)
    except NotFound:
        if table.decided.exists(record):
            return None
        raise


def waiting_position(table: DynamicTable, writer: str) -> str:
    """The position that is committed with the newest epoch of a writer, "" without one. Raises Unavailable."""
    return writer_position(waiting_epochs(table, writer), writer)


def writer_position(epochs: WaitingEpochs, writer: str) -> str:
    """``waiting_position`` of epochs that were read."""
    decided = [r.position for r in epochs.waiting if r.writer == writer and r.position]
    known = epochs.state.writers.get(writer)
    return decided[-1] if decided else "" if known is None else known.position


def is_undone(table: DynamicTable, writer: str) -> bool:
    """True if a rollback has taken rows of this writer out of the table after it had committed them.

    Its source has no reason to send them again. Raises Unavailable.
    """
    epochs = waiting_epochs(table, writer)
    known = epochs.state.writers.get(writer)
    is_restarted = any(r.writer == writer and r.position == COPY_AGAIN for r in epochs.waiting)
    return known is not None and known.undone and not is_restarted


def undone_writers(table: DynamicTable) -> tuple[str, ...]:
    """The writers for which ``is_undone`` is true. Raises Unavailable."""
    names = [name for name, state in newest_state(table.store)[1].writers.items() if state.undone]
    return tuple(name for name in sorted(names) if is_undone(table, name))


def _read_once(table: DynamicTable, writer: str | None) -> WaitingEpochs:
    decided, keyed = table.decided, table.schema.is_keyed
    if keyed and table.identity.memory.is_without_lanes:
        records = decided.links()
    else:
        records = decided.all() if keyed or writer is None else decided.of(writer)
    snapshot, state = newest_state(table.store)
    if keyed and state.chain and all(r.number for r in records):
        table.identity.memory.is_without_lanes = True
    return _collect(table, records, snapshot, state)


def _collect(
    table: DynamicTable, records: Sequence[EpochRecord], snapshot: Snapshot | None, state: LogState
) -> WaitingEpochs:
    links = {r.number: r for r in records if r.number}
    for listed in list(links):
        # A listing may contain a link without the earlier one before it.
        number = listed - 1
        while number > state.chain and number not in links and (link := table.decided.link(number)) is not None:
            links[number], number = link, number - 1
    waiting: dict[tuple[str, int], EpochRecord] = {}
    sealed, void = [], []
    for record in (*_without_gaps(table, records, state), *(links[n] for n in sorted(links))):
        # of a writer that was sealed and has closed while this process, or its own, was suspended
        is_old = not record.proposed and sealed_elsewhere(table, snapshot, record) is not None
        if not is_old and not state.holds(record):
            if record.proposed:
                continue  # only the commit of its writer decides it
            waiting.setdefault((record.writer, record.epoch), record)
        elif record.number <= state.chain:
            sealed.append(record)
        else:
            void.append(record)
    tip = max([state.chain, *links])
    return WaitingEpochs(snapshot, state, tuple(waiting.values()), tuple(sealed), tip, tuple(void))


def _without_gaps(table: DynamicTable, records: Sequence[EpochRecord], state: LogState) -> Iterator[EpochRecord]:
    """The records of lanes; before each, the earlier ones of its writer that a listing has missed.

    A seal of a later epoch would count them as sealed. An epoch may have no record: a micro-batch without rows decides
    nothing. Then a listing that begins now has the earlier ones, because they are older than a record that was read.
    """
    seen: set[tuple[str, int]] = {(r.writer, r.epoch) for r in records if not r.number}
    for record in (r for r in records if not r.number):
        missed, epoch = [], record.epoch - 1
        while epoch > state.sealed_epoch(record.writer) and (record.writer, epoch) not in seen:
            earlier = table.decided.staged(record.writer, epoch)
            if earlier is None:
                epoch = max((e for e in table.decided.lane(record.writer) if e < epoch), default=-1)
                continue
            seen.add((record.writer, epoch))
            missed.append(earlier)
            epoch -= 1
        yield from reversed(missed)
        yield record
