"""``$consumers``: the positions of the table's named readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from lakelog.table.system.metadata import LONG, TEXT, Columns, MetadataTable, needed


class Consumers(MetadataTable):
    """One row per consumer."""

    COLUMNS: ClassVar[Columns] = (("consumer_id", needed(TEXT)), ("next_snapshot_id", needed(LONG)))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The consumers."""
        return ((c.name, c.next_snapshot) for c in self.table.store.consumers.list())
