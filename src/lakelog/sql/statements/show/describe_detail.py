"""DESCRIBE DETAIL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from lakelog.catalog.base import Identifier
from lakelog.options.log import shown_value
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement
from lakelog.sql.syntax.token_stream import TokenStream
from lakelog.table.system import SYSTEM_TABLES

_TEXTS = pa.list_(pa.string())
_TIME = pa.timestamp("ms", "UTC")


@dataclass(frozen=True)
class DescribeDetail(TableStatement):
    """``DESCRIBE|DESC DETAIL name``, in Delta's syntax."""

    needs: ClassVar[Privilege] = Privilege.READ

    @classmethod
    def parse(cls, cursor: TokenStream) -> DescribeDetail:
        """Reads the statement."""
        cursor.take()
        cursor.expect_words("DETAIL")
        name = cursor.name()
        cursor.expect_end()
        return cls(cursor.source, name)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """One row: location, keys, files of the newest snapshot, options. Raises NotFound."""
        table = session.tables.open(identifier)
        sizes = SYSTEM_TABLES.create("partitions", table).select(["file_count", "file_size_in_bytes"]).to_arrow()
        snapshot = table.store.latest_snapshot()
        options = [(key, shown_value(key, value)) for key, value in sorted(schema.options.items())]
        columns: dict[str, tuple[object, pa.DataType]] = {
            "format": ("lakelog", pa.string()),
            "name": (table.name, pa.string()),
            "description": (schema.comment, pa.string()),
            "location": (table.path, pa.string()),
            "lastModified": (None if snapshot is None else snapshot.time_millis, _TIME),
            "primaryKeys": (list(schema.primary_keys), _TEXTS),
            "partitionColumns": (list(schema.partition_keys), _TEXTS),
            "numBuckets": (schema.num_buckets, pa.int32()),
            "numFiles": (sum(sizes.column(0).to_pylist()), pa.int64()),
            "sizeInBytes": (sum(sizes.column(1).to_pylist()), pa.int64()),
            "properties": (options, pa.map_(pa.string(), pa.string())),
        }
        return pa.table({name: pa.array([value], kind) for name, (value, kind) in columns.items()})
