"""System tables made from metadata: a few columns of fixed types, rows from one small read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

import pyarrow as pa

from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.types import STRING, AtomicType, DataField, DataType
from lakelog.table.read.base import TableScan, chosen
from lakelog.table.read.time_travel import travel_to

TEXT: Final = STRING
LONG: Final = AtomicType("BIGINT")
INT: Final = AtomicType("INT")
TIME: Final = AtomicType("TIMESTAMP", precision=3)

Columns = tuple[tuple[str, DataType], ...]
_EPOCH: Final = datetime(1970, 1, 1)


def needed(kind: DataType) -> DataType:
    """The type NOT NULL."""
    return kind.with_nullable(False)


@dataclass(frozen=True)
class MetadataSplit:
    """The only split of such a table."""

    name: str


@dataclass(frozen=True, repr=False)
class MetadataTable(TableScan):
    """A system table with rows from one call; names and types are those of Paimon 1.4."""

    COLUMNS: ClassVar[Columns] = ()

    @property
    def row_schema(self) -> TableSchema:
        fields = tuple(DataField(at, name, kind) for at, (name, kind) in enumerate(self.COLUMNS))
        return TableSchema(0, fields, len(fields) - 1)

    @abstractmethod
    def rows(self) -> Iterable[tuple[Any, ...]]:
        """The rows, with a value for each column."""

    def plan(self) -> list[MetadataSplit]:
        return [MetadataSplit(self.table.name)]

    def read(self, split: MetadataSplit) -> Iterator[pa.RecordBatch]:
        yield from chosen(self.table_of(self.rows()), self.schema, self.filter)

    def table_of(self, rows: Iterable[tuple[Any, ...]]) -> pa.Table:
        """Rows as an Arrow table of all columns."""
        schema = arrow_schema(self.row_schema.fields)
        listed = list(rows)
        columns = zip(*listed, strict=True) if listed else ([] for _ in schema)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def snapshot(self) -> Snapshot | None:
        """The snapshot to describe: the one that the options select, else the newest."""
        return travel_to(self.table.store, self.table.options) or self.table.store.latest_snapshot()


def local_time(millis: int | None) -> datetime | None:
    """Local wall-clock time of this machine for ms since 1970."""
    return None if millis is None else datetime.fromtimestamp(millis // 1000) + timedelta(milliseconds=millis % 1000)


def wall_clock(millis: int | None) -> datetime | None:
    """A time stored as wall clock: ms since 1970 without a zone."""
    return None if millis is None else _EPOCH + timedelta(milliseconds=millis)
