"""The committed row of a key, as the log would write it: what healing an upsert log restores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.filestore.skipping.predicate import In, conjunction
from lakelog.logstore.base import LogReader
from lakelog.logstore.encoding.record_format import LogFormat
from lakelog.logstore.formats import log_format
from lakelog.options.log import DATA_FORMAT
from lakelog.paimon.rows.row_kind import INSERT
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.file_scan import Scan

_READ_ROWS = 100_000
"""Changes of the log that are looked at at a time."""


def logged_values(
    reader: LogReader, form: LogFormat, bucket: int, end: int, keys: Sequence[bytes]
) -> dict[bytes, bytes | None]:
    """The newest log value of each key below an offset; for a use that writes the log only (``emit.mode`` = log).

    Reads the bucket from its beginning, so it is called while healing only.
    """
    out: dict[bytes, bytes | None] = dict.fromkeys(keys)
    for records in reader.chunks(bucket, reader.first_offsets([bucket])[bucket], end, form.records_of(_READ_ROWS)):
        is_packed = pc.and_(pc.is_null(records.column("key")), pc.is_valid(records.column("value")))
        is_wanted = pc.is_in(records.column("key"), pa.array(keys, pa.large_binary()))
        chosen = records.filter(pc.or_(is_wanted, is_packed))
        for whole in zip(chosen.column("key").to_pylist(), chosen.column("value").to_pylist(), strict=True):
            out.update((key, value) for key, value in form.split(*whole) if key in out)
    return out


def committed_values(table: DynamicTable, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
    """Log key (JSON bytes) → log value of its newest row in the files (decided epochs included), None when it has none.

    Called while healing only, for the few keys of a failed attempt.
    """
    table = table.with_newest_schema()  # a row that another writer made may have columns that this one does not know
    form = log_format(table.options.need(DATA_FORMAT))
    schema = table.schema
    key_schema = pa.schema([arrow_schema(schema.fields).field(name) for name in schema.primary_keys])
    wanted = form.decode_keys(pa.array(keys, pa.large_binary()), key_schema)
    out: dict[bytes, bytes | None] = dict.fromkeys(keys)
    for batch in rows_of_keys(Scan(table), wanted).to_batches():
        kinds = np.full(batch.num_rows, INSERT, dtype=np.int8)
        records, _ = form.encode(batch, kinds, "upsert", schema.primary_keys, b"")
        out.update(zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True))
    return out


def rows_of_keys(scan: Scan, keys: pa.Table) -> pa.Table:
    """The rows of a scan that have one of some primary keys (a table of the key columns), in no order."""
    names = keys.column_names
    found = replace(
        scan, filter=conjunction(In(name, tuple(keys.column(name).unique().to_pylist())) for name in names)
    ).to_arrow()
    if len(names) == 1 or not found.num_rows:
        return found
    # the filter knows the columns one by one; Arrow's own join takes no nested columns along
    numbered = pl.DataFrame(found.select(names)).with_row_index("_lakelog_row")
    kept = numbered.join(pl.DataFrame(keys).unique(), on=names, how="semi")
    return found.take(pa.array(kept["_lakelog_row"].to_numpy()))
