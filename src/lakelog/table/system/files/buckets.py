"""``$buckets``: rows, files and bytes of each bucket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from lakelog.paimon.rows.display import partition_text
from lakelog.table.system.files.file_counts import count_files
from lakelog.table.system.metadata import INT, LONG, TEXT, TIME, Columns, MetadataTable, needed, wall_clock


class Buckets(MetadataTable):
    """One row per bucket that has files."""

    COLUMNS: ClassVar[Columns] = (
        ("partition", TEXT),
        ("bucket", needed(INT)),
        ("record_count", needed(LONG)),
        ("file_size_in_bytes", needed(LONG)),
        ("file_count", needed(LONG)),
        ("last_update_time", TIME),
    )

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The buckets."""
        store = self.table.store
        counts = count_files(store, self.snapshot(), by_bucket=True)
        named = {(partition_text(p, store.schema), bucket): c for (p, bucket), c in counts.items()}
        for (partition, bucket), c in sorted(named.items()):
            yield partition, bucket, c.rows, c.size, c.files, wall_clock(c.newest_ms)
