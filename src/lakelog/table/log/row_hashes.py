"""What makes two rows without a key equal: the hash of their values."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.logstore.formats import log_format
from lakelog.options.log import DATA_FORMAT
from lakelog.options.option import Options
from lakelog.paimon.rows.row_kind import INSERT
from lakelog.paimon.schema.schema import TableSchema


def row_hashes(schema: TableSchema, rows: pa.RecordBatch) -> pl.DataFrame:
    """128 bits of each row, in columns ``a`` and ``b``: two hashes of its value in the log."""
    plain = rows.select(schema.field_names)
    kinds = np.full(rows.num_rows, INSERT, dtype=np.int8)
    records, _ = log_format(Options({}).need(DATA_FORMAT)).encode(plain, kinds, "all", (), b"")
    values = pl.Series("value", pl.from_arrow(records.values))
    return pl.DataFrame({"a": values.hash(1), "b": values.hash(2)})
