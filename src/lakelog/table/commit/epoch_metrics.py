"""The metrics of decided epochs."""

from __future__ import annotations

from lakelog.io.metrics import METER
from lakelog.options.metrics import BYTES_WRITTEN, EPOCHS_DECIDED, ROWS_REJECTED, ROWS_WRITTEN
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord


def count_epoch(table: DynamicTable, record: EpochRecord) -> None:
    """Counts an epoch that this process has decided; from then on its rows in the log count."""
    METER.add(EPOCHS_DECIDED, table=table.name)
    METER.add(ROWS_REJECTED, record.rejected_count, table=table.name)
    METER.add(ROWS_WRITTEN, sum(a.written for a in record.attempts if a.appends), table=table.name, store="log")
    METER.add(BYTES_WRITTEN, sum(a.log_bytes for a in record.attempts), table=table.name, store="log")
