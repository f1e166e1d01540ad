"""``$branches``: the branches of the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from lakelog.table.system.metadata import TEXT, TIME, Columns, MetadataTable, local_time, needed


class Branches(MetadataTable):
    """One row per branch; its time is the last change of the branch's directory."""

    COLUMNS: ClassVar[Columns] = (("branch_name", needed(TEXT)), ("create_time", needed(TIME)))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The branches."""
        return ((name, local_time(millis)) for name, millis in self.table.store.references.branches().items())
