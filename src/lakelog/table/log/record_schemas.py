"""The schema of a log record's columns: values name them, and ALTER TABLE may change the meaning of a name (RFC 17).

A record without a schema id has the *first names*: those that columns had before the first change of a meaning. Only
writers whose schema has other names write its id. So records of a table without such a change are as they always were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lakelog.errors import Corrupt, NotFound
from lakelog.filestore.metadata.schemas import Schemas, rows_as
from lakelog.logstore.protocol.header import schema_ids
from lakelog.paimon.rows.row_kind import INSERT
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType, VectorType
from lakelog.table.model.dynamic_table import DynamicTable


@dataclass(frozen=True)
class RecordSchemas:
    """The schemas of a table's log records, for a process that opened the table with one of them."""

    table: DynamicTable

    @property
    def own_id(self) -> int | None:
        """The id in the headers of records with the table's columns; None if these have the first names."""
        return None if self.first is self.table.schema else self.table.schema.id

    @cached_property
    def first(self) -> TableSchema:
        """The columns of records without an id; the table's schema itself, if it has their names and types.

        After a change of a meaning, these are the columns of before. Columns that were added since count, too, as long
        as no other column had their name: a producer that knows no ids may send them.
        """
        schema = self.table.schema
        if not schema.id:
            return schema
        key, known = (schema.id, schema.time_millis), self.table.identity.memory.first_schemas
        first = known.get(key)
        if first is None:
            first = known[key] = first_names([*self._schemas.own(range(schema.id)), schema])
        return schema if first.id == schema.id else first

    def of(self, schema_id: int | None) -> TableSchema:
        """The schema with the columns of records with this id. Raises Corrupt for one that the table does not have."""
        if schema_id is None:
            return self.first
        try:
            return self._schemas.get(schema_id)
        except NotFound:
            raise Corrupt(
                f"it names schema {schema_id}, which table {self.table.name} does not have: another program wrote it, "
                "or the schema was deleted"
            ) from None

    def required(self, schema_id: int | None) -> dict[str, str]:
        """The columns that a row with this schema has: name in the record → name in the table.

        A record without an id may be older than any column that was added later.
        """
        written = self.of(schema_id)
        old = self._schemas.own(range(1)) if schema_id is None and self.table.schema.id else []
        known = {field.id for schema in old for field in schema.fields}
        own = {field.id: field.name for field in self.table.schema.fields if not old or field.id in known}
        return {field.name: own[field.id] for field in written.fields if field.id in own}

    def runs(self, headers: pa.ChunkedArray) -> Iterator[tuple[int | None, int, int]]:
        """The records by schema: (its id, first, end) of consecutive ones. Nearly always one run."""
        ids = schema_ids(headers)
        return iter([(None, 0, len(headers))]) if ids is None else runs_of(ids)

    @property
    def _schemas(self) -> Schemas:
        return self.table.store.schemas


def runs_of(ids: np.ndarray) -> Iterator[tuple[int | None, int, int]]:
    """The runs of equal schema ids (-1: None): (id, first, end) of consecutive records."""
    for start, end in pairwise([0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), len(ids)]):
        yield None if ids[start] < 0 else int(ids[start]), start, end


def first_names(chain: Sequence[TableSchema]) -> TableSchema:
    """The schema of records without an id, from all schemas of a table in order; the last one if nothing changed."""
    first, used = chain[0], set[str]()
    for number, (before, after) in enumerate(pairwise(chain)):
        if next(changed_meanings(after, chain[: number + 1]), None) is not None:
            break
        first = after
        used.update(field.name for field in before.fields)
    if first is chain[-1]:
        return first
    fields = {field.id: field for field in first.fields}
    used.update(field.name for field in first.fields)
    for schema in chain[chain.index(first) + 1 :]:
        for field in schema.fields:
            if field.id not in fields and field.name not in used:
                fields[field.id] = field
        used.update(field.name for field in schema.fields)
    return replace(first, fields=tuple(fields.values()))


def changed_meanings(after: TableSchema, former: Sequence[TableSchema]) -> Iterator[tuple[str, str, str]]:
    """The columns (also nested) whose values in older records a reader cannot find by name: (column, done, why).

    ``former`` are the earlier schemas, the oldest first. A new column is NULL in older records and a dropped one is
    ignored, so these change no meaning.
    """
    old = dict(_named(former[-1].fields))
    used = {path: number for schema in former for number, (path, _) in _named(schema.fields)}
    for number, (path, field) in _named(after.fields):
        if number not in old:
            if used.get(path, number) != number:
                yield path, "added again", "older messages have values of the former column under it"
            continue
        old_path, old_field = old[number]
        if old_path != path:
            yield old_path, f"renamed to '{path}'", "older messages have its values under the old name"
        elif _shape(old_field.type) != _shape(field.type):
            yield path, "given another type", "older messages have values of the old type"
        elif old_field.type.nullable and not field.type.nullable:
            yield path, "made NOT NULL", "older messages may have NULL in it"


def converted(rows: pa.Table, written: TableSchema, table: TableSchema, columns: Sequence[str]) -> pa.Table:
    """Rows of records with the columns of another schema: found by id and cast as those of files (``rows_as``).

    ``rows`` have ``source_columns``, and others at the end. Raises InvalidSchema for a value that the type does not
    have, which says what to do.
    """
    present = tuple(field for field in written.fields if field.name in rows.column_names)
    return rows_as(rows, replace(written, fields=present), replace(table, fields=table.select(columns)))


def source_columns(written: TableSchema, table: TableSchema, columns: Sequence[str]) -> tuple[DataField, ...]:
    """The fields of a record's schema that contain these columns of the table; at least one, to count the rows."""
    ids = {field.id for field in table.select(columns)}
    return tuple(field for field in written.fields if field.id in ids) or written.fields[:1]


def log_keys(table: DynamicTable, rows: pa.Table) -> list[bytes]:
    """The log keys of rows of the key columns."""
    batch = rows.combine_chunks().to_batches()[0]
    kinds = np.full(batch.num_rows, INSERT, dtype=np.int8)
    encoded, _ = table.record_format.encode(batch, kinds, "upsert", batch.schema.names, b"")
    log_keys: list[bytes] = encoded.keys.to_pylist()
    return log_keys


def _named(fields: Sequence[DataField], above: str = "") -> Iterator[tuple[int, tuple[str, DataField]]]:
    """(id, (path, field)) of every column and every nested field."""
    for field in fields:
        path = f"{above}{field.name}"
        yield field.id, (path, field)
        yield from _named(_parts(field.type), f"{path}.")


def _parts(kind: DataType) -> tuple[DataField, ...]:
    """The fields of the row types directly inside a type."""
    if isinstance(kind, RowType):
        return kind.fields
    if isinstance(kind, MapType):
        return (*_parts(kind.key), *_parts(kind.value))
    return _parts(kind.element) if isinstance(kind, ArrayType | MultisetType | VectorType) else ()


def _shape(kind: DataType) -> object:
    """The type as messages represent it, without nullability; row fields are checked separately."""
    if isinstance(kind, RowType):
        return "ROW"
    if isinstance(kind, MapType):
        return "MAP", _shape(kind.key), _shape(kind.value)
    if isinstance(kind, ArrayType | MultisetType | VectorType):
        return type(kind).__name__, _shape(kind.element)
    return kind.with_nullable(True)
