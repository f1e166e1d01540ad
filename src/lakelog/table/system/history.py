"""System tables of snapshots, tags and branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from lakelog.errors import NotFound
from lakelog.filestore.iceberg.table_metadata import LEFT_OUT, SHOWN, MetadataFiles
from lakelog.paimon.types.types import AtomicType
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.system.metadata import LONG, TEXT, TIME, Columns, MetadataTable, local_time, needed


class AllSnapshots(MetadataTable):
    """One row per snapshot, oldest first."""

    COLUMNS: ClassVar[Columns] = (
        ("snapshot_id", needed(LONG)), ("schema_id", needed(LONG)), ("commit_user", needed(TEXT)),
        ("commit_identifier", needed(LONG)), ("commit_kind", needed(TEXT)), ("commit_time", needed(TIME)),
        ("base_manifest_list", needed(TEXT)), ("delta_manifest_list", needed(TEXT)),
        ("changelog_manifest_list", TEXT), ("total_record_count", LONG), ("delta_record_count", LONG),
        ("changelog_record_count", LONG), ("watermark", LONG), ("next_row_id", LONG),
    )  # fmt: skip

    def rows(self) -> Iterator[tuple[Any, ...]]:
        return self.rows_of(sorted(self.table.store.snapshots.ids()))

    def rows_of(self, ids: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        """The rows of some snapshots, without expired ones."""
        store = self.table.store
        for snapshot_id in ids:
            try:
                s = store.snapshot(snapshot_id)
            except NotFound:
                continue  # expired in the meantime
            yield (
                s.id, s.schema_id, s.commit_user, s.commit_identifier, s.commit_kind,
                local_time(s.time_millis), s.base_manifest_list, s.delta_manifest_list,
                s.changelog_manifest_list, s.total_record_count, s.delta_record_count,
                s.changelog_record_count, s.watermark, s.next_row_id,
            )  # fmt: skip


_HISTORY_COLUMNS: Final = {
    "version": "snapshot_id",
    "timestamp": "commit_time",
    "operation": "commit_kind",
    "user": "commit_user",
    "schema_id": "schema_id",
    "rows": "total_record_count",
    "rows_added": "delta_record_count",
    "changes": "changelog_record_count",
    "watermark": "watermark",
}
"""Column of the result → column of ``$snapshots``."""


def snapshot_log(table: DynamicTable, limit: int | None = None, before: int | None = None) -> pa.Table:
    """One row per snapshot, the newest first: at most ``limit``, with ids below ``before``; reads no other.

    ``rows`` counts the records of all runs.
    """
    known = AllSnapshots(table)
    ids = sorted((i for i in table.store.snapshots.ids() if before is None or i < before), reverse=True)
    rows: pa.Table = known.table_of(known.rows_of(ids[:limit]))
    return rows.select(list(_HISTORY_COLUMNS.values())).rename_columns(list(_HISTORY_COLUMNS))


class Branches(MetadataTable):
    """One row per branch; its time is the last change of the branch's directory."""

    COLUMNS: ClassVar[Columns] = (("branch_name", needed(TEXT)), ("create_time", needed(TIME)))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        return ((name, local_time(millis)) for name, millis in self.table.store.references.branches().items())


_YES: Final = AtomicType("BOOLEAN")


class IcebergSnapshots(MetadataTable):
    """One row per Iceberg snapshot, oldest first; none without Iceberg metadata."""

    COLUMNS: ClassVar[Columns] = (
        ("snapshot_id", needed(LONG)), ("is_current", needed(_YES)), ("is_complete", _YES),
        ("files_shown", TEXT), ("commit_time", needed(TIME)), ("schema_id", needed(LONG)),
        ("data_files", LONG), ("records", LONG), ("files_left_out", LONG), ("deletion_vectors", LONG),
        ("tags", TEXT), ("manifest_list", needed(TEXT)),
    )  # fmt: skip

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The Iceberg snapshots of the current metadata file."""
        store = self.table.store
        files = MetadataFiles(store.io, store.paths)
        version = files.hint()
        metadata = None if version is None else files.read(version)
        if metadata is None:
            return
        for snapshot in metadata.snapshots:
            summary = snapshot.summary
            left_out, rows = _number(summary.get(LEFT_OUT)), _number(summary.get("total-records"))
            deleted = _number(summary.get("total-position-deletes"))
            yield (
                snapshot.id, snapshot.id == metadata.current, None if left_out is None else left_out == 0,
                summary.get(SHOWN), local_time(snapshot.time_millis), snapshot.schema_id,
                _number(summary.get("total-data-files")),
                None if rows is None or deleted is None else rows - deleted, left_out,
                _number(summary.get("total-delete-files")),
                ", ".join(sorted(name for name, at in metadata.tags.items() if at == snapshot.id)) or None,
                snapshot.manifest_list,
            )  # fmt: skip


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


# Paimon declares milliseconds but returns all digits of the tag's file
NANOS: Final = AtomicType("TIMESTAMP", precision=9)


class AllTags(MetadataTable):
    """One row per tag, by name."""

    COLUMNS: ClassVar[Columns] = (
        ("tag_name", needed(TEXT)), ("snapshot_id", needed(LONG)), ("schema_id", needed(LONG)),
        ("commit_time", needed(TIME)), ("record_count", LONG), ("create_time", NANOS), ("time_retained", TEXT),
    )  # fmt: skip

    def rows(self) -> Iterator[tuple[Any, ...]]:
        for tag in sorted(self.table.store.tags.list(), key=lambda tag: tag.name):
            s = tag.snapshot
            retained = None if tag.retained is None else duration_text(tag.retained)
            created = None if tag.created is None else np.datetime64(tag.created, "ns") + tag.created_nanos
            yield tag.name, s.id, s.schema_id, local_time(s.time_millis), s.total_record_count, created, retained


def duration_text(duration: timedelta) -> str:
    """A duration in ISO form as Java prints it: hours, minutes, seconds, such as ``PT36H`` or ``PT1M0.5S``."""
    millis = round(duration.total_seconds() * 1000)
    minutes, rest = divmod(millis, 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{rest / 1000:.3f}".rstrip("0").rstrip(".")
    text = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "") + (f"{seconds}S" if rest else "")
    return f"PT{text or '0S'}"
