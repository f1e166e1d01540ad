"""The rows of some primary keys in the files, as tables or as values of the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.filestore.skipping.predicate import In, conjunction
from lakelog.logstore.formats import log_format
from lakelog.options.log import DATA_FORMAT
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.row_kind import INSERT
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.file_scan import Scan


def committed_values(
    table: DynamicTable, keys: Sequence[bytes], snapshot: int | Snapshot | None = None
) -> dict[bytes, bytes | None]:
    """Log key (JSON bytes) → log value of its row in the files, None without a row.

    The files are those of a snapshot, or the newest ones with decided epochs. Called only during healing, for the few
    keys of a failed attempt.
    """
    table = table.with_newest_schema()  # rows of another writer may have newer columns
    form = log_format(table.options.need(DATA_FORMAT))
    schema = table.schema
    key_schema = pa.schema([arrow_schema(schema.fields).field(name) for name in schema.primary_keys])
    wanted = form.decode_keys(pa.array(keys, pa.large_binary()), key_schema)
    out: dict[bytes, bytes | None] = dict.fromkeys(keys)
    for batch in rows_of_keys(Scan(table, snapshot=snapshot), wanted).to_batches():
        kinds = np.full(batch.num_rows, INSERT, dtype=np.int8)
        records, _ = form.encode(batch, kinds, "upsert", schema.primary_keys, b"")
        out.update(zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True))
    return out


def rows_of_keys(scan: Scan, keys: pa.Table) -> pa.Table:
    """The rows of a scan with one of some primary keys (a table of the key columns), in no order."""
    names = keys.column_names
    found = replace(
        scan, filter=conjunction(In(name, tuple(keys.column(name).unique().to_pylist())) for name in names)
    ).to_arrow()
    if len(names) == 1 or not found.num_rows:
        return found
    # The filter checks columns one by one; Arrow's own join does not support nested columns.
    numbered = pl.DataFrame(found.select(names)).with_row_index("_lakelog_row")
    kept = numbered.join(pl.DataFrame(keys).unique(), on=names, how="semi")
    return found.take(pa.array(kept["_lakelog_row"].to_numpy()))
