"""``$file_key_ranges``: the data files with their smallest and largest keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from lakelog.table.system.files.files import key_columns, live_entries
from lakelog.table.system.metadata import INT, LONG, TEXT, Columns, MetadataTable, needed


class FileKeyRanges(MetadataTable):
    """One row per live data file."""

    COLUMNS: ClassVar[Columns] = (
        ("partition", TEXT),
        ("bucket", needed(INT)),
        ("file_path", needed(TEXT)),
        ("file_format", needed(TEXT)),
        ("schema_id", needed(LONG)),
        ("level", needed(INT)),
        ("record_count", needed(LONG)),
        ("file_size_in_bytes", needed(LONG)),
        ("min_key", TEXT),
        ("max_key", TEXT),
        ("first_row_id", LONG),
    )

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The files."""
        store = self.table.store
        return ((*key_columns(store, entry), entry.file.first_row_id) for entry in live_entries(self))
