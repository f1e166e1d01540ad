"""The schemas of a table's files, by id."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from lakelog.errors import NotFound
from lakelog.filestore.metadata.paths import TablePaths
from lakelog.io.storage.file_io import FileIO
from lakelog.options.table import is_of_another_table
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema, arrow_type
from lakelog.paimon.types.casts import can_cast
from lakelog.paimon.types.checked_values import read_as
from lakelog.paimon.types.evolution import as_before, evolve, same_type
from lakelog.paimon.types.types import ArrayType, DataType, MapType, RowType

_NAME: Final = re.compile(r"schema-(\d+)")


@dataclass(frozen=True)
class Schemas:
    """The schema files of one table; a schema file never changes, so each is read once."""

    io: FileIO
    paths: TablePaths
    _read: dict[int, TableSchema] = field(default_factory=dict, compare=False, repr=False)

    def newest_first(self) -> Iterator[TableSchema]:
        """All schemas of the table or branch, by listing; those of an earlier table in the directory are skipped."""
        matches = (_NAME.fullmatch(status.name) for status in self.io.list(self.paths.schemas))
        for schema_id in sorted((int(match[1]) for match in matches if match), reverse=True):
            schema = self._file(schema_id)
            if not self._is_foreign(schema):
                yield schema

    def own(self, ids: Iterable[int]) -> Iterator[TableSchema]:
        """Those of these schemas that exist and are not of an earlier table in the directory."""
        for schema_id in ids:
            with contextlib.suppress(NotFound):
                schema = self.get(schema_id)
                if not self._is_foreign(schema):
                    yield schema

    def _is_foreign(self, schema: TableSchema) -> bool:
        return is_of_another_table(schema.options, self.paths.schema.options)

    def _file(self, schema_id: int) -> TableSchema:
        return read_as(self.io, self.paths.schema_file(schema_id), TableSchema.from_json)

    def get(self, schema_id: int) -> TableSchema:
        """The schema of this id. Raises NotFound."""
        if schema_id == self.paths.schema.id:
            return self.paths.schema
        schema = self._read.get(schema_id)
        if schema is None:
            schema = self._file(schema_id)
            if not self._is_foreign(schema):  # its file may be deleted, and its number used
                self._read[schema_id] = schema
        return schema

    def newest_id(self, at_least: int = 0) -> int:
        """The current id of the newest schema, which an ALTER TABLE may have written after this table was opened.

        Ids have no gaps, so it is enough to check the next one. ``at_least`` is an id that is known to exist. Skips
        schemas that an ALTER of an earlier table has created here.
        """
        newest = last = max(self.paths.schema.id, at_least)
        while self.io.exists(self.paths.schema_file(last + 1)):
            last += 1
            if not self._is_foreign(self.get(last)):
                newest = last
        return newest


def can_read_as(old: DataType, new: DataType) -> bool:
    """Returns whether a column of the old type in files can be read as the new type."""
    if isinstance(old, RowType) and isinstance(new, RowType):
        before = {f.id: f.type for f in old.fields}
        return all(can_read_as(before[f.id], f.type) for f in new.fields if f.id in before)
    if isinstance(old, ArrayType) and isinstance(new, ArrayType):
        return can_read_as(old.element, new.element)
    if isinstance(old, MapType) and isinstance(new, MapType):
        return same_type(old.key, new.key) and can_read_as(old.value, new.value)
    return can_cast(old, new)


def rows_as(rows: pa.Table, written: TableSchema, table: TableSchema) -> pa.Table:
    """Converts rows of one schema to another: columns by field id, cast if their types differ.

    ``rows`` may have more columns after those of ``written``; they stay at the end. Raises UnsupportedFeature,
    InvalidSchema for a value that cannot be cast.
    """
    sources = {f.id: f for f in written.fields}
    change = as_before if written.id > table.id else evolve
    columns = []
    for target in table.fields:
        source = sources.get(target.id)
        if source is None:
            columns.append(pa.nulls(rows.num_rows, arrow_type(target.type)))
        else:
            values = rows.column(source.name).combine_chunks()
            columns.append(change(values, source.type, target.type, target.name))
    others = [name for name in rows.column_names if name not in written.field_names]
    schema = pa.schema([*arrow_schema(table.fields), *(rows.schema.field(name) for name in others)])
    return pa.Table.from_arrays([*columns, *(rows.column(name) for name in others)], schema=schema)
