"""What the log has lost by its retention: whether rows may have been among it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.logstore.clients import reader_for
from lakelog.logstore.protocol.header import ABORT, COMMIT, parse_kinds
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import LogState


def only_control_records_expired(table: DynamicTable, state: LogState, bucket: int, offset: int) -> bool:
    """Whether all that the log of a table has lost from an offset on are control records of sealed epochs.

    Called where that offset has expired; ``state`` is that of a snapshot. An idle table is so: its newest commit
    records lie behind what its last seal has verified. They are counted: nothing else was lost when as many entries
    are gone as there are such records, less all that the log still has. False where it cannot be known: the offset
    is before the snapshot's, a seal has yet to tell, or the log cannot count what it has lost. Raises Unavailable,
    OffsetExpired when more expires meanwhile.
    """
    known = state.offsets.get(bucket, -1)
    if table.log is None or not 0 <= known <= offset or _owes(table, state):
        return False
    reader = reader_for(table.log)
    end = reader.end_offsets([bucket])[bucket]  # after the look at what is owed: all that is told lies before it
    first = reader.first_offsets([bucket])[bucket]
    lost, told = reader.entries(bucket, known, first), state.told.get(bucket, 0)
    if lost is None or lost > told:
        return False
    return lost == told - sum(_control_records(records) for records in reader.chunks(bucket, first, end))


def _control_records(records: pa.Table) -> int:
    kinds = parse_kinds(records.column("header"))
    return int(pc.sum(pc.is_in(kinds, pa.array([COMMIT, ABORT]))).as_py() or 0)


def _owes(table: DynamicTable, state: LogState) -> bool:
    """Whether control records of sealed epochs may be missing: their epoch records go when they are told."""
    return any(state.holds(record) for record in table.decided.all())
