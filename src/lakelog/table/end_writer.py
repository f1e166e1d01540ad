"""Ends a streaming writer whose query will never come back: what it left open in the log is taken back, for good."""

from __future__ import annotations

from lakelog.errors import NotFound
from lakelog.spec.snapshot import Snapshot
from lakelog.table.committer import Committer
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.log_state import newest_state
from lakelog.table.seal import seal
from lakelog.table.telling import tell_sealed


def end_writer(table: DynamicTable, writer: str) -> Snapshot | None:
    """Decides the writer's open epoch as empty, heals the log to that, seals; returns the snapshot that says so.

    Called for a query that is stopped and starts anew with a new checkpoint, or never: nobody else takes back the rows
    of its last, undecided micro-batch. The old query is refused from then on (Fenced). None when it was ended before.
    Raises NotFound for a writer that the table does not know, Unavailable.
    """
    known = newest_state(table.store)[1].writers
    if writer not in known and writer not in table.staged.writers():
        found = ", ".join(sorted({*known, *table.staged.writers()})) or "none"
        raise NotFound(f"table {table.name} has no writer '{writer}'; it knows these: {found}")
    if writer in known and known[writer].ended:
        tell_sealed(Committer(table, writer))
        return None
    newest = max([-1 if writer not in known else known[writer].epoch, *table.staged.epochs(writer)])
    committer = Committer(table, writer, ended=True)
    committer.commit(newest + 1, [])
    committer.append_abort(newest + 1)  # before the seal, which counts it
    return seal(committer)
