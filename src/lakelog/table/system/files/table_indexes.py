"""``$table_indexes``: the index files of the snapshot: deletion vectors, hashes of keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from lakelog.filestore.metadata.manifests import IndexManifests
from lakelog.paimon.rows.display import partition_text
from lakelog.paimon.types.types import ArrayType, DataField, RowType
from lakelog.table.system.metadata import INT, LONG, TEXT, Columns, MetadataTable, needed


class TableIndexes(MetadataTable):
    """One row per index file."""

    COLUMNS: ClassVar[Columns] = (
        ("partition", TEXT),
        ("bucket", needed(INT)),
        ("index_type", needed(TEXT)),
        ("file_name", needed(TEXT)),
        ("file_size", needed(LONG)),
        ("row_count", needed(LONG)),
        (
            "dv_ranges",
            ArrayType(
                RowType(
                    (
                        DataField(0, "f0", needed(TEXT)),
                        DataField(1, "f1", needed(INT)),
                        DataField(2, "f2", needed(INT)),
                        DataField(3, "_CARDINALITY", LONG),
                    )
                )
            ),
        ),
    )

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The index files."""
        store = self.table.store
        for entry in IndexManifests(store.manifests).entries(self.snapshot()):
            vectors = entry.deletion_vectors
            ranges = None if vectors is None else [(v.data_file, v.offset, v.length, v.cardinality) for v in vectors]
            yield (
                partition_text(entry.partition, store.schema),
                entry.bucket,
                entry.index_type,
                entry.file_name,
                entry.file_size,
                entry.row_count,
                ranges,
            )
