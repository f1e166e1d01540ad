"""``$manifests``: the manifests of the snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from lakelog.fileformat.avro_file import read_records
from lakelog.paimon.rows.display import partition_text
from lakelog.table.system.metadata import LONG, TEXT, Columns, MetadataTable, needed


class ManifestFiles(MetadataTable):
    """One row per manifest: of the base list, the delta list, the changelog list."""

    COLUMNS: ClassVar[Columns] = (
        ("file_name", needed(TEXT)),
        ("file_size", needed(LONG)),
        ("num_added_files", needed(LONG)),
        ("num_deleted_files", needed(LONG)),
        ("schema_id", needed(LONG)),
        ("min_partition_stats", TEXT),
        ("max_partition_stats", TEXT),
        ("min_row_id", LONG),
        ("max_row_id", LONG),
    )

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The manifests."""
        store, snapshot = self.table.store, self.snapshot()
        if snapshot is None:
            return
        lists = snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list
        for name in filter(None, lists):
            for record in read_records(store.io.read(store.paths.manifest(name))):
                stats = record["_PARTITION_STATS"]
                yield (
                    record["_FILE_NAME"],
                    record["_FILE_SIZE"],
                    record["_NUM_ADDED_FILES"],
                    record["_NUM_DELETED_FILES"],
                    record["_SCHEMA_ID"],
                    partition_text(stats["_MIN_VALUES"], store.schema),
                    partition_text(stats["_MAX_VALUES"], store.schema),
                    record.get("_MIN_ROW_ID"),
                    record.get("_MAX_ROW_ID"),
                )
