"""The newest rows of a few primary keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import polars as pl
import pyarrow as pa

from lakelog.errors import InvalidRequest
from lakelog.filestore.data_file_reader import row_schema
from lakelog.filestore.filter import In, Predicate, all_of
from lakelog.filestore.scan import Place, Split
from lakelog.spec.schema import TableSchema

_AT_ONCE = 1000
"""Keys that are looked up in one plan; more make the filter slow."""


class _Store(Protocol):
    """What a lookup needs of the file store."""

    @property
    def schema(self) -> TableSchema: ...

    def plan(
        self,
        snapshot_id: int | None = None,
        filter: Predicate | None = None,
        *,
        extra_runs: Mapping[Place, Sequence[bytes]] | None = None,
    ) -> list[Split]: ...

    def read_table(
        self, splits: Sequence[Split], columns: Sequence[str] | None = None, filter: Predicate | None = None
    ) -> pa.Table: ...


def lookup_rows(store: _Store, keys: pa.Table, extra_runs: Mapping[Place, Sequence[bytes]]) -> pa.Table:
    """The newest live rows of primary keys. Raises InvalidRequest for a table without one, or a missing key column."""
    schema = store.schema
    names = list(schema.primary_keys)
    missing = [n for n in names if n not in keys.column_names]
    if not names or missing:
        raise InvalidRequest(f"a lookup needs all primary key columns ({', '.join(names) or 'the table has none'})")
    whole = row_schema(schema, schema.field_names, False)
    wanted = keys.select(names).cast(pa.schema([whole.field(n).with_nullable(True) for n in names]))
    found = []
    for part in _parts(wanted):
        filter = all_of(In(name, tuple(part.column(name).unique().to_pylist())) for name in names)
        splits = store.plan(filter=filter, extra_runs=extra_runs)
        found.append(_having(store.read_table(splits, filter=filter), part, names))
    return pa.concat_tables(found).cast(whole) if found else whole.empty_table()


def _parts(keys: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, keys.num_rows, _AT_ONCE):
        yield keys.slice(start, _AT_ONCE)


def _having(rows: pa.Table, keys: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows with one of the keys: the filter knows the columns only one by one."""
    if len(names) == 1 or not rows.num_rows:
        return rows
    numbered = pl.DataFrame(rows.select(names)).with_row_index("_row")
    kept = numbered.join(pl.DataFrame(keys).unique(), on=list(names), how="semi")
    return rows.take(pa.array(kept["_row"].to_numpy()))
