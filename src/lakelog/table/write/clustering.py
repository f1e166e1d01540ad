"""What is written again when the rows of a table without a primary key are laid out by columns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from lakelog.errors import InvalidRequest, InvalidSchema
from lakelog.filestore.write.data_file_writer import target_file_size
from lakelog.options.log import EMIT_MODE
from lakelog.options.overwrite import OVERWRITE_SAME_ROWS
from lakelog.options.table import WRITE_SHUFFLE
from lakelog.paimon.types.types import AtomicType
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.file_scan import Scan
from lakelog.table.write.overwrite import seal_decided

ORDER: Final = "order"
ZORDER: Final = "zorder"
STRATEGIES: Final = (ORDER, ZORDER)


@dataclass(frozen=True)
class ClusteringOrder:
    """How rows are to lie: in the ``order`` of columns, or near in all of them (``zorder``)."""

    strategy: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class ClusteringJob:
    """The data files that are replaced: ``names``, their bytes and rows; ``table`` writes the files alone."""

    table: DynamicTable
    layout: ClusteringOrder
    names: tuple[str, ...]
    file_size: int
    row_count: int

    @property
    def new_files(self) -> int:
        """In about so many files the rows will lie."""
        return max(1, -(-self.file_size // target_file_size(self.table.schema)))


def files_to_sort(table: DynamicTable, layout: ClusteringOrder, partitions: Collection[bytes] | None) -> ClusteringJob:
    """The files of the newest snapshot, of some partitions (serialised rows) or all; decided epochs are sealed first.

    Called before a sorting compaction. The rows stay the same, so readers of a log need not be told. Raises
    InvalidRequest for a table with a primary key or a strategy that there is not, InvalidSchema for columns by which
    files cannot be sorted.
    """
    layout = _checked(table, layout)
    seal_decided(table)
    splits = [s for s in Scan(table).plan() if partitions is None or s.partition in partitions]
    files = [file for split in splits for file in split.files]
    return ClusteringJob(
        table.with_hints({EMIT_MODE.key: "file", WRITE_SHUFFLE.key: "none", OVERWRITE_SAME_ROWS.key: "true"}),
        layout,
        tuple(file.file_name for file in files),
        sum(file.file_size for file in files),
        sum(file.row_count for file in files),
    )


def _checked(table: DynamicTable, layout: ClusteringOrder) -> ClusteringOrder:
    """The layout with the columns as the table calls them."""
    schema = table.schema
    if layout.strategy not in STRATEGIES:
        raise InvalidRequest(f"unknown order_strategy '{layout.strategy}': use one of {', '.join(STRATEGIES)}")
    if schema.is_keyed:
        raise InvalidRequest(
            f"rows of table {table.name} lie in the order of its primary key: only a table without one is laid out by "
            f"columns; 'file-index.bloom-filter.columns' helps to find rows by others"
        )
    if not layout.columns:
        raise InvalidSchema("name the columns by which the rows are to lie: order_by => 'a,b'")
    own = {field.name.lower(): field for field in schema.fields}
    found: list[str] = []
    for column in layout.columns:
        field = own.get(column.lower())
        if field is None:
            raise InvalidSchema(f"table {table.name} has no column '{column}'; it has: {', '.join(schema.field_names)}")
        if field.name in found:
            raise InvalidSchema(f"column '{column}' is named twice")
        if field.name in schema.partition_keys:
            raise InvalidSchema(f"column '{column}' of table {table.name} is a partition column: leave it out")
        if not isinstance(field.type, AtomicType):
            raise InvalidSchema(f"rows cannot lie by column '{column}' of table {table.name}: it is nested")
        found.append(field.name)
    return ClusteringOrder(layout.strategy, tuple(found))
