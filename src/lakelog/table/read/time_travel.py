"""The snapshot that the scan options of a use select, and the table as of that snapshot (format sheet 13)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from lakelog.errors import InvalidOption, NotFound
from lakelog.filestore.metadata.snapshots import Snapshots, pick_by_time, pick_by_watermark
from lakelog.filestore.store import FileStore
from lakelog.options.option import Option, Options
from lakelog.options.scan import (
    SCAN_MODE,
    SCAN_SNAPSHOT,
    SCAN_TAG,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_VERSION,
    SCAN_WATERMARK,
)
from lakelog.paimon.metadata.snapshot import COMPACT, Snapshot
from lakelog.paimon.schema.option_changes import options_as_of
from lakelog.table.model.dynamic_table import DynamicTable

_POINTS: Final[tuple[Option[Any], ...]] = (
    SCAN_SNAPSHOT,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_TAG,
    SCAN_WATERMARK,
    SCAN_VERSION,
)


def travel_to(store: FileStore, options: Options) -> Snapshot | None:
    """The snapshot that the options select; None if they select none, which means the newest state.

    Raises NotFound if there is no such snapshot or tag, InvalidOption for two points in time at once.
    """
    given = [option.key for option in _POINTS if options.get_typed(option) is not None]
    if len(given) > 1:
        raise InvalidOption(f"options '{given[0]}' and '{given[1]}' both name a point in time: give one of them")
    if (snapshot_id := options.get_typed(SCAN_SNAPSHOT)) is not None:
        return store.snapshot(snapshot_id)
    if (tag := options.get_typed(SCAN_TAG)) is not None:
        return store.tags.get(tag).snapshot
    if (millis := options.get_typed(SCAN_TIMESTAMP_MILLIS)) is not None:
        return snapshot_at_time(store, millis)
    if (text := options.get_typed(SCAN_TIMESTAMP)) is not None:
        return snapshot_at_time(store, millis_of(text))
    if (watermark := options.get_typed(SCAN_WATERMARK)) is not None:
        return snapshot_at_watermark(store, watermark)
    if (version := options.get_typed(SCAN_VERSION)) is not None:
        return _version(store, version)
    if options.need(SCAN_MODE) == "compacted-full":
        return newest_compaction(store)
    return None


def as_of(table: DynamicTable, snapshot: Snapshot) -> DynamicTable:
    """The table with the columns of a snapshot and its current options; see ``options_as_of``."""
    schema = table.store.schemas.get(snapshot.schema_id)
    return table.with_schema(replace(schema, options=options_as_of(table.schema, schema)))


def snapshot_at_time(store: FileStore, millis: int) -> Snapshot:
    """The newest snapshot at or before a time. Raises NotFound naming the time of the oldest one."""
    low, high = _range(store)
    found = pick_by_time(store.snapshot, low, high, millis)
    if found is None:
        oldest = f"; the oldest, {low}, is of {store.snapshot(low).time_millis}" if low <= high else ""
        raise NotFound(f"table {store.table_path} has no snapshot at {millis} (ms since 1970) or before{oldest}")
    return found


def snapshot_at_watermark(store: FileStore, watermark: int) -> Snapshot:
    """The first snapshot with a watermark or a later one. Raises NotFound."""
    low, high = _range(store)
    found = pick_by_watermark(store.snapshot, low, high, watermark)
    if found is None:
        raise NotFound(f"table {store.table_path} has no snapshot with watermark {watermark} or a later one")
    return found


def newest_compaction(store: FileStore) -> Snapshot | None:
    """The newest snapshot of kind COMPACT, or the newest one if there is none."""
    snapshots: Snapshots = store.snapshots
    return next((s for s in snapshots.backwards() if s.commit_kind == COMPACT), None) or store.latest_snapshot()


def millis_of(time: int | str | datetime) -> int:
    """A time as ms since 1970; text and datetimes without a zone are in the zone of this machine.

    Raises InvalidOption for text that is no time.
    """
    if isinstance(time, int):
        return time
    try:
        log_view = time if isinstance(time, datetime) else datetime.fromisoformat(time.strip())
    except ValueError:
        raise InvalidOption(f"'{time}' is not a time: write '2024-01-31 12:00:00', or ms since 1970") from None
    return int(log_view.timestamp() * 1000)


def _version(store: FileStore, version: str) -> Snapshot:
    if store.tags.exists(version):
        return store.tags.get(version).snapshot
    prefix, _, number = version.rpartition("watermark-")
    if not prefix and number != version and number.isdigit():
        return snapshot_at_watermark(store, int(number))
    return store.snapshot(int(version)) if version.isdigit() else store.tags.get(version).snapshot


def _range(store: FileStore) -> tuple[int, int]:
    """The ids of the oldest and the newest snapshot; an empty range for a table without."""
    low, high = store.earliest_snapshot_id(), store.snapshots.latest_id()
    return (1, 0) if low is None or high is None else (low, high)
