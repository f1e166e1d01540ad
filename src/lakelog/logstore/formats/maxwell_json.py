"""``maxwell-json``: the records of Maxwell, of a log that only Maxwell writes.

A record is ``{"database":…,"table":…,"type":…,"data":{…},"old":{…}}``. ``data`` is the new row, and the deleted one
of a ``delete``. ``old`` has the former values of the columns that an ``update`` has changed, NULL among them. Rows of a
bootstrap are inserts. Its begin and end, and statements about tables, change no row.

Values are JSON: numbers, text, ``2024-01-31 23:59:59.5`` for times, base64 for bytes; a JSON column and a SET are a
JSON value, which a STRING column gets as text.

Source: Maxwell's documentation, "Data format" and "Bootstrapping"; Flink's maxwell-json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

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
from lakelog.logstore.encoding.changes import CREATED, DELETED, NOTHING, READ, UPDATED

_TYPES: Final = {
    "insert": CREATED,
    "update": UPDATED,
    "delete": DELETED,
    "bootstrap-insert": READ,
    **dict.fromkeys(("bootstrap-start", "bootstrap-complete"), NOTHING),
    **dict.fromkeys(("table-create", "table-alter", "table-drop"), NOTHING),
    **dict.fromkeys(("database-create", "database-alter", "database-drop"), NOTHING),
}


class MaxwellJson(AdoptedFormat):
    """See the module."""

    slow: ClassVar[str] = OLD_NULL

    def fields(self, image: pa.StructType) -> pa.Schema:
        return pa.schema([("data", image), ("old", image), ("type", pa.string())])

    def columns(self, read: pa.Table) -> RawChanges | None:
        data, old, types = (column.combine_chunks() for column in read.columns)
        codes = codes_of(types, _TYPES)
        if codes is None or (data.is_null().to_numpy(zero_copy_only=False) & (codes != NOTHING)).any():
            return None
        return RawChanges(data, old, codes, np.ones(len(codes), np.int64))

    def changes(self, record: Mapping[str, Any]) -> list[Change]:
        code = code_of(record, _TYPES)
        if code == NOTHING:
            return []
        if record.get("data") is None:
            raise missing("data", record["type"])
        return [change_of(code, record["data"], record.get("old"))]

    def rows_in(self, record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        yield from (row for name in ("data", "old") if isinstance(row := record.get(name), dict))
