"""Backfill beside the log: rows go to the files alone until a writer's watermark has come close to now.

``<table>/lakelog/catch-up`` (JSON), created when an epoch with such a watermark is decided, says since when writes fill
the log too, and by whom it was found. It is never removed: a table falls back neither by a restart nor by old rows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import orjson

from lakelog.errors import NotFound
from lakelog.io.clock import now_ms
from lakelog.options.log import EMIT_MODE, WATERMARK_GAP
from lakelog.paimon.types.checked_values import checked, read_as
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.staging.watermark import watermark_of

_KNOWN: set[tuple[int, str, str]] = set()
"""(process, table, id of its log) of tables that have caught up, which they never undo."""


@dataclass(frozen=True)
class BackfillState:
    """When a table caught up (ms since 1970), with which watermark, and in which epoch of which writer."""

    time_ms: int
    watermark_ms: int
    writer: str
    epoch: int


def catch_up_of(table: DynamicTable) -> BackfillState | None:
    """Since when writes fill the log too; None while they do not, or if they always have."""
    try:
        return read_as(table.io, _path(table), lambda data: checked(BackfillState(**orjson.loads(data))))
    except NotFound:
        return None


def is_behind(table: DynamicTable) -> bool:
    """Whether writes fill the files alone for now: with a gap (``emit.mode`` = auto) until a writer has caught up."""
    if table.options.get_typed(WATERMARK_GAP) is None or not table.writes_log_by_default:
        return False
    key = _key(table)
    if key not in _KNOWN and table.io.exists(_path(table)):
        _KNOWN.add(key)
    return key not in _KNOWN


def files_only_during_backfill(table: DynamicTable) -> DynamicTable:
    """The table as the tasks of an epoch write it. Called at the start of each."""
    return table.with_hints({EMIT_MODE.key: "file"}) if is_behind(table) else table


def note_catch_up(table: DynamicTable, record: EpochRecord) -> None:
    """Notes that the table has caught up if an epoch says so. Called when it is decided, and for a replay again.

    So all attempts of an epoch that is still open find what they found before, whatever dies.
    """
    watermark, gap = watermark_of(record.attempts), table.options.get_typed(WATERMARK_GAP)
    if gap is None or watermark is None or not is_behind(table):
        return
    now = now_ms()
    if watermark >= now - gap.total_seconds() * 1000:
        found = {"time_ms": now, "watermark_ms": watermark, "writer": record.writer, "epoch": record.epoch}
        table.io.create(_path(table), orjson.dumps(found))


def _path(table: DynamicTable) -> str:
    return f"{table.path}/lakelog/catch-up"


def _key(table: DynamicTable) -> tuple[int, str, str]:
    return os.getpid(), table.path, "" if table.log is None else table.log.log_id
