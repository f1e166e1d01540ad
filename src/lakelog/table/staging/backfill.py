"""Backfill into the files alone, until a writer's watermark is close to the current time.

Deciding an epoch with such a watermark creates ``<table>/lakelog/catch-up`` (JSON). The file has the time from which
writes fill the log too, and the writer that found it. It is never deleted: neither a restart nor old rows undo it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.errors import NotFound
from lakelog.io.clock import now_ms
from lakelog.options.log import EMIT_MODE, WATERMARK_GAP
from lakelog.paimon.types.checked_values import read_as
from lakelog.paimon.types.json_record import JsonRecord
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.staging.watermark import watermark_of


@dataclass(frozen=True)
class BackfillState(JsonRecord):
    """The time at which a table caught up (ms since 1970), the watermark, and the epoch and its writer."""

    time_ms: int
    watermark_ms: int
    writer: str
    epoch: int


def catch_up_of(table: DynamicTable) -> BackfillState | None:
    """The time from which writes fill the log too; None if they do not, or always have."""
    try:
        return read_as(table.io, _path(table), BackfillState.from_json)
    except NotFound:
        return None


def is_backfilling(table: DynamicTable) -> bool:
    """True if writes fill only the files: with a gap (``emit.mode`` = auto), until a writer has caught up."""
    if table.options.get_typed(WATERMARK_GAP) is None or not table.writes_log_by_default:
        return False
    caught_up = table.identity.memory.caught_up_logs
    log_id = "" if table.log is None else table.log.log_id
    if log_id not in caught_up and table.io.exists(_path(table)):
        caught_up.add(log_id)
    return log_id not in caught_up


def files_only_during_backfill(table: DynamicTable) -> DynamicTable:
    """The table for the tasks of an epoch, without the log during backfill. Called at the start of each task."""
    return table.with_hints({EMIT_MODE.key: "file"}) if is_backfilling(table) else table


def note_catch_up(table: DynamicTable, record: EpochRecord) -> None:
    """Records that the table has caught up if an epoch shows it. Called at the decision, and again for a replay.

    All attempts of an epoch that is still open therefore see the same state, even after a crash.
    """
    watermark, gap = watermark_of(record.attempts), table.options.get_typed(WATERMARK_GAP)
    if gap is None or watermark is None or not is_backfilling(table):
        return
    now = now_ms()
    if watermark >= now - gap.total_seconds() * 1000:
        table.io.create(_path(table), BackfillState(now, watermark, record.writer, record.epoch).to_json())


def _path(table: DynamicTable) -> str:
    return f"{table.path}/lakelog/catch-up"
