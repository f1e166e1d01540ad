"""``$options``: the options of the newest schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from lakelog.options.log import shown_value
from lakelog.table.system.metadata import TEXT, Columns, MetadataTable, needed


class TableOptions(MetadataTable):
    """One row per explicit option; secrets are masked."""

    COLUMNS: ClassVar[Columns] = (("key", needed(TEXT)), ("value", needed(TEXT)))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The options."""
        return ((key, shown_value(key, value)) for key, value in self.table.schema.options.items())
