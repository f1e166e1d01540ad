"""``$snapshots``: the snapshots of the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from lakelog.errors import NotFound
from lakelog.table.system.metadata import LONG, TEXT, TIME, Columns, MetadataTable, local_time, needed


class AllSnapshots(MetadataTable):
    """One row per snapshot, oldest first."""

    COLUMNS: ClassVar[Columns] = (
        ("snapshot_id", needed(LONG)),
        ("schema_id", needed(LONG)),
        ("commit_user", needed(TEXT)),
        ("commit_identifier", needed(LONG)),
        ("commit_kind", needed(TEXT)),
        ("commit_time", needed(TIME)),
        ("base_manifest_list", needed(TEXT)),
        ("delta_manifest_list", needed(TEXT)),
        ("changelog_manifest_list", TEXT),
        ("total_record_count", LONG),
        ("delta_record_count", LONG),
        ("changelog_record_count", LONG),
        ("watermark", LONG),
        ("next_row_id", LONG),
    )

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The snapshots."""
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
                s.id,
                s.schema_id,
                s.commit_user,
                s.commit_identifier,
                s.commit_kind,
                local_time(s.time_millis),
                s.base_manifest_list,
                s.delta_manifest_list,
                s.changelog_manifest_list,
                s.total_record_count,
                s.delta_record_count,
                s.changelog_record_count,
                s.watermark,
                s.next_row_id,
            )
