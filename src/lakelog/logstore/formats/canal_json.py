"""``canal-json``: the flat messages of Canal and of TiCDC, of a log that only these write.

A record is ``{"data":[{…},…],"old":[{…},…],"type":"UPDATE",…}``, the rows of one statement. ``data`` has the new rows,
and the deleted ones of a ``DELETE``. ``old`` has, for each row of an ``UPDATE``, the former values of the columns that
it has changed, NULL among them. Statements about tables (``isDdl``), transactions and heartbeats change no row.

All values are text: ``"12.50"``, ``"2024-01-31 23:59:59"``, ``"1"`` for true; bytes have a character for each, of
ISO 8859-1.

Source: Canal's wiki and its class FlatMessage; TiDB's documentation, "TiCDC Canal-JSON Protocol"; Flink's canal-json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, ClassVar, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Corrupt
from lakelog.logstore.encoding.adopted_format import (
    OLD_NULL,
    AdoptedFormat,
    Change,
    RawChanges,
    change_of,
    code_of,
    codes_of,
    missing,
)
from lakelog.logstore.encoding.changes import CREATED, DELETED, NOTHING, UPDATED
from lakelog.logstore.encoding.connect_columns import LATIN_1, Meaning

_TYPES: Final = {
    "INSERT": CREATED,
    "ROW": CREATED,
    "UPDATE": UPDATED,
    "DELETE": DELETED,
    **dict.fromkeys(("CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX", "QUERY"), NOTHING),
    **dict.fromkeys(("GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT", "TIDB_WATERMARK"), NOTHING),
}
_MOST_ROWS: Final = 1 << 16
"""Maximum number of rows of a record: a short text may otherwise be any number of rows."""


class CanalJson(AdoptedFormat):
    """See the module."""

    slow: ClassVar[str] = OLD_NULL

    def meaning(self, kind: pa.DataType) -> Meaning:
        is_bytes = pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)
        return Meaning(name=LATIN_1) if is_bytes else super().meaning(kind)

    def json_type(self, kind: pa.DataType, meaning: Meaning) -> pa.DataType | None:
        return pa.string()

    def fields(self, image: pa.StructType) -> pa.Schema:
        rows = pa.list_(image)
        return pa.schema([("data", rows), ("old", rows), ("type", pa.string()), ("isDdl", pa.bool_())])

    def columns(self, read: pa.Table) -> RawChanges | None:
        data, old, types, is_ddl = (column.combine_chunks() for column in read.columns)
        codes = codes_of(types, _TYPES)
        if codes is None:
            return None
        codes[pc.fill_null(is_ddl, False).to_numpy(zero_copy_only=False)] = NOTHING
        sizes, old_sizes = (pc.fill_null(pc.list_value_length(rows), -1).to_numpy() for rows in (data, old))
        has_rows, has_old = codes != NOTHING, (codes == UPDATED) & (old_sizes >= 0)
        if (has_rows & (sizes < 0)).any() or (has_old & (old_sizes != sizes)).any() or sizes.max() > _MOST_ROWS:
            return None
        counts = np.where(has_rows, sizes, 0).astype(np.int64)
        record = np.repeat(np.arange(len(counts)), counts)
        number = np.arange(len(record)) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = data.values.take(pa.array(data.offsets.to_numpy()[record] + number))
        if rows.null_count or _has_null(rows.filter(pa.array(counts[record] > 1))):
            return None
        former = old.values.take(pa.array(old.offsets.to_numpy()[record] + number, mask=~has_old[record]))
        return RawChanges(rows, former, codes[record], counts)

    def changes(self, record: Mapping[str, Any]) -> list[Change]:
        code = code_of(record, _TYPES)
        if code == NOTHING or record.get("isDdl") is True:
            return []
        rows, old = record.get("data"), record.get("old") if code == UPDATED else None
        if rows is None:
            raise missing("data", record["type"])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise Corrupt(f"field 'data' is {str(rows)[:200]}, not an array of rows")
        if len(rows) > _MOST_ROWS:
            raise Corrupt(f"field 'data' has {len(rows)} rows, and a record has at most {_MOST_ROWS}")
        if any(row.keys() != rows[0].keys() for row in rows):
            raise Corrupt("field 'data' has rows with different columns")
        if old is not None and (not isinstance(old, list) or len(old) != len(rows)):
            raise Corrupt(f"field 'old' is {str(old)[:200]}, not an array with the former values of {len(rows)} rows")
        return [change_of(code, row, former) for row, former in zip_longest(rows, old or ())]

    def rows_in(self, record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        for name in ("data", "old"):
            rows = record.get(name)
            yield from (row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else ()

    def row_counts(self, values: pa.LargeBinaryArray) -> np.ndarray:
        records = (orjson.loads(value) for value in values.to_pylist())
        return np.array([len(record.get("data") or ()) for record in records], np.int64)


def _has_null(rows: pa.StructArray) -> bool:
    """Whether a column of rows has NULL, and perhaps no field."""
    return any(rows.field(at).null_count for at in range(rows.type.num_fields))
