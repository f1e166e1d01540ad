"""The rows of some primary keys in the files, as tables or as values of the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.errors import Corrupt, InvalidSchema
from lakelog.filestore.skipping.predicate import In, conjunction
from lakelog.logstore.encoding.record_format import LogFormat
from lakelog.logstore.protocol.healing_plan import LoggedChange
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.row_kind import INSERT
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.table.log.record_schemas import RecordSchemas, converted, log_keys
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.union_scan import merged_on_read


class CommittedRows:
    """The committed rows of a table for a healing: with the newest columns, whatever its log and its healer have."""

    def __init__(self, table: DynamicTable) -> None:
        self.table = table
        self._form: LogFormat = table.record_format

    def values(self, keys: Sequence[bytes], snapshot: int | Snapshot | None = None) -> dict[bytes, bytes | None]:
        """Log key (JSON bytes) → log value of its row in the files, None without a row.

        The files are those of a snapshot, or the newest ones with decided epochs. Called only during healing, for the
        few keys of a failed attempt, with keys that ``translate`` returned.
        """
        schema = self.table.schema
        key_rows = self._form.decode_keys(pa.array(keys, pa.large_binary()), key_schema(schema))
        out: dict[bytes, bytes | None] = dict.fromkeys(keys)
        for batch in rows_of_keys(Scan(merged_on_read(self.table), snapshot=snapshot), key_rows).to_batches():
            out.update(self._encoded(batch, schema))
        return out

    def translate(self, changes: Sequence[LoggedChange]) -> tuple[int | None, Sequence[LoggedChange]]:
        """The changes with the newest columns, and the schema id of these (``healing_plan.Translation``)."""
        self.table = self.table.with_newest_schema()  # rows of another writer may have newer columns
        return RecordSchemas(self.table).own_id, self.in_columns(changes)

    def in_columns(self, changes: Sequence[LoggedChange]) -> Sequence[LoggedChange]:
        """The changes with the columns of the last ``translate``."""
        schemas, schema = RecordSchemas(self.table), self.table.schema
        out = list(changes)
        for number in {change.schema for change in changes}:
            try:
                written = schemas.of(number)
            except Corrupt:
                continue  # of another program: only its key counts
            if written.id != schema.id:
                places = [at for at, change in enumerate(changes) if change.schema == number]
                changes_now = self._translated([changes[at] for at in places], written)
                for at, change in zip(places, changes_now, strict=True):
                    out[at] = change
        return out

    def former_keys(self, key: bytes) -> set[bytes]:
        """A key as records of any schema have it, since its columns may have been renamed."""
        schema = self.table.schema
        rows = self._form.decode_keys(pa.array([key], pa.large_binary()), key_schema(schema))
        names = {former.primary_keys for former in self.table.store.schemas.own(range(schema.id))}
        return {key, *(log_keys(self.table, rows.rename_columns(list(renamed)))[0] for renamed in names)}

    def _translated(self, changes: Sequence[LoggedChange], written: TableSchema) -> list[LoggedChange]:
        """Changes with the columns of an older schema. The images of all of them are decoded at once."""
        images = [(None, None) if c.value is None else self._form.images(c.value) for c in changes]
        flat = [image for pair in images for image in pair if image is not None]
        rows = iter(self._images(flat, written))
        keys = iter(self._keys([c.key for c in changes if c.value is None and c.key is not None], written))
        out = []
        for change, pair in zip(changes, images, strict=True):
            before, after = (None if image is None else next(rows) for image in pair)
            if change.value is None:
                out.append(LoggedChange(None if change.key is None else next(keys), None, change.schema))
                continue
            key = after[0] if after else before[0] if before else change.key
            value = self._form.asserting(after and after[1], before and before[1])
            out.append(LoggedChange(key, value, change.schema))
        return out

    def _images(self, images: Sequence[bytes], written: TableSchema) -> list[tuple[bytes, bytes | None]]:
        """(Key, image) of each row image, with the newest columns."""
        if not images:
            return []
        values = pa.array([self._form.asserting(image, None) for image in images], pa.large_binary())
        rows = self._form.decode(values, arrow_schema(written.fields))
        try:
            found = self._now(rows, written)
        except InvalidSchema:  # a value of a row that was never accepted may not have the new type
            found = [one for at in range(rows.num_rows) for one in self._now_or_key(rows.slice(at, 1), written)]
        return [(key, self._form.images(value)[1]) for key, value in found]

    def _now_or_key(self, row: pa.Table, written: TableSchema) -> list[tuple[bytes, bytes]]:
        """A row with the newest columns; of one that cannot be converted only the key, which is enough to delete it."""
        try:
            return self._now(row, written)
        except InvalidSchema:
            return self._now(row.select(written.primary_keys), written)

    def _now(self, rows: pa.Table, written: TableSchema) -> list[tuple[bytes, bytes]]:
        schema = self.table.schema
        now = converted(rows, written, schema, schema.field_names).select(schema.field_names)
        return self._encoded(now.combine_chunks().to_batches()[0], schema)

    def _keys(self, keys: Sequence[bytes], written: TableSchema) -> list[bytes]:
        if not keys:
            return []
        names = self.table.schema.primary_keys
        rows = self._form.decode_keys(pa.array(keys, pa.large_binary()), key_schema(written))
        return log_keys(self.table, rows.rename_columns(list(names)))

    def _encoded(self, rows: pa.RecordBatch, schema: TableSchema) -> list[tuple[bytes, bytes]]:
        kinds = np.full(rows.num_rows, INSERT, dtype=np.int8)
        records, _ = self._form.encode(rows, kinds, "upsert", schema.primary_keys, b"")
        return list(zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True))


def key_schema(schema: TableSchema) -> pa.Schema:
    """The Arrow schema of the primary key."""
    return arrow_schema(schema.select(schema.primary_keys))


def rows_of_keys(scan: Scan, keys: pa.Table) -> pa.Table:
    """The rows of a scan with one of some primary keys (a table of the key columns), in no order."""
    names = keys.column_names
    narrowed = replace(
        scan, filter=conjunction(In(name, tuple(keys.column(name).unique().to_pylist())) for name in names)
    ).to_arrow()
    if len(names) == 1 or not narrowed.num_rows:
        return narrowed
    # The filter checks columns one by one; Arrow's own join does not support nested columns.
    numbered = pl.DataFrame(narrowed.select(names)).with_row_index("_lakelog_row")
    kept = numbered.join(pl.DataFrame(keys).unique(), on=names, how="semi")
    return narrowed.take(pa.array(kept["_lakelog_row"].to_numpy()))
