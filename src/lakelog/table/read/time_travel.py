"""The snapshot that the scan options of a use select, and the table as of that snapshot (format sheet 13)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakelog.errors import InvalidOption, NotFound
from lakelog.filestore.metadata.snapshots import Snapshots, pick_by_time, pick_by_watermark
from lakelog.filestore.store import FileStore
from lakelog.options.option import Option, Options
from lakelog.options.scan import (
    INCREMENTAL_BETWEEN_TIMESTAMP,
    READ_CUT,
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
from lakelog.table.cuts.reading import snapshot_in_cut
from lakelog.table.model.dynamic_table import DynamicTable

SESSION_ZONE: Final = "spark.sql.session.timeZone"
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?(?::?(\d\d))?")
_POINTS: Final[tuple[Option[Any], ...]] = (
    SCAN_SNAPSHOT,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_TAG,
    SCAN_WATERMARK,
    SCAN_VERSION,
    READ_CUT,
)


def travel_to(store: FileStore, options: Options) -> Snapshot | None:
    """The snapshot that the options select; None if they select none, which means the newest state.

    Raises NotFound if there is no such snapshot, tag or cut, InvalidOption for two points in time at once.
    """
    keys = [option.key for option in _POINTS if options.get_typed(option) is not None]
    if len(keys) > 1:
        raise InvalidOption(f"options '{keys[0]}' and '{keys[1]}' both name a point in time: give one of them")
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
    if (cut := options.get_typed(READ_CUT)) is not None:
        return snapshot_in_cut(store, cut)
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
    snapshot = pick_by_time(store.snapshot, low, high, millis)
    if snapshot is None:
        oldest = f"; the oldest, {low}, is of {_instant(store.snapshot(low).time_millis)}" if low <= high else ""
        raise NotFound(f"table {store.paths.table} has no snapshot at {_instant(millis)} or before{oldest}")
    return snapshot


def _instant(millis: int) -> str:
    """A time in messages, in UTC; its number where no calendar has it."""
    try:
        return f"{datetime.fromtimestamp(millis / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC ({millis} ms since 1970)"
    except (ValueError, OverflowError, OSError):
        return f"{millis} ms since 1970"


def snapshot_at_watermark(store: FileStore, watermark: int) -> Snapshot:
    """The first snapshot with a watermark or a later one. Raises NotFound."""
    low, high = _range(store)
    snapshot = pick_by_watermark(store.snapshot, low, high, watermark)
    if snapshot is None:
        raise NotFound(f"table {store.paths.table} has no snapshot with watermark {watermark} or a later one")
    return snapshot


def newest_compaction(store: FileStore) -> Snapshot | None:
    """The newest snapshot of kind COMPACT, or the newest one if there is none."""
    snapshots: Snapshots = store.snapshots
    return next((s for s in snapshots.backwards() if s.commit_kind == COMPACT), None) or store.latest_snapshot()


def millis_of(time: int | str | datetime, zone: tzinfo | None = None) -> int:
    """A time as ms since 1970; text and datetimes without a zone are in ``zone``, None: the zone of this machine.

    Raises InvalidOption for text that is no time.
    """
    if isinstance(time, int):
        return time
    try:
        instant = time if isinstance(time, datetime) else datetime.fromisoformat(time.strip())
    except ValueError:
        raise InvalidOption(f"'{time}' is not a time: write '2024-01-31 12:00:00', or ms since 1970") from None
    return int((instant.replace(tzinfo=zone) if instant.tzinfo is None else instant).timestamp() * 1000)


def zone_of(text: str) -> tzinfo | None:
    """The time zone of a session by its id, such as ``Europe/Oslo``, ``UTC`` or ``+02:00``; None for an unknown id."""
    offset = _OFFSET.fullmatch(text)
    if offset is not None:
        hours, minutes, seconds = (int(part or 0) for part in offset.group(2, 3, 4))
        size = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(-size if offset[1] == "-" else size)
    try:
        return UTC if text == "Z" else ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError):
        return None


def with_times_in(options: Mapping[str, str], zone: tzinfo | None) -> dict[str, str]:
    """Read options (canonical keys) whose times as text are in a zone, for a use that knows no zone."""
    out = dict(options)
    if zone is None:
        return out
    if SCAN_TIMESTAMP.key in out and SCAN_TIMESTAMP_MILLIS.key not in out:
        out[SCAN_TIMESTAMP_MILLIS.key] = str(millis_of(out.pop(SCAN_TIMESTAMP.key), zone))
    if INCREMENTAL_BETWEEN_TIMESTAMP.key in out:
        points = (point.strip() for point in out[INCREMENTAL_BETWEEN_TIMESTAMP.key].split(","))
        times = (p if p.isdigit() or not p else str(millis_of(p, zone)) for p in points)
        out[INCREMENTAL_BETWEEN_TIMESTAMP.key] = ",".join(times)
    return out


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
