"""The overwrites whose crash points are tested: of tables with the partition column ``p``."""

from __future__ import annotations

import pyarrow as pa

from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.partition_selection import overwrite_target
from lakelog.table.write.overwrite import OverwriteWriter, drop_partitions, truncate


def by_rows(rows: pa.Table, table: DynamicTable) -> None:
    """Replaces the partitions of the rows."""
    with OverwriteWriter(table, overwrite_target(table)) as writer:
        writer.write(rows)


def of_named(rows: pa.Table, table: DynamicTable) -> None:
    """Replaces partition ``a``."""
    with OverwriteWriter(table, overwrite_target(table, {"p": "a"})) as writer:
        writer.write(rows)


def dropped(table: DynamicTable) -> None:
    """Drops partition ``a``."""
    drop_partitions(table, [{"p": "a"}], if_exists=True)


def emptied(table: DynamicTable) -> None:
    """Removes all rows."""
    truncate(table)
