"""Rows of a bucket that a task holds until it stages them, with their order (RFC 2)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakelog.logstore.base import PendingAppend
from lakelog.paimon.rows.row_kind import UPDATE_BEFORE
from lakelog.table.model.attempt import KIND_COLUMN, ORDER_COLUMN


@dataclass
class BucketRows:
    """Rows of one bucket that are not yet staged."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    kinds: list[np.ndarray] = field(default_factory=list)
    orders: list[np.ndarray | LogOrder] = field(default_factory=list)
    bytes: int = 0

    def ordered(self) -> pa.Table:
        """The rows with their order and kind. Called after the log has acknowledged them."""
        table = pa.Table.from_batches(self.batches)
        orders = np.concatenate([o.resolve() if isinstance(o, LogOrder) else o for o in self.orders])
        kinds = np.concatenate(self.kinds)
        keep = _without_replaced(orders, kinds, np.cumsum([len(part) for part in self.kinds]))
        if len(keep) < len(kinds):
            table, orders, kinds = table.take(pa.array(keep)), orders[keep], kinds[keep]
        table = table.append_column(pa.field(ORDER_COLUMN, pa.int64(), nullable=False), pa.array(orders))
        return table.append_column(pa.field(KIND_COLUMN, pa.int8(), nullable=False), pa.array(kinds))


@dataclass
class LogOrder:
    """The order of rows that wait for their log offsets: by record, then by position in the record.

    ``rows`` are the rows themselves, if the log's format has gathered them.
    """

    pending: PendingAppend
    record_of_row: np.ndarray
    change_of_row: np.ndarray
    changes_per_record: int
    rows: pa.RecordBatch | None = None

    def take(self, indices: np.ndarray) -> LogOrder:
        """The order of some of the rows."""
        return LogOrder(self.pending, self.record_of_row[indices], self.change_of_row[indices], self.changes_per_record)

    def resolve(self) -> np.ndarray:
        ordered: np.ndarray = self.pending.orders(self.changes_per_record)[self.record_of_row] + self.change_of_row
        return ordered


def _without_replaced(orders: np.ndarray, kinds: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Indices of the rows to keep; a -U whose +U is in the same log record is redundant for the files.

    ``ends`` are those of parts that share no record, but may have equal orders.
    """
    same_record = np.zeros(len(orders), dtype=bool)
    same_record[:-1] = orders[:-1] == orders[1:]
    same_record[ends - 1] = False
    return np.flatnonzero(~((kinds == UPDATE_BEFORE) & same_record))
