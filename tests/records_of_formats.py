"""Changes of rows as the records of each log format: those that lakelog writes, and those of other systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from lakelog.paimon.rows.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from ready_formats import ready_format

Row = Mapping[str, Any]


class Given(NamedTuple):
    """A change as a source has it: an insert has no old row, a delete no new one."""

    old: Row | None
    new: Row | None


def inserted(**row: Any) -> Given:
    """An insert."""
    return Given(None, row)


def _debezium(change: Given) -> Any:
    op = "c" if change.old is None else "d" if change.new is None else "u"
    return {"before": change.old, "after": change.new, "op": op, "source": {"db": "shop"}}


def _former(change: Given) -> Row:
    """The former values of an update."""
    new, old = change.new or {}, change.old or {}
    return {name: value for name, value in old.items() if new.get(name) != value}


def maxwell(change: Given) -> Any:
    """A record of Maxwell."""
    kind = "insert" if change.old is None else "delete" if change.new is None else "update"
    record = {"database": "shop", "table": "orders", "type": kind, "ts": 1_700_000_000, "xid": 5, "commit": True}
    record |= {"data": change.old if change.new is None else change.new}
    return record | {"old": _former(change)} if kind == "update" else record


def canal(*changes: Given) -> Any:
    """A record of Canal: changes of one kind."""
    kind = "INSERT" if changes[0].old is None else "DELETE" if changes[0].new is None else "UPDATE"
    rows = [change.old if change.new is None else change.new for change in changes]
    return {
        "data": [_texts(row or {}) for row in rows],
        "database": "shop",
        "es": 1_700_000_000_000,
        "id": 9,
        "isDdl": False,
        "mysqlType": dict.fromkeys(rows[0] or {}, "varchar(255)"),
        "old": [_texts(_former(change)) for change in changes] if kind == "UPDATE" else None,
        "pkNames": ["id"],
        "sql": "",
        "sqlType": dict.fromkeys(rows[0] or {}, 12),
        "table": "orders",
        "ts": 1_700_000_000_798,
        "type": kind,
    }


def _texts(row: Row) -> Row:
    return {name: value if value is None else str(value) for name, value in row.items()}


def _plain(change: Given) -> bytes:
    if change.new is not None:
        return orjson.dumps(change.new)
    key = orjson.dumps({"id": (change.old or {})["id"]})
    nothing = pa.array([None], pa.large_binary())
    value: bytes = ready_format("plain-json").completed(pa.array([key], pa.large_binary()), nothing, ["id"])[0].as_py()
    return value


def _own(name: str, changes: Sequence[Given], schema: pa.Schema) -> list[bytes]:
    """Records that lakelog writes, each with a schema of the columns that it has."""
    records: list[bytes] = []
    for old, new in changes:
        kinds = [INSERT] if old is None else [DELETE] if new is None else [UPDATE_BEFORE, UPDATE_AFTER]
        rows = [row for row in (old, new) if row is not None]
        own = pa.schema([schema.field(column) for column in rows[-1]])
        batch = pa.RecordBatch.from_pylist(rows, own)
        made, _ = ready_format(name).encode(batch, np.array(kinds, np.int8), "all", ["id"], b"")
        records += made.values.to_pylist()
    return records


JSON: Final[dict[str, Callable[[Given], bytes]]] = {
    "debezium-json": lambda change: orjson.dumps(_debezium(change)),
    "maxwell-json": lambda change: orjson.dumps(maxwell(change)),
    "canal-json": lambda change: orjson.dumps(canal(change)),
    "plain-json": _plain,
}
"""Format whose records are JSON → the record of a change."""


def records(name: str, changes: Sequence[Given], schema: pa.Schema) -> list[bytes]:
    """The records of a format; each has the columns of its new row, or of the old one."""
    if name in JSON:
        return [JSON[name](change) for change in changes]
    return _own(name, changes, schema)
