"""Ends a writer that will never come back: what it left open in the log is taken back, for good."""

from __future__ import annotations

from lakelog.errors import NotFound
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal, seal_staged
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.waiting_epochs import waiting_epochs


def end_writer(table: DynamicTable, writer: str) -> Snapshot | None:
    """Decides the writer's open epoch as empty, heals the log to that, seals; returns the snapshot that says so.

    Called for a query that is stopped and starts anew with a new checkpoint, or never: its epoch is decided as empty,
    and the old query is refused from then on (Fenced). None when it was ended before. Raises NotFound for a writer that
    the table does not know, Unavailable.
    """
    found = waiting_epochs(table)
    known = found.state.writers
    if writer not in found.newest() and writer not in table.registered.writers():
        names = ", ".join(sorted({*found.newest(), *table.registered.writers()})) or "none"
        raise NotFound(f"table {table.name} has no writer '{writer}'; it knows these: {names}")
    if writer in known and known[writer].ended:
        seal_staged(table)
        return None
    while True:
        epoch = waiting_epochs(table).newest().get(writer, -1) + 1
        committer = Committer(table, writer, ended=True)
        record = committer.commit(epoch, [])
        if record is None or record.ended:
            break  # else the writer was alive, and has decided this epoch just now
    committer.append_abort(epoch)  # before the seal, which counts it
    return seal(committer)
