"""``$partitions``: rows, files and bytes of each partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from lakelog.options.option import Options
from lakelog.options.table import PARTITION_DEFAULT_NAME
from lakelog.paimon.rows.display import partition_path
from lakelog.table.system.files.file_counts import count_files
from lakelog.table.system.metadata import LONG, TEXT, TIME, Columns, MetadataTable, needed, wall_clock


class Partitions(MetadataTable):
    """One row per partition that has files."""

    COLUMNS: ClassVar[Columns] = (
        ("partition", TEXT),
        ("record_count", needed(LONG)),
        ("file_size_in_bytes", needed(LONG)),
        ("file_count", needed(LONG)),
        ("last_update_time", TIME),
        ("created_at", TIME),
        ("created_by", TEXT),
        ("updated_by", TEXT),
        ("options", TEXT),
    )

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The partitions."""
        store = self.table.store
        default = Options(store.schema.options).need(PARTITION_DEFAULT_NAME)
        counts = count_files(store, self.snapshot(), by_bucket=False)
        named = [(partition_path(partition, store.schema, default), c) for (partition, _), c in counts.items()]
        for name, c in sorted(named, key=lambda item: item[0]):
            yield name, c.rows, c.size, c.files, wall_clock(c.newest_ms), None, None, None, None
