"""Event-time progress of a write (``watermark.column``): the watermark that a snapshot stores."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidOption
from lakelog.options.log import WATERMARK_COLUMN, WATERMARK_DELAY, WATERMARK_GAP
from lakelog.table.column_options import check_event_column
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.dynamic_table import DynamicTable


@dataclass
class EventTime:
    """The newest event time of a task's rows; its watermark is ``watermark.delay`` before it."""

    column: str
    delay_ms: int
    newest_ms: int | None = None

    @staticmethod
    def of(table: DynamicTable) -> EventTime | None:
        """The event-time column and delay of the table, None without ``watermark.column``.

        Called once per task, and by the driver so that a wrong option fails before any task. Raises InvalidOption for a
        missing column or one that is not a time, and for a gap without a column.
        """
        name = table.options.get_typed(WATERMARK_COLUMN)
        if name is None:
            gap = table.options.get_typed(WATERMARK_GAP)
            if gap is not None and table.writes_log_by_default:
                raise InvalidOption(
                    f"option '{WATERMARK_GAP.key}' of table {table.name} needs a watermark: name the column of the "
                    f"event time in '{WATERMARK_COLUMN.key}'"
                )
            return None
        check_event_column(table.schema)
        return EventTime(name, round(table.options.need(WATERMARK_DELAY).total_seconds() * 1000))

    def take(self, rows: pa.RecordBatch) -> None:
        """Updates the newest time from rows; ignores rows without one. A time without a zone is interpreted as UTC."""
        newest = pc.max(rows.column(self.column))
        if not newest.is_valid:
            return
        if not pa.types.is_int64(newest.type):
            newest = newest.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        value = newest.as_py()
        self.newest_ms = value if self.newest_ms is None else max(value, self.newest_ms)

    @property
    def watermark(self) -> int | None:
        """The watermark (ms since 1970) of the rows so far, None if they have none."""
        return None if self.newest_ms is None else self.newest_ms - self.delay_ms


def watermark_of(results: tuple[AttemptResult, ...]) -> int | None:
    """The watermark of an epoch: the newest of its tasks, as in Spark's ``withWatermark``; None if none has one."""
    return max((r.watermark for r in results if r.watermark is not None), default=None)
